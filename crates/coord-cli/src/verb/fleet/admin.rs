//! `coord fleet admin FILE`: makes the administrator's login for a server (F-01).

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use coord_relay::login::Login;

use crate::context::Context;
use crate::out::Failure;

/// Largest seed file that is read, in bytes.
const SEED_BYTES_MAX: u64 = 4096;

/// Make the administrator's login for a server
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord fleet admin admin.seed   make the login; it prints the entry that the server needs\n\nThe file holds the secret half: keep it on the administrator's machine. Run again, it prints the\nentry of the same login again. `coord fleet init` takes the file."
)]
pub(super) struct Args {
    /// The file for the login's seed
    file: PathBuf,
}

pub(super) fn run(args: &Args, _: &Context) -> Result<(), Failure> {
    let login = match read(&args.file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => made(&args.file),
        Err(error) => Err(error.into()),
        Ok(seed) => Login::from_seed(&seed).map_err(|error| anyhow!(error)),
    };
    let login = login.with_context(|| args.file.display().to_string())?;
    let mut out = io::stdout().lock();
    writeln!(out, "Add this entry to the users in the server's configuration:")?;
    writeln!(out)?;
    writeln!(out, "   {{ nkey: \"{}\" }}", login.public_key())?;
    writeln!(out)?;
    Ok(writeln!(out, "`coord fleet join` prints the command that uses the file, on each machine.")?)
}

/// The seed in an administrator's file.
pub(super) fn read(file: &Path) -> io::Result<String> {
    let seed = coord_store::read_small_file(file, SEED_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(&seed).trim().to_owned())
}

fn made(file: &Path) -> anyhow::Result<Login> {
    let login = Login::new().map_err(|error| anyhow!(error))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(format!("{}\n", login.seed()).as_bytes())?;
    file.sync_all()?;
    Ok(login)
}

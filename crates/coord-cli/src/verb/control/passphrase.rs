//! `coordctl passphrase`: sets, changes and removes the passphrase that guards decisions, and gives it to
//! the coordinator (H-22, A-08).
//!
//! This verb changes the file itself, since the coordinator never needs the clear text of a new passphrase.

mod prompt;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use coord_daemon::operator::check_self;
use coord_host::passphrase::{self, BYTES_MAX, CHARS_MIN, Passphrase, PassphraseHash};
use coord_wire::api::{PassphraseStatus, PassphraseTry};

use self::prompt::Terminal;
use crate::client;
use crate::context::Context;
use crate::out::Failure;
use crate::verb::status::not_reachable;

/// How long a verification may take on a busy machine, in nanoseconds.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Set or change the passphrase that coord asks for before it answers permission prompts
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl passphrase            set a passphrase, or change it\n  coordctl passphrase --unlock   give it now, for this terminal and 8 hours\n  coordctl passphrase --remove   remove it\n\nTo change or remove the passphrase, give the old one first.\ncoord stores only its argon2id hash, in the file `passphrase` beside config.toml.\nIf you forgot it, delete that file."
)]
#[group(multiple = false)]
pub(crate) struct Args {
    /// Remove the passphrase
    #[arg(long)]
    remove: bool,
    /// Give the passphrase now, which unlocks this terminal for 8 hours
    #[arg(long)]
    unlock: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    check_self("`coordctl passphrase`").map_err(|why| anyhow!(why))?;
    let line = if args.unlock {
        unlock_now(context)?
    } else {
        change(&context.paths.passphrase(), args.remove)?
    };
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Sets, changes or removes the passphrase, and returns what was done.
fn change(file: &Path, is_removal: bool) -> anyhow::Result<String> {
    let terminal = Terminal::open()?;
    let shown = || file.display().to_string();
    let old = PassphraseHash::read(file)?;
    if let Some(old) = &old
        && !old.verify(&terminal.ask("Old passphrase: ")?)?
    {
        bail!("Wrong passphrase; nothing was changed.");
    }
    if is_removal {
        if old.is_none() {
            return Ok("No passphrase is set; nothing was changed.".to_owned());
        }
        passphrase::remove(file).with_context(shown)?;
        return Ok(format!("Passphrase removed: {}", shown()));
    }
    let new = terminal.ask("New passphrase: ")?;
    check(&new)?;
    if terminal.ask("Repeat the new passphrase: ")?.as_str() != new.as_str() {
        bail!("The two passphrases differ; nothing was changed.");
    }
    PassphraseHash::of(&new)?.write(file).with_context(shown)?;
    let what = if old.is_some() {
        "Passphrase changed; every terminal is locked again"
    } else {
        "Passphrase set"
    };
    Ok(format!("{what}. Its hash is in {}", shown()))
}

/// Refuses a new passphrase that is too short or too long.
fn check(new: &Passphrase) -> anyhow::Result<()> {
    if new.as_str().chars().count() < CHARS_MIN {
        bail!(
            "The passphrase is too short: use {CHARS_MIN} characters or more. Nothing was changed."
        );
    }
    if BYTES_MAX < new.as_str().len() {
        bail!("The passphrase is too long: use {BYTES_MAX} bytes or less. Nothing was changed.");
    }
    Ok(())
}

/// `--unlock`: unlocks this terminal unless it is, and returns what was done.
fn unlock_now(context: &Context) -> Result<String, Failure> {
    let status: PassphraseStatus = match client::get(context, "/v1/passphrase") {
        Ok(status) => status?,
        Err(miss) => return Err(Failure::NotReachable(not_reachable(miss, context))),
    };
    if let Some(problem) = status.problem {
        return Err(Failure::Failed(anyhow!(problem)));
    }
    if status.is_unlocked {
        return Ok("This terminal is unlocked already.".to_owned());
    }
    if !status.is_set {
        return Err(Failure::Failed(anyhow!("No passphrase is set. → coordctl passphrase")));
    }
    unlock(context)?;
    Ok("This terminal is unlocked for 8 hours.".to_owned())
}

/// Asks for the passphrase on the controlling terminal, and gives it to the coordinator, which unlocks this
/// terminal for 8 hours.
///
/// # Errors
/// There is no terminal, the passphrase is wrong or not set, it was tried too often, or the coordinator
/// cannot be reached.
pub(crate) fn unlock(context: &Context) -> Result<(), Failure> {
    give(&Terminal::open()?.ask("Passphrase: ")?, context)
}

/// Gives the passphrase to the coordinator, which unlocks this terminal for 8 hours.
///
/// # Errors
/// It is wrong or not set, it was tried too often, or the coordinator cannot be reached.
pub(crate) fn give(passphrase: &Passphrase, context: &Context) -> Result<(), Failure> {
    let body = PassphraseTry { passphrase: passphrase.as_str().into() };
    match client::post_for_nothing(context, "/v1/passphrase", &body, PATIENCE_NS) {
        Ok(answer) => answer,
        Err(miss) => Err(Failure::NotReachable(not_reachable(miss, context))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_has_eight_characters_or_more() {
        let checked =
            |text: &str| check(&Passphrase::new(text.to_owned())).map_err(|e| e.to_string());
        assert!(checked("1234567").unwrap_err().contains("use 8 characters or more"));
        assert!(checked(&"\u{e9}".repeat(7)).is_err(), "characters count, not bytes");
        assert_eq!(checked(&"\u{e9}".repeat(8)), Ok(()));
        assert_eq!(checked(&"x".repeat(BYTES_MAX)), Ok(()));
        assert!(checked(&"x".repeat(BYTES_MAX + 1)).unwrap_err().contains("too long"));
    }
}

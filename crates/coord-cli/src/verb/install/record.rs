//! The install record, and what `--purge` removes (H-15, H-41).

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use coord_store::read_small_file;
use coord_wire::api::InstallRecord;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use coord_wire::paths::Paths;
use rustix::fs::{Access, access};

use super::client;
use super::settings_file::{sync_directory, temporary};
use crate::context::Context;

/// Writes who installed coord here, unless it stands there already.
pub(super) fn write(context: &Context) -> anyhow::Result<()> {
    let path = context.paths.install_record();
    let program = std::env::current_exe().context("cannot tell the path of this program")?;
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{} is not UTF-8: use another path", path.display()))
    };
    let record = InstallRecord {
        v: 1,
        coord: text(&program)?,
        machine: context.here.machine.clone(),
        uid: context.here.uid,
        pid_ns: context.here.pid_ns,
        root: context.root.as_deref().map(text).transpose()?,
        tmux: on_path("tmux").as_deref().map(text).transpose()?,
        notify_send: on_path("notify-send").as_deref().map(text).transpose()?,
        git: on_path("git").as_deref().map(text).transpose()?,
        environment: context.recorded_variables()?,
        client: client::executable().as_deref().map(text).transpose()?,
    };
    let standing = read_small_file(&path, SMALL_FILE_BYTES_MAX).ok();
    let standing = standing.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if standing.as_ref() == Some(&record) {
        return Ok(());
    }
    let file = temporary(&path, &serde_json::to_vec(&record)?)?;
    file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
    sync_directory(&context.paths.state)
}

/// The program of that name that a shell would run.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).filter(|place| place.is_absolute());
    places.find_map(|place| {
        let program = place.join(name);
        let is_usable = program.is_file() && access(&program, Access::EXEC_OK).is_ok();
        is_usable.then_some(program)
    })
}

/// Refuses while a coordinator holds its lock.
pub(super) fn refuse_running(paths: &Paths) -> anyhow::Result<()> {
    let lock = match File::open(paths.coordinator_lock()) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context("cannot open the coordinator's lock"),
    };
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).context(
        "the coordinator is running, or coord cannot tell whether it is: run `coord down` first",
    )
}

/// Removes the state of this machine, the socket, and the directories left empty.
pub(super) fn purge(paths: &Paths) -> anyhow::Result<()> {
    refuse_running(paths)?;
    for file in [paths.socket(), paths.miss()] {
        ignore_absent(fs::remove_file(&file), &file)?;
    }
    ignore_absent(fs::remove_dir_all(&paths.state), &paths.state)?;
    for directory in [&paths.run, &paths.state_base] {
        // One that is not empty holds another machine's state, and stays.
        drop(fs::remove_dir(directory));
    }
    Ok(())
}

fn ignore_absent(done: std::io::Result<()>, path: &Path) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

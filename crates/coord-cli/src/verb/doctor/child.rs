//! Runs a program to its end, within a bound, with files instead of pipes: nothing it leaves behind
//! can hold us up.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use coord_wire::exchange::mono_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Of what it says, this much is read, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
/// What a program of ours or the client's needs of the environment. No variable that would lead a
/// hook elsewhere is among them.
const ENVIRONMENT: [&str; 7] =
    ["HOME", "LANG", "PATH", "TERM", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) took_ms: u64,
}

/// Runs `command` with `stdin`; ends it after `limit`.
pub(super) fn run(command: &mut Command, stdin: &[u8], limit: Duration) -> Result<Ended, String> {
    let kept = |name| Some((name, std::env::var_os(name)?));
    command.env_clear().envs(ENVIRONMENT.into_iter().filter_map(kept));
    let began_ns = mono_ns();
    let (status, [stdout, stderr]) =
        run_in_files(command, stdin, limit).map_err(|error| error.to_string())?;
    let took_ms = mono_ns().saturating_sub(began_ns) / 1_000_000;
    match status {
        Some(status) => Ok(Ended { code: status.code(), stdout, stderr, took_ms }),
        None => Err(format!("no end within {} s", limit.as_secs())),
    }
}

/// There is no status if it had to be ended.
fn run_in_files(
    command: &mut Command,
    stdin: &[u8],
    limit: Duration,
) -> std::io::Result<(Option<ExitStatus>, [String; 2])> {
    let mut input = tempfile::tempfile()?;
    input.write_all(stdin)?;
    input.rewind()?;
    let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command
        .stdin(Stdio::from(input))
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let timeout = Timespec::try_from(limit).unwrap_or_default();
    let has_ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout))? != 0;
    if !has_ended {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok((has_ended.then_some(status), [text(out)?, text(err)?]))
}

fn text(mut file: File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

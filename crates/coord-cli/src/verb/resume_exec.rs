//! `coordctl resume-exec NONCE`: the line that is typed into the shell of a crashed client (S0-25a). It
//! puts the terminal right, claims the resume, looks once more whether the session is free and the
//! directory the same (H-13, H-18), and becomes the client.
//!
//! Decides nothing about the session: the coordinator gives the whole order, and what does not fit
//! it here any more is refused.

mod signals;
mod terminal;

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use coord_host::executor::owners;
use coord_host::launch::variables::{CONFIG_DIR, MARKS, chooses};
use coord_host::process;
use coord_host::registry::Readable;
use coord_model::{Place, ProcessRef};
use coord_wire::api::{ErrorAnswer, ResumeClaim, ResumeOrder};
use coord_wire::exchange::{Answer, Miss, exchange, mono_ns, request};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::fchdir;

use crate::context::{Context, variable};
use crate::out::Failure;

/// An order is on disk before it is given.
const PATIENCE_NS: u64 = 10_000_000_000;
/// An order is a command line and some names.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
const NONCE_CHARS: usize = 32;
/// The shell's own idea of where it is; the client would take it along.
const WORKING_DIR: &str = "PWD";

/// Become the client of a crashed session: the coordinator types this line
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coordctl resume-exec 0123456789abcdef0123456789abcdef\n\ncoord types this command; each nonce works once. To bring a session back, run `coordctl recover ID`."
)]
pub(crate) struct Args {
    /// What the coordinator knows the resume by
    #[arg(value_parser = nonce)]
    nonce: String,
}

fn nonce(text: &str) -> Result<String, String> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_nonce = text.len() == NONCE_CHARS && text.bytes().all(is_hex);
    is_nonce.then(|| text.to_owned()).ok_or_else(|| "32 hexadecimal digits".to_owned())
}

/// Returns only what went wrong: else this process is the client.
pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    // First of all, so that whatever is said next can be read.
    terminal::restore();
    let own = own()?;
    let order = claim(&args.nonce, own, context)?;
    let Err(error) = become_client(&order, own);
    // The coordinator finds out by itself, later, if this does not reach it.
    let why = serde_json::json!({ "why": format!("{error:#}") });
    let _ = post(context, &format!("/v1/resume/{}/failed", args.nonce), &why);
    Err(Failure::Failed(error))
}

fn own() -> anyhow::Result<ProcessRef> {
    let pid = std::process::id();
    let stat = process::stat(pid).context("/proc/self/stat")?;
    Ok(ProcessRef { pid, start_time: stat.start_time })
}

fn post(
    context: &Context,
    path: &str,
    body: &impl serde::Serialize,
) -> Result<Result<Answer, Miss>, Failure> {
    let body = serde_json::to_vec(body)?;
    let deadline = mono_ns().saturating_add(PATIENCE_NS);
    let request = request("POST", path, &body);
    Ok(exchange(&context.paths.socket(), &request, ANSWER_BYTES_MAX, deadline))
}

fn claim(nonce: &str, own: ProcessRef, context: &Context) -> Result<ResumeOrder, Failure> {
    let claim = ResumeClaim { pid: own.pid, start_time: own.start_time };
    let answer = post(context, &format!("/v1/resume/{nonce}"), &claim)?;
    let answer = answer.map_err(|miss| {
        let remedy = "bring the session back with `coordctl recover`, or resume it by hand";
        Failure::NotReachable(format!("not resumed: {miss}; {remedy}"))
    })?;
    if answer.status == 200 {
        let order = serde_json::from_slice(&answer.body).context("the coordinator's order")?;
        return Ok(order);
    }
    let why = match serde_json::from_slice(&answer.body) {
        Ok(ErrorAnswer { error }) => error.message,
        Err(_) => format!("the coordinator answered {}", answer.status),
    };
    Err(Failure::Failed(anyhow!("not resumed: {why}; `coord inspect` shows the session's state")))
}

fn become_client(order: &ResumeOrder, own: ProcessRef) -> anyhow::Result<Infallible> {
    let (program, arguments) = order.argv.split_first().context("the order names no program")?;
    if !Path::new(program).is_absolute() {
        bail!("the order names no program by its absolute path");
    }
    enter(&order.cwd)?;
    let mut command = Command::new(program);
    surround(&mut command, order)?;
    // Last, because the time until the client registers itself is the gap that this look leaves.
    let readable = Readable::default();
    let dir = &order.config_dir_in_use;
    if !owners(&order.session_id, dir, &readable, &[own]).is_empty() {
        bail!("the session is open in another client; continue there");
    }
    signals::reset();
    let error = command.args(arguments).exec();
    Err(anyhow!(error).context(program.clone()))
}

/// Enters the directory, if it is still the one that the session worked in.
fn enter(place: &Place) -> anyhow::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = open(&place.path, flags, Mode::empty())
        .with_context(|| format!("the session's directory {}", place.path))?;
    let seen = fstat(&dir).with_context(|| place.path.clone())?;
    let is_device = place.device == 0 || seen.st_dev == place.device;
    if !is_device || seen.st_ino != place.inode {
        bail!(
            "{} is not the directory that the session worked in, although the path is the same",
            place.path
        );
    }
    fchdir(&dir).with_context(|| place.path.clone())
}

/// The client's environment: this shell's own, without the marks of a session (S0-25a), and with
/// what chooses the account as the session had it (H-18).
fn surround(command: &mut Command, order: &ResumeOrder) -> anyhow::Result<()> {
    let is_had = |name: &str| order.variables.iter().any(|had| had == name);
    let variables = order.variables.iter().map(String::as_str);
    let missing: Vec<&str> =
        variables.filter(|name| *name != CONFIG_DIR && variable(name).is_none()).collect();
    if !missing.is_empty() {
        bail!(
            "the session was started with {}, which this shell does not set, so it would use another \
             account; set the variable and resume by hand",
            missing.join(", ")
        );
    }
    for (name, _) in std::env::vars_os() {
        if is_mark(&name) || name.to_str().is_some_and(|name| chooses(name) && !is_had(name)) {
            command.env_remove(name);
        }
    }
    match &order.config_dir {
        Some(dir) => command.env(CONFIG_DIR, dir),
        None => command.env_remove(CONFIG_DIR),
    };
    command.env(WORKING_DIR, &order.cwd.path);
    Ok(())
}

fn is_mark(name: &OsString) -> bool {
    MARKS.iter().any(|mark| name == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_32_hexadecimal_digits() {
        assert!(nonce(&"0a".repeat(16)).is_ok());
        for text in ["", "0a", &"0A".repeat(16), &"0g".repeat(16), &"0a".repeat(17), "../../down"] {
            assert!(nonce(text).is_err(), "{text:?}");
        }
    }
}

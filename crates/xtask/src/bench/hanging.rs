//! Events of sessions while channels of notices hang (N-03), against the same events where no notice is sent.

use super::Bench;
use super::call::Call;
use super::events::Events;
use super::place::{load, until};
use super::sample::Sample;
use super::sandbox::Sandbox;
use super::socket::Socket;
use super::table::{Goal, Table};
use crate::{root, say};
use anyhow::{Context as _, bail};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

/// Channels that hang at once.
const CHANNELS: usize = 5;
/// Events to each coordinator, in rounds that alternate.
const ROUNDS: usize = 400;
const EACH: usize = 50;
/// Sessions that the events go round.
const SESSIONS: usize = 20;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if fs::File::open("/dev/tty").is_err() {
        // Without a terminal this process is taken for a headless client, whose prompts nobody can answer.
        say("    hanging is not measured: it needs a terminal, such as that of `script`");
        return Ok(());
    }
    let before = load();
    let [quiet, hanging] = [Sandbox::new(bench)?, Sandbox::new(bench)?];
    let (program, log) = (hanging.root().join("hang"), hanging.root().join("hangs"));
    fs::write(&program, format!("#!/bin/sh\necho x >> '{}'\nexec sleep 60\n", log.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut config = fs::read_to_string(hanging.paths.config_file())?;
    config.push_str("[notice]\ndelays = {}\n");
    for n in 0..CHANNELS {
        let program = program.display();
        write!(config, "[notice.channel.c{n}]\nvia = 'command'\nprogram = '{program}'\n")?;
    }
    fs::write(hanging.paths.config_file(), config)?;
    let coordinators = [quiet.serve()?, hanging.serve()?];
    open_prompts(bench, &[&quiet, &hanging])?;
    let started = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("all channels to hang", || Ok((started() == CHANNELS).then_some(())))?;
    let begun = Instant::now();
    let mut events = Events::new(bench)?;
    let mut sockets = [Socket::open(&quiet.paths)?, Socket::open(&hanging.paths)?];
    let mut samples: [Sample; 2] = Default::default();
    for _ in 0..bench.rounds(ROUNDS) {
        for (socket, sample) in sockets.iter_mut().zip(&mut samples) {
            for text in events.many("PostToolUse", SESSIONS, EACH)? {
                let sent = Instant::now();
                socket.post(&text, false)?;
                sample.push(sent.elapsed());
            }
        }
    }
    let took = begun.elapsed();
    for coordinator in coordinators {
        coordinator.down()?;
    }
    // A sender is given up after ten seconds.
    if 10.0 <= took.as_secs_f64() {
        bail!("the events took {took:?}: by then no channel hung any more");
    }
    let [quiet, hanging] = &samples;
    let detail = format!(
        "p99 {:.0} us with {CHANNELS} channels that hang, {:.0} us without; medians {:.0} and {:.0} us; {} events \
         each within {:.1} s; load {before} to {}",
        hanging.p99(),
        quiet.p99(),
        hanging.median(),
        quiet.median(),
        hanging.len(),
        took.as_secs_f64(),
        load()
    );
    let ratio = Some(hanging.p99() / quiet.p99()).filter(|ratio| ratio.is_finite());
    let ratio = ratio.context("no event was sent")?;
    table.row(
        "notices: event beside hanging channels, p99",
        ratio,
        "x",
        Goal::AtMost(1.1, 1.0),
        detail,
    );
    Ok(())
}

/// Reports a prompt of this process to each of these coordinators.
fn open_prompts(bench: &Bench, sandboxes: &[&Sandbox]) -> anyhow::Result<()> {
    for (hook, payload) in [
        ("coord-hook-event", "UserPromptSubmit.user.json"),
        ("coord-hook-permission-request", "PermissionRequest.Bash.json"),
    ] {
        let payload = fs::read(root().join("tests/fixtures/payloads").join(payload))?;
        let call = Call::new(&bench.programs.hook(hook), &payload);
        for sandbox in sandboxes {
            call.clone().with(&sandbox.arguments()).time()?;
        }
    }
    Ok(())
}

//! What it costs that a hook waits beside each open permission prompt: memory that no other process shares, and
//! what hooks and coordinator take while nobody replies.

use super::Bench;
use super::client::ASK;
use super::events::session_id;
use super::place::{Place, Which, load, pass, start_line, until};
use super::sample::count;
use super::standing::{hooks_of, private_kib, threads, used};
use super::table::{Goal, Table};
use anyhow::bail;
use coord_model::SessionState;
use std::time::{Duration, Instant};

/// Sessions with one open prompt each.
const PROMPTS: usize = 50;
const HOOK: &str = "coord-hook-permission-request";

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::open(bench, Which::Scripted, "[approvals]\nremote = true\n")?;
    place.set_passphrase()?;
    ask(&place)?;
    let root = place.home.root();
    let hooks = until("a hook beside each prompt", || {
        let hooks = hooks_of(&root, HOOK)?;
        Ok((hooks.len() == PROMPTS).then_some(hooks))
    })?;
    let (window, before) = (Duration::from_secs(if bench.quick { 20 } else { 120 }), load());
    let coordinator = place.coordinator();
    let waited_s = || -> anyhow::Result<f64> {
        hooks.iter().map(|pid| Ok(threads(*pid)?.values().sum::<f64>())).sum()
    };
    let (hooks_before_s, own_before) = (waited_s()?, used(coordinator)?);
    let begun = Instant::now();
    pass(begun + window);
    let took_s = begun.elapsed().as_secs_f64();
    let hooks_s = waited_s()? - hooks_before_s;
    let own = used(coordinator)?;
    // One that had ended would have cost nothing.
    let still = hooks_of(&root, HOOK)?.iter().filter(|pid| hooks.contains(pid)).count();
    if still != PROMPTS {
        bail!("{still} hooks wait after {window:?}, not {PROMPTS}");
    }
    let private_kib = private_kib(&hooks)?;
    let detail = format!("{private_kib:.0} KiB not shared in {PROMPTS} processes");
    let each = private_kib / count(PROMPTS);
    table.row("a hook that waits at a prompt", each, "KiB", Goal::AtMost(64.0, 32.0), detail);
    let percent = |seconds: f64| 100.0 * seconds / took_s;
    let detail =
        format!("{:.3} ms in {took_s:.0} s; load {before} to {}", 1000.0 * hooks_s, load());
    table.row(
        format!("waiting: {PROMPTS} hooks"),
        percent(hooks_s),
        "% of a core",
        Goal::AtMost(0.01, 0.0),
        detail,
    );
    let children = percent(own.children - own_before.children);
    let detail = format!("tmux processes it starts {children:.3} %");
    table.row(
        format!("waiting: coordinator, {PROMPTS} open prompts"),
        percent(own.own - own_before.own),
        "% of a core",
        Goal::AtMost(0.5, 0.25),
        detail,
    );
    Ok(())
}

/// Starts all sessions and has each of them ask.
fn ask(place: &Place) -> anyhow::Result<()> {
    let terminal = &place.terminal;
    let mut panes = Vec::new();
    for number in 0..PROMPTS {
        let pane = terminal.pane(&place.home.project())?;
        terminal.command(&pane, &start_line(&session_id(number)))?;
        panes.push(pane);
    }
    let all_are = |wanted: SessionState| {
        until(&format!("all sessions {wanted:?}"), || {
            let sessions = place.sessions("")?;
            let n = sessions.iter().filter(|session| session.state == wanted).count();
            Ok((n == PROMPTS).then_some(()))
        })
    };
    all_are(SessionState::Idle)?;
    for pane in &panes {
        terminal.command(pane, ASK)?;
    }
    all_are(SessionState::AwaitingPermission)
}

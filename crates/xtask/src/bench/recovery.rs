//! From SIGKILL of an unattended client in a turn to its resumed SessionStart, and what the steps on
//! the way take; beside it the same client's plain start-up, from typing its resume into the same shell.
//!
//! Each round is a new session in a new pane. Times are read off the coordinator's journal, which has
//! the same monotonic clock. Limits on repeated recoveries are out of the way (H-11); every session
//! has to prove itself at the end (H-33).

use super::Bench;
use super::client::{EXIT, HANG};
use super::events::session_id;
use super::place::{self, Place, Which, load, start_line, until};
use super::sample::Sample;
use super::table::{Goal, Table};
use super::terminal::Pane;
use anyhow::Context;
use coord_host::process;
use coord_model::{Event, HookKind, Outcome, ProcessRef, Record, SessionState};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_wire::exchange::mono_ns;
use coord_wire::inspect::Session;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::VecDeque;
use std::time::Duration;

/// Beyond the client's own start-up, in milliseconds.
const BEYOND_MS: f64 = 1000.0;
/// Brought back sessions that are left alone until they have proved themselves.
const OPEN: usize = 4;
/// A session has to have its pane looked at before it dies: rounds wait for a sweep.
const CONFIG: &str = "settle = '1s'\nsweep = '1s'\n[recovery]\nrecoveries_at_once = 1000\n\
                      recoveries_per_window = 100000\nbreaker_deaths = 100000\n";
/// The steps, in order.
const STEPS: [&str; 5] =
    ["death recorded", "proof", "line typed", "resume claimed", "SessionStart recorded"];

/// With the scripted client, which starts in no time: what coord takes.
pub(super) fn scripted(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::open(bench, Which::Scripted, CONFIG)?;
    measure(&place, "scripted client", bench.rounds(100), table)
}

/// With the real one, if it is here and the network is not.
pub(super) fn real(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !place::has_client() {
        return Ok(());
    }
    let turns = [Turn::hang().only_after(HANG).lasting(), Turn::text("Done.").lasting()];
    let place = Place::open(bench, Which::Real(FakeApi::start(turns)), CONFIG)?;
    let who = format!("client {}", coord_tests::client::VERSION);
    measure(&place, &who, bench.rounds(20), table)
}

/// What was done in a round, and when.
struct Round {
    id: String,
    pane: Pane,
    resumed_ns: u64,
    killed: ProcessRef,
    killed_ns: u64,
}

fn measure(place: &Place, who: &str, n: usize, table: &mut Table) -> anyhow::Result<()> {
    let before = load();
    let mut rounds = Vec::new();
    let mut open = VecDeque::new();
    for number in 0..n {
        let round = round(place, number)?;
        open.push_back((round.id.clone(), round.pane.clone()));
        rounds.push(round);
        if OPEN < open.len()
            && let Some((id, pane)) = open.pop_front()
        {
            finish(place, &id, &pane)?;
        }
    }
    for (id, pane) in open {
        finish(place, &id, &pane)?;
    }
    let records = place.down()?;
    let mut start_up = Sample::default();
    let mut steps = STEPS.map(|_| Sample::default());
    let mut proofs = 0;
    for round in &rounds {
        let times = Times::of(round, &records).with_context(|| round.id.clone())?;
        start_up.push(times.start_up);
        proofs += times.proofs;
        for (sample, at_ns) in steps.iter_mut().zip(times.steps_ns) {
            sample.push(Duration::from_nanos(at_ns.saturating_sub(round.killed_ns)));
        }
    }
    let whole = steps.last().context("no step")?;
    let detail = format!(
        "{}; start-up (resume typed by hand) {}; {proofs} proofs for n {n}; load {before} to {}",
        spread(whole),
        spread(&start_up),
        load()
    );
    let beyond_ms = (whole.median() - start_up.median()) / 1000.0;
    let goal = Goal::AtMost(BEYOND_MS, BEYOND_MS);
    let what = format!("{who}: kill to SessionStart, beyond start-up");
    table.row(what, beyond_ms, "ms", goal, detail);
    for (step, sample) in STEPS.iter().zip(&steps) {
        let what = format!("{who}: kill to {step}");
        table.row(what, sample.median() / 1000.0, "ms", Goal::None, spread(sample));
    }
    Ok(())
}

fn spread(sample: &Sample) -> String {
    format!("median {:.1} ms, p99 {:.1} ms", sample.median() / 1000.0, sample.p99() / 1000.0)
}

/// A session that had a turn and was left, is resumed by hand, and dies in its next turn.
fn round(place: &Place, number: usize) -> anyhow::Result<Round> {
    let id = session_id(number);
    let terminal = &place.terminal;
    let pane = terminal.pane(&place.home.project())?;
    terminal.wait_shell(&pane)?;
    terminal.command(&pane, &start_line(&id))?;
    let is_idle = |session: &Session| session.state == SessionState::Idle;
    place.when(&id, "it starts", is_idle)?;
    terminal.wait_screen(&pane, "❯\u{a0}")?;
    terminal.say(&pane, "First prompt")?;
    let has_ended = |name: &str, session: &Session| {
        session.last_event.as_ref().is_some_and(|event| event.name == name)
    };
    let session = place.when(&id, "its turn ends", |session| has_ended("Stop", session))?;
    let before = owner(&session)?;
    terminal.say(&pane, EXIT)?;
    place.when(&id, "it is left", |session| session.state == SessionState::Stopped)?;
    until("its end", || Ok((!process::is_alive(before)).then_some(())))?;

    let resumed_ns = mono_ns();
    terminal.command(&pane, &format!("{} --resume {id}", super::client::NAME))?;
    let is_other = |session: &Session, before: ProcessRef| {
        owner(session).is_ok_and(|owner| owner != before) && session.state == SessionState::Idle
    };
    let session = place.when(&id, "it is resumed by hand", |one| is_other(one, before))?;
    let killed = owner(&session)?;
    terminal.wait_screen(&pane, "❯\u{a0}")?;
    terminal.say(&pane, &format!("Second prompt, and {HANG}"))?;
    let has_pane = |session: &Session| session.evidence.iter().any(|one| one.source == "pane");
    let is_ready = |session: &Session| session.state == SessionState::Running && has_pane(session);
    place.when(&id, "its turn is open, its pane known", is_ready)?;

    let pidfd = process::open_pidfd(killed)?;
    let killed_ns = mono_ns();
    pidfd_send_signal(&pidfd, Signal::KILL)?;
    let is_back = |session: &Session| owner(session).is_ok_and(|owner| owner != killed);
    place.when(&id, "it comes back", is_back)?;
    Ok(Round { id, pane, resumed_ns, killed, killed_ns })
}

/// Waits until a brought back session has proved itself, and leaves it.
fn finish(place: &Place, id: &str, pane: &Pane) -> anyhow::Result<()> {
    let is_verified =
        |session: &Session| session.recovery.last_outcome.as_deref() == Some("verified");
    place.when(id, "it proves itself", is_verified)?;
    place.terminal.wait_screen(pane, "❯\u{a0}")?;
    place.terminal.say(pane, EXIT)?;
    place.when(id, "it is left for good", |session| session.state == SessionState::Stopped)?;
    place.terminal.close(pane)
}

fn owner(session: &Session) -> anyhow::Result<ProcessRef> {
    let owner = session.owner.as_ref().context("it has no process")?;
    Ok(ProcessRef { pid: owner.pid, start_time: owner.start_time })
}

/// The times of one round.
struct Times {
    start_up: Duration,
    /// When each of [`STEPS`] was recorded, CLOCK_MONOTONIC.
    steps_ns: [u64; STEPS.len()],
    /// Looks until the line was typed.
    proofs: usize,
}

impl Times {
    fn of(round: &Round, records: &[Record]) -> anyhow::Result<Self> {
        let started = |from_ns: u64| {
            let mut later = records.iter().filter(|record| from_ns <= record.mono_ns);
            later.find(|record| is_start(&record.entry, &round.id)).map(|record| record.mono_ns)
        };
        let resumed_ns = started(round.resumed_ns).filter(|at_ns| *at_ns < round.killed_ns);
        let resumed_ns = resumed_ns.context("it was not resumed by hand")?;
        let later = || records.iter().filter(|record| round.killed_ns <= record.mono_ns);
        let id = &round.id;
        let first = |is_it: fn(&Round, &Event) -> bool| {
            later().find(|record| is_it(round, &record.entry)).map(|record| record.mono_ns)
        };
        let died = first(
            |round, entry| matches!(entry, Event::ProcessExited { process } if *process == round.killed),
        );
        let typed = first(|round, entry| {
            matches!(entry, Event::Acted { session_id, outcome, .. }
                if *session_id == round.id && *outcome == Outcome::Done)
        });
        let claimed = first(
            |round, entry| matches!(entry, Event::ResumeClaimed { session_id, .. } if *session_id == round.id),
        );
        let proved: Vec<u64> = later()
            .filter(
                |one| matches!(&one.entry, Event::Proved { session_id, .. } if session_id == id),
            )
            .map(|record| record.mono_ns)
            .filter(|at_ns| typed.is_some_and(|typed| *at_ns < typed))
            .collect();
        let steps = [died, proved.last().copied(), typed, claimed, started(round.killed_ns)];
        let mut steps_ns = [0; STEPS.len()];
        for ((step, at_ns), name) in steps_ns.iter_mut().zip(steps).zip(STEPS) {
            *step = at_ns.with_context(|| format!("not in the journal: {name}"))?;
        }
        let proofs = proved.len();
        let start_up = Duration::from_nanos(resumed_ns.saturating_sub(round.resumed_ns));
        Ok(Self { start_up, steps_ns, proofs })
    }
}

/// Whether an entry is the SessionStart of this session.
fn is_start(entry: &Event, id: &str) -> bool {
    let Event::Hook(event) = entry else { return false };
    matches!(event.kind, HookKind::SessionStart(_)) && event.session_id == id
}

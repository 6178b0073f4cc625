//! From `coord send` to the model's request that has the message, for an idle session of the real client, in every
//! situation in which a session may be idle (U-08).

use super::Bench;
use super::client::HANG;
use super::events::session_id;
use super::place::{self, Place, Which, load, start_line, until};
use super::sample::Sample;
use super::table::{Goal, Table};
use super::terminal::Pane;
use anyhow::Context as _;
use coord_model::SessionState;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_wire::inspect::Session;
use std::time::Instant;

/// Milliseconds from the message to the request with it (U-08).
const ARRIVES_MS: f64 = 2000.0;
/// On the screen while a permission dialog is open.
const DIALOG: &str = "1. Yes";

/// How a session came to be idle.
#[derive(Debug, Clone, Copy)]
enum Situation {
    Fresh,
    AfterTurn,
    AfterEscape,
    AfterDialog,
    AfterRestart,
    AfterUpgrade,
}

const SITUATIONS: [(Situation, &str); 6] = [
    (Situation::Fresh, "a fresh session"),
    (Situation::AfterTurn, "after a turn"),
    (Situation::AfterEscape, "after Esc in a turn"),
    (Situation::AfterDialog, "after a permission dialog"),
    (Situation::AfterRestart, "after a coordinator restart"),
    (Situation::AfterUpgrade, "after an upgrade"),
];

/// A session in its pane.
struct Idle {
    id: String,
    pane: Pane,
}

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !place::has_client() {
        return Ok(());
    }
    let turns = [Turn::hang().only_after(HANG).lasting(), Turn::text("Done.").lasting()];
    let mut place = Place::open(bench, Which::Real(FakeApi::start(turns)), "settle = '1s'\n")?;
    // A message of a person's own terminal is accepted in every permission mode.
    let person = place.terminal.pane(&place.home.dir().join("home"))?;
    place.terminal.wait_shell(&person)?;
    let mut number = 0;
    for (situation, what) in SITUATIONS {
        let before = load();
        let mut times = Sample::default();
        for _ in 0..bench.rounds(20) {
            let idle = idle(&mut place, bench, situation, number)?;
            let text = format!("message number {number}.");
            let begun = Instant::now();
            place
                .terminal
                .command(&person, &place.coord_line(&format!("send {} '{text}'", idle.id)))?;
            let arrives = until("the request with the message", || {
                let requests = place.requests();
                let mut newest = requests.iter().rev();
                Ok(newest.find(|one| one.last_user_text.contains(&text)).map(drop))
            });
            arrives.with_context(|| format!("{what}: {}", place.coord(&["queue"])))?;
            times.push(begun.elapsed());
            place.terminal.close(&idle.pane)?;
            number += 1;
        }
        let detail = format!(
            "p99 {:.0} ms of {}; load {before} to {}",
            times.p99() / 1000.0,
            times.len(),
            load()
        );
        let goal = Goal::AtMost(ARRIVES_MS, ARRIVES_MS);
        table.row(
            format!("message to an idle session: {what}"),
            times.median() / 1000.0,
            "ms",
            goal,
            detail,
        );
    }
    place.down().map(drop)
}

/// Brings a new session into the situation.
fn idle(
    place: &mut Place,
    bench: &Bench,
    situation: Situation,
    number: usize,
) -> anyhow::Result<Idle> {
    let id = session_id(number);
    let terminal = &place.terminal;
    let pane = terminal.pane(&place.home.project())?;
    terminal.wait_shell(&pane)?;
    terminal.command(&pane, &start_line(&id))?;
    let is_idle = |session: &Session| session.state == SessionState::Idle;
    place.when(&id, "it starts", is_idle)?;
    terminal.wait_screen(&pane, "❯\u{a0}")?;
    let turn_ends = |session: &Session| {
        is_idle(session) && session.last_event.as_ref().is_some_and(|one| one.name == "Stop")
    };
    match situation {
        Situation::Fresh => (),
        Situation::AfterTurn => {
            terminal.say(&pane, "First prompt")?;
            place.when(&id, "its turn ends", turn_ends)?;
        }
        Situation::AfterEscape => {
            terminal.say(&pane, &format!("First prompt, and {HANG}"))?;
            let is_running = |session: &Session| session.state == SessionState::Running;
            place.when(&id, "its turn is open", is_running)?;
            terminal.key(&pane, "Escape")?;
            place.when(&id, "it is interrupted", is_idle)?;
        }
        Situation::AfterDialog => {
            let prompt = format!("First prompt, number {number}.");
            place.will_answer(Turn::bash("touch made").only_after(&prompt));
            terminal.say(&pane, &prompt)?;
            terminal.wait_screen(&pane, DIALOG)?;
            // The client ignores keys for a moment after a dialog appears (measured: up to 0.5 s).
            until("the end of the dialog", || {
                let is_open = terminal.screen(&pane)?.contains(DIALOG);
                is_open.then(|| terminal.key(&pane, "Enter")).transpose()?;
                Ok((!is_open).then_some(()))
            })?;
            place.when(&id, "its turn ends", turn_ends)?;
        }
        Situation::AfterRestart | Situation::AfterUpgrade => {
            terminal.say(&pane, "First prompt")?;
            place.when(&id, "its turn ends", turn_ends)?;
            if matches!(situation, Situation::AfterRestart) {
                place.restart()?;
            } else {
                place.upgrade(bench)?;
            }
            place.when(&id, "it is idle as before", is_idle)?;
        }
    }
    Ok(Idle { id, pane })
}

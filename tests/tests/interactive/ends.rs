//! How sessions end and stop. Holds R-10, S0-25f, S0-28a, H-05, H-10.

use crate::case::{Case, Config, Event, MANUAL};
use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use rustix::process::Signal;

pub(crate) fn ctrl_z(config: Config) {
    //
    let mut case = Case::start(config, [Turn::text("Here.").behind("answer")], &[]);
    case.prompt("Say hello");
    case.step_killed("Ctrl-Z in a turn", &[], SessionState::Suspended, |case| {
        case.pane.keys(&["C-z"]);
    });
    case.step("fg", SessionState::Running, |case| case.pane.type_line("fg"));
    case.step("answered", SessionState::Idle, |case| case.api.open("answer"));
    case.step("Ctrl-Z at the prompt", SessionState::Suspended, |case| case.pane.keys(&["C-z"]));
    case.step("fg again", SessionState::Idle, |case| case.pane.type_line("fg"));
    case.finish();
}

/// S0-25f: its user leaves it in the midst of a turn.
pub(crate) fn exit_in_a_turn(config: Config) {
    let mut case = Case::start(config, [Turn::hang()], &[]);
    case.prompt("Hang");
    case.step_killed("/exit", &[], SessionState::Stopped, |case| case.pane.type_line("/exit"));
    case.finish();
}

/// S0-28a, H-05: without the registry nothing proves how it ended.
pub(crate) fn sigkill(config: Config) {
    let turns = [Turn::text("One.").behind("one"), Turn::text("Never.").behind("never")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    case.prompt("Second prompt");
    kill(case, "SIGKILL in a turn", Event::Death);
}

/// S0-28a, H-05
pub(crate) fn sigkill_at_the_prompt(config: Config) {
    let case = Case::start(config, [], &[]);
    kill(case, "SIGKILL at the prompt", Event::DeathAtRest);
}

/// S0-28a, H-05
pub(crate) fn sigkill_at_a_permission_prompt(config: Config) {
    let mut case = Case::start(config, [Turn::bash("touch one").behind("ask")], &MANUAL);
    case.prompt("Make one");
    case.step("permission asked", SessionState::AwaitingPermission, |case| {
        case.api.open("ask");
        case.pane.wait_screen("1. Yes");
    });
    kill(case, "SIGKILL at a permission prompt", Event::Death);
}

#[track_caller]
fn kill(mut case: Case, what: &str, death: Event) {
    let dead = case.known(death);
    case.step_killed(what, &[SessionState::Unknown], dead, |case| case.signal(Signal::KILL));
    case.timeline.reach(50);
    case.finish();
}

pub(crate) fn sigterm(config: Config) {
    // S0-25f: in the midst of a turn too.
    let mut case = Case::start(config, [Turn::hang()], &[]);
    case.prompt("Hang");
    case.step_killed("SIGTERM", &[], SessionState::Stopped, |case| case.signal(Signal::TERM));
    case.finish();
}

pub(crate) fn a_closed_pane(config: Config) {
    // H-10: its server lives on, so its user stopped it.
    let mut case = Case::start(config, [Turn::hang()], &[]);
    case.prompt("Hang");
    case.step_killed("pane closed", &[], SessionState::Stopped, |case| case.pane.close());
    case.finish();
}

pub(crate) fn a_killed_tmux_server(config: Config) {
    // H-10: SessionEnd(other) beside the death of its server is a host event.
    let mut case = Case::start(config, [Turn::hang()], &[]);
    case.prompt("Hang");
    let on_the_way = [SessionState::Stopped, SessionState::Unknown];
    case.step_killed("tmux server killed", &on_the_way, SessionState::Interrupted, |case| {
        case.terminal.signal(Signal::KILL);
    });
    case.finish();
}

//! The files of a session's task: `.auto-signal` and `.auto-stop` (S1-15, S1-16, S1-24, H-06).

use crate::crashes::{PID, dead, unattended};
use crate::world::{PROMPT, STOP, World};
use coord_core::{Flag, change_since};
use coord_model::{
    Action, Command, Effect, Event, HookKind, MarkChange, Outcome, PaneState, Proof, SessionState,
    TaskFound, Whom,
};

const DIR: &str = "/task";

fn with_task() -> World {
    let mut world = unattended();
    let whom = Whom::Session(world.key());
    let marks = MarkChange { task_dir: Some(DIR.into()), ..MarkChange::default() };
    world.command(Command::Attend { whom, marks });
    world.pass(1.0);
    found(&mut world, None, None);
    let _ = world.actions();
    world
}

fn found(world: &mut World, signal: Option<u64>, stop: Option<&str>) {
    let found = TaskFound { signal, stop: stop.map(Into::into) };
    world.take(&Event::TaskRead { dir: DIR.into(), found });
}

/// How often the directory was read in so many seconds.
fn reads(world: &mut World, seconds: f64) -> usize {
    world.effects.clear();
    world.pass(seconds);
    world.effects.iter().filter(|one| matches!(one, Effect::ReadTask { dir } if dir == DIR)).count()
}

fn stop_files(actions: &[Action]) -> Vec<&Action> {
    let is_one =
        |action: &&Action| matches!(action, Action::WriteStop { .. } | Action::RemoveStop { .. });
    actions.iter().filter(is_one).collect()
}

/// Its recovery fails so often that a person is asked (G5).
fn fails_for_good(world: &mut World) {
    world.crash(PID);
    world.pass(1.0);
    for _ in 0..3 {
        let proof = dead(world);
        let (intent, _) = world.act(proof);
        world.acted(intent, Outcome::Failed { why: "no".into() });
        world.pass(100.0);
    }
    assert!(world.session("s1").recovery.needs_operator.as_ref().is_some_and(|flag| flag.is_limit));
}

// S1-16: read with every heartbeat, while there is something to learn.
#[test]
fn the_directory_is_read_once_a_minute() {
    let mut world = with_task();
    assert_eq!(reads(&mut world, 600.0), 10);
    world.hook("s1", PID, crate::world::END);
    world.registry(PID, coord_model::Registry::Absent, false);
    world.take(&Event::ProcessExited { process: crate::world::process(PID) });
    world.pass(10.0);
    assert_eq!(reads(&mut world, 600.0), 0);
}

// S1-16: what was there first is no news; what comes later begins a new iteration.
#[test]
fn a_new_signal_begins_a_new_iteration() {
    let mut world = with_task();
    let signals = |world: &World| world.decisions.iter().filter(|one| one.rule == "S1-16").count();
    assert_eq!(signals(&world), 0);
    found(&mut world, Some(1), None);
    found(&mut world, Some(1), None);
    assert_eq!(signals(&world), 1);
    found(&mut world, None, None);
    assert_eq!(signals(&world), 1);
    found(&mut world, Some(1), None);
    assert_eq!(signals(&world), 2);
    assert!(!world.state.is_task_news(DIR, &TaskFound { signal: Some(1), stop: None }));
    assert!(world.state.is_task_news(DIR, &TaskFound { signal: Some(2), stop: None }));
    assert!(
        world.state.is_task_news(DIR, &TaskFound { signal: Some(1), stop: Some(String::new()) })
    );
}

// S1-16, G5: the counts of this iteration begin anew, the total does not.
#[test]
fn a_signal_resets_the_iteration_and_never_the_total() {
    let mut world = with_task();
    world.crash(PID);
    world.pass(1.0);
    world.comes_back(200);
    assert_eq!(world.session("s1").recovery.budget.used(), (1, 1));
    found(&mut world, Some(1), None);
    assert_eq!(world.session("s1").recovery.budget.used(), (0, 1));
}

// S1-15, H-06: whoever writes a stop file stops what coord does of itself.
#[test]
fn a_stop_file_holds_everything() {
    let mut world = with_task();
    found(&mut world, None, Some("lunch"));
    world.crash(PID);
    world.pass(600.0);
    let hold = world.state.operators_hold(world.session("s1"), world.session("s1").sign);
    assert_eq!(hold.unwrap().reason, "the task directory has an .auto-stop (lunch)");
    assert_eq!(world.actions(), []);
    assert_eq!(world.state_of("s1"), SessionState::RecoveryPending);
    found(&mut world, None, None);
    world.pass(1.0);
    world.comes_back(200);
}

// S1-15: one that came after the last heartbeat is seen in the look that the act is decided on.
#[test]
fn a_stop_file_is_looked_for_before_an_act() {
    let mut world = with_task();
    world.crash(PID);
    world.pass(1.0);
    let proof = Proof { is_task_stopped: true, ..dead(&world) };
    assert_eq!(world.prove(proof.clone()), []);
    assert_eq!(world.pending().unwrap().waits_for, "the task was stopped");
    let clear = dead(&world);
    assert_eq!(
        change_since(&proof, &Proof { is_task_stopped: false, ..proof.clone() }),
        Some("the task was stopped")
    );
    world.pass(130.0);
    world.act(clear);
}

// S1-15: the limit is written down where the task is, once.
#[test]
fn at_a_limit_a_stop_file_is_written() {
    let mut world = with_task();
    fails_for_good(&mut world);
    world.pass(10.0);
    let flag = world.session("s1").recovery.needs_operator.clone().unwrap();
    assert_eq!(flag.reason, "3 recoveries in this turn");
    let wrote = world.session("s1").task.wrote.clone().unwrap();
    assert!(wrote.is_kept && wrote.dir == DIR);
    let said: serde_json::Value = serde_json::from_str(&wrote.text).unwrap();
    assert_eq!((&said["by"], &said["reason"]), (&"coord".into(), &"stall_limit".into()));
    assert_eq!(said["session_id"], "s1");
}

// S1-24: lifted or not, a file written at a limit is a person's to take away.
#[test]
fn a_stop_file_of_a_limit_is_never_taken_away() {
    let mut world = with_task();
    fails_for_good(&mut world);
    world.pass(1.0);
    let actions = world.actions();
    assert!(!stop_files(&actions).iter().any(|action| matches!(action, Action::RemoveStop { .. })));
    world.command(Command::ResetFailed { session: None });
    world.pass(120.0);
    assert_eq!(stop_files(&world.actions()), Vec::<&Action>::new());
    assert_eq!(world.session("s1").task.wrote, None);
    assert!(world.decisions.iter().any(|one| one.rule == "S1-24"));
}

// S1-15, S1-24: for another reason a person is asked the same way; when that is over, what was written is
// taken away, if nobody changed it.
#[test]
fn a_stop_file_of_another_reason_goes_with_it() {
    let mut world = with_task();
    world.crash(PID);
    world.pass(1.0);
    let gone =
        Proof { pane: PaneState::Closed, owners: vec![crate::world::process(900)], ..dead(&world) };
    assert_eq!(world.prove(gone), []);
    let wrote = world.session("s1").task.wrote.clone().unwrap();
    assert!(!wrote.is_kept && wrote.text.contains("needs_operator"), "{wrote:?}");
    world.command(Command::ResetFailed { session: None });
    world.pass(1.0);
    let actions = world.actions();
    let removed = Action::RemoveStop { dir: DIR.into(), text: wrote.text };
    assert_eq!(stop_files(&actions), [&removed]);
}

// G10: whoever was to write it may have been killed before; once it was seen, only a person removes it.
#[test]
fn a_stop_file_that_nobody_saw_is_written_again() {
    let mut world = with_task();
    fails_for_good(&mut world);
    let _ = world.actions();
    world.start_coordinator();
    assert_eq!(stop_files(&world.actions()).len(), 1);
    found(&mut world, None, Some("stall_limit"));
    found(&mut world, None, None);
    world.start_coordinator();
    assert_eq!(stop_files(&world.actions()), Vec::<&Action>::new());
}

fn give(world: &mut World, id: &str, dir: &str) {
    let whom = Whom::Session(world.session(id).key);
    let marks = MarkChange { task_dir: Some(dir.into()), ..MarkChange::default() };
    world.command(Command::Attend { whom, marks });
}

// S1-16, G10: another directory is another task, from the order on: a look, which no replay knows, is not
// waited for.
#[test]
fn another_directory_is_another_task() {
    for with_looks in [true, false] {
        let mut world = with_task();
        found(&mut world, Some(1), Some("lunch"));
        give(&mut world, "s1", "/other");
        assert_eq!(world.session("s1").task.stop, None);
        if with_looks {
            world.pass(120.0);
        }
        let signals = world.decisions.iter().filter(|one| one.rule == "S1-16").count();
        let found = TaskFound { signal: Some(2), stop: None };
        assert!(world.state.is_task_news("/other", &found));
        world.take(&Event::TaskRead { dir: "/other".into(), found });
        let after = world.decisions.iter().filter(|one| one.rule == "S1-16").count();
        assert_eq!(after, signals, "what was there first is no news");
    }
}

// S1-26: whoever has it now is the one; a session that was over does not share it when it comes back.
#[test]
fn a_task_directory_that_was_given_away_is_gone() {
    let mut world = with_task();
    world.open("s2", 300, coord_model::Kind::Interactive);
    give(&mut world, "s2", DIR);
    assert_eq!(world.session("s1").marks.task_dir, None);
    found(&mut world, None, Some("lunch"));
    assert!(world.session("s1").task.stop.is_none() && world.session("s2").task.stop.is_some());
}

// H-26: what stands in the file is ours, whatever a session is called.
#[test]
fn the_text_of_a_stop_file_is_plain() {
    let mut world = with_task();
    fails_for_good(&mut world);
    let text = world.session("s1").task.wrote.clone().unwrap().text;
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
    let Flag { reason, .. } = world.session("s1").recovery.needs_operator.clone().unwrap();
    assert!(text.contains(&reason), "{text}");
}

// H-35: the same session under a prompt of its user goes on; its stop file still holds what coord does.
#[test]
fn its_user_may_work_in_a_stopped_session() {
    let mut world = with_task();
    found(&mut world, None, Some(""));
    world.hook("s1", PID, PROMPT);
    assert_eq!(world.state_of("s1"), SessionState::Running);
    world.hook("s1", PID, STOP);
    world.hook("s1", PID, HookKind::Notification("idle_prompt".into()));
    assert_eq!(world.state_of("s1"), SessionState::Idle);
    assert!(world.session("s1").task.stop.is_some());
}

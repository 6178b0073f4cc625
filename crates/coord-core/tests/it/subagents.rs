//! Which subagents a session has (Q-03).

use crate::world::{PROMPT, STOP, World};

use coord_core::Subagent;
use coord_model::{Background, HookKind, Kind, Moment, SessionState, StartSource, ToolPhase};

/// A session in a turn.
fn in_a_turn() -> World {
    let mut world = World::new();
    world.open("s1", 11, Kind::Interactive);
    world.hook("s1", 11, PROMPT);
    world
}

impl World {
    fn subagent(&mut self, id: &str, kind: &str, event: HookKind) {
        self.send_subagent(id, kind, event, 0.0);
    }

    /// An event that was emitted `ago` seconds before it arrives.
    fn late_subagent(&mut self, id: &str, event: HookKind, ago: f64) {
        self.send_subagent(id, "Explore", event, ago);
    }

    fn send_subagent(&mut self, id: &str, kind: &str, event: HookKind, ago: f64) {
        let mut event = self.event("s1", 11, event, ago);
        event.agent = Some(id.to_owned());
        event.agent_kind = Some(kind.to_owned());
        self.send(event);
        self.pass(1.0);
    }

    fn subagents(&self) -> Vec<(String, bool)> {
        let all = self.session("s1").subagents.iter();
        all.map(|one| (one.kind.clone(), one.ended.is_some())).collect()
    }
}

fn started() -> HookKind {
    HookKind::Other("SubagentStart".to_owned())
}

fn all(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
    expected.iter().map(|(kind, ended)| ((*kind).to_owned(), *ended)).collect()
}

// R-05, Q-03: the hook of a prompt overtook the end of a subagent that asks. Its prompt is over all the same (seed 224132320);
// one that it asked later is not.
#[test]
fn a_late_end_of_a_subagent_ends_its_prompts() {
    for (ago, is_over) in [(2.0, true), (10.0, false)] {
        let mut world = in_a_turn();
        world.subagent("a1", "Explore", started());
        world.pass(5.0);
        world.subagent("a1", "Explore", HookKind::PermissionRequest);
        world.pass(2.0);
        world.hook("s1", 11, PROMPT);
        world.late_subagent("a1", HookKind::SubagentStop, ago);
        assert_eq!(world.session("s1").waits.is_empty(), is_over, "{ago} s late");
    }
}

// Q-03: from start to stop; the next turn begins without those that ended.
#[test]
fn q_03_subagents_run_from_their_start_to_their_stop() {
    let mut world = in_a_turn();
    world.subagent("a1", "Explore", started());
    world.subagent("a2", "reviewer", started());
    world.subagent("a1", "Explore", HookKind::SubagentStop);
    assert_eq!(world.subagents(), all(&[("Explore", true), ("reviewer", false)]));
    let background = Background { subagents: 1, ..Background::default() };
    world.hook("s1", 11, HookKind::Stop(background));
    assert_eq!(world.subagents(), all(&[("Explore", true), ("reviewer", false)]));
    world.hook("s1", 11, PROMPT);
    assert_eq!(world.subagents(), all(&[("reviewer", false)]), "it works in the background");
}

// Q-03: hooks get lost and come late.
#[test]
fn q_03_lost_and_late_events_of_subagents_leave_nothing_false() {
    let mut world = in_a_turn();
    world.subagent("a1", "Explore", HookKind::Tool(ToolPhase::Before));
    assert_eq!(world.subagents(), all(&[("Explore", false)]), "its start was lost");
    world.subagent("a1", "Explore", HookKind::SubagentStop);
    world.late_subagent("a1", started(), 2.0);
    assert_eq!(world.subagents(), all(&[("Explore", true)]), "its start came late");
    world.subagent("a9", "", HookKind::SubagentStop);
    assert_eq!(world.subagents().len(), 1, "a compaction reports ends of nobody");
    world.subagent("a2", "reviewer", started());
    world.hook("s1", 11, STOP);
    assert_eq!(
        world.subagents(),
        all(&[("Explore", true), ("reviewer", true)]),
        "its stop was lost"
    );
}

// Q-03: a message to a subagent that ended resumes it.
#[test]
fn q_03_a_subagent_that_is_resumed_works_again() {
    let mut world = in_a_turn();
    world.subagent("a1", "Explore", started());
    world.subagent("a1", "Explore", HookKind::SubagentStop);
    world.subagent("a1", "Explore", HookKind::Tool(ToolPhase::Before));
    assert_eq!(world.subagents(), all(&[("Explore", false)]));
}

// Q-03: what a Stop says is true of the moment in which it was emitted.
#[test]
fn q_03_a_late_stop_ends_no_subagent_that_reported_since() {
    let mut world = in_a_turn();
    world.subagent("a1", "Explore", started());
    world.subagent("a2", "reviewer", started());
    let stop = world.event("s1", 11, STOP, 1.5);
    world.send(stop);
    assert_eq!(world.subagents(), all(&[("Explore", true), ("reviewer", false)]));
}

// R-03, R-06: an interrupt ends no subagent in the background (measured), and no Stop lists it.
#[test]
fn r_03_a_subagent_that_reports_after_an_interrupt_works_in_the_background() {
    let mut world = in_a_turn();
    world.subagent("a1", "Explore", started());
    world.interrupted(11);
    assert_eq!(world.state_of("s1"), SessionState::Idle, "it may have been in the foreground");
    world.pass(5.0);
    world.late_subagent("a1", HookKind::Tool(ToolPhase::Before), 5.5);
    assert_eq!(world.state_of("s1"), SessionState::Idle, "emitted before the interrupt");
    world.subagent("a1", "Explore", HookKind::Tool(ToolPhase::After));
    assert_eq!(world.state_of("s1"), SessionState::Background);
    world.subagent("a1", "Explore", HookKind::SubagentStop);
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// A state that an earlier version wrote is read, and nothing is made of what it did not say.
#[test]
fn a_subagent_of_an_earlier_version_is_read() {
    let written = r#"{"id":"a1","kind":"Explore","since":{"awake":7,"wall_ms":8},"ended":null}"#;
    let read: Subagent = serde_json::from_str(written).unwrap();
    assert_eq!((read.id.as_str(), read.since.wall_ms, read.heard), ("a1", 8, Moment::default()));
}

#[test]
fn another_conversation_has_no_subagents_yet_and_a_compacted_one_keeps_them() {
    for (source, left) in [(StartSource::Compact, 1), (StartSource::Clear, 0)] {
        let mut world = in_a_turn();
        world.subagent("a1", "Explore", started());
        world.hook("s1", 11, HookKind::SessionStart(source));
        assert_eq!(world.subagents().len(), left, "{source:?}");
    }
}

// G11: what an agent can name without bound is bounded.
#[test]
fn subagents_are_bounded_and_the_running_ones_stay() {
    let mut world = in_a_turn();
    world.subagent("first", "Explore", started());
    for n in 0..40 {
        let id = format!("a{n}");
        world.subagent(&id, "x", started());
        world.subagent(&id, "x", HookKind::SubagentStop);
    }
    let all = world.subagents();
    assert_eq!((all.len(), &all[0]), (32, &("Explore".to_owned(), false)));
}

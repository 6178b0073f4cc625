//! What the whole machine allows (H-11).

use crate::crashes::{PID, dead, in_a_turn};
use coord_core::Outcome;

// H-11: the machine counts an attempt by the step that it takes, however long ago its first one was refused.
#[test]
fn an_attempt_that_waited_between_steps_counts_from_the_latest() {
    let mut world = in_a_turn();
    world.crash(PID);
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    let first = world.state.header().machine.starts.clone();
    world.acted(intent, Outcome::Changed { what: "its pane".into() });
    world.pass(70.0);
    let proof = dead(&world);
    let _again = world.act(proof);
    let starts = &world.state.header().machine.starts;
    assert_eq!((first.len(), starts.len()), (1, 1));
    assert_eq!(starts[0].ms_since(first[0]), 70_000);
}

//! What is told of a recovery, and what words on a screen are worth (H-07, H-35).

mod crashes;
mod world;

use coord_core::{Deed, PaneState, Prompt, Proof};
use crashes::{PID, at_rest, dead, in_a_turn};
use world::World;

// H-35: a hold has an age, and after half an hour somebody is told, once.
#[test]
fn a_long_hold_is_told_of() {
    let mut world = in_a_turn();
    world.signature();
    assert_eq!(world.waits_for(), "its transcript is looked through for the signature");
    let notices =
        |world: &World| world.decisions.iter().filter(|one| one.did == "told, once").count();
    world.pass(1_799.0);
    assert_eq!(notices(&world), 0);
    world.pass(2.0);
    assert_eq!(notices(&world), 1);
    assert!(world.deeds().iter().any(|deed| matches!(deed, Deed::Notify { .. })));
    world.pass(7_200.0);
    assert_eq!(notices(&world), 1);
}

// H-06, H-07: the words of a crash that its agent had printed do not bring back what its user killed.
#[test]
fn content_on_the_screen_of_the_dead_is_no_signature() {
    for (is_content, outcome) in [(true, Some("closed")), (false, None)] {
        let mut world = at_rest();
        world.signature();
        world.is_content(is_content);
        world.crash(PID);
        let signature = Some("RangeError: Maximum call stack size exceeded".to_owned());
        let prompt = Some(Prompt { column: 10, digest: 7 });
        let pane = PaneState::Shell { prompt, signature, has_typed: false };
        let proof = Proof { pane, ..dead(&world) };
        assert_eq!(world.prove(proof), []);
        assert_eq!(world.outcome(), outcome, "{:?}", world.pending());
    }
}

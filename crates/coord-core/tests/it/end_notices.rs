//! What is told of a recovery, and what words on a screen are worth (H-07, H-35).

use crate::crashes::{PID, at_rest, dead, in_a_turn, living};
use crate::world::World;
use coord_model::{Action, Command, Effect, Input, PaneState, Prompt, Proof};

// H-35: a hold has an age, and after half an hour somebody is told, once.
#[test]
fn a_long_hold_is_told_of() {
    let mut world = in_a_turn();
    world.signature();
    assert_eq!(world.waits_for(), "coord is searching the transcript for the signature");
    let notices =
        |world: &World| world.decisions.iter().filter(|one| one.did == "notice shown once").count();
    world.pass(1_799.0);
    assert_eq!(notices(&world), 0);
    world.pass(2.0);
    assert_eq!(notices(&world), 1);
    assert!(world.actions().iter().any(|action| matches!(action, Action::Notify { .. })));
    world.pass(7_200.0);
    assert_eq!(notices(&world), 1);
}

// H-08, H-35: what only a person ends is looked at ever more rarely, but within two minutes.
#[test]
fn a_long_wait_for_a_person_costs_few_looks() {
    let mut world = at_rest();
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: true });
    let pane = PaneState::Client { screen: None, input: Input::Draft, signature: None };
    let mut looked_at = Vec::new();
    for second in 0..600 {
        let asks = |effect: &Effect| matches!(effect, Effect::Act(action) if matches!(**action, Action::Prove { .. }));
        if world.effects.iter().any(asks) {
            looked_at.push(second);
            let proof = Proof { pane: pane.clone(), ..living(&world) };
            assert_eq!(world.prove(proof), []);
            assert_eq!(world.waits_for(), "the input line holds a draft");
        }
        world.pass(1.0);
    }
    assert_eq!(looked_at, [0, 20, 40, 80, 160, 280, 400, 520]);
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

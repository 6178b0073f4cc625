//! What is said of a conversation that cannot be resumed (H-36).

use crate::crashes::{NEXT, PID, dead, in_a_turn};
use crate::world::{PROMPT, RESUME};
use coord_model::{Proof, TranscriptState};

// H-36: a case that closed since there is nothing to resume says so of its session too.
#[test]
fn a_session_whose_transcript_has_no_turn_is_not_resumable() {
    for (transcript, is_resumable) in [
        (TranscriptState::Absent, false),
        (TranscriptState::Empty, false),
        (TranscriptState::Locked, true),
    ] {
        let mut world = in_a_turn();
        assert!(world.session("s1").is_resumable());
        world.crash(PID);
        world.pass(5.0);
        let proof = Proof { transcript, ..dead(&world) };
        world.prove(proof);
        assert_eq!(world.session("s1").is_resumable(), is_resumable, "{transcript:?}");
        // Another process of it has a conversation of its own.
        world.hook("s1", NEXT, RESUME);
        world.hook("s1", NEXT, PROMPT);
        assert!(world.session("s1").is_resumable(), "{transcript:?}");
    }
}

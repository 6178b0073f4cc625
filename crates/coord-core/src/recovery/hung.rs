//! Decides whether a living harness in the midst of a turn is proved hung (H-07), and when what did not
//! end on SIGTERM is killed (S0-25).
//!
//! A still screen and a silent registry prove nothing: where motion is reduced, a client that waits for
//! its model shows the same screen and writes nothing for as long as it waits (measured). Its main thread
//! wakes many times a second even then. One whose main thread has not run at all for a minute is hung;
//! one that spins cannot be told from one that works, and is left to its person.

use serde::{Deserialize, Serialize};

use super::Pending;
use super::guards::{Living, Stop};
use super::verdict::{Move, can_be_ended};
use crate::effect::Signal;
use crate::proof::{PaneState, Proof};
use crate::session::{Session, Turn};
use crate::state::State;
use crate::time::{Awake, Moment};

/// What a recovery waits for while its harness works.
pub(super) const TURN_OPEN: &str = "a turn is open";
/// Its main thread has not run for so long, in a turn that has been open for as long.
const HUNG_MS: u64 = 60_000;
/// One that was asked to end has not run for so long.
const ASKED_MS: u64 = 10_000;
/// And was asked no longer ago than this: what ran on for longer has outlived that signal, and hangs anew.
const ASKED_WITHIN_MS: u64 = 60_000;
/// Meanwhile it is looked at so often.
const LOOK_EVERY_MS: u64 = 10_000;

/// A main thread that did not run between looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Still {
    /// What it has run in all, nanoseconds.
    pub ran_ns: u64,
    /// Since the look that found this first.
    pub since: Awake,
    /// When it was found not to have ended on SIGTERM.
    #[serde(default)]
    pub asked_at: Option<Awake>,
}

impl Pending {
    /// A look at a harness in a turn.
    pub(super) fn note_still(&mut self, proof: &Proof, awake: Awake) {
        let asked_at = self.still.and_then(|still| still.asked_at);
        self.still = proof.ran_ns.map(|ran_ns| match self.still {
            Some(still) if still.ran_ns == ran_ns => still,
            Some(_) | None => Still { ran_ns, since: awake, asked_at },
        });
    }

    fn is_hung(&self, awake: Awake) -> bool {
        self.still.is_some_and(|still| {
            let for_ms = if still.is_asked(awake) { ASKED_MS } else { HUNG_MS };
            for_ms <= awake.ms_since(still.since)
        })
    }
}

impl Still {
    /// Whether the next signal is the one that cannot be ignored.
    fn is_asked(&self, awake: Awake) -> bool {
        self.asked_at.is_some_and(|asked| awake.ms_since(asked) < ASKED_WITHIN_MS)
    }
}

/// A turn is open: it is left alone, and looked at when it has been for long.
pub(super) fn in_a_turn(session: &Session, at: Moment) -> Result<Living, Stop> {
    let since = match session.turn {
        Turn::Open { since, .. } if !session.background.is_any() => since,
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => {
            return Err(Stop::until_told("S0-08", TURN_OPEN));
        }
    };
    let from = since.awake.plus_ms(HUNG_MS);
    if at.awake < from { Err(Stop::wait("S0-08", TURN_OPEN, from)) } else { Ok(Living::InTurn) }
}

/// What is recorded of a signal to a living harness: what was seen, and what is done.
pub(super) fn said_of_end(is_hung: bool, signal: Signal) -> (&'static str, &'static str) {
    match (is_hung, signal) {
        (false, _) => (
            "its harness is at rest, its input line empty, nobody at the terminal",
            "SIGTERM to its harness",
        ),
        (true, Signal::Term) => (
            "its harness is hung: in an open turn its main thread has not run for a minute",
            "SIGTERM to its harness",
        ),
        (true, Signal::Kill) => {
            ("its hung harness did not end on SIGTERM", "SIGKILL to its harness")
        }
    }
}

impl State {
    /// What follows from a proof of a living harness in a turn. H-08 holds, but for what only one that is
    /// not hung can show: an idle registry and an empty input line.
    pub(super) fn judge_in_turn(
        &self,
        session: &Session,
        pending: &Pending,
        proof: &Proof,
        at: Moment,
    ) -> Result<Move, Stop> {
        let again = at.awake.plus_ms(LOOK_EVERY_MS);
        if !pending.is_hung(at.awake) {
            return Err(Stop::wait("S0-08", TURN_OPEN, again));
        }
        can_be_ended(self, session, proof, at)?;
        if !matches!(proof.pane, PaneState::Client { .. }) {
            return Err(Stop::wait("H-08", "its screen cannot be read", again));
        }
        let is_asked = pending.still.is_some_and(|still| still.is_asked(at.awake));
        Ok(if is_asked { Move::Kill } else { Move::End })
    }
}

//! Decides whether a living harness in an open turn is proved hung (H-07), and when one that did not end on
//! SIGTERM is killed (S0-25).
//!
//! An unchanged screen and a silent registry prove nothing. Where motion is reduced, a client that waits for its
//! model shows the same screen and writes nothing for as long as it waits (measured). Even then its main thread
//! wakes many times a second. A client whose main thread has not run at all for a minute is hung. One that spins
//! cannot be told from one that works, and is left to its user.

use coord_model::{Awake, Moment, PaneState, Proof, Signal};

use super::guards::{Living, Stop};
use super::verdict::{Move, can_be_ended};
use crate::records::{Obstacle, Pending, Session, State, Still, Turn};

/// What a recovery waits for while its harness works.
pub(super) const TURN_OPEN: &str = "a turn is open";
/// How long the main thread must not have run, in milliseconds, in a turn that has been open for as long. SIGKILL
/// needs the same proof again, made after SIGTERM and after the last sign of life.
const HUNG_MS: u64 = 60_000;
/// Interval of the looks during that time, in milliseconds.
const LOOK_EVERY_MS: u64 = 10_000;

/// What a look at a harness in a turn shows of its main thread. Each sign of life from hooks, registry or screen voids
/// the evidence so far.
pub(super) fn next_still(session: &Session, proof: &Proof, awake: Awake) -> Option<Still> {
    let (ran_ns, sign) = (proof.ran_ns?, session.sign);
    let anew = |asked_at| Still { ran_ns, since: awake, asked_at, pane: Some(proof.pane.clone()) };
    let before = session.recovery.pending.as_ref().and_then(|pending| pending.still.clone());
    Some(match before {
        // The signal itself wakes the main thread, so what follows is measured from this look.
        Some(Still { since, asked_at: Some(asked), .. }) if since < asked && sign <= asked => {
            anew(Some(asked))
        }
        Some(still) if still.is_unchanged(ran_ns, &proof.pane, sign) => still,
        Some(_) | None => anew(None),
    })
}

impl Pending {
    fn is_hung(&self, awake: Awake) -> bool {
        let is_proof = |still: &Still| {
            let is_of_now = still.asked_at.is_none_or(|asked| asked <= still.since);
            is_of_now && HUNG_MS <= awake.ms_since(still.since)
        };
        self.still.as_ref().is_some_and(is_proof)
    }
}

impl Still {
    fn is_unchanged(&self, ran_ns: u64, pane: &PaneState, sign: Awake) -> bool {
        // A pane that could not be read is no evidence.
        let is_read = |pane: &PaneState| matches!(pane, PaneState::Client { .. });
        let before = self.pane.as_ref().filter(|before| is_read(before) && is_read(pane));
        let is_same_screen = before.is_none_or(|before| before == pane);
        self.ran_ns == ran_ns && is_same_screen && sign <= self.since
    }
}

/// Leaves an open turn alone, and has it looked at once it has been open for long.
pub(super) fn in_a_turn(session: &Session, at: Moment) -> Result<Living, Stop> {
    let since = match *session.turn {
        Turn::Open { since, .. } if !session.background.is_any() => since,
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => {
            return Err(Stop::until_event(Obstacle::TurnOpen, TURN_OPEN));
        }
    };
    let from = since.awake.plus_ms(HUNG_MS);
    if at.awake < from {
        Err(Stop::wait(Obstacle::TurnOpen, TURN_OPEN, from))
    } else {
        Ok(Living::InTurn)
    }
}

/// What is recorded of a signal to a living harness: what was seen, and what is done.
pub(super) fn said_of_end(is_hung: bool, signal: Signal) -> (&'static str, &'static str) {
    match (is_hung, signal) {
        (false, _) => (
            "the client is idle, its input line is empty, and nobody is at the terminal",
            "SIGTERM to the client",
        ),
        (true, Signal::Term) => (
            "the client hangs: its main thread has not run for a minute of an open turn",
            "SIGTERM to the client",
        ),
        (true, Signal::Kill) => {
            let saw = "the hung client did not end on SIGTERM and has not run for another minute";
            (saw, "SIGKILL to the client")
        }
    }
}

impl State {
    /// Judges a proof of a living harness in a turn. H-08 applies, except for what only a harness that is not hung
    /// can show: an idle registry and an empty input line.
    pub(super) fn judge_in_turn(
        &self,
        session: &Session,
        pending: &Pending,
        proof: &Proof,
        at: Moment,
    ) -> Result<Move, Stop> {
        let again = at.awake.plus_ms(LOOK_EVERY_MS);
        let is_notified = self.is_notified_of_end(session, pending, proof, at)?;
        if !pending.is_hung(at.awake) {
            return Err(Stop::wait(Obstacle::TurnOpen, TURN_OPEN, again));
        }
        can_be_ended(self, session, proof, at)?;
        if !matches!(proof.pane, PaneState::Client { .. }) {
            return Err(Stop::wait(Obstacle::ScreenUnreadable, "the screen cannot be read", again));
        }
        let is_asked = pending.still.as_ref().is_some_and(|still| still.asked_at.is_some());
        Ok(match (is_notified, is_asked) {
            (false, _) => Move::Grace,
            (true, false) => Move::End,
            (true, true) => Move::Kill,
        })
    }
}

//! Whether a real client that was left alone was shown `stalled`, and whether it hung.
//!
//! Decides what is a false stall, and what a missed one, in a case with the real client. That it hangs is
//! what the case knows: it holds the answer back. A stall is missed where it is not shown before the case
//! lets the client go on, which is three heartbeats and two looks after the clock of what it is at. It is
//! false wherever the client does not hang. One line a case goes where `cargo xtask truth` adds up.

use crate::home::Home;
use crate::timeline::{Named, Said, Timeline, wall_ms};
use crate::truth;
use crate::wait::wait_until;
use coord_model::SessionState;
use serde_json::json;
use std::fmt;
use std::time::Duration;

/// How much later than its clock a stall may be shown, where a heartbeat and a look are a second each.
const LATE: Duration = Duration::from_secs(5);

/// What is said of one client, from when it was left alone.
#[derive(Debug)]
pub struct Watch {
    case: String,
    session: Named,
    timeline: Timeline,
    /// When it began to hang, and when it went on for certain.
    hang: Option<(u64, u64)>,
}

/// For how long it was shown so, and why.
struct Shown {
    from_ms: u64,
    until_ms: u64,
    because: String,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from_ms, until_ms, because } = self;
        match *until_ms {
            u64::MAX => write!(f, "{because}; still"),
            until_ms => write!(f, "{because}; for {} ms", until_ms - from_ms),
        }
    }
}

impl Watch {
    /// Begins to look at the session of that id and process.
    #[track_caller]
    pub fn start(home: &Home, (id, pid): (&str, u32), case: &str) -> Self {
        let timeline = Timeline::start(home);
        timeline.look_on(1);
        let session = Named { id: id.to_owned(), pid };
        Self { case: case.to_owned(), session, timeline, hang: None }
    }

    /// The client does what is no hang for that long.
    #[track_caller]
    pub fn stay(&self, time: Duration) {
        self.timeline.stay(time);
    }

    /// The client hangs, for longer than `clock`, the time that what it is at may take; then `go_on` lets
    /// it go on.
    #[track_caller]
    pub fn hang(&mut self, clock: Duration, go_on: impl FnOnce()) {
        let from_ms = wall_ms();
        self.timeline.stay(clock + LATE);
        self.hang = Some((from_ms, wall_ms()));
        go_on();
        wait_until("it is no longer shown as stalled", || {
            let said = self.stalls();
            let is_over = said.last().is_none_or(|last| last.until_ms != u64::MAX);
            if is_over { Ok(()) } else { Err(said) }
        });
        self.hang = Some((from_ms, wall_ms()));
    }

    /// Records what was so and what was shown.
    #[track_caller]
    pub fn finish(self) {
        let stalls = self.stalls();
        let is_in = |(from_ms, until_ms): (u64, u64)| {
            move |one: &&Shown| from_ms <= one.from_ms && one.from_ms < until_ms
        };
        let (in_hang, outside): (Vec<&Shown>, Vec<&Shown>) = match self.hang {
            Some(hang) => stalls.iter().partition(is_in(hang)),
            None => (Vec::new(), stalls.iter().collect()),
        };
        let line = |case: &str, hangs: bool, shown: bool| {
            format!("{}\n", json!({"stall": {"case": case, "hangs": hangs, "shown": shown}}))
        };
        let mut text = String::new();
        if self.hang.is_some() {
            text += &line(&self.case, true, !in_hang.is_empty());
        }
        if self.hang.is_none() || !outside.is_empty() {
            text += &line(&self.case, false, !outside.is_empty());
        }
        truth::append(&text);
        assert!(outside.is_empty(), "shown as stalled while it did not hang: {outside:#?}");
        assert!(self.hang.is_none() || !in_hang.is_empty(), "it hung, and nobody was told");
    }

    /// Whenever it was shown as stalled; a coordinator that does not answer shows nothing.
    #[track_caller]
    fn stalls(&self) -> Vec<Shown> {
        let said = self.timeline.said_of(&self.session, |at_ms, said| match said {
            Said::Is(seen) => (at_ms, seen.state, seen.because.clone()),
            Said::Nothing | Said::Silence => panic!("{said:?} in the midst of it"),
        });
        let mut all: Vec<Shown> = Vec::new();
        for (at_ms, state, because) in said {
            if let Some(last) = all.last_mut().filter(|last| last.until_ms == u64::MAX) {
                last.until_ms = at_ms;
            }
            if state == SessionState::Stalled {
                all.push(Shown { from_ms: at_ms, until_ms: u64::MAX, because });
            }
        }
        all
    }
}

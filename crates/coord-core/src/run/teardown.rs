//! Decides how what a run left behind is ended: it may go by itself, then SIGTERM, then SIGKILL (S3-07).

use coord_model::{Awake, Signal};

/// The end of a tree whose run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teardown {
    grace_ms: u64,
    last: Option<(Signal, Awake)>,
    since: Awake,
}

/// What is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeardownStep {
    /// Nothing is left.
    Done,
    /// Look again at this time.
    Wait(Awake),
    /// Send this to all that is left.
    Send(Signal),
    /// What is left outlived SIGKILL.
    GiveUp,
}

impl Teardown {
    /// Of a run that ended by itself: what it left may go by itself too.
    pub fn after_exit(grace_ms: u64, now: Awake) -> Self {
        Self { grace_ms, last: None, since: now }
    }

    /// Of a run that was ended, its tree having had `signal` at `sent`.
    pub fn after_signal(grace_ms: u64, signal: Signal, sent: Awake) -> Self {
        Self { grace_ms, last: Some((signal, sent)), since: sent }
    }

    /// What to do while `left` processes are there.
    pub fn next(&mut self, left: usize, now: Awake) -> TeardownStep {
        if left == 0 {
            return TeardownStep::Done;
        }
        let due = self.since.plus_ms(self.grace_ms);
        if now < due {
            return TeardownStep::Wait(now.plus_ms(LOOK_MS).min(due));
        }
        let signal = match self.last {
            None => Signal::Term,
            Some((Signal::Term, _)) => Signal::Kill,
            Some((Signal::Kill, _)) => return TeardownStep::GiveUp,
        };
        self.last = Some((signal, now));
        self.since = now;
        TeardownStep::Send(signal)
    }
}

/// What goes by itself does so at once, mostly.
const LOOK_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    // S3-07
    #[test]
    fn what_is_left_gets_time_then_term_then_kill() {
        let at = |ms| Awake::default().plus_ms(ms);
        let mut teardown = Teardown::after_exit(5_000, at(0));
        assert_eq!(teardown.next(2, at(0)), TeardownStep::Wait(at(50)));
        assert_eq!(teardown.next(2, at(4_990)), TeardownStep::Wait(at(5_000)));
        assert_eq!(teardown.next(2, at(5_000)), TeardownStep::Send(Signal::Term));
        assert_eq!(teardown.next(1, at(9_999)), TeardownStep::Wait(at(10_000)));
        assert_eq!(teardown.next(1, at(10_000)), TeardownStep::Send(Signal::Kill));
        assert_eq!(teardown.next(1, at(15_000)), TeardownStep::GiveUp);
        assert_eq!(teardown.next(0, at(15_000)), TeardownStep::Done);
        let mut teardown = Teardown::after_signal(5_000, Signal::Term, at(0));
        assert_eq!(teardown.next(1, at(5_000)), TeardownStep::Send(Signal::Kill));
    }
}

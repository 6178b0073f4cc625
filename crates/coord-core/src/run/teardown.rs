//! Decides how the processes that a run left behind are ended (S3-07): they get time to exit, then SIGTERM, then
//! SIGKILL.

use coord_model::{Awake, Signal};

/// The teardown of a process tree whose run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teardown {
    grace_ms: u64,
    last: Option<(Signal, Awake)>,
    since: Awake,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeardownStep {
    /// Nothing is left.
    Done,
    /// Look again at this time.
    Wait(Awake),
    /// Send this signal to all processes that are left.
    Send(Signal),
    /// Give up: a process outlived SIGKILL.
    GiveUp,
}

impl Teardown {
    /// The teardown of a run that ended by itself. What it left gets time to exit too.
    pub fn after_exit(grace_ms: u64, now: Awake) -> Self {
        Self { grace_ms, last: None, since: now }
    }

    /// The teardown of a run that was ended: its tree was sent `signal` at `sent`.
    pub fn after_signal(grace_ms: u64, signal: Signal, sent: Awake) -> Self {
        Self { grace_ms, last: Some((signal, sent)), since: sent }
    }

    /// The next step while `left` processes exist.
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

/// Delay of the next look, in milliseconds: a process that exits by itself mostly does so at once.
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

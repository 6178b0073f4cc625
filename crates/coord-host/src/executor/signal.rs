//! Ends a harness through its pidfd (S0-25, H-08).

use coord_core::change_since;
use coord_model::{Outcome, Proof, Signal, Subject};
use coord_store::clock::{Clock, RealClock};
use rustix::fd::OwnedFd;
use rustix::process::pidfd_send_signal;

use super::Tools;
use super::processes::Table;
use crate::process;

/// Longest time from the start of the last look to the signal, for a harness at rest; in nanoseconds (H-08).
const AFTER_LOOK_NS_MAX: u64 = 20_000_000;
/// Time for which looks are repeated until one is quick enough, in nanoseconds. On a busy machine few are
/// quick. Looks after the first one read less.
const LOOKS_NS: u64 = 2_000_000_000;

impl Tools {
    /// Sends the signal if nothing has changed since `before`.
    pub(super) fn end(&mut self, subject: &Subject, before: &Proof, signal: Signal) -> Outcome {
        let changed = |what: &str| Outcome::Changed { what: what.to_owned() };
        let process = subject.harness;
        let harness = match process::open_pidfd(process) {
            Ok(harness) => harness,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return changed("the client changed");
            }
            Err(error) => return Outcome::Failed { why: format!("pidfd: {error}") },
        };
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        let mut table = Table::default();
        let began_ns = RealClock.mono_ns();
        while RealClock.mono_ns().saturating_sub(began_ns) < LOOKS_NS {
            let look = self.look_since(subject, &table);
            let now = look.proof;
            table = look.table;
            if let Some(what) = change_since(&now, before) {
                return changed(what);
            }
            let is_at_rest = before.idle_since_ms.is_some();
            let took_ns = RealClock.mono_ns().saturating_sub(now.looked_ns);
            if !is_at_rest || took_ns < AFTER_LOOK_NS_MAX {
                return send(&harness, signal);
            }
        }
        changed("the check took too long")
    }
}

fn send(harness: &OwnedFd, signal: rustix::process::Signal) -> Outcome {
    match pidfd_send_signal(harness, signal) {
        Ok(()) => Outcome::Done,
        Err(rustix::io::Errno::SRCH) => Outcome::Changed { what: "the client changed".to_owned() },
        Err(error) => Outcome::Failed { why: format!("signal: {error}") },
    }
}

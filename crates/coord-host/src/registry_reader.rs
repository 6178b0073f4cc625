//! Reads entries of the client's registry on a thread of its own, so that the loop never waits for a file
//! that another program names (H-27): a configuration directory may be on a disk that does not answer.
//!
//! Requests are answered in order, each with what was read after it was made. A request that is already
//! queued is not queued twice.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use coord_model::{ProcessRef, Registry};
use coord_store::clock::{Clock, RealClock};

use crate::registry::{self, Change, Found, Readable};
use crate::worker::{QueueWorker, Supervisor, Waiting};

/// Age, in nanoseconds, above which an entry is read again: the core relies on entries no older than one
/// second (R-21).
const FRESH_NS: u64 = 250_000_000;

/// A request to read an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryWish {
    /// The entry to read.
    pub entry: Change,
    /// Why the entry is read.
    pub purpose: Purpose,
    /// Whether this repeats a request whose answer had become too old before it was processed.
    pub is_again: bool,
}

/// Why an entry is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The entry may have changed.
    Change,
    /// To learn what the entry says about one process.
    Process {
        /// The process.
        process: ProcessRef,
        /// Whether the process is dead.
        after_death: bool,
    },
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RegistrySeen {
    /// The request.
    pub wish: RegistryWish,
    /// The entry, or what was found instead.
    pub found: Result<Found, Box<Registry>>,
    /// When the read was complete, in nanoseconds of CLOCK_MONOTONIC.
    pub read_ns: u64,
}

impl RegistrySeen {
    /// Whether the entry must be read again, because the answer waited for too long to be current. The answer
    /// to a repeated request always counts, even on a slow machine.
    pub fn is_old(&self, now_ns: u64) -> bool {
        !self.wish.is_again && FRESH_NS < now_ns.saturating_sub(self.read_ns)
    }
}

/// The registry reader and its thread.
#[derive(Debug)]
pub struct RegistryReader {
    worker: QueueWorker<Wishes>,
    seen: Receiver<RegistrySeen>,
}

/// Queued requests, each once, in the order in which they were made.
#[derive(Debug, Default)]
struct Wishes {
    in_order: VecDeque<RegistryWish>,
    waiting: BTreeSet<RegistryWish>,
}

impl Wishes {
    fn add(&mut self, wishes: Vec<RegistryWish>) {
        for wish in wishes {
            if self.waiting.insert(wish.clone()) {
                self.in_order.push_back(wish);
            }
        }
    }
}

impl Waiting for Wishes {
    type Task = RegistryWish;

    fn next(&mut self) -> Option<RegistryWish> {
        let wish = self.in_order.pop_front()?;
        // From here on the entry is being read, so a new request for it must be queued.
        self.waiting.remove(&wish);
        Some(wish)
    }

    fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }
}

impl RegistryReader {
    /// Starts the thread, which wakes the loop after each read.
    pub fn start(readable: Readable, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (answers, seen) = channel();
        let read = move |wish| [read(&readable, wish)];
        let worker = QueueWorker::start(supervisor, "coord-registry", answers, read)?;
        Ok(Self { worker, seen })
    }

    /// Queues requests; each one gets an answer.
    pub fn read(&self, wishes: Vec<RegistryWish>) {
        if !wishes.is_empty() {
            self.worker.put(|all| all.add(wishes));
        }
    }

    /// The next answer, if there is one.
    pub fn take(&self) -> Option<RegistrySeen> {
        self.seen.try_recv().ok()
    }
}

impl Drop for RegistryReader {
    /// Detaches the thread without waiting for it: it may be waiting for a disk that does not answer.
    fn drop(&mut self) {
        self.worker.detach();
    }
}

fn read(readable: &Readable, wish: RegistryWish) -> RegistrySeen {
    let (config_dir, pid) = &wish.entry;
    let found = registry::read_pid(readable, Path::new(config_dir), *pid);
    RegistrySeen { wish, found, read_ns: RealClock.mono_ns() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token, Waker};
    use std::sync::Arc;

    const PROCESS: ProcessRef = ProcessRef { pid: 7, start_time: 4711 };

    fn next(poll: &mut Poll, reader: &RegistryReader) -> RegistrySeen {
        let mut events = Events::with_capacity(4);
        loop {
            if let Some(seen) = reader.take() {
                return seen;
            }
            poll.poll(&mut events, None).unwrap();
        }
    }

    // R-21
    #[test]
    fn wishes_are_answered_in_their_order_with_what_stands_there_then() {
        let dir = tempfile::tempdir().unwrap();
        let config_dir = dir.path().to_str().unwrap().to_owned();
        let sessions = dir.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let reader = RegistryReader::start(Readable::default(), &Supervisor::new(waker)).unwrap();
        let wish = |purpose| RegistryWish {
            entry: (config_dir.clone(), PROCESS.pid),
            purpose,
            is_again: false,
        };
        let change = wish(Purpose::Change);
        let dead = wish(Purpose::Process { process: PROCESS, after_death: true });
        for status in ["idle", "busy"] {
            let entry =
                format!(r#"{{"pid":7,"procStart":"4711","sessionId":"s1","status":"{status}"}}"#);
            std::fs::write(sessions.join("7.json"), entry).unwrap();
            for wish in [&change, &dead] {
                let before_ns = RealClock.mono_ns();
                reader.read(vec![wish.clone()]);
                let RegistrySeen { wish: answered, found, read_ns } = next(&mut poll, &reader);
                assert_eq!(answered, *wish);
                assert!((before_ns..=RealClock.mono_ns()).contains(&read_ns));
                let Registry::Present(read) = found.unwrap().entry else { panic!("an entry") };
                assert_eq!(read.status.as_deref(), Some(status));
            }
        }
        std::fs::remove_file(sessions.join("7.json")).unwrap();
        reader.read(vec![dead.clone()]);
        reader.read(vec![change.clone()]);
        for wish in [dead, change] {
            let seen = next(&mut poll, &reader);
            assert_eq!((seen.wish, seen.found), (wish, Err(Box::new(Registry::Absent))));
        }
    }

    // R-21
    #[test]
    fn what_waited_for_long_is_read_again_once() {
        let seen = |is_again| RegistrySeen {
            wish: RegistryWish { entry: ("/c".to_owned(), 7), purpose: Purpose::Change, is_again },
            found: Err(Box::new(Registry::Absent)),
            read_ns: 1_000,
        };
        assert!(!seen(false).is_old(0), "read in this turn of the loop");
        assert!(!seen(false).is_old(1_000 + FRESH_NS));
        assert!(seen(false).is_old(1_001 + FRESH_NS));
        assert!(!seen(true).is_old(u64::MAX), "the second answer counts");
    }

    #[test]
    fn who_waits_already_does_not_wait_twice_and_who_is_read_waits_anew() {
        let mut wishes = Wishes::default();
        let wish = |pid| RegistryWish {
            entry: ("/c".to_owned(), pid),
            purpose: Purpose::Change,
            is_again: false,
        };
        wishes.add(vec![wish(8), wish(7), wish(8)]);
        assert_eq!(wishes.next(), Some(wish(8)));
        wishes.add(vec![wish(8), wish(7)]);
        assert_eq!([wishes.next(), wishes.next()], [Some(wish(7)), Some(wish(8))]);
        assert!(wishes.is_empty());
    }
}

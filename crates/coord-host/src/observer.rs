//! The threads that look: one at transcripts and task directories, and one at the panes of each tmux server,
//! so that the loop never waits for tmux or for a file that others name (H-27).
//!
//! Decides nothing: wishes go in, each is answered once, and the loop is woken. What is wished for
//! while a look is under way waits and is looked at together; a process that already waits for the
//! same look does not wait twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

use coord_model::{Failure, MessageId, ProcessRef, TaskFound};

use crate::registry::Readable;
use crate::registry_reader::RegistrySeen;
use crate::task_dir;
use crate::tmux::servers::Servers;
use crate::tmux::{PaneAnswer, PaneWish, Tmux};
use crate::transcript::{self, MessageWish, Tail, TranscriptWish};
use crate::worker::{QueueWorker, Supervisor, Waiting};

/// What was seen.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A pane.
    Pane(PaneAnswer),
    /// An entry of the client's registry.
    Registry(RegistrySeen),
    /// The end of a transcript.
    Transcript {
        /// The process that writes it.
        process: ProcessRef,
        /// When the client wrote the interrupt that is its newest word, milliseconds since 1970.
        interrupted_ms: Option<u64>,
        /// The wished signature, if it stands in the transcript.
        signature: Option<String>,
        /// The API error that is its newest word.
        failure: Option<Failure>,
    },
    /// Messages that are on their way, looked for in a transcript (H-30).
    Messages {
        /// Those that an agent has answered a request with.
        arrived: Vec<MessageId>,
        /// Of a last look: those that it has not.
        missed: Vec<MessageId>,
    },
    /// The files of a task directory.
    Task {
        /// Which.
        dir: String,
        /// What was in it.
        found: TaskFound,
    },
}

/// What the threads look with.
#[derive(Debug)]
pub struct Sources {
    /// Panes.
    pub tmux: Tmux,
    /// Which configuration directories may be read.
    pub readable: Readable,
}

/// Looks at panes, transcripts and task directories, on threads of its own.
#[derive(Debug)]
pub struct Observer {
    panes: Servers,
    worker: QueueWorker<Wishes>,
    seen: Receiver<Seen>,
}

/// What is to be read.
#[derive(Debug, Default)]
struct Wishes {
    transcripts: BTreeMap<ProcessRef, TranscriptWish>,
    /// By transcript, and whether it is the last look.
    messages: BTreeMap<(String, bool), MessageWish>,
    tasks: BTreeSet<String>,
}

impl Waiting for Wishes {
    /// All there are.
    type Task = Self;

    fn next(&mut self) -> Option<Self> {
        (!self.is_empty()).then(|| std::mem::take(self))
    }

    fn is_empty(&self) -> bool {
        self.transcripts.is_empty() && self.messages.is_empty() && self.tasks.is_empty()
    }
}

impl Observer {
    /// Starts the thread; the loop is woken when something was seen.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(sources: Sources, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (answers, seen) = channel();
        let Sources { tmux, readable } = sources;
        let look = move |wishes| look(&readable, wishes);
        let worker = QueueWorker::start(supervisor, "coord-observer", answers, look)?;
        Ok(Self { panes: Servers::new(tmux, supervisor.clone()), worker, seen })
    }

    /// Wishes for looks at panes. Of two for one process the more urgent one is answered.
    pub fn look_at_panes(&mut self, wishes: Vec<PaneWish>) {
        self.panes.look_at(wishes);
    }

    /// Wishes for the end of a transcript.
    pub fn read_transcript(&self, wish: TranscriptWish) {
        self.worker.put(|all| drop(all.transcripts.insert(wish.process, wish)));
    }

    /// Wishes for a look for messages; one that waits for the same transcript takes it along.
    pub fn seek_messages(&self, wish: MessageWish) {
        self.worker.put(|all| {
            let ids = wish.ids.clone();
            let waiting = all.messages.entry((wish.path.clone(), wish.is_last)).or_insert(wish);
            waiting.ids.extend(ids);
        });
    }

    /// Wishes for the files of a task directory.
    pub fn read_task(&self, dir: String) {
        self.worker.put(|all| {
            let _ = all.tasks.insert(dir);
        });
    }

    /// Something that was seen, if there is any.
    pub fn take(&self) -> Option<Seen> {
        self.seen.try_recv().ok().or_else(|| self.panes.take().map(Seen::Pane))
    }
}

fn look(readable: &Readable, wishes: Wishes) -> Vec<Seen> {
    let transcripts = wishes.transcripts.into_values().map(|wish| read(readable, wish));
    let messages = wishes.messages.into_values().map(|wish| seek(readable, &wish));
    let tasks = wishes.tasks.into_iter().map(|dir| {
        let found = task_dir::read(&dir);
        Seen::Task { dir, found }
    });
    transcripts.chain(messages).chain(tasks).collect()
}

/// Looks for messages in a transcript. One that cannot be read shows none.
fn seek(readable: &Readable, wish: &MessageWish) -> Seen {
    let arrived = transcript::arrived(readable, wish).unwrap_or_else(|why| {
        tracing::debug!(why, "transcript");
        Vec::new()
    });
    Seen::of_messages(wish, arrived)
}

impl Seen {
    /// What a look for messages came to.
    pub fn of_messages(wish: &MessageWish, arrived: Vec<MessageId>) -> Self {
        let missed = wish.ids.iter().copied().filter(|id| wish.is_last && !arrived.contains(id));
        Self::Messages { missed: missed.collect(), arrived }
    }
}

fn read(readable: &Readable, wish: TranscriptWish) -> Seen {
    let tail = transcript::read(readable, &wish);
    let Tail { interrupted_ms, has_signature, last_words } = tail.unwrap_or_else(|why| {
        // What cannot be read says nothing; a new session has no transcript yet.
        tracing::debug!(why, "transcript");
        Tail::default()
    });
    let signature = wish.signature.filter(|_| has_signature);
    Seen::Transcript {
        process: wish.process,
        interrupted_ms,
        signature,
        failure: last_words.failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Look, PaneFound, TmuxPane};
    use mio::{Events, Poll, Token, Waker};
    use std::path::Path;
    use std::sync::Arc;

    const PROCESS: ProcessRef = ProcessRef { pid: 7, start_time: 1 };
    const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";

    fn sources() -> Sources {
        let tmux = Tmux::new(Vec::new(), Readable::default(), coord_screen::read);
        Sources { tmux, readable: Readable::default() }
    }

    /// A wish for a pane of a server that there is not.
    fn pane(process: ProcessRef, look: Look) -> PaneWish {
        let server = ProcessRef { pid: 1, start_time: 1 };
        let pane = TmuxPane { socket: "nowhere".to_owned(), server, pane: "%0".to_owned() };
        PaneWish { process, pane, proof: None, look }
    }

    fn transcript(config_dir: &Path) -> TranscriptWish {
        let path = config_dir.join("projects/s.jsonl");
        TranscriptWish {
            process: PROCESS,
            path: path.to_str().unwrap().to_owned(),
            config_dir: config_dir.to_str().unwrap().to_owned(),
            signature: Some(SIGNATURE.to_owned()),
        }
    }

    fn next(poll: &mut Poll, observer: &Observer) -> Seen {
        let mut events = Events::with_capacity(4);
        loop {
            if let Some(seen) = observer.take() {
                return seen;
            }
            poll.poll(&mut events, None).unwrap();
        }
    }

    #[test]
    fn every_wish_is_answered_and_the_loop_is_woken() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("projects")).unwrap();
        std::fs::write(dir.path().join("projects/s.jsonl"), format!("{SIGNATURE}\n")).unwrap();
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut observer = Observer::start(sources(), &Supervisor::new(waker)).unwrap();
        observer.read_transcript(transcript(dir.path()));
        let found = Seen::Transcript {
            process: PROCESS,
            interrupted_ms: None,
            signature: Some(SIGNATURE.to_owned()),
            failure: None,
        };
        assert_eq!(next(&mut poll, &observer), found);
        observer.look_at_panes(vec![pane(PROCESS, Look::AfterDeath)]);
        let Seen::Pane(PaneAnswer { process, pane, after_death, .. }) = next(&mut poll, &observer)
        else {
            panic!("a pane");
        };
        assert_eq!((process, after_death), (PROCESS, true));
        assert!(matches!(pane, PaneFound::Unreadable { .. }));
        // What cannot be read is answered too.
        observer.read_transcript(transcript(Path::new("/nowhere")));
        let nothing = Seen::Transcript {
            process: PROCESS,
            interrupted_ms: None,
            signature: None,
            failure: None,
        };
        assert_eq!(next(&mut poll, &observer), nothing);
    }
}

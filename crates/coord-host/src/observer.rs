//! The observing threads, so that the loop never waits for tmux or for a file that another
//! program names (H-27). One thread reads transcripts and task directories, one looks at repositories, and one for
//! each tmux server captures its panes.
//!
//! This module decides nothing. Each request is answered once, and the loop is woken. Requests that arrive
//! during an observation are queued and handled together. A queued request for the same process and the same
//! observation is not queued twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use coord_model::{
    Decided, Failure, MessageId, ProcessRef, RequestId, SessionKey, TaskFound, Work,
};

use crate::registry::Readable;
use crate::registry_reader::RegistrySeen;
use crate::tmux::servers::Servers;
use crate::tmux::{PaneAnswer, PaneWish, Tmux};
use crate::transcript::{self, DecisionWish, MessageWish, Tail, TranscriptWish};
use crate::worker::{QueueWorker, Supervisor, Waiting};
use crate::{task_dir, work};

/// How long a repository is looked at.
const WORK: Duration = Duration::from_secs(1);

/// An observation.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A capture of a pane.
    Pane(PaneAnswer),
    /// An entry of the client's registry.
    Registry(RegistrySeen),
    /// The end of a transcript.
    Transcript {
        /// The process that writes the transcript.
        process: ProcessRef,
        /// When the client wrote the interrupt, if an interrupt is the newest entry; in milliseconds since
        /// 1970.
        interrupted_ms: Option<u64>,
        /// The requested signature, if the transcript contains it.
        signature: Option<String>,
        /// The API error, if one is the newest entry.
        failure: Option<Failure>,
    },
    /// How calls of a session were decided to which a person replied.
    Decisions {
        /// The session.
        session: SessionKey,
        /// What the transcript shows, by request.
        decided: Vec<(RequestId, Decided)>,
    },
    /// The result of a look in a transcript for messages whose arrival is unproved (H-30).
    Messages {
        /// Messages in a request that an agent has answered.
        arrived: Vec<MessageId>,
        /// In a last look: the messages that were not found.
        missed: Vec<MessageId>,
    },
    /// The repository of a session's work.
    Work {
        /// The session.
        session: SessionKey,
        /// What the look found.
        work: Box<Work>,
    },
    /// The files of a task directory.
    Task {
        /// The directory.
        dir: String,
        /// What the directory contained.
        found: TaskFound,
    },
}

/// The adapters with which the threads observe.
#[derive(Debug)]
pub struct Sources {
    /// Access to panes.
    pub tmux: Tmux,
    /// The configuration directories that may be read.
    pub readable: Readable,
    /// Where git is looked for first.
    pub git: Vec<PathBuf>,
}

/// The observing threads and their queues.
#[derive(Debug)]
pub struct Observer {
    panes: Servers,
    worker: QueueWorker<Wishes>,
    /// Its own thread: git may take as long as [`WORK`].
    work: QueueWorker<Repositories>,
    seen: Receiver<Seen>,
}

/// Sessions whose repository is to be looked at, with their directories.
#[derive(Debug, Default)]
struct Repositories(BTreeMap<SessionKey, String>);

impl Waiting for Repositories {
    type Task = (SessionKey, String);

    fn next(&mut self) -> Option<Self::Task> {
        self.0.pop_first()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Queued requests for files.
#[derive(Debug, Default)]
struct Wishes {
    transcripts: BTreeMap<ProcessRef, TranscriptWish>,
    /// Keyed by transcript, and by whether it is the last look.
    messages: BTreeMap<(String, bool), MessageWish>,
    decisions: BTreeMap<SessionKey, DecisionWish>,
    tasks: BTreeSet<String>,
}

impl Waiting for Wishes {
    /// All queued requests at once.
    type Task = Self;

    fn next(&mut self) -> Option<Self> {
        (!self.is_empty()).then(|| std::mem::take(self))
    }

    fn is_empty(&self) -> bool {
        self.transcripts.is_empty()
            && self.messages.is_empty()
            && self.decisions.is_empty()
            && self.tasks.is_empty()
    }
}

impl Observer {
    /// Starts the threads, which wake the loop after each observation.
    ///
    /// # Errors
    /// The system cannot create another thread.
    pub fn start(sources: Sources, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (answers, seen) = channel();
        let Sources { tmux, readable, git } = sources;
        let look_at_work = move |(session, dir): (SessionKey, String)| {
            let work = Box::new(work::look_at(&git, Path::new(&dir), WORK));
            [Seen::Work { session, work }]
        };
        let work = QueueWorker::start(supervisor, "coord-work", answers.clone(), look_at_work)?;
        let look = move |wishes| look(&readable, wishes);
        let worker = QueueWorker::start(supervisor, "coord-observer", answers, look)?;
        Ok(Self { panes: Servers::new(tmux, supervisor.clone()), worker, work, seen })
    }

    /// Requests captures of panes. Of two requests for one process, the more urgent one is answered.
    pub fn look_at_panes(&mut self, wishes: Vec<PaneWish>) {
        self.panes.look_at(wishes);
    }

    /// Requests a read of the end of a transcript.
    pub fn read_transcript(&self, wish: TranscriptWish) {
        self.worker.put(|all| drop(all.transcripts.insert(wish.process, wish)));
    }

    /// Requests a look for messages. It is merged with a queued request for the same transcript.
    pub fn seek_messages(&self, wish: MessageWish) {
        self.worker.put(|all| {
            let ids = wish.ids.clone();
            let waiting = all.messages.entry((wish.path.clone(), wish.is_last)).or_insert(wish);
            waiting.ids.extend(ids);
        });
    }

    /// Requests a look for decisions. It replaces a queued request for the same session.
    pub fn seek_decisions(&self, wish: DecisionWish) {
        self.worker.put(|all| {
            let _ = all.decisions.insert(wish.session, wish);
        });
    }

    /// Requests a look at the repository that a session's directory is in.
    pub fn look_at_work(&self, session: SessionKey, dir: String) {
        self.work.put(|all| {
            let _ = all.0.insert(session, dir);
        });
    }

    /// Requests a read of the files in a task directory.
    pub fn read_task(&self, dir: String) {
        self.worker.put(|all| {
            let _ = all.tasks.insert(dir);
        });
    }

    /// The next observation, if there is one.
    pub fn take(&self) -> Option<Seen> {
        self.seen.try_recv().ok().or_else(|| self.panes.take().map(Seen::Pane))
    }
}

impl Drop for Observer {
    /// A file system that does not answer must not hold up the end of the coordinator.
    fn drop(&mut self) {
        if !self.work.is_idle() {
            self.work.detach();
        }
    }
}

fn look(readable: &Readable, wishes: Wishes) -> Vec<Seen> {
    let transcripts = wishes.transcripts.into_values().map(|wish| read(readable, wish));
    let messages = wishes.messages.into_values().map(|wish| seek(readable, &wish));
    let tasks = wishes.tasks.into_iter().map(|dir| {
        let found = task_dir::read(&dir);
        Seen::Task { dir, found }
    });
    let decisions = wishes.decisions.into_values().map(|wish| Seen::Decisions {
        session: wish.session,
        decided: transcript::decided(readable, &wish).unwrap_or_else(|why| {
            tracing::debug!(why, "transcript");
            Vec::new()
        }),
    });
    transcripts.chain(messages).chain(decisions).chain(tasks).collect()
}

/// Looks for messages in a transcript. An unreadable transcript contains none.
fn seek(readable: &Readable, wish: &MessageWish) -> Seen {
    let arrived = transcript::arrived(readable, wish).unwrap_or_else(|why| {
        tracing::debug!(why, "transcript");
        Vec::new()
    });
    Seen::of_messages(wish, arrived)
}

impl Seen {
    /// Turns the messages that a look found into an observation.
    pub fn of_messages(wish: &MessageWish, arrived: Vec<MessageId>) -> Self {
        let missed = wish.ids.iter().copied().filter(|id| wish.is_last && !arrived.contains(id));
        Self::Messages { missed: missed.collect(), arrived }
    }
}

fn read(readable: &Readable, wish: TranscriptWish) -> Seen {
    let tail = transcript::read(readable, &wish);
    let Tail { interrupted_ms, has_signature, last_words } = tail.unwrap_or_else(|why| {
        // An unreadable transcript shows nothing; a new session has none yet.
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
        Sources { tmux, readable: Readable::default(), git: Vec::new() }
    }

    /// A request for a pane of a tmux server that does not exist.
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
        // A request for an unreadable transcript is answered too.
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

//! The one thread that looks at panes and transcripts, so that the loop never waits for tmux or for a
//! file that others name (H-27).
//!
//! Decides nothing: wishes go in, each is answered once, and the loop is woken. What is wished for
//! while a look is under way waits and is looked at together; a process that already waits for the
//! same look does not wait twice.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use coord_wire::stamp::ProcessRef;
use mio::Waker;

use crate::registry::Readable;
use crate::tmux::{PaneAnswer, PaneWish, Tmux};
use crate::transcript::{self, Tail, TranscriptWish};

/// What was seen.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A pane.
    Pane(PaneAnswer),
    /// The end of a transcript.
    Transcript {
        /// The process that writes it.
        process: ProcessRef,
        /// When the client wrote the interrupt that is its newest word, milliseconds since 1970.
        interrupted_ms: Option<u64>,
        /// The wished signature, if it stands in the transcript.
        signature: Option<String>,
    },
}

/// What the thread looks with.
#[derive(Debug)]
pub struct Eyes {
    /// Panes.
    pub tmux: Tmux,
    /// Which configuration directories may be read.
    pub readable: Readable,
    /// Names the crash signature that a text holds.
    pub signature_in: fn(&str) -> Option<&'static str>,
}

/// The thread's two ends.
#[derive(Debug)]
pub struct Looker {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    seen: Receiver<Seen>,
}

/// Where wishes lie until the thread takes them.
#[derive(Debug, Default)]
struct Desk {
    wishes: Mutex<Wishes>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Wishes {
    panes: BTreeMap<ProcessRef, PaneWish>,
    transcripts: BTreeMap<ProcessRef, TranscriptWish>,
    is_over: bool,
}

impl Desk {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        // Nothing is left half done under the lock.
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Wishes)) {
        put(&mut self.wishes());
        self.more.notify_one();
    }

    /// All wishes there are, once there are some; none when it is over.
    fn take(&self) -> Option<Wishes> {
        let nothing =
            |wishes: &mut Wishes| wishes.panes.is_empty() && wishes.transcripts.is_empty();
        let wishes = self.more.wait_while(self.wishes(), |all| !all.is_over && nothing(all));
        let mut wishes = wishes.unwrap_or_else(PoisonError::into_inner);
        (!wishes.is_over).then(|| std::mem::take(&mut *wishes))
    }
}

impl Looker {
    /// Starts the thread; `waker` wakes the loop when something was seen.
    pub fn start(eyes: Eyes, waker: Arc<Waker>) -> std::io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (answers, seen) = channel();
        let thread = std::thread::Builder::new().name("coord-looker".to_owned());
        let work = Arc::clone(&desk);
        let thread = thread.spawn(move || look_on(eyes, &work, &answers, &waker))?;
        Ok(Self { desk, thread: Some(thread), seen })
    }

    /// Wishes for looks at panes. Of two for one process the more urgent one is answered.
    pub fn look_at_panes(&self, wishes: Vec<PaneWish>) {
        self.warn_if_gone();
        self.desk.put(|all| {
            for wish in wishes {
                match all.panes.get(&wish.process) {
                    Some(waiting) if wish.look < waiting.look => (),
                    Some(_) | None => drop(all.panes.insert(wish.process, wish)),
                }
            }
        });
    }

    /// Wishes for the end of a transcript.
    pub fn read_transcript(&self, wish: TranscriptWish) {
        self.warn_if_gone();
        self.desk.put(|all| drop(all.transcripts.insert(wish.process, wish)));
    }

    /// Something that was seen, if there is any.
    pub fn take(&self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }

    fn warn_if_gone(&self) {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            tracing::error!("the thread that looks at panes is gone; restart the coordinator");
        }
    }
}

impl Drop for Looker {
    /// Ends the thread, after the look that is under way.
    fn drop(&mut self) {
        self.desk.put(|all| all.is_over = true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks at panes panicked");
        }
    }
}

fn look_on(mut eyes: Eyes, desk: &Desk, answers: &Sender<Seen>, waker: &Waker) {
    while let Some(wishes) = desk.take() {
        // A file is read at once; a server may take its time.
        let transcripts = wishes.transcripts.into_values().map(|wish| eyes.read(wish)).collect();
        let is_heard = tell(transcripts, answers, waker);
        let panes = eyes.tmux.look(wishes.panes.into_values().collect());
        if !is_heard || !tell(panes.into_iter().map(Seen::Pane).collect(), answers, waker) {
            return;
        }
    }
}

/// Whether there still is somebody to tell.
fn tell(seen: Vec<Seen>, answers: &Sender<Seen>, waker: &Waker) -> bool {
    seen.is_empty()
        || (seen.into_iter().all(|one| answers.send(one).is_ok()) && waker.wake().is_ok())
}

impl Eyes {
    fn read(&self, wish: TranscriptWish) -> Seen {
        let tail = transcript::read(&self.readable, &wish, self.signature_in);
        let Tail { interrupted_ms, has_signature } = tail.unwrap_or_else(|why| {
            // What cannot be read says nothing; a new session has no transcript yet.
            tracing::debug!(why, "transcript");
            Tail::default()
        });
        let signature = wish.signature.filter(|_| has_signature);
        Seen::Transcript { process: wish.process, interrupted_ms, signature }
    }
}

//! The one thread that proves and acts, so that the loop never waits for tmux, the process table or a
//! file.
//!
//! Decides nothing about sessions: deeds go in, and each is carried out in its turn and answered once.
//! An act looks again before it touches anything, and touches nothing if something is other than in
//! the proof that it was decided on (H-08, H-16, H-18). What could not be told is never taken for
//! what would allow an act. No text of a pane, transcript or environment is kept, and none gets into
//! a command.

mod look;
mod main_thread;
mod notify;
mod pane;
mod processes;
mod run;
mod signal;
#[cfg(test)]
mod tests;
mod transcripts;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use coord_model::{Deed, Intent, Outcome, Proof};
use mio::Waker;

use crate::registry::Readable;
use crate::task_dir;
use crate::tmux::Asker;
use crate::worker::{Supervisor, Worker};
pub use processes::owners;
pub(crate) use transcripts::Transcripts;

/// The answer to a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A look was made.
    Proved(Intent, Box<Proof>),
    /// An act was carried out, or not.
    Acted(Intent, Outcome),
}

/// What the thread looks and acts with.
#[derive(Debug)]
pub(crate) struct Tools {
    /// Panes.
    pub(crate) asker: Asker,
    /// Which configuration directories may be read (H-14).
    pub(crate) readable: Readable,
    /// Where the store lies: its disk must not be full (H-11).
    pub(crate) state_dir: PathBuf,
    /// The absolute path of `coordctl`, as it would be typed (H-18).
    pub(crate) coordctl: String,
    /// `--root` of the coordinator, which the one who resumes needs to find it.
    pub(crate) root: Option<String>,
    /// The transcripts that are locked (H-13).
    pub(crate) transcripts: Transcripts,
}

/// The thread's two ends.
#[derive(Debug)]
pub(crate) struct Hand {
    desk: Arc<Desk>,
    worker: Worker,
    replies: Receiver<Reply>,
}

/// Where deeds lie until the thread takes them.
#[derive(Debug, Default)]
struct Desk {
    deeds: Mutex<Deeds>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Deeds {
    waiting: VecDeque<Deed>,
    is_over: bool,
}

impl Desk {
    fn deeds(&self) -> MutexGuard<'_, Deeds> {
        // Nothing is left half done under the lock.
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Deeds)) {
        put(&mut self.deeds());
        self.more.notify_one();
    }

    /// The next deed, once there is one; none when it is over: what is not begun is not done.
    fn take(&self) -> Option<Deed> {
        let nothing = |deeds: &mut Deeds| !deeds.is_over && deeds.waiting.is_empty();
        let deeds = self.more.wait_while(self.deeds(), nothing);
        let mut deeds = deeds.unwrap_or_else(PoisonError::into_inner);
        if deeds.is_over { None } else { deeds.waiting.pop_front() }
    }
}

impl Hand {
    /// Starts the thread; the loop is woken when there is a reply.
    pub(crate) fn start(tools: Tools, supervisor: &Supervisor) -> std::io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (answers, replies) = channel();
        let work = Arc::clone(&desk);
        let worker =
            supervisor.start("coord-hand", move |waker| work_on(tools, &work, &answers, waker))?;
        Ok(Self { desk, worker, replies })
    }

    /// Takes a deed, behind those it was given before.
    pub(crate) fn act(&self, deed: Deed) {
        self.desk.put(|deeds| deeds.waiting.push_back(deed));
    }

    /// A reply, if there is any.
    pub(crate) fn take(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }
}

impl Drop for Hand {
    /// Ends the thread, after the deed that is under way.
    fn drop(&mut self) {
        self.worker.expect_end();
        self.desk.put(|deeds| deeds.is_over = true);
        self.worker.join();
    }
}

fn work_on(mut tools: Tools, desk: &Desk, answers: &Sender<Reply>, waker: &Waker) {
    while let Some(deed) = desk.take() {
        let Some(reply) = tools.do_deed(deed) else { continue };
        if answers.send(reply).is_err() || waker.wake().is_err() {
            return;
        }
    }
}

impl Tools {
    fn do_deed(&mut self, deed: Deed) -> Option<Reply> {
        let (intent, outcome) = match deed {
            Deed::Prove { intent, subject } => {
                return Some(Reply::Proved(intent, Box::new(self.look(&subject).proof)));
            }
            Deed::End { intent, subject, proof, signal } => {
                (intent, self.end(&subject, &proof, signal))
            }
            Deed::TypeResume { intent, subject, proof } => {
                (intent, self.type_resume(&subject, &proof))
            }
            Deed::RespawnPane { intent, subject, proof } => {
                (intent, self.respawn_pane(&subject, &proof))
            }
            Deed::NewWindow { intent, subject, proof } => {
                (intent, self.new_window(&subject, &proof))
            }
            // The coordinator hands it over itself: its waiters are connections of the loop.
            Deed::Wake { .. } => return None,
            Deed::Release { session_id } => {
                self.transcripts.release(&session_id);
                return None;
            }
            Deed::WriteStop { dir, text } => {
                if let Err(error) = task_dir::write_stop(&dir, &text) {
                    tracing::warn!(dir, %error, "no stop file was written");
                }
                return None;
            }
            Deed::RemoveStop { dir, text } => {
                if let Err(error) = task_dir::remove_stop(&dir, &text) {
                    tracing::warn!(dir, %error, "the stop file was not taken away");
                }
                return None;
            }
            Deed::Notify { pane, text, for_ms } => {
                if let Err(why) = self.notify(&pane, &text, for_ms) {
                    tracing::debug!(why, "nobody was told");
                }
                return None;
            }
        };
        Some(Reply::Acted(intent, outcome))
    }
}

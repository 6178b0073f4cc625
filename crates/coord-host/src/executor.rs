//! The one thread that proves and acts, so that the loop never waits for tmux, the process table or a
//! file.
//!
//! Decides nothing about sessions: actions go in, and each is carried out in its turn and answered once.
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
use std::sync::mpsc::{Receiver, channel};

use coord_model::{Action, Intent, Outcome, Proof};

use crate::registry::Readable;
use crate::task_dir;
use crate::tmux::Asker;
use crate::worker::{QueueWorker, Supervisor, Waiting};
pub use processes::owners;
pub use transcripts::Transcripts;

/// The answer to an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A look was made.
    Proved(Intent, Box<Proof>),
    /// An act was carried out, or not.
    Acted(Intent, Outcome),
}

/// What the thread looks and acts with.
#[derive(Debug)]
pub struct Tools {
    /// Panes.
    pub asker: Asker,
    /// Which configuration directories may be read (H-14).
    pub readable: Readable,
    /// Where the store lies: its disk must not be full (H-11).
    pub state_dir: PathBuf,
    /// The absolute path of `coordctl`, as it would be typed (H-18).
    pub coordctl: String,
    /// `--root` of the coordinator, which the one who resumes needs to find it.
    pub root: Option<String>,
    /// The transcripts that are locked (H-13).
    pub transcripts: Transcripts,
}

/// Proves and acts, on a thread of its own.
#[derive(Debug)]
pub struct Executor {
    worker: QueueWorker<Queue>,
    replies: Receiver<Reply>,
}

/// Actions in the order in which they were asked for.
#[derive(Debug, Default)]
struct Queue(VecDeque<Action>);

impl Waiting for Queue {
    type Task = Action;

    fn next(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Executor {
    /// Starts the thread; the loop is woken when there is a reply.
    pub fn start(mut tools: Tools, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (answers, replies) = channel();
        let act = move |action| tools.do_action(action);
        let worker = QueueWorker::start(supervisor, "coord-executor", answers, act)?;
        Ok(Self { worker, replies })
    }

    /// Takes an action, after those it was given before.
    pub fn act(&self, action: Action) {
        self.worker.put(|queue| queue.0.push_back(action));
    }

    /// A reply, if there is any.
    pub fn take(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }
}

impl Tools {
    fn do_action(&mut self, action: Action) -> Option<Reply> {
        let (intent, outcome) = match action {
            Action::Prove { intent, subject } => {
                let proof = Box::new(self.look(&subject).proof);
                if subject.reads_last_words {
                    // No act follows for which the lock would have to last (H-13).
                    self.transcripts.release(&subject.session_id);
                }
                return Some(Reply::Proved(intent, proof));
            }
            Action::End { intent, subject, proof, signal } => {
                (intent, self.end(&subject, &proof, signal))
            }
            Action::TypeResume { intent, subject, proof } => {
                (intent, self.type_resume(&subject, &proof))
            }
            Action::RespawnPane { intent, subject, proof } => {
                (intent, self.respawn_pane(&subject, &proof))
            }
            Action::NewWindow { intent, subject, proof } => {
                (intent, self.new_window(&subject, &proof))
            }
            // The coordinator hands it over itself: its waiters are connections of the loop.
            Action::Wake { .. } => return None,
            Action::Release { session_id } => {
                self.transcripts.release(&session_id);
                return None;
            }
            Action::WriteStop { dir, text } => {
                if let Err(error) = task_dir::write_stop(&dir, &text) {
                    tracing::warn!(dir, %error, "no stop file was written");
                }
                return None;
            }
            Action::RemoveStop { dir, text } => {
                if let Err(error) = task_dir::remove_stop(&dir, &text) {
                    tracing::warn!(dir, %error, "the stop file was not taken away");
                }
                return None;
            }
            Action::Notify { pane, text, for_ms } => {
                if let Err(why) = self.notify(&pane, &text, for_ms) {
                    tracing::debug!(why, "nobody was told");
                }
                return None;
            }
        };
        Some(Reply::Acted(intent, outcome))
    }
}

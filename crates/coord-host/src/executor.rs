//! The executor thread, which proves and acts, so that the loop never waits for tmux, the process table or a
//! file.
//!
//! The executor decides nothing about sessions. It performs actions in order, and answers each once. Before
//! an act touches anything, it looks again, and touches nothing if anything differs from the proof on which
//! the act was decided (H-08, H-16, H-18). A value that could not be determined never counts as one that
//! allows an act. No text of a pane, a transcript or an environment is kept, or becomes part of a command.

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
    /// The result of a look.
    Proved(Intent, Box<Proof>),
    /// The outcome of an act.
    Acted(Intent, Outcome),
}

/// What the thread observes and acts with.
#[derive(Debug)]
pub struct Tools {
    /// Access to tmux servers.
    pub asker: Asker,
    /// The configuration directories that may be read (H-14).
    pub readable: Readable,
    /// The state directory, whose disk must have room (H-11).
    pub state_dir: PathBuf,
    /// The absolute path of `coordctl`, as it is typed into a shell (H-18).
    pub coordctl: String,
    /// The coordinator's `--root`, with which the resumed process finds the coordinator.
    pub root: Option<String>,
    /// The transcripts that are locked (H-13).
    pub transcripts: Transcripts,
}

/// The executor and its thread.
#[derive(Debug)]
pub struct Executor {
    worker: QueueWorker<Queue>,
    replies: Receiver<Reply>,
}

/// Queued actions, in the order in which they were requested.
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
    /// Starts the thread, which wakes the loop after each reply.
    pub fn start(mut tools: Tools, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (answers, replies) = channel();
        let act = move |action| tools.do_action(action);
        let worker = QueueWorker::start(supervisor, "coord-executor", answers, act)?;
        Ok(Self { worker, replies })
    }

    /// Queues an action after the earlier ones.
    pub fn act(&self, action: Action) {
        self.worker.put(|queue| queue.0.push_back(action));
    }

    /// The next reply, if there is one.
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
            // The coordinator wakes sessions itself: the waiters are connections of its loop.
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

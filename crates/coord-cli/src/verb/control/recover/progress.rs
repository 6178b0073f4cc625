//! What a recovery is at, in one line for each step.

use coord_model::{Outcome, ProcessRef};
use coord_view::steps::Step;
use coord_wire::inspect::Session;

/// The steps of one recovery so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The line of an act that was decided, until its outcome is known.
    decided: Option<String>,
    /// The process that becomes the client, until it reported its start.
    claimed: Option<ProcessRef>,
    /// What the recovery was last said to wait for.
    waits_for: Option<String>,
}

impl Progress {
    /// The lines for one step. `place` is where the session is in tmux.
    pub(super) fn on_step(&mut self, step: Step, place: Option<&str>) -> Vec<String> {
        match step {
            Step::End => self.decided = Some("ending the client".to_owned()),
            Step::Place { words } => self.decided = Some(placed(&words, place)),
            Step::Acted(Outcome::Done) => return self.decided.take().into_iter().collect(),
            // The wait or the end that follows says why.
            Step::Acted(Outcome::Changed { .. } | Outcome::Failed { .. } | Outcome::Observed) => {
                self.decided = None;
            }
            Step::Claimed(process) => {
                self.claimed = Some(process);
                // The line may run before its placing is reported.
                return self.decided.take().into_iter().collect();
            }
            Step::Started(process) if self.claimed == Some(process) => {
                self.claimed = None;
                return vec![format!("client started (pid {})", process.pid)];
            }
            Step::Started(_) => (),
            Step::Failed { why } => {
                (self.decided, self.claimed) = (None, None);
                return vec![format!("the attempt failed: {why}")];
            }
        }
        Vec::new()
    }

    /// The line for what the recovery waits for, if that was not said yet.
    pub(super) fn on_wait(&mut self, session: &Session) -> Option<String> {
        let pending = session.pending_recovery.as_ref();
        let waits_for = pending.and_then(|pending| pending.waits_for.clone());
        if self.waits_for == waits_for {
            return None;
        }
        self.waits_for.clone_from(&waits_for);
        waits_for.map(|what| format!("waits: {what}"))
    }
}

/// coord's words for a line that was placed, with the session's place in tmux.
fn placed(words: &str, place: Option<&str>) -> String {
    let Some(place) = place else { return words.to_owned() };
    words.replace("into the shell", &format!("into {place}"))
}

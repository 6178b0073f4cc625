//! Does what is left after the run's process has exited: ends the process tree, completes the run's file, and
//! judges the outcome.

use coord_core::{
    Ended, ExitReason, ExitStatus, Judged, Provider, Run, RunNote, RunOutcome, Teardown,
    TeardownStep, judge,
};
use coord_model::stamp::rfc3339;
use coord_model::{Moment, Signal};
use coord_wire::run::RunEnded;

use super::Supervisor;
use super::child::Started;
use crate::quarantine;
use crate::record::Record;
use crate::spec::{RunEnd, RunSpec, is_resume};
use crate::standard_error::StderrSeen;
use crate::tree::{named, signal_all};

impl Supervisor<'_> {
    /// Ends the rest of the process tree, and records how the run ended.
    pub(super) fn finish(&mut self) -> RunEnd {
        let (status, reason) =
            self.run.exit().unwrap_or((ExitStatus::Signal(9), ExitReason::Unkillable));
        let ended_at = self.exited.map_or_else(|| self.clock.read(), |(_, at)| at);
        self.end_tree();
        let left = self.tree.kill_set(&self.proved).spares;
        let errors = self.errors_end.take().unwrap_or_default();
        let stdout_bytes = self.output_end.map_or(0, |end| end.bytes);
        let ended = Ended {
            exit: (status, reason),
            provider: self.spec.provider,
            is_resume: is_resume(self.spec),
            stdout_bytes,
            complaint: errors.complaint,
            is_limit_line: self.is_limit_line,
        };
        let end = RunEnd {
            id: self.id.clone(),
            status,
            reason,
            judged: judge(&self.run, &ended),
            session_id: self.run.session_id().map(ToOwned::to_owned),
            stdout_bytes,
            stderr_bytes: errors.bytes,
            first_error_line: errors.first_line,
            took_ms: ended_at.awake.ms_since(self.begun.awake),
            no_record: None,
            left: left.into_iter().map(named).collect(),
        };
        self.lift_quarantine(&end);
        self.show();
        self.record.ended(last_line(&end, ended_at));
        end
    }

    /// Gives processes that outlive the run time to exit, then ends them (S3-07). Processes that left the
    /// run's session are spared (H-20).
    fn end_tree(&mut self) {
        let now = self.now().awake;
        let grace_ms = self.spec.limits.kill_grace_ms;
        let mut teardown = if self.proved.is_empty() {
            Teardown::after_exit(grace_ms, now)
        } else {
            Teardown::after_signal(grace_ms, Signal::Term, now)
        };
        let begun = now;
        loop {
            let now = self.now().awake;
            let gives_up = self.patience(begun, now);
            let set = self.tree.kill_set(&self.proved);
            let is_open = self.output_end.is_none() || self.errors_end.is_none();
            let due = match teardown.next(set.ends.len(), now) {
                TeardownStep::Wait(due) => due,
                TeardownStep::Done if is_open && now < gives_up && !self.is_hurried => gives_up,
                TeardownStep::Done | TeardownStep::GiveUp => return,
                TeardownStep::Send(signal) => {
                    self.say_left(signal, set.ends.len());
                    self.proved = set.ends;
                    signal_all(&self.proved, signal);
                    now
                }
            };
            if let Some(message) = self.wait(Some(due), now) {
                let now = self.now();
                self.take(message, now);
            }
        }
    }

    fn say_left(&mut self, signal: Signal, count: usize) {
        let now = self.clock.read();
        let name = match signal {
            Signal::Term => "left_behind_sigterm",
            Signal::Kill => "left_behind_sigkill",
        };
        let because = format!("{count} processes of the run outlived it");
        let note = RunNote { name: name.to_owned(), is_warning: true, because };
        self.record.note(&note, now.wall_ms);
    }

    /// Lifts the quarantine of a conversation whose resume completed its turn.
    fn lift_quarantine(&self, end: &RunEnd) {
        let has_proved_itself = is_resume(self.spec)
            && end.judged.outcome == RunOutcome::Done
            && self.proved.is_empty();
        if let Some(id) = end.session_id.as_deref().filter(|_| has_proved_itself)
            && let Err(error) = quarantine::lift(&self.spec.paths, id)
        {
            tracing::warn!(%error, "a conversation stays in quarantine");
        }
    }
}

/// The result of a run that could not be started.
pub(super) fn not_started(
    spec: &RunSpec,
    id: String,
    record: &mut Record,
    begun: Moment,
    started: Started,
) -> RunEnd {
    let (code, why) = match started {
        Started::Not { code, why } => (code, why),
        Started::Running(_) => (126, String::new()),
    };
    let (run, _) = Run::begin(spec.limits.clone(), begun);
    let exit = (ExitStatus::Code(code), ExitReason::NotStarted);
    let ended = Ended {
        exit,
        provider: Provider::Other,
        is_resume: false,
        stdout_bytes: 0,
        complaint: None,
        is_limit_line: false,
    };
    let judged =
        Judged { because: format!("the run cannot be started: {why}"), ..judge(&run, &ended) };
    let errors = StderrSeen::default();
    let end = RunEnd {
        id,
        status: exit.0,
        reason: exit.1,
        judged,
        session_id: None,
        stdout_bytes: 0,
        stderr_bytes: errors.bytes,
        first_error_line: None,
        took_ms: 0,
        no_record: None,
        left: Vec::new(),
    };
    record.ended(last_line(&end, begun));
    end
}

fn last_line(end: &RunEnd, at: Moment) -> RunEnded {
    RunEnded {
        at: rfc3339(at.wall_ms),
        reason: end.reason.word().to_owned(),
        status: end.status.words(),
        outcome: end.judged.outcome.word().to_owned(),
        because: end.judged.because.clone(),
        resets_at: end.judged.resets_ms.map(rfc3339),
        stdout_bytes: end.stdout_bytes,
        stderr_bytes: end.stderr_bytes,
        took_ms: end.took_ms,
        left: end.left.clone(),
    }
}

//! Runs the threads that pass a run's streams on and report what passes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use coord_core::{Provider, StreamFact};
use rustix::fd::{AsFd, OwnedFd};

use super::Message;
use crate::lines::{Line, Lines};
use crate::only_line::OnlyLine;
use crate::pump::{Unread, pump};
use crate::spec::{Output, Passes, RunSpec};
use crate::standard_error::StandardError;
use crate::stream::facts_of;

/// Shortest interval between reports of output without facts; facts are reported at once.
const SPOKE_EVERY: Duration = Duration::from_millis(50);

/// Whether a stream has output that its reader does not accept.
pub(super) type Waits = Arc<AtomicBool>;

/// Passes on the standard output.
pub(super) fn output(
    spec: &RunSpec,
    from: OwnedFd,
    to: Option<OwnedFd>,
    to_us: Sender<Message>,
) -> Waits {
    let waits = Waits::default();
    let told = Arc::clone(&waits);
    let unread = match spec.provider {
        // The client continues to the end of its turn without a reader, and its output is still
        // observed.
        Provider::Claude => Unread::Drop,
        Provider::Other => Unread::Stop,
    };
    let passes = spec.passes;
    let lines = (spec.output == Output::Stream).then(Lines::default);
    thread::spawn(move || {
        let mut reader = Reader { lines, text: OnlyLine::default(), told: None, to_us };
        let out = to.as_ref().map(AsFd::as_fd);
        let end = pump(from, out, unread, &told, &mut |bytes| reader.take(bytes));
        drop(to);
        if passes == Passes::ToItsEnd
            && let Err(error) = end_output()
        {
            tracing::debug!(%error, "the end of the output was not passed on");
        }
        reader.end();
        // Nobody receives messages after the run is over.
        let is_limit_line = reader.lines.is_none() && reader.text.is_limit();
        let _nobody_listens = reader.to_us.send(Message::OutputEnded { end, is_limit_line });
    });
    waits
}

/// Closes the standard output, so that its reader learns of the end while the run continues (S3-01).
fn end_output() -> std::io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?)
}

struct Reader {
    /// None if the output is no stream.
    lines: Option<Lines>,
    /// The output, if it is no stream.
    text: OnlyLine,
    /// When output was last reported.
    told: Option<Instant>,
    to_us: Sender<Message>,
}

impl Reader {
    fn take(&mut self, bytes: &[u8]) {
        let mut facts = Vec::new();
        if let Some(lines) = &mut self.lines {
            lines.feed(bytes, &mut |line| facts.extend(said(line)));
        } else {
            self.text.take(bytes);
        }
        self.tell(facts);
    }

    fn end(&mut self) {
        let mut facts = Vec::new();
        if let Some(lines) = &mut self.lines {
            lines.end(&mut |line| facts.extend(said(line)));
        }
        if !facts.is_empty() {
            self.tell(facts);
        }
    }

    fn tell(&mut self, mut facts: Vec<StreamFact>) {
        let now = Instant::now();
        let is_time = self.told.is_none_or(|told| SPOKE_EVERY <= now.duration_since(told));
        let says_nothing = facts.iter().all(|fact| *fact == StreamFact::Said);
        if says_nothing && !is_time {
            return;
        }
        self.told = Some(now);
        facts.dedup_by(|one, other| *one == StreamFact::Said && one == other);
        let message = if facts.is_empty() { Message::Output } else { Message::Said(facts) };
        let _nobody_listens = self.to_us.send(message);
    }
}

fn said(line: Line<'_>) -> Vec<StreamFact> {
    match line {
        Line::Whole(line) => facts_of(line),
        Line::TooLong => vec![StreamFact::Said],
    }
}

/// Passes on the standard error.
pub(super) fn errors(spec: &RunSpec, from: OwnedFd, to: OwnedFd, to_us: Sender<Message>) -> Waits {
    let waits = Waits::default();
    let told = Arc::clone(&waits);
    let mut errors = StandardError::new(spec.limit_texts.clone(), spec.prompt.clone());
    thread::spawn(move || {
        pump(from, Some(to.as_fd()), Unread::Drop, &told, &mut |bytes| {
            for text in errors.take(bytes) {
                let _nobody_listens = to_us.send(Message::ErrorText(text));
            }
        });
        let _nobody_listens = to_us.send(Message::ErrorsEnded(errors.end()));
    });
    waits
}

//! What a loop shows: on a terminal one line that is written over, elsewhere one line per event.
//!
//! Nothing that an agent printed is shown unescaped.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use coord_loop::LoopNote;
use coord_model::stamp::rfc3339;
use coord_store::clock::{Clock, RealClock};

use crate::context::variable;
use crate::out::{age, complain, escape, fit};

const NAME: &str = "coord loop";
/// The line on a terminal is written again this often.
const EVERY: Duration = Duration::from_secs(1);

/// What it shows.
pub(super) struct Progress {
    max_iterations: u32,
    /// The wait that was told last.
    told: Option<String>,
    live: Option<Live>,
}

/// The thread that writes the line on a terminal.
struct Live {
    lines: Sender<Shown>,
    thread: JoinHandle<()>,
}

enum Shown {
    /// What goes on, and since or until when, milliseconds since 1970.
    State { text: String, since_ms: Option<u64>, until_ms: Option<u64> },
    /// A line that stays.
    Line(String),
}

impl Progress {
    pub(super) fn start(max_iterations: u32) -> Self {
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let live = (stderr().is_terminal() && !is_dumb).then(|| {
            let (lines, shown) = channel();
            Live { lines, thread: spawn(move || draw(&shown)) }
        });
        Self { max_iterations, told: None, live }
    }

    pub(super) fn note(&mut self, note: &LoopNote<'_>) {
        let now_ms = RealClock.wall_ms();
        match note {
            LoopNote::Began { iteration, agent, is_resume } => {
                let how = if *is_resume { "goes on with its conversation" } else { "runs" };
                let text =
                    format!("iteration {iteration} of {}: {agent} {how}", self.max_iterations);
                self.state(text, Some(now_ms), None);
            }
            LoopNote::Ended { iteration, agent, outcome, because, status, took_ms } => {
                let said = status.map_or_else(String::new, |word| format!(", says {word}"));
                let took = age(took_ms / 1000);
                self.line(format!(
                    "iteration {iteration}: {agent}: {outcome} after {took}{said}: {because}"
                ));
            }
            LoopNote::Waiting { hold, until_ms } => {
                // A long wait is told in pieces.
                let wait = format!("{} {}", hold.reason, hold.since.wall_ms);
                if self.told.as_ref() != Some(&wait) || self.live.is_some() {
                    self.told = Some(wait);
                    self.state(format!("waits: {}", hold.reason), None, Some(*until_ms));
                }
            }
            LoopNote::Warning(text) => self.line((*text).to_owned()),
        }
    }

    fn state(&self, text: String, since_ms: Option<u64>, until_ms: Option<u64>) {
        match &self.live {
            Some(live) => show(live, Shown::State { text, since_ms, until_ms }),
            None => {
                let until =
                    until_ms.map_or_else(String::new, |ms| format!(", until {}", rfc3339(ms)));
                complain(NAME, &(text + &until));
            }
        }
    }

    fn line(&self, text: String) {
        match &self.live {
            Some(live) => show(live, Shown::Line(text)),
            None => complain(NAME, &text),
        }
    }

    /// The line on a terminal is taken away.
    pub(super) fn end(self) {
        if let Some(Live { lines, thread }) = self.live {
            drop(lines);
            // Nothing is lost with a line that could not be drawn.
            drop(thread.join());
        }
    }
}

fn show(live: &Live, shown: Shown) {
    // A terminal that is gone ends the thread, and nobody looks any more.
    drop(live.lines.send(shown));
}

fn draw(shown: &Receiver<Shown>) {
    let mut now: Option<(String, Option<u64>, Option<u64>)> = None;
    loop {
        let line = match shown.recv_timeout(EVERY) {
            Ok(Shown::State { text, since_ms, until_ms }) => {
                now = Some((text, since_ms, until_ms));
                None
            }
            Ok(Shown::Line(text)) => {
                now = None;
                Some(text)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                drop(write!(stderr(), "\r\u{1b}[K"));
                return;
            }
        };
        let at_ms = RealClock.wall_ms();
        let state = now.as_ref().map(|(text, since_ms, until_ms)| {
            with_time(
                text,
                since_ms.map(|ms| at_ms.saturating_sub(ms)),
                until_ms.map(|ms| ms.saturating_sub(at_ms)),
            )
        });
        if drawn(line.as_deref(), state.as_deref(), columns()).is_err() {
            return;
        }
    }
}

fn drawn(line: Option<&str>, state: Option<&str>, columns: usize) -> std::io::Result<()> {
    let line = line.map(|line| format!("\r\u{1b}[K{NAME}: {}\n", escape(line)));
    // The last column stays free: some terminals go on to the next line behind it.
    let width = columns.saturating_sub(1);
    let state = state.map(|state| format!("\r\u{1b}[K{}", fit(&escape(state), width)));
    let text = line.unwrap_or_default() + &state.unwrap_or_default();
    stderr().write_all(text.as_bytes())
}

fn with_time(text: &str, since_ms: Option<u64>, left_ms: Option<u64>) -> String {
    match (since_ms, left_ms) {
        (Some(ms), _) => format!("{}  {text}", age(ms / 1000)),
        (None, Some(ms)) => format!("{}  {text}", age(ms.div_ceil(1000))),
        (None, None) => text.to_owned(),
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| 0 < *columns).unwrap_or(80)
}

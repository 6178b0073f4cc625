//! How much of what was stated of a session was true, and how late the truth came.
//!
//! What is true at a moment is what the script's last mark says, from when the client itself did it:
//! from its own registry's word, or its process's end or stop, where that came after the mark, else
//! from the newest news that the state was shown with (a hook's stamp), else from the mark. Before that it is what the mark before
//! said. Any other state shown is false, those too that a mark lets pass on the way; only `unknown`
//! is never false: it says that it does not know, and is counted for itself. While nobody answers,
//! nothing is stated.

use crate::timeline::{Change, Mark, Said, Told, line_of};
use coord_model::SessionState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

/// So long after a change of the truth an old state is late, not merely behind.
const LATE_MS: u64 = 1000;

/// The client's own words for its states, and those for what becomes of its process.
const STATUSES: [(SessionState, &str); 15] = [
    (SessionState::Running, "busy"),
    (SessionState::AwaitingPermission, "waiting"),
    (SessionState::AwaitingInput, "waiting"),
    (SessionState::Background, "busy"),
    (SessionState::Background, "shell"),
    (SessionState::Idle, "idle"),
    (SessionState::QuotaWait, "idle"),
    (SessionState::BlockedAuth, "idle"),
    (SessionState::BlockedBilling, "idle"),
    (SessionState::Suspended, SUSPENDED),
    (SessionState::Running, CONTINUED),
    (SessionState::Idle, CONTINUED),
    (SessionState::Stopped, GONE),
    (SessionState::Crashed, GONE),
    (SessionState::Interrupted, GONE),
];
/// A process that Ctrl-Z stopped.
pub(crate) const SUSPENDED: &str = "suspended";
/// It goes on.
pub(crate) const CONTINUED: &str = "continued";
/// A process that has ended.
pub(crate) const GONE: &str = "gone";

/// What was stated after one mark.
#[derive(Debug)]
pub struct Measured {
    what: String,
    truth: SessionState,
    /// How long after the client did it, or after the coordinator was back, the truth was shown;
    /// none where it cannot be known.
    delay_ms: Option<u64>,
    shown: BTreeMap<String, Times>,
}

impl Measured {
    /// How late the truth was shown; none where it cannot be known, or was there before.
    pub fn delay_ms(&self) -> Option<u64> {
        self.delay_ms
    }
}

/// For how long one state was shown, in milliseconds.
#[derive(Debug, Default)]
struct Times {
    shown: u64,
    wrong: u64,
    /// The part of it that was later than [`LATE_MS`] after the change.
    late: u64,
}

/// Whether the client itself has another word for the one than for the other.
pub(crate) fn is_told(before: SessionState, truth: SessionState) -> bool {
    let words =
        |of| STATUSES.iter().filter(move |(state, word)| *state == of && *word != CONTINUED);
    let is_old = |word: &str| words(before).any(|(_, old)| *old == word);
    let has_words = |of| words(of).next().is_some();
    has_words(before) && has_words(truth) && words(truth).all(|(_, word)| !is_old(word))
}

/// When the client itself was seen to do what the mark says, where it was: by its registry, by its
/// process. Nobody knows of a session from when another process took its id.
pub(crate) fn told_ms(told: &[Told], mark: &Mark) -> Option<u64> {
    let truth = mark.expected.truth;
    let fits = |told: &&Told| {
        let is_own = told.pid == u64::from(mark.session.pid);
        let is_it = if truth == SessionState::Unknown {
            !is_own
        } else {
            is_own && STATUSES.contains(&(truth, &told.status))
        };
        // A process's id changes with /clear; it stays the process.
        is_it && (is_own || told.session == mark.session.id) && mark.at_ms <= told.at_ms
    };
    told.iter().find(fits).map(|told| told.at_ms)
}

/// Measures each mark's time, up to the next mark or to `end_ms`.
pub(crate) fn measure(
    changes: &[Change],
    told: &[Told],
    marks: &[Mark],
    end_ms: u64,
) -> Vec<Measured> {
    let ends = marks.iter().skip(1).map(|mark| mark.at_ms).chain([end_ms]);
    let mut before: Option<&Mark> = None;
    let mut all = Vec::new();
    for (mark, end_ms) in marks.iter().zip(ends) {
        let was = before.filter(|before| before.session == mark.session);
        all.push(measure_one(changes, told, mark, was.map(|mark| mark.expected.truth), end_ms));
        before = Some(mark);
    }
    all
}

fn measure_one(
    changes: &[Change],
    told: &[Told],
    mark: &Mark,
    was: Option<SessionState>,
    end_ms: u64,
) -> Measured {
    let truth = mark.expected.truth;
    let line: Vec<(u64, Said<'_>)> = line_of(changes, &mark.session).collect();
    let arrived = line.iter().find_map(|(at_ms, said)| match said {
        Said::Is(seen) if (mark.at_ms..end_ms).contains(at_ms) && seen.state == truth => {
            Some((*at_ms, seen.news_ms))
        }
        Said::Is(_) | Said::Nothing | Said::Silence => None,
    });
    let news_ms = arrived.map_or(0, |(_, news_ms)| news_ms);
    let told_ms = told_ms(told, mark).filter(|told_ms| *told_ms < end_ms);
    // It cannot have been shown before it was so.
    let latest_ms = arrived.map_or(end_ms, |(at_ms, _)| at_ms);
    let since_ms = told_ms.unwrap_or(news_ms.max(mark.at_ms)).min(latest_ms);
    let mut shown: BTreeMap<String, Times> = BTreeMap::new();
    let mut back_ms = 0;
    for (index, (at_ms, said)) in line.iter().enumerate() {
        let next_ms = line.get(index + 1).map_or(end_ms, |(next_ms, _)| *next_ms);
        if matches!(said, Said::Silence) && *at_ms < latest_ms && mark.at_ms <= next_ms {
            back_ms = next_ms;
        }
        let Said::Is(seen) = said else { continue };
        let of = |begin_ms: u64, finish_ms: u64| {
            (*at_ms).max(begin_ms)..next_ms.min(finish_ms).max((*at_ms).max(begin_ms))
        };
        let time = |part: std::ops::Range<u64>| part.end - part.start;
        let times = shown.entry(word(seen.state)).or_default();
        times.shown += time(of(mark.at_ms, end_ms));
        if seen.state == SessionState::Unknown {
            continue;
        }
        if was.is_some_and(|was| was != seen.state) {
            times.wrong += time(of(mark.at_ms, since_ms));
        }
        if seen.state != truth {
            times.wrong += time(of(since_ms, end_ms));
            times.late += time(of(since_ms + LATE_MS, end_ms));
        }
    }
    shown.retain(|_, times| times.shown != 0);
    let delay_ms = arrived
        .filter(|_| was != Some(truth))
        .map(|(at_ms, _)| at_ms.saturating_sub(since_ms.max(back_ms)));
    Measured { what: mark.what.clone(), truth, delay_ms, shown }
}

/// The word that `coord inspect` has for a state.
fn word(state: SessionState) -> String {
    serde_json::to_value(state)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Records what was measured where `cargo xtask truth` asks for it; `run` says what kind of run it was.
///
/// # Panics
/// If the file cannot be written.
pub fn record(run: &Value, measured: &[Measured]) {
    let mut text = String::new();
    for Measured { what, truth, delay_ms, shown } in measured {
        let times = |(state, times): (&String, &Times)| {
            let Times { shown, wrong, late } = times;
            let times = json!({"shown_ms": shown, "false_ms": wrong, "late_ms": late});
            (state.clone(), times)
        };
        let shown: serde_json::Map<String, Value> = shown.iter().map(times).collect();
        let line = json!({
            "run": run, "mark": what, "truth": word(*truth), "delay_ms": delay_ms, "shown": shown,
        });
        text += &line.to_string();
        text.push('\n');
    }
    append(&text);
}

/// Appends a case's lines, all at once: several cases run beside each other.
#[track_caller]
pub(crate) fn append(text: &str) {
    let Some(file) = std::env::var_os("COORD_TRUTH").map(PathBuf::from) else { return };
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    opened
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .unwrap_or_else(|error| panic!("append to {}: {error}", file.display()));
}

//! Reads the event history from the journal, for `coord events`, the API and decisions (S0-38).

use std::collections::BTreeSet;
use std::path::Path;

use coord_model::envelope::Envelope;
use coord_model::stamp::rfc3339;
use coord_model::{
    Event, Farewell, Outcome, PaneFound, ProcessSeen, Record, Registry, Screen, Via,
};
use coord_store::journal::{Cursor, read_segments};
use coord_store::{Disk, JournalError};
use serde::Serialize;

/// Approximate size of the details at which a page ends, in bytes, even if it has few lines (H-49).
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Name of the lines that report decisions.
const DECISION: &str = "Decision";
/// Name of the lines that report the passing of time. They are not shown to people, because the decisions
/// show what time changed.
const DUE: &str = "Due";

/// Name of the lines that report a person's orders.
const OPERATOR: &str = "Operator";

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The position in the journal.
    pub seq: u64,
    /// When it happened, in the format of RFC 3339.
    pub at: String,
    /// The session or message that the line is about, if there is one.
    pub session_id: Option<String>,
    /// The name of the hook event, or of the journal entry.
    pub name: String,
    /// The source: hook, process, registry, pane, transcript, task, system, operator or coordinator.
    pub source: &'static str,
    /// The id of a hook event.
    pub id: Option<String>,
    /// How a hook event arrived: over the `socket` or through the `spool`.
    pub via: Option<Via>,
    /// Whether the sender of a hook event was proved (H-25).
    pub verified: Option<bool>,
    /// Details, in words.
    pub detail: String,
}

/// Selects lines of history.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only lines from this position on.
    pub from_seq: u64,
    /// Only lines from this wall time on, in milliseconds since 1970.
    pub since_ms: u64,
    /// Only lines of this session.
    pub of: Option<Of>,
    /// Only decisions.
    pub decisions_only: bool,
}

/// Selects lines by session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// All ids that a record has had.
    Ids(BTreeSet<String>),
    /// All ids that begin with this text, which have no record (any more) but may have history.
    Beginning(String),
}

impl Of {
    fn has(&self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(id),
            Self::Beginning(beginning) => id.starts_with(beginning.as_str()),
        }
    }
}

/// Reads history in pieces, oldest first. Nothing is read twice, so following costs as much as what is new,
/// and little is in memory at a time.
#[derive(Debug, Clone)]
pub struct Reader {
    cursor: Cursor,
    wanted: Wanted,
}

impl Reader {
    /// Creates a reader that starts before the first selected line.
    pub fn new(wanted: Wanted) -> Self {
        Self { cursor: Cursor::before(wanted.from_seq), wanted }
    }

    /// The selected lines of the next piece, which may be none; `None` if there is no further piece yet.
    ///
    /// # Errors
    /// The disk refused, or the journal is damaged at that place.
    pub fn next_piece<D: Disk>(
        &mut self,
        disk: &D,
        journal_dir: &Path,
    ) -> Result<Option<Vec<Line>>, JournalError> {
        let records = self.cursor.read(disk, journal_dir)?;
        let lines = records.iter().filter_map(|(seq, payload)| self.wanted.line(*seq, payload));
        Ok((!records.is_empty()).then(|| lines.collect()))
    }
}

impl Wanted {
    /// Turns a record into a line, if it is selected.
    fn line(&self, seq: u64, payload: &[u8]) -> Option<Line> {
        let line = serde_json::from_slice(payload).map_or_else(|_| unreadable(seq), line);
        let of_session = match (&self.of, &line.session_id) {
            (None, _) => true,
            (Some(of), Some(id)) => of.has(id),
            (Some(_), None) => false,
        };
        let is_of_kind = line.name != DUE && (!self.decisions_only || line.name == DECISION);
        let is_recent = self.since_ms == 0 || rfc3339(self.since_ms) <= line.at;
        (of_session && is_of_kind && is_recent).then_some(line)
    }
}

/// Reads the whole history in `journal_dir`, oldest first.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn read<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    mut each: impl FnMut(Line),
) -> Result<(), JournalError> {
    let mut reader = Reader::new(wanted.clone());
    while let Some(lines) = reader.next_piece(disk, journal_dir)? {
        lines.into_iter().for_each(&mut each);
    }
    Ok(())
}

/// Reads one page: the oldest selected lines, up to `max`. The next page begins after the last line; an empty
/// page is the end.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn page<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Vec<Line>, JournalError> {
    let (mut reader, mut found, mut bytes) = (Reader::new(wanted.clone()), Vec::new(), 0);
    while found.len() < max
        && bytes < PAGE_BYTES
        && let Some(lines) = reader.next_piece(disk, journal_dir)?
    {
        bytes += lines.iter().map(|line| line.detail.len()).sum::<usize>();
        found.extend(lines);
    }
    found.truncate(max);
    Ok(found)
}

/// Reads the newest selected lines, up to `max`, and returns them oldest first. Older segments than the ones
/// that contain them are not read. The caller must hold the shared state lock.
///
/// # Errors
/// The disk refused, or the journal is damaged.
pub fn newest<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    max: usize,
) -> Result<Vec<Line>, JournalError> {
    let mut found = Vec::new();
    for segment in read_segments(disk, journal_dir, wanted.from_seq)?.rev() {
        let segment = segment?;
        let lines = segment.records().rev().filter(|(seq, _)| wanted.from_seq <= *seq);
        let lines = lines.filter_map(|(seq, payload)| wanted.line(seq, payload));
        found.extend(lines.take(max.saturating_sub(found.len())));
        if max <= found.len() {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

fn unreadable(seq: u64) -> Line {
    Line {
        seq,
        at: rfc3339(0),
        session_id: None,
        name: "Unreadable".to_owned(),
        source: "coordinator",
        id: None,
        via: None,
        verified: None,
        detail: "written by another version".to_owned(),
    }
}

impl Line {
    fn tells(&mut self, session_id: String, name: &str, detail: String) {
        self.session_id = Some(session_id);
        name.clone_into(&mut self.name);
        self.detail = detail;
    }
}

/// Turns a record into a line.
pub fn line(record: Record) -> Line {
    let mut line = Line {
        seq: record.seq,
        at: rfc3339(record.at),
        session_id: None,
        name: String::new(),
        source: "coordinator",
        id: None,
        via: None,
        verified: None,
        detail: String::new(),
    };
    match record.entry {
        Event::Hook(event) => {
            line.source = "hook";
            line.via = Some(event.via);
            line.verified = Some(event.is_verified());
            hook(&mut line, event.text.0.get());
        }
        Event::Folded { session_id, event, id } => {
            line.source = "hook";
            line.session_id = Some(session_id);
            line.name = event;
            line.id = Some(format!("{id:032x}"));
            "over the session's share; only counted".clone_into(&mut line.detail);
        }
        Event::Decision(decision) => {
            DECISION.clone_into(&mut line.name);
            line.detail = format!("{}: {} → {}", decision.rule, decision.saw, decision.did);
            line.session_id = Some(decision.session_id);
        }
        Event::Proved { session_id, .. } => {
            line.tells(session_id, "Proved", "checked before an action".to_owned());
        }
        Event::Acted { session_id, outcome, .. } => {
            line.tells(session_id, "Acted", outcome_words(&outcome));
        }
        Event::ResumeClaimed { session_id, process, .. } => {
            let what = format!("pid {} becomes the client", process.pid);
            line.tells(session_id, "ResumeClaimed", what);
        }
        Event::ResumeFailed { session_id, why, .. } => {
            line.tells(session_id, "ResumeFailed", why);
        }
        Event::Operator { session_id, what, .. } => {
            line.source = "operator";
            OPERATOR.clone_into(&mut line.name);
            line.session_id = session_id;
            line.detail = what;
        }
        entry @ (Event::Started(_)
        | Event::Due
        | Event::Tick
        | Event::Gap { .. }
        | Event::SpoolFolded { .. }
        | Event::Malformed { .. }
        | Event::ProcessSeen(_)
        | Event::ProcessExited { .. }
        | Event::RegistryRead { .. }
        | Event::PaneSeen { .. }
        | Event::TranscriptRead { .. }
        | Event::TaskRead { .. }
        | Event::Message { .. }
        | Event::Shutdown { .. }
        | Event::ConfigDirLock { .. }
        | Event::ConfigChanged { .. }
        | Event::JournalReopened { .. }) => own(&mut line, entry),
    }
    line
}

fn hook(line: &mut Line, text: &str) {
    let Ok(envelope) = Envelope::parse(text.as_bytes()) else { return };
    let details = [
        envelope.source.as_deref(),
        envelope.reason.as_deref(),
        envelope.tool_name.as_deref(),
        envelope.notification_type.as_deref(),
        envelope.error.as_deref(),
        envelope.agent_type.as_deref().filter(|kind| !kind.is_empty()),
    ];
    line.detail = details.into_iter().flatten().collect::<Vec<_>>().join(" ");
    line.at = envelope.emitted_at;
    line.session_id = Some(envelope.session_id);
    line.name = envelope.event;
    line.id = Some(envelope.id);
}

fn process_words(seen: &ProcessSeen) -> String {
    let what = match (seen.alive, seen.is_stopped) {
        (false, _) => "gone",
        (true, true) => "stopped (Ctrl-Z)",
        (true, false) => "alive",
    };
    format!("pid {} {what}", seen.process.pid)
}

fn registry_words(entry: &Registry) -> String {
    match entry {
        Registry::Present(entry) => {
            let (session_id, waiting_for) = (&entry.session_id, &entry.waiting_for);
            let status = entry.status.as_deref().unwrap_or("no status");
            let waits =
                waiting_for.as_deref().map_or_else(String::new, |what| format!(" ({what})"));
            format!("entry present, {status}{waits}, session {session_id}")
        }
        Registry::Absent => "no entry".to_owned(),
        Registry::Unreadable { why } => format!("not read: {why}"),
        Registry::Strange { why } => format!("strange: {why}"),
    }
}

fn pane_words(pane: &PaneFound) -> String {
    match pane {
        PaneFound::Found(seen) => {
            let screen = seen.screen.map_or("no known screen", Screen::word);
            let farewell = match seen.farewell {
                Some(Farewell::Last(_)) => ", the client's farewell",
                Some(Farewell::Above { .. }) => ", a farewell further up",
                None => "",
            };
            let crash =
                seen.signature.as_ref().map_or_else(String::new, |name| format!(", {name}"));
            format!("pane {}, {screen}{farewell}{crash}", seen.pane.pane)
        }
        PaneFound::NotThere => "no pane has the client's terminal".to_owned(),
        PaneFound::Unreadable { why } => format!("not read: {why}"),
    }
}

fn task_words(dir: &str, has_signal: bool, stop: Option<&str>) -> String {
    let signal = if has_signal { "an .auto-signal" } else { "no .auto-signal" };
    let stop = match stop {
        None => "no .auto-stop".to_owned(),
        Some("") => "an .auto-stop".to_owned(),
        Some(reason) => format!("an .auto-stop ({reason})"),
    };
    format!("{dir}: {signal}, {stop}")
}

fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Changed { what } => format!("not done: {what}"),
        Outcome::Failed { why } => format!("failed: {why}"),
        Outcome::Observed => "not done: coord only observes".to_owned(),
    }
}

/// Fills in the line of the other entries: observations, and what concerns the coordinator itself.
fn own(line: &mut Line, event: Event) {
    let (name, source, detail) = match event {
        Event::Started(started) => {
            ("CoordinatorStarted", "coordinator", format!("version {}", started.version))
        }
        Event::Gap { ns } => ("Gap", "coordinator", format!("{} ms", ns / 1_000_000)),
        Event::SpoolFolded { events } => {
            ("SpoolFolded", "coordinator", format!("{events} events were only counted"))
        }
        Event::Malformed { why, .. } => ("Malformed", "coordinator", why),
        Event::ProcessSeen(seen) => ("ProcessSeen", "process", process_words(&seen)),
        Event::ProcessExited { process } => {
            ("ProcessExited", "process", format!("pid {}", process.pid))
        }
        Event::RegistryRead { process, found, .. } => {
            ("RegistryRead", "registry", format!("pid {}: {}", process.pid, registry_words(&found)))
        }
        Event::PaneSeen { process, found, .. } => {
            ("PaneSeen", "pane", format!("pid {}: {}", process.pid, pane_words(&found)))
        }
        Event::TranscriptRead { process, interrupted_ms, has_signature, failure } => {
            let interrupted = interrupted_ms.map(|_| "ends with an interrupt".to_owned());
            let content = has_signature.map(|has| {
                let verb = if has { "contains" } else { "does not contain" };
                format!("{verb} the text of the crash signature as content")
            });
            let failed =
                failure.map(|failure| format!("ends with an API error: {}", failure.error));
            let what: Vec<String> = interrupted.into_iter().chain(content).chain(failed).collect();
            ("TranscriptRead", "transcript", format!("pid {}: {}", process.pid, what.join(", ")))
        }
        Event::TaskRead { dir, found } => {
            ("TaskRead", "task", task_words(&dir, found.signal.is_some(), found.stop.as_deref()))
        }
        Event::Message { id, what, .. } => {
            line.session_id = Some(id);
            ("Message", "coordinator", what)
        }
        Event::Shutdown { under_way } => {
            let what = if under_way { "the machine is being shut down" } else { "called off" };
            ("Shutdown", "system", what.to_owned())
        }
        Event::ConfigDirLock { config_dir, held } => {
            let what =
                if held { "held" } else { "held by another coordinator; coord only observes" };
            ("ConfigDirLock", "coordinator", format!("{config_dir}: {what}"))
        }
        Event::ConfigChanged { changes, .. } => {
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            ("ConfigChanged", "coordinator", changes.join(", "))
        }
        Event::JournalReopened { why, after_ms } => {
            let s = after_ms / 1000;
            let what = format!("synced again; nothing was recorded for {s} s: {why}");
            ("JournalReopened", "coordinator", what)
        }
        Event::Due | Event::Tick => (DUE, "coordinator", "time passed".to_owned()),
        Event::Hook(_)
        | Event::Folded { .. }
        | Event::Decision(_)
        | Event::Proved { .. }
        | Event::Acted { .. }
        | Event::ResumeClaimed { .. }
        | Event::ResumeFailed { .. }
        | Event::Operator { .. } => return,
    };
    name.clone_into(&mut line.name);
    line.source = source;
    line.detail = detail;
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Decision, Record};
    use coord_store::{Journal, RealDisk};
    use std::path::PathBuf;

    /// Creates a journal of several segments, whose records are decisions on one session.
    fn journal(dir: &Path, records: u64) -> Journal<RealDisk> {
        let (mut journal, _) = Journal::open(RealDisk, dir, 0, 2_000).unwrap();
        for _ in 0..records {
            append(&mut journal);
        }
        journal
    }

    fn append(journal: &mut Journal<RealDisk>) {
        let seq = journal.next_seq();
        let decision = Decision {
            session_id: "s".to_owned(),
            rule: "R-01".into(),
            saw: format!("record {seq}"),
            did: "nothing".to_owned(),
            need: None,
        };
        let entry = Event::Decision(decision);
        let record = Record { seq, at: 1_000, mono_ns: 0, entry: &entry };
        journal.append(&serde_json::to_vec(&record).unwrap()).unwrap();
    }

    fn seqs(lines: &[Line]) -> Vec<u64> {
        lines.iter().map(|line| line.seq).collect()
    }

    fn segments(dir: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Damages a file, so that reading it again fails.
    fn damage(file: &Path) {
        let n = std::fs::read(file).unwrap().len();
        std::fs::write(file, vec![b'x'; n]).unwrap();
    }

    #[test]
    fn a_page_is_bounded_and_the_next_one_begins_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let _journal = journal(dir.path(), 100);
        let mut wanted = Wanted::default();
        let mut found = Vec::new();
        loop {
            let lines = page(&RealDisk, dir.path(), &wanted, 30).unwrap();
            assert!(lines.len() <= 30);
            let Some(last) = lines.last() else { break };
            wanted.from_seq = last.seq + 1;
            found.extend(seqs(&lines));
        }
        assert_eq!(found, (1..=100).collect::<Vec<u64>>());
    }

    // Following costs only what is new: segments that were already read may be gone or unreadable.
    #[test]
    fn what_was_read_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(dir.path(), 50);
        let mut reader = Reader::new(Wanted::default());
        let mut found = Vec::new();
        while let Some(lines) = reader.next_piece(&RealDisk, dir.path()).unwrap() {
            found.extend(seqs(&lines));
        }
        assert_eq!(found.len(), 50);
        let files = segments(dir.path());
        files.iter().for_each(|file| damage(file));
        append(&mut journal);
        let lines = reader.next_piece(&RealDisk, dir.path()).unwrap().unwrap();
        assert_eq!(seqs(&lines), [51]);
        std::fs::remove_file(&files[0]).unwrap();
        for _ in 0..20 {
            append(&mut journal);
        }
        let mut rest = Vec::new();
        while let Some(lines) = reader.next_piece(&RealDisk, dir.path()).unwrap() {
            rest.extend(seqs(&lines));
        }
        assert_eq!(rest, (52..=71).collect::<Vec<u64>>(), "into the next segments");
    }

    #[test]
    fn the_newest_lines_are_found_without_the_oldest_segments() {
        let dir = tempfile::tempdir().unwrap();
        let _journal = journal(dir.path(), 100);
        let files = segments(dir.path());
        assert!(3 < files.len());
        damage(&files[0]);
        let lines = newest(&RealDisk, dir.path(), &Wanted::default(), 3).unwrap();
        assert_eq!(seqs(&lines), [98, 99, 100]);
        assert!(newest(&RealDisk, dir.path(), &Wanted::default(), 1_000).is_err());
    }
}

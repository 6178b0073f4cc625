//! The event history, read from the journal: for `coord events`, the API and decisions (S0-38).

use std::collections::BTreeSet;
use std::path::Path;

use coord_core::Outcome;
use coord_store::journal::read_segments;
use coord_store::{Disk, JournalError};
use coord_wire::envelope::Envelope;
use coord_wire::journal::{Entry, Pane, Record, RegistryEntry, Via};
use coord_wire::stamp::rfc3339;
use serde::Serialize;

/// Name of the lines that say what was decided.
const DECISION: &str = "Decision";
/// Name of the lines that say that time passed. People do not see them: what time changed stands in
/// the decisions.
const DUE: &str = "Due";

/// Name of the lines that say what a person asked for.
const OPERATOR: &str = "Operator";

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Position in the journal.
    pub seq: u64,
    /// When it happened, RFC 3339.
    pub at: String,
    /// The session or the message that it is about, where there is one.
    pub session_id: Option<String>,
    /// What: the hook event's name, or the entry's own.
    pub name: String,
    /// hook, process, registry, pane, transcript, operator or coordinator.
    pub source: &'static str,
    /// Id of a hook event.
    pub id: Option<String>,
    /// How a hook event came: `socket` or `spool`.
    pub via: Option<Via>,
    /// Whether a hook event's sender was proved (H-25).
    pub verified: Option<bool>,
    /// The rest, in words.
    pub detail: String,
}

/// Which lines.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// From this position on.
    pub from_seq: u64,
    /// From this wall time on, milliseconds.
    pub since_ms: u64,
    /// Only of this session.
    pub of: Option<Of>,
    /// Only what was decided.
    pub decisions_only: bool,
}

/// Whose lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// A record with all the ids it had.
    Ids(BTreeSet<String>),
    /// Every id that begins so: there is no record of it (any more), but history there may be.
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

/// Reads the history in `journal_dir`, oldest first.
pub fn read<D: Disk>(
    disk: &D,
    journal_dir: &Path,
    wanted: &Wanted,
    mut each: impl FnMut(Line),
) -> Result<(), JournalError> {
    for segment in read_segments(disk, journal_dir, wanted.from_seq)? {
        let segment = segment?;
        for (seq, payload) in segment.records().filter(|(seq, _)| wanted.from_seq <= *seq) {
            let line = serde_json::from_slice(payload).map_or_else(|_| unreadable(seq), line);
            let of_session = match (&wanted.of, &line.session_id) {
                (None, _) => true,
                (Some(of), Some(id)) => of.has(id),
                (Some(_), None) => false,
            };
            let of_session = of_session && (!wanted.decisions_only || line.name == DECISION);
            let of_session = of_session && line.name != DUE;
            let is_recent = wanted.since_ms == 0 || rfc3339(wanted.since_ms) <= line.at;
            if of_session && is_recent {
                each(line);
            }
        }
    }
    Ok(())
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

/// One record as a line.
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
        Entry::Hook { via, verified, envelope } => {
            line.source = "hook";
            line.via = Some(via);
            line.verified = Some(verified);
            hook(&mut line, envelope.get());
        }
        Entry::Folded { session_id, event, id } => {
            line.source = "hook";
            line.session_id = Some(session_id);
            line.name = event;
            line.id = Some(id);
            "over the session's share, only counted".clone_into(&mut line.detail);
        }
        Entry::Decision(decision) => {
            DECISION.clone_into(&mut line.name);
            line.detail = format!("{}: {} → {}", decision.rule, decision.saw, decision.did);
            line.session_id = Some(decision.session_id);
        }
        Entry::Proved { session_id, .. } => {
            line.tells(session_id, "Proved", "looked at for an act".to_owned());
        }
        Entry::Acted { session_id, outcome, .. } => {
            line.tells(session_id, "Acted", outcome_words(outcome.get()));
        }
        Entry::ResumeClaimed { session_id, process, .. } => {
            let what = format!("pid {} becomes its client", process.pid);
            line.tells(session_id, "ResumeClaimed", what);
        }
        Entry::ResumeFailed { session_id, why, .. } => {
            line.tells(session_id, "ResumeFailed", why);
        }
        Entry::Operator { session_id, what, .. } => {
            line.source = "operator";
            OPERATOR.clone_into(&mut line.name);
            line.session_id = session_id;
            line.detail = what;
        }
        entry @ (Entry::Started(_)
        | Entry::Due
        | Entry::Gap { .. }
        | Entry::SpoolFolded { .. }
        | Entry::Malformed { .. }
        | Entry::ProcessSeen(_)
        | Entry::ProcessExited { .. }
        | Entry::RegistryRead { .. }
        | Entry::PaneSeen { .. }
        | Entry::TranscriptRead { .. }
        | Entry::TaskRead { .. }
        | Entry::Message { .. }
        | Entry::ConfigDirLock { .. }) => own(&mut line, entry),
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

fn registry_words(entry: &RegistryEntry) -> String {
    match entry {
        RegistryEntry::Present { session_id, status, waiting_for, .. } => {
            let status = status.as_deref().unwrap_or("no status");
            let waits =
                waiting_for.as_deref().map_or_else(String::new, |what| format!(" ({what})"));
            format!("entry present, {status}{waits}, session {session_id}")
        }
        RegistryEntry::Absent => "no entry".to_owned(),
        RegistryEntry::Unreadable { why } => format!("not read: {why}"),
        RegistryEntry::Strange { why } => format!("strange: {why}"),
    }
}

fn pane_words(pane: &Pane) -> String {
    match pane {
        Pane::Its { pane, screen, farewell, signature, .. } => {
            let screen = screen.as_deref().unwrap_or("no known screen");
            let farewell = if farewell.is_some() { ", the client's farewell" } else { "" };
            let crash = signature.as_ref().map_or_else(String::new, |name| format!(", {name}"));
            format!("pane {pane}, {screen}{farewell}{crash}")
        }
        Pane::NotThere => "no pane has its terminal".to_owned(),
        Pane::Unreadable { why } => format!("not read: {why}"),
    }
}

fn outcome_words(outcome: &str) -> String {
    match serde_json::from_str(outcome) {
        Ok(Outcome::Done) => "done".to_owned(),
        Ok(Outcome::Changed { what }) => format!("not done: {what} changed before"),
        Ok(Outcome::Failed { why }) => format!("failed: {why}"),
        Ok(Outcome::Observed) => "not done: observing only".to_owned(),
        Err(_) => "written by another version".to_owned(),
    }
}

/// Entries of the coordinator itself.
fn own(line: &mut Line, entry: Entry) {
    let (name, source, detail) = match entry {
        Entry::Started(started) => {
            ("CoordinatorStarted", "coordinator", format!("version {}", started.version))
        }
        Entry::Gap { ns } => ("Gap", "coordinator", format!("{} ms", ns / 1_000_000)),
        Entry::SpoolFolded { events } => {
            ("SpoolFolded", "coordinator", format!("{events} events only counted"))
        }
        Entry::Malformed { why, .. } => ("Malformed", "coordinator", why),
        Entry::ProcessSeen(seen) => {
            let what = match (seen.alive, seen.stopped) {
                (false, _) => "gone",
                (true, true) => "stopped (Ctrl-Z)",
                (true, false) => "alive",
            };
            ("ProcessSeen", "process", format!("pid {} {what}", seen.process.pid))
        }
        Entry::ProcessExited { process } => {
            ("ProcessExited", "process", format!("pid {}", process.pid))
        }
        Entry::RegistryRead { process, entry, .. } => {
            ("RegistryRead", "registry", format!("pid {}: {}", process.pid, registry_words(&entry)))
        }
        Entry::PaneSeen { process, pane, .. } => {
            ("PaneSeen", "pane", format!("pid {}: {}", process.pid, pane_words(&pane)))
        }
        Entry::TranscriptRead { process, interrupted_ms, has_signature, failure } => {
            let interrupted = interrupted_ms.map(|_| "ends with an interrupt".to_owned());
            let content = has_signature.map(|has| {
                let verb = if has { "has" } else { "has not" };
                format!("{verb} the words of the crash signature as content")
            });
            let failed =
                failure.map(|failure| format!("ends with an API error: {}", failure.error));
            let what: Vec<String> = interrupted.into_iter().chain(content).chain(failed).collect();
            ("TranscriptRead", "transcript", format!("pid {}: {}", process.pid, what.join(", ")))
        }
        Entry::TaskRead { dir, signal, stop } => {
            let signal = signal.map_or("no .auto-signal", |_| "an .auto-signal");
            let stop = match stop.as_deref() {
                None => "no .auto-stop".to_owned(),
                Some("") => "an .auto-stop".to_owned(),
                Some(reason) => format!("an .auto-stop ({reason})"),
            };
            ("TaskRead", "task", format!("{dir}: {signal}, {stop}"))
        }
        Entry::Message { id, what, .. } => {
            line.session_id = Some(id);
            ("Message", "coordinator", what)
        }
        Entry::ConfigDirLock { config_dir, held } => {
            let what = if held { "held" } else { "held by another coordinator: observing only" };
            ("ConfigDirLock", "coordinator", format!("{config_dir}: {what}"))
        }
        Entry::Due => (DUE, "coordinator", "time passed".to_owned()),
        Entry::Hook { .. }
        | Entry::Folded { .. }
        | Entry::Decision(_)
        | Entry::Proved { .. }
        | Entry::Acted { .. }
        | Entry::ResumeClaimed { .. }
        | Entry::ResumeFailed { .. }
        | Entry::Operator { .. } => return,
    };
    name.clone_into(&mut line.name);
    line.source = source;
    line.detail = detail;
}

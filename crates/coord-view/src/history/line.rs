//! One record of the journal as a line of history.

use coord_model::envelope::Envelope;
use coord_model::stamp::{WallMs, rfc3339};
use coord_model::{
    ConfigChange, Decided, Decision, Event, Failure, Farewell, FleetEvent, NeedId, Outcome,
    PaneFound, ProcessRef, ProcessSeen, Record, Registry, RequestId, STATUS_LINE, Screen, Verdict,
    Via,
};
use serde::{Deserialize, Serialize};

use crate::work;

/// Name of the lines that report decisions.
pub(super) const DECISION: &str = "Decision";
/// Name of the lines that report the passing of time. They are not shown to people, because the decisions
/// show what time changed.
pub(super) const DUE: &str = "Due";

/// Name of the lines that report on messages.
const MESSAGE: &str = "Message";
/// Name of the lines that report a person's orders.
const REPLY_SEEN: &str = "ReplySeen";
pub(super) const OPERATOR: &str = "Operator";

/// What a line is about, from what matters most to people to what matters least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An edge of a session or of a turn: a start, an end, a prompt, a request.
    Edge,
    /// A decision.
    Decision,
    /// Something that happened to a message.
    Message,
    /// A person's order.
    Order,
    /// An action of coord, or a shutdown of the machine.
    Action,
    /// Work in a turn: tools, subagents, notifications.
    Activity,
    /// Something that coord saw: a process, a registry entry, a screen, the passing of time.
    Observation,
    /// Something that concerns the coordinator itself.
    Coordinator,
}

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The position in the journal.
    pub seq: u64,
    /// When it happened, in the format of RFC 3339.
    pub at: String,
    /// The session or message that the line is about, if there is one.
    pub session_id: Option<String>,
    /// What it is about.
    pub kind: Kind,
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
    /// The tool of a hook event.
    pub tool: Option<String>,
    /// The process that was observed.
    pub process: Option<ProcessRef>,
    /// The id of the rule that decided, for a decision.
    pub rule: Option<String>,
    /// The needs that it is about (U-01, N-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<NeedId>,
    /// Details, in words. Those of a decision begin with the rule; [`Line::words`] leaves it out.
    pub detail: String,
}

impl Line {
    /// The line of a record that was written by another version, at this wall time, in milliseconds since 1970.
    pub fn unreadable(seq: u64, at_ms: WallMs) -> Self {
        let (name, detail) = ("Unreadable".to_owned(), "written by another version".to_owned());
        Self { name, detail, ..Self::blank(seq, at_ms) }
    }

    fn blank(seq: u64, at: WallMs) -> Self {
        Self {
            seq,
            at: rfc3339(at),
            session_id: None,
            kind: Kind::Coordinator,
            name: String::new(),
            source: "coordinator",
            id: None,
            via: None,
            verified: None,
            tool: None,
            process: None,
            rule: None,
            needs: Vec::new(),
            detail: String::new(),
        }
    }

    /// The details for people, without the id of the rule (U-12).
    pub fn words(&self) -> &str {
        let rule = self.rule.as_deref().unwrap_or_default();
        let rest = self.detail.strip_prefix(rule).and_then(|rest| rest.strip_prefix(": "));
        rest.filter(|_| self.rule.is_some()).unwrap_or(&self.detail)
    }

    fn hook_ended(&mut self, session_id: String, request: RequestId) {
        let what = format!("{request}: its hook does not wait any longer");
        self.tells(session_id, "RequestHookEnded", what);
    }

    fn decides(&mut self, decision: Decision) {
        let Decision { session_id, rule, saw, did, need, notice } = decision;
        self.tells(session_id, DECISION, format!("{rule}: {saw} → {did}"));
        self.needs = need.map(|need| need.id).or(notice).into_iter().collect();
        self.rule = Some(rule.into_owned());
    }

    fn tells(&mut self, session_id: String, name: &str, detail: String) {
        self.session_id = Some(session_id);
        name.clone_into(&mut self.name);
        self.detail = detail;
    }
}

/// Turns a record into a line.
pub fn line(record: Record) -> Line {
    let mut line = Line::blank(record.seq, record.at);
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
        Event::Decision(decision) => line.decides(decision),
        Event::Proved { session_id, .. } => {
            line.tells(session_id, "Proved", "checked before an action".to_owned());
        }
        Event::Acted { session_id, outcome, .. } => {
            line.tells(session_id, "Acted", outcome_words(&outcome));
        }
        Event::WorkSeen { session_id, work, .. } => {
            line.tells(session_id, "WorkSeen", work::words(&work));
        }
        Event::ResumeClaimed { session_id, process, .. } => {
            let what = format!("pid {} becomes the client", process.pid);
            line.tells(session_id, "ResumeClaimed", what);
        }
        Event::ResumeFailed { session_id, why, .. } => {
            line.tells(session_id, "ResumeFailed", why);
        }
        Event::ReplySeen { session_id, request, decided, .. } => {
            line.tells(session_id, REPLY_SEEN, format!("{request}: {}", decided_words(decided)));
        }
        Event::RequestHookEnded { session_id, request, .. } => line.hook_ended(session_id, request),
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
        | Event::NoticeSent { .. }
        | Event::PresenceSeen { .. }
        | Event::LocalClock { .. }
        | Event::Fleet(_)
        | Event::JournalReopened { .. }) => own(&mut line, entry),
    }
    line.kind = kind(&line);
    line
}

fn kind(line: &Line) -> Kind {
    if line.source == "hook" {
        return match line.name.as_str() {
            "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "SubagentStart"
            | "SubagentStop" | "Notification" => Kind::Activity,
            STATUS_LINE => Kind::Observation,
            _ => Kind::Edge,
        };
    }
    match line.name.as_str() {
        DECISION => Kind::Decision,
        MESSAGE => Kind::Message,
        OPERATOR => Kind::Order,
        "Acted" | "ResumeClaimed" | "ResumeFailed" | "Shutdown" => Kind::Action,
        DUE | REPLY_SEEN | "Proved" => Kind::Observation,
        _ if matches!(line.source, "process" | "registry" | "pane" | "transcript" | "task") => {
            Kind::Observation
        }
        _ => Kind::Coordinator,
    }
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
    line.tool = envelope.tool_name;
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

fn transcript_words(
    is_interrupted: bool,
    has_signature: Option<bool>,
    failure: Option<Failure>,
) -> String {
    let interrupted = is_interrupted.then(|| "ends with an interrupt".to_owned());
    let content = has_signature.map(|has| {
        let verb = if has { "contains" } else { "does not contain" };
        format!("{verb} the text of the crash signature as content")
    });
    let failed = failure.map(|failure| format!("ends with an API error: {}", failure.error));
    interrupted.into_iter().chain(content).chain(failed).collect::<Vec<_>>().join(", ")
}

fn changes_words(changes: &[ConfigChange]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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

fn decided_words(decided: Option<Decided>) -> &'static str {
    match decided {
        Some(Decided::ByHook(Verdict::Allow)) => "the client notes that a hook allowed the call",
        Some(Decided::ByHook(Verdict::Deny)) => "the client notes that a hook denied the call",
        Some(Decided::AtTerminal) => "the call has a result, and no hook decided it",
        None => "the hook was gone before it got the reply",
    }
}

fn reopened_words(why: &str, after_ms: u64) -> String {
    format!("synced again; nothing was recorded for {} s: {why}", after_ms / 1000)
}

fn shutdown_words(under_way: bool) -> String {
    if under_way { "the machine is being shut down" } else { "called off" }.to_owned()
}

fn fleet_words(event: &FleetEvent) -> String {
    match event {
        FleetEvent::Needs { of, needs } => {
            let named = needs.iter().map(|need| format!("{} {}", need.name, need.text));
            let named = named.collect::<Vec<_>>().join(", ");
            let what = if named.is_empty() { "nobody is needed" } else { &named };
            format!("{}: {what}", of.name)
        }
        FleetEvent::NeedsLeft { machine } => {
            format!("machine {machine} tells of its needs itself, or is silent")
        }
        FleetEvent::Notifier { notifier: Some(notifier), told, taken } => {
            let list = |ids: &mut dyn Iterator<Item = &NeedId>| {
                ids.map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            let waiting = list(&mut taken.iter().filter(|id| !told.contains(id)));
            let parts = [("it has told", list(&mut told.iter())), ("will tell", waiting)];
            let parts = parts.iter().filter(|(_, ids)| !ids.is_empty());
            let parts = parts.map(|(what, ids)| format!("; {what} {ids}")).collect::<Vec<_>>();
            format!("{} tells of this machine's needs{}", notifier.name, parts.concat())
        }
        FleetEvent::Notifier { notifier: None, .. } => {
            "this machine tells of its needs itself".to_owned()
        }
    }
}

/// Name, source and words of what notices depend on.
fn of_notices(line: &mut Line, event: Event) -> (&'static str, &'static str, String) {
    if let Event::NoticeSent { channel, what, answer, needs, .. } = event {
        line.needs = needs;
        let result = if answer.is_sent { "sent" } else { "not sent" };
        let words = format!("{what} through {channel}: {result}: {}", answer.saying);
        return ("NoticeSent", "coordinator", words);
    }
    if let Event::PresenceSeen { need, is_present } = event {
        line.needs = vec![need];
        let who = if is_present { "somebody" } else { "nobody" };
        return ("PresenceSeen", "pane", format!("{who} is looking at the pane of {need}"));
    }
    if let Event::Fleet(event) = event {
        if let FleetEvent::Notifier { told, .. } = &event {
            line.needs.clone_from(told);
        }
        return ("FleetNotices", "coordinator", fleet_words(&event));
    }
    ("LocalClock", "system", "the local clock's distance from UTC was read".to_owned())
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
        Event::ProcessSeen(seen) => {
            line.process = Some(seen.process);
            ("ProcessSeen", "process", process_words(&seen))
        }
        Event::ProcessExited { process } => {
            line.process = Some(process);
            ("ProcessExited", "process", format!("pid {}", process.pid))
        }
        Event::RegistryRead { process, found, .. } => {
            line.process = Some(process);
            ("RegistryRead", "registry", format!("pid {}: {}", process.pid, registry_words(&found)))
        }
        Event::PaneSeen { process, found, .. } => {
            line.process = Some(process);
            ("PaneSeen", "pane", format!("pid {}: {}", process.pid, pane_words(&found)))
        }
        Event::TranscriptRead { process, interrupted_ms, has_signature, failure } => {
            line.process = Some(process);
            let what = transcript_words(interrupted_ms.is_some(), has_signature, failure);
            ("TranscriptRead", "transcript", format!("pid {}: {what}", process.pid))
        }
        Event::TaskRead { dir, found } => {
            ("TaskRead", "task", task_words(&dir, found.signal.is_some(), found.stop.as_deref()))
        }
        Event::Message { id, what, .. } => {
            line.session_id = Some(id);
            (MESSAGE, "coordinator", what)
        }
        Event::Shutdown { under_way } => ("Shutdown", "system", shutdown_words(under_way)),
        Event::ConfigDirLock { config_dir, held } => {
            let what =
                if held { "held" } else { "held by another coordinator; coord only observes" };
            ("ConfigDirLock", "coordinator", format!("{config_dir}: {what}"))
        }
        Event::ConfigChanged { changes, .. } => {
            ("ConfigChanged", "coordinator", changes_words(&changes))
        }
        event @ (Event::NoticeSent { .. }
        | Event::PresenceSeen { .. }
        | Event::LocalClock { .. }
        | Event::Fleet(_)) => of_notices(line, event),
        Event::JournalReopened { why, after_ms } => {
            ("JournalReopened", "coordinator", reopened_words(&why, after_ms))
        }
        Event::Due | Event::Tick => (DUE, "coordinator", "a deadline was reached".to_owned()),
        Event::Hook(_)
        | Event::Folded { .. }
        | Event::Decision(_)
        | Event::Proved { .. }
        | Event::Acted { .. }
        | Event::ResumeClaimed { .. }
        | Event::ResumeFailed { .. }
        | Event::WorkSeen { .. }
        | Event::ReplySeen { .. }
        | Event::RequestHookEnded { .. }
        | Event::Operator { .. } => return,
    };
    name.clone_into(&mut line.name);
    line.source = source;
    line.detail = detail;
}

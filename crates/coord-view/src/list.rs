//! Decides how sessions and runs are listed for people (U-02): one row each, in groups, those first that need a
//! person. `coord inspect`, `coord top` and the page draw the same rows.

mod numbers;
mod widths;
mod words;

pub use numbers::{Bound, Number};
pub use widths::Widths;
pub use words::{place_words, state_words};

use std::collections::BTreeSet;

use coord_model::stamp::parse_rfc3339;
use coord_model::{Decimal, Kind, ProcessRef, SessionState};
use coord_wire::inspect::{Inspect, Session};
use coord_wire::run::Run;

/// Sessions and runs that ended are listed for this long, in seconds.
const ENDED_LISTED_S: u64 = 24 * 3_600;
/// Where a person looks, so many ended ones are listed, and the others are counted.
pub const ENDED_MAX: usize = 5;
/// More interrupted sessions than this share one row.
const INTERRUPTED_MAX: usize = 3;
/// Characters of an id that stand for a session without a name.
const ID_CHARS: usize = 8;
/// Characters of a run's id; they tell the millisecond of its start.
const RUN_ID_CHARS: usize = "run_".len() + 12;

/// A group of rows, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A person has to act; the one that waits longest first.
    NeedsYou,
    /// Something happens; the newest first.
    Working,
    /// Something other than a person is waited for; the soonest end first.
    Waiting,
    /// At its prompt; the newest first.
    Idle,
    /// Over; the newest first.
    Ended,
}

impl Group {
    /// All groups, in order.
    pub const ALL: [Self; 5] =
        [Self::NeedsYou, Self::Working, Self::Waiting, Self::Idle, Self::Ended];

    /// The line above the group.
    pub fn head(self) -> &'static str {
        match self {
            Self::NeedsYou => "NEEDS YOU",
            Self::Working => "WORKING",
            Self::Waiting => "WAITING",
            Self::Idle => "IDLE",
            Self::Ended => "ENDED",
        }
    }
}

/// How a row is coloured; never the only sign of what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As other text.
    Plain,
    /// Less than other text.
    Dim,
    /// Something happens.
    Green,
    /// A person is awaited.
    Yellow,
    /// It failed.
    Red,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its group.
    pub group: Group,
    /// Its colour.
    pub tone: Tone,
    /// What tells it from other rows: the session's or the run's id.
    pub id: String,
    /// The name, else the beginning of the id.
    pub name: String,
    /// The state as in JSON.
    pub state: String,
    /// Age of the need, else of the state, in seconds.
    pub age_s: u64,
    /// Where it is.
    pub place: String,
    /// What it does or needs.
    pub what: String,
    /// A command or key that helps, which is never cut.
    pub hint: Option<String>,
    /// Whether it has a pane on the viewer's own tmux server, or on the only one that is known.
    pub has_pane: bool,
    /// How full its context window is, in percent; none if unknown.
    pub context: Option<Decimal>,
    /// Its cost in US dollars; none if unknown.
    pub cost: Option<Decimal>,
    /// Milliseconds since 1970 by which the rows of its group are ordered, the lowest first.
    order: u64,
}

impl Row {
    /// Whether a person has to act.
    pub fn needs_you(&self) -> bool {
        self.group == Group::NeedsYou
    }

    /// The sign before the row.
    pub fn sign(&self, is_ascii: bool) -> &'static str {
        match (self.group, is_ascii) {
            (Group::NeedsYou, _) => "!",
            (Group::Working, false) => "●",
            (Group::Working, true) => "*",
            (Group::Waiting, _) if self.state == "unknown" => "?",
            (Group::Waiting, false) => "◌",
            (Group::Waiting, true) => "~",
            (Group::Idle, false) => "○",
            (Group::Idle, true) => "o",
            (Group::Ended, false) => "·",
            (Group::Ended, true) => "-",
        }
    }
}

/// What the words of a row depend on beside the session.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Now, milliseconds since 1970.
    pub now_ms: u64,
    /// The user's home directory, which is written `~`; empty if unknown.
    pub home: &'a str,
    /// The socket of the viewer's own tmux server.
    pub server: Option<&'a str>,
    /// A time of day, as the viewer's clock shows it.
    pub clock: fn(u64) -> String,
    /// Which ended sessions and runs are listed.
    pub ended: Ended,
}

/// Which ended sessions and runs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of them.
    All,
    /// Those of the last 24 hours.
    Recent,
    /// The newest [`ENDED_MAX`] of the last 24 hours.
    Newest,
}

/// The rows of a list, and what was left out of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Ended sessions and runs that are not listed.
    pub more: usize,
    counts: [usize; 5],
    /// Messages that are worked on for long, and those whose consumer is late (S4-18).
    late: [usize; 2],
}

impl List {
    /// The rows of sessions and runs.
    pub fn of(answer: &Inspect, seen: &Seen) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        let interrupted: Vec<&Session> =
            answer.sessions.iter().filter(|one| is_interrupted(one)).collect();
        let is_shared = INTERRUPTED_MAX < interrupted.len();
        if is_shared {
            rows.push(shared(&interrupted, seen));
        }
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        for session in &answer.sessions {
            let run = newest_run(answer, session);
            listed.extend(run.map(|run| run.begin.run_id.as_str()));
            if !(is_shared && is_interrupted(session)) {
                rows.push(of_session(session, run, seen));
            }
        }
        for run in answer.runs.iter().filter(|run| !listed.contains(run.begin.run_id.as_str())) {
            if run.exit.is_none() || !answer.sessions.iter().any(|one| is_run_of(run, one)) {
                rows.push(of_run(run, seen));
            }
        }
        rows.sort_by(|a, b| (a.group, a.order, &a.name).cmp(&(b.group, b.order, &b.name)));
        if seen.ended != Ended::All {
            rows.retain(|row| row.group != Group::Ended || row.age_s <= ENDED_LISTED_S);
        }
        let counts = Group::ALL.map(|group| rows.iter().filter(|row| row.group == group).count());
        // Ended ones are last.
        let more = match seen.ended {
            Ended::All | Ended::Recent => 0,
            Ended::Newest => counts[4].saturating_sub(ENDED_MAX),
        };
        rows.truncate(rows.len() - more);
        let late =
            answer.coordinator.messages.as_ref().map(|messages| [messages.slow, messages.stuck]);
        Self { rows, more, counts, late: late.unwrap_or_default() }
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The summary: `3 need you (docs 41m) · 2 working · 5 idle · 1 message stuck`.
    pub fn summary(&self, dot: &str) -> String {
        let words = ["need you", "working", "waiting", "idle", "ended"];
        let mut parts: Vec<String> = Vec::new();
        for (n, word) in self.counts.iter().zip(words) {
            let is_needs = word == "need you";
            match (n, self.rows.first().filter(|row| is_needs && row.needs_you())) {
                (0, _) if is_needs => parts.push("Nobody needs you".to_owned()),
                (0, _) => (),
                (n, Some(first)) => {
                    let verb = if *n == 1 { "needs you" } else { word };
                    parts.push(format!("{n} {verb} ({} {})", first.name, age(first.age_s)));
                }
                (n, None) => parts.push(format!("{n} {word}")),
            }
        }
        for (n, word) in self.late.iter().zip(["slow", "stuck"]).filter(|(n, _)| 0 < **n) {
            let messages = if *n == 1 { "message" } else { "messages" };
            parts.push(format!("{n} {messages} {word}"));
        }
        parts.join(&format!(" {dot} "))
    }
}

/// An age in one short word.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m", seconds / 60),
        3600..=86_399 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The home directory as people write it.
pub fn tilde(path: &str, home: &str) -> String {
    match path.strip_prefix(home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        Some(_) | None => path.to_owned(),
    }
}

fn is_interrupted(session: &Session) -> bool {
    session.need.as_ref().is_some_and(|need| need.kind == "interrupted")
}

/// One row for many interrupted sessions.
fn shared(sessions: &[&Session], seen: &Seen) -> Row {
    let since = sessions.iter().filter_map(|one| one.need.as_ref()).map(|need| ms(&need.since));
    let since_ms = since.min().unwrap_or(seen.now_ms);
    Row {
        group: Group::NeedsYou,
        tone: Tone::Yellow,
        id: String::new(),
        name: format!("{} sessions", sessions.len()),
        state: "interrupted".to_owned(),
        age_s: seen.now_ms.saturating_sub(since_ms) / 1_000,
        place: String::new(),
        what: "coordctl restore".to_owned(),
        hint: Some("coordctl restore".to_owned()),
        has_pane: false,
        context: None,
        cost: None,
        order: since_ms,
    }
}

/// The newest run whose conversation this is.
fn newest_run<'a>(answer: &'a Inspect, session: &Session) -> Option<&'a Run> {
    let of = answer.runs.iter().filter(|run| is_run_of(run, session));
    of.max_by_key(|run| (run.exit.is_none(), &run.begin.run_id))
}

/// Whether the conversation is the run's. A run whose output is no stream names none; its process tells.
fn is_run_of(run: &Run, session: &Session) -> bool {
    if let Some(id) = &run.shown.session_id {
        return *id == session.session_id;
    }
    let is_owner = |process: ProcessRef| {
        let owner = session.owner.as_ref();
        owner.is_some_and(|one| (one.pid, one.start_time) == (process.pid, process.start_time))
    };
    run.begin.process.is_some_and(is_owner)
}

fn of_session(session: &Session, run: Option<&Run>, seen: &Seen) -> Row {
    let need = session.need.as_ref();
    let group = group_of(session);
    let since_ms = need.map_or(ms(&session.since), |need| ms(&need.since));
    let name = match (&session.name, run.and_then(|run| run.begin.name.as_ref())) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => shown_name(session),
    };
    // What is typed to reach it names its machine; what acts is done there (F-02, F-03).
    let is_here = session.elsewhere.machine.is_none();
    let name = if is_here { name } else { format!("{}/{name}", session.host) };
    let (what, hint) = words::of_session(session, run, seen);
    let usage = session.usage.as_ref();
    let run_cost = run.and_then(cost_of_run);
    Row {
        group,
        tone: if run.is_some_and(has_failed) { Tone::Red } else { tone_of(session) },
        id: session.session_id.clone(),
        state: state_name(session.state),
        age_s: seen.now_ms.saturating_sub(since_ms) / 1_000,
        place: words::place(session, seen),
        what,
        hint: hint.filter(|_| is_here),
        has_pane: is_here && words::has_pane(session, seen),
        context: usage.and_then(|usage| Some(usage.context.as_ref()?.percent)),
        cost: usage.and_then(|usage| Some(usage.cost.as_ref()?.usd)).or(run_cost),
        order: match group {
            Group::NeedsYou => since_ms,
            Group::Waiting => ends_ms(session).unwrap_or(u64::MAX - since_ms),
            Group::Working | Group::Idle | Group::Ended => u64::MAX - since_ms,
        },
        name,
    }
}

fn of_run(run: &Run, seen: &Seen) -> Row {
    let short: String = run.begin.run_id.chars().take(RUN_ID_CHARS).collect();
    let group = if run.exit.is_some() { Group::Ended } else { Group::Working };
    let since_ms = ms(&run.shown.since);
    let tone = match (&run.exit, has_failed(run)) {
        (None, _) => Tone::Green,
        (Some(_), true) => Tone::Red,
        (Some(_), false) => Tone::Dim,
    };
    Row {
        group,
        tone,
        id: run.begin.run_id.clone(),
        name: run.begin.name.clone().unwrap_or_else(|| run.begin.program.clone()),
        state: words::run_state(run).to_owned(),
        age_s: seen.now_ms.saturating_sub(since_ms) / 1_000,
        place: "headless".to_owned(),
        what: format!("{short}: {}", words::about_run(run, seen.now_ms)),
        hint: None,
        has_pane: false,
        context: None,
        cost: cost_of_run(run),
        order: u64::MAX - since_ms,
    }
}

fn cost_of_run(run: &Run) -> Option<Decimal> {
    Some(run.shown.cost.as_ref()?.usd)
}

/// Whether the run ended otherwise than well.
fn has_failed(run: &Run) -> bool {
    run.exit.as_ref().is_some_and(|exit| exit.outcome != "done")
}

/// The name that is shown, else the beginning of the id.
pub fn shown_name(session: &Session) -> String {
    let id = || session.session_id.chars().take(ID_CHARS).collect();
    session.display_name.clone().unwrap_or_else(id)
}

/// The name of a state in JSON.
pub fn state_name(state: SessionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(_) | Err(_) => String::new(),
    }
}

fn group_of(session: &Session) -> Group {
    if session.need.is_some() {
        return Group::NeedsYou;
    }
    let is_down = matches!(session.state, SessionState::Crashed | SessionState::Interrupted);
    if is_down && session.pending_recovery.is_some() {
        return Group::Waiting;
    }
    match session.state {
        SessionState::Starting
        | SessionState::Running
        | SessionState::Background
        | SessionState::Recovering => Group::Working,
        SessionState::Idle => Group::Idle,
        SessionState::Stopped | SessionState::Crashed | SessionState::Interrupted => Group::Ended,
        // A person dismissed what these need.
        SessionState::AwaitingPermission
        | SessionState::AwaitingInput
        | SessionState::BlockedAuth
        | SessionState::BlockedBilling
        | SessionState::Stalled
        | SessionState::RecoveryPending
        | SessionState::QuotaWait
        | SessionState::Suspended
        | SessionState::Foreign
        | SessionState::Elsewhere
        | SessionState::Unknown => Group::Waiting,
    }
}

fn tone_of(session: &Session) -> Tone {
    let is_red = matches!(
        session.state,
        SessionState::Crashed | SessionState::BlockedAuth | SessionState::BlockedBilling
    );
    match group_of(session) {
        Group::NeedsYou if is_red => Tone::Red,
        Group::NeedsYou => Tone::Yellow,
        Group::Working => Tone::Green,
        Group::Waiting if session.state == SessionState::RecoveryPending => Tone::Yellow,
        Group::Waiting | Group::Ended => Tone::Dim,
        Group::Idle => Tone::Plain,
    }
}

/// When what it waits for ends, milliseconds since 1970.
fn ends_ms(session: &Session) -> Option<u64> {
    let recovery = session.pending_recovery.as_ref().and_then(|one| one.next_attempt_at.as_deref());
    let quota = session.quota.as_ref().and_then(|quota| quota.until.as_deref());
    recovery.or(quota).and_then(parse_rfc3339)
}

fn ms(at: &str) -> u64 {
    parse_rfc3339(at).unwrap_or(0)
}

/// Whether it is a headless session.
fn is_headless(session: &Session) -> bool {
    session.kind == Some(Kind::Headless)
}

#[cfg(test)]
mod tests {
    use coord_wire::inspect::Coordinator;
    use coord_wire::message::Totals;

    use super::*;

    // S4-18
    #[test]
    fn s4_18_messages_that_take_long_stand_in_the_summary() {
        let summary = |slow, stuck| {
            let messages = Some(Totals { slow, stuck, ..Totals::default() });
            let coordinator = Coordinator { messages, ..Coordinator::default() };
            let answer = Inspect { coordinator, ..Inspect::default() };
            let seen = Seen {
                now_ms: 0,
                home: "",
                server: None,
                clock: |_| String::new(),
                ended: Ended::All,
            };
            List::of(&answer, &seen).summary("·")
        };
        assert_eq!(summary(0, 0), "Nobody needs you");
        assert_eq!(summary(2, 1), "Nobody needs you · 2 messages slow · 1 message stuck");
    }

    #[test]
    fn ages_are_one_word() {
        assert_eq!([5, 65, 7300, 200_000].map(age), ["5s", "1m", "2h", "2d"]);
    }

    #[test]
    fn a_home_is_written_short() {
        assert_eq!(tilde("/home/dev/a", "/home/dev"), "~/a");
        assert_eq!(tilde("/home/developer", "/home/dev"), "/home/developer");
        assert_eq!(tilde("/a", ""), "/a");
    }
}

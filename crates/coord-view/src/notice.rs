//! The words of a notice, as a channel tells it (N-05): the session's name, its place and directory, what is needed
//! and since when. No text of a prompt, of a tool's input or output, and no file's name.

use coord_core::{HeardNeed, State};
use coord_model::stamp::rfc3339;
use coord_model::{NeedId, NeedKind, NoticeKind, Now, TellAct, Work};
use coord_wire::notice::{Notice, NoticeEvent, SCHEMA};

use crate::list::{age, shown_name, tilde};
use crate::text::{escape, fit, fit_end, width};
use crate::{sessions, work};

/// Columns of a line on a terminal.
const LINE_COLUMNS: usize = 80;
/// Columns of a place that still tells something.
const PLACE_COLUMNS_MIN: usize = 6;
/// Columns of a tool's input in a notice.
const INPUT_COLUMNS: usize = 500;
/// Needs that a digest lists.
const LISTED_MAX: usize = 8;

/// Where a notice is told from.
#[derive(Debug, Clone, Copy)]
pub struct From<'a> {
    /// The state.
    pub state: &'a State,
    /// The machine's name.
    pub host: &'a str,
    /// The user's home directory.
    pub home: &'a str,
    /// The time.
    pub now: Now,
}

/// A notice, and the same in one line for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The notice.
    pub notice: Notice,
    /// The line.
    pub line: String,
}

/// The words of what a channel is asked to tell.
pub fn words(act: &TellAct, from: From<'_>) -> Words {
    match act {
        TellAct::One { id, kind, since_ms, repeat, may_be_repeated, .. } => {
            let mut words = of_one(*id, *kind, *since_ms, from);
            words.notice.repeat = *repeat;
            words.notice.may_be_repeated = *may_be_repeated;
            if *may_be_repeated {
                words.line = fit(&format!("{} (repeat)", words.line), LINE_COLUMNS);
            }
            words
        }
        TellAct::Digest { ids } => digest(ids, from),
        TellAct::Withdraw { id, kind, how, .. } => withdrawal(*id, *kind, how, from),
    }
}

/// A notice that a person asked for, to see whether a channel works (N-06).
pub fn test(host: &str) -> Words {
    let text = "This is a test of coord's notices".to_owned();
    let line = format!("coord: {text}");
    Words { notice: Notice { event: NoticeEvent::Test, text, ..blank(host) }, line }
}

/// A tool's input in one line: the command by itself where it is one, else as JSON.
pub fn input(json: &str) -> String {
    let value = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    let command = value.get("command").and_then(serde_json::Value::as_str);
    fit(&escape(&command.unwrap_or(json).replace(['\n', '\t'], " ")), INPUT_COLUMNS)
}

fn blank(host: &str) -> Notice {
    Notice {
        schema: SCHEMA,
        event: NoticeEvent::Need,
        id: None,
        kind: None,
        session: None,
        session_id: None,
        text: String::new(),
        directory: None,
        place: None,
        work: None,
        since: None,
        age_s: None,
        repeat: 0,
        may_be_repeated: false,
        how: None,
        lines: Vec::new(),
        more: 0,
        host: escape(host),
    }
}

/// A session that a notice names, and its need.
struct Named {
    session_id: String,
    name: String,
    place: Option<String>,
    directory: String,
    work: Option<String>,
    /// Why it needs a person, in words that follow its name; none if it does not any more.
    why: Option<String>,
    /// The open need's kind, and since when, milliseconds since 1970.
    open: Option<(NeedKind, u64)>,
}

fn named(id: NeedId, from: From<'_>) -> Option<Named> {
    if let Some(heard) = from.state.header().elsewhere.needs.get(&id) {
        return Some(elsewhere(heard));
    }
    let record = from.state.session(id.session)?;
    let session = sessions::session(from.state, record, from.now);
    let place = session.place.as_ref().filter(|place| place.kind != "directory");
    let place = place.map(|place| escape(&place.text));
    let directory = escape(&tilde(&session.cwd, from.home));
    let work = match session.git.as_ref().map(|git| &git.work) {
        Some(Work::Facts(facts)) => work::unfinished(facts),
        Some(Work::NoRepository | Work::NotOurs | Work::Unknown { .. }) | None => None,
    };
    let name = escape(&shown_name(&session));
    let shown = session.needs.iter().find(|need| need.id == id.to_string());
    let why = shown.map(|need| escape(&need.text));
    let open = record.needs.iter().find(|need| need.id == id);
    let open = open.map(|need| (need.kind, need.since.wall_ms));
    Some(Named { session_id: session.session_id, name, place, directory, work, why, open })
}

/// A session of another machine (F-02).
fn elsewhere(heard: &HeardNeed) -> Named {
    let HeardNeed { of, need } = heard;
    Named {
        session_id: escape(&need.session_id),
        name: format!("{}/{}", escape(&of.name), escape(&need.name)),
        place: need.place.as_ref().map(|place| escape(place)),
        directory: escape(&need.directory),
        work: None,
        why: Some(escape(&need.text)),
        open: Some((need.kind, need.since_ms)),
    }
}

fn of_one(id: NeedId, kind: NoticeKind, since_ms: u64, from: From<'_>) -> Words {
    let age_s = from.now.wall_ms.saturating_sub(since_ms) / 1000;
    let named = named(id, from);
    let name = named.as_ref().map_or("a session", |one| one.name.as_str());
    let why = named.as_ref().and_then(|one| one.why.as_deref());
    let replied = (kind == NoticeKind::Replied).then(|| replied(id, from)).flatten();
    let text = format!("{name} {}{}", what(kind, why, age_s), replied.unwrap_or_default());
    let heard = from.state.header().elsewhere.needs.get(&id);
    let host = heard.map_or(from.host, |heard| &heard.of.name);
    let notice = Notice {
        event: match kind {
            NoticeKind::Need(_) => NoticeEvent::Need,
            NoticeKind::Recovered | NoticeKind::Finished | NoticeKind::Replied => NoticeEvent::News,
        },
        id: Some(id),
        kind: Some(kind),
        session: Some(name.to_owned()),
        session_id: named.as_ref().map(|one| one.session_id.clone()),
        text: text.clone(),
        directory: named.as_ref().map(|one| one.directory.clone()),
        place: named.as_ref().and_then(|one| one.place.clone()),
        work: named.as_ref().and_then(|one| one.work.clone()),
        since: Some(rfc3339(since_ms)),
        age_s: Some(age_s),
        ..blank(host)
    };
    let command = match kind {
        NoticeKind::Need(_) if id.is_elsewhere() => Some(format!("coord go {name}")),
        NoticeKind::Need(kind) => kind.command(name),
        NoticeKind::Recovered | NoticeKind::Finished | NoticeKind::Replied => None,
    };
    let place = notice.place.as_deref();
    let line = line(kind, &text, command, (place, notice.work.as_deref()), age_s);
    Words { notice, line }
}

/// What the newest reply did.
fn replied(id: NeedId, from: From<'_>) -> Option<String> {
    let reply = from.state.session(id.session)?.replies.last()?;
    let what = match reply.tool.as_str() {
        "AskUserQuestion" => "question".to_owned(),
        "ExitPlanMode" => "plan".to_owned(),
        tool => escape(tool),
    };
    Some(format!(": {what} {}", reply.kind.did()))
}

/// What is needed, or what happened, after the session's name.
fn what(kind: NoticeKind, why: Option<&str>, age_s: u64) -> String {
    match kind {
        NoticeKind::Recovered => "was recovered".to_owned(),
        NoticeKind::Finished => "finished".to_owned(),
        NoticeKind::Replied => "got an answer from coordctl".to_owned(),
        NoticeKind::Need(NeedKind::Login) => "must log in".to_owned(),
        NoticeKind::Need(NeedKind::Crashed) => "crashed".to_owned(),
        NoticeKind::Need(NeedKind::Interrupted) => "was interrupted".to_owned(),
        NoticeKind::Need(NeedKind::Stalled) => format!("shows no change for {}", age(age_s)),
        NoticeKind::Need(
            NeedKind::Permission
            | NeedKind::Question
            | NeedKind::Plan
            | NeedKind::Dialog
            | NeedKind::Billing
            | NeedKind::UsageLimit
            | NeedKind::NeedsOperator
            | NeedKind::TwoOwners,
        ) => why.unwrap_or("needs you").to_owned(),
    }
}

fn line(
    kind: NoticeKind,
    text: &str,
    command: Option<String>,
    (place, work): (Option<&str>, Option<&str>),
    age_s: u64,
) -> String {
    let (command, shows_age) = match kind {
        NoticeKind::Need(NeedKind::Login) => (Some("type /login there".to_owned()), false),
        NoticeKind::Need(NeedKind::NeedsOperator) => (None, false),
        NoticeKind::Need(kind) => (command, kind.is_prompt()),
        NoticeKind::Recovered | NoticeKind::Finished | NoticeKind::Replied => (command, false),
    };
    let has_command = matches!(kind, NoticeKind::Need(NeedKind::Crashed | NeedKind::Interrupted));
    let head = match command {
        Some(command) => format!("coord: {text}; {command}"),
        None => format!("coord: {text}"),
    };
    if has_command {
        // A command is never cut.
        let with_work = work.map(|work| format!("{head} ({work})"));
        return with_work.filter(|line| width(line) <= LINE_COLUMNS).unwrap_or(head);
    }
    let age = shows_age.then(|| age(age_s));
    let taken = width(&head) + 3 + age.as_ref().map_or(0, |age| 2 + width(age));
    let room = LINE_COLUMNS.saturating_sub(taken);
    let place = place.filter(|place| width(place) <= room || PLACE_COLUMNS_MIN <= room);
    let place = place.map(|place| fit_end(place, room));
    let inside: Vec<String> = place.into_iter().chain(age).collect();
    let tail = if inside.is_empty() { String::new() } else { format!(" ({})", inside.join(", ")) };
    fit(&format!("{head}{tail}"), LINE_COLUMNS)
}

fn digest(ids: &[NeedId], from: From<'_>) -> Words {
    let mut lines = Vec::new();
    let mut sessions = std::collections::BTreeSet::new();
    for id in ids {
        let heard = from.state.header().elsewhere.needs.get(id);
        let elsewhere = heard.map(|heard| (heard.of.machine, heard.need.session_id.as_str()));
        sessions.insert((id.session, elsewhere));
        let Some(named) = named(*id, from) else { continue };
        let Some((kind, since_ms)) = named.open.filter(|_| lines.len() < LISTED_MAX) else {
            continue;
        };
        let age_s = from.now.wall_ms.saturating_sub(since_ms) / 1000;
        let what = what(NoticeKind::Need(kind), named.why.as_deref(), age_s);
        lines.push(format!("{} {what}, {}", named.name, age(age_s)));
    }
    let text = match sessions.len() {
        1 => format!("1 session needs you for {} reasons", ids.len()),
        n => format!("{n} sessions need you"),
    };
    let more = u32::try_from(ids.len().saturating_sub(lines.len())).unwrap_or(u32::MAX);
    let fleet = if ids.iter().any(|id| id.is_elsewhere()) { "--fleet " } else { "" };
    let line = format!("coord: {text}; coord inspect {fleet}--needs-me");
    let event = NoticeEvent::Digest;
    Words { notice: Notice { event, text, lines, more, ..blank(from.host) }, line }
}

fn withdrawal(id: NeedId, kind: NoticeKind, how: &str, from: From<'_>) -> Words {
    let named = named(id, from);
    let name = named.as_ref().map_or("a session", |one| one.name.as_str());
    let text = format!("{name}: {how}");
    let notice = Notice {
        event: NoticeEvent::Withdrawn,
        id: Some(id),
        kind: Some(kind),
        session: Some(name.to_owned()),
        session_id: named.as_ref().map(|one| one.session_id.clone()),
        text: text.clone(),
        how: Some(how.to_owned()),
        ..blank(from.host)
    };
    Words { notice, line: fit(&format!("coord: {text}"), LINE_COLUMNS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: NeedKind, text: &str, name: &str, place: Option<&str>, age_s: u64) -> String {
        line(NoticeKind::Need(kind), text, kind.command(name), (place, None), age_s)
    }

    // N-02: one line, in which a command is never cut.
    // N-05
    #[test]
    fn an_input_is_one_line() {
        assert_eq!(input(r#"{"command":"ls\n-la \u202e","description":"x"}"#), "ls -la ");
        assert_eq!(input(r#"{"file_path":"/x"}"#), r#"{"file_path":"/x"}"#);
        assert!(input(&format!(r#"{{"command":"{}"}}"#, "x".repeat(9000))).ends_with('…'));
    }

    #[test]
    fn a_line_fits_a_terminal() {
        let (asks, place) = ("parser asks to run Bash", Some("work:api.1"));
        for (kind, text, place, age_s, words) in [
            (
                NeedKind::Permission,
                asks,
                place,
                20,
                "coord: parser asks to run Bash (work:api.1, 20s)",
            ),
            (NeedKind::Permission, asks, None, 240, "coord: parser asks to run Bash (4m)"),
            (
                NeedKind::Login,
                "parser must log in",
                place,
                0,
                "coord: parser must log in; type /login there (work:api.1)",
            ),
            (
                NeedKind::Billing,
                "parser stopped: account needs payment",
                place,
                0,
                "coord: parser stopped: account needs payment (work:api.1)",
            ),
            (
                NeedKind::NeedsOperator,
                "parser needs you: 3 recoveries failed",
                place,
                0,
                "coord: parser needs you: 3 recoveries failed (work:api.1)",
            ),
            (
                NeedKind::Crashed,
                "parser crashed",
                place,
                0,
                "coord: parser crashed; coordctl recover parser",
            ),
            (
                NeedKind::Stalled,
                "parser shows no change for 30m",
                place,
                0,
                "coord: parser shows no change for 30m (work:api.1)",
            ),
        ] {
            assert_eq!(of(kind, text, "parser", place, age_s), words);
        }
        let finished =
            line(NoticeKind::Finished, "nightly finished", None, (Some("headless"), None), 9);
        assert_eq!(finished, "coord: nightly finished (headless)");
        let long = of(NeedKind::Permission, asks, "parser", Some(&"window-".repeat(20)), 20);
        assert!(width(&long) == LINE_COLUMNS && long.ends_with("window-, 20s)"), "{long}");
        let long = of(NeedKind::Permission, &"parser ".repeat(20), "parser", place, 20);
        assert_eq!(width(&long), LINE_COLUMNS);
        let with = |name: &str, work| {
            let (kind, text) = (NeedKind::Crashed, format!("{name} crashed"));
            line(NoticeKind::Need(kind), &text, kind.command(name), (None, Some(work)), 0)
        };
        let crashed = with("parser", "12 changed, 2 new");
        assert_eq!(crashed, "coord: parser crashed; coordctl recover parser (12 changed, 2 new)");
        let crashed = with("parser", "rebase in progress · 12 changed, 2 new");
        assert_eq!(crashed, "coord: parser crashed; coordctl recover parser", "no room");
        let name = "n".repeat(24);
        let crashed = of(NeedKind::Crashed, &format!("{name} crashed"), &name, place, 0);
        assert!(crashed.ends_with(&format!("coordctl recover {name}")));
    }
}

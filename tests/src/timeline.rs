//! What the coordinator said of every session, from moment to moment, against what it should have
//! said.
//!
//! A thread asks `GET /v1/sessions` every few milliseconds and keeps every change. A script marks
//! what it does and which state has to follow; [`Timeline::assert_kept`] then judges the whole line:
//! each state reached, nothing else on the way but what the mark allows, and no change until the
//! next mark. While nobody answers nothing is stated, and only a script that killed the coordinator
//! may have that. How much of what was stated was true is measured in [`crate::truth`].
//!
//! The thread also reads what the client itself writes of its sessions, in every configuration:
//! what the coordinator may not know, its judge may.

use crate::home::Home;
use crate::truth::{self, CONTINUED, GONE, Measured, SUSPENDED};
use crate::wait::wait_until;
use coord_model::Kind;
use coord_model::SessionState;
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::inspect::{Inspect, Session};
use coord_wire::limits::BODY_BYTES_MAX;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// The line of all sessions of one coordinator, and the marks of one script.
#[derive(Debug)]
pub struct Timeline {
    shared: Arc<Mutex<Line>>,
    thread: Option<JoinHandle<()>>,
    marks: Vec<Mark>,
}

#[derive(Debug, Default)]
struct Line {
    looks: u64,
    changes: Vec<Change>,
    told: Vec<Told>,
    is_over: bool,
}

/// From this moment on the sessions were like this.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) at_ms: u64,
    /// None while nobody answered.
    pub(crate) sessions: Option<Vec<Seen>>,
}

/// What the client itself wrote of one of its sessions, or what became of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) at_ms: u64,
    pub(crate) pid: u64,
    pub(crate) session: String,
    pub(crate) status: String,
}

/// One session at one moment.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its id, then those it had before.
    pub ids: Vec<String>,
    /// The pid of its owner.
    pub pid: Option<u32>,
    /// Its state.
    pub state: SessionState,
    /// Why.
    pub because: String,
    /// Interactive or headless.
    pub kind: Option<Kind>,
    /// The newest thing the client said of it, milliseconds since 1970.
    pub(crate) news_ms: u64,
}

/// What has to follow: what is true, and what the coordinator can know of it.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// What the client does.
    pub truth: SessionState,
    /// What has to be shown.
    pub shown: SessionState,
}

impl From<SessionState> for Expected {
    fn from(state: SessionState) -> Self {
        Self { truth: state, shown: state }
    }
}

/// A session as a script names it: its id, and its client's pid, for two may hold one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) pid: u32,
}

/// Something done, and what has to follow.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) what: String,
    pub(crate) at_ms: u64,
    pub(crate) session: Named,
    pub(crate) expected: Expected,
    through: Vec<SessionState>,
    /// Whether the coordinator may be away for a while.
    has_gap: bool,
    /// Until when it may be shown as running although it is said to be idle, milliseconds since 1970.
    runs_until_ms: u64,
}

impl Timeline {
    /// Begins to look.
    pub fn start(home: &Home) -> Self {
        let shared = Arc::new(Mutex::new(Line::default()));
        let (for_thread, socket) = (Arc::clone(&shared), home.paths().socket());
        let registry = home.config_dir().join("sessions");
        let thread = std::thread::spawn(move || look(&for_thread, &socket, &registry));
        Self { shared, thread: Some(thread), marks: Vec::new() }
    }

    /// The session whose owner is `pid`, as soon as there is one that `fits`.
    #[track_caller]
    pub fn wait_owner(&self, pid: u32, fits: impl Fn(&Seen) -> bool) -> Seen {
        self.wait(&format!("the session of process {pid}"), |seen| {
            seen.pid == Some(pid) && fits(seen)
        })
    }

    /// A session that `fits`, as soon as there is one.
    #[track_caller]
    pub fn wait(&self, what: &str, fits: impl Fn(&Seen) -> bool) -> Seen {
        wait_until(what, || {
            let now = self.sessions();
            now.iter().find(|seen| fits(seen)).cloned().ok_or(now)
        })
    }

    /// All sessions at the last look; none while nobody answers.
    pub fn sessions(&self) -> Vec<Seen> {
        let last = self.line().changes.last().cloned();
        last.and_then(|change| change.sessions).unwrap_or_default()
    }

    /// Marks that something is about to be done, after which the session of that id and process has
    /// to be `expected`, possibly going `through` others.
    pub fn mark(
        &mut self,
        what: &str,
        (id, pid): (&str, u32),
        expected: impl Into<Expected>,
        through: &[SessionState],
    ) {
        let session = Named { id: id.to_owned(), pid };
        let (what, at_ms) = (what.to_owned(), wall_ms());
        let (expected, through) = (expected.into(), through.to_owned());
        self.marks.push(Mark {
            what,
            at_ms,
            session,
            expected,
            through,
            has_gap: false,
            runs_until_ms: 0,
        });
    }

    /// Allows that nobody answers for a while after the last mark, and that what comes then is first
    /// the state before it, or unknown.
    #[track_caller]
    pub fn allow_gap(&mut self) {
        let mark = self.marks.last_mut().expect("a mark comes first");
        mark.has_gap = true;
        mark.through.push(SessionState::Unknown);
    }

    /// Allows that it was shown as running again up to now. Under load a client works on for seconds after the last hook
    /// of its turn, and without the registry only its screen says so.
    #[track_caller]
    pub fn allow_running_until_now(&mut self) {
        self.marks.last_mut().expect("a mark comes first").runs_until_ms = wall_ms();
    }

    /// Waits until the client itself has come to the last mark's state, whoever knows of it: its
    /// own registry says so, or its process does.
    #[track_caller]
    pub fn wait_done(&self) {
        let mark = self.marks.last().expect("a mark comes first");
        wait_until(&format!("the client itself is {:?}", mark.expected.truth), || {
            let told = self.line().told.clone();
            truth::told_ms(&told, mark).ok_or(told)
        });
    }

    /// Waits until a client itself says that it is at its prompt: it may be at the hooks of its last turn's end still.
    #[track_caller]
    pub fn wait_at_prompt(&self, pid: u32) {
        wait_until("the client itself is idle", || {
            let line = self.line();
            let newest = line.told.iter().rfind(|told| told.pid == u64::from(pid));
            let status = newest.map(|told| told.status.clone());
            if status.as_deref() == Some("idle") { Ok(()) } else { Err(status) }
        });
    }

    /// As [`Self::wait_done`], where the last mark changed what is true, and the client's own words can tell it.
    #[track_caller]
    pub fn settle(&self) {
        let [.., before, mark] = self.marks.as_slice() else { return };
        let is_same = before.session.pid == mark.session.pid;
        if is_same && truth::is_told(before.expected.truth, mark.expected.truth) {
            self.wait_done();
        }
    }

    /// Says which session the last mark is about, where that was not known before.
    #[track_caller]
    pub fn name(&mut self, id: &str, pid: u32) {
        let mark = self.marks.last_mut().expect("a mark comes first");
        mark.session = Named { id: id.to_owned(), pid };
    }

    /// Waits until the last mark's state is there, and for `looks` more looks.
    #[track_caller]
    pub fn reach(&self, looks: u64) {
        let mark = self.marks.last().expect("a mark comes first");
        let expected = mark.expected.shown;
        wait_until(&format!("{expected:?} after {:?}", mark.what), || {
            let sessions = self.sessions();
            if mark.session.among(&sessions).is_some_and(|seen| seen.state == expected) {
                Ok(())
            } else {
                Err(Text(self.text(&self.line(), &mark.session)))
            }
        });
        self.look_on(looks);
    }

    /// Looks on for as long as that; for what happens by itself after a time.
    #[track_caller]
    pub fn stay(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.look_on(10);
        }
    }

    /// Waits for so many more looks.
    #[track_caller]
    pub fn look_on(&self, looks: u64) {
        let until = self.line().looks + looks;
        wait_until("more looks", || {
            let looks = self.line().looks;
            if until <= looks { Ok(()) } else { Err(looks) }
        });
    }

    /// What was said of a session, from when on.
    pub(crate) fn said_of<T>(&self, session: &Named, each: impl Fn(u64, Said<'_>) -> T) -> Vec<T> {
        let line = self.line();
        line_of(&line.changes, session).map(|(at_ms, said)| each(at_ms, said)).collect()
    }

    /// Judges the line.
    #[track_caller]
    pub fn assert_kept(&self) {
        let line = self.line();
        let ends = self.marks.iter().skip(1).map(|mark| mark.at_ms).chain([u64::MAX]);
        for (mark, end_ms) in self.marks.iter().zip(ends) {
            if let Err(why) = judge(&line.changes, mark, end_ms) {
                panic!("{why}\n{}", self.text(&line, &mark.session));
            }
        }
    }

    /// How true the line was, mark by mark.
    pub fn measure(&self) -> Vec<Measured> {
        let line = self.line();
        truth::measure(&line.changes, &line.told, &self.marks, wall_ms())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.shared.lock().expect("no thread panics while it holds the line")
    }

    /// Marks and changes of one session in their order.
    fn text(&self, line: &Line, session: &Named) -> String {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for mark in &self.marks {
            lines.push((mark.at_ms, format!("{} -> {:?}", mark.what, mark.expected.shown)));
        }
        for told in line.told.iter().filter(|told| told.session == session.id) {
            lines.push((told.at_ms, format!("  process {} says {}", told.pid, told.status)));
        }
        for (at_ms, said) in line_of(&line.changes, session) {
            lines.push((at_ms, format!("    {said:?}")));
        }
        lines.sort_by_key(|(at_ms, _)| *at_ms);
        let begin_ms = lines.first().map_or(0, |(at_ms, _)| *at_ms);
        lines.iter().fold(String::new(), |mut text, (at_ms, what)| {
            let _ = writeln!(text, "{:>7} ms {what}", at_ms - begin_ms);
            text
        })
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        if let Ok(mut line) = self.shared.lock() {
            line.is_over = true;
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Named {
    /// Its record: that of its process, where several hold the id.
    fn among<'a>(&self, sessions: &'a [Seen]) -> Option<&'a Seen> {
        let with_id = || sessions.iter().filter(|seen| seen.ids.contains(&self.id));
        with_id().find(|seen| seen.pid == Some(self.pid)).or_else(|| with_id().next())
    }
}

/// A text in a failure message, as it looks.
struct Text(String);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0.trim_end())
    }
}

/// What was said of one session from some moment on.
#[derive(Clone, Copy)]
pub(crate) enum Said<'a> {
    /// It was like this.
    Is(&'a Seen),
    /// It was not among those listed.
    Nothing,
    /// Nobody answered.
    Silence,
}

impl fmt::Debug for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(seen) => write!(f, "{:?}: {}", seen.state, seen.because),
            Self::Nothing => f.write_str("not listed"),
            Self::Silence => f.write_str("no answer"),
        }
    }
}

/// What was said of one session.
pub(crate) fn line_of<'a>(
    changes: &'a [Change],
    session: &'a Named,
) -> impl DoubleEndedIterator<Item = (u64, Said<'a>)> {
    changes.iter().map(move |change| {
        let said = match change.sessions.as_ref().map(|sessions| session.among(sessions)) {
            Some(Some(seen)) => Said::Is(seen),
            Some(None) => Said::Nothing,
            None => Said::Silence,
        };
        (change.at_ms, said)
    })
}

/// Judges what followed one mark up to the next.
fn judge(changes: &[Change], mark: &Mark, end_ms: u64) -> Result<(), String> {
    let expected = mark.expected.shown;
    // Where `unknown` may pass, it is no state to come from, and takes none back.
    let is_passing =
        |state: SessionState| state == SessionState::Unknown && mark.through.contains(&state);
    let before = line_of(changes, &mark.session).rev().find_map(|(at_ms, said)| match said {
        Said::Is(seen) if at_ms < mark.at_ms && !is_passing(seen.state) => Some(seen.state),
        Said::Is(_) | Said::Nothing | Said::Silence => None,
    });
    let during = line_of(changes, &mark.session);
    let during = during.filter(|(at_ms, _)| (mark.at_ms..end_ms).contains(at_ms));
    let mut is_there = before == Some(expected);
    for (at_ms, said) in during {
        let state = match said {
            Said::Is(seen) => seen.state,
            Said::Silence if mark.has_gap => continue,
            // Before its first event a session is not known.
            Said::Nothing if before.is_none() && !is_there => continue,
            Said::Nothing | Said::Silence => return Err(format!("{said:?} after {:?}", mark.what)),
        };
        let runs_on = state == SessionState::Running && at_ms <= mark.runs_until_ms;
        let is_allowed = runs_on || mark.through.contains(&state);
        if state == expected {
            is_there = true;
        } else if is_allowed || (Some(state) == before && !is_there) {
            is_there &= is_passing(state);
        } else {
            return Err(format!("{state:?} after {:?}", mark.what));
        }
    }
    if is_there { Ok(()) } else { Err(format!("not {expected:?} after {:?}", mark.what)) }
}

pub(crate) fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(now.tv_sec * 1000 + now.tv_nsec / 1_000_000).expect("after 1970")
}

/// What became of the processes of the client's sessions since the last look.
fn changed_processes(told: &[Told], at_ms: u64) -> Vec<Told> {
    let mut newest: BTreeMap<u64, (&Told, bool)> = BTreeMap::new();
    for told in told {
        let was_stopped = newest.get(&told.pid).is_some_and(|(_, was_stopped)| *was_stopped);
        let is_stopped = match told.status.as_str() {
            SUSPENDED => true,
            CONTINUED => false,
            _ => was_stopped,
        };
        newest.insert(told.pid, (told, is_stopped));
    }
    let alive = newest.into_values().filter(|(told, _)| told.status != GONE);
    let changed = alive.filter_map(|(told, was_stopped)| {
        let status = match (process_state(told.pid), was_stopped) {
            (None | Some('Z'), _) => GONE,
            (Some('T'), false) => SUSPENDED,
            (Some(state), true) if state != 'T' => CONTINUED,
            (Some(_), _) => return None,
        };
        Some(Told { at_ms, status: status.to_owned(), ..told.clone() })
    });
    changed.collect()
}

/// The letter of a process's state; none if there is no such process.
fn process_state(pid: u64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Looks until the line is over.
fn look(line: &Mutex<Line>, socket: &Path, registry: &Path) {
    loop {
        let entries = read_registry(registry);
        let sessions = ask(socket);
        let at_ms = wall_ms();
        let Ok(mut line) = line.lock() else { return };
        if line.is_over {
            return;
        }
        for told in entries.iter().filter_map(|entry| told(entry, at_ms)) {
            let is_known = |known: &Told| *known == told;
            if !line.told.iter().any(is_known) {
                line.told.push(told);
            }
        }
        let processes = changed_processes(&line.told, at_ms);
        line.told.extend(processes);
        let now: Option<Vec<Seen>> = sessions.map(|sessions| {
            sessions.iter().map(|session| seen(session, &entries, at_ms)).collect()
        });
        line.looks += u64::from(now.is_some());
        let essence = |sessions: &Option<Vec<Seen>>| {
            let of = |seen: &Seen| (seen.ids.clone(), seen.pid, seen.state);
            sessions.as_ref().map(|sessions| sessions.iter().map(of).collect::<Vec<_>>())
        };
        if line.changes.last().map(|last| essence(&last.sessions)) != Some(essence(&now)) {
            line.changes.push(Change { at_ms, sessions: now });
        }
        drop(line);
        std::thread::park_timeout(INTERVAL);
    }
}

/// The entries of the client's registry.
fn read_registry(dir: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let entries = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let texts = entries.filter_map(|path| std::fs::read(path).ok());
    texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect()
}

fn told(entry: &Value, now_ms: u64) -> Option<Told> {
    let at_ms = entry["statusUpdatedAt"].as_u64().unwrap_or(now_ms);
    let (session, status) = (entry["sessionId"].as_str()?, entry["status"].as_str()?);
    let (session, status) = (session.to_owned(), status.to_owned());
    Some(Told { at_ms, pid: entry["pid"].as_u64()?, session, status })
}

fn ask(socket: &Path) -> Option<Vec<Session>> {
    let ask = request("GET", "/v1/sessions", b"");
    let answer = exchange(socket, &ask, BODY_BYTES_MAX, mono_ns() + 60_000_000_000).ok()?;
    let inspect: Inspect = serde_json::from_slice(&answer.body).ok()?;
    Some(inspect.sessions)
}

fn seen(session: &Session, registry: &[Value], at_ms: u64) -> Seen {
    let pid = session.owner.as_ref().map(|owner| owner.pid);
    let hook_ms = session.last_event.as_ref().and_then(|last| ms_of(&last.at, at_ms));
    let is_its = |entry: &&Value| pid.is_some() && entry["pid"].as_u64() == pid.map(u64::from);
    let entry = registry.iter().find(is_its);
    let time = |name: &str| entry.and_then(|entry| entry[name].as_u64());
    let news = [hook_ms, time("statusUpdatedAt")].into_iter().flatten();
    let news = news.filter(|ms| *ms <= at_ms);
    Seen {
        ids: [&session.session_id].into_iter().chain(&session.previous_ids).cloned().collect(),
        pid,
        state: session.state,
        because: session.because.clone(),
        kind: session.kind,
        news_ms: news.max().unwrap_or(0),
    }
}

/// The milliseconds of an RFC 3339 time in UTC within the day before `now_ms`.
fn ms_of(text: &str, now_ms: u64) -> Option<u64> {
    const DAY_MS: u64 = 86_400_000;
    let time = text.split_once('T')?.1.trim_end_matches('Z');
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let seconds =
        clock.split(':').try_fold(0, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
    let of_day = seconds * 1000 + format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    let that_day = now_ms - now_ms % DAY_MS + of_day;
    Some(if now_ms < that_day { that_day - DAY_MS } else { that_day })
}

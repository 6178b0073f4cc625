//! What the coordinator said of every session, from moment to moment, against what it should have
//! said.
//!
//! A thread asks `GET /v1/sessions` every few milliseconds and keeps every change. A script marks
//! what it does and which state has to follow; [`Timeline::assert_kept`] then judges the whole line:
//! each state reached, nothing else on the way but what the mark allows, and no change until the
//! next mark. A delay is measured from the newest news that the client itself gave (a hook's stamp,
//! the time in its registry entry), else from the mark.

use crate::home::Home;
use crate::wait::wait_until;
use coord_wire::exchange::{exchange, mono_ns, request};
use coord_wire::inspect::{Inspect, Session, State};
use coord_wire::limits::BODY_BYTES_MAX;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

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
    is_over: bool,
}

/// From this moment on the sessions were like this.
#[derive(Debug, Clone)]
struct Change {
    at_ms: u64,
    sessions: Vec<Seen>,
}

/// One session at one moment.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its id, then those it had before.
    pub ids: Vec<String>,
    /// The pid of its owner.
    pub pid: Option<u32>,
    /// Its state.
    pub state: State,
    /// Why.
    pub because: String,
    /// The newest thing the client said of it, milliseconds since 1970.
    news_ms: u64,
}

/// Something done, and what has to follow.
#[derive(Debug)]
struct Mark {
    what: String,
    at_ms: u64,
    session: String,
    expected: State,
    through: Vec<State>,
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

    /// All sessions at the last look.
    pub fn sessions(&self) -> Vec<Seen> {
        self.line().changes.last().map(|change| change.sessions.clone()).unwrap_or_default()
    }

    /// Marks that something is about to be done, after which `session` has to be `expected`,
    /// possibly going `through` others.
    pub fn mark(&mut self, what: &str, session: &str, expected: State, through: &[State]) {
        let (what, session, at_ms) = (what.to_owned(), session.to_owned(), wall_ms());
        self.marks.push(Mark { what, at_ms, session, expected, through: through.to_owned() });
    }

    /// Says which session the last mark is about, where that was not known before.
    #[track_caller]
    pub fn name(&mut self, session: &str) {
        session.clone_into(&mut self.marks.last_mut().expect("a mark comes first").session);
    }

    /// Waits until the last mark's state is there, and for `looks` more looks.
    #[track_caller]
    pub fn reach(&self, looks: u64) {
        let mark = self.marks.last().expect("a mark comes first");
        let what = format!("{:?} after {:?}", mark.expected, mark.what);
        let is_it = |seen: &Seen| seen.ids.contains(&mark.session) && seen.state == mark.expected;
        wait_until(&what, || {
            let line = self.line();
            let now = line.changes.last().cloned();
            if now.as_ref().is_some_and(|now| now.sessions.iter().any(is_it)) {
                Ok(())
            } else {
                Err((now, self.text(&line, &mark.session)))
            }
        });
        let until = self.line().looks + looks;
        wait_until("more looks", || {
            let looks = self.line().looks;
            if until <= looks { Ok(()) } else { Err(looks) }
        });
    }

    /// Judges the line. Returns the delay of each mark, in milliseconds.
    #[track_caller]
    pub fn assert_kept(&self) -> Vec<u64> {
        let line = self.line();
        let ends = self.marks.iter().skip(1).map(|mark| mark.at_ms).chain([u64::MAX]);
        let mut delays = Vec::new();
        for (mark, end_ms) in self.marks.iter().zip(ends) {
            match judge(&line.changes, mark, end_ms) {
                Ok(delay) => delays.push(delay),
                Err(why) => panic!("{why}\n{}", self.text(&line, &mark.session)),
            }
        }
        delays
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.shared.lock().expect("no thread panics while it holds the line")
    }

    /// Marks and changes of one session in their order.
    fn text(&self, line: &Line, session: &str) -> String {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for mark in &self.marks {
            lines.push((mark.at_ms, format!("{} -> {:?}", mark.what, mark.expected)));
        }
        for (at_ms, seen) in changes_of(&line.changes, session) {
            lines.push((at_ms, format!("    {:?}: {}", seen.state, seen.because)));
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

/// How a session changed.
fn changes_of<'a>(
    changes: &'a [Change],
    session: &'a str,
) -> impl DoubleEndedIterator<Item = (u64, &'a Seen)> {
    changes.iter().filter_map(move |change| {
        let is_it = |seen: &&Seen| seen.ids.iter().any(|id| id == session);
        change.sessions.iter().find(is_it).map(|seen| (change.at_ms, seen))
    })
}

/// Judges what followed one mark up to the next. Returns the delay.
fn judge(changes: &[Change], mark: &Mark, end_ms: u64) -> Result<u64, String> {
    let of_session = || changes_of(changes, &mark.session);
    let before = of_session().rfind(|(at_ms, _)| *at_ms < mark.at_ms).map(|(_, seen)| seen.state);
    let during = of_session().filter(|(at_ms, _)| (mark.at_ms..end_ms).contains(at_ms));
    let mut delay = before.filter(|state| *state == mark.expected).map(|_| 0);
    for (at_ms, seen) in during {
        let is_on_the_way = mark.through.contains(&seen.state) || Some(seen.state) == before;
        if seen.state == mark.expected {
            let cause_ms = if mark.at_ms < seen.news_ms { seen.news_ms } else { mark.at_ms };
            delay = delay.or(Some(at_ms.saturating_sub(cause_ms)));
        } else if is_on_the_way && (delay.is_none() || mark.through.contains(&seen.state)) {
            delay = None;
        } else {
            return Err(format!("{:?} after {:?}", seen.state, mark.what));
        }
    }
    delay.ok_or_else(|| format!("not {:?} after {:?}", mark.expected, mark.what))
}

fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(now.tv_sec * 1000 + now.tv_nsec / 1_000_000).expect("after 1970")
}

/// Looks until the line is over.
fn look(line: &Mutex<Line>, socket: &Path, registry: &Path) {
    loop {
        let sessions = ask(socket);
        let at_ms = wall_ms();
        let Ok(mut line) = line.lock() else { return };
        if line.is_over {
            return;
        }
        if let Some(sessions) = sessions {
            line.looks += 1;
            let of = |seen: &Seen| (seen.ids.clone(), seen.pid, seen.state);
            let before = line.changes.last().map(|change| change.sessions.iter().map(of));
            let now: Vec<Seen> =
                sessions.iter().map(|session| seen(session, registry, at_ms)).collect();
            if !before.is_some_and(|before| before.eq(now.iter().map(of))) {
                line.changes.push(Change { at_ms, sessions: now });
            }
        }
        drop(line);
        std::thread::park_timeout(INTERVAL);
    }
}

fn ask(socket: &Path) -> Option<Vec<Session>> {
    let ask = request("GET", "/v1/sessions", b"");
    let answer = exchange(socket, &ask, BODY_BYTES_MAX, mono_ns() + 2_000_000_000).ok()?;
    let inspect: Inspect = serde_json::from_slice(&answer.body).ok()?;
    Some(inspect.sessions)
}

fn seen(session: &Session, registry: &Path, at_ms: u64) -> Seen {
    let pid = session.owner.as_ref().map(|owner| owner.pid);
    let hook_ms = session.last_event.as_ref().and_then(|last| ms_of(&last.at, at_ms));
    let entry: Option<PathBuf> = pid.map(|pid| registry.join(format!("{pid}.json")));
    let entry = entry.and_then(|entry| std::fs::read(entry).ok());
    let entry: Option<Value> = entry.and_then(|text| serde_json::from_slice(&text).ok());
    let time = |name: &str| entry.as_ref().and_then(|entry| entry[name].as_u64());
    let news = [hook_ms, time("startedAt"), time("statusUpdatedAt")].into_iter().flatten();
    let news = news.filter(|ms| *ms <= at_ms);
    Seen {
        ids: [&session.session_id].into_iter().chain(&session.previous_ids).cloned().collect(),
        pid,
        state: session.state,
        because: session.because.clone(),
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

//! One session or run in depth, as `coord inspect NAME` shows it, in the parts that the page arranges.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Local};
use coord_dashboard::{Detail, EvidenceView, HistoryLine, SessionAct, SessionView};
use coord_model::SessionState;
use coord_view::history::Entry;
use coord_view::list::{Ended, age, shown_name, state_name};
use coord_view::work;
use coord_wire::inspect::{Inspect, Session};

use crate::context::Context;
use crate::out::escape;
use crate::verb::inspect::on_demand;
use crate::verb::inspect::{age_s, facts, list_of, needs};
use crate::verb::top::of_run;

/// What a look at one session found is good for this long.
const LOOK_KEPT: Duration = Duration::from_secs(15);
/// Sessions of which that is kept.
const LOOKS_MAX: usize = 8;

/// What only a look at one session shows: its repository, and the tokens in its transcripts. It may take a second, so
/// nothing waits for it.
#[derive(Debug, Clone, Default)]
pub(super) struct OnDemand(Arc<Mutex<BTreeMap<String, Looked>>>);

#[derive(Debug, Clone)]
struct Looked {
    begun: Instant,
    /// None while the first look runs.
    found: Option<Box<Session>>,
}

impl OnDemand {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Looked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is known, and looks again if that is old.
    fn add(&self, session: &mut Session, context: &Context) {
        let id = session.session_id.clone();
        let mut all = self.all();
        let known = all.get(&id).cloned();
        if let Some(found) = known.as_ref().and_then(|known| known.found.as_ref()) {
            session.git.clone_from(&found.git);
            if let Some(tokens) = found.usage.as_ref().and_then(|usage| usage.tokens.clone()) {
                session.usage.get_or_insert_default().tokens = Some(tokens);
            }
        }
        if known.as_ref().is_some_and(|known| known.begun.elapsed() < LOOK_KEPT) {
            return;
        }
        while LOOKS_MAX <= all.len() {
            all.pop_first();
        }
        let found = known.and_then(|known| known.found);
        all.insert(id.clone(), Looked { begun: Instant::now(), found });
        drop(all);
        let (own, context, mut one) = (self.clone(), context.clone(), Box::new(session.clone()));
        let look = move || {
            on_demand::look(&mut one, &context);
            if let Some(known) = own.all().get_mut(&id) {
                known.found = Some(one);
            }
        };
        // Without a thread, it is not known.
        drop(std::thread::Builder::new().name("look".to_owned()).spawn(look));
    }
}

/// A session or run in depth.
pub(super) fn view(
    answer: &Inspect,
    id: &str,
    looks: &OnDemand,
    context: &Context,
) -> Option<SessionView> {
    let list = list_of(answer, context.now.wall_ms, Ended::All);
    let row = list.rows.iter().find(|row| row.id == id)?;
    let (sign, tone) = (row.sign(false).to_owned(), coord_dashboard::tone(row.tone).to_owned());
    let Some(session) = answer.sessions.iter().find(|one| one.session_id == id) else {
        let run = answer.runs.iter().find(|run| run.begin.run_id == id)?;
        return Some(SessionView {
            id: id.to_owned(),
            name: escape(&row.name),
            state: row.state.clone(),
            since: age(row.age_s),
            needs: String::new(),
            sign,
            tone,
            why: Vec::new(),
            facts: of_run(run, context)
                .into_iter()
                .map(|(name, words)| detail(&name, &words))
                .collect(),
            evidence: Vec::new(),
            acts: Vec::new(),
        });
    };
    let mut session = session.clone();
    looks.add(&mut session, context);
    let since = age(age_s(&session.since, context));
    let mut facts: Vec<Detail> =
        facts(&session, context).into_iter().map(|(name, words)| detail(name, &words)).collect();
    facts.extend(session.git.as_ref().map(|git| detail("git", &work::words(&git.work))));
    facts.push(detail("id", &session.session_id));
    let evidence = session.evidence.iter().map(|one| EvidenceView {
        source: escape(&one.source),
        fact: escape(&one.fact),
        ago: format!("{} ago", age(one.age_s)),
    });
    Some(SessionView {
        id: id.to_owned(),
        name: escape(&shown_name(&session)),
        state: state_name(session.state),
        since,
        needs: session.need.as_ref().map(|_| "needs you".to_owned()).unwrap_or_default(),
        sign,
        tone,
        why: needs(&session, context)
            .into_iter()
            .map(|(name, words)| detail(name, &words))
            .collect(),
        facts,
        evidence: evidence.collect(),
        acts: acts(&session),
    })
}

/// A name and its words; what is to be typed is a command.
fn detail(name: &str, words: &str) -> Detail {
    match words.strip_prefix("→ ") {
        Some(command) => Detail { name: name.to_owned(), words: escape(command), is_command: true },
        None => Detail { name: name.to_owned(), words: escape(words), is_command: false },
    }
}

/// What can be done with a session here. The coordinator decides about each when it is asked.
fn acts(session: &Session) -> Vec<SessionAct> {
    let is_over = matches!(session.state, SessionState::Stopped | SessionState::Elsewhere);
    let is_down = matches!(session.state, SessionState::Crashed | SessionState::Interrupted);
    let mut all = Vec::new();
    if is_down {
        all.push(SessionAct { act: "recover", label: "Recover…" });
        if session.need.is_some() {
            all.push(SessionAct { act: "dismiss", label: "Dismiss…" });
        }
    }
    if !is_over {
        all.push(SessionAct { act: "send", label: "Send message…" });
        all.push(match &session.hold {
            Some(_) => SessionAct { act: "release", label: "Release…" },
            None => SessionAct { act: "hold", label: "Hold…" },
        });
    }
    all
}

/// A line of the history, with the time as this machine's clock has it.
pub(super) fn history_line(entry: &Entry) -> HistoryLine {
    let line = &entry.first;
    let time = DateTime::parse_from_rfc3339(&line.at).map_or_else(
        |_| line.at.clone(),
        |at| at.with_timezone(&Local).format("%m-%d %H:%M:%S").to_string(),
    );
    let mark = match line.verified {
        Some(false) => " (not verified)",
        Some(true) | None => "",
    };
    let words = format!("{}{mark}", entry.words());
    HistoryLine { time, title: escape(&entry.title()), words: escape(words.trim_start()) }
}

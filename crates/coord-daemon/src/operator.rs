//! `POST /v1/operator` and `POST /v1/sessions/{id}/recover`, which carry out what a person asks for with
//! `coordctl`; and `POST /v1/down`.
//!
//! This module decides who may ask (`caller`) and what exactly is meant; the core decides what follows.
//! The answer has status 200 and is sent once the order is durable. A refused request and a dry run
//! leave no record.

pub(crate) mod caller;

use std::path::Path;

use coord_core::{QUEUE_NAME_CHARS_MAX, Session, Would, is_queue_name};
use coord_host::process::{self, Caller};
use coord_model::{
    Command, Event, MarkChange, NeedId, Now, PassphraseFor, ProcessRef, SessionKey, Whom,
};
use coord_view::lookup;
use coord_wire::api::{
    ACCEPTED, DRY_RUN, OperatorAnswer, OperatorRequest, OperatorResult, OperatorVerb, REFUSED,
};

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::world::World;

/// Most characters in the name of a sender.
const NAME_CHARS_MAX: usize = 64;
/// Most bytes in a path.
const PATH_BYTES_MAX: usize = 4096;

/// A command, the session under which it is recorded, and one line that describes it to people.
struct Order {
    command: Command,
    session_id: Option<String>,
    what: String,
}

/// The body of `POST /v1/sessions/{id}/recover`; it may be empty.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Recover {
    dry_run: bool,
    restart: bool,
    when_idle: bool,
}

impl<W: World> Coordinator<W> {
    /// `POST /v1/operator`: carries out a person's order.
    pub(crate) fn post_operator(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        match serde_json::from_slice(&request.body) {
            Ok(asked) => self.on_request(&asked, caller, now),
            Err(error) => Route::Answer(RequestError::bad(error).into()),
        }
    }

    /// `POST /v1/sessions/{id}/recover`: an order to recover, under a path of its own.
    pub(crate) fn post_recover(
        &mut self,
        id: &str,
        request: &Request,
        caller: Caller,
        now: Now,
    ) -> Route {
        let recover = match request.body.as_slice() {
            [] => Ok(Recover::default()),
            body => serde_json::from_slice(body),
        };
        match recover {
            Ok(Recover { dry_run, restart, when_idle }) => {
                let sessions = vec![id.to_owned()];
                let new = OperatorRequest::new(OperatorVerb::Recover);
                let asked = OperatorRequest { sessions, dry_run, restart, when_idle, ..new };
                self.on_request(&asked, caller, now)
            }
            Err(error) => Route::Answer(RequestError::bad(error).into()),
        }
    }

    /// Checks that a person at a terminal asks (H-22, H-50).
    pub(crate) fn check_caller(&self, caller: Caller) -> Result<(), RequestError> {
        caller::check(&caller::Machine, caller, &self.harnesses()).map_err(RequestError::from)
    }

    fn on_request(&mut self, asked: &OperatorRequest, caller: Caller, now: Now) -> Route {
        if let Err(refusal) = self.check_caller(caller) {
            tracing::warn!(%refusal, verb = ?asked.verb, "an order was refused");
            return Route::Answer(refusal.into());
        }
        let is_guarded = self.engine.state().header().settings.passphrase_for == PassphraseFor::All;
        if is_guarded && !asked.dry_run && !self.is_unlocked(caller, now) {
            return Route::Answer(RequestError::PassphraseNeeded.into());
        }
        match self.order(asked, now) {
            Ok(answer) if asked.dry_run => Route::Answer(Response::json(&answer)),
            Ok(answer) => self.after_sync(Response::json(&answer)),
            Err(error) => Route::Answer(error.into()),
        }
    }

    /// `POST /v1/down`: stops the coordinator. Agents may not stop it, since every session relies on it
    /// (H-50).
    pub(crate) fn post_down(&self, caller: Caller) -> Route {
        match caller::check_no_agent(&caller::Machine, caller, &self.harnesses()) {
            Ok(_) => Route::Down,
            Err(refusal) => {
                tracing::warn!(%refusal, "an order to end was refused");
                let (code, why) = (refusal.code(), refusal.line("`coord down`"));
                Route::Answer(RequestError::Forbidden { code, why }.into())
            }
        }
    }

    /// Carries out an order whose giver was checked.
    ///
    /// # Errors
    /// The request is invalid, names no session, or was refused by the store.
    pub fn order(
        &mut self,
        asked: &OperatorRequest,
        now: Now,
    ) -> Result<OperatorAnswer, RequestError> {
        let orders = self.orders(asked)?;
        let answer = self.answer(&orders, asked.dry_run);
        if !asked.dry_run {
            orders.into_iter().try_for_each(|order| self.take_order(order, now))?;
        }
        Ok(answer)
    }

    fn take_order(&mut self, order: Order, now: Now) -> Result<(), RequestError> {
        let Order { command, session_id, what } = order;
        let entry = Event::Operator { session_id, what, command };
        Ok(self.record(&entry, now)?)
    }

    /// What the core says would happen, asked before the order is recorded.
    fn answer(&self, orders: &[Order], dry_run: bool) -> OperatorAnswer {
        let state = self.engine.state();
        let result = |would: Would| {
            let session = state.sessions_with_id(&would.session_id).next();
            let outcome = match (would.refused_by, dry_run) {
                (Some(_), _) => REFUSED,
                (None, true) => DRY_RUN,
                (None, false) => ACCEPTED,
            };
            OperatorResult {
                name: session.and_then(|session| Some(session.called()?.0.to_owned())),
                session_id: session.is_some().then_some(would.session_id),
                outcome: outcome.to_owned(),
                would: would.words,
                rule: would.refused_by.map(ToOwned::to_owned),
            }
        };
        let would = orders.iter().flat_map(|order| state.would(&order.command));
        let what = orders.first().map_or_else(String::new, |order| order.what.clone());
        OperatorAnswer { what, results: would.map(result).collect() }
    }

    /// The commands that a request stands for, or why it is refused as a whole.
    fn orders(&self, asked: &OperatorRequest) -> Result<Vec<Order>, RequestError> {
        check_shape(asked)?;
        if asked.verb == OperatorVerb::Dismiss {
            return self.dismissal(asked);
        }
        let found = self.found(&asked.sessions)?;
        self.check_task(&found, asked.marks.task_dir.as_deref())?;
        let marks = self.marks(&asked.marks)?;
        let for_ms = asked.for_ms;
        let one = |command: Command| vec![Order { command, session_id: None, what: words(asked) }];
        let each = |command: &dyn Fn(&Session) -> Command| -> Vec<Order> {
            let order = |session: &&Session| Order {
                command: command(session),
                session_id: Some(session.session_id.clone()),
                what: words(asked),
            };
            found.iter().map(order).collect()
        };
        let each_or_all = |command: &dyn Fn(Option<SessionKey>) -> Command| {
            if asked.all { one(command(None)) } else { each(&|session| command(Some(session.key))) }
        };
        Ok(match (asked.verb, &asked.directory) {
            (OperatorVerb::Hold, _) => each_or_all(&|session| Command::Hold { session, for_ms }),
            (OperatorVerb::Release, _) => each_or_all(&|session| Command::Release { session }),
            (OperatorVerb::ResetFailed, _) => {
                each_or_all(&|session| Command::ResetFailed { session })
            }
            (OperatorVerb::Dismiss, _) => Vec::new(),
            (OperatorVerb::Recover, _) => each(&|session| Command::Recover {
                session: session.key,
                restart: asked.restart,
                when_idle: asked.when_idle,
            }),
            (OperatorVerb::Restore, _) => {
                let sessions = found.iter().map(|session| session.key).collect();
                one(Command::Restore { sessions })
            }
            (OperatorVerb::Attend, Some(directory)) => {
                one(Command::Attend { whom: Whom::Directory(directory.clone()), marks })
            }
            (OperatorVerb::Attend, None) => each(&|session| Command::Attend {
                whom: Whom::Session(session.key),
                marks: marks.clone(),
            }),
        })
    }

    /// The need that is to be dismissed, by its id or by a session that has one.
    fn dismissal(&self, asked: &OperatorRequest) -> Result<Vec<Order>, RequestError> {
        let Some(word) = asked.sessions.first() else { return Ok(Vec::new()) };
        let id: Option<NeedId> = word.parse().ok();
        let found = match id {
            Some(id) => self.engine.state().session(id.session).into_iter().collect(),
            None => self.found(&asked.sessions)?,
        };
        let needs = found.iter().flat_map(|session| session.open_needs());
        let needs: Vec<NeedId> =
            needs.map(|need| need.id).filter(|one| id.is_none_or(|id| id == *one)).collect();
        let [need] = needs.as_slice() else {
            let ids: Vec<String> = needs.iter().map(ToString::to_string).collect();
            return Err(RequestError::Bad(match (id, ids.as_slice()) {
                (Some(id), _) => {
                    format!("no open need {id}; `coord inspect --needs-me` lists them")
                }
                (None, []) => format!("{word} needs nobody; nothing was dismissed"),
                (None, _) => {
                    format!("{word} has several needs: {}; name one", ids.join(", "))
                }
            }));
        };
        let session_id = found.first().map(|session| session.session_id.clone());
        let command = Command::Dismiss { session: need.session, need: *need };
        Ok(vec![Order { command, session_id, what: format!("dismiss {need}") }])
    }

    /// The records that the ids stand for, each once, in this order.
    fn found(&self, ids: &[String]) -> Result<Vec<&Session>, RequestError> {
        let mut found: Vec<&Session> = Vec::new();
        for id in ids {
            for session in lookup::find(self.engine.state(), id)? {
                if found.iter().all(|one| one.key != session.key) {
                    found.push(session);
                }
            }
        }
        Ok(found)
    }

    /// The requested marks, with names and beginnings of ids replaced by full ids.
    fn marks(&self, asked: &MarkChange) -> Result<MarkChange, RequestError> {
        let mut marks = asked.clone();
        for sender in &mut marks.accepts {
            *sender = self.sender_named(std::mem::take(sender));
        }
        if let Some(parent) = &mut marks.parent {
            let found = lookup::find(self.engine.state(), parent)?;
            marks.parent = found.first().map(|session| session.session_id.clone());
        }
        Ok(marks)
    }

    /// Replaces the beginning of an id, or a derived name, by the id of its session. A given name stays: whoever
    /// has it is meant.
    fn sender_named(&self, sender: String) -> String {
        let is_given = |session: &Session| session.marks.name.as_ref() == Some(&sender);
        if self.engine.state().sessions().any(is_given) {
            return sender;
        }
        let found = lookup::find(self.engine.state(), &sender).ok();
        let id = found.and_then(|found| found.first().map(|session| session.session_id.clone()));
        id.unwrap_or(sender)
    }

    /// S1-26: allows one session for each task directory.
    fn check_task(&self, found: &[&Session], task_dir: Option<&str>) -> Result<(), RequestError> {
        let Some(dir) = task_dir else { return Ok(()) };
        let mut others = self.engine.state().sessions().filter(|session| {
            let is_other = found.iter().all(|one| one.key != session.key);
            is_other && session.may_live() && session.marks.task_dir.as_deref() == Some(dir)
        });
        match others.next() {
            None => Ok(()),
            Some(other) => Err(RequestError::TaskTaken {
                dir: dir.to_owned(),
                session_id: other.session_id.clone(),
            }),
        }
    }

    /// The processes of this machine that are or were harnesses: those that held a session, and those
    /// that the client's registry names.
    pub(crate) fn harnesses(&self) -> Vec<ProcessRef> {
        let here = &self.here;
        let owners = self.engine.state().sessions().flat_map(|session| {
            let owner = session.owner.as_ref().map(|owner| &owner.id);
            owner.into_iter().chain(&session.former_owners)
        });
        let is_here = |machine: &str, boot: &str, pid_ns: u64| {
            machine == here.machine && boot == here.boot && pid_ns == here.pid_ns
        };
        let local = owners.filter(|one| is_here(&one.machine, &one.boot, one.pid_ns));
        local.map(|owner| owner.process).chain(self.known.processes()).collect()
    }
}

/// Describes the request in one line for people, without the session that it is about.
fn words(asked: &OperatorRequest) -> String {
    let mut words = match asked.verb {
        OperatorVerb::Hold => "hold",
        OperatorVerb::Release => "release",
        OperatorVerb::Attend => "attend",
        OperatorVerb::Recover => "recover",
        OperatorVerb::Restore => "restore",
        OperatorVerb::Dismiss => "dismiss",
        OperatorVerb::ResetFailed => "reset-failed",
    }
    .to_owned();
    let mut say = |text: &str| {
        words.push(' ');
        words.push_str(text);
    };
    if asked.all {
        say("all sessions");
    }
    if asked.verb == OperatorVerb::Restore {
        say(&format!("{} in this order: {}", asked.sessions.len(), asked.sessions.join(", ")));
    }
    if let Some(ms) = asked.for_ms {
        say(&format!("for {}", span(ms)));
    }
    for (is_said, flag) in [(asked.restart, "--restart"), (asked.when_idle, "--when-idle")] {
        if is_said {
            say(flag);
        }
    }
    if let Some(directory) = &asked.directory {
        say(&format!("all of {directory}"));
    }
    let MarkChange {
        answers,
        asks_for_agents,
        unattended,
        recover,
        name,
        parent,
        task_dir,
        accepts,
    } = &asked.marks;
    if let Some(unattended) = unattended {
        say(if *unattended { "unattended" } else { "attended" });
    }
    if let Some(recover) = recover {
        say(if *recover { "recover" } else { "no-recover" });
    }
    if let Some(answers) = answers {
        say(if *answers { "answers" } else { "no-answers" });
    }
    if let Some(asks) = asks_for_agents {
        say(if *asks { "ask-for-agents" } else { "no-ask-for-agents" });
    }
    for (what, value) in [("name", name), ("parent", parent), ("task-dir", task_dir)] {
        if let Some(value) = value {
            say(&format!("{what} {value}"));
        }
    }
    accepts.iter().for_each(|sender| say(&format!("accept {sender}")));
    words
}

/// Writes a time in the largest unit of which it is a whole number.
fn span(ms: u64) -> String {
    for (unit, unit_ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}

/// Checks that the request says whom it is about, and contains nothing that its verb does not accept.
fn check_shape(asked: &OperatorRequest) -> Result<(), RequestError> {
    use OperatorVerb::{Attend, Dismiss, Hold, Recover, ResetFailed, Restore};
    let must = |holds: bool, why: &str| if holds { Ok(()) } else { Err(RequestError::bad(why)) };
    let verb = asked.verb;
    let (some, all) = (!asked.sessions.is_empty(), asked.all);
    let directory = asked.directory.as_deref();
    must(
        [some, all, directory.is_some()].into_iter().filter(|one| *one).count() == 1,
        "name sessions, all, or a directory",
    )?;
    must(
        !all || !matches!(verb, Attend | Dismiss | Recover | Restore),
        "this verb takes sessions, not all",
    )?;
    must(directory.is_none() || verb == Attend, "only attend takes a directory")?;
    must(asked.for_ms.is_none() || verb == Hold, "only hold takes a time")?;
    must(
        !(asked.restart || asked.when_idle) || verb == Recover,
        "only recover takes restart and when_idle",
    )?;
    must(asked.restart || !asked.when_idle, "when_idle goes with restart")?;
    must(asked.for_ms != Some(0), "a hold needs a time over 0")?;
    let marks = &asked.marks;
    let is_change = *marks != MarkChange::default();
    must(
        is_change == (verb == Attend),
        "attend takes at least one mark, and no other verb takes any",
    )?;
    must(verb == Restore || verb == ResetFailed || asked.sessions.len() <= 1, "name one session")?;
    let of_one = marks.name.is_some()
        || marks.parent.is_some()
        || marks.task_dir.is_some()
        || marks.answers.is_some()
        || marks.asks_for_agents.is_some()
        || !marks.accepts.is_empty();
    must(
        directory.is_none() || !of_one,
        "a name, a parent, a task directory, answers and senders can be set for a session only, not for a directory",
    )?;
    if let Some(name) = marks.name.as_deref().filter(|name| !is_queue_name(name)) {
        return Err(RequestError::Bad(format!(
            "{name:?} is not a valid session name: use up to {QUEUE_NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`, beginning with a letter or digit; nothing was changed"
        )));
    }
    must(
        marks
            .accepts
            .iter()
            .all(|one| is_name(one.trim_start_matches("program:").trim_start_matches("machine:"))),
        "a sender must be a session's id or name, program:NAME, machine:NAME, any or none",
    )?;
    let paths = [directory, marks.task_dir.as_deref()];
    must(paths.into_iter().flatten().all(is_path), "a directory must be an absolute path")
}

/// Checks that no agent started this process (H-50), before it asks a coordinator, or where none is
/// asked. `command` is the command that a person would run.
///
/// # Errors
/// Why the process is refused, in one line.
pub fn check_self(command: &str) -> Result<(), String> {
    check_process(std::process::id(), command, &[])
}

/// Checks that this process is a person's: it has a terminal, and no agent started it (H-22, H-50). `command` is the
/// command that a person would run.
///
/// # Errors
/// Why the process is refused, in one line.
pub fn check_person(command: &str, harnesses: &[ProcessRef]) -> Result<(), String> {
    let checked = caller::check(&caller::Machine, as_caller(std::process::id()), harnesses);
    checked.map_err(|refusal| refusal.line(command))
}

/// Checks that no agent started a process, which need not have a terminal (H-28, H-50).
///
/// # Errors
/// Why the process is refused, in one line.
pub fn check_process(pid: u32, command: &str, harnesses: &[ProcessRef]) -> Result<(), String> {
    let checked = caller::check_no_agent(&caller::Machine, as_caller(pid), harnesses);
    checked.map(|_| ()).map_err(|refusal| refusal.line(command))
}

/// A process as if it sent a request now.
fn as_caller(pid: u32) -> Caller {
    Caller { pid, parent: process::stat(pid).map(|stat| stat.ppid) }
}

fn is_name(name: &str) -> bool {
    let is_short = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    is_short && !name.trim().is_empty() && !name.chars().any(char::is_control)
}

fn is_path(path: &str) -> bool {
    let is_plain = !path.chars().any(char::is_control) && path.len() <= PATH_BYTES_MAX;
    is_plain && Path::new(path).is_absolute()
}

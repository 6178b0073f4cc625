//! Applies what a person ordered with `coordctl` (H-06, H-22): which sessions to bring back, and which to leave
//! alone.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{Command, MarkChange, Moment, SessionKey, Whom};

use crate::effects::Effects;
use crate::records::{Cause, Hold, Session, State};
use crate::recovery::{Stop, Wish};

/// The reason of a person's hold.
const HELD: &str = "a person holds the session";

/// What a command would do to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Would {
    /// The session's id.
    pub session_id: String,
    /// What would happen, or why nothing would, in words.
    pub words: String,
    /// The requirement id of the rule that refuses the command for this session; none if nothing does.
    pub refused_by: Option<&'static str>,
}

impl Would {
    fn of(session: &Session, words: Result<String, Stop>) -> Self {
        let (words, refused_by) = match words {
            Ok(words) => (words, None),
            Err(stop) => (format!("refused: {}", stop.why), Some(stop.rule)),
        };
        Self { session_id: session.session_id.clone(), words, refused_by }
    }
}

impl State {
    /// Applies a command. Returns the records that it changed.
    pub(crate) fn on_command(
        &mut self,
        command: &Command,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        match command {
            Command::Hold { session, for_ms } => {
                let cap_ms = for_ms.unwrap_or(u64::MAX);
                self.set_hold(*session, Some(Hold::new(HELD, at, cap_ms)), fx)
            }
            Command::Release { session } => self.set_hold(*session, None, fx),
            Command::Attend { whom, marks } => self.mark(whom, marks, fx),
            Command::Recover { session, restart, when_idle } => {
                let wish = Wish { restart: *restart, when_idle: *when_idle };
                self.ask_for(*session, Cause::Operator, wish, at, fx);
                Vec::from([*session])
            }
            Command::Restore { sessions } => {
                for key in sessions {
                    self.ask_for(*key, Cause::Interrupted, Wish::default(), at, fx);
                }
                sessions.clone()
            }
            Command::Dismiss { session, need } => {
                self.dismiss(*session, *need, fx);
                Vec::from([*session])
            }
            Command::Reply { session, request, hook, reply, from } => {
                self.on_reply(*session, *request, (*hook, *reply, from), at, fx);
                Vec::from([*session])
            }
            Command::ResetFailed { session } => self.reset_failed(*session, fx),
        }
    }

    fn set_hold(
        &mut self,
        session: Option<SessionKey>,
        hold: Option<Hold>,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let Some(key) = session else {
            self.header.machine.held = hold;
            return self.keys();
        };
        if let Some(mut session) = self.take(key) {
            let did = if hold.is_some() { "held: coord does not act on it" } else { "released" };
            session.held.change(hold);
            fx.decide(&session, "H-06", "a person asked for it", did);
            self.put(session);
        }
        Vec::from([key])
    }

    fn mark(&mut self, whom: &Whom, change: &MarkChange, fx: &mut Effects) -> Vec<SessionKey> {
        match whom {
            Whom::Session(key) => {
                let mut touched = Vec::from([*key]);
                if let Some(dir) = &change.task_dir {
                    touched.extend(self.give_task(*key, dir));
                }
                if let Some(mut session) = self.take(*key) {
                    session.marks.change(change.clone());
                    fx.decide(&session, "H-06", "a person asked for it", "attend settings changed");
                    self.put(session);
                }
                if let Some(name) = &change.name {
                    self.displace(*key, name);
                }
                touched
            }
            Whom::Directory(path) => {
                self.header.machine.marks.entry(path.clone()).or_default().change(change.clone());
                self.keys()
            }
        }
    }

    fn reset_failed(&mut self, session: Option<SessionKey>, fx: &mut Effects) -> Vec<SessionKey> {
        if session.is_none() {
            self.header.machine.reset();
        }
        let keys = session.map_or_else(|| self.keys(), |key| Vec::from([key]));
        for key in &keys {
            let Some(mut session) = self.take(*key) else { continue };
            if session.recovery.reset() {
                fx.decide(&session, "G5", "a person asked for it", "no longer needs you");
            }
            session.rest.reset();
            session.quota.forget_probes();
            self.put(session);
        }
        keys
    }

    /// What a command would do to each session that it concerns. Changes nothing.
    pub fn would(&self, command: &Command) -> Vec<Would> {
        let of = |keys: &[SessionKey], one: &dyn Fn(&Session) -> Result<String, Stop>| {
            let found = keys.iter().filter_map(|key| self.get(*key));
            found.map(|session| Would::of(session, one(session))).collect()
        };
        let each = |keys: &[SessionKey], text: &dyn Fn(&Session) -> String| {
            of(keys, &|session| Ok(text(session)))
        };
        let living_or = |key: &Option<SessionKey>| match key {
            Some(key) => Vec::from([*key]),
            None => self.keys_of(Session::may_live),
        };
        let brought_back =
            |cause, wish| move |session: &Session| self.would_bring_back(session, cause, wish);
        match command {
            Command::Hold { session, for_ms } => {
                let until = match for_ms {
                    None => "until it is released".into(),
                    Some(ms) => format!("for {} s", ms / 1_000),
                };
                each(&living_or(session), &|_| format!("coord does not act on it {until}"))
            }
            Command::Release { session: Some(key) } => {
                each(&[*key], &|session| self.would_release(session).into())
            }
            Command::Release { session: None } if self.header.machine.held.is_none() => Vec::new(),
            Command::Release { session: None } => {
                each(&self.keys_of(Session::may_live), &|session| match *session.held {
                    Some(_) => "its own hold stays: run `coordctl release` with its id".into(),
                    None => "its hold ends".into(),
                })
            }
            Command::Attend { whom: Whom::Session(key), .. } => {
                each(&[*key], &|_| "its attend settings change".into())
            }
            Command::Attend { whom: Whom::Directory(path), .. } => {
                let is_there = |session: &Session| {
                    session.launch.as_ref().is_some_and(|launch| launch.cwd.path == *path)
                };
                each(&self.keys_of(is_there), &|_| "its attend settings change".into())
            }
            Command::Recover { session, restart, when_idle } => {
                let wish = Wish { restart: *restart, when_idle: *when_idle };
                of(&[*session], &brought_back(Cause::Operator, wish))
            }
            Command::Restore { sessions } => {
                of(sessions, &brought_back(Cause::Interrupted, Wish::default()))
            }
            Command::Dismiss { session, need } => {
                each(&[*session], &|_| format!("{need} is hidden until it ends"))
            }
            Command::Reply { session, request, reply, .. } => {
                of(&[*session], &|session| self.would_reply(session, *request, *reply))
            }
            Command::ResetFailed { session: None } => {
                let keys = self.keys_of(|session| session.recovery.needs_operator.is_some());
                each(&keys, &|_| "its limits are reset".into())
            }
            Command::ResetFailed { session: Some(key) } => {
                each(&[*key], &|_| "its limits are reset".into())
            }
        }
    }

    fn would_release(&self, session: &Session) -> &'static str {
        match (&*session.held, &session.task.stop, &self.header.machine.held) {
            (Some(_), None, None) => "its hold ends",
            (Some(_), _, Some(_)) => {
                "its own hold ends, but `coordctl hold --all` still holds it (end that with `coordctl release --all`)"
            }
            (Some(_), Some(_), None) => {
                "its own hold ends, but the .auto-stop of its task still holds it"
            }
            (None, _, Some(_)) => {
                "nothing changes: `coordctl hold --all` holds it (end that with `coordctl release --all`)"
            }
            (None, Some(_), None) => "nothing changes: the .auto-stop of its task holds it",
            (None, None, None) => "nothing changes: it is not held",
        }
    }

    fn would_bring_back(
        &self,
        session: &Session,
        cause: Cause,
        wish: Wish,
    ) -> Result<String, Stop> {
        self.may_be_asked_for(session, cause, wish)?;
        let words = if session.may_live() && wish.when_idle {
            "coord will end the client once it is idle and nobody uses its terminal, and resume the session; text that was typed but not sent is lost"
        } else if session.may_live() {
            "coord will end the client now, if it is idle and nobody uses its terminal, and resume the session; text that was typed but not sent is lost"
        } else {
            "coord will check the session, then resume it in its pane or in a new window"
        };
        Ok(words.into())
    }
}

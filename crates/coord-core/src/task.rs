//! Decides what the files in a session's task directory mean (S1-15, S1-16, S1-24). With `.auto-signal` the worker
//! reports that an iteration is over; with `.auto-stop` anybody stops the task.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coord_model::{Action, Awake, Effect, Moment, SessionKey, TaskFound};

use crate::effects::Effects;
use crate::records::{Flag, Hold, Session, State, StopFile};

/// The reason of a stop file that only a person removes (S1-15, S1-24).
const STALL_LIMIT: &str = "stall_limit";
/// Any other reason that needs a person.
const NEEDS_OPERATOR: &str = "needs_operator";

impl State {
    /// When the session's task directory is read next.
    pub(crate) fn next_task_look(&self, session: &Session) -> Option<Awake> {
        let is_wanted = session.may_live() || session.recovery.pending.is_some();
        let is_one = session.marks.task_dir.is_some() && is_wanted && self.is_local(session);
        let heartbeat_ms = self.header.settings.stall.heartbeat_ms;
        is_one.then(|| session.task.looked.next_multiple_of_ms(heartbeat_ms))
    }

    /// Requests a read of the task directory, if it is due.
    pub(crate) fn look_at_task(&self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.next_task_look(session).is_none_or(|due| at.awake < due) {
            return;
        }
        let Some(dir) = session.marks.task_dir.clone() else { return };
        session.task.begin_look(at);
        fx.ask(Effect::ReadTask { dir });
    }

    /// Whether a read found something new for a session that has this task directory.
    pub fn is_task_news(&self, dir: &str, found: &TaskFound) -> bool {
        let mut of_it = self.sessions().filter(|session| has_task(session, dir));
        of_it.any(|session| {
            let reason = session.task.stop.as_ref().map(|hold| &*hold.reason);
            !session.task.is_read
                || session.task.signal != found.signal
                || reason != found.stop.as_deref().map(stopped).as_deref()
        })
    }

    /// Applies a read of a task directory. Returns the records that changed.
    pub(crate) fn on_task(
        &mut self,
        dir: &str,
        found: &TaskFound,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let keys = self.keys_of(|session| has_task(session, dir));
        for key in &keys {
            let Some(mut session) = self.take(*key) else { continue };
            note_signal(&mut session, found.signal, fx);
            note_stop(&mut session, found.stop.as_deref(), at, fx);
            self.put(session);
        }
        keys
    }

    /// S1-26: gives a task directory to one session. Another directory is another task. Returns the records that
    /// lose the directory: sessions that were over by then.
    pub(crate) fn give_task(&mut self, to: SessionKey, dir: &str) -> Vec<SessionKey> {
        let before = self.keys_of(|session| session.key != to && has_task(session, dir));
        for key in &before {
            let Some(mut session) = self.take(*key) else { continue };
            session.marks.lose_task();
            session.task.begin_anew();
            self.put(session);
        }
        if let Some(mut session) = self.take(to) {
            if !has_task(&session, dir) {
                session.task.begin_anew();
            }
            self.put(session);
        }
        before
    }

    /// Writes stop files again that nobody has seen yet: the coordinator that was to write them may have been
    /// killed before (G10).
    pub(crate) fn write_stops_again(&self, fx: &mut Effects) {
        for session in self.sessions() {
            if let Some(StopFile { dir, text, is_seen: false, .. }) = &session.task.wrote {
                fx.act(Action::WriteStop { dir: dir.clone(), text: text.clone() });
            }
        }
    }

    /// Writes or removes the stop file of this record's task.
    pub(crate) fn keep_stop(&mut self, key: SessionKey, at: Moment, fx: &mut Effects) {
        if !self.get(key).is_some_and(is_kept_for) {
            return;
        }
        let Some(mut session) = self.take(key) else { return };
        keep_stop_file(&mut session, at, fx);
        self.put(session);
    }
}

fn has_task(session: &Session, dir: &str) -> bool {
    session.marks.task_dir.as_deref() == Some(dir)
}

/// Whether its stop file may have to be written or removed.
fn is_kept_for(session: &Session) -> bool {
    match (&session.recovery.needs_operator, &session.task.wrote) {
        (Some(_), None) => session.marks.task_dir.is_some(),
        (None, Some(_)) => true,
        (Some(_), Some(_)) | (None, None) => false,
    }
}

/// S1-15, S1-24: writes a stop file into the task directory when a person has to look. It is removed when that is
/// over, if its text is still the one that was written.
fn keep_stop_file(session: &mut Session, at: Moment, fx: &mut Effects) {
    match (&session.recovery.needs_operator, &session.task.wrote, &session.marks.task_dir) {
        (Some(flag), None, Some(dir)) => {
            let text = stop_text(session, flag, at);
            let (dir, is_kept) = (dir.clone(), flag.is_limit);
            let did = format!("{dir}/.auto-stop written ({})", reason_of(flag));
            fx.decide(session, "S1-15", &flag.reason, &did);
            fx.act(Action::WriteStop { dir: dir.clone(), text: text.clone() });
            session.task.note_written(StopFile { dir, text, is_kept, is_seen: false });
        }
        (None, Some(_), _) => {
            let Some(StopFile { dir, text, is_kept, .. }) = session.task.take_written() else {
                return;
            };
            if is_kept {
                let saw = format!("{dir}/.auto-stop was written at a limit");
                return fx.decide(session, "S1-24", &saw, "kept until a person removes it");
            }
            let saw = format!("coord wrote {dir}/.auto-stop, and the reason is gone");
            fx.decide(session, "S1-24", &saw, "removed unless somebody changed it");
            fx.act(Action::RemoveStop { dir, text });
        }
        (Some(_), _, _) | (None, None, _) => (),
    }
}

/// S1-16: a new signal begins a new iteration. The total that was used stays.
fn note_signal(session: &mut Session, signal: Option<u64>, fx: &mut Effects) {
    if !session.task.note_signal(signal) {
        return;
    }
    session.rest.begin_iteration();
    session.recovery.begin_iteration();
    fx.decide(session, "S1-16", "the task signalled", "a new iteration: the counts are reset");
}

fn note_stop(session: &mut Session, reason: Option<&str>, at: Moment, fx: &mut Effects) {
    if reason.is_some() {
        session.task.note_stop_seen();
    }
    let reason = reason.map(stopped);
    if session.task.stop.as_ref().map(|hold| &*hold.reason) == reason.as_deref() {
        return;
    }
    match reason {
        Some(reason) => {
            fx.decide(session, "S1-15", &reason, "coord does not act on the session");
            session.task.change_stop(Some(Hold::new(&reason, at, u64::MAX)));
        }
        None => {
            session.task.change_stop(None);
            fx.decide(session, "S1-15", "the .auto-stop is gone", "the task is no longer stopped");
        }
    }
}

fn stopped(reason: &str) -> String {
    match reason {
        "" => "the task directory has an .auto-stop".into(),
        reason => format!("the task directory has an .auto-stop ({reason})"),
    }
}

fn reason_of(flag: &Flag) -> &'static str {
    if flag.is_limit { STALL_LIMIT } else { NEEDS_OPERATOR }
}

/// The text of a stop file: one line of JSON. Foreign strings are reduced to plain words.
fn stop_text(session: &Session, flag: &Flag, at: Moment) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    let plain = |text: &str| -> String { text.chars().filter(is_plain).collect() };
    let (id, because) = (plain(&session.session_id), plain(&flag.reason));
    let reason = reason_of(flag);
    format!(
        "{{\"v\":1,\"by\":\"coord\",\"reason\":\"{reason}\",\"because\":\"{because}\",\
         \"session_id\":\"{id}\",\"at_ms\":{}}}\n",
        at.wall_ms
    )
}

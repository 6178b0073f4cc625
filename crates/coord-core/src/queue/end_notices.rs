//! Decides who is notified of a session's end (S4-25, S4-27, S0-34): its parent, and the sessions whose messages
//! wait for it. If a message failed, its sender is notified. A notice is a message from coord like any other, with
//! a key that names the end. So the messages themselves remember, through every restart, which notices were sent.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use coord_model::{Address, Effect, EndReason, Moment, Same, Sender, SessionKey};

use crate::effects::Effects;
use crate::records::{Message, MessageState, Presence, Session, State};

/// Maximum age of an end that is reported, in milliseconds: the notice of an older end may be dropped already.
const NOTICE_AGE_MAX_MS: u64 = 24 * 3_600_000;

impl State {
    /// Requests a notice of the session's end for everybody who did not get one yet.
    pub(crate) fn request_end_notices(&self, key: SessionKey, at: Moment, fx: &mut Effects) {
        let Some(session) = self.get(key) else { return };
        let Some((word, how, ended)) = end_of(session) else { return };
        if self.is_too_old_for_notice(ended, at) {
            return;
        }
        let name = format!("end-{}-{}-{word}", key.0, ended.wall_ms);
        let parents: BTreeSet<SessionKey> = self.parents(session).map(|one| one.key).collect();
        let senders = self.senders_waiting(key);
        for to in parents.union(&senders) {
            if *to == key || self.has_notice(*to, &name) {
                continue;
            }
            let text = text(session, &how, parents.contains(to), senders.contains(to));
            fx.ask(Effect::SendNotice { to: *to, about: key, name: name.clone(), text });
        }
    }

    /// Requests the notices of children that ended before the record took its session id (S4-27). A record that had
    /// the id by unverified events alone may have been dropped, and its messages failed with it.
    pub(crate) fn request_missed_end_notices(&self, key: SessionKey, at: Moment, fx: &mut Effects) {
        let Some(parent) = self.get(key) else { return };
        let is_child = |child: &&Session| {
            child.marks.parent.as_ref().is_some_and(|id| *id == parent.session_id)
        };
        for child in self.sessions().filter(is_child) {
            self.request_end_notices(child.key, at, fx);
        }
    }

    /// Requests a notice that a message failed, for the agent that sent it (S4-25).
    pub(crate) fn request_failure_notice(&self, message: &Message, at: Moment, fx: &mut Effects) {
        let (Sender::Session(id), MessageState::Failed { at: failed, reason, .. }) =
            (&message.from, &message.state)
        else {
            return;
        };
        if self.is_too_old_for_notice(*failed, at) {
            return;
        }
        let name = format!("failed-{}-{}", message.id, failed.wall_ms);
        let Some(to) = self.sessions_with_id(id).last().map(|one| one.key) else { return };
        if message.session() != Some(to) && !self.has_notice(to, &name) {
            let text = format!("Your message {} failed: {reason}.", message.id);
            fx.ask(Effect::SendNotice { to, about: to, name, text });
        }
    }

    /// Requests the notices that a previous coordinator may not have sent before it ended.
    pub(crate) fn request_failure_notices(&self, at: Moment, fx: &mut Effects) {
        self.messages.all().for_each(|message| self.request_failure_notice(message, at, fx));
    }

    fn has_notice(&self, to: SessionKey, name: &str) -> bool {
        let same = Same::Key(name.into(), 0);
        self.messages.same_as(&Address::Session(to), &Sender::Coord, &same).is_some()
    }

    fn is_too_old_for_notice(&self, happened: Moment, at: Moment) -> bool {
        let age_max_ms = NOTICE_AGE_MAX_MS.min(self.header.settings.queue.processed_kept_ms);
        age_max_ms <= at.wall_ms.saturating_sub(happened.wall_ms)
    }

    /// The sessions that sent messages which wait for this one.
    fn senders_waiting(&self, key: SessionKey) -> BTreeSet<SessionKey> {
        let mut senders = BTreeSet::new();
        for message in self.messages.open(key) {
            if let Sender::Session(id) = &message.from {
                senders.extend(self.sessions_with_id(id).map(|one| one.key));
            }
        }
        senders
    }
}

/// The end of a session: a name for the key, a description for an agent, and the time; none while it lives.
fn end_of(session: &Session) -> Option<(&'static str, String, Moment)> {
    let gave_up = session.recovery.needs_operator.as_ref();
    match *session.presence {
        Presence::Alive | Presence::Dying { .. } => None,
        Presence::Ended { reason, at } => {
            let by_user = matches!(reason, Some(EndReason::PromptInputExit | EndReason::Logout));
            let how = if by_user { "was ended by a person" } else { "has ended" };
            Some(("ended", how.into(), at))
        }
        Presence::Interrupted { at, .. } => Some((
            "interrupted",
            "was interrupted: its machine or its tmux server went down".into(),
            at,
        )),
        Presence::Crashed { at } if gave_up.is_some() => Some((
            "gave-up",
            "crashed, and coord could not recover it: a person has to look at it".into(),
            at,
        )),
        Presence::Crashed { at } if session.recovery.pending.is_some() => {
            Some(("crashed", "crashed; coord is trying to recover it".into(), at))
        }
        Presence::Crashed { at } => Some(("crashed", "crashed".into(), at)),
        Presence::Gone { at } => {
            Some(("gone", "is gone; whether it ended or crashed is unknown".into(), at))
        }
    }
}

fn text(session: &Session, how: &str, is_parent: bool, is_sender: bool) -> String {
    let id = &session.session_id;
    let name = session.marks.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let whose = if is_parent { "Your child session" } else { "Session" };
    let mut text = format!("{whose} {id}{name} {how}.");
    if is_sender {
        text.push_str(" Your messages that it has not read wait until it is resumed, or expire.");
    }
    let looked = format!(" `coord explain {}` says why.", id.get(..8).unwrap_or(id));
    text.push_str(&looked);
    text
}

//! Decides what follows from the client's own registry: the state of sessions beside the hooks, and
//! sessions that no hook ever reported.
//!
//! The registry is undocumented. It is labelled wherever it counts, tolerated in any shape, and never required.
//! `fusion` decides how its status counts against the hooks.

use alloc::vec::Vec;

use coord_model::{
    Awake, Effect, EndReason, Moment, Registry, RegistryEntry, RegistryStatus, SessionKey,
};

use crate::death;
use crate::effects::Effects;
use crate::fusion;
use crate::records::{
    Level, OwnerId, OwnerProof, Presence, RegistryFact, Session, Source, State, Turn, WRITTEN_MS,
};
use crate::turn;

impl State {
    /// When a session elsewhere is given up after its registry entry disappeared. The file is rewritten now and
    /// then.
    pub(crate) fn removed_elsewhere(&self, session: &Session) -> Option<Awake> {
        let RegistryFact::Removed { at } = *session.registry else { return None };
        let is_elsewhere = session.may_live() && !self.is_local(session);
        is_elsewhere.then(|| at.awake.plus_ms(self.header.settings.death_judged_within_ms))
    }

    /// Applies a read of a process's registry entry. Returns the records that changed.
    pub(crate) fn on_registry(
        &mut self,
        owner: OwnerId,
        found: &Registry,
        after_death: bool,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let Some(key) = self.key_of_owner(&owner) else {
            return match found {
                Registry::Present(entry) if !after_death => self.discover(owner, entry, at, fx),
                Registry::Present(_)
                | Registry::Absent
                | Registry::Unreadable { .. }
                | Registry::Strange { .. } => Vec::new(),
            };
        };
        if let Registry::Present(entry) = found
            && !after_death
            && self.get(key).is_some_and(|session| went_over(session, entry, at))
        {
            self.leave(key, at);
            let mut touched = Vec::from([key]);
            touched.extend(self.mark_two_owners(key));
            touched.extend(self.take_over(owner, entry, at, fx));
            return touched;
        }
        if let Registry::Present(entry) = found
            && !after_death
            && (self.is_beginning(key, entry) || self.is_other_than_claimed(key, entry))
        {
            self.fail_messages_of(key, "the session switched to another conversation before a hook reported it; send the message again", at, fx);
            self.drop_record(key, "its client went over to another conversation", fx);
            return self.take_over(owner, entry, at, fx);
        }
        let Some(mut session) = self.take(key) else { return Vec::new() };
        if let Registry::Present(entry) = found
            && entry.session_id == session.session_id
        {
            session.note_return(entry.changed_ms);
        }
        if after_death {
            death::judge(&mut session, found, at, fx);
        } else if session.may_live() || !was_judged(&session) {
            note(&mut session, found, at, fx);
        }
        self.put(session);
        let mut touched = Vec::from([key]);
        touched.extend(self.make_way(key, at, fx));
        touched.extend(self.mark_two_owners(key));
        touched
    }

    /// Whether a process that only the registry reported was just starting: a client names a conversation of its
    /// own before the one that it continues (measured). The process is the other conversation's new owner (H-42).
    fn is_beginning(&self, key: SessionKey, entry: &RegistryEntry) -> bool {
        let is_bare = |session: &Session| {
            !session.is_reported()
                && session.former_owners.is_empty()
                && session.session_id != entry.session_id
        };
        let is_free = |session: &Session| {
            session.session_id == entry.session_id
                && session.key != key
                && (!session.may_live() || session.owner.is_none())
        };
        self.get(key).is_some_and(is_bare) && self.sessions_with_id(&entry.session_id).any(is_free)
    }

    /// Whether the registry contradicts unverified events that say the process holds this record's session.
    fn is_other_than_claimed(&self, key: SessionKey, entry: &RegistryEntry) -> bool {
        self.get(key).is_some_and(|session| {
            let owner = session.owner.as_ref();
            owner.is_some_and(|owner| owner.proof == OwnerProof::Claimed)
                && session.session_id != entry.session_id
        })
    }

    /// Opens a record for a session that no hook reported: it started before the hooks were registered, or its
    /// hooks are silenced (H-24). It is listed, and never acted on (H-14).
    fn discover(
        &mut self,
        owner: OwnerId,
        entry: &RegistryEntry,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        // An entry that a dead process left behind stays, and another process may hold the session since (H-42).
        let was_held =
            |session: &Session| session.former_owners.iter().any(|id| id.is_same(&owner));
        if self.sessions_with_id(&entry.session_id).any(was_held) {
            return Vec::new();
        }
        self.take_over(owner, entry, at, fx)
    }

    /// Makes the process the owner of the conversation that its entry names.
    fn take_over(
        &mut self,
        owner: OwnerId,
        entry: &RegistryEntry,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let process = owner.process;
        // A resume in a new process continues the record of a former owner that is gone, or was never known
        // (H-42).
        let is_free = |session: &&Session| {
            session.session_id == entry.session_id
                && (!session.may_live()
                    || session.owner.is_none()
                    || (!entry.is_unrecognized && session.makes_way()))
        };
        let free = self.sessions_with_id(&entry.session_id).find(is_free);
        let free = free.map(|session| session.key);
        let mut session = free.and_then(|key| self.take(key)).unwrap_or_else(|| {
            // No hook has reported anything that the registry would have to follow.
            let at = Moment { wall_ms: 0, ..at };
            Session::begin(self.new_key(), &entry.session_id, at).into()
        });
        session.change_owner(owner);
        session.cwd.clone_from(&entry.cwd);
        session.config_dir.clone_from(&entry.config_dir);
        note(&mut session, &Registry::Present(entry.clone()), at, fx);
        let key = session.key;
        if self.is_local(&session) {
            fx.ask(Effect::WatchProcess { process });
        }
        self.put(session);
        let mut touched = Vec::from([key]);
        touched.extend(self.make_way(key, at, fx));
        touched.extend(self.mark_two_owners(key));
        touched
    }
}

/// Whether the process, which left this conversation, is in the one that its entry names. The hook that would have
/// reported this was lost.
fn went_over(session: &Session, entry: &RegistryEntry, at: Moment) -> bool {
    let Presence::Ended { reason: Some(EndReason::Resume), at: left } = *session.presence else {
        return false;
    };
    let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
    matches!(seen, Some((true, _))) && names_another(session, entry, left, at)
}

/// Whether the entry names another conversation than the one that was over by `then`, and not one that the client
/// still has to replace.
fn names_another(session: &Session, entry: &RegistryEntry, then: Moment, at: Moment) -> bool {
    let is_newer = then.wall_ms <= entry.changed_ms || then.awake.plus_ms(WRITTEN_MS) <= at.awake;
    entry.session_id != session.session_id && is_newer
}

/// Whether the registry was already read after the death: a later read adds nothing.
fn was_judged(session: &Session) -> bool {
    matches!(*session.registry, RegistryFact::Removed { .. } | RegistryFact::LeftBehind { .. })
}

/// Gives up a session elsewhere whose registry entry did not come back. It may have ended, or another container's
/// client may have had the same file (H-15).
pub(crate) fn give_up(session: &mut Session, at: Moment, fx: &mut Effects) {
    session.presence.lose(at);
    fx.decide(
        session,
        "H-15",
        "the registry entry is gone, and the process runs elsewhere",
        "unknown",
    );
}

/// When the registry's `idle`, newer than what opened the turn, means that the turn was interrupted.
pub(crate) fn interrupted_at(session: &Session) -> Option<Awake> {
    let level = session.registry.level()?;
    let is_news = level.is_after(fusion::newest_edge(session));
    let is_open = matches!(*session.turn, Turn::Open { .. });
    let is_interrupt = level.status == RegistryStatus::Idle && is_open && is_news;
    is_interrupt.then(|| fusion::queued_until(session))
}

/// Ends a turn that the registry says was interrupted.
pub(crate) fn settle_turn(session: &mut Session, at: Moment, fx: &mut Effects) {
    if interrupted_at(session).is_some_and(|due| due <= at.awake) {
        turn::interrupt(session, Source::Registry, at, fx);
    }
}

/// Notes which session the process's own entry names: that proves a claim, and contradicts a takeover (H-47).
fn note_proof(session: &mut Session, found: &Registry) {
    let Registry::Present(entry) = found else {
        return session.owner.note_registry_session(None);
    };
    session.owner.note_registry_session(Some(&entry.session_id));
    if session.owner.is_some() && entry.session_id == session.session_id {
        session.owner.note_registered(entry.is_unrecognized);
        if session.config_dir.is_empty() {
            // An unverified event opened this record, and names no directory (H-44).
            session.config_dir.clone_from(&entry.config_dir);
        }
    }
}

/// Applies the entry of a living process. An entry that vanished or became unreadable is no longer a source. Its
/// removal counts when the process ends (H-05).
fn note(session: &mut Session, found: &Registry, at: Moment, fx: &mut Effects) {
    note_proof(session, found);
    let entry = match (found, *session.registry) {
        (Registry::Present(entry), _) => entry,
        (Registry::Absent, RegistryFact::Present { .. } | RegistryFact::Removed { .. }) => {
            session.registry.note_removed(at);
            return;
        }
        (Registry::Absent | Registry::Unreadable { .. } | Registry::Strange { .. }, _) => {
            session.registry.forget();
            return;
        }
    };
    let before = session.registry.level();
    session.registry.note_entry(entry, at);
    session.is_foreign = entry.is_foreign;
    if entry.name.is_some() && entry.session_id == session.session_id {
        session.client_name.clone_from(&entry.name);
    }
    let is_cleared = session.left == Some(EndReason::Clear);
    if !session.is_reported() || (is_cleared && names_another(session, entry, session.edge_at, at))
    {
        session.follow_registry(&entry.session_id);
        session.left = None;
    }
    if before != session.registry.level() {
        session.sign = at.awake;
    }
    let is_waiting = session.registry.level().is_none_or(Level::is_waiting);
    settle_turn(session, at, fx);
    if !is_waiting {
        end_prompts(session, before);
    }
}

/// A status other than `waiting`, after `before`, ends prompts. If the client waited for the only open prompt, it showed that
/// prompt's dialog, even if a hook waited beside it: a subagent's in the foreground.
fn end_prompts(session: &mut Session, before: Option<Level>) {
    let Some(level) = session.registry.level() else { return };
    let has_others = session.waits.iter().any(|wait| wait.hidden_until.is_none());
    let dialog = before.filter(|before| !has_others && before.is_waiting());
    session.waits.end_before(level, dialog);
}

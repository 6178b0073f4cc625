//! Decides which record an event belongs to (R-06 to R-09, H-42).
//!
//! A record follows an id only within one harness process. A resume in a new process continues the record only if
//! its former owner is gone. Two live processes with one id are two records, both `unknown`. A SessionEnd alone
//! neither opens a record nor takes one over.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use coord_model::{EndReason, HookEvent, HookKind, Moment, SessionKey, StartSource};

use crate::effects::Effects;
use crate::records::{OwnerId, OwnerProof, Session, State};

/// Where an event belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The event changes this record.
    Record(SessionKey),
    /// The event belongs to this record's past: it is counted and not applied.
    History(SessionKey),
    /// The event opens a record.
    New,
    /// The event belongs to no record.
    Nowhere,
}

/// The harness that sent an event.
pub(crate) fn owner_of(event: &HookEvent) -> Option<OwnerId> {
    event.harness.as_ref().map(|harness| OwnerId {
        machine: event.machine.clone(),
        boot: event.boot.clone(),
        pid_ns: harness.pid_ns,
        process: harness.process(),
    })
}

impl State {
    /// Decides where `event` belongs.
    pub(crate) fn place(&self, event: &HookEvent, owner: Option<&OwnerId>) -> Destination {
        if event.is_proved() {
            self.place_proved(event, owner)
        } else {
            self.place_claim(event, owner)
        }
    }

    /// Decides where an event belongs if nothing shows that its harness holds its session. Such an event changes
    /// no owner and takes nothing over (H-44).
    fn place_claim(&self, event: &HookEvent, owner: Option<&OwnerId>) -> Destination {
        let newest = self.sessions_with_id(&event.session_id).max_by_key(|session| session.key);
        let is_end = matches!(event.kind, HookKind::SessionEnd(_));
        let unclaimed = if is_end { Destination::Nowhere } else { Destination::New };
        let Some(owner) = owner else {
            return newest.map_or(unclaimed, |session| Destination::Record(session.key));
        };
        let own =
            self.sessions_with_id(&event.session_id).find(|session| session.is_owned_by(owner));
        if let Some(key) = own.map(|session| session.key).or_else(|| self.key_of_owner(owner)) {
            return Destination::Record(key);
        }
        // For a client that coord itself started, the user's end counts: it can only prevent an act.
        if let Some(key) = self.key_of_resume_ended(event, owner) {
            return Destination::Record(key);
        }
        // No other unproved event shows that this client came up, or that it holds another conversation.
        let is_local = self.is_local_owner(owner);
        if let Some(key) = self.key_claimed_by(owner.process).filter(|_| is_local) {
            return Destination::History(key);
        }
        let Some(newest) = newest else { return unclaimed };
        if newest.is_unowned() && event.has_living_client() && !is_end {
            return Destination::Record(newest.key);
        }
        let is_held = self
            .sessions_with_id(&event.session_id)
            .any(|session| session.may_live() && session.owner.is_some());
        let was_held = self
            .sessions_with_id(&event.session_id)
            .any(|session| session.former_owners.contains(owner));
        let is_owned = newest.owner.is_some() || !newest.may_live();
        if event.has_living_client() && is_owned && !is_held && !was_held && !is_end {
            return Destination::New;
        }
        Destination::History(newest.key)
    }

    /// Decides where an event belongs if its harness holds its session.
    fn place_proved(&self, event: &HookEvent, owner: Option<&OwnerId>) -> Destination {
        let is_end = matches!(event.kind, HookKind::SessionEnd(_));
        let unclaimed = if is_end { Destination::Nowhere } else { Destination::New };
        let with_id = || self.sessions_with_id(&event.session_id);
        let Some(owner) = owner else {
            let newest = with_id().max_by_key(|session| session.key);
            return newest.map_or(unclaimed, |session| Destination::Record(session.key));
        };
        if let Some(session) = with_id().find(|session| session.is_owned_by(owner)) {
            return Destination::Record(session.key);
        }
        let held = self.key_of_owner(owner);
        let goes_over = event.kind == HookKind::SessionStart(StartSource::Resume);
        if let Some(session) = with_id().find(|session| session.former_owners.contains(owner)) {
            // A process that went over to another conversation may come back.
            let edge = held.and_then(|key| self.get(key)?.edge);
            let comes_back = goes_over && edge.is_some_and(|edge| edge.mono_ns < event.mono_ns);
            let is_free = !session.may_live() || session.owner.is_none();
            return if comes_back && is_free {
                Destination::Record(session.key)
            } else {
                Destination::History(session.key)
            };
        }
        if let Some(key) = held.filter(|key| goes_over && self.is_behind(*key, event)) {
            let newest = with_id().max_by_key(|session| session.key);
            return Destination::History(newest.map_or(key, |session| session.key));
        }
        if let Some(key) = held
            && !goes_over
        {
            return if is_end { Destination::Nowhere } else { Destination::Record(key) };
        }
        let is_client = event.is_verified() || event.has_living_client();
        let free = with_id()
            .find(|session| session.owner.is_none())
            .or_else(|| with_id().find(|session| !session.may_live()))
            .or_else(|| {
                with_id().find(|session| {
                    is_client && session.makes_way() && session.session_id == event.session_id
                })
            });
        if let Some(key) = self.key_of_resume_ended(event, owner) {
            return Destination::Record(key);
        }
        match free {
            Some(session) if is_end && session.owner.is_some() => Destination::History(session.key),
            Some(session) => Destination::Record(session.key),
            None => unclaimed,
        }
    }

    /// Whether the event is older than the record's newest turn edge.
    fn is_behind(&self, key: SessionKey, event: &HookEvent) -> bool {
        let edge = self.get(key).and_then(|session| session.edge);
        edge.is_some_and(|edge| event.mono_ns < edge.mono_ns)
    }

    /// The record whose resume this process claimed, if the event is the user's end of that conversation. The
    /// SessionStart before it may have been lost (G6). The conversation may have several records.
    fn key_of_resume_ended(&self, event: &HookEvent, owner: &OwnerId) -> Option<SessionKey> {
        let is_its_users = matches!(
            event.kind,
            HookKind::SessionEnd(EndReason::PromptInputExit | EndReason::Logout)
        );
        if !is_its_users || !self.is_local_owner(owner) {
            return None;
        }
        let mut of_it = self.sessions_with_id(&event.session_id);
        of_it.find(|session| session.recovery.claimed_by(owner.process)).map(|session| session.key)
    }

    fn is_local_owner(&self, owner: &OwnerId) -> bool {
        self.local_owner(owner.process).is_some_and(|local| local.is_same(owner))
    }

    /// Drops a record that only unverified events opened for this process, once the process is proved to belong to
    /// another record.
    pub(crate) fn drop_claimed(
        &mut self,
        event: &HookEvent,
        owner: &OwnerId,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(key) = self.key_of_owner(owner) else { return };
        let is_claimed = self.get(key).and_then(|session| session.owner.as_ref());
        if is_claimed.is_none_or(|owner| owner.proof != OwnerProof::Claimed) {
            return;
        }
        let is_its_own =
            self.get(key).is_some_and(|session| session.session_id == event.session_id)
                && self.keys_of_id(&event.session_id) == [key];
        if !is_its_own {
            let why = "only unverified events had reported the session; send the message again";
            self.fail_messages_of(key, why, at, fx);
            self.drop_record(key, "only unverified events had told of it", fx);
        }
    }

    /// Ends the record that this process held, because the process goes over to the session of `event` (in-process
    /// resume). Returns that record.
    pub(crate) fn leave_behind(
        &mut self,
        event: &HookEvent,
        owner: &OwnerId,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let key = self.key_of_owner(owner)?;
        let is_same = self.get(key).is_some_and(|session| session.has_id(&event.session_id));
        if is_same {
            return None;
        }
        if self.get(key).is_some_and(|session| !session.is_reported()) {
            // The record is known from the registry alone, and the registry was read before older events arrived.
            // Its entry names the conversation that the process will have gone over to by then.
            self.fail_messages_of(key, "the session switched to another conversation before a hook reported it; send the message again", at, fx);
            self.drop_record(key, "its client went over to another conversation", fx);
            return None;
        }
        self.leave(key, at);
        Some(key)
    }

    /// Ends a record whose process went over to another conversation. The process is a former owner from here on.
    pub(crate) fn leave(&mut self, key: SessionKey, at: Moment) {
        let Some(mut session) = self.take(key) else { return };
        session.leave(at);
        self.put(session);
    }

    /// H-46: has an unrecognized process yield its conversation to a client that is proved to have it. Such a
    /// process is not recognized as a client, and only its own registry entry ties it to the conversation. Returns
    /// the records that changed.
    pub(crate) fn make_way(
        &mut self,
        key: SessionKey,
        at: Moment,
        fx: &mut Effects,
    ) -> Vec<SessionKey> {
        let Some(session) = self.get(key).filter(|session| session.may_live()) else {
            return Vec::new();
        };
        let proof = session.owner.as_ref().map(|owner| owner.proof);
        if !matches!(proof, Some(OwnerProof::Proved | OwnerProof::TakenOver)) {
            return Vec::new();
        }
        let id = session.session_id.clone();
        let others = self.sessions_with_id(&id);
        let others: Vec<SessionKey> = others
            .filter(|other| other.key != key && other.session_id == id && other.makes_way())
            .map(|other| other.key)
            .collect();
        for other in &others {
            let is_bare = self.get(*other).is_some_and(|one| one.former_owners.is_empty());
            if is_bare {
                let why = "the receiver is not a Claude Code client; send the message again";
                self.fail_messages_of(*other, why, at, fx);
                self.drop_record(*other, "its process is not a client", fx);
            } else {
                self.leave(*other, at);
            }
        }
        others
    }

    /// Marks the records of one id that two live processes claim. Removes the mark when one process is gone or has
    /// taken another id. Returns the records that changed.
    pub(crate) fn mark_two_owners(&mut self, key: SessionKey) -> Vec<SessionKey> {
        let Some(session) = self.get(key) else { return Vec::new() };
        let ids = || session.previous_ids.iter().chain([&session.session_id]);
        if !session.two_owners && ids().all(|id| self.keys_of_id(id) == [key]) {
            return Vec::new();
        }
        let keys: BTreeSet<SessionKey> =
            ids().flat_map(|id| self.keys_of_id(id)).copied().collect();
        let is_other = |key: &SessionKey| {
            self.get(*key)
                .is_some_and(|session| session.two_owners != self.is_claimed_twice(session))
        };
        let changed: Vec<SessionKey> = keys.into_iter().filter(is_other).collect();
        for key in &changed {
            if let Some(mut session) = self.take(*key) {
                session.two_owners = !session.two_owners;
                self.put(session);
            }
        }
        changed
    }

    fn is_claimed_twice(&self, session: &Session) -> bool {
        let claims = |one: &Session| {
            let owner = one.owner.as_ref();
            let counts = owner.is_some_and(|owner| owner.proof != OwnerProof::Claimed);
            one.may_live() && counts && one.session_id == session.session_id
        };
        let is_other = |other: &Session| other.key != session.key && claims(other);
        claims(session) && self.sessions_with_id(&session.session_id).any(is_other)
    }

    /// Notes on dead records that their conversation went on in another process (H-42, G6): what the user does
    /// there counts. An unproved event of a dead record's harness does not (H-44). Returns the records that
    /// changed.
    pub(crate) fn pass_on(&mut self, touched: &[SessionKey], is_proved: bool) -> Vec<SessionKey> {
        let mut passed_on = Vec::new();
        for key in touched {
            let Some(session) = self.get(*key) else { continue };
            let is_believed = is_proved || session.may_live();
            if session.owner.is_none() || session.is_passed_on() || !is_believed {
                continue;
            }
            let id = &session.session_id;
            let others = self
                .sessions_with_id(id)
                .filter(|other| other.key != *key && other.session_id == *id && !other.may_live());
            passed_on.extend(others.map(|other| other.key));
        }
        for key in &passed_on {
            if let Some(mut session) = self.take(*key) {
                let harness = session.owner.as_ref().map(|owner| owner.id.process);
                session.recovery.pass_on(harness);
                self.put(session);
            }
        }
        passed_on
    }

    /// Notes that another process ended the conversation at `at`: a process younger than the harness of a record, in
    /// which the user had resumed it even if that process reported nothing else, or the owner of another record of it
    /// that outlived that harness. A conversation may have several records. A record whose harness was dead by then is
    /// not brought back (G6, S0-25f).
    /// Returns the records that changed.
    pub(crate) fn note_end_elsewhere(
        &mut self,
        session_id: &str,
        ended: &OwnerId,
        reason: EndReason,
        at: Moment,
    ) -> Vec<SessionKey> {
        let is_end = match reason {
            EndReason::PromptInputExit | EndReason::Logout | EndReason::Other => true,
            EndReason::Clear | EndReason::Resume => false,
        };
        let of_it = self.sessions_with_id(session_id);
        let over: Vec<SessionKey> = of_it
            .filter(|one| {
                one.session_id == session_id
                    && self.is_ended_elsewhere(one, ended, is_end.then_some(at))
            })
            .map(|session| session.key)
            .collect();
        for key in &over {
            let Some(mut session) = self.take(*key) else { continue };
            if session.may_live() {
                session.owner.note_ended_elsewhere(at);
            } else if let Some(harness) = session.owner.as_ref().map(|owner| owner.id.process) {
                session.recovery.pass_on(Some(harness));
            }
            self.put(session);
        }
        over
    }

    /// `at`: when it was ended there; none if that process only went over to another one.
    fn is_ended_elsewhere(&self, session: &Session, ended: &OwnerId, at: Option<Moment>) -> bool {
        let Some(owner) = session.owner.as_ref() else { return false };
        let dead = &owner.id;
        let is_since_boot = || {
            let boot = self.header.host.as_ref().map(|host| &host.boot);
            dead.boot != ended.boot && boot == Some(&ended.boot)
        };
        let is_later =
            dead.boot == ended.boot && dead.process.start_time < ended.process.start_time;
        let is_younger = dead.machine == ended.machine && (is_later || is_since_boot());
        let other = self.key_of_owner(ended).filter(|key| *key != session.key);
        let other = other.and_then(|key| self.get(key));
        // A late hook may say that its process ended after it was seen to be dead.
        let ended_ms = |other: &Session, at: Moment| {
            let until_ms = other.owner.as_ref().map(|owner| owner.lived_until_ms);
            until_ms.filter(|ms| 0 < *ms).map_or(at.wall_ms, |ms| ms.min(at.wall_ms))
        };
        let outlived = |other: &Session, at: Moment| {
            let is_longer = session.may_live() || owner.lived_until_ms < ended_ms(other, at);
            other.has_id(&session.session_id) && is_longer
        };
        let is_last = other.zip(at).is_some_and(|(other, at)| outlived(other, at));
        let is_known =
            session.former_owners.contains(ended) || session.recovery.claimed_by(ended.process);
        (is_younger || is_last) && !is_known
    }
}

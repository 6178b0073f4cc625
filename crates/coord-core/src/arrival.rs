//! Decides whether a hook's event takes effect, on which record, and in which order (G2, H-31).
//!
//! A second arrival changes nothing. An event is history if it comes from a former owner, or lay in a spool for
//! longer than ids are remembered. History is counted, and not applied. A stamp later than the arrival counts as
//! the arrival.

use alloc::vec::Vec;

use coord_model::{
    Effect, EndReason, HookEvent, HookKind, Kind, Moment, Now, Provenance, SessionKey, StartSource,
    Via,
};

use crate::effects::Effects;
use crate::fusion;
use crate::identity::{Destination, owner_of};
use crate::records::{
    EarlyEnd, HostEvent, LastEvent, OwnerId, OwnerProof, Presence, REMEMBERED_MS, Session, Stamp,
    State, Taken,
};
use crate::{pane, recovery};
use crate::{subagent, turn};

/// Maximum number of early ends that are remembered.
const EARLY_ENDS_MAX: usize = 64;

/// Applies a hook's event. Returns the records that it changed.
pub(crate) fn on_hook(
    state: &mut State,
    event: &HookEvent,
    now: Now,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    if !state.seen.insert(event.id, now.wall_ms) {
        bump(&mut state.header.counters.duplicates);
        return Vec::new();
    }
    if let HookKind::StatusLine(numbers) = &event.kind {
        return state.note_usage(event, numbers, state.moment(now), fx);
    }
    let at = Moment { wall_ms: event.wall_ms.min(now.wall_ms), ..state.moment(now) };
    let owner = owner_of(event);
    if let Some(owner) = owner.as_ref().filter(|_| event.is_proved()) {
        state.drop_claimed(event, owner, at, fx);
    }
    let place = place(state, event, owner.as_ref(), now);
    if let Destination::History(key) | Destination::Record(key) = place {
        state.note_claimed_start(key, event);
    }
    let ended_elsewhere = match (&event.kind, &owner) {
        (HookKind::SessionEnd(reason), Some(owner)) => {
            state.note_end_elsewhere(&event.session_id, owner, *reason, at)
        }
        (_, _) => Vec::new(),
    };
    match place {
        Destination::Nowhere => {
            bump(&mut state.header.counters.phantom_ends);
            keep_early_end(state, event, owner, at);
            Vec::new()
        }
        Destination::History(key) => {
            count_late(state, key, event.is_verified());
            ended_elsewhere
        }
        Destination::Record(key) => {
            let left = leave(state, event, owner.as_ref(), at, fx);
            let is_unowned = state.get(key).is_some_and(Session::is_unowned);
            let is_believed = event.is_proved() || (is_unowned && event.has_living_client());
            let owner = owner.filter(|_| is_believed);
            let owner = owner.map(|owner| (owner, proof_of(event, !left.is_empty())));
            let mut touched = match state.take(key) {
                Some(session) => take_in(state, session, event, owner, at, now, fx),
                None => Vec::new(),
            };
            touched.extend(left);
            touched.extend(ended_elsewhere);
            touched
        }
        Destination::New => {
            let left = leave(state, event, owner.as_ref(), at, fx);
            let mut session = Session::begin(state.new_key(), &event.session_id, at);
            let owner = owner.filter(|owner| is_known(state, event, owner));
            if owner.is_none() {
                session.presence.lose(at);
            }
            let session = session.into();
            let early_end = claim_early_end(state, event, owner.as_ref());
            let owner = owner.map(|owner| (owner, proof_of(event, !left.is_empty())));
            let mut touched = take_in(state, session, event, owner, at, now, fx);
            touched.extend(left);
            if let Some(end) = early_end {
                touched.extend(take_end(state, end, &touched, fx));
            }
            touched
        }
    }
}

/// Whether a new record gets this owner: a proved one, a living client, or one elsewhere, which cannot be observed
/// from here (H-15). A record that is opened by a claim about any other process has no owner.
fn is_known(state: &State, event: &HookEvent, owner: &OwnerId) -> bool {
    let is_elsewhere = state
        .header
        .host
        .as_ref()
        .is_some_and(|host| (&host.machine, host.pid_ns) != (&owner.machine, owner.pid_ns));
    event.is_proved() || event.has_living_client() || is_elsewhere
}

fn keep_early_end(state: &mut State, event: &HookEvent, owner: Option<OwnerId>, at: Moment) {
    let (HookKind::SessionEnd(reason), Some(owner)) = (&event.kind, owner) else { return };
    let ends = &mut state.header.early_ends;
    ends.push(EarlyEnd {
        session_id: event.session_id.clone(),
        owner,
        reason: *reason,
        last: LastEvent {
            name: event.kind.name().into(),
            stamp: Stamp { mono_ns: event.mono_ns, wall_ms: event.wall_ms },
            verified: event.is_verified(),
            via: event.via,
        },
        at,
    });
    if EARLY_ENDS_MAX < ends.len() {
        ends.remove(0);
    }
}

/// Takes out the early end of the session that `event` opens, if there is one.
fn claim_early_end(
    state: &mut State,
    event: &HookEvent,
    owner: Option<&OwnerId>,
) -> Option<EarlyEnd> {
    let is_of_event = |end: &EarlyEnd| {
        end.session_id == event.session_id
            && Some(&end.owner) == owner
            && event.mono_ns < end.last.stamp.mono_ns
    };
    let ends = &mut state.header.early_ends;
    let at = ends.iter().position(is_of_event)?;
    Some(ends.remove(at))
}

fn take_end(
    state: &mut State,
    end: EarlyEnd,
    opened: &[SessionKey],
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let at = end.at;
    let Some(mut session) = opened.first().and_then(|key| state.take(*key)) else {
        return Vec::new();
    };
    let key = session.key;
    turn::apply_early_end(&mut session, end);
    state.put(session);
    let mut touched = state.mark_two_owners(key);
    touched.extend(state.on_end(key, at, fx));
    touched
}

/// Where the event belongs. An event that is older than the remembered ids is history (H-31).
fn place(state: &State, event: &HookEvent, owner: Option<&OwnerId>, now: Now) -> Destination {
    let age_ms = now.wall_ms.saturating_sub(event.wall_ms);
    let is_history = event.via == Via::Spool && REMEMBERED_MS < age_ms;
    match state.place(event, owner) {
        Destination::Record(key) if is_history => Destination::History(key),
        Destination::New if is_history => Destination::Nowhere,
        place @ (Destination::Record(_)
        | Destination::New
        | Destination::History(_)
        | Destination::Nowhere) => place,
    }
}

/// Ends the record that the process held before an in-process resume.
fn leave(
    state: &mut State,
    event: &HookEvent,
    owner: Option<&OwnerId>,
    at: Moment,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let goes_over = event.kind == HookKind::SessionStart(StartSource::Resume) && event.is_proved();
    let key =
        owner.filter(|_| goes_over).and_then(|owner| state.leave_behind(event, owner, at, fx));
    let others = key.map_or_else(Vec::new, |key| state.mark_two_owners(key));
    key.into_iter().chain(others).collect()
}

fn take_in(
    state: &mut State,
    mut session: Taken,
    event: &HookEvent,
    owner: Option<(OwnerId, OwnerProof)>,
    at: Moment,
    now: Now,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let key = session.key;
    let new_owner = owner.filter(|(owner, _)| !session.is_owned_by(owner));
    let is_new_owner = new_owner.is_some();
    if let Some((owner, proof)) = new_owner {
        session.change_owner(owner);
        session.owner.prove(proof);
    }
    apply(state, &mut session, event, at, now, fx);
    take_along_old_boot(state, &mut session, at);
    if is_new_owner {
        ask_about(state, &session, fx);
    } else if event.kind == HookKind::UserPromptSubmit {
        ask_for_launch(state, &session, fx);
    }
    ask_for_dir(state, &session.config_dir, fx);
    let has_ended = !session.may_live();
    state.put(session);
    let mut touched = Vec::from([key]);
    touched.extend(state.make_way(key, at, fx));
    touched.extend(state.mark_two_owners(key));
    if has_ended {
        touched.extend(state.on_end(key, at, fx));
    }
    touched
}

fn apply(
    state: &mut State,
    session: &mut Session,
    event: &HookEvent,
    at: Moment,
    now: Now,
    fx: &mut Effects,
) {
    let is_this_boot = state.header.host.as_ref().is_some_and(|host| host.boot == event.boot);
    let mono_ns = if is_this_boot { event.mono_ns.min(now.mono_ns) } else { event.mono_ns };
    let stamp = Stamp { mono_ns, wall_ms: event.wall_ms };
    let is_newer = session.edge.is_none_or(|edge| edge.mono_ns < mono_ns);
    note_may_have_left(session, event, is_newer);
    if event.is_proved() {
        note_proof(state, session, event);
        follow_id(session, event, is_newer);
        if let Some(harness) = &event.harness {
            // H-24, H-44: whoever writes into the spool may say of a client's process what it is not.
            let (known, told) = (session.kind, harness.kind);
            session.kind = if event.is_verified() { told.or(known) } else { known.or(told) };
        }
        session.owner.note_confirmed();
    }
    recovery::harm::on_prompt(session, event, fx);
    let hidden_ms = state.hidden_wait_ms(session, event, at);
    let was_applied = turn::apply(session, event, stamp, (at, hidden_ms));
    if was_applied {
        let delay_ms =
            if is_this_boot { now.mono_ns.saturating_sub(mono_ns) / 1_000_000 } else { 0 };
        note_subagents(session, event, delay_ms, at);
        state.note_quota(session, event, at, fx);
        state.offer(session, event, at, fx);
    }
    let counters = &mut state.header.counters;
    bump(&mut counters.events);
    session.counts.count(event.is_verified());
    if !was_applied {
        bump(&mut counters.late);
        session.counts.count_late();
    }
    if event.is_verified() {
        session.owner.note_reported();
    }
}

/// Takes in what an event that was emitted `delay_ms` before it arrived says of the session's subagents, and whether that
/// changes what the session is doing.
fn note_subagents(session: &mut Session, event: &HookEvent, delay_ms: u64, at: Moment) {
    let before = fusion::by_hooks(session);
    subagent::note(session, event, at.minus_ms(delay_ms));
    if fusion::by_hooks(session) != before {
        session.edge_at = at;
    }
}

/// Notes whether the process may have gone over to another session. Once its death is judged, an unproved event
/// has no owner to change.
fn note_may_have_left(session: &mut Session, event: &HookEvent, is_newer: bool) {
    let is_open = session.may_live() || matches!(*session.presence, Presence::Dying { .. });
    let Some(owner) = session.owner.as_ref().filter(|_| is_open) else { return };
    let is_others = session.session_id != event.session_id;
    let says_so = is_others || event.kind == HookKind::SessionEnd(EndReason::Resume);
    let is_its_own = owner_of(event).is_some_and(|sender| owner.id.is_same(&sender));
    let may_have_left = owner.may_have_left || (says_so && is_newer && is_its_own);
    session.owner.note_may_have_left(may_have_left && !event.is_proved());
}

/// The proof that the process of a new owner holds the session.
fn proof_of(event: &HookEvent, held_before: bool) -> OwnerProof {
    match &event.provenance {
        Provenance::Verified if held_before => OwnerProof::TakenOver,
        Provenance::Corroborated { registry_dir: Some(_), is_client: false } => {
            OwnerProof::Registered
        }
        Provenance::Verified | Provenance::Corroborated { registry_dir: Some(_), .. } => {
            OwnerProof::Proved
        }
        Provenance::Corroborated { registry_dir: None, .. } | Provenance::Claimed => {
            OwnerProof::Claimed
        }
    }
}

/// Raises a claim to a proof if the event is proved. An event that names another record's session takes that
/// session over, and any child of the client may have sent it (H-47).
fn note_proof(state: &State, session: &mut Session, event: &HookEvent) {
    let is_anothers = session.session_id != event.session_id
        && state.keys_of_id(&event.session_id).iter().any(|key| *key != session.key);
    let proof = session.owner.as_ref().map(|owner| owner.proof);
    if let Provenance::Corroborated { registry_dir: Some(_), is_client } = event.provenance {
        session.owner.note_registry_session(Some(&event.session_id));
        session.owner.note_registered(!is_client);
    } else if is_anothers {
        session.owner.prove(OwnerProof::TakenOver);
    } else if matches!(proof, Some(OwnerProof::Claimed | OwnerProof::Registered)) {
        session.owner.prove(OwnerProof::Proved);
    }
}

/// Follows a change of id within one process. An earlier id is followed only by a SessionStart, or by any event
/// once the present conversation was reported over.
fn follow_id(session: &mut Session, event: &HookEvent, is_newer: bool) {
    if session.session_id == event.session_id {
        return;
    }
    let is_start = matches!(event.kind, HookKind::SessionStart(_));
    let is_known = session.previous_ids.contains(&event.session_id);
    let is_over = session.has_left();
    if is_newer && (is_start || is_over || !is_known) {
        session.follow(&event.session_id);
        if is_over {
            turn::revive(session);
        }
    } else {
        session.remember_id(event.session_id.clone());
    }
}

/// Marks a record as interrupted if its harness is of an older boot: that host event ended the harness (S0-25f).
fn take_along_old_boot(state: &State, session: &mut Session, at: Moment) {
    let is_old = match (&state.header.host, &*session.owner) {
        (Some(host), Some(owner)) => state.is_local(session) && owner.id.boot != host.boot,
        (Some(_) | None, _) => false,
    };
    if is_old && session.may_live() {
        session.presence.interrupt(HostEvent::NewBoot, at);
    }
}

fn count_late(state: &mut State, key: SessionKey, verified: bool) {
    bump(&mut state.header.counters.late);
    if let Some(mut session) = state.take(key) {
        session.counts.count(verified);
        session.counts.count_late();
        state.put(session);
    }
}

fn bump(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

/// Requests what the coordinator has to observe about a record's processes.
pub(crate) fn ask_about(state: &State, session: &Session, fx: &mut Effects) {
    let Some(owner) = session.owner.as_ref().filter(|_| state.is_local(session)) else { return };
    let process = owner.id.process;
    if let Some(process) = session.recovery.claimer() {
        fx.ask(Effect::WatchProcess { process });
    }
    let config_dir = session.config_dir.clone();
    match *session.presence {
        Presence::Alive => {
            fx.ask(Effect::WatchProcess { process });
            fx.ask(Effect::ReadRegistry { process, config_dir, after_death: false });
            if session.kind != Some(Kind::Headless) {
                pane::ask_for_look(session, fx);
            }
        }
        Presence::Dying { .. } => {
            fx.ask(Effect::ReadRegistry { process, config_dir, after_death: true });
        }
        // Its end was reported, and its process may still be there: a recovery waits for the process to end.
        Presence::Ended { .. }
        | Presence::Interrupted { .. }
        | Presence::Crashed { .. }
        | Presence::Gone { .. } => {
            let is_seen_dead = matches!(owner.seen_alive, Some((false, _)));
            if session.recovery.pending.is_some() && !is_seen_dead {
                fx.ask(Effect::WatchProcess { process });
            }
            return;
        }
    }
    if let Some(pane) = session.pane().filter(|pane| pane.server.start_time != 0) {
        fx.ask(Effect::WatchProcess { process: pane.server });
    }
}

/// Requests to look again at a client whose launch could not be read when it was seen first: without the launch, its
/// session could not be brought back after a crash (S0-25d).
fn ask_for_launch(state: &State, session: &Session, fx: &mut Effects) {
    let Some(owner) = &*session.owner else { return };
    let is_interactive = session.kind != Some(Kind::Headless);
    if is_interactive && session.launch.is_none() && session.may_live() && state.is_local(session) {
        fx.ask(Effect::WatchProcess { process: owner.id.process });
    }
}

/// Requests what the coordinator needs from a configuration directory: its lock and its registry.
pub(crate) fn ask_for_dir(state: &State, config_dir: &str, fx: &mut Effects) {
    let is_known = state.header.config_dirs.contains_key(config_dir);
    if !config_dir.is_empty() && !is_known && !state.has_all_dirs() {
        fx.ask(Effect::WatchRegistry { config_dir: config_dir.into() });
        fx.ask(Effect::LockConfigDir { config_dir: config_dir.into() });
    }
}

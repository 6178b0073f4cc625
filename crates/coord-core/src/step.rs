//! Decides the order in which the topics handle one event.
//!
//! This module is above all topics. A topic may call another one below it; none calls back.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use coord_model::{
    Awake, Effect, Event, EventId, Kind, Moment, NoticeKind, Now, ProcessRef, ProcessSeen,
    SessionKey, SessionState, Settings, Started,
};

use crate::arrival::{self, ask_about, ask_for_dir};
use crate::effects::Effects;
use crate::pane;
use crate::records::clocks;
use crate::records::{Hold, Presence, Session, State};
use crate::registry;
use crate::request;
use crate::status::Answer;

/// Applies one event to the state and returns the effects to perform.
pub fn step(state: &mut State, event: &Event, now: Now) -> Effects {
    let fx = if *event == Event::Tick {
        looks(state, now)
    } else if changes_state(event) {
        on_event(state, event, now)
    } else {
        Effects::default()
    };
    state.derive_deadlines();
    fx
}

fn on_event(state: &mut State, event: &Event, now: Now) -> Effects {
    let mut fx = Effects::default();
    let named = if let Event::Hook(hook) = event { hook.session_id.as_str() } else { "" };
    let had_it = state.keys_of_id(named).to_vec();
    let mut touched = take_in(state, event, now, &mut fx);
    let changed = state.drop_unverified(&touched, state.moment(now), &mut fx);
    touched.extend(changed);
    if let Event::Hook(event) = event {
        let passed_on = state.pass_on(&touched, event.is_proved());
        touched.extend(passed_on);
    }
    state.note_stale(&touched);
    let mut due = on_due(state, now, &mut fx);
    // A hook of the resumed client may change another record than the one that is being resumed.
    let under_way = state.header.machine.under_way.clone();
    due.extend(under_way.into_iter().filter(|key| !touched.contains(key)));
    let at = state.moment(now);
    state.recover(&touched, at, &mut fx);
    state.recover(&due, at, &mut fx);
    for key in touched.iter().chain(&due) {
        state.keep_stop(*key, at, &mut fx);
        state.request_end_notices(*key, at, &mut fx);
    }
    for key in state.keys_of_id(named).iter().filter(|key| !had_it.contains(key)) {
        state.request_missed_end_notices(*key, at, &mut fx);
    }
    fx.effects.extend(looks(state, now).effects);
    refresh(state, &due, event, at, &mut fx);
    // People read the time at which something happened, not the time at which the coordinator received it.
    let hook_ms = if let Event::Hook(hook) = event { hook.wall_ms } else { now.wall_ms };
    let wall_ms = hook_ms.min(now.wall_ms);
    refresh(state, &touched, event, Moment { wall_ms, ..at }, &mut fx);
    state.tell_due(at, &mut fx);
    state.header.last = Some(now);
    fx
}

/// Whether an event changes the state, or is only a note for people.
fn changes_state(event: &Event) -> bool {
    let is_void = matches!(event, Event::Hook(hook) if hook.is_void());
    !is_void && !matches!(event, Event::JournalReopened { .. } | Event::Decision(_))
}

/// Applies what an event reports. Returns the records that it changed.
fn take_in(state: &mut State, event: &Event, now: Now, fx: &mut Effects) -> Vec<SessionKey> {
    let at = state.moment(now);
    match event {
        Event::Started(started) => on_started(state, started, now, fx),
        Event::ConfigChanged { settings, .. } => on_config_changed(state, settings, at),
        Event::Gap { ns } => {
            state.header.unseen_since_ms = state.header.last.map_or(0, |last| last.wall_ms);
            note_clock(state, now);
            settle(state, *ns, "settling after a gap or a clock step", now);
            state.judge_quiet_again(at);
            state.keys()
        }
        Event::Hook(hook) => arrival::on_hook(state, hook, now, fx),
        Event::Folded { id, session_id, .. } => on_folded(state, *id, session_id, now),
        Event::SpoolFolded { .. } | Event::Malformed { .. } => {
            count(state, event);
            Vec::new()
        }
        Event::ProcessSeen(seen) if seen.alive => on_seen(state, seen, now, fx),
        Event::ProcessSeen(seen) => on_exit(state, seen.process, false, now, fx),
        Event::ProcessExited { process } => on_exit(state, *process, true, now, fx),
        Event::RegistryRead { process, found, after_death, domain } => {
            let owner = state.owner_in(domain.as_ref(), *process);
            let touched = owner.map_or_else(Vec::new, |owner| {
                state.on_registry(owner, found, *after_death, at, fx)
            });
            judged(state, touched, *after_death, at, fx)
        }
        Event::PaneSeen { process, found, looked_ns, after_death } => {
            let looked = state.moment(Now { mono_ns: now.mono_ns.min(*looked_ns), ..now });
            let key = state.on_pane(*process, found, looked, *after_death, at, fx);
            judged(state, key.into_iter().collect(), *after_death, at, fx)
        }
        Event::TranscriptRead { process, interrupted_ms, has_signature, failure } => {
            let failure = failure.as_ref();
            one(state.on_transcript(*process, *interrupted_ms, *has_signature, failure, at, fx))
        }
        Event::Shutdown { under_way } => state.on_shutdown(*under_way, at, fx),
        Event::ConfigDirLock { config_dir, held } => on_lock(state, config_dir, *held),
        Event::TaskRead { dir, found } => state.on_task(dir, found, at, fx),
        Event::WorkSeen { session, work, .. } => one(state.on_work(*session, work, at)),
        Event::Message { event, .. } => one(state.on_queue(event, at, fx)),
        Event::NoticeSent { .. }
        | Event::PresenceSeen { .. }
        | Event::LocalClock { .. }
        | Event::Fleet(_) => of_notices(state, event, at, fx),
        Event::Operator { command, .. } => state.on_command(command, at, fx),
        Event::ReplySeen { session, request, decided, .. } => {
            one(state.on_decided(*session, *request, *decided, fx))
        }
        Event::RequestHookEnded { session, request, .. } => {
            one(state.on_request_hook_ended(*session, *request))
        }
        Event::Proved { intent, proof, .. } => {
            let key = state.on_rest_look(*intent, proof, at, fx);
            one(key.or_else(|| state.on_proved(*intent, proof, at, fx)))
        }
        Event::Acted { intent, outcome, .. } => {
            let key = state.on_acted(*intent, outcome, at, fx);
            one(key.or_else(|| state.on_woken(*intent, outcome, at, fx)))
        }
        Event::ResumeClaimed { session, nonce, process, .. } => {
            one(state.on_resume_claimed(*session, nonce, *process, at, fx))
        }
        Event::ResumeFailed { session, why, .. } => {
            one(state.on_resume_failed(*session, why, at, fx))
        }
        Event::Due | Event::Tick | Event::JournalReopened { .. } | Event::Decision(_) => Vec::new(),
    }
}

/// Takes in what notices depend on, which changes no session.
fn of_notices(state: &mut State, event: &Event, at: Moment, fx: &mut Effects) -> Vec<SessionKey> {
    if let Event::Fleet(event) = event {
        state.on_fleet(event, at);
    } else {
        state.on_notice_event(event, at, fx);
    }
    Vec::new()
}

/// Counts what names no session.
fn count(state: &mut State, event: &Event) {
    let counters = &mut state.header.counters;
    if let Event::SpoolFolded { events } = event {
        counters.folded = counters.folded.saturating_add(*events);
    } else {
        counters.malformed = counters.malformed.saturating_add(1);
    }
}

fn on_config_changed(state: &mut State, settings: &Settings, at: Moment) -> Vec<SessionKey> {
    state.header.settings = settings.clone();
    state.follow_channels(at);
    state.judge_quiet_again(at);
    state.keys()
}

/// A lock on a configuration directory was acquired or lost. Returns the sessions that may wait for it.
fn on_lock(state: &mut State, config_dir: &str, is_held: bool) -> Vec<SessionKey> {
    state.header.config_dirs.insert(config_dir.into(), is_held);
    state.keys_of(|session| {
        let is_pending = session.recovery.pending.is_some();
        is_pending || session.quota.is_some() || session.stall.is_some()
    })
}

fn one(key: Option<SessionKey>) -> Vec<SessionKey> {
    key.into_iter().collect()
}

/// A death that was just judged may be part of a host event (H-10).
fn judged(
    state: &mut State,
    mut touched: Vec<SessionKey>,
    after_death: bool,
    at: Moment,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    if let Some(key) = touched.first().copied().filter(|_| after_death) {
        touched.extend(state.on_end(key, at, fx));
    }
    touched
}

fn on_started(state: &mut State, started: &Started, now: Now, fx: &mut Effects) -> Vec<SessionKey> {
    let Started { host, settings, .. } = started;
    let is_new_boot = state.header.host.as_ref().is_some_and(|before| before.boot != host.boot);
    let down_ns = state.header.last.map_or(0, |last| now.mono_ns.saturating_sub(last.mono_ns));
    let last = state.header.last.map_or(Awake::default(), |last| state.moment(last).awake);
    state.header.unseen_since_ms = state.header.last.map_or(0, |last| last.wall_ms);
    state.header.host = Some(host.clone());
    state.header.settings = settings.clone();
    // Locks belong to the process that acquired them.
    state.header.config_dirs.clear();
    if is_new_boot {
        state.header.paused_ns = 0;
        state.header.settling = None;
        state.header.clock_set_at = None;
        state.header.recent_ends.clear();
        state.header.dead_servers.clear();
        state.header.shutdown = None;
        let at = state.moment(now);
        state.each_stored(|stored| clocks::rebase(stored, last, at.awake));
        state.on_new_boot(host.boot_at_ms, at, fx);
        state.rebase_messages(at, fx);
        settle(state, 0, "settling after a start", now);
    } else {
        note_clock(state, now);
        settle(state, down_ns, "settling after a start", now);
        let at = state.moment(now);
        state.each_stored(|stored| clocks::set_back(stored, at.awake));
    }
    let [before, _] = state.header.started_at;
    let before = if is_new_boot { Awake::default() } else { before };
    state.header.started_at = [state.moment(now).awake, before];
    state.resume_notices(state.moment(now));
    state.end_request_hooks(down_ns / 1_000_000, state.moment(now));
    drop_old(state, now, fx);
    forget_looks(state, now);
    state.forget_work_looks();
    ask_anew(state, fx);
    state.write_stops_again(fx);
    state.request_failure_notices(state.moment(now), fx);
    state.keys()
}

/// Recoveries continue from the stored state. Looks that were in progress are requested again (G10).
fn forget_looks(state: &mut State, now: Now) {
    let at = state.moment(now);
    for key in state.keys() {
        if state.get(key).is_none_or(|session| session.recovery.pending.is_none()) {
            continue;
        }
        if let Some(mut session) = state.take(key) {
            session.recovery.forget_looks(at);
            state.put(session);
        }
    }
}

/// Requests what a new coordinator has to observe for all records. A set holds what was requested already,
/// because a search through the list would take quadratic time.
fn ask_anew(state: &State, fx: &mut Effects) {
    let mut asked: BTreeSet<Effect> = fx.effects.iter().cloned().collect();
    let mut config_dirs = BTreeSet::new();
    let mut of_dirs = Effects::default();
    for session in state.sessions() {
        let mut of_session = Effects::default();
        ask_about(state, session, &mut of_session);
        if config_dirs.insert(session.config_dir.as_str()) {
            ask_for_dir(state, &session.config_dir, &mut of_dirs);
        }
        for effect in of_session.effects {
            if asked.insert(effect.clone()) {
                fx.effects.push(effect);
            }
        }
    }
    fx.effects.append(&mut of_dirs.effects);
}

impl State {
    /// Wall time, in milliseconds since 1970, until which a process lived at least, if nobody saw it end. 0 if
    /// unknown.
    fn last_seen_ms(&self, process: ProcessRef) -> u64 {
        let owner = self.session_of(process).and_then(|session| session.owner.as_ref());
        let Some((true, seen)) = owner.and_then(|owner| owner.seen_alive) else { return 0 };
        if self.header.clock_set_at.is_some_and(|set| seen.awake <= set) {
            return 0;
        }
        let [this, before] = self.header.started_at;
        // The previous coordinator watched the process for as long as that coordinator ran.
        let is_of_last = before <= seen.awake && seen.awake < this;
        if is_of_last { self.header.unseen_since_ms } else { seen.wall_ms }
    }
}

/// Notes whether the wall clock was set, or the machine slept, since the last record (H-32).
fn note_clock(state: &mut State, now: Now) {
    const SET_MS: u64 = 2_000;
    let Some(last) = state.header.last else { return };
    let passed_ms = now.mono_ns.saturating_sub(last.mono_ns) / 1_000_000;
    if now.wall_ms.abs_diff(last.wall_ms.saturating_add(passed_ms)) <= SET_MS {
        return;
    }
    state.header.clock_set_at = Some(state.moment(now).awake);
    for key in state.keys() {
        if state.get(key).is_none_or(Session::may_live) {
            continue;
        }
        if let Some(mut session) = state.take(key) {
            session.owner.forget_lifetime();
            state.put(session);
        }
    }
}

/// The event loop did not run for `gap_ns`. That time does not count, and for a while nothing is concluded from
/// silence (H-32).
fn settle(state: &mut State, gap_ns: u64, reason: &str, now: Now) {
    state.header.paused_ns = state.header.paused_ns.saturating_add(gap_ns);
    let at = state.moment(now);
    state.header.settling = Some(Hold::new(reason, at, state.header.settings.settle_ms));
    state.forget_stalls();
    state.rearm_quotas(at);
}

/// S0-31: drops the bookkeeping of a session that ended for good, once its retention period has passed.
fn drop_old(state: &mut State, now: Now, fx: &mut Effects) {
    let at = state.moment(now);
    let kept_ms = state.header.settings.stopped_kept_ms;
    for key in state.keys() {
        let is_old = state.get(key).is_some_and(|session| match *session.presence {
            Presence::Ended { at, .. }
            | Presence::Interrupted { at, .. }
            | Presence::Crashed { at }
            | Presence::Gone { at } => kept_ms < now.wall_ms.saturating_sub(at.wall_ms),
            Presence::Alive | Presence::Dying { .. } => false,
        });
        if is_old {
            state.fail_messages_of(key, "the session ended long ago and was not resumed", at, fx);
            state.drop_record(key, "its session ended long ago", fx);
        }
    }
}

fn on_folded(state: &mut State, id: EventId, session_id: &str, now: Now) -> Vec<SessionKey> {
    if !state.seen.insert(id, now.wall_ms) {
        return Vec::new();
    }
    let counters = &mut state.header.counters;
    counters.folded = counters.folded.saturating_add(1);
    let at = state.moment(now);
    let key = state.keys_of_id(session_id).last().copied();
    if let Some(mut session) = key.and_then(|key| state.take(key)) {
        session.counts.count_folded();
        session.sign = at.awake;
        state.put(session);
    }
    key.into_iter().collect()
}

fn on_seen(state: &mut State, seen: &ProcessSeen, now: Now, fx: &mut Effects) -> Vec<SessionKey> {
    let at = state.moment(now);
    let (launch, forked_from) = (seen.launch.as_deref(), seen.forked_from.as_deref());
    let key = state.local_owner(seen.process).and_then(|owner| state.key_of_owner(&owner));
    if let Some(mut session) = key.and_then(|key| state.take(key)) {
        session.owner.note_alive(seen.is_stopped, at);
        session.kind = session.kind.or(seen.kind);
        if launch.is_some() {
            session.launch = launch.cloned();
        }
        // H-45: a client resumes with the configuration directory of its own environment.
        if let Some(dir) = launch.and_then(|launch| launch.config_dir.as_ref()) {
            session.config_dir.clone_from(dir);
            ask_for_dir(state, dir, fx);
        }
        if session.forked_from.is_none() && forked_from != Some(&session.session_id) {
            session.forked_from = forked_from.map(Into::into);
        }
        state.put(session);
    }
    key.into_iter().collect()
}

/// A process is gone. It ended just now (`is_fresh`), or at some time since it was last watched.
fn on_exit(
    state: &mut State,
    process: ProcessRef,
    is_fresh: bool,
    now: Now,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let at = state.moment(now);
    // After a gap in the event loop, nobody knows how long ago a watched process ended.
    let is_behind_gap = state.header.settling.as_ref().is_some_and(|hold| hold.since == at);
    let is_known = is_fresh && !is_behind_gap;
    let seen_ms = if is_known { now.wall_ms } else { state.header.unseen_since_ms };
    let lived_until_ms = if is_known { now.wall_ms } else { state.last_seen_ms(process) };
    let mut touched = state.on_server_death(process, seen_ms, at, fx);
    touched.extend(state.on_claimer_exit(process, at, fx));
    if let Some(key) = state.on_death(process, is_known, lived_until_ms, at, fx) {
        touched.push(key);
        touched.extend(state.mark_two_owners(key));
        touched.extend(state.on_end(key, at, fx));
    }
    touched
}

/// Updates the records that change by time alone.
fn on_due(state: &mut State, now: Now, fx: &mut Effects) -> Vec<SessionKey> {
    let at = state.moment(now);
    state.messages_due(at, fx);
    let mut due = state.due_changes(at.awake);
    let mut marked = Vec::new();
    let judged_within_ms = state.header.settings.death_judged_within_ms;
    for key in &due {
        let Some(session) = state.get(*key) else { continue };
        let is_late = match *session.presence {
            Presence::Dying { since, .. } => since.awake.plus_ms(judged_within_ms) <= at.awake,
            Presence::Alive
            | Presence::Ended { .. }
            | Presence::Interrupted { .. }
            | Presence::Crashed { .. }
            | Presence::Gone { .. } => false,
        };
        if is_late {
            state.judge_late(*key, at, fx);
        }
        if let Some(mut session) = state.take(*key) {
            pane::forget_stale(&mut session, at);
            request::end_hidden_waits(&mut session, at, fx);
            registry::settle_turn(&mut session, at, fx);
            if state.removed_elsewhere(&session).is_some_and(|due| due <= at.awake) {
                registry::give_up(&mut session, at, fx);
            }
            state.probe_quota(&mut session, at, fx);
            state.look_at_rest(&mut session, at, fx);
            state.tell_of_holds(&mut session, at, fx);
            state.put(session);
            marked.extend(state.mark_two_owners(*key));
        }
    }
    due.extend(marked);
    due
}

/// Requests the looks that are due.
fn looks(state: &mut State, now: Now) -> Effects {
    let mut fx = Effects::default();
    let at = state.moment(now);
    for key in state.due_looks(at.awake) {
        state.look(key, at, &mut fx);
    }
    fx
}

/// G9: leaving a session alone is a decision, whether its state is unknown or it is owned elsewhere.
fn note_deferral(session: &Session, answer: &Answer, fx: &mut Effects) {
    let is_there = matches!(*session.presence, Presence::Alive);
    let is_left_alone = matches!(
        answer.state,
        SessionState::Unknown | SessionState::Elsewhere | SessionState::Foreign
    );
    let is_new = session.shown.state != answer.state || session.shown.because.is_empty();
    let before = session.contested.map(|(source, _)| source);
    let is_newly_contested = answer.against.is_some() && before != answer.against;
    if (is_left_alone && is_new && is_there) || is_newly_contested {
        fx.decide(session, answer.rule, &answer.because, "left alone: coord does not act on it");
    }
}

/// Derives the shown state and the needs of the records that were changed.
fn refresh(state: &mut State, touched: &[SessionKey], event: &Event, at: Moment, fx: &mut Effects) {
    state.note_stale(touched);
    for key in touched {
        state.update_name(*key);
        state.count_hidden_waits(*key, event, at);
        show(state, *key, at, fx);
        state.follow_work(*key, fx);
        state.update_needs(*key, event, at, fx);
    }
}

/// Derives the shown state of one record.
fn show(state: &mut State, key: SessionKey, at: Moment, fx: &mut Effects) {
    let Some(session) = state.get(key) else { return };
    let answer = state.state_of(session, at.awake);
    let is_same = session.shown.state == answer.state
        && session.shown.because == answer.because
        && session.contested.map(|(source, _)| source) == answer.against;
    if is_same {
        return;
    }
    let Some(mut session) = state.take(key) else { return };
    note_deferral(&session, &answer, fx);
    if session.shown.state != answer.state {
        let is_run = session.kind == Some(Kind::Headless);
        if is_run && answer.state == SessionState::Stopped {
            state.tell_news(&mut session, NoticeKind::Finished, at);
        }
    }
    session.shown.show(answer.state, answer.rule, answer.because, at);
    session.contested.contest(answer.against, at);
    state.put(session);
}

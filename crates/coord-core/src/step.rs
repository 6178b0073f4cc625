//! `step`: calls the topics in a fixed order; nothing else calls from topic to topic.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::arrival::{self, ask_about, ask_for_dir};
use crate::effect::{Effect, Effects};
use crate::event::{Event, EventId, Host, Kind, ProcessRef};
use crate::hold::Hold;
use crate::pane;
use crate::registry;
use crate::session::{Presence, Session, SessionKey};
use crate::settings::Settings;
use crate::state::State;
use crate::status::{Answer, Word};
use crate::time::{Moment, Now};

/// Takes one event in.
pub fn step(state: &mut State, event: &Event, now: Now) -> Effects {
    let mut fx = Effects::default();
    // People read the time at which a thing happened, not the one at which it was heard.
    let mut at = Moment { wall_ms: now.wall_ms, ..Moment::default() };
    let touched = match event {
        Event::Started(host, settings) => on_started(state, host, settings, now, &mut fx),
        Event::Gap { ns } => {
            settle(state, *ns, "settling after a gap or a clock step", now);
            state.keys()
        }
        Event::Hook(hook) => {
            at.wall_ms = hook.wall_ms.min(now.wall_ms);
            arrival::on_hook(state, hook, now, &mut fx)
        }
        Event::Folded { id, session_id } => on_folded(state, *id, session_id, now),
        Event::SpoolFolded { events } => {
            let counters = &mut state.header.counters;
            counters.folded = counters.folded.saturating_add(*events);
            Vec::new()
        }
        Event::Malformed => {
            let counters = &mut state.header.counters;
            counters.malformed = counters.malformed.saturating_add(1);
            Vec::new()
        }
        Event::ProcessSeen { process, alive: true, kind, is_stopped, forked_from } => {
            on_seen(state, *process, (*kind, *is_stopped, forked_from.as_deref()), now)
        }
        Event::ProcessSeen { process, alive: false, .. } => {
            on_exit(state, *process, false, now, &mut fx)
        }
        Event::ProcessExited { process } => on_exit(state, *process, true, now, &mut fx),
        Event::RegistryRead { process, found, after_death, domain } => {
            let at = state.moment(now);
            let owner = state.owner_in(domain.as_ref(), *process);
            let mut touched = owner.map_or_else(Vec::new, |owner| {
                state.on_registry(owner, found, *after_death, at, &mut fx)
            });
            if let Some(key) = touched.first().copied().filter(|_| *after_death) {
                touched.extend(state.on_end(key, at, &mut fx));
            }
            touched
        }
        Event::PaneSeen { process, found, looked_ns, after_death } => {
            let at = state.moment(now);
            let looked = state.moment(Now { mono_ns: now.mono_ns.min(*looked_ns), ..now });
            let found = (found, looked);
            let key = state.on_pane(*process, found, *after_death, at, &mut fx);
            let mut touched: Vec<SessionKey> = key.into_iter().collect();
            if let Some(key) = key.filter(|_| *after_death) {
                touched.extend(state.on_end(key, at, &mut fx));
            }
            touched
        }
        Event::TranscriptRead { process, interrupted_ms, has_signature } => {
            let (at, read) = (state.moment(now), (*interrupted_ms, *has_signature));
            state.on_transcript(*process, read, at, &mut fx).into_iter().collect()
        }
        Event::ConfigDirLock { config_dir, held } => {
            state.header.config_dirs.insert(config_dir.clone(), *held);
            Vec::new()
        }
        Event::Due => Vec::new(),
        Event::Tick => return looks(state, now),
    };
    on_due(state, now, &mut fx);
    fx.effects.extend(looks(state, now).effects);
    at.awake = state.moment(now).awake;
    refresh(state, &touched, at, &mut fx);
    state.header.last = Some(now);
    fx
}

fn on_started(
    state: &mut State,
    host: &Host,
    settings: &Settings,
    now: Now,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let is_new_boot = state.header.host.as_ref().is_some_and(|before| before.boot != host.boot);
    let down_ns = state.header.last.map_or(0, |last| now.mono_ns.saturating_sub(last.mono_ns));
    state.header.unseen_since_ms = state.header.last.map_or(0, |last| last.wall_ms);
    state.header.host = Some(host.clone());
    state.header.settings = settings.clone();
    // Locks belong to the process that took them.
    state.header.config_dirs.clear();
    if is_new_boot {
        state.header.paused_ns = 0;
        state.header.settling = None;
        state.header.recent_ends.clear();
        state.header.dead_servers.clear();
        let at = state.moment(now);
        state.on_new_boot(host.boot_at_ms, at, fx);
        settle(state, 0, "settling after a start", now);
    } else {
        settle(state, down_ns, "settling after a start", now);
    }
    drop_old(state, now);
    ask_anew(state, fx);
    state.keys()
}

/// What a new coordinator wants to know of all records. A set tells what was asked already: looking
/// through the list would cost the square of its length.
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

/// The loop did not turn for `gap_ns`: that time does not count, and nothing is concluded from
/// silence for a while (H-32).
fn settle(state: &mut State, gap_ns: u64, reason: &str, now: Now) {
    state.header.paused_ns = state.header.paused_ns.saturating_add(gap_ns);
    let at = state.moment(now);
    state.header.settling = Some(Hold::new(reason, at, state.header.settings.settle_ms));
}

/// S0-31: bookkeeping is dropped when a session ended for good and its retention is over.
fn drop_old(state: &mut State, now: Now) {
    let kept_ms = state.header.settings.stopped_kept_ms;
    for key in state.keys() {
        let is_old = state.get(key).is_some_and(|session| match session.presence {
            Presence::Ended { at, .. }
            | Presence::Interrupted { at, .. }
            | Presence::Crashed { at }
            | Presence::Gone { at } => kept_ms < now.wall_ms.saturating_sub(at.wall_ms),
            Presence::Alive | Presence::Dying { .. } => false,
        });
        if is_old {
            state.remove(key);
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
        session.counts.folded = session.counts.folded.saturating_add(1);
        session.sign = at.awake;
        state.put(session);
    }
    key.into_iter().collect()
}

fn on_seen(
    state: &mut State,
    process: ProcessRef,
    (kind, is_stopped, forked_from): (Option<Kind>, bool, Option<&str>),
    now: Now,
) -> Vec<SessionKey> {
    let at = state.moment(now);
    let key = state.local_owner(process).and_then(|owner| state.key_of_owner(&owner));
    if let Some(mut session) = key.and_then(|key| state.take(key)) {
        if let Some(owner) = &mut session.owner {
            owner.seen_alive = Some((true, at));
            owner.is_stopped = is_stopped;
        }
        session.kind = session.kind.or(kind);
        if session.forked_from.is_none() && forked_from != Some(&session.session_id) {
            session.forked_from = forked_from.map(Into::into);
        }
        state.put(session);
    }
    key.into_iter().collect()
}

/// A process is gone: just now (`is_fresh`), or at any time since somebody watched.
fn on_exit(
    state: &mut State,
    process: ProcessRef,
    is_fresh: bool,
    now: Now,
    fx: &mut Effects,
) -> Vec<SessionKey> {
    let at = state.moment(now);
    let seen_ms = if is_fresh { now.wall_ms } else { state.header.unseen_since_ms };
    let mut touched = state.on_server_death(process, seen_ms, at, fx);
    if let Some(key) = state.on_death(process, is_fresh, at, fx) {
        touched.push(key);
        touched.extend(state.mark_two_owners(key));
        touched.extend(state.on_end(key, at, fx));
    }
    touched
}

/// Records that change by time alone.
fn on_due(state: &mut State, now: Now, fx: &mut Effects) {
    let at = state.moment(now);
    let mut due = state.due_changes(at.awake);
    let mut marked = Vec::new();
    let judged_within_ms = state.header.settings.death_judged_within_ms;
    for key in &due {
        let Some(session) = state.get(*key) else { continue };
        let is_late = match session.presence {
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
            registry::settle_turn(&mut session, at, fx);
            if state.removed_elsewhere(&session).is_some_and(|due| due <= at.awake) {
                registry::give_up(&mut session, at, fx);
            }
            state.put(session);
            marked.extend(state.mark_two_owners(*key));
        }
    }
    due.extend(marked);
    refresh(state, &due, at, fx);
}

/// The looks whose time has come.
fn looks(state: &mut State, now: Now) -> Effects {
    let mut fx = Effects::default();
    let at = state.moment(now);
    for key in state.due_looks(at.awake) {
        state.look(key, at, &mut fx);
    }
    fx
}

/// G9: that nobody knows, or whose session it is, is a decision to leave it alone.
fn note_deferral(session: &Session, answer: &Answer, fx: &mut Effects) {
    let is_there = matches!(session.presence, Presence::Alive);
    let is_left_alone = matches!(answer.word, Word::Unknown | Word::Elsewhere | Word::Foreign);
    let is_new = session.word.word != answer.word || session.word.because.is_empty();
    let before = session.contested.map(|(source, _)| source);
    let is_newly_contested = answer.against.is_some() && before != answer.against;
    if (is_left_alone && is_new && is_there) || is_newly_contested {
        fx.decide(session, answer.rule, &answer.because, "left alone: nothing acts on it");
    }
}

/// Decides the word of the records that were touched.
fn refresh(state: &mut State, touched: &[SessionKey], at: Moment, fx: &mut Effects) {
    for key in touched {
        let Some(session) = state.get(*key) else { continue };
        let answer = state.word(session, at.awake);
        let is_same = session.word.word == answer.word
            && session.word.because == answer.because
            && session.contested.map(|(source, _)| source) == answer.against;
        if is_same && state.is_in_place(session) {
            continue;
        }
        let Some(mut session) = state.take(*key) else { continue };
        note_deferral(&session, &answer, fx);
        if session.word.word != answer.word {
            session.word.since = at;
        }
        session.word.word = answer.word;
        session.word.rule = answer.rule.into();
        session.word.because = answer.because;
        let before = session.contested.filter(|(source, _)| Some(*source) == answer.against);
        session.contested = before.or(answer.against.map(|source| (source, at)));
        state.put(session);
    }
}

//! What a person said by `coordctl`, and what holds by it: the marks, holds and wishes that the
//! coordinator was told and took.

use coord_model::SessionKey;
use std::collections::BTreeMap;

use coord_core::{Session, State};
use coord_model::MarkChange;
use coord_wire::api::{OperatorRequest, OperatorVerb};

use crate::act_checks::Case;
use crate::messages::checks::allowable;
use crate::serving::Serving;
use crate::simulation::{MS, SECOND, Simulation, Time, What};

/// An order that was given so short a time before an act may have met it on its way.
const ON_ITS_WAY: Time = 500 * MS;

/// Share of sessions that are given a name.
const NAMED: f64 = 0.3;

/// Share of unattended sessions whose subagents may ask.
const ASK_FOR_AGENTS: f64 = 0.9;

/// What was said of one session, or of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orders {
    pub(crate) unattended: Option<bool>,
    pub(crate) opted_in: Option<bool>,
    /// Its subagents may ask although their dialogs are hidden meanwhile (H-38).
    pub(crate) asks_for_agents: Option<bool>,
    /// Nothing acts on it from then until then.
    pub(crate) held: Option<(Time, Time)>,
    /// A person asked for it.
    pub(crate) is_asked: bool,
    /// Its name, its parent's id, and whom it takes messages from although it does not ask (H-04).
    pub(crate) name: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) accepts: Vec<String>,
    /// When its marks were changed last.
    marked_at: Time,
}

/// All that was said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    of: BTreeMap<SessionKey, Orders>,
    of_dir: BTreeMap<String, Orders>,
    all: Orders,
    /// Records whose sessions somebody has made up his mind about.
    considered: std::collections::BTreeSet<SessionKey>,
}

/// What holds for a session.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    pub(crate) unattended: bool,
    pub(crate) opted_in: bool,
    pub(crate) asks_for_agents: bool,
    pub(crate) is_held: bool,
    pub(crate) is_asked: bool,
    /// What it says was changed just now.
    pub(crate) is_fresh: bool,
    /// When its marks were changed last.
    pub(crate) marked_at: Time,
}

impl Said {
    /// What holds for a session that works there.
    pub(crate) fn holds(&self, key: SessionKey, cwd: &str, is_for_all: bool, now: Time) -> Holds {
        let (own, dir) = (Orders::default(), Orders::default());
        let own = self.of.get(&key).unwrap_or(&own);
        let dir = self.of_dir.get(cwd).unwrap_or(&dir);
        let lasts = |word: &Orders| {
            word.held.is_some_and(|(from, until)| from + ON_ITS_WAY < now && now < until)
        };
        Holds {
            unattended: own.unattended.or(dir.unattended).unwrap_or(false),
            opted_in: own.opted_in.or(dir.opted_in).unwrap_or(is_for_all),
            // A person allows it by name.
            asks_for_agents: own.asks_for_agents == Some(true),
            is_held: lasts(own) || lasts(&self.all),
            is_asked: own.is_asked,
            marked_at: own.marked_at.max(dir.marked_at),
            is_fresh: now < own.marked_at.max(dir.marked_at) + ON_ITS_WAY,
        }
    }

    /// What was said of one session.
    pub(crate) fn of(&self, key: SessionKey) -> Option<&Orders> {
        self.of.get(&key)
    }

    /// Whether a person asked for it.
    pub(crate) fn is_asked(&self, key: SessionKey) -> bool {
        self.of.get(&key).is_some_and(|one| one.is_asked)
    }

    /// Whether a hold on it may last.
    pub(crate) fn may_be_held(&self, key: SessionKey) -> bool {
        self.of.get(&key).is_some_and(|one| one.held.is_some()) || self.all.held.is_some()
    }

    /// What a store that lost something still knows.
    pub(crate) fn reread(&mut self, state: &State, now: Time) {
        let marks = |marks: &coord_core::Marks| Orders {
            unattended: marks.unattended,
            opted_in: marks.recover,
            asks_for_agents: marks.asks_for_agents,
            name: marks.name.clone(),
            parent: marks.parent.clone(),
            accepts: marks.accepts.clone(),
            marked_at: now,
            ..Orders::default()
        };
        // Since when they last is not known.
        let lasting = |one: &Option<coord_core::Hold>| {
            let one = one.as_ref()?;
            let is_for_ever = one.until.0 == u64::MAX;
            Some((Time::MAX / 2, if is_for_ever { Time::MAX } else { 0 }))
        };
        for session in state.sessions() {
            let held = lasting(&session.held);
            let is_asked = session.recovery.pending.as_ref().is_some_and(|one| one.by_hand);
            self.of.insert(session.key, Orders { held, is_asked, ..marks(&session.marks) });
        }
        let machine = &state.header().machine;
        let of_dir = machine.marks.iter().map(|(path, one)| (path.clone(), marks(one)));
        self.of_dir = of_dir.collect();
        self.all.held = lasting(&machine.held);
    }

    /// The holds of an older boot have ended, as far as they had an end.
    pub(crate) fn rebase(&mut self) {
        let all = self.of.values_mut().chain([&mut self.all]);
        for word in all {
            word.held = word.held.filter(|(_, until)| *until == Time::MAX);
            word.is_asked = false;
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn is_over(&mut self, key: SessionKey) {
        if let Some(word) = self.of.get_mut(&key) {
            word.is_asked = false;
        }
    }

    fn take(&mut self, order: &OperatorRequest, keys: &[SessionKey], now: Time) {
        let until = order.for_ms.map_or(Time::MAX, |ms| now + ms * MS);
        let change = |word: &mut Orders| match order.verb {
            OperatorVerb::Hold => word.held = Some((now, until)),
            OperatorVerb::Release => word.held = None,
            OperatorVerb::Attend => {
                word.unattended = order.marks.unattended.or(word.unattended);
                word.opted_in = order.marks.recover.or(word.opted_in);
                word.asks_for_agents = order.marks.asks_for_agents.or(word.asks_for_agents);
                word.name = order.marks.name.clone().or(word.name.take());
                word.parent = order.marks.parent.clone().or(word.parent.take());
                word.accepts.extend(order.marks.accepts.clone());
                word.marked_at = now;
            }
            OperatorVerb::Recover | OperatorVerb::Restore => word.is_asked = true,
            OperatorVerb::ResetFailed | OperatorVerb::Dismiss => (),
        };
        if let Some(path) = &order.directory {
            change(self.of_dir.entry(path.clone()).or_default());
        } else if order.all {
            change(&mut self.all);
        }
        for key in keys {
            change(self.of.entry(*key).or_default());
        }
    }
}

impl Simulation {
    /// Somebody makes up his mind about sessions that are new to him.
    pub(crate) fn consider(&mut self, serving: &Serving) {
        let state = serving.coordinator().state();
        let new: Vec<(SessionKey, String)> = state
            .sessions()
            .filter(|session| !self.said.considered.contains(&session.key))
            .map(|session| (session.key, session.session_id.clone()))
            .collect();
        let ids: Vec<String> = state.sessions().map(|one| one.session_id.clone()).collect();
        for (key, session_id) in new {
            self.said.considered.insert(key);
            // Whoever lets subagents ask does not watch the session.
            let unattended = self.random.chance(self.habits.unattended).then_some(true);
            let share = if unattended.is_some() { ASK_FOR_AGENTS } else { NAMED };
            let asks_for_agents = self.random.chance(share).then_some(true);
            let unattended = unattended.or(asks_for_agents);
            let recover = self.random.chance(self.habits.opted_in).then_some(true);
            // Who has a name may be sent messages: a wake hook waits there, watched or not (H-02).
            let name = self.random.chance(NAMED).then(|| format!("of-{session_id}"));
            let others: Vec<&String> = ids.iter().filter(|id| **id != session_id).collect();
            let is_child = self.random.chance(NAMED);
            let parent = self.random.pick(&others).filter(|_| is_child).map(|id| (*id).clone());
            let is_open = self.random.chance(NAMED);
            let other = self.random.pick(&others).map_or("any", |id| id.as_str());
            let accepts = self.random.pick(&allowable(other)).filter(|_| is_open).cloned();
            let marks = MarkChange {
                unattended,
                recover,
                asks_for_agents,
                name,
                parent,
                accepts: accepts.into_iter().collect(),
                ..MarkChange::default()
            };
            if marks == MarkChange::default() {
                continue;
            }
            let new = OperatorRequest::new(OperatorVerb::Attend);
            let after = self.random.below(20 * SECOND);
            let order = OperatorRequest { sessions: vec![session_id], marks, ..new };
            self.at(after, What::Orders(Box::new(order)));
        }
    }

    /// Some order at some time.
    pub(crate) fn gives_order(&mut self) {
        let ids: Vec<String> = self.serving.as_ref().map_or_else(Vec::new, |serving| {
            let sessions = serving.coordinator().state().sessions();
            sessions.map(|session| session.session_id.clone()).collect()
        });
        let Some(id) = self.random.pick(&ids).cloned() else { return };
        let (yes, share) = (self.random.coin(), self.random.below(10));
        let for_ms = self.random.coin().then(|| 1_000 * (1 + self.random.below(1_200)));
        let new = OperatorRequest::new;
        let of_one = |verb| OperatorRequest { sessions: vec![id.clone()], ..new(verb) };
        let order = match share {
            0 => OperatorRequest { for_ms, ..of_one(OperatorVerb::Hold) },
            1 => OperatorRequest { all: true, for_ms, ..new(OperatorVerb::Hold) },
            2 => of_one(OperatorVerb::Release),
            3 => OperatorRequest { all: true, ..new(OperatorVerb::Release) },
            // Flags that cost no draw keep the lives of older seeds.
            4 | 5 => {
                let n = (self.time / MS) % 4;
                let (restart, when_idle) = (n != 0, n == 1 || (n == 2 && yes));
                OperatorRequest { restart, when_idle, ..of_one(OperatorVerb::Recover) }
            }
            6 => OperatorRequest { sessions: ids.clone(), ..new(OperatorVerb::Restore) },
            7 if yes => OperatorRequest { all: true, ..new(OperatorVerb::ResetFailed) },
            7 => of_one(OperatorVerb::ResetFailed),
            8 => {
                let marks = MarkChange { unattended: Some(yes), ..MarkChange::default() };
                let path = if self.random.coin() { "/home/dev/one" } else { "/home/dev/two" };
                let directory = Some(path.to_owned());
                OperatorRequest { directory, marks, ..new(OperatorVerb::Attend) }
            }
            _ => {
                let marks = if for_ms.is_some() {
                    MarkChange { recover: Some(yes), ..MarkChange::default() }
                } else {
                    MarkChange { asks_for_agents: Some(yes), ..MarkChange::default() }
                };
                OperatorRequest { marks, ..of_one(OperatorVerb::Attend) }
            }
        };
        self.orders.push(order);
    }

    /// Everything that a person stopped is let go again.
    pub(crate) fn orders_all_free(&mut self) {
        let new = OperatorRequest::new;
        let all = |verb| OperatorRequest { all: true, ..new(verb) };
        self.orders.push(all(OperatorVerb::Release));
        self.orders.push(all(OperatorVerb::ResetFailed));
    }

    /// The orders of a turn.
    pub(crate) fn put_orders(&mut self, serving: &mut Serving) {
        for mut order in std::mem::take(&mut self.orders) {
            let state = serving.coordinator().state();
            let keys: Vec<SessionKey> =
                order.sessions.iter().flat_map(|id| keys_of(state, id)).collect();
            let meant = meant(state, &order.marks);
            let taken = serving.order(&order);
            // An error's words, without where it was made: that is another place in a replay.
            self.note(|| match &taken {
                Ok(()) => format!("  ORDER {order:?}"),
                Err(error) => format!("  ORDER {order:?}: {error}"),
            });
            if taken.is_err() {
                continue;
            }
            self.meter.orders += 1;
            order.marks = meant;
            self.said.take(&order, &keys, self.time);
            let state = serving.coordinator().state();
            for key in &keys {
                let pending = state.session(*key).and_then(|one| one.recovery.pending.as_ref());
                if pending.is_none_or(|pending| !pending.by_hand) {
                    self.said.is_over(*key);
                }
            }
            if order.verb == OperatorVerb::ResetFailed {
                self.lives.values_mut().for_each(|life| life.probes = 0);
                self.acts.reset(if order.all { None } else { Some(&keys) }, self.time);
            }
        }
    }

    /// What holds for the session of a case.
    pub(crate) fn holds(&self, case: &Case, cwd: &str) -> Holds {
        self.said.holds(case.key, cwd, self.habits.mode == "act", self.time)
    }
}

/// The marks with the ids of the sessions that they name at this moment, by any id or by the beginning of one.
fn meant(state: &State, marks: &MarkChange) -> MarkChange {
    let id_of = |word: &String| {
        let key = *keys_of(state, word).first()?;
        Some(state.session(key)?.session_id.clone())
    };
    let parent = marks.parent.as_ref().map(|word| id_of(word).unwrap_or_else(|| word.clone()));
    let accepts = marks.accepts.iter().flat_map(|word| [Some(word.clone()), id_of(word)]);
    MarkChange { parent, accepts: accepts.flatten().collect(), ..marks.clone() }
}

/// The records that an order means by an id: those of the id, else those whose id begins with it.
fn keys_of(state: &State, id: &str) -> Vec<SessionKey> {
    let exact: Vec<SessionKey> = state.sessions_with_id(id).map(|session| session.key).collect();
    if !exact.is_empty() {
        return exact;
    }
    let begins = |session: &&Session| session.session_id.starts_with(id);
    state.sessions().filter(begins).map(|session| session.key).collect()
}

//! What a forger must never come to, looked for at each forged event and after each turn of the loop.
//!
//! * H-44: an event that nobody verified, and that the registry does not confirm, changes no owner, no session
//!   of a process, no directory, transcript, pane, mode or mark; opens nothing as anything but unknown, unless
//!   a client lives behind it; begins no recovery, and counts for no limit.
//! * H-45: nothing that was claimed is in the command line of a resume.
//! * H-46: a forger owns nothing, unless it has a registry entry with all that a client's has, and then nothing
//!   that a client has; no message is handed to one.
//! * H-47: no sender's name becomes another one.

use std::path::Path;

use coord_core::{OwnerId, Session, Stage, State, step};
use coord_host::registry::parse;
use coord_model::{Event, ProcessRef, Registry, SessionKey, SessionState, Via};
use coord_wire::api::ResumeOrder;
use serde_json::{Value, json};

use crate::act_checks::violation;
use crate::checks::Violation;
use crate::forgers::{Forged, MODE, OTHER_MODE, PLANTED, is_forger};
use crate::serving::{CONFIG_DIR, Posted, Serving};
use crate::simulation::Simulation;

impl Simulation {
    /// Has the coordinator take forged events, each for itself.
    pub(crate) fn take_forged(&mut self, serving: &mut Serving) -> Result<(), Violation> {
        let nothing = Event::Malformed { via: Via::Socket, why: String::new() };
        for forged in std::mem::take(&mut self.forgers.posts) {
            // Whatever arrives has a recovery that is under way looked at again.
            let mut untouched = serving.coordinator().state().clone();
            step(&mut untouched, &nothing, self.now());
            let before = self.protected(&untouched, &forged);
            let is_quiet = !serving.coordinator().state().is_due(self.now());
            let posted = serving.take(forged.id, &forged.post);
            self.meter.forged += 1;
            self.note(|| format!("FORGED {}: {posted:?}", forged.what));
            if let Posted::Handed(text) = posted {
                return violation("H-46", format!("{}: handed {text:?}", forged.what));
            }
            // Time alone changes a state that is due.
            if is_quiet {
                let after = self.protected(serving.coordinator().state(), &forged);
                self.compare(&forged, &before, &after, serving.coordinator().state())?;
            }
        }
        Ok(())
    }

    /// Whether the registry's entry of this process names this session.
    pub(crate) fn registered_as(&self, process: ProcessRef, session: &str) -> bool {
        let machine = self.machine.get();
        let text = machine.registries.get(CONFIG_DIR).and_then(|one| one.entries.get(&process.pid));
        let found =
            text.and_then(|text| parse(text.as_bytes(), process.pid, Path::new(CONFIG_DIR)).ok());
        found.is_some_and(|found| match found.entry {
            Registry::Present(entry) => found.process == process && entry.session_id == session,
            Registry::Absent | Registry::Unreadable { .. } | Registry::Strange { .. } => false,
        })
    }

    /// Whether a living client has the conversation of this record in another one.
    fn goes_on_elsewhere(&self, key: SessionKey, state: &State) -> bool {
        let id = state.session(key).map_or("", |session| &session.session_id);
        state.sessions_with_id(id).filter(|other| other.key != key).any(|other| {
            let owner = other.owner.as_ref().map(|owner| owner.id.process);
            owner.is_some_and(|owner| self.is_client(owner))
        })
    }

    fn is_client(&self, process: ProcessRef) -> bool {
        let machine = self.machine.get();
        let found = machine.processes.get(&process.pid);
        machine.is_alive(process) && found.is_some_and(|one| one.is_client)
    }

    /// What a forged event must not change, before or after it.
    fn protected(&self, state: &State, forged: &Forged) -> Protected {
        let is_corroborated =
            forged.harness.is_some_and(|process| self.registered_as(process, &forged.session_id));
        let places = self.places.iter().filter_map(|place| place.client.as_ref());
        let names = places.map(|one| {
            let process = one.process;
            let name = state.session_in_whose_name(process);
            (one.process, name.map(|session| session.session_id.clone()))
        });
        let header = state.header();
        Protected {
            is_corroborated,
            names: names.collect(),
            sessions: state
                .sessions()
                .filter(|one| has_client(one))
                .map(|one| Facts::of(one, is_corroborated))
                .collect(),
            all: json!({
                "breaker": header.machine.breaker, "deaths": header.machine.deaths,
                "failures": header.machine.failures, "starts": header.machine.starts,
                "held": header.machine.held,
                "marks": header.machine.marks,
            }),
        }
    }

    fn compare(
        &self,
        forged: &Forged,
        before: &Protected,
        after: &Protected,
        state: &State,
    ) -> Result<(), Violation> {
        let (what, is_corroborated) = (&forged.what, before.is_corroborated);
        if before.all != after.all {
            return violation("H-44", format!("{what}: {} / {}", before.all, after.all));
        }
        let renamed = before.names.iter().zip(&after.names).find(|((_, before), (_, after))| {
            after.is_some() && after != before && !is_corroborated
        });
        if let Some(((process, before), (_, after))) = renamed {
            return violation("H-47", format!("{what}: {process:?} was {before:?}, is {after:?}"));
        }
        for facts in &before.sessions {
            let Some(now) = after.sessions.iter().find(|one| one.key == facts.key) else {
                if is_corroborated {
                    continue;
                }
                return violation("H-44", format!("{what}: record {} is gone", facts.key.0));
            };
            let is_passed_on = now.passed_on.is_some() && now.passed_on != facts.passed_on;
            if is_passed_on && !is_corroborated && !self.goes_on_elsewhere(facts.key, state) {
                let what = format!("{what}: record {} went on in no client", facts.key.0);
                return violation("H-44", what);
            }
            let changed = facts.changed(now);
            if !changed.is_empty() {
                let what = format!("{what}: record {}: {}", facts.key.0, changed.join(", "));
                return violation("H-44", what);
            }
        }
        let is_new = |session: &&Session| before.sessions.iter().all(|one| one.key != session.key);
        for session in state.sessions().filter(is_new) {
            let owner = session.owner.as_ref().map(|owner| owner.id.process);
            let is_known = owner.is_some_and(|owner| {
                self.is_client(owner) || self.forgers.registered.contains(&owner)
            });
            if !is_known && (owner.is_some() || session.shown.state != SessionState::Unknown) {
                let word = session.shown.state;
                return violation(
                    "H-44",
                    format!("{what}: opened a record as {word:?} of {owner:?}"),
                );
            }
        }
        Ok(())
    }

    /// What was claimed, also in the spool, is nowhere believed.
    pub(crate) fn check_forgers(&self, state: &State) -> Result<(), Violation> {
        if state.header().config_dirs.contains_key(PLANTED) {
            return violation("H-44", format!("{PLANTED} is watched"));
        }
        for session in state.sessions() {
            let id = &session.session_id;
            let is_planted = |text: &str| text.starts_with(PLANTED);
            let owner = session.owner.as_ref();
            let forger = owner.map(|owner| owner.id.process);
            let forger = forger.filter(|owner| is_forger(owner.pid));
            if is_planted(&session.config_dir) || is_planted(&session.transcript_path) {
                return violation("H-44", format!("{id}: its files are where a claim put them"));
            }
            if session.permission_mode.as_deref() == Some(OTHER_MODE) {
                return violation("H-44", format!("{id}: its mode is what a claim made of it"));
            }
            if session.tmux.as_ref().is_some_and(|pane| is_planted(&pane.socket)) {
                return violation("H-44", format!("{id}: its pane is what a claim made of it"));
            }
            let has_reported = owner.is_some_and(|owner| owner.has_reported);
            if is_planted(&session.cwd) && has_reported && forger.is_none() {
                return violation("H-44", format!("{id}: it works where a claim put it"));
            }
            if let Some(forger) = forger {
                if !self.forgers.registered.contains(&forger) {
                    return violation(
                        "H-46",
                        format!("{id}: {forger:?} owns it, which is no client"),
                    );
                }
                let anothers = state.sessions_with_id(id).find(|other| other.key != session.key);
                if anothers.is_some_and(|other| other.may_live() && other.owner.is_some()) {
                    return violation(
                        "H-46",
                        format!("{id}: {forger:?} claims it, and is no client"),
                    );
                }
                if session.recovery.pending.is_some() || has_reported {
                    return violation("H-46", format!("{id}: {forger:?} is taken for a client"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a client is known that has or had it. One that claims alone opened is as good as not there: a client
/// that lives may be named as its own (H-44).
fn has_client(session: &Session) -> bool {
    session.owner.is_some() || !session.former_owners.is_empty()
}

/// H-45: a resume has nothing that was claimed.
pub(crate) fn check_order(order: &ResumeOrder) -> Result<(), Violation> {
    let dirs = [Some(&order.config_dir_in_use), order.config_dir.as_ref(), Some(&order.cwd.path)];
    let mut words = order.argv.iter().chain(dirs.into_iter().flatten());
    match words.find(|word| word.contains(PLANTED) || word.contains(MODE)) {
        Some(word) => violation("H-45", format!("{}: resumed with {word}", order.session_id)),
        None => Ok(()),
    }
}

/// Whether this fact of a process is as it is before anything is known.
fn is_forgotten(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value == "Unknown"
}

/// What H-44 protects, as it is at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Protected {
    is_corroborated: bool,
    names: Vec<(ProcessRef, Option<String>)>,
    sessions: Vec<Facts>,
    all: Value,
}

/// The same of one record.
#[derive(Debug, Clone, PartialEq)]
struct Facts {
    key: SessionKey,
    owner: Option<OwnerId>,
    /// What the registry may confirm of a claim; left out where it does.
    identity: Option<Value>,
    believed: Value,
    /// The step of its recovery that is being taken.
    step: Option<Value>,
    /// The harness whose death a recovery is pending for, and the one whose conversation went on elsewhere.
    pending: Option<ProcessRef>,
    passed_on: Option<ProcessRef>,
}

impl Facts {
    fn of(session: &Session, is_corroborated: bool) -> Self {
        let owner: Option<&OwnerId> = session.owner.as_ref().map(|owner| &owner.id);
        let has_reported = session.owner.as_ref().map(|owner| owner.has_reported);
        let identity = json!({
            "owner": owner, "former_owners": session.former_owners, "session_id": session.session_id,
            "previous_ids": session.previous_ids, "two_owners": session.two_owners,
            "presence": session.presence, "config_dir": session.config_dir, "kind": session.kind,
        });
        let cwd = Some(&session.cwd).filter(|cwd| !cwd.is_empty() && *cwd != PLANTED);
        // What was heard may hold a recovery back, and never brings it on.
        let pending = session.recovery.pending.as_ref();
        // A look is no act.
        let acts = |stage: &Stage| !matches!(stage, Stage::Waiting { .. } | Stage::Proving { .. });
        let step = pending.filter(|one| acts(&one.stage));
        let step = step.map(|pending| json!(pending.stage));
        let pending = pending.map(|pending| pending.harness);
        Self {
            key: session.key,
            owner: owner.cloned(),
            identity: (!is_corroborated).then_some(identity),
            believed: json!({
                "has_reported": has_reported, "transcript_path": session.transcript_path,
                "tmux": session.tmux, "pane": session.pane, "old_pane": session.old_pane,
                "permission_mode": session.permission_mode, "marks": session.marks,
                "held": session.held, "launch": session.launch, "cwd": cwd,
            }),
            step,
            pending,
            passed_on: session.recovery.passed_on,
        }
    }

    /// The fields in which another state of the same record differs.
    fn changed(&self, after: &Self) -> Vec<String> {
        let pairs = [
            (self.identity.as_ref(), after.identity.as_ref()),
            (Some(&self.believed), Some(&after.believed)),
        ];
        // What was known of the process before is not known of the one that the registry names.
        let has_new_owner = self.identity.is_none() && self.owner != after.owner;
        let mut changed = Vec::new();
        for (before, after) in pairs {
            let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) else {
                continue;
            };
            let differing = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
            let differing = differing
                .filter(|(name, _)| !has_new_owner || !after.get(*name).is_some_and(is_forgotten));
            changed.extend(differing.map(|(name, value)| {
                format!("{name}: {value} / {}", after.get(name).unwrap_or(&Value::Null))
            }));
        }
        let is_closed = after.pending.is_none() && after.passed_on.is_some();
        if after.pending != self.pending && !is_closed {
            changed.push(format!("pending: {:?} / {:?}", self.pending, after.pending));
        }
        // That the client which a recovery started came up is also told by its registry entry.
        if after.step.is_some() && after.step != self.step && self.identity.is_some() {
            changed.push(format!("its recovery: {:?} / {:?}", self.step, after.step));
        }
        changed
    }
}

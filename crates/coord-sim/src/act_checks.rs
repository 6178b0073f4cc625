//! What an act of the coordinator must never be, looked at as the machine carries it out, against what is
//! true then and not against what the coordinator knows.
//!
//! * H-01, H-16, H-17, H-18, S0-25c: nothing is typed into a live client, into a line that is not empty, where
//!   the pane is synchronized, in a mode or covered, or where a key came since the death.
//! * H-08, G4: no signal to a client that is at work, waits, holds a draft or a program, was touched within
//!   two minutes, was not heard of, or that nobody wants back.
//! * H-13: nothing is started beside another living owner.
//! * G6: what its user ended is not started.
//! * H-06, H-13, H-19, R-20, S0-25g: nothing for a session that is held, attended, a wrapper's, unfit, foreign,
//!   or while observing; a key in the grace cancels.
//! * G5, H-11: three in a turn, ten in all, two at once, ten in ten minutes; none by itself after three deaths.
//! * G1: each is on disk before it is done; a nonce starts one client.

use std::collections::{BTreeMap, BTreeSet};

use coord_core::{Pending, Session, Stage, Way};
use coord_model::{Awake, ProcessRef, ProcessRef as Process, Prompt, SessionKey};
use coord_wire::api::ResumeOrder;

use crate::checks::{Violation, reopen_durable};
use crate::client::Truth;
use crate::host_events::SOCKET;
use crate::living::Life;
use crate::places::Parent;
use crate::resumes::Taker;
use crate::serving::{CONFIG_DIR, Serving};
use crate::simulation::{MINUTE, MS, SECOND, Simulation, Time};

/// A main thread that has not run for so long is hung (H-07).
const HUNG: Time = 60 * SECOND;
/// Nobody has pressed a key for so long, less the second that tmux rounds by (H-08).
const QUIET: Time = 119 * SECOND;
/// Between a prompt's Enter and the first sign of it that anybody can see.
const UNSEEN: Time = 400 * MS;

/// A recovery that an act belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) key: SessionKey,
    pub(crate) session_id: String,
    /// The ids that its conversation had before it was cleared.
    previous_ids: Vec<String>,
    pub(crate) harness: Process,
    /// The prompt that its shell showed first, as the coordinator knows it.
    prompt: Option<Prompt>,
}

impl Case {
    pub(crate) fn of(session: &Session, pending: &Pending) -> Self {
        Self {
            key: session.key,
            session_id: session.session_id.clone(),
            previous_ids: session.previous_ids.to_vec(),
            harness: pending.harness,
            prompt: pending.prompt,
        }
    }
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    /// By nonce.
    pub(crate) cases: BTreeMap<String, Case>,
    /// By the process that is to be ended.
    pub(crate) endings: BTreeMap<ProcessRef, Case>,
    /// Those of them of which a later coordinator cannot know whether its signal was sent.
    pub(crate) maybe_signalled: BTreeSet<ProcessRef>,
    /// When the newest grace of a recovery was seen to begin, and when it says that it did.
    pub(crate) graced: BTreeMap<SessionKey, (Time, Option<Awake>)>,
    /// The last step that was seen of a recovery.
    pub(crate) steps: BTreeMap<SessionKey, u64>,
    /// When lines were put for a record.
    placed: BTreeMap<SessionKey, Vec<Time>>,
    /// When lines were put lately.
    begun: Vec<Time>,
    nonces: BTreeSet<String>,
    clients: BTreeSet<String>,
    /// When a turn of a conversation began last.
    turns: BTreeMap<String, Time>,
    reset_at: BTreeMap<SessionKey, Time>,
    all_reset_at: Time,
    /// When clients crashed where all could see it.
    deaths: Vec<Time>,
    /// Nothing begins by itself from then on.
    broken_from: Option<Time>,
    /// Two living owners of a conversation, one of them started by us, since then.
    pub(crate) doubled: BTreeMap<String, Time>,
    /// How recoveries of a record ended, and when: a power cut may show an older one again.
    pub(crate) ended: BTreeSet<(SessionKey, u64, &'static str)>,
    /// What they waited for.
    pub(crate) waited: BTreeMap<SessionKey, String>,
}

impl Acts {
    /// A coordinator starts. The last step of a recovery may have been decided and not performed.
    pub(crate) fn coordinator_starts(&mut self) {
        let is_ending =
            |case: &Case| self.steps.get(&case.key).is_some_and(|step| step & 0xff == 3);
        let unknown = self.endings.iter().filter(|(_, case)| is_ending(case));
        self.maybe_signalled.extend(unknown.map(|(process, _)| *process));
    }

    pub(crate) fn turned(&mut self, session_id: &str, at: Time) {
        self.turns.insert(session_id.to_owned(), at);
    }

    pub(crate) fn reset(&mut self, keys: Option<&[SessionKey]>, at: Time) {
        match keys {
            Some(keys) => self.reset_at.extend(keys.iter().map(|key| (*key, at))),
            None => {
                self.all_reset_at = at;
                self.begun.clear();
                self.broken_from = None;
                self.deaths.clear();
            }
        }
    }

    /// A new boot: what was counted by its clock begins anew.
    pub(crate) fn rebase(&mut self) {
        self.deaths.clear();
        self.doubled.clear();
        self.graced.clear();
        self.begun.clear();
    }

    pub(crate) fn forget_closed(&mut self, now: Time, has_pending: impl Fn(&SessionKey) -> bool) {
        // An act that was decided on may still be on its way when its recovery is over.
        self.graced.retain(|key, (since, _)| has_pending(key) || now < *since + 15 * SECOND);
        self.steps.retain(|key, _| has_pending(key));
    }

    /// So many lines were put for a record since its limits began anew: in this turn, and in all.
    pub(crate) fn used(&self, case: &Case) -> (usize, usize) {
        let reset = self.reset_at.get(&case.key).copied().unwrap_or(0).max(self.all_reset_at);
        // `/clear` begins no turn: the last one may have been one of an id that it had before.
        let ids = case.previous_ids.iter().chain([&case.session_id]);
        let turn = ids.filter_map(|id| self.turns.get(id)).copied().max().unwrap_or(0);
        let placed = self.placed.get(&case.key).map_or(&[][..], Vec::as_slice);
        let since = |from: Time| placed.iter().filter(|at| from <= **at).count();
        (since(reset.max(turn)), since(reset))
    }

    fn note_placed(&mut self, key: SessionKey, is_begun: bool, at: Time) {
        self.placed.entry(key).or_default().push(at);
        if !is_begun {
            self.begins(at);
        }
    }

    fn begins(&mut self, at: Time) {
        // Counted from its decision, which an act follows within a few seconds.
        self.begun.retain(|begun| at + 5 * SECOND < begun + 10 * MINUTE);
        self.begun.push(at);
    }
}

pub(crate) fn violation(rule: &'static str, what: impl Into<String>) -> Result<(), Violation> {
    Err(Violation::new(rule, what.into()))
}

impl Simulation {
    fn life_of_case(&self, case: &Case) -> Option<&Life> {
        let process = case.harness;
        // It may be of an older boot, which took it along.
        let of_process = self.lives.iter().filter(|((_, of), _)| *of == process);
        of_process.map(|(_, life)| life).max_by_key(|life| life.started)
    }

    /// What every act needs.
    fn check_act(&self, case: &Case, life: &Life) -> Result<(), Violation> {
        let holds = self.holds(case, &life.cwd);
        let id = &case.session_id;
        let is_observing = self.habits.mode == "observe";
        if is_observing {
            return violation("S0-25g", format!("{id}: acted on while observing"));
        }
        if holds.is_held {
            return violation("H-06", format!("{id}: acted on while held"));
        }
        if self.habits.is_dir_locked {
            return violation("H-14", format!("{id}: acted on in another's directory"));
        }
        if !life.is_interactive {
            return violation("S0-25e", format!("{id}: a headless run was acted on"));
        }
        match life.parent {
            Parent::Wrapper => return violation("H-13", format!("{id}: it is a wrapper's")),
            Parent::Supervisor => return violation("R-20", format!("{id}: it is another's")),
            Parent::Shell | Parent::Inner | Parent::Tmux => (),
        }
        if life.is_unfit {
            return violation("H-19", format!("{id}: its command line is not understood"));
        }
        if !life.has_reported {
            return violation("H-14", format!("{id}: nothing was heard of it"));
        }
        let is_broken = self.acts.broken_from.is_some_and(|from| from < self.time);
        if is_broken && !holds.is_asked && !life.is_signalled {
            return violation("H-11", format!("{id}: acted on after three deaths"));
        }
        Ok(())
    }

    /// G1: the disk, as a power cut would leave it now, knows of the act.
    fn check_durable(
        &self,
        case: &Case,
        is_known: impl Fn(&Session) -> bool,
    ) -> Result<(), Violation> {
        let disk = self.machine.get().disk.clone();
        let engine = reopen_durable(&disk)?;
        let is_there = engine.state().session(case.key).is_some_and(is_known);
        if !is_there {
            return violation("G1", format!("{}: acted on before it was on disk", case.session_id));
        }
        Ok(())
    }

    /// A process is sent a signal.
    pub(crate) fn check_signal(&mut self, process: ProcessRef) -> Result<(), Violation> {
        let Some(life) = self.lives.get(&(self.boot(), process)) else {
            return violation("G4", format!("a signal to {process:?}, which is no client"));
        };
        if !life.truth.is_alive() {
            return Ok(());
        }
        let Some(case) = self.acts.endings.get(&process) else {
            return self.check_own_end(process, life);
        };
        self.check_act(case, life)?;
        let id = &case.session_id;
        let holds = self.holds(case, &life.cwd);
        let is_wanted = holds.unattended || (holds.opted_in && life.has_signature);
        if !(is_wanted || holds.is_asked || holds.is_fresh) {
            return violation("H-07", format!("{id}: a signal that nobody wanted"));
        }
        self.check_at_rest(process, life, holds.is_asked)?;
        if !(holds.unattended || holds.is_asked || holds.is_fresh || life.is_signalled) {
            self.check_told_before(process, case)?;
        }
        let is_known = |session: &Session| {
            let pending = session.recovery.pending.as_ref();
            pending.is_none_or(|one| one.ended_by_us || matches!(one.stage, Stage::Ending { .. }))
        };
        self.check_durable(case, is_known)?;
        // A second signal belongs to what the first began.
        if !life.is_signalled {
            self.acts.begins(self.time);
        }
        Ok(())
    }

    /// H-54: the person who watches it was told 10 s before, and pressed no key since.
    fn check_told_before(&self, process: ProcessRef, case: &Case) -> Result<(), Violation> {
        let id = &case.session_id;
        let Some((graced, _)) = self.acts.graced.get(&case.key) else {
            return violation("H-54", format!("{id}: ended, and its person was not told"));
        };
        if self.time + 200 * MS < graced + 10 * SECOND {
            return violation("H-54", format!("{id}: ended before its person could cancel it"));
        }
        let place = self
            .places
            .iter()
            .find(|one| one.client.as_ref().is_some_and(|client| client.process == process));
        if place.and_then(|one| one.key_at).is_some_and(|at| graced + 200 * MS < at) {
            return violation("H-54", format!("{id}: a key in the grace did not cancel it"));
        }
        Ok(())
    }

    /// H-08: whom it is sent to is at rest, and nobody is at it.
    fn check_at_rest(
        &self,
        process: ProcessRef,
        life: &Life,
        is_asked: bool,
    ) -> Result<(), Violation> {
        let id = &life.session_id;
        let place = self
            .places
            .iter()
            .find(|one| one.client.as_ref().is_some_and(|client| client.process == process));
        let Some(place) = place else { return Ok(()) };
        let is_unseen = self.time < life.since + UNSEEN;
        // What a hook told that never came is known to nobody: an error that a turn met, and, where there
        // is no registry and a person asks all the same, whatever it does.
        let is_error = matches!(life.truth, Truth::Quota | Truth::Authentication | Truth::Billing);
        let has_registry = self.rates.has_registry && self.has_registry_now();
        let is_asked_blindly = is_asked && !has_registry;
        // Behind an interrupt an error is rest, and so is one that looks like it, to a person who asks.
        let is_untold = (is_error && (is_asked || life.is_interrupted))
            || (!self.rates.are_hooks_sure && (is_error || is_asked_blindly));
        let is_hung = self.hung_for(process).is_some_and(|for_ns| HUNG <= for_ns);
        let is_at_rest = matches!(life.truth, Truth::Started | Truth::Idle) || is_hung;
        if !is_at_rest && !is_unseen && !is_untold {
            return violation("H-08", format!("{id}: a signal while it is {:?}", life.truth));
        }
        // A person who asks answers for what cannot be read.
        let is_readable = self.is_readable(&place.pane);
        let is_excused = is_asked && !is_readable;
        if place.has_draft && !is_excused && !is_hung {
            return violation("S0-25c", format!("{id}: a signal, and its draft is gone"));
        }
        if place.editor.is_some() {
            return violation("H-08", format!("{id}: a signal while its editor is open"));
        }
        if self.key_at.is_some_and(|at| self.time < at + QUIET) && !is_excused {
            return violation("H-08", format!("{id}: a signal, and somebody is at the terminal"));
        }
        Ok(())
    }

    fn hung_for(&self, process: ProcessRef) -> Option<Time> {
        let hung_at = self.hung_at(process)?;
        Some(self.machine.get().now.mono_ns.saturating_sub(hung_at))
    }

    fn is_readable(&self, pane: &str) -> bool {
        let machine = self.machine.get();
        let server = machine.tmux.get(SOCKET);
        server.is_some_and(|server| server.answers && server.panes.contains_key(pane))
    }

    /// H-13: the end of the one that we started, beside another owner.
    fn check_own_end(&self, process: ProcessRef, life: &Life) -> Result<(), Violation> {
        let id = &life.session_id;
        if !life.is_ours {
            return violation("H-13", format!("{id}: a signal to a client of its user's"));
        }
        let others = self.machine.get().holders(id, CONFIG_DIR);
        let said = self.serving.as_ref().is_some_and(|serving| {
            let state = serving.coordinator().state();
            state.sessions_with_id(id).any(|session| session.recovery.needs_operator.is_some())
        });
        if others.iter().all(|other| *other == process) && !said {
            return violation("H-13", format!("{id}: ours was ended, and was the only one"));
        }
        if !matches!(life.truth, Truth::Started | Truth::Idle) && life.since + UNSEEN < self.time {
            return violation("H-13", format!("{id}: ours was ended while {:?}", life.truth));
        }
        Ok(())
    }

    /// A line was put somewhere.
    pub(crate) fn check_placed(
        &mut self,
        way: Way,
        place: usize,
        nonce: &str,
    ) -> Result<(), Violation> {
        let Some(case) = self.acts.cases.get(nonce).cloned() else {
            return violation("G1", "a line that nobody decided on");
        };
        if !self.acts.nonces.insert(nonce.to_owned()) {
            return violation("G10", format!("{}: a line was put twice", case.session_id));
        }
        let Some(life) = self.life_of_case(&case) else {
            return violation("H-15", format!("{}: its harness is of no life", case.session_id));
        };
        let id = case.session_id.clone();
        if life.truth.is_alive() {
            return violation("H-01", format!("{id}: resumed beside its living harness"));
        }
        self.check_act(&case, life)?;
        self.check_wanted(&case, life, (way, place))?;
        let (died, survivor_until) = (life.since, life.survivor_until);
        if self.time < survivor_until {
            return violation("H-33", format!("{id}: resumed while a tool of it goes on"));
        }
        let others = self.machine.get().holders(&id, CONFIG_DIR);
        if let Some(other) = others.first() {
            return violation("H-13", format!("{id}: resumed while {other:?} holds it"));
        }
        if way == Way::Shell {
            self.check_shell(place, &case, died)?;
        }
        let is_known = |session: &Session| {
            let pending = session.recovery.pending.as_ref();
            pending.is_none_or(|one| match &one.stage {
                Stage::Placing { nonce: placed, .. } => placed == nonce,
                Stage::Waiting { .. } | Stage::Grace { .. } | Stage::Proving { .. } => false,
                Stage::Ending { .. } | Stage::Claimed { .. } | Stage::Started { .. } => true,
            })
        };
        self.check_durable(&case, is_known)?;
        let is_begun = self.life_of_case(&case).is_some_and(|life| life.is_signalled);
        self.acts.note_placed(case.key, is_begun, self.time);
        let (turn, all) = self.acts.used(&case);
        if 3 < turn || 10 < all {
            return violation("G5", format!("{id}: {turn} recoveries in a turn, {all} in all"));
        }
        if 10 < self.acts.begun.len() {
            return violation("H-11", format!("{id}: more than ten in ten minutes"));
        }
        Ok(())
    }

    /// H-06: somebody wants it back.
    fn check_wanted(
        &self,
        case: &Case,
        life: &Life,
        (way, place): (Way, usize),
    ) -> Result<(), Violation> {
        let id = &case.session_id;
        let holds = self.holds(case, &life.cwd);
        if holds.is_fresh || holds.is_asked || life.is_signalled {
            return Ok(());
        }
        if !(holds.unattended || holds.opted_in || life.has_signature) {
            return violation("H-06", format!("{id}: nobody wanted it back"));
        }
        if holds.unattended {
            return Ok(());
        }
        if way == Way::Window {
            return violation("S0-25e", format!("{id}: a new window for an attended session"));
        }
        let Some((graced, _)) = self.acts.graced.get(&case.key) else {
            return violation("H-06", format!("{id}: attended, and its person was not told"));
        };
        // A key before it was told cancels nothing.
        let told = graced + 200 * MS;
        let key_at = self.places.get(place).and_then(|one| one.key_at);
        if key_at.is_some_and(|at| told < at && at < graced + 9 * SECOND) {
            return violation("H-06", format!("{id}: a key in the grace did not cancel it"));
        }
        Ok(())
    }

    /// H-18: the shell is empty, in front, and nobody's.
    fn check_shell(&mut self, place: usize, case: &Case, died: Time) -> Result<(), Violation> {
        let id = &case.session_id;
        let pane = self.with_pane(place, |pane| pane.clone());
        let (Some(pane), Some(one)) = (pane, self.places.get(place)) else {
            return violation("H-16", format!("{id}: typed into a pane that is not there"));
        };
        if let Some(client) = one.client.as_ref().filter(|it| it.client.is_interactive) {
            let (other, pid) = (&client.session_id, client.process.pid);
            return violation("H-01", format!("{id}: typed into {other}, which lives as {pid}"));
        }
        if one.taker.is_some() {
            return violation("H-18", format!("{id}: typed while another line runs"));
        }
        let unseen = pane.line.shown().is_some_and(|shown| Some(shown) == case.prompt);
        if !one.typed.is_empty() && !unseen {
            let typed = &one.typed;
            return violation("S0-25c", format!("{id}: typed behind {typed:?}"));
        }
        if pane.is_synchronized {
            return violation("H-17", format!("{id}: typed into a synchronized pane"));
        }
        if pane.is_in_mode || pane.is_covered || pane.is_dead {
            return violation("H-18", format!("{id}: typed where no shell is in front"));
        }
        if one.parent != Parent::Shell {
            return violation("H-18", format!("{id}: typed into a shell that is not its own"));
        }
        if !self.habits.is_line_plain {
            return violation("H-18", format!("{id}: typed a path that is not plain"));
        }
        // Who asks for it has used the shell since; a key a moment ago is another matter.
        let from =
            if self.said.is_asked(case.key) { self.time.saturating_sub(9 * SECOND) } else { died };
        if one.key_at.is_some_and(|at| from < at) {
            return violation("H-18", format!("{id}: typed, and a key came since the death"));
        }
        Ok(())
    }

    /// The SessionEnd of its user's that the coordinator knows, when a line asks for its session.
    pub(crate) fn known_end(&self, serving: &Serving, nonce: &str) -> Option<String> {
        let case = self.acts.cases.get(nonce)?;
        let died = self.life_of_case(case)?.since;
        let state = serving.coordinator().state();
        let of_it = self.lives.iter().filter(|((boot, _), life)| {
            *boot == self.boot() && life.session_id == case.session_id && died <= life.since
        });
        let mut ends = of_it.flat_map(|((_, process), life)| {
            // What we end, and what of ours does not come up, is no end of its user's.
            let is_ours =
                life.is_signalled || life.is_ours || self.acts.maybe_signalled.contains(process);
            life.ends.iter().filter(move |(_, reason)| !is_ours || reason != "other")
        });
        let is_asked = self.said.is_asked(case.key);
        let counts = |reason: &String| !is_asked || reason != "other";
        ends.find(|(id, reason)| counts(reason) && state.has_seen(*id))
            .map(|(_, reason)| reason.clone())
    }

    /// A line got its session.
    pub(crate) fn check_granted(
        &mut self,
        process: ProcessRef,
        taker: &Taker,
        order: &ResumeOrder,
    ) -> Result<(), Violation> {
        let id = &order.session_id;
        if let Some(reason) = &taker.known_end {
            let rule = if reason == "other" { "S0-25f" } else { "G6" };
            return violation(
                rule,
                format!("{id}: resumed, and its SessionEnd({reason}) was known"),
            );
        }
        if !self.acts.clients.insert(taker.nonce.clone()) {
            return violation("H-18", format!("{id}: a nonce was good twice, for {process:?}"));
        }
        Ok(())
    }

    /// A line becomes the client.
    pub(crate) fn check_started(
        &mut self,
        nonce: &str,
        order: &ResumeOrder,
    ) -> Result<(), Violation> {
        let case = self.acts.cases.get(nonce);
        let id = &order.session_id;
        if case.is_none_or(|case| case.session_id != *id) {
            return violation("S0-27", format!("{id}: another session than was decided on"));
        }
        let others = self.machine.get().holders(id, CONFIG_DIR);
        if let Some(other) = others.first() {
            return violation("H-13", format!("{id}: started while {other:?} holds it"));
        }
        Ok(())
    }

    /// A client crashed: where the coordinator can see it, it counts.
    pub(crate) fn note_death(&mut self, place: usize) {
        let (time, boot) = (self.time, self.boot());
        let Some(one) = self.running(place) else { return };
        let process = one.process;
        let Some(life) = self.lives.get(&(boot, process)) else { return };
        let is_plain = life.is_interactive && life.has_reported && !life.is_ours;
        let is_seen = self.rates.has_registry && self.time > self.stalled_until;
        let state = self.serving.as_ref().map(|one| one.coordinator().state());
        let shown = state.and_then(|state| state.session_of(process));
        let is_free = shown.is_some_and(|one| {
            // How a client ended that may have gone over to another session is not known (H-44).
            let may_have_left = one.owner.as_ref().is_some_and(|owner| owner.may_have_left);
            let is_clear = one.left.is_none() && one.contested.is_none() && !may_have_left;
            one.recovery.pending.is_none() && is_clear
        });
        let is_quiet = !self.has_faults() || self.checks.started_at + MINUTE < time;
        if !(is_plain && is_seen && is_free && is_quiet && self.has_registry_now()) {
            return;
        }
        self.acts.deaths.retain(|at| time < at + 50 * SECOND);
        self.acts.deaths.push(time);
        if 3 <= self.acts.deaths.len() && !self.has_faults() {
            self.acts.broken_from.get_or_insert(time + 10 * SECOND);
        }
    }

    fn has_registry_now(&self) -> bool {
        let machine = self.machine.get();
        let is_there = machine.registries.get(CONFIG_DIR).is_some_and(|one| one.is_there);
        is_there && self.registry_stale_until < self.time
    }
}

//! `POST /v1/fleet/notices`: which machine tells people of whose needs (F-02).
//!
//! The relay says what it heard, of machines that signed it. What is taken of it stands on this machine's own list: nobody
//! else's needs are told here, and nobody else silences the channels here. Where the relay says nothing for a while, this
//! machine tells of its needs itself.

use std::collections::{BTreeMap, BTreeSet};

use coord_fleet::{Allowed, SILENT_MS};
use coord_host::process::Caller;
use coord_model::{Event, FleetEvent, MachineId, NamedMachine, NeedElsewhere, NeedId, Now};
use coord_wire::fleet::{FleetNotices, HeardNotifier, MachineNeeds, NoticesAnswer, TakenNeed};

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::messages::parsed;
use crate::request_error::RequestError;
use crate::routes::Route;
use crate::world::World;

/// How long the relay may say nothing of another machine that tells of this one's needs, in nanoseconds.
const RELAY_SILENT_NS: u64 = SILENT_MS * 1_000_000;
/// Needs that a beat names. Their machines tell of those beyond that themselves.
const TAKEN_MAX: usize = 1_000;

impl<W: World> Coordinator<W> {
    /// `POST /v1/fleet/notices`.
    pub(crate) fn post_notices(&mut self, request: &Request, caller: Caller, now: Now) -> Route {
        let answer = self
            .check_relay(caller)
            .and_then(|()| parsed(request))
            .and_then(|heard| self.share_notices(&heard, now));
        match answer {
            Ok(answer) => self.after_sync(Response::json(&answer)),
            Err(error) => Route::Answer(error.into()),
        }
    }

    /// Takes in who tells of whose needs, and returns what the other machines are to know.
    ///
    /// # Errors
    /// Something could not be recorded, or the list of machines cannot be read.
    pub fn share_notices(
        &mut self,
        heard: &FleetNotices,
        now: Now,
    ) -> Result<NoticesAnswer, RequestError> {
        let membership = self.world.membership().map_err(RequestError::bad)?;
        let membership =
            membership.ok_or_else(|| RequestError::bad("this machine has joined no fleet"))?;
        let notifies = self.config.fleet.notify.0;
        self.notifier_heard_ns = now.mono_ns;
        self.leave_others(&membership.allowed, notifies, now)?;
        for machine in &heard.machines {
            self.hear_needs(machine, &membership.allowed, notifies, now)?;
        }
        let others = if notifies { &[][..] } else { &heard.notifiers[..] };
        self.choose_notifier(others, &membership.allowed, now)?;
        Ok(self.notices_answer(membership.machine, notifies))
    }

    /// Tells no more for those that are not on the list any more.
    fn leave_others(
        &mut self,
        allowed: &Allowed,
        notifies: bool,
        now: Now,
    ) -> Result<(), RequestError> {
        let is_allowed = |machine: &MachineId| {
            notifies && allowed.get(*machine).is_some_and(|allowed| allowed.may_notify)
        };
        for machine in self.tells_for().into_iter().filter(|machine| !is_allowed(machine)) {
            self.needs_heard.remove(&machine);
            self.record_fleet(FleetEvent::NeedsLeft { machine }, now)?;
        }
        Ok(())
    }

    /// The machines whose needs are told here.
    fn tells_for(&self) -> BTreeSet<MachineId> {
        let needs = self.engine.state().header().elsewhere.needs.values();
        needs.map(|heard| heard.of.machine).collect()
    }

    fn hear_needs(
        &mut self,
        heard: &MachineNeeds,
        allowed: &Allowed,
        notifies: bool,
        now: Now,
    ) -> Result<(), RequestError> {
        let MachineNeeds { machine, needs } = heard;
        let needs = needs.as_ref().map(|needs| {
            let needs = needs.iter().take(NeedElsewhere::OF_MACHINE_MAX).cloned();
            needs.map(NeedElsewhere::bounded).collect::<Vec<_>>()
        });
        let known = self.engine.state().header().elsewhere.of(*machine);
        let known: BTreeMap<NeedId, _> = known.map(|(_, need)| (need.id, need)).collect();
        let has_any = !known.is_empty();
        let is_same = needs.as_ref().is_some_and(|needs| {
            let mut needs_known = needs.iter().map(|need| known.get(&need.id) == Some(&need));
            needs.len() == known.len() && needs_known.all(|is_known| is_known)
        });
        let allowed = allowed.get(*machine).filter(|one| notifies && one.may_notify);
        let (Some(needs), Some(allowed)) = (needs, allowed) else {
            self.needs_heard.remove(machine);
            let left = FleetEvent::NeedsLeft { machine: *machine };
            return if has_any { self.record_fleet(left, now) } else { Ok(()) };
        };
        // There may be more than can be kept: that is recorded once.
        let digest = self.text_digest(&serde_json::to_vec(&needs).unwrap_or_default());
        if self.needs_heard.get(machine) == Some(&digest) || is_same {
            return Ok(());
        }
        let of = NamedMachine { machine: *machine, name: allowed.name.clone() };
        self.record_fleet(FleetEvent::Needs { of, needs }, now)?;
        self.needs_heard.insert(*machine, digest);
        Ok(())
    }

    /// The first of the machines on the list that are heard tells of this one's needs, as long as it is heard.
    fn choose_notifier(
        &mut self,
        heard: &[HeardNotifier],
        allowed: &Allowed,
        now: Now,
    ) -> Result<(), RequestError> {
        let elsewhere = &self.engine.state().header().elsewhere;
        let named = |one: &HeardNotifier| {
            let allowed = allowed.get(one.machine).filter(|allowed| allowed.may_notify)?;
            Some(NamedMachine { machine: one.machine, name: allowed.name.clone() })
        };
        let before = elsewhere.notifier.as_ref().map(|notifier| notifier.machine);
        let found = heard.iter().filter_map(|one| Some((named(one)?, one)));
        let chosen = found.min_by_key(|(named, _)| (Some(named.machine) != before, named.clone()));
        let open = self.open_needs();
        let of = |ids: &[NeedId]| -> BTreeSet<NeedId> {
            ids.iter().copied().filter(|id| open.contains(id)).collect()
        };
        let told_before: BTreeSet<NeedId> = elsewhere.told.intersection(&open).copied().collect();
        let taken_before: BTreeSet<NeedId> = elsewhere.taken.intersection(&open).copied().collect();
        let (notifier, told, taken) = match chosen {
            // What was told stays told, whoever told it.
            Some((notifier, one)) => {
                (Some(notifier), &of(&one.told) | &told_before, of(&one.taken))
            }
            None => (None, told_before.clone(), BTreeSet::new()),
        };
        let is_same = told == told_before && taken == taken_before;
        if elsewhere.notifier == notifier && is_same {
            return Ok(());
        }
        let (told, taken) = (told.into_iter().collect(), taken.into_iter().collect());
        self.record_fleet(FleetEvent::Notifier { notifier, told, taken }, now)
    }

    fn open_needs(&self) -> BTreeSet<NeedId> {
        let sessions = self.engine.state().sessions();
        sessions.flat_map(|session| session.open_needs().map(|need| need.id)).collect()
    }

    fn notices_answer(&self, own_id: MachineId, notifies: bool) -> NoticesAnswer {
        let elsewhere = &self.engine.state().header().elsewhere;
        let told = self.engine.state().told_needs();
        let others = elsewhere.needs.iter().map(|(id, heard)| {
            let told = told.get(id) == Some(&true);
            TakenNeed { machine: heard.of.machine, need: heard.need.id, told }
        });
        // What is just being told here is not told by whoever takes over now.
        let own: BTreeSet<NeedId> = told.keys().chain(&elsewhere.told).copied().collect();
        let own = own.iter().filter(|id| !id.is_elsewhere());
        let own = own.map(|id| TakenNeed { machine: own_id, need: *id, told: true });
        NoticesAnswer {
            notifies,
            notifier: elsewhere.notifier.as_ref().map(|notifier| notifier.machine),
            taken: others.chain(own).take(TAKEN_MAX).collect(),
            tells_for: self.tells_for().into_iter().collect(),
        }
    }

    fn record_fleet(&mut self, event: FleetEvent, now: Now) -> Result<(), RequestError> {
        Ok(self.record(&Event::Fleet(event), now)?)
    }

    /// When this machine tells of its needs itself because the relay says nothing, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn notifier_lost_at(&self) -> Option<u64> {
        let has_notifier = self.engine.state().header().elsewhere.notifier.is_some();
        has_notifier.then(|| self.notifier_heard_ns.saturating_add(RELAY_SILENT_NS))
    }

    /// Tells of this machine's needs itself if the relay has said nothing for too long.
    pub(crate) fn lose_notifier(&mut self, now: Now) {
        if self.notifier_lost_at().is_none_or(|at| now.mono_ns < at) {
            return;
        }
        let told = self.engine.state().header().elsewhere.told.iter().copied().collect();
        self.notifier_heard_ns = now.mono_ns;
        let event = FleetEvent::Notifier { notifier: None, told, taken: Vec::new() };
        self.record_or_owe(Event::Fleet(event), now);
    }
}

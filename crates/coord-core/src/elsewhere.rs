//! Decides which needs of other machines are told here, and that another machine tells of this one's (F-02).
//!
//! The machine whose need it is says who tells of it: itself, or one machine that it has named. Each knows which needs
//! the other has told, so that a need is told once when that changes. A machine that is not heard tells for nobody, and
//! nobody tells for it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use coord_model::{FleetEvent, MachineId, Moment, NamedMachine, NeedElsewhere, NeedId, NoticeKind};

use crate::records::{HeardNeed, NoticeStage, NoticeWait, State};

/// Needs of all machines that are told here.
const NEEDS_MAX: usize = 2_000;

impl State {
    /// Applies what the machines agreed on.
    pub(crate) fn on_fleet(&mut self, event: &FleetEvent, at: Moment) {
        match event {
            FleetEvent::Needs { of, needs } => self.hear_needs(of, needs, at),
            FleetEvent::NeedsLeft { machine } => self.leave_needs(*machine),
            FleetEvent::Notifier { notifier, told, taken } => {
                self.leave_notices_to(notifier.as_ref(), (told, taken), at);
            }
        }
    }

    fn hear_needs(&mut self, of: &NamedMachine, needs: &[NeedElsewhere], at: Moment) {
        let known: Vec<(NeedId, NeedElsewhere)> =
            self.header.elsewhere.of(of.machine).map(|(id, need)| (id, need.clone())).collect();
        for (id, _) in
            known.iter().filter(|(_, before)| !needs.iter().any(|one| one.id == before.id))
        {
            self.header.elsewhere.end(*id);
            self.end_notices(*id, &format!("it is over on {}", of.name));
        }
        for need in needs.iter().take(NeedElsewhere::OF_MACHINE_MAX) {
            let heard = HeardNeed { of: of.clone(), need: need.clone().bounded() };
            let before = known.iter().find(|(_, before)| before.id == need.id);
            match before {
                Some((id, before)) => {
                    self.header.elsewhere.update(*id, heard);
                    if before.was_told && !need.was_told {
                        self.tell_after_all(*id, at);
                    }
                }
                None if self.header.elsewhere.needs.len() < NEEDS_MAX => {
                    let was_told = need.was_told;
                    let id = self.header.elsewhere.begin(heard);
                    let since = Moment { wall_ms: need.since_ms, ..at };
                    self.add_notices(id, NoticeKind::Need(need.kind), since);
                    if was_told {
                        self.note_told(id, at);
                    }
                }
                None => (),
            }
        }
    }

    /// What was told stands: the need is open, and its own machine takes care of it.
    fn leave_needs(&mut self, machine: MachineId) {
        let ids: Vec<NeedId> = self.header.elsewhere.of(machine).map(|(id, _)| id).collect();
        for id in ids {
            self.header.elsewhere.end(id);
            self.forget_notices(id);
        }
    }

    fn leave_notices_to(
        &mut self,
        to: Option<&NamedMachine>,
        (told, taken): (&[NeedId], &[NeedId]),
        at: Moment,
    ) {
        let is_open = |id: &NeedId| {
            let session = self.get(id.session);
            session.is_some_and(|session| session.needs.iter().any(|need| need.id == *id))
        };
        let open = |ids: &[NeedId]| ids.iter().copied().filter(is_open).collect();
        let (told, taken): (BTreeSet<NeedId>, BTreeSet<NeedId>) = (open(told), open(taken));
        let before = &self.header.elsewhere;
        let news: Vec<NeedId> = told.difference(&before.told).copied().collect();
        let lost: Vec<NeedId> =
            before.taken.difference(&taken).copied().filter(|id| is_open(id)).collect();
        self.header.elsewhere.leave_to(to.cloned(), told, taken);
        for id in news {
            self.note_told(id, at);
        }
        for id in lost {
            self.each_notice(id, |notice| notice.end_wait(NoticeWait::Elsewhere, at));
        }
        if to.is_none() {
            self.end_waits(NoticeWait::Elsewhere, at);
        }
    }

    /// People know of the need from elsewhere: the channels that did not tell it tell it again only as they would a need
    /// that stays open.
    fn note_told(&mut self, id: NeedId, at: Moment) {
        let until = at.awake.plus_ms(self.again_after_ms(1));
        self.each_notice(id, |notice| {
            if notice.count == 0 && notice.stage != NoticeStage::Sending {
                notice.stage = NoticeStage::Waiting { until, because: NoticeWait::Repeat };
            }
        });
    }

    /// Its machine has not told of it, as was thought.
    fn tell_after_all(&mut self, id: NeedId, at: Moment) {
        self.each_notice(id, |notice| {
            if notice.count == 0 && matches!(notice.stage, NoticeStage::Waiting { .. }) {
                notice.stage = NoticeStage::Waiting { until: at.awake, because: NoticeWait::Delay };
            }
        });
    }

    /// The open needs, of this machine and of others, that a channel here has told, or is just telling: then false.
    pub fn told_needs(&self) -> BTreeMap<NeedId, bool> {
        let mut told = BTreeMap::new();
        let channels = self.header.notices.channels.values();
        for (id, notice) in channels.flat_map(|channel| &channel.notices) {
            let is_told = 0 < notice.count || notice.may_be_repeated;
            let is_being_told = notice.stage == NoticeStage::Sending;
            if notice.over.is_none() && (is_told || is_being_told) {
                let before = told.entry(*id).or_default();
                *before |= is_told;
            }
        }
        told
    }
}

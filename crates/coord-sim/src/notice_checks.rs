//! What must hold of notices (N-03): a need is told once per channel and repeat step, but for one extra for each end
//! of a coordinator, marked as a possible repeat; at rest every open need has been told through every channel, and
//! what was told of one that is over has been taken back.

use std::collections::{BTreeMap, BTreeSet};

use coord_core::Session;
use coord_model::NeedId;
use coord_wire::notice::NoticeEvent;

use crate::act_checks::violation;
use crate::checks::Violation;
use crate::simulation::Simulation;

/// A need that is open for so long at rest has been told, nanoseconds: its delay, a person who is there, and a
/// channel that fails a few times.
const TOLD_WITHIN_NS: u64 = 900_000_000_000;
/// What ended so long ago has been taken back.
const WITHDRAWN_WITHIN_NS: u64 = 120_000_000_000;

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct NoticeWatch {
    /// How often each step was told without a mark.
    told: BTreeMap<(String, NeedId, u32), u32>,
    /// The channels that told of a need, and have not taken it back since.
    standing: BTreeMap<(String, NeedId), u64>,
}

impl Simulation {
    /// Looks at what was shown since the last turn.
    pub(crate) fn check_notices(&mut self) -> Result<(), Violation> {
        let shown = self.machine.get().channels.take_shown();
        for one in shown {
            self.note(|| format!("    {one:?}"));
            self.meter.notices += 1;
            let Some(id) = one.id else { continue };
            let key = (one.channel.clone(), id);
            match one.event {
                NoticeEvent::Withdrawn => drop(self.notices.standing.remove(&key)),
                NoticeEvent::Need | NoticeEvent::News => {
                    let is_need = one.event == NoticeEvent::Need;
                    if is_need {
                        self.notices.standing.insert(key, one.at_ns);
                    }
                    if one.may_be_repeated {
                        continue;
                    }
                    let step = (one.channel.clone(), id, one.repeat);
                    let n = self.notices.told.entry(step).or_default();
                    *n += 1;
                    if 1 < *n {
                        return violation("N-03", format!("{id} was told twice: {one:?}"));
                    }
                }
                NoticeEvent::Digest | NoticeEvent::Test => (),
            }
        }
        Ok(())
    }

    /// At rest nothing is owed to anybody.
    pub(crate) fn check_notices_rest(&mut self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else { return Ok(()) };
        let now_ns = self.mono_ns();
        let state = serving.coordinator().state();
        let (notices, settings) = (&state.header().notices, &state.header().settings.notice);
        if settings.kinds.is_empty() {
            return Ok(());
        }
        let open: BTreeMap<NeedId, u64> = state
            .sessions()
            .flat_map(Session::open_needs)
            .map(|need| (need.id, need.since.awake.0))
            .collect();
        let now_awake = state.moment(self.now()).awake.0;
        for (name, channel) in &notices.channels {
            for (id, since) in &open {
                let is_old = TOLD_WITHIN_NS < now_awake.saturating_sub(*since);
                let has_told = channel.notices.get(id).is_some_and(|one| 0 < one.count);
                // A desktop tells nothing while somebody is there.
                if is_old && !has_told && name != "desk" {
                    return violation("N-03", format!("{id} was never told through {name}"));
                }
            }
        }
        let known: BTreeSet<&String> = notices.channels.keys().collect();
        let left = self.notices.standing.iter().find(|((channel, id), at_ns)| {
            channel != "tmux"
                && known.contains(channel)
                && !open.contains_key(id)
                && !notices.channels[channel].notices.contains_key(id)
                && WITHDRAWN_WITHIN_NS < now_ns.saturating_sub(**at_ns)
        });
        match left {
            Some(((channel, id), _)) => {
                violation("N-03", format!("{id} is over and stands in {channel}"))
            }
            None => Ok(()),
        }
    }
}

//! Counts arrivals beyond a share instead of recording them (H-29, H-49). Their number is recorded from
//! time to time: one record for each would be what the share prevents.

use coord_model::{Event, Now, Via};
use coord_store::AppendError;

use crate::coordinator::Coordinator;
use crate::share::{Arrival, Fate, Trust};
use crate::world::World;

/// Interval at which the number is recorded, in nanoseconds.
const COUNTED_EVERY_NS: u64 = 1_000_000_000;

impl<W: World> Coordinator<W> {
    /// Counts an arrival that is not recorded.
    pub(crate) fn count(&mut self) {
        self.counted = self.counted.saturating_add(1);
    }

    /// Records or counts an arrival that is no valid event. It uses the share of a session without a
    /// name, at the trust of a mere claim.
    pub(crate) fn take_malformed(
        &mut self,
        via: Via,
        why: String,
        text: &[u8],
        now: Now,
    ) -> Result<(), AppendError> {
        let (session_id, event) = ("", "");
        let arrival = Arrival { session_id, event, bytes: text.len(), trust: Trust::Claimed, via };
        match self.shares.take(arrival, now.mono_ns) {
            Fate::Kept | Fate::Named => self.record(&Event::Malformed { via, why }, now),
            Fate::Counted => {
                self.count();
                Ok(())
            }
        }
    }

    /// When the number must be recorded, in nanoseconds of CLOCK_MONOTONIC; none if nothing was counted.
    pub(crate) fn counted_at(&self) -> Option<u64> {
        (0 < self.counted).then_some(self.counted_at_ns)
    }

    /// Records how many arrivals were only counted since the last such record.
    pub(crate) fn record_counted(&mut self, now: Now) {
        let events = self.counted;
        if events == 0 {
            return;
        }
        self.counted_at_ns = now.mono_ns.saturating_add(COUNTED_EVERY_NS);
        if self.record_or_say(&Event::SpoolFolded { events }, now) {
            self.counted = 0;
        }
    }
}

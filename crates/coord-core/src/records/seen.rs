//! Decides whether an event arrived before (G2): ids are remembered for 7 days, up to 1,000,000 of them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use coord_model::EventId;

/// Maximum number of remembered ids.
const IDS_MAX: usize = 1_000_000;
/// How long an event may lie in a spool and still be applied, in milliseconds: no longer than ids are remembered
/// (H-31). Older events are history only.
pub(crate) const REMEMBERED_MS: u64 = 7 * 24 * 3_600_000;
/// An id begins with 48 bits of milliseconds; the other bits follow.
const MS_SHIFT: u32 = 80;

/// The ids of events that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenIds {
    ids: BTreeSet<EventId>,
}

impl SeenIds {
    /// Adds an id. Returns false if it was there already.
    pub fn insert(&mut self, id: EventId, wall_ms: u64) -> bool {
        let is_new = self.ids.insert(id);
        while self.ids.first().is_some_and(|oldest| {
            IDS_MAX < self.ids.len()
                || u64::try_from(oldest >> MS_SHIFT)
                    .is_ok_and(|ms| ms < wall_ms.saturating_sub(REMEMBERED_MS))
        }) {
            self.ids.pop_first();
        }
        is_new
    }

    /// Whether the id is remembered.
    pub fn contains(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// All ids, ascending, 16 bytes each, big endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.ids.iter().flat_map(|id| id.to_be_bytes()).collect()
    }

    /// Reads what [`Self::to_bytes`] wrote. A remainder of less than 16 bytes is ignored.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (chunks, _) = bytes.as_chunks::<16>();
        Self { ids: chunks.iter().map(|chunk| EventId::from_be_bytes(*chunk)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, n: u128) -> EventId {
        (u128::from(ms) << MS_SHIFT) | n
    }

    // G2: a second arrival is recognized, also after a restart.
    #[test]
    fn an_id_is_new_once() {
        let mut seen = SeenIds::default();
        assert!(seen.insert(id(5, 1), 5));
        assert!(seen.insert(id(5, 2), 5));
        assert!(!seen.insert(id(5, 1), 5));
        let mut again = SeenIds::from_bytes(&seen.to_bytes());
        assert_eq!(again, seen);
        assert!(!again.insert(id(5, 2), 5));
    }

    #[test]
    fn old_ids_are_forgotten_after_seven_days() {
        let mut seen = SeenIds::default();
        seen.insert(id(0, 1), 0);
        seen.insert(id(REMEMBERED_MS, 2), REMEMBERED_MS);
        assert_eq!(seen.len(), 2);
        seen.insert(id(REMEMBERED_MS + 1, 3), REMEMBERED_MS + 1);
        assert_eq!(seen.len(), 2);
    }
}

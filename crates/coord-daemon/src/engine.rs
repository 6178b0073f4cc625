//! Record, then step: the only way in which anything changes the state.
//!
//! An event is first appended to the journal and only then passed to the core. The core's decisions are
//! appended after it. A record that could not be written changes nothing. The running coordinator and
//! replay use the same conversion, so that a restart sees what the first run saw.

use std::path::Path;

use coord_core::{State, step};
use coord_model::{Effect, Event, HookEvent, Now, Record};
use coord_store::{AppendError, Disk, Journal, Snapshot, SnapshotWriter};
use coord_wire::limits::SEGMENT_BYTES_MAX;

use crate::metrics::Tally;
use coord_view::replay::{Kept, key_of_messages, replay, replay_cost};

/// Records in the journal's tail, for each session or message, at which a snapshot is due; never fewer
/// in all than [`TAIL_MIN`] (performance.md: replay costs 0.7 us an event, loading 2.7 us a session).
const TAIL_PER_SESSION: u64 = 4;
/// Records in the shortest tail that is worth a snapshot.
const TAIL_MIN: u64 = 2_000;
/// Bytes of tail at which a snapshot is due, however few records they are. The journal is pruned only
/// after a snapshot, so this bounds its size beyond what is kept (H-49).
const TAIL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The journal and the state, always in step.
pub struct Engine<D: Disk> {
    journal: Journal<D>,
    state: State,
    /// Records that the next start has to replay.
    since_snapshot: u64,
    /// Bytes that the next start has to replay.
    bytes_since_snapshot: u64,
    /// The last record that the snapshot begun last covers, and the records and bytes of the tail that
    /// it covers.
    snapshot_begun: (u64, u64, u64),
    duplicates: u64,
    tally: Tally,
    line: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// Opens the store in `state_dir` for its only writer. Returns the engine and what the store found
    /// while opening.
    pub fn open(
        disk: &D,
        state_dir: &Path,
        journal_dir: &Path,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let snapshot = Snapshot::load(disk, state_dir)?;
        let through_seq = snapshot.as_ref().map_or(0, |snapshot| snapshot.through_seq);
        let (journal, tail) =
            Journal::open(disk.clone(), journal_dir, through_seq, SEGMENT_BYTES_MAX)?;
        let (state, replayed) = replay(snapshot.as_ref(), &tail)?;
        let findings = snapshot.iter().flat_map(|snapshot| &snapshot.report).chain(&tail.report);
        let findings = findings.map(ToString::to_string).collect();
        let bytes = tail.records().map(|(_, payload)| payload.len() as u64).sum();
        let engine = Self {
            journal,
            tally: Tally::since(&state),
            state,
            since_snapshot: replayed,
            bytes_since_snapshot: bytes,
            snapshot_begun: (0, 0, 0),
            duplicates: 0,
            line: Vec::new(),
        };
        Ok((engine, findings))
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The journal, to read from.
    pub fn journal(&self) -> &Journal<D> {
        &self.journal
    }

    /// The journal, to make it durable.
    pub fn journal_mut(&mut self) -> &mut Journal<D> {
        &mut self.journal
    }

    /// Events since this start that were already known.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// What the core decided since this start.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Records an event and passes it to the core. Returns the effects to perform. After an error
    /// nothing has changed, and the same event may be tried again.
    pub fn record(&mut self, event: &Event, now: Now) -> Result<Vec<Effect>, AppendError> {
        self.append(event, now)?;
        Ok(self.take_in(event, now))
    }

    /// Whether a hook's event is already known (G2); counts it if so.
    pub fn is_duplicate(&mut self, event: &HookEvent) -> bool {
        let is_duplicate = self.state.has_seen(event.id);
        self.duplicates = self.duplicates.saturating_add(u64::from(is_duplicate));
        is_duplicate
    }

    fn append(&mut self, event: &Event, now: Now) -> Result<(), AppendError> {
        let seq = self.journal.next_seq();
        self.append_as_json(&Record { seq, at: now.wall_ms, mono_ns: now.mono_ns, entry: event })?;
        let bytes = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_add(bytes);
        let cost = replay_cost(event, &self.state);
        self.since_snapshot = self.since_snapshot.saturating_add(cost);
        Ok(())
    }

    /// Appends a value as one record. A value that cannot be serialized leaves the journal unchanged.
    fn append_as_json(&mut self, value: &impl serde::Serialize) -> Result<u64, AppendError> {
        self.line.clear();
        match serde_json::to_writer(&mut self.line, value) {
            Ok(()) => self.journal.append(&self.line),
            Err(error) => Err(self.journal.refuse(error.into())),
        }
    }

    /// Passes a tick to the core, because captures may be due. It is not recorded: it changes nothing
    /// that is shown.
    pub fn tick(&mut self, now: Now) -> Vec<Effect> {
        self.take_in(&Event::Tick, now)
    }

    /// Whether the journal's tail is long enough for a snapshot.
    pub fn wants_snapshot(&self) -> bool {
        let kept = self.state.sessions().len().saturating_add(self.state.messages().len());
        let kept = u64::try_from(kept).unwrap_or(u64::MAX);
        TAIL_BYTES_MAX <= self.bytes_since_snapshot
            || TAIL_MIN.max(kept.saturating_mul(TAIL_PER_SESSION)) <= self.since_snapshot
    }

    /// Whether anything was recorded since the last snapshot.
    pub fn has_tail(&self) -> bool {
        0 < self.since_snapshot
    }

    /// Serializes the present state and the remembered event ids for a snapshot. The records that it
    /// covers must be synced before it is published.
    pub fn snapshot(&mut self) -> serde_json::Result<(SnapshotWriter, Vec<u8>)> {
        let through_seq = self.journal.next_seq().saturating_sub(1);
        let mut writer =
            SnapshotWriter::new(through_seq, &serde_json::to_vec(self.state.header())?);
        let mut payload = Vec::new();
        for session in self.state.sessions() {
            payload.clear();
            serde_json::to_writer(&mut payload, session)?;
            let ids = session.previous_ids.iter().chain([&session.session_id]);
            let keys: Vec<&str> = ids.map(String::as_str).collect();
            writer.entry(&keys, &payload);
        }
        for message in self.state.messages() {
            payload.clear();
            serde_json::to_writer(&mut payload, &Kept { message })?;
            let key = message.session().map(key_of_messages);
            let keys: Vec<&str> = key.iter().map(String::as_str).collect();
            writer.entry(&keys, &payload);
        }
        self.snapshot_begun = (through_seq, self.since_snapshot, self.bytes_since_snapshot);
        Ok((writer, self.state.seen().to_bytes()))
    }

    /// Notes that the snapshot up to this record is published: the records that it covers need no
    /// replay.
    pub fn snapshot_taken(&mut self, through_seq: u64) {
        let (begun, records, bytes) = self.snapshot_begun;
        if begun == through_seq {
            self.since_snapshot = self.since_snapshot.saturating_sub(records);
            self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_sub(bytes);
            self.snapshot_begun = (0, 0, 0);
        }
    }

    fn take_in(&mut self, event: &Event, now: Now) -> Vec<Effect> {
        let fx = step(&mut self.state, event, now);
        self.tally.count(&fx.decisions, &self.state);
        for decision in fx.decisions {
            if let Err(error) = self.append(&Event::Decision(decision), now) {
                // The cause is recorded, so the decision follows from it again at the next replay.
                tracing::warn!(%error, "decision not recorded");
            }
        }
        fx.effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_store::RealDisk;
    use serde::ser::{Error as _, SerializeStruct};

    /// A value of which one part can be serialized and one cannot.
    struct HalfWritable;

    impl serde::Serialize for HalfWritable {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut fields = serializer.serialize_struct("HalfWritable", 2)?;
            fields.serialize_field("seq", &1)?;
            Err(S::Error::custom("injected"))
        }
    }

    // G10: after half a record, the store could never be opened again.
    #[test]
    fn what_cannot_be_written_as_json_leaves_nothing_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let journal_dir = dir.path().join("journal");
        let (mut engine, _) = Engine::open(&RealDisk, dir.path(), &journal_dir).unwrap();
        let refused = engine.append_as_json(&HalfWritable).unwrap_err();
        assert!(matches!(refused, AppendError::Failed { .. }), "{refused}");
        assert_eq!(engine.journal().next_seq(), 1);
        engine.append(&Event::Due, coord_store::now()).unwrap();
        drop(engine);
        let (engine, findings) = Engine::open(&RealDisk, dir.path(), &journal_dir).unwrap();
        assert_eq!((engine.journal().next_seq(), findings.len()), (2, 0));
    }
}

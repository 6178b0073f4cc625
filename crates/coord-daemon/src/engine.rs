//! Record, then step: the one way by which anything changes the state.
//!
//! An entry is appended to the journal first and only then given to the core; what the core decides
//! is appended behind it. A record that could not be written changes nothing. The same conversion
//! serves the running coordinator and replay, so a restart sees what the first run saw.

use std::path::Path;

use coord_core::{State, step};
use coord_model::{Effect, Event, HookEvent, Now, Record};
use coord_store::{AppendError, Disk, Journal, Snapshot, SnapshotWriter};
use coord_wire::limits::SEGMENT_BYTES_MAX;

use coord_view::replay::{Kept, key_of_messages, replay, replay_cost};

/// A snapshot is due when the journal's tail has this many records for each session or message, and never
/// below [`TAIL_MIN`] (performance.md: replay costs 0.7 us an event, loading 2.7 us a session).
const TAIL_PER_SESSION: u64 = 4;
/// The least tail worth a snapshot.
const TAIL_MIN: u64 = 2_000;
/// A snapshot is due at this many bytes too, however few records they are: the journal is pruned behind
/// a snapshot only, so its size is bounded by this beyond what is kept (H-49).
const TAIL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Journal and state, always in step.
pub struct Engine<D: Disk> {
    journal: Journal<D>,
    state: State,
    /// What the next start has to replay, in records.
    since_snapshot: u64,
    /// The same in bytes.
    bytes_since_snapshot: u64,
    /// Up to which record the last snapshot was begun, and what of the tail it covers, in records and bytes.
    snapshot_begun: (u64, u64, u64),
    duplicates: u64,
    line: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// Opens the store in `state_dir` for its only writer. Returns what opening it found.
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

    /// The journal.
    pub fn journal(&self) -> &Journal<D> {
        &self.journal
    }

    /// The journal, to make it durable.
    pub fn journal_mut(&mut self) -> &mut Journal<D> {
        &mut self.journal
    }

    /// Events that had been there before, since this start.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Records an event and lets the core take it in. Returns what is to be done. After an error
    /// nothing has changed, and the same event may be tried again.
    pub fn record(&mut self, event: &Event, now: Now) -> Result<Vec<Effect>, AppendError> {
        self.append(event, now)?;
        Ok(self.take_in(event, now))
    }

    /// Whether a hook's event was there before (G2). Counts it if it was.
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

    /// Appends a value as one record. One that cannot be written as JSON leaves nothing behind.
    fn append_as_json(&mut self, value: &impl serde::Serialize) -> Result<u64, AppendError> {
        self.line.clear();
        match serde_json::to_writer(&mut self.line, value) {
            Ok(()) => self.journal.append(&self.line),
            Err(error) => Err(self.journal.refuse(error.into())),
        }
    }

    /// Looks may be due. Not recorded: they change nothing that is shown.
    pub fn tick(&mut self, now: Now) -> Vec<Effect> {
        self.take_in(&Event::Tick, now)
    }

    /// Whether the tail is long enough for a snapshot.
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

    /// The snapshot of the present state, with the remembered ids. The records it covers must be
    /// synced before it is published.
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

    /// The snapshot up to this record is in its place: what it covers need not be replayed.
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
        for decision in fx.decisions {
            if let Err(error) = self.append(&Event::Decision(decision), now) {
                // The cause is recorded, the decision follows from it again at the next replay.
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

    /// Has a part that can be written, and one that cannot.
    struct HalfWritable;

    impl serde::Serialize for HalfWritable {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut fields = serializer.serialize_struct("HalfWritable", 2)?;
            fields.serialize_field("seq", &1)?;
            Err(S::Error::custom("injected"))
        }
    }

    // G10: half a record would keep the store from ever being opened again.
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

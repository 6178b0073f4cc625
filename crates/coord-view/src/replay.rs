//! Builds the state from the files: loads the snapshot, then passes the journal's tail through the core.

use anyhow::Context;
use coord_core::{Header, Message, SeenIds, Session, State, step};
use coord_model::{Event, Now, Record, SessionKey};
use coord_store::{Snapshot, Tail};

/// A snapshot entry that is a message instead of a session.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Kept<T> {
    /// The message.
    pub message: T,
}

/// The beginning of such an entry.
const KEPT: &[u8] = br#"{"message":"#;

/// The key under which the snapshot's index lists the messages of a session. No id begins like it.
pub fn key_of_messages(session: SessionKey) -> String {
    format!("\0{}\0", session.0)
}

/// Whether a snapshot entry is a message.
pub fn is_message(payload: &[u8]) -> bool {
    payload.starts_with(KEPT)
}

/// Parses the message in such an entry.
pub fn kept_message(payload: &[u8]) -> serde_json::Result<Message> {
    serde_json::from_slice(payload).map(|Kept { message }| message)
}

/// The cost of replaying an entry, in records. A start or a gap touches every session; without counting that,
/// a coordinator that is killed repeatedly would start more slowly each time.
pub fn replay_cost(event: &Event, state: &State) -> u64 {
    match event {
        Event::Started(_) | Event::Gap { .. } | Event::ConfigChanged { .. } => {
            u64::try_from(state.sessions().len()).unwrap_or(u64::MAX).max(1)
        }
        Event::Hook(_)
        | Event::Folded { .. }
        | Event::SpoolFolded { .. }
        | Event::Malformed { .. }
        | Event::Due
        | Event::Tick
        | Event::ProcessSeen(_)
        | Event::ProcessExited { .. }
        | Event::RegistryRead { .. }
        | Event::PaneSeen { .. }
        | Event::TranscriptRead { .. }
        | Event::TaskRead { .. }
        | Event::WorkSeen { .. }
        | Event::Proved { .. }
        | Event::Acted { .. }
        | Event::ResumeClaimed { .. }
        | Event::ResumeFailed { .. }
        | Event::Operator { .. }
        | Event::ReplySeen { .. }
        | Event::RequestHookEnded { .. }
        | Event::Message { .. }
        | Event::Shutdown { .. }
        | Event::ConfigDirLock { .. }
        | Event::NoticeSent { .. }
        | Event::PresenceSeen { .. }
        | Event::LocalClock { .. }
        | Event::Fleet(_)
        | Event::JournalReopened { .. }
        | Event::Decision(_) => 1,
    }
}

/// Builds the state from a snapshot and the journal's tail. Also returns the cost of the replay, in records.
pub fn replay(snapshot: Option<&Snapshot>, tail: &Tail) -> anyhow::Result<(State, u64)> {
    let mut state = match snapshot {
        None => State::default(),
        Some(snapshot) => {
            let header: Header = serde_json::from_slice(snapshot.header())
                .context("the snapshot's header does not fit this version")?;
            let (messages, sessions): (Vec<_>, Vec<_>) =
                snapshot.entries().partition(|payload| is_message(payload));
            let sessions = sessions
                .into_iter()
                .map(serde_json::from_slice)
                .collect::<Result<Vec<Session>, _>>()
                .context("a session in the snapshot does not fit this version")?;
            let messages = messages
                .into_iter()
                .map(kept_message)
                .collect::<Result<Vec<Message>, _>>()
                .context("a message in the snapshot does not fit this version")?;
            State::from_parts(header, sessions, messages, SeenIds::from_bytes(snapshot.blob()))
        }
    };
    let mut replayed: u64 = 0;
    for (seq, payload) in tail.records() {
        let record: Record = serde_json::from_slice(payload)
            .with_context(|| format!("record {seq} of the journal does not fit this version"))?;
        let now = Now { mono_ns: record.mono_ns, wall_ms: record.at };
        step(&mut state, &record.entry, now);
        replayed = replayed.saturating_add(replay_cost(&record.entry, &state));
    }
    Ok((state, replayed))
}

//! This machine, as the relay sees it: the journal's files and the coordinator's socket.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use coord_fleet::{Extent, Incarnation, Journal, Local, Piece};
use coord_relay::{Selected, Selection, Source};
use coord_store::journal::{Cursor, oldest};
use coord_store::{RealDisk, StateLock, read_small_file};
use coord_wire::exchange::Miss;
use coord_wire::fleet::{
    FleetNotices, InboxAnswer, InboxItem, ItemVerdict, NoticesAnswer, Outbox, OutboxAsk,
};
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client;
use crate::context::Context;
use crate::out::Failure;

/// The engine keeps history for so long, milliseconds: what is older need not be published.
const WANTED_MS: u64 = 24 * 3_600_000;

/// The file beside the journal that names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Named {
    incarnation: Incarnation,
    /// Whether it was published.
    is_published: bool,
    /// The journal that was published before it, an earlier one of this machine.
    #[serde(default)]
    follows: Option<Incarnation>,
    /// How often it was published again.
    #[serde(default)]
    edition: u64,
}

impl Named {
    fn read(file: &Path) -> io::Result<Self> {
        let text = read_small_file(file, SMALL_FILE_BYTES_MAX)?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    }
}

/// This machine.
#[derive(Debug)]
pub(super) struct FleetSource {
    context: Context,
    named: Named,
    file: PathBuf,
    selection: Selection,
    /// Reads on after the records that wait here.
    cursor: Option<(u64, Cursor)>,
    records: VecDeque<(u64, Vec<u8>)>,
}

impl FleetSource {
    /// Opens the journal, and names it if it has no name yet: it goes where the journal goes.
    pub(super) fn open(context: &Context) -> anyhow::Result<Self> {
        let file = context.paths.incarnation();
        let shown = || file.display().to_string();
        let named = match Named::read(&file) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let named = Named {
                    incarnation: Incarnation(random()?),
                    is_published: false,
                    follows: None,
                    edition: 0,
                };
                coord_relay::write_durably(&file, &serde_json::to_vec(&named)?)
                    .with_context(shown)?;
                named
            }
            Err(error) => return Err(error).with_context(shown),
        };
        Ok(Self {
            context: context.clone(),
            named,
            file,
            selection: Selection::default(),
            cursor: None,
            records: VecDeque::new(),
        })
    }

    /// The journal's name.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.named.incarnation.clone()
    }

    /// The edition that is published.
    pub(super) fn published_edition(&self) -> u64 {
        self.named.edition
    }

    /// Has the journal published again, by the relay: its next batch is the first of this edition. None if it was never
    /// published.
    pub(super) fn republish(&mut self) -> anyhow::Result<Option<u64>> {
        let shown = || self.file.display().to_string();
        let named = Named::read(&self.file).with_context(shown)?;
        if !named.is_published {
            return Ok(None);
        }
        let edition = named.edition.saturating_add(1);
        self.named = Named { edition, ..named };
        // The relay writes it only before it publishes for the first time.
        coord_relay::write_durably(&self.file, &serde_json::to_vec(&self.named)?)
            .with_context(shown)?;
        Ok(Some(edition))
    }

    /// Fills in more records, if there are any.
    fn read_more(&mut self, from: u64) -> io::Result<()> {
        let is_at = |(next, _): &(u64, Cursor)| *next == from;
        let (_, mut cursor) =
            self.cursor.take().filter(is_at).unwrap_or_else(|| (from, Cursor::before(from)));
        let _lock =
            StateLock::shared(&self.context.paths.state_lock()).map_err(io::Error::other)?;
        let read = cursor.read(&RealDisk, &self.context.paths.journal());
        let read = read.map_err(io::Error::other)?;
        let next = read.last().map_or(from, |(seq, _)| seq.saturating_add(1));
        self.cursor = Some((next, cursor));
        self.records = read.into();
        Ok(())
    }
}

/// 128 random bits.
pub(super) fn random() -> io::Result<String> {
    let mut bits = [0; 16];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bits)))
}

/// What the coordinator answered.
fn answered<T: DeserializeOwned + Debug>(
    answer: Result<Result<T, Failure>, Miss>,
) -> io::Result<T> {
    let answer = answer.map_err(|miss| io::Error::other(format!("{miss:?}")))?;
    answer.map_err(|failure| io::Error::other(failure.into_error()))
}

impl Local for FleetSource {
    fn outbox(&mut self, ask: &OutboxAsk) -> io::Result<Outbox> {
        answered(client::post(&self.context, "/v1/fleet/outbox", ask))
    }

    fn inbox(&mut self, item: &InboxItem) -> io::Result<InboxAnswer> {
        match client::post(&self.context, "/v1/fleet/inbox", item) {
            Ok(Ok(answer)) => Ok(answer),
            // This item alone: others may pass.
            Ok(Err(failure)) => {
                let why = failure.into_error().to_string();
                Ok(InboxAnswer { verdict: ItemVerdict::Later, why })
            }
            Err(miss) => Err(io::Error::other(format!("{miss:?}"))),
        }
    }
}

impl Journal for FleetSource {
    fn extent(&mut self) -> io::Result<Extent> {
        let durable = self.outbox(&OutboxAsk::default())?.durable;
        let since_ms = coord_store::now().wall_ms.saturating_sub(WANTED_MS);
        let journal = self.context.paths.journal();
        let (oldest, oldest_wanted) =
            oldest(&RealDisk, &journal, since_ms).map_err(io::Error::other)?;
        Ok(Extent { oldest, oldest_wanted, durable })
    }

    fn read(&mut self, from: u64, through: u64) -> io::Result<Piece> {
        if self.records.front().is_none_or(|(seq, _)| *seq != from) {
            self.records.clear();
            self.read_more(from)?;
        }
        let mut selected = Selected::default();
        let mut last = from.saturating_sub(1);
        while last < through && !selected.is_full() {
            if self.records.is_empty() {
                self.read_more(last.saturating_add(1))?;
            }
            let Some((seq, _)) = self.records.front() else { break };
            if through < *seq {
                break;
            }
            if let Some((seq, payload)) = self.records.pop_front() {
                self.selection.add(seq, &payload, &mut selected);
                last = seq;
            }
        }
        if last < from {
            return Err(io::Error::other("the journal has no record that it said was durable"));
        }
        Ok(Piece { last, lines: selected.lines })
    }

    fn was_published(&self) -> bool {
        self.named.is_published
    }

    fn follows(&self, other: &Incarnation) -> bool {
        self.named.follows.as_ref() == Some(other)
    }

    fn note_published(&mut self, after: Option<&Incarnation>) -> io::Result<()> {
        let named = Named { is_published: true, follows: after.cloned(), ..self.named.clone() };
        coord_relay::write_durably(&self.file, &serde_json::to_vec(&named)?)?;
        self.named = named;
        Ok(())
    }

    fn edition(&mut self) -> io::Result<u64> {
        self.named.edition = Named::read(&self.file)?.edition;
        Ok(self.named.edition)
    }
}

/// The coordinator's answer, as far as it is passed on.
#[derive(Debug, Deserialize)]
struct Sessions {
    sessions: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct SessionId {
    session_id: String,
}

impl Source for FleetSource {
    fn sessions(&mut self) -> io::Result<Vec<(String, Box<RawValue>)>> {
        let Sessions { sessions } = answered(client::get(&self.context, "/v1/sessions"))?;
        let named = sessions.into_iter().map(|session| {
            let id: SessionId = serde_json::from_str(session.get())?;
            Ok((id.session_id, session))
        });
        named.collect()
    }

    fn notices(&mut self, heard: &FleetNotices) -> io::Result<NoticesAnswer> {
        answered(client::post(&self.context, "/v1/fleet/notices", heard))
    }
}

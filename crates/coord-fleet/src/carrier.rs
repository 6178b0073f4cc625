//! Carries messages and their fates between the coordinator and the engine (F-05). It decides nothing of them: the
//! coordinator says what is sent, and what becomes of what arrives. A turn that fails in the middle is made up for by a later
//! one, since the coordinator sends again what it heard nothing of, and the engine delivers again what was not settled.

use std::io;

use coord_wire::fleet::{
    InboxAnswer, InboxItem, ItemKind, ItemVerdict, Outbox, OutboxAsk, SentFate,
};

use crate::batch::Incarnation;
use crate::engine::{Delivery, Engine, EngineError, Item, Parcel, Settled, Verdict};
use crate::keys::Keys;
use crate::message::{FateReport, RemoteMessage};

/// Longest item that is handed in, bytes: a message of 64 KiB whose every character takes six, and what goes with it.
const ITEM_BYTES_MAX: usize = 480 * 1024;

/// The coordinator of this machine.
pub trait Local {
    /// What is to be sent.
    ///
    /// # Errors
    /// It does not answer.
    fn outbox(&mut self, ask: &OutboxAsk) -> io::Result<Outbox>;
    /// Hands in what arrived.
    ///
    /// # Errors
    /// It does not answer.
    fn inbox(&mut self, item: &InboxItem) -> io::Result<InboxAnswer>;
}

/// Why a turn ended early.
#[derive(Debug)]
pub enum CarryError {
    /// The engine did not take or give something.
    Engine(EngineError),
    /// The coordinator does not answer.
    Local(io::Error),
}

impl From<EngineError> for CarryError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for CarryError {
    fn from(error: io::Error) -> Self {
        Self::Local(error)
    }
}

/// What a turn of sending found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// The newest record of the journal that is durable.
    pub durable: u64,
    /// Whether all records are.
    pub is_all_durable: bool,
    /// Whether anything was sent.
    pub is_any: bool,
}

/// What is on its way between coordinator and engine.
#[derive(Debug, Default)]
pub struct Carrier {
    /// Fates that the engine has, of which the coordinator does not know yet that they were sent.
    sent: Vec<SentFate>,
    /// What became of items, of which the engine does not know yet.
    settled: Vec<Settled>,
    /// Items that the coordinator will never take, so far, and why the last one was not taken.
    pub refused: u64,
    /// Why the last one was not taken.
    pub last_refusal: Option<String>,
}

impl Carrier {
    /// Sends what is to be sent.
    ///
    /// # Errors
    /// Why it ended early.
    pub async fn send(
        &mut self,
        engine: &mut impl Engine,
        local: &mut impl Local,
        (keys, incarnation): (&Keys, &Incarnation),
    ) -> Result<Sending, CarryError> {
        let ask = OutboxAsk { sent: std::mem::take(&mut self.sent), takes: true };
        let outbox = local.outbox(&ask)?;
        let is_any = !outbox.messages.is_empty() || !outbox.fates.is_empty();
        for message in outbox.messages {
            let to = message.to.machine;
            let session = message.to.session;
            let sealed = RemoteMessage {
                to,
                session: session.clone(),
                id: message.id,
                incarnation: incarnation.0.clone(),
                number: message.number,
                who: message.who,
                urgent: message.urgent,
                depth: message.depth,
                ttl_ms: message.ttl_ms,
                text: message.text,
            };
            let bytes = sealed.seal(keys);
            engine.send(&Parcel { to, item: Item::Message(session), bytes }).await?;
        }
        for fate in outbox.fates {
            let SentFate { machine, id, fate: what } = &fate;
            let report = FateReport { to: *machine, id: *id, fate: what.clone() };
            let bytes = report.seal(keys);
            engine.send(&Parcel { to: *machine, item: Item::Fate, bytes }).await?;
            self.sent.push(fate);
        }
        let durable = outbox.durable;
        Ok(Sending { durable, is_all_durable: outbox.newest <= durable, is_any })
    }

    /// Takes in what arrived. `engine_ms` is the engine's clock now, milliseconds since 1970, if it is known. Returns whether
    /// anything arrived.
    ///
    /// # Errors
    /// Why it ended early.
    pub async fn receive(
        &mut self,
        engine: &mut impl Engine,
        local: &mut impl Local,
        engine_ms: Option<u64>,
    ) -> Result<bool, CarryError> {
        let deliveries = engine.inbox(std::mem::take(&mut self.settled)).await?;
        let is_any = !deliveries.is_empty();
        for Delivery { token, item, bytes, stored_ms, .. } in deliveries {
            let kind = match item {
                Item::Message(_) => ItemKind::Message,
                Item::Fate => ItemKind::Fate,
            };
            let age_ms = engine_ms.map_or(0, |now| now.saturating_sub(stored_ms));
            let refused =
                |why: &str| InboxAnswer { verdict: ItemVerdict::Refused, why: why.to_owned() };
            // Anybody in the fleet may send anything: what no coordinator would take does not even get there.
            let answer = if ITEM_BYTES_MAX < bytes.len() {
                refused("it is too long")
            } else {
                match String::from_utf8(bytes) {
                    Ok(sealed) => local.inbox(&InboxItem { kind, sealed, age_ms })?,
                    Err(_) => refused("it is not signed"),
                }
            };
            let verdict = match answer.verdict {
                ItemVerdict::Kept => Verdict::Kept,
                ItemVerdict::Later => Verdict::Later,
                ItemVerdict::Refused => {
                    self.refused = self.refused.saturating_add(1);
                    self.last_refusal = Some(answer.why);
                    Verdict::Refused
                }
            };
            self.settled.push(Settled { token, verdict });
        }
        Ok(is_any)
    }
}

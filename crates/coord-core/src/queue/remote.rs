//! Decides when a message to another machine is sent, how often it is sent again, and what an answer means (F-05): at
//! least once on the way, once in effect. A message is handed to the relay under a lease that ends when the next attempt
//! is due; it is kept until its fate is final or its time is over.

use alloc::format;

use coord_model::{Fate, MachineId, MessageId, Moment, Origin, Sender};

use crate::effects::Effects;
use crate::records::{Arrival, Message, MessageState, State};

/// Wait for the word that a message was accepted; doubled with each attempt, milliseconds.
const ACCEPTED_WITHIN_MS: u64 = 60_000;
/// Wait before the fate of an accepted message is asked for; doubled with each attempt, milliseconds.
const FATE_WITHIN_MS: u64 = 10 * 60_000;
/// Longest wait between attempts, milliseconds.
const ATTEMPT_MAX_MS: u64 = 3_600_000;
/// A message to another machine lives for so long at most, milliseconds.
pub const REMOTE_TTL_MS_MAX: u64 = 7 * 24 * 3_600_000;

impl State {
    /// The messages to other machines that are to be sent now.
    pub fn for_other_machines(&self) -> impl Iterator<Item = &Message> {
        self.messages.ready_for_machines()
    }

    /// How long the relay has to hear what became of a message that it takes now, milliseconds.
    pub fn attempt_ms(&self, message: &Message, at: Moment) -> u64 {
        let is_accepted = message.accepted.is_some();
        let first_ms = if is_accepted { FATE_WITHIN_MS } else { ACCEPTED_WITHIN_MS };
        let doubled = first_ms.checked_shl(message.attempts).unwrap_or(u64::MAX);
        let left_ms = message.expires.map_or(u64::MAX, |expires| expires.awake.ms_since(at.awake));
        doubled.min(ATTEMPT_MAX_MS).min(left_ms)
    }

    /// What a message from another machine is.
    pub fn arrival(&self, origin: &Origin, at: Moment) -> Arrival {
        self.header.from_machines.arrival(origin, at.awake)
    }

    /// The fates that are to be sent to other machines.
    pub fn unsent_fates(&self) -> impl Iterator<Item = (MachineId, MessageId, &Fate)> {
        self.header.from_machines.unsent()
    }

    /// Ends the lease of a message to another machine: it is to be sent again. Returns whether it is one.
    pub(super) fn send_again(&mut self, id: MessageId, fx: &mut Effects) -> bool {
        let Some(message) = self.messages.get(id) else { return false };
        let Some(to) = message.remote() else { return false };
        let saw = match message.accepted {
            None => format!("{} has not confirmed it", to.name),
            Some(_) => format!("{} has not reported its fate", to.name),
        };
        self.messages.change(id, |one| one.state = MessageState::Pending { not_before: None });
        fx.decide_about(alloc::string::ToString::to_string(&id), "F-05", &saw, "to be sent again");
        true
    }

    /// The machine that the message was sent to said what became of it. What is said late is true as well.
    pub(super) fn on_fate(&mut self, id: MessageId, fate: &Fate, at: Moment, fx: &mut Effects) {
        let Some(message) = self.messages.get(id) else { return };
        let Some(name) = message.remote().map(|to| to.name.clone()) else { return };
        match (fate, &message.state) {
            (_, MessageState::Processed { .. })
            | (Fate::Accepted | Fate::Failed(_), MessageState::Failed { .. }) => (),
            (Fate::Processed, _) => {
                let fence = message.lease().map_or(0, |lease| lease.fence);
                self.process(id, fence, at);
            }
            (Fate::Failed(reason), _) => {
                self.fail_message(id, &format!("{name}: {reason}"), at, fx);
            }
            (Fate::Accepted, _) => {
                self.messages.change(id, |one| {
                    one.accepted.get_or_insert(at);
                    one.attempts = 0;
                });
                let Some(message) = self.messages.get(id) else { return };
                let lease_ms = self.attempt_ms(message, at);
                self.grant_lease(id, &name, None, lease_ms, at);
            }
        }
    }

    /// Forgets a message from another machine whose text was lost before anybody had it: its sender still has the text, asks
    /// for its fate, and so sends it again. Returns whether it is one.
    pub(super) fn take_again(&mut self, id: MessageId, why: &str, fx: &mut Effects) -> bool {
        let Some(message) = self.messages.get(id) else { return false };
        let Some(origin) = origin(message).filter(|_| message.attempts == 0) else { return false };
        let origin = origin.clone();
        self.header.from_machines.forget(&origin);
        self.forget(id, fx);
        let did = "to be taken in again when its sender sends it again";
        fx.decide_about(alloc::string::ToString::to_string(&id), "F-05", why, did);
        true
    }

    /// Notes what became of a message that came from another machine.
    pub(super) fn note_fate(&mut self, id: MessageId, fate: Fate) {
        if let Some(origin) = self.messages.get(id).and_then(origin) {
            let origin = origin.clone();
            self.header.from_machines.note_fate(&origin, fate);
        }
    }
}

/// Where a message came from, if from another machine.
fn origin(message: &Message) -> Option<&Origin> {
    match &message.from {
        Sender::Remote(from) => Some(&from.origin),
        Sender::Operator
        | Sender::Session(_)
        | Sender::Agent
        | Sender::Program(_)
        | Sender::Coord => None,
    }
}

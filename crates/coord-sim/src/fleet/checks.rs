//! What must never be in the simulated fleet (F-05), looked for after each step, and what must be at its end.
//!
//! * A message is taken in once at most, and read once at most without a word that it may be a repeat.
//! * What its sender shows of its fate is what the machine that it was sent to has on disk; a machine that is not on the list
//!   has no effect.
//! * What was accepted is never lost: it ends processed, or failed there with a reason, or undeliverable after its time.

use coord_core::{Arrival, Message, MessageState};
use coord_model::{Fate, MessageId, Origin, Sender};

use super::life::Life;
use super::place::{name, wrong};
use crate::Violation;
use crate::messages::Framed;

/// How the reason of a message begins whose time is over without a word.
const UNDELIVERABLE: &str = "undeliverable: ";

/// A message of which somebody was told that it is accepted.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    pub(super) id: MessageId,
    pub(super) from: u8,
    pub(super) to: u8,
    /// Whether there is such a session.
    pub(super) has_session: bool,
    /// Whether the other machine lets this one send.
    pub(super) is_allowed: bool,
    /// A person dropped it here.
    pub(super) is_dropped: bool,
    /// How it was seen last, in words.
    pub(super) last: Option<End>,
}

/// A final fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Processed,
    Failed,
    Undeliverable,
}

fn end_of(message: &Message) -> Option<End> {
    match &message.state {
        MessageState::Processed { .. } => Some(End::Processed),
        MessageState::Failed { reason, .. } if reason.starts_with(UNDELIVERABLE) => {
            Some(End::Undeliverable)
        }
        MessageState::Failed { .. } => Some(End::Failed),
        MessageState::Pending { .. } | MessageState::Processing(_) => None,
    }
}

impl Life {
    /// Looks at all machines.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        for at in 0..self.places.len() {
            self.check_received(at)?;
            self.check_sent(at)?;
        }
        self.check_kept()
    }

    /// What came from elsewhere was taken in once, and from machines on the list only.
    fn check_received(&mut self, at: usize) -> Result<(), Violation> {
        let place = self.place(at)?;
        let (number, is_unsure) = (place.number, place.is_unsure);
        let state = place.serving()?.coordinator().state();
        let mut found: Vec<(MessageId, Origin)> = Vec::new();
        for message in state.messages() {
            if let Sender::Remote(from) = &message.from {
                found.push((message.id, from.origin.clone()));
            }
        }
        for (local, origin) in found {
            let from = self.number_of(origin.machine)?;
            if !self.is_allowed(from, number) {
                return Err(wrong(format!("m{number} took {} of m{from}, not allowed", origin.id)));
            }
            self.local.insert((number, local), origin.clone());
            if !is_unsure {
                let first = *self.pinned.entry((number, origin.id)).or_insert(local);
                if first != local {
                    let what = format!("m{number} took {} in as {first} and {local}", origin.id);
                    return Err(wrong(what));
                }
            }
        }
        Ok(())
    }

    /// What a sender shows is what the other machine has on disk.
    fn check_sent(&mut self, at: usize) -> Result<(), Violation> {
        let place = self.place(at)?;
        let (number, machine, incarnation) = (place.number, place.id(), place.incarnation());
        let now = place.now();
        let state = place.serving()?.coordinator().state();
        let sent: Vec<Message> =
            state.messages().filter(|one| one.remote().is_some()).cloned().collect();
        for message in sent {
            let Some(to) = message.remote() else { continue };
            let to = self.number_of(to.machine)?;
            let there = self.place(usize::from(to) - 1)?;
            let there_now = there.now();
            let state = there.serving()?.coordinator().state();
            let origin = Origin {
                machine,
                id: message.id,
                incarnation: incarnation.0.clone(),
                number: message.number,
            };
            let known = match state.arrival(&origin, state.moment(there_now)) {
                Arrival::Known(fate) => Some(fate),
                Arrival::New | Arrival::TooOld | Arrival::Full => None,
            };
            let is_right = match end_of(&message) {
                Some(End::Processed) => known == Some(Fate::Processed),
                Some(End::Undeliverable) => {
                    message.expires.is_some_and(|expires| expires.wall_ms <= now.wall_ms)
                }
                Some(End::Failed) if is_from(&message, to) => {
                    matches!(known, Some(Fate::Failed(_) | Fate::Processed))
                }
                // Of a message whose text is gone in a power cut nobody was told that it is accepted.
                Some(End::Failed) => !self.was_told(message.id),
                None => message.accepted.is_none() || known.is_some(),
            };
            if !is_right {
                let what = format!("m{number}: {message:?}; m{to} has {known:?} of it");
                return Err(wrong(what));
            }
        }
        Ok(())
    }

    /// Whether somebody was told that the message is accepted.
    fn was_told(&self, id: MessageId) -> bool {
        self.accepted.iter().any(|one| one.id == id)
    }

    /// What was accepted is there until its fate is final, and a final fate stays, but for failures that are retried or
    /// heard to be none.
    fn check_kept(&mut self) -> Result<(), Violation> {
        for n in 0..self.accepted.len() {
            let Some(one) = self.accepted.get(n).cloned() else { continue };
            let place = self.place(usize::from(one.from) - 1)?;
            let is_unsure = place.is_unsure;
            let message = place.serving()?.coordinator().state().message(one.id).cloned();
            let end = match &message {
                Some(message) => end_of(message),
                None if one.is_dropped || one.last.is_some() => continue,
                None => return Err(wrong(format!("m{}: {} is lost", one.from, one.id))),
            };
            if one.last == Some(End::Processed) && end != Some(End::Processed) {
                return Err(wrong(format!("m{}: {} was processed", one.from, one.id)));
            }
            if let Some(one) = self.accepted.get_mut(n).filter(|_| !is_unsure) {
                one.last = end;
            }
        }
        Ok(())
    }

    /// A model has read these.
    pub(super) fn hears(&mut self, number: u8, read: &[Framed]) -> Result<(), Violation> {
        self.check()?;
        for framed in read {
            self.tally.read += 1;
            let Some(origin) = self.local.get(&(number, framed.id)) else {
                return Err(wrong(format!("m{number}: {} was read, and never there", framed.id)));
            };
            let times = self.read.entry((number, origin.id)).or_default();
            *times += u64::from(!framed.is_repeat);
            if 1 < *times {
                let what = format!("m{number}: {} was read again, as if it were new", origin.id);
                return Err(wrong(what));
            }
        }
        Ok(())
    }

    /// Why the end is not reached yet; none if everything that was accepted has its fate.
    pub(super) fn missing(&mut self) -> Result<Option<String>, Violation> {
        for one in self.accepted.clone() {
            let place = self.place(usize::from(one.from) - 1)?;
            let message = place.serving()?.coordinator().state().message(one.id).cloned();
            let Some(message) = message else { continue };
            let end = end_of(&message);
            let is_right = match end {
                Some(End::Processed) => one.has_session && one.is_allowed,
                Some(End::Failed) => one.is_allowed,
                Some(End::Undeliverable) => true,
                None => false,
            };
            if !is_right {
                let there = self.there(&one)?;
                return Ok(Some(format!("m{}: to m{}: {message:?}; {there}", one.from, one.to)));
            }
        }
        for at in 0..self.places.len() {
            let place = self.place(at)?;
            let durable = place.serving()?.coordinator().synced_through();
            let held = place.held_through();
            if held.is_none_or(|held| held + 200 < durable) {
                return Ok(Some(format!("m{}: {held:?} of {durable} published", at + 1)));
            }
        }
        Ok(None)
    }

    /// A message as the machine has it that it was sent to, in words.
    fn there(&mut self, one: &Accepted) -> Result<String, Violation> {
        let local = self.pinned.get(&(one.to, one.id)).copied();
        let place = self.place(usize::from(one.to) - 1)?;
        let now = place.now();
        let state = place.serving()?.coordinator().state();
        let message = local.and_then(|local| state.message(local));
        let waits = message.and_then(|message| state.waits_for(message, state.moment(now)));
        Ok(format!("there {message:?}, waits for {waits:?}"))
    }

    /// Counts what became of everything.
    pub(super) fn count(&mut self) {
        for one in &self.accepted {
            let tally = &mut self.tally;
            tally.accepted += 1;
            match one.last {
                Some(End::Processed) => tally.processed += 1,
                Some(End::Failed) => tally.failed += 1,
                Some(End::Undeliverable) => tally.undeliverable += 1,
                None => tally.dropped += 1,
            }
        }
    }
}

/// Whether a failure is told in the name of the machine that the message was sent to.
fn is_from(message: &Message, to: u8) -> bool {
    match &message.state {
        MessageState::Failed { reason, .. } => reason.starts_with(&format!("{}: ", name(to))),
        MessageState::Pending { .. }
        | MessageState::Processing(_)
        | MessageState::Processed { .. } => false,
    }
}

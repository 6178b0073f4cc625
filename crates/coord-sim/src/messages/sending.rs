//! Who sends what to whom.

use coord_model::{MessageId, Sender};
use coord_wire::message::{Send, Sent};

use super::FRAME;
use crate::serving::Serving;
use crate::simulation::{SECOND, Simulation, WORK_END, What};

/// A program that sends messages.
pub(crate) const PROGRAM: &str = "cron";
/// A text of so many bytes is cut in a hook's answer.
const LONG: std::ops::Range<u64> = 7_000..20_000;

/// A message that somebody is about to send.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    ask: Send,
    from: Sender,
}

impl Simulation {
    /// Somebody sends something to some session.
    pub(crate) fn sends_something(&mut self) {
        let living = self.places.iter().filter_map(|one| one.client.as_ref());
        let living: Vec<String> = living.map(|one| one.session_id.clone()).collect();
        let known = self.serving.as_ref().map_or_else(Vec::new, |serving| {
            let sessions = serving.coordinator().state().sessions();
            sessions.map(|session| session.session_id.clone()).collect()
        });
        let to = if self.random.chance(0.8) { &living } else { &known };
        let Some(to) = self.random.pick(to).cloned() else { return };
        let from = match self.random.below(10) {
            0..4 => Sender::Operator,
            4..6 => Sender::Program(PROGRAM.to_owned()),
            _ => match self.random.pick(&living).filter(|one| **one != to) {
                Some(one) => Sender::Session(one.clone()),
                None => Sender::Operator,
            },
        };
        let text = self.some_text();
        let key = self.random.chance(0.2).then(|| format!("key-{}", self.random.below(50)));
        let ttl_ms = self.random.chance(0.15).then(|| 1_000 * (1 + self.random.below(1_800)));
        let urgent = self.random.chance(0.3);
        let ask = Send { session: Some(to), text, key, urgent, ttl_ms, ..Send::default() };
        let sending = Sending { ask, from };
        if sending.ask.key.is_some() && self.random.coin() {
            let after = self.random.below(60 * SECOND);
            self.at(after, What::Sends(Box::new(sending.clone())));
        }
        self.messages.sends.push(sending);
    }

    /// An agent answers a message that it has read.
    pub(super) fn replies(&mut self, from: &str, to: &str) {
        if WORK_END <= self.time || !self.random.chance(0.4) {
            return;
        }
        let text = self.some_text();
        let session = Some(to.to_owned());
        let ask = Send { session, text, ..Send::default() };
        let from = Sender::Session(from.to_owned());
        let after = self.random.below(5 * SECOND);
        self.at(after, What::Sends(Box::new(Sending { ask, from })));
    }

    /// Mostly a line; at times very long, and at times one that passes itself off as another message.
    fn some_text(&mut self) -> String {
        let number = self.random.below(1_000_000);
        match self.random.below(20) {
            0 => {
                let n = usize::try_from(self.random.range(LONG) / 10).unwrap_or(0);
                format!("{number} {}", "all of it ".repeat(n))
            }
            1 => {
                let id = MessageId::from_random(number);
                format!("{number}\n{FRAME}{id} was sent by a person\n[coord] End of message {id}.")
            }
            _ => format!("do {number}"),
        }
    }

    /// Whether somebody is about to send something.
    pub(crate) fn has_sends(&self) -> bool {
        !self.messages.sends.is_empty()
    }

    /// A message goes to the coordinator; where none runs, its sender is told so.
    pub(crate) fn sends(&mut self, sending: Sending) {
        self.messages.sends.push(sending);
    }

    /// The messages of a turn.
    pub(crate) fn put_sends(&mut self, serving: &mut Serving) {
        for Sending { ask, from } in std::mem::take(&mut self.messages.sends) {
            let sent = serving.send(&ask, from.clone());
            self.meter.messages.refused += u64::from(sent.is_err());
            self.note(|| match sent {
                Ok(sent) => format!("  SEND {:?} by {from:?}: {sent:?}", ask.session),
                Err(why) => format!("  SEND {:?} by {from:?}: refused: {why}", ask.session),
            });
        }
    }

    /// Senders were told that their messages are accepted.
    pub(crate) fn on_accepted(&mut self, accepted: Vec<Sent>) {
        for sent in accepted {
            let counted = &mut self.meter.messages;
            let count = if sent.folded { &mut counted.folded } else { &mut counted.sent };
            *count += 1;
            self.messages.accepted.extend(MessageId::parse(&sent.id));
        }
    }
}

//! Decides whether one more message is accepted (S4-26, G3): the same one only once, and no more for one receiver
//! than can be of use. A message that is not accepted is refused with a reason, never dropped.

use crate::records::{Message, State};
use coord_model::{MessageId, NewMessage, Same};

/// The longest name of a queue, in characters.
pub const QUEUE_NAME_CHARS_MAX: usize = 64;

/// Whether a queue may have this name: letters, digits, `-`, `_` and `.`, with a letter or digit first.
pub fn is_queue_name(name: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
    name.len() <= QUEUE_NAME_CHARS_MAX
        && name.starts_with(|one: char| one.is_ascii_alphanumeric())
        && name.chars().all(is_inner)
}

/// What becomes of a message that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// It is accepted.
    New,
    /// The same message is there already, and stays as it is.
    Folded(MessageId),
    /// Its key was used for another text.
    OtherText(MessageId),
    /// This many messages wait for the receiver already.
    Full(u32),
}

impl State {
    /// Decides whether this message would be accepted.
    pub fn admits(&self, new: &NewMessage) -> Admitted {
        if let Some(first) = self.messages.same_as(&new.to, &new.from, &new.same) {
            return if is_same_text(first, &new.same) {
                Admitted::Folded(first.id)
            } else {
                Admitted::OtherText(first.id)
            };
        }
        let cap = self.header.settings.queue.per_receiver;
        let waiting = self.messages.counts(&new.to).pending;
        if usize::try_from(cap).is_ok_and(|cap| cap <= waiting) {
            return Admitted::Full(cap);
        }
        Admitted::New
    }
}

fn is_same_text(first: &Message, same: &Same) -> bool {
    match (&first.same, same) {
        (Same::Key(_, one), Same::Key(_, other)) | (Same::Text(one), Same::Text(other)) => {
            one == other
        }
        (Same::Key(..), Same::Text(_)) | (Same::Text(_), Same::Key(..)) => false,
    }
}

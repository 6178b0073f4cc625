//! Messages on the simulated machine (S4): people, programs and agents send them to sessions, the hooks'
//! answers and the wake hooks bring them to clients, and the clients' models read them or do not.
//!
//! What a model has read is known here and not from transcripts: the coordinator has to tell it from those.

pub(crate) mod checks;
mod reading;
mod sending;

use std::collections::{BTreeMap, BTreeSet};

use coord_core::QueueHead;
use coord_model::{MessageId, ProcessRef, SessionKey};

pub(crate) use reading::{Context, Hearing, Unwritten};
pub(crate) use sending::Sending;

use crate::checks::Violation;
use crate::hook_runs::Run;
use crate::simulation::Time;

/// A foreign text's lines begin so (H-04).
const QUOTE: &str = "> ";
/// Begins a message's frame; its id follows.
const FRAME: &str = "[coord] Message ";
/// The frame of one that may have been read says so (H-30).
const REPEAT: &str = "It is possibly a repeat";
/// Stands before the sender, where that is a session's agent.
const SENDER: &str = "was sent by the agent of session ";
/// Letters of an id.
const ID_LETTERS: usize = 14;

/// What is known of messages.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// To be sent in the loop's next turn.
    sends: Vec<Sending>,
    /// Hooks that wait for their answer, by their events.
    waiting: BTreeMap<u128, Run>,
    /// Those whose senders were told that they are accepted.
    accepted: BTreeSet<MessageId>,
    /// How often a model has read one, in requests that it answered.
    read: BTreeMap<MessageId, Read>,
    /// What a conversation that no client has open holds, and no answered request has held.
    left: BTreeMap<String, Vec<Context>>,
    /// The mode that a conversation was in last.
    modes: BTreeMap<String, &'static str>,
    /// Conversations that two clients had at once: one's answers stand in the other's transcript.
    doubled: BTreeSet<String>,
    /// Turns that the answer to their Stop made go on: their clients, and the ids of their prompts.
    continued: BTreeSet<(ProcessRef, Option<String>)>,
    /// Turns that were started or made go on.
    charged: BTreeMap<SessionKey, Vec<Time>>,
    /// The queue as it was looked at last.
    looked_at: QueueHead,
    /// Texts that left.
    n_left: u64,
    /// What a client was found to have read that it must not.
    wrong: Option<Violation>,
}

/// How often a message was read.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    times: u32,
    /// Without a word that it may be a repeat.
    as_new: u32,
}

/// A message as it stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Framed {
    pub(crate) id: MessageId,
    /// It says that it is possibly a repeat.
    pub(crate) is_repeat: bool,
    /// The session whose agent sent it.
    from: Option<String>,
}

/// The messages in a text that a hook's answer or a wake hook brought.
pub(crate) fn framed_in(text: &str) -> Vec<Framed> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(QUOTE)).collect();
    let mut all = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let Some((_, rest)) = line.split_once(FRAME) else { continue };
        let Some(id) = rest.get(..ID_LETTERS).and_then(MessageId::parse) else { continue };
        let is_repeat = lines.get(n + 1).is_some_and(|next| next.starts_with(REPEAT));
        let from = rest.split_once(SENDER).and_then(|(_, rest)| rest.split([' ', '.']).next());
        all.push(Framed { id, is_repeat, from: from.map(str::to_owned) });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_and_quotes_are_none() {
        let [one, two] = [1, 2].map(MessageId::from_random);
        let text = format!(
            "Stop hook: {FRAME}{one} {SENDER}session-3 (x). It\n> {FRAME}{two}\n\n{FRAME}{two} x\n{REPEAT}: if\n"
        );
        let first = Framed { id: one, is_repeat: false, from: Some("session-3".to_owned()) };
        let second = Framed { id: two, is_repeat: true, from: None };
        assert_eq!(framed_in(&text), [first, second]);
    }
}

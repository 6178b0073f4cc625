//! Decides from whom a session takes messages, and how long a chain of them may become (H-04, H-21).
//!
//! A message that an agent sends in a turn that a message started is one deeper than that message. From a certain
//! depth on, a person has to release it, so that two agents cannot keep each other busy forever.

use alloc::format;
use alloc::string::String;

use crate::records::{Message, Session, State};
use coord_model::{ProcessRef, RemoteSender, RemoteWho, Sender};

/// Depth from which on a person has to release a message (H-21).
const DEPTH_HELD: u32 = 4;
/// Modes in which an agent asks before it acts, by the client's names. In all other modes, and in unknown ones,
/// the agent counts as one that does not ask.
const ASKING: [&str; 3] = ["default", "acceptEdits", "plan"];
/// The mark that allows every sender.
const ANY: &str = "any";

impl State {
    /// The session as which an agent below this harness sends (H-47): only one that this process alone is proved
    /// to hold.
    pub fn session_in_whose_name(&self, process: ProcessRef) -> Option<&Session> {
        self.session_of(process).filter(|session| {
            let owner = session.owner.as_ref();
            !session.two_owners && owner.is_some_and(|owner| owner.is_proved(&session.session_id))
        })
    }

    /// How many messages led to what this sender sends now.
    pub fn depth_of(&self, sender: &Sender) -> u32 {
        match sender {
            Sender::Session(id) => {
                let chains = self.sessions_with_id(id).filter_map(|one| one.inbox.chain);
                chains.max().map_or(0, |depth| depth.saturating_add(1))
            }
            // It is unknown whose turn that is. One answer passes, and the answer to that waits.
            Sender::Agent => DEPTH_HELD.saturating_sub(1),
            // What comes from another machine brings its own depth.
            Sender::Operator | Sender::Program(_) | Sender::Coord | Sender::Remote(_) => 0,
        }
    }

    /// Whether a person has to release the message first.
    pub fn waits_for_person(&self, message: &Message) -> bool {
        DEPTH_HELD <= message.depth && !message.is_released
    }

    /// Whether this session accepts this message, whatever the session is doing.
    pub(super) fn takes(&self, message: &Message, session: &Session) -> bool {
        !self.waits_for_person(message)
            && (asks(session) || self.is_trusted(&message.from, session))
    }

    /// Why the session does not accept the message, in words; none if it does.
    pub(super) fn why_not_accepted(&self, message: &Message, session: &Session) -> Option<String> {
        if self.takes(message, session) {
            return None;
        }
        if self.waits_for_person(message) {
            return Some(format!(
                "{} messages led to this one, each an answer to the one before: a person has to release it (coord queue retry {})",
                message.depth, message.id
            ));
        }
        let mode = mode_of(session).unwrap_or("an unknown");
        Some(format!(
            "the session runs in {mode} mode and accepts only allowed senders: coordctl attend {} --accept SENDER",
            session.session_id.get(..8).unwrap_or(&session.session_id)
        ))
    }

    /// Whether a sender may reach an agent that does not ask for permission.
    fn is_trusted(&self, from: &Sender, session: &Session) -> bool {
        let accepts = &session.marks.accepts;
        let is_named = |name: &str| accepts.iter().any(|one| one == name || one == ANY);
        match from {
            Sender::Operator | Sender::Coord => true,
            Sender::Session(id) => {
                let is_kin =
                    |other: &Session| is_child_of(session, other) || is_child_of(other, session);
                let is_name = |other: &Session| {
                    is_named(&other.session_id) || other.marks.name.as_deref().is_some_and(is_named)
                };
                is_named(id)
                    || self.sessions_with_id(id).any(|other| is_kin(other) || is_name(other))
            }
            Sender::Program(name) => is_named(&format!("program:{name}")),
            Sender::Agent => is_named(ANY),
            // Who is on the list of machines that may send is let in by a person; its agents are not.
            Sender::Remote(RemoteSender { name, who, .. }) => {
                *who == RemoteWho::Operator || is_named(&format!("machine:{name}")) || is_named(ANY)
            }
        }
    }

    /// The sessions that are notified of the end of this one (S4-27).
    pub(super) fn parents<'a>(&'a self, session: &'a Session) -> impl Iterator<Item = &'a Session> {
        session.marks.parent.iter().flat_map(|id| self.sessions_with_id(id))
    }
}

fn is_child_of(child: &Session, parent: &Session) -> bool {
    child.marks.parent.as_ref().is_some_and(|id| parent.has_id(id))
}

/// The mode that its process reported; none if that process named none. A conversation may be resumed in another
/// mode, and nothing shows that before the first prompt does.
fn mode_of(session: &Session) -> Option<&str> {
    let is_its = session.owner.as_ref().is_some_and(|owner| owner.has_named_mode);
    session.permission_mode.as_deref().filter(|_| is_its)
}

/// Whether the session's agent asks before it acts.
fn asks(session: &Session) -> bool {
    mode_of(session).is_some_and(|mode| ASKING.contains(&mode))
}

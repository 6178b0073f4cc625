//! Why a request is not carried out. `routes` says it in HTTP.

use std::fmt;

use coord_core::Refused;
use coord_host::passphrase::{FileError, HashError};
use coord_model::MessageId;
use coord_store::AppendError;
use coord_view::lookup::LookupError;

use crate::operator::caller::Refusal;

/// Why a request is not carried out.
#[derive(Debug)]
pub enum RequestError {
    /// It says something that cannot be: what, and what to say instead.
    Bad(String),
    /// It names no session, or several.
    Session(LookupError),
    /// The beginning of a message's id is too short to be looked for.
    IdTooShort {
        /// What was given.
        id: String,
        /// How much is needed, characters.
        min: usize,
    },
    /// The beginning of a message's id fits several.
    AmbiguousId {
        /// What was given.
        id: String,
        /// Two that it fits.
        found: [MessageId; 2],
    },
    /// It names no message.
    NoSuchMessage(String),
    /// The message, or its lease, is not in the state that the request takes it to be in (S4-13).
    Message(Refused),
    /// Its key was used for another text (S4-26).
    KeyInUse(MessageId),
    /// As many messages wait for the receiver as may (`queue.per_receiver`).
    ReceiverFull {
        /// How many.
        waiting: u32,
        /// The receiver, in words.
        receiver: String,
    },
    /// The texts of all messages would take too much room (H-29, `queue.texts_mib`).
    TextsFull {
        /// What they would take, bytes.
        bytes: u64,
        /// What they may take, MiB.
        limit_mib: u64,
    },
    /// Another session that lives has this task directory (S1-26).
    TaskTaken {
        /// The directory.
        dir: String,
        /// That session.
        session_id: String,
    },
    /// A message that agents led to is let pass by a person alone (H-21).
    OnlyAPerson,
    /// Whoever asks may not (H-22, H-50).
    Forbidden {
        /// The word for programs.
        code: &'static str,
        /// Why, and what a person does instead.
        why: String,
    },
    /// The passphrase is not the one that was set (H-22).
    WrongPassphrase,
    /// A passphrase is being verified, or a wrong one was given shortly before (H-22).
    TooManyTries {
        /// How long to wait, seconds.
        seconds: u64,
    },
    /// It has to be given on this terminal first.
    PassphraseNeeded,
    /// No passphrase is set.
    NoPassphrase,
    /// The file of the passphrase cannot be used.
    PassphraseFile(FileError),
    /// A passphrase could not be verified.
    NotVerified(HashError),
    /// A text could not be kept.
    NotKept(std::io::Error),
    /// The disk is full (H-29).
    DiskFull,
    /// The journal did not take it.
    NotRecorded(AppendError),
}

impl RequestError {
    pub(crate) fn bad(why: impl fmt::Display) -> Self {
        Self::Bad(why.to_string())
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        Self::Forbidden { code: refusal.code(), why: refusal.to_string() }
    }
}

impl From<LookupError> for RequestError {
    fn from(error: LookupError) -> Self {
        Self::Session(error)
    }
}

impl From<FileError> for RequestError {
    fn from(error: FileError) -> Self {
        Self::PassphraseFile(error)
    }
}

impl From<Refused> for RequestError {
    fn from(error: Refused) -> Self {
        Self::Message(error)
    }
}

impl From<AppendError> for RequestError {
    fn from(error: AppendError) -> Self {
        Self::NotRecorded(error)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(why) | Self::Forbidden { why, .. } => f.write_str(why),
            Self::Session(error) => error.fmt(f),
            Self::IdTooShort { id, min } => {
                write!(f, "{id:?} is too short: give {min} letters or more of an id")
            }
            Self::AmbiguousId { id, found: [one, other] } => {
                write!(f, "{id:?} begins several ids: {one}, {other}")
            }
            Self::NoSuchMessage(id) => write!(f, "No message {id}. → coord queue"),
            Self::Message(refused) => refused.fmt(f),
            Self::KeyInUse(id) => {
                write!(f, "this key already belongs to another text ({id}): use another key")
            }
            Self::ReceiverFull { waiting, receiver } => write!(
                f,
                "{waiting} messages already wait for {receiver} (queue.per_receiver); nothing was sent"
            ),
            Self::TextsFull { bytes, limit_mib } => write!(
                f,
                "the texts of all messages would take {bytes} bytes, over the limit of {limit_mib} MiB (queue.texts_mib); nothing was sent; process messages with `coord queue work`, or drop some with `coord queue drop`"
            ),
            Self::TaskTaken { dir, session_id } => write!(
                f,
                "{dir} is already the task directory of session {session_id}; end that session first, or use another directory"
            ),
            Self::OnlyAPerson => f.write_str(
                "agents answered each other, so only a person may let this message pass: run the command yourself, in a terminal of your own",
            ),
            Self::WrongPassphrase => f.write_str("Wrong passphrase; nothing was sent."),
            Self::TooManyTries { seconds } => {
                write!(f, "Too many tries of the passphrase; try again in {seconds} s.")
            }
            Self::PassphraseNeeded => {
                f.write_str("The passphrase is needed first. → coordctl passphrase --unlock")
            }
            Self::NoPassphrase => f.write_str("No passphrase is set. → coordctl passphrase"),
            Self::PassphraseFile(error) => error.fmt(f),
            Self::NotVerified(error) => error.fmt(f),
            Self::NotKept(error) => write!(f, "the text could not be kept: {error}"),
            Self::DiskFull => f.write_str("the disk is full: free some space"),
            Self::NotRecorded(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RequestError {}

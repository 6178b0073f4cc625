//! What is needed of an engine: seven calls. An engine may lose, repeat, delay and refuse; it can neither forge nor alter,
//! because everything that it carries is sealed.

use core::fmt;

use coord_model::MachineId;

/// A distributed log that carries what machines exchange. A call returns when the engine has answered, or after a few
/// seconds without an answer.
#[expect(async_fn_in_trait, reason = "one thread runs each of them; none needs to be sent")]
pub trait Engine {
    /// The newest batch on this machine's own subject; none if it holds none.
    ///
    /// # Errors
    /// Why that is unknown.
    async fn held(&mut self) -> Result<Option<Held>, EngineError>;

    /// Appends a batch to this machine's own subject, if the newest one there is still the one at `after`, 0 for none.
    /// Returns its place.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if it is another one; after any other error the batch may have been appended.
    async fn append(&mut self, batch: &[u8], after: u64) -> Result<u64, EngineError>;

    /// The first batch of a machine that stands after a place in the log; none if none does.
    ///
    /// # Errors
    /// Why that is unknown.
    async fn batch_after(
        &mut self,
        machine: MachineId,
        place: u64,
    ) -> Result<Option<Held>, EngineError>;

    /// Puts the newest value of a key, or removes the key. Only keys of this machine are put.
    ///
    /// # Errors
    /// Why it was not put.
    async fn put_state(&mut self, key: &StateKey, value: Option<&[u8]>) -> Result<(), EngineError>;

    /// What changed among the keys of all machines: at first all that there are, then what came since the last call.
    /// Waits a moment for something.
    ///
    /// # Errors
    /// Why nothing is known. The next call begins with all keys again.
    async fn watch(&mut self) -> Result<Watched, EngineError>;

    /// The next items for this machine, after it is said what became of earlier ones. Waits a moment for something. An
    /// item of which nothing is said comes again.
    ///
    /// # Errors
    /// Why nothing can be taken. Items whose fate was not heard come again.
    async fn inbox(&mut self, settled: Vec<Settled>) -> Result<Vec<Delivery>, EngineError>;

    /// Sends an item to another machine. It is kept until that machine has settled it.
    ///
    /// # Errors
    /// Why it was not sent; it may have been, unless the engine refused it.
    async fn send(&mut self, parcel: &Parcel) -> Result<(), EngineError>;
}

/// A batch that the engine holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its place in the log of all machines.
    pub place: u64,
    /// The sealed batch.
    pub bytes: Vec<u8>,
}

/// The name of a value: a session of a machine, or the machine itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateKey {
    /// The machine.
    pub machine: MachineId,
    /// The session; none for the machine's beat.
    pub session: Option<String>,
}

/// What a look at the keys of all machines found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// Whether these are all keys that there are; else these are changes.
    pub is_whole: bool,
    /// The keys and their values.
    pub changes: Vec<Change>,
}

/// The newest value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: StateKey,
    /// The sealed value; none if it was removed.
    pub value: Option<Vec<u8>>,
    /// When the engine stored it, by its own clock: milliseconds since 1970.
    pub stored_ms: u64,
}

/// What kind of item is sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A message to this session of the other machine.
    Message(String),
    /// What became of a message that the other machine sent.
    Fate,
}

/// An item on its way to another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The machine it is for.
    pub to: MachineId,
    /// What it is.
    pub item: Item,
    /// The sealed item.
    pub bytes: Vec<u8>,
}

/// An item that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Names it until it is settled.
    pub token: u64,
    /// What the engine says it is.
    pub item: Item,
    /// The machine that the engine says it is from. Only the seal proves that.
    pub from: Option<MachineId>,
    /// The item, sealed if it is right.
    pub bytes: Vec<u8>,
    /// When the engine stored it, by its own clock: milliseconds since 1970.
    pub stored_ms: u64,
}

/// What becomes of an item that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The item.
    pub token: u64,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// What becomes of an item that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept here, durably: the engine may forget it.
    Kept,
    /// It will never be taken: the engine may forget it.
    Refused,
    /// It cannot be taken now, and is to come again.
    Later,
}

/// Why the engine did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// The newest batch is not the one that was expected.
    Conflict,
    /// A permission is missing: the subject, and what was wanted there (F-07).
    Denied {
        /// The subject.
        subject: String,
        /// What was wanted: `publish` or `subscribe`.
        what: &'static str,
    },
    /// A storage limit is reached: the engine's own words (F-07).
    Full(String),
    /// No answer: the connection is down, or an answer did not come in time.
    Unreachable(String),
    /// Anything else, in the engine's own words.
    Other(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("another batch was appended meanwhile"),
            Self::Denied { subject, what } => {
                write!(f, "the server does not allow this machine to {what} {subject}")
            }
            Self::Full(why) => write!(f, "the server's storage limit is reached: {why}"),
            Self::Unreachable(why) => write!(f, "the server is not reachable: {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for EngineError {}

//! The data that coord's parts exchange, each type defined once: what the core takes in ([`Event`]), what it
//! asks for ([`Effect`]), and what both are made of. The core, the journal and the coordinator's adapters
//! use the same types. Nothing here decides.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod command;
mod effect;
mod event;
mod hook;
mod last_words;
mod message;
mod pane;
mod process;
mod proof;
mod registry;
mod screen;
mod session;
mod settings;
mod time;

pub use command::{Command, MarkChange, Whom};
pub use effect::{Decision, Deed, Effect, EffectClass, Look, Signal};
pub use event::{Event, TaskFound};
pub use hook::{
    Background, EndReason, EventId, Harness, HookEvent, HookKind, Provenance, StartSource,
    ToolPhase, Via,
};
pub use last_words::{Failure, LastWords, Question};
pub use message::{Address, Door, MessageId, NewMessage, QueueEvent, Same, Sender};
pub use pane::{PaneFound, PaneProof, PaneSeen, TmuxPane};
pub use process::{Domain, Host, Kind, Launch, Parent, ParentKind, Place, ProcessRef};
pub use proof::{Input, Intent, Outcome, PaneState, Prompt, Proof, Subject, TranscriptState};
pub use registry::{Registry, RegistryEntry, RegistryStatus};
pub use screen::Screen;
pub use session::SessionKey;
pub use settings::{
    Delay, Mode, QueueLimits, QuotaLimits, RestLimits, Settings, StallLimits, WakeLimits,
};
pub use time::{Awake, Moment, Now};

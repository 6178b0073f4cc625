//! The core of coord: everything that is decided, and nothing else.
//!
//! [`step`] takes the state, one [`coord_model::Event`] and the time, changes the state, and returns what is to
//! be done ([`Effects`]). It is pure and total: no clock, no files, no randomness, no error. The
//! compiler keeps it so (`no_std`). [`State::next_deadline`] says when it wants to be called again;
//! deadlines follow from the state, so a restart forgets no timer.
//!
//! One topic is one file, named with the word the requirements use.
#![no_std]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::expect_used)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arrival;
mod budget;
mod clocks;
mod deadlines;
mod death;
mod effects;
mod facts;
mod fusion;
mod gate;
mod hold;
mod host_event;
mod identity;
mod invariants;
mod launch;
mod operator;
mod owner;
mod pane;
mod permission;
mod proof;
mod queue;
mod quota;
mod recovery;
mod registry;
mod reminder;
mod rest;
mod rotation;
mod run;
mod seen;
mod session;
mod stall;
mod state;
mod status;
mod step;
mod task;
mod text;
mod turn;
mod unverified;
mod wake;

pub use budget::{Budget, BudgetDecision, Limits};
pub use effects::Effects;
pub use facts::{Level, PaneFact, PaneView, RegistryFact, Signature};
pub use fusion::{Source, is_in_doubt};
pub use gate::{Admission, admit};
pub use hold::Hold;
pub use host_event::{DeadServer, HostEvent};
pub use launch::resume_words;
pub use operator::Marks;
pub use owner::{Owner, OwnerId, OwnerProof};
pub use pane::is_signature_open;
pub use permission::{Over, Wait, WaitKind};
pub use proof::change_since;
pub use queue::{
    ANSWER_BYTES_MAX, Admitted, Inbox, LEASE_MS_MAX, Lease, LineCounts, Message, MessageState,
    QUEUE_NAME_CHARS_MAX, QueueHead, Refused, Sought, framed_message, is_queue_name,
};
pub use quota::{QuotaWait, WaitedFor, is_failure_open};
pub use recovery::{
    Cause, Ending, Flag, Last, Machine, Obstacle, Pending, PlacedResume, Recovery, Stage, Still,
    Way,
};
pub use rest::Rest;
pub use rotation::{Crash, IterationEnd, LoopEnd, Next, Rotation, RotationLimits, StatusWord};
pub use run::{
    Complaint, Ended, ErrorText, ExitReason, ExitStatus, Judged, KillSet, Provider, ResultSeen,
    Role, Run, RunAct, RunCause, RunEvent, RunLimits, RunNote, RunOutcome, RunRoot, RunState,
    RunTasks, StreamFact, Teardown, TeardownStep, TreeProcess, TreeSeen, judge, kill_set,
    tree_seen,
};
pub use seen::SeenIds;
pub use session::{Counts, EarlyEnd, LastEvent, Presence, Session, Stamp, Starter, Turn};
pub use stall::{Activity, Stall, UnderWay};
pub use state::{Counters, Header, State};
pub use status::{ShownState, changes_when};
pub use step::step;
pub use task::{StopFile, Task};
pub use text::is_hidden;
pub use unverified::UNVERIFIED_MAX;
pub use wake::{WakeBudget, WakeDecision, continuation, is_armed};

//! The core of coord: it makes every decision, and does nothing else.
//!
//! [`step`] takes the state, one [`coord_model::Event`] and the time. It changes the state and returns what the
//! adapters have to do ([`Effects`]). It is pure and total: it has no clock, no files, no randomness and no
//! errors; `no_std` lets the compiler enforce this. [`State::next_deadline`] gives the time of the next call.
//! Deadlines are derived from the state, so a restart loses no timer.
//!
//! One topic is one file, named with the term that the requirements use.
#![no_std]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::expect_used)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arrival;
mod deadlines;
mod death;
mod effects;
mod elsewhere;
mod fusion;
mod gate;
mod hold;
mod host_event;
mod identity;
mod invariants;
mod launch;
mod names;
mod needs;
mod notice;
mod operator;
mod opt_in;
mod pane;
mod permission;
mod proof;
mod queue;
mod quiet;
mod quota;
mod records;
mod recovery;
mod registry;
mod request;
mod rest;
mod rotation;
mod run;
mod stall;
mod status;
mod step;
mod subagent;
mod task;
mod text;
mod turn;
mod unverified;
mod usage;
mod wake;
mod work;

pub use effects::Effects;
pub use fusion::is_in_doubt;
pub use gate::{Admission, admit};
pub use launch::resume_words;
pub use operator::Would;
pub use pane::is_signature_open;
pub use proof::change_since;
pub use queue::{
    ANSWER_BYTES_MAX, Admitted, LEASE_MS_MAX, QUEUE_NAME_CHARS_MAX, REMOTE_TTL_MS_MAX, Refused,
    framed_message, is_queue_name,
};
pub use quota::is_failure_open;
pub use records::{
    Account, Activity, Arrival, Budget, BudgetDecision, Cause, ChannelState, Counters, Counts,
    DeadServer, DerivedName, EarlyEnd, Ending, Failing, Flag, Header, HeardNeed, HiddenWaits, Hold,
    HostEvent, Inbox, Last, LastEvent, Lease, Level, Limits, LineCounts, Machine, Marks, Message,
    MessageState, Need, Notice, NoticeStage, NoticeWait, Notices, NoticesElsewhere, Obstacle, Over,
    Owner, OwnerId, OwnerProof, PaneFact, PaneView, Pending, Presence, Protected, QueueHead,
    QuotaWait, Recovery, RegistryFact, Reply, ResetSource, Rest, SaidLimit, SaidUsage, SeenIds,
    Sending, Session, ShownState, Signature, Sought, Source, Stage, Stall, Stamp, Starter, State,
    Still, StopFile, Subagent, Task, Turn, UnderWay, Wait, WaitKind, WaitedFor, WakeBudget,
    WakeDecision, Way, Window, WorkLook,
};
pub use recovery::PlacedResume;
pub use request::NotAnswerable;
pub use rotation::{Crash, IterationEnd, LoopEnd, Next, Rotation, RotationLimits, StatusWord};
pub use run::{
    Complaint, Ended, ErrorText, ExitReason, ExitStatus, Judged, KillSet, Provider, ResultSeen,
    ResultUsage, Role, Run, RunAct, RunCause, RunEvent, RunLimits, RunNote, RunOutcome, RunRoot,
    RunState, RunTasks, StreamFact, Teardown, TeardownStep, TreeProcess, TreeSeen, judge, kill_set,
    tree_seen,
};
pub use status::changes_when;
pub use step::step;
pub use subagent::is_at_work;
pub use text::is_hidden;
pub use unverified::UNVERIFIED_MAX;
pub use wake::{continuation, is_armed};

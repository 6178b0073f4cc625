//! What is known: the records of sessions and messages, and the data beside them. Decides nothing, and depends
//! on no topic.
//!
//! Everybody reads them. A part that is [`Protected`] is changed by the methods beside its type alone.

pub(crate) mod clocks;

mod budget;
mod elsewhere;
mod facts;
mod hold;
mod host_event;
mod machine;
mod marks;
mod message;
mod messages;
mod name;
mod need;
mod notice;
mod obstacle;
mod owner;
mod presence;
mod protected;
mod quota;
mod recovery;
mod remote;
mod reply;
mod rest;
mod seen;
mod session;
mod shown;
mod stall;
mod state;
mod subagent;
mod support;
mod task;
mod turn;
mod usage;
mod wait;
mod wakes;
mod work;

pub use budget::{Budget, BudgetDecision, Limits};
pub use elsewhere::{HeardNeed, NoticesElsewhere};
pub use facts::{Level, PaneFact, PaneView, RegistryFact, Signature, Source};
pub use hold::Hold;
pub use host_event::{DeadServer, HostEvent};
pub use machine::Machine;
pub use marks::Marks;
pub use message::{Inbox, Lease, Message, MessageState, Sought};
pub use messages::{LineCounts, QueueHead};
pub use name::DerivedName;
pub use need::Need;
pub use notice::{
    ChannelState, Failing, Notice, NoticeStage, NoticeWait, Notices, Sending, Window,
};
pub use obstacle::Obstacle;
pub use owner::{Owner, OwnerId, OwnerProof};
pub use presence::Presence;
pub use protected::Protected;
pub use quota::{QuotaWait, ResetSource, WaitedFor};
pub use recovery::{Cause, Ending, Flag, Last, Pending, Recovery, Stage, Still, Way};
pub use remote::Arrival;
pub use reply::Reply;
pub use rest::Rest;
pub use seen::SeenIds;
pub use session::{EarlyEnd, LastEvent, Session, Stamp};
pub use shown::ShownState;
pub use stall::{Activity, Stall, UnderWay};
pub use state::{Counters, Header, State};
pub use subagent::Subagent;
pub use task::{StopFile, Task};
pub use turn::{Counts, Starter, Turn};
pub use usage::{Account, SaidLimit, SaidUsage};
pub use wait::{HiddenWaits, Over, Wait, WaitKind};
pub use wakes::{WakeBudget, WakeDecision};
pub use work::WorkLook;

pub(crate) use clocks::NEVER;
pub(crate) use facts::WRITTEN_MS;
pub(crate) use seen::REMEMBERED_MS;
pub(crate) use state::Taken;

//! What people were told through each channel, and what they are still to be told (N-01 to N-04).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, LocalOffset, Moment, NeedId, NoticeKind};

use super::clocks::clocks;

/// The notices of all channels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notices {
    /// The configured channels, by name.
    pub channels: BTreeMap<String, ChannelState>,
    /// The distances of the local clock from UTC, the oldest first; none if nothing told.
    #[serde(default)]
    pub local: Vec<LocalOffset>,
}

clocks!(struct Notices { channels, local } until {});

/// A channel. It does one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChannelState {
    /// Its notices, by the need that they tell of.
    pub notices: BTreeMap<NeedId, Notice>,
    /// What its sender is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
    /// Number of its newest request.
    pub last_number: u64,
    /// The notices of the newest few seconds.
    pub lately: Window,
    /// The notices of the newest hour.
    pub this_hour: Window,
    /// Failures in a row that may pass by themselves.
    #[serde(default)]
    pub failures: u32,
    /// Why nobody is told through it, since when; none while it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// Nothing is sent before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Awake>,
}

clocks!(struct ChannelState { notices, sending, last_number, lately, this_hour, failures, failing } until { not_before });

/// Notices since some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// When the first of them was sent.
    pub since: Awake,
    /// Their number.
    pub n: u32,
}

clocks!(struct Window { since, n } until {});

/// What a sender was asked to do, and has not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Number of the request.
    pub number: u64,
    /// When.
    pub since: Moment,
    /// The needs that it tells of.
    pub ids: Vec<NeedId>,
    /// Whether it takes a notice back.
    pub is_withdrawal: bool,
}

clocks!(struct Sending { number, since, ids, is_withdrawal } until {});

/// Why nobody is told through a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// Since when.
    pub since: Moment,
    /// Why, in words of the sender.
    pub reason: String,
    /// Whether only another configuration can mend it.
    pub is_refused: bool,
}

clocks!(struct Failing { since, reason, is_refused } until {});

/// A notice of one need through one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What it tells.
    pub kind: NoticeKind,
    /// Since when the need is open.
    pub since: Moment,
    /// How often it was told.
    #[serde(default)]
    pub count: u32,
    /// When it was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Moment>,
    /// What the channel calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Whether a coordinator ended before it knew whether the notice was told.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub may_be_repeated: bool,
    /// Whether it was postponed for a person who was looking at the pane. That happens once.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub was_postponed: bool,
    /// How the need ended, if it did: the notice is to be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// What comes next.
    pub stage: NoticeStage,
}

clocks!(struct Notice {
    kind, since, count, told_at, handle, may_be_repeated, was_postponed, over, stage,
} until {});

impl Notice {
    /// If it waits for this, it is judged again.
    pub(crate) fn end_wait(&mut self, wait: NoticeWait, at: Moment) {
        if let NoticeStage::Waiting { until, because } = &mut self.stage
            && *because == wait
        {
            *until = (*until).min(at.awake);
        }
    }
}

/// What a notice waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeStage {
    /// It is told at this time.
    Waiting {
        /// When.
        until: Awake,
        /// What it waits for.
        because: NoticeWait,
    },
    /// A look for a person at the pane is under way.
    Looking {
        /// Without an answer by then, nobody is there.
        until: Awake,
    },
    /// Its sender has not answered.
    Sending,
}

clocks!(enum NoticeStage {
    Waiting { because: because } until { until: until }
    Looking {} until { until: until }
    Sending {} until {}
});

/// Why a notice is not told yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeWait {
    /// The need may end by itself soon.
    Delay,
    /// It was told, and is told again if it stays open.
    Repeat,
    /// The hours are quiet.
    Quiet,
    /// Many notices were sent lately.
    Rate,
    /// A person is looking at the pane.
    Presence,
    /// Nobody is looking at the pane.
    NobodyThere,
    /// The last attempt failed.
    Failure,
    /// The sender of a former coordinator may still be at work.
    Sender,
    /// The repository of the session's work is being looked at.
    Work,
    /// Another machine tells of it.
    Elsewhere,
}

clocks!(none in NoticeWait, NoticeKind, LocalOffset);

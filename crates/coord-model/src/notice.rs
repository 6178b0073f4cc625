//! How people are told through channels (N-01 to N-04).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{NeedId, NeedKind};

/// A kind of notice: a reason why a person is needed, or what happened and needs nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A session needs a person.
    Need(NeedKind),
    /// A crashed session was brought back.
    Recovered,
    /// A headless session ended.
    Finished,
    /// A person replied to a request from elsewhere than its terminal (H-22).
    Replied,
}

impl NoticeKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        NeedKind::ALL.into_iter().map(Self::Need).chain([
            Self::Recovered,
            Self::Finished,
            Self::Replied,
        ])
    }

    /// The kind's name in JSON and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Need(kind) => kind.name(),
            Self::Recovered => "recovered",
            Self::Finished => "finished",
            Self::Replied => "replied",
        }
    }
}

/// The text is not the name of a kind of notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANoticeKind;

impl fmt::Display for NotANoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a kind of notice, such as permission")
    }
}

impl core::error::Error for NotANoticeKind {}

impl FromStr for NoticeKind {
    type Err = NotANoticeKind;

    fn from_str(text: &str) -> Result<Self, NotANoticeKind> {
        Self::all().find(|kind| kind.name() == text).ok_or(NotANoticeKind)
    }
}

impl Serialize for NoticeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for NoticeKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// What a channel is asked to do. A channel does one thing at a time, so that it never delays another channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tell {
    /// The channel's name.
    pub channel: String,
    /// Number of this request to the channel, from 1. The answer repeats it.
    pub number: u64,
    /// What is to be done.
    pub act: TellAct,
}

/// What a channel is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TellAct {
    /// Tell of one need, or of what happened.
    One {
        /// The id of the need, or of the news.
        id: NeedId,
        /// What it is.
        kind: NoticeKind,
        /// Since when, milliseconds since 1970.
        since_ms: u64,
        /// How often the channel told of it before.
        repeat: u32,
        /// Whether the coordinator restarted while the notice was on its way.
        may_be_repeated: bool,
        /// What the channel calls its earlier notice.
        handle: Option<String>,
    },
    /// Tell of several needs in one notice, the oldest first (N-01).
    Digest {
        /// Their ids.
        ids: Vec<NeedId>,
    },
    /// Take an earlier notice back (N-03).
    Withdraw {
        /// The id that it had.
        id: NeedId,
        /// What it told.
        kind: NoticeKind,
        /// How the need ended.
        how: String,
        /// What the channel calls its notice.
        handle: Option<String>,
    },
}

/// What became of a request to a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendAnswer {
    /// Whether the channel took it.
    pub is_sent: bool,
    /// What the channel calls it, for a replacement or a withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Why not, in a few words without secrets: `HTTP 403 from hooks.example.org`. Also what a test shows of a
    /// success: `shown on 2 terminals`.
    pub saying: String,
    /// How often it was tried.
    pub tries: u32,
    /// Whether trying again cannot help until the configuration changes: the channel refused what it was sent.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_refused: bool,
    /// Whether the channel works, and nobody is there whom it could tell, such as on a terminal.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_nobody_there: bool,
    /// The channel wants no further notice for this long, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl SendAnswer {
    /// Nothing was attempted, or it is not known what became of it; the next attempt may do better.
    pub fn failed(saying: impl Into<String>) -> Self {
        Self {
            is_sent: false,
            handle: None,
            saying: saying.into(),
            tries: 0,
            is_refused: false,
            is_nobody_there: false,
            retry_after_ms: None,
        }
    }
}

/// When and through which channels people are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoticeSettings {
    /// The kinds that are told.
    pub kinds: Vec<NoticeKind>,
    /// Time between the begin of a need and its first notice, by kind, milliseconds; 0 for kinds that are not
    /// listed.
    pub delays_ms: Vec<(NoticeKind, u64)>,
    /// Time until an open need is told again, milliseconds; doubled for each further time.
    pub again_ms: u64,
    /// Longest such time.
    pub again_max_ms: u64,
    /// The hours of the day in which nobody is told.
    pub quiet: Option<QuietHours>,
    /// The kinds that are told in these hours too.
    pub quiet_except: Vec<NoticeKind>,
    /// How long a push waits for a person who is looking at the pane, milliseconds (N-04).
    pub present_ms: u64,
    /// The channels, by name.
    pub channels: Vec<NoticeChannel>,
}

impl Default for NoticeSettings {
    fn default() -> Self {
        let is_told = |kind: &NoticeKind| matches!(kind, NoticeKind::Need(_) | NoticeKind::Replied);
        let prompts = NeedKind::ALL.into_iter().filter(|kind| kind.is_prompt());
        Self {
            kinds: NoticeKind::all().filter(is_told).collect(),
            delays_ms: prompts.map(|kind| (NoticeKind::Need(kind), 20_000)).collect(),
            again_ms: 600_000,
            again_max_ms: 2 * 3_600_000,
            quiet: None,
            quiet_except: Vec::new(),
            present_ms: 120_000,
            channels: Vec::new(),
        }
    }
}

impl NoticeSettings {
    /// Whether this channel sends notices of this kind.
    pub fn sends(&self, channel: &NoticeChannel, kind: NoticeKind) -> bool {
        channel.kinds.as_ref().unwrap_or(&self.kinds).contains(&kind)
    }

    /// Time between the begin of a need and its first notice, milliseconds.
    pub fn delay_ms(&self, kind: NoticeKind) -> u64 {
        self.delays_ms.iter().find(|(one, _)| *one == kind).map_or(0, |(_, ms)| *ms)
    }

    /// Whether any channel does.
    pub fn has_channel_for(&self, kind: NoticeKind) -> bool {
        self.channels.iter().any(|channel| self.sends(channel, kind))
    }
}

/// Hours of the day, in minutes after midnight by the local clock. They may include midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietHours {
    /// The first minute.
    pub from: u32,
    /// The first minute after them.
    pub to: u32,
}

/// A channel, as far as the core has to know of it. Addresses and secrets are not part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeChannel {
    /// Its name in the configuration.
    pub name: String,
    /// Where its notices appear.
    pub class: ChannelClass,
    /// Whether a notice can be taken back, or answered by one that says that it no longer holds.
    pub can_withdraw: bool,
    /// The kinds that it tells; none for all of [`NoticeSettings::kinds`].
    pub kinds: Option<Vec<NoticeKind>>,
    /// Notices within an hour; beyond that they are gathered in one.
    pub per_hour: u32,
}

/// Where the notices of a channel appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelClass {
    /// On the terminal.
    Tmux,
    /// On this machine's desktop: not shown while the person is looking at the pane.
    Desktop,
    /// On another device: waits while the person is looking at the pane.
    Push,
}

/// From when on the local clock is this far from UTC. A change of daylight-saving time begins a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalOffset {
    /// Milliseconds since 1970.
    pub from_ms: u64,
    /// Seconds east of UTC.
    pub east_s: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name() {
        for kind in NoticeKind::all() {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json.trim_matches('"'), kind.name());
            assert_eq!(serde_json::from_str::<NoticeKind>(&json).unwrap(), kind);
        }
        assert_eq!("crash".parse::<NoticeKind>(), Err(NotANoticeKind));
    }
}

//! The reasons why a session needs a person (U-01).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::SessionKey;

/// Id of a need, `a_16.3`: the third of the session whose record has number 16. No id is used again. No record has number
/// 0: `a_0.3` is the third need of another machine that was to be told here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeedId {
    /// The session.
    pub session: SessionKey,
    /// Number among the session's needs, from 1.
    pub number: u32,
}

impl NeedId {
    /// Stands for the sessions of all other machines.
    const ELSEWHERE: SessionKey = SessionKey(0);

    /// The id of the `number`th need of another machine.
    pub fn elsewhere(number: u32) -> Self {
        Self { session: Self::ELSEWHERE, number }
    }

    /// Whether it is a need of another machine.
    pub fn is_elsewhere(self) -> bool {
        self.session == Self::ELSEWHERE
    }
}

impl fmt::Display for NeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a_{}.{}", self.session.0, self.number)
    }
}

/// The text is not the id of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANeed;

impl fmt::Display for NotANeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the id of a need, such as a_16.3")
    }
}

impl core::error::Error for NotANeed {}

impl FromStr for NeedId {
    type Err = NotANeed;

    fn from_str(text: &str) -> Result<Self, NotANeed> {
        let (session, number) =
            text.strip_prefix("a_").and_then(|rest| rest.split_once('.')).ok_or(NotANeed)?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain(session) || !is_plain(number) {
            return Err(NotANeed);
        }
        Ok(Self {
            session: SessionKey(session.parse().map_err(|_| NotANeed)?),
            number: number.parse().map_err(|_| NotANeed)?,
        })
    }
}

impl Serialize for NeedId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NeedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Why a session needs a person. One reason has one need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedKind {
    /// A dialog asks for permission to use a tool.
    Permission,
    /// The agent asks a question.
    Question,
    /// A plan waits for approval.
    Plan,
    /// Another dialog of the client is open.
    Dialog,
    /// The client must log in.
    Login,
    /// The account must be paid.
    Billing,
    /// A usage limit has been reached, and nothing tells when it ends; or one is almost reached.
    UsageLimit,
    /// The client crashed, and the session is not recovered automatically.
    Crashed,
    /// The machine or the tmux server ended the session.
    Interrupted,
    /// coord gave up until a person resets it (G5).
    NeedsOperator,
    /// Unattended, and without a change for longer than its limit.
    Stalled,
    /// Two living processes hold the session.
    TwoOwners,
}

impl NeedKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Permission,
        Self::Question,
        Self::Plan,
        Self::Dialog,
        Self::Login,
        Self::Billing,
        Self::UsageLimit,
        Self::Crashed,
        Self::Interrupted,
        Self::NeedsOperator,
        Self::Stalled,
        Self::TwoOwners,
    ];

    /// The kind's name in JSON, in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Dialog => "dialog",
            Self::Login => "login",
            Self::Billing => "billing",
            Self::UsageLimit => "usage_limit",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
            Self::NeedsOperator => "needs_operator",
            Self::Stalled => "stalled",
            Self::TwoOwners => "two_owners",
        }
    }

    /// Whether the kind is a prompt in the client, which the person answers there.
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Permission | Self::Question | Self::Plan | Self::Dialog)
    }

    /// The command that ends a need of this kind, for the session of this name; none if the person has to act in
    /// the session itself.
    pub fn command(self, name: &str) -> Option<String> {
        match self {
            Self::Crashed => Some(format!("coordctl recover {name}")),
            Self::Interrupted => Some(format!("coordctl restore {name}")),
            Self::NeedsOperator => Some(format!("coordctl reset-failed {name}")),
            Self::Permission
            | Self::Question
            | Self::Plan
            | Self::Dialog
            | Self::Login
            | Self::Billing
            | Self::UsageLimit
            | Self::Stalled
            | Self::TwoOwners => None,
        }
    }
}

/// What happened to a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedChange {
    /// Its id.
    pub id: NeedId,
    /// What is needed.
    pub kind: NeedKind,
    /// What happened.
    pub step: NeedStep,
}

/// A step in the life of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedStep {
    /// It began.
    Begun,
    /// A person dismissed it.
    Dismissed,
    /// It ended.
    Ended,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = NeedId { session: SessionKey(16), number: 3 };
        assert_eq!("a_16.3".parse(), Ok(id));
        assert_eq!(id.to_string(), "a_16.3");
        assert_eq!(serde_json::from_str::<NeedId>("\"a_16.3\"").unwrap(), id);
        for text in ["16.3", "a_", "a_16", "a_16.", "a_+1.3", "a_x.3", "m_16.3", "a_1.99999999999"]
        {
            assert_eq!(text.parse::<NeedId>(), Err(NotANeed), "{text}");
        }
    }

    #[test]
    fn a_kind_has_one_name() {
        for kind in NeedKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}

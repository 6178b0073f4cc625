//! What people are told of through channels (N-01).

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::NeedKind;

/// A kind of notice: a reason why a person is needed, or what happened and needs nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A session needs a person.
    Need(NeedKind),
    /// A crashed session was brought back.
    Recovered,
    /// A headless session ended.
    Finished,
}

impl NoticeKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        NeedKind::ALL.into_iter().map(Self::Need).chain([Self::Recovered, Self::Finished])
    }

    /// The kind's name in JSON and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Need(kind) => kind.name(),
            Self::Recovered => "recovered",
            Self::Finished => "finished",
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

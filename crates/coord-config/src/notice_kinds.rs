//! What the keys of notices take: kinds, delays and hours, programs and paths.

use coord_model::{NoticeKind, QuietHours};
use std::path::PathBuf;
use toml::Value;

use crate::Ms;
use crate::kinds::{Kind, duration_ms};

const DAY_MIN: u32 = 24 * 60;

/// `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Kind for Flag {
    fn takes() -> String {
        "true or false".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        toml.as_bool().map(Self)
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// An absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsolutePath(pub String);

impl Kind for AbsolutePath {
    fn takes() -> String {
        "an absolute path".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let path = toml.as_str()?;
        (PathBuf::from(path).is_absolute() && !path.contains('\0')).then(|| Self(path.to_owned()))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// An absolute path of a program, and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program(pub(crate) Vec<String>);

impl Kind for Program {
    fn takes() -> String {
        "a list of texts, the absolute path of a program first".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let words: Vec<String> = toml.try_into().ok()?;
        let is_absolute = words.first().is_some_and(|one| PathBuf::from(one).is_absolute());
        let is_safe = !words.iter().any(|word| word.contains('\0'));
        (is_absolute && is_safe).then_some(Self(words))
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Kinds of notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeKinds(pub Vec<NoticeKind>);

impl Kind for NoticeKinds {
    fn takes() -> String {
        let all: Vec<&str> = NoticeKind::all().map(NoticeKind::name).collect();
        format!("a list of some of: {}", all.join(", "))
    }

    fn read(toml: Value) -> Option<Self> {
        let names: Vec<String> = toml.try_into().ok()?;
        names.iter().map(|name| name.parse().ok()).collect::<Option<_>>().map(Self)
    }

    fn text(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|kind| kind.name()).collect();
        format!("{names:?}")
    }
}

/// A duration for some kinds of notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays(pub Vec<(NoticeKind, u64)>);

impl Kind for Delays {
    fn takes() -> String {
        "durations by kind, such as { permission = \"20s\", crashed = \"0s\" }".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let Value::Table(table) = toml else { return None };
        let read = |(kind, delay): (String, Value)| {
            Some((kind.parse().ok()?, duration_ms(delay.as_str()?)?))
        };
        let mut all: Vec<(NoticeKind, u64)> = table.into_iter().map(read).collect::<Option<_>>()?;
        all.sort_unstable();
        Some(Self(all))
    }

    fn text(&self) -> String {
        let one = |(kind, ms): &(NoticeKind, u64)| format!("{} = {}", kind.name(), Ms(*ms).text());
        let all: Vec<String> = self.0.iter().map(one).collect();
        format!("{{ {} }}", all.join(", "))
    }
}

/// Hours of the day, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours(pub Option<QuietHours>);

impl Kind for Hours {
    fn takes() -> String {
        "hours of the day such as \"22:00-07:00\", or \"\" for none".to_owned()
    }

    fn read(toml: Value) -> Option<Self> {
        let text = toml.as_str()?;
        if text.is_empty() {
            return Some(Self(None));
        }
        let minute = |text: &str| {
            let (hours, minutes) = text.split_once(':').filter(|_| text.len() == 5)?;
            let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
            (minutes < 60).then_some(hours * 60 + minutes).filter(|minute| *minute < DAY_MIN)
        };
        let (from, to) = text.split_once('-')?;
        let (from, to) = (minute(from)?, minute(to)?);
        (from != to).then_some(Self(Some(QuietHours { from, to })))
    }

    fn text(&self) -> String {
        let minute = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let hours = self.0.map(|one| format!("{}-{}", minute(one.from), minute(one.to)));
        format!("{:?}", hours.unwrap_or_default())
    }
}

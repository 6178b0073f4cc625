//! The configuration: one `config.toml`, read into one struct, [`Config`].
//!
//! An unknown key is an error that names the nearest known one; a value that its key does not take is one that
//! names the key, the line and what is wanted. Decides no behaviour: it hands out typed values.

mod agents;
mod channels;
mod error;
mod kinds;
mod notice_kinds;
mod tables;

use std::path::Path;

pub use agents::AgentConfig;
use channels::CHANNELS;
pub use channels::{ChannelConfig, ChannelType, ChannelWay, Detail};
use coord_core::{RotationLimits, RunLimits};
use coord_model::{ConfigChange, Mode, Settings};
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
pub use error::ConfigError;
use error::{Place, line_of};
pub use kinds::{Count, Maybe, Ms, Paths, Percent, PromptBy, Text, Texts, Wake, Word, duration_ms};
pub use notice_kinds::{AbsolutePath, Delays, Hours, NoticeKinds};
use serde::Deserialize as _;
use tables::{AgentTable, ChannelTable, Keys as _};
pub use tables::{
    Approvals, Config, Fleet, Hooks, Log, Loop, Notice, Queue, Quota, Recovery, Run, Stall, Store,
    TABLES, Tracking,
};
use toml::de::{DeTable, DeValue, Deserializer};

/// Keys of earlier versions that have no effect any more: a file that has them is read as before.
const RETIRED: [(&str, &str); 3] =
    [("tracking", "ownerless_after"), ("stall", "approval_after"), ("stall", "approval_again")];

/// The keys of an agent's table.
pub const AGENT_KEYS: &[Key] = AgentTable::KEYS;

/// The keys of a channel's table.
pub const CHANNEL_KEYS: &[Key] = ChannelTable::KEYS;

/// A table of the configuration.
#[derive(Debug)]
pub struct Table {
    /// Its name, such as `tracking`.
    pub name: &'static str,
    /// What its keys are about.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Table and name, such as `tracking.settle`.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Whether a running coordinator takes a new value in only when it starts again.
    pub needs_restart: bool,
}

/// A key with its value, and where that comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Which key.
    pub key: &'static Key,
    /// The value, as written in the file or as a file would have it.
    pub text: String,
    /// Line of the file; none for a default.
    pub line: Option<usize>,
}

/// All keys but those of agents, by table.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    TABLES.iter().flat_map(|table| table.keys)
}

impl Config {
    /// Reads a file; an absent one gives the defaults.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = coord_store::read_small_file(path, SMALL_FILE_BYTES_MAX);
        match text.and_then(|text| String::from_utf8(text).map_err(std::io::Error::other)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ConfigError::Unreadable(error.to_string())),
        }
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut document =
            DeTable::parse(text).map_err(|error| ConfigError::syntax(&error, text))?;
        let (mut agents, mut channels) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        for (table, content) in document.get_mut().iter_mut() {
            let (name, line) = (table.get_ref(), line_of(text, table.span().start));
            // Said here, since serde would read a list as the values of the table's keys in their order.
            let DeValue::Table(keys) = content.get_mut() else {
                return Err(ConfigError::unknown(name, line));
            };
            for (_, key) in RETIRED.iter().filter(|(table, _)| name == table) {
                keys.remove(*key);
            }
            if name == "loop"
                && let Some((key, array)) = keys.remove_entry("agent")
            {
                agents = agents::parse(array, text, line_of(text, key.span().start))?;
            }
            if name == "notice"
                && let Some((key, tables)) = keys.remove_entry("channel")
            {
                channels = channels::parse(tables, text, line_of(text, key.span().start))?;
            }
            places.extend(Place::all(&format!("{name}."), keys, text));
        }
        // Behind the keys, which an inline table has within its own place.
        places.extend(Place::all("", document.get_ref(), text));
        let config = Self::deserialize(Deserializer::from(document))
            .map_err(|error| ConfigError::at(&error, &places, text))?;
        let written = places.iter().filter_map(|place| place.written(text)).collect();
        Ok(Self { agents, channels, written, ..config })
    }

    /// Every key with its value, by table.
    pub fn effective(&self) -> impl Iterator<Item = Effective> {
        keys().zip(self.texts()).map(|(key, text)| {
            let written = self.written.iter().find(|written| written.key == key);
            written.cloned().unwrap_or(Effective { key, text, line: None })
        })
    }

    /// What differs in `new`, by key.
    pub fn changes_to(&self, new: &Self) -> Vec<ConfigChange> {
        let values = self.texts().into_iter().zip(new.texts());
        let texts = self.effective().zip(new.effective());
        let differing = values.zip(texts).filter(|((old, new), _)| old != new);
        let change = |(_, (old, new)): (_, (Effective, Effective))| ConfigChange {
            key: old.key.name.to_owned(),
            old: old.text,
            new: new.text,
            needs_restart: old.key.needs_restart,
        };
        let mut changes: Vec<ConfigChange> = differing.map(change).collect();
        // Their values may be secret (N-02).
        let named = |channels: &[ChannelConfig]| {
            let names: Vec<&str> = channels.iter().map(|one| one.name.as_str()).collect();
            names.join(", ")
        };
        if self.channels() != new.channels() {
            changes.push(ConfigChange {
                key: CHANNELS.to_owned(),
                old: named(&self.channels()),
                new: named(&new.channels()),
                needs_restart: false,
            });
        }
        changes
    }

    /// The settings of the core.
    pub fn settings(&self) -> Settings {
        let notice = channels::settings(&self.notice, &self.channels());
        Settings { notice, ..self.core().settings }
    }

    /// The channels through which people are told, in the order of the file; tmux if it names none.
    pub fn channels(&self) -> Vec<ChannelConfig> {
        channels::or_default(self.channels.clone())
    }

    /// The clocks of headless runs.
    pub fn run_limits(&self) -> RunLimits {
        RunLimits { settle_ms: self.tracking.settle.0, ..self.core().run }
    }

    /// The limits of loops.
    pub fn rotation_limits(&self) -> RotationLimits {
        self.core().rotation
    }

    /// The agents of loops, in their order.
    pub fn agents(&self) -> &[AgentConfig] {
        &self.agents
    }

    /// `recovery.mode`.
    pub fn mode(&self) -> Mode {
        self.recovery.mode.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinds::Kind as _;

    fn value(config: &Config, key: &str) -> Effective {
        config.effective().find(|one| one.key.name == key).unwrap()
    }

    // What the core takes has the core's own defaults; every default is one that its key takes.
    #[test]
    fn defaults_are_those_of_the_core_and_can_be_written_in_a_file() {
        let defaults = Config::default();
        let mut of_core = Settings::default();
        // Where a channel leads is no setting of the core.
        of_core.notice.channels = defaults.settings().notice.channels;
        assert_eq!(defaults.settings(), of_core);
        assert_eq!(defaults.run_limits(), RunLimits::default());
        assert_eq!(defaults.rotation_limits(), RotationLimits::default());
        let line = |one: Effective| format!("{} = {}\n", one.key.name, one.text);
        let file: String = defaults.effective().map(line).collect();
        let read = Config::parse(&file).unwrap();
        assert_eq!(read.texts(), defaults.texts());
        assert_eq!(read.settings(), defaults.settings());
        assert!(read.effective().all(|one| one.line.is_some()), "{file}");
    }

    /// The file that gives the key a value that is not its default.
    fn file_with_another(one: &Effective) -> String {
        let others = [
            "\"7m 7s\"",
            "77",
            "[\"/other/one\"]",
            "\"/other/one\"",
            "\"debug\"",
            "\"never\"",
            "\"act\"",
            "\"all\"",
            "\"unattended\"",
            "[\"crashed\"]",
            "{ crashed = \"7s\" }",
            "\"22:00-07:00\"",
            "true",
        ];
        let files = others.map(|other| format!("{} = {other}", one.key.name));
        let is_one = |file: &String| {
            Config::parse(file).is_ok_and(|new| !Config::default().changes_to(&new).is_empty())
        };
        files.into_iter().find(is_one).unwrap_or_else(|| panic!("{one:?}"))
    }

    /// The keys whose values coord-core does not take.
    const OWN: [&str; 17] = [
        "fleet.ca",
        "fleet.cert",
        "fleet.key",
        "fleet.name",
        "fleet.notify",
        "fleet.url",
        "log.level",
        "loop.min_free_memory_mb",
        "queue.texts_mib",
        "queue.wake",
        "recovery.signatures",
        "store.journal_kept",
        "store.tool_events_per_minute",
        "tracking.clients",
        "tracking.config_dirs",
        "tracking.tmux",
        "tracking.tmux_sockets",
    ];

    #[test]
    fn each_key_changes_itself_alone_and_has_a_place_of_its_own() {
        let core =
            |config: &Config| (config.settings(), config.run_limits(), config.rotation_limits());
        let defaults = Config::default();
        let mut seen = vec![core(&defaults)];
        for one in defaults.effective() {
            let file = file_with_another(&one);
            let config = Config::parse(&file).unwrap();
            let changes = defaults.changes_to(&config);
            let [change] = changes.as_slice() else { panic!("{file}: {changes:?}") };
            assert_eq!((change.key.as_str(), &change.old), (one.key.name, &one.text));
            assert_eq!(format!("{} = {}", change.key, change.new), file);
            let core = core(&config);
            assert_eq!(seen.contains(&core), OWN.contains(&one.key.name), "{file}");
            seen.push(core);
        }
    }

    // U-06
    #[test]
    fn what_is_read_at_the_start_alone_needs_a_restart() {
        let names: Vec<_> = keys().filter(|key| key.needs_restart).map(|key| key.name).collect();
        assert_eq!(
            names,
            [
                "log.level",
                "recovery.signatures",
                "tracking.clients",
                "tracking.config_dirs",
                "tracking.tmux",
                "tracking.tmux_sockets"
            ]
        );
    }

    #[test]
    fn a_file_overrides_defaults_and_keeps_its_lines() {
        let config = Config::parse("[tracking]\n\nsettle = '5s'\n[queue]\n").unwrap();
        assert_eq!(config.settings().settle_ms, 5_000);
        assert_eq!(config.run_limits().settle_ms, 5_000);
        let settle = value(&config, "tracking.settle");
        assert_eq!((settle.text.as_str(), settle.line), ("'5s'", Some(3)));
        let sweep = value(&config, "tracking.sweep");
        assert_eq!((sweep.text.as_str(), sweep.line), ("\"5s\"", None));
    }

    #[test]
    fn the_same_value_in_other_words_is_no_change() {
        let config = Config::parse("[tracking]\nsettle = \"30000ms\"\n").unwrap();
        assert_eq!(Config::default().changes_to(&config), []);
    }

    #[test]
    fn a_key_of_an_earlier_version_is_no_error() {
        let config =
            Config::parse("[tracking]\nownerless_after = \"1m\"\nsettle = \"5s\"\n").unwrap();
        assert_eq!(config.settings().settle_ms, 5_000);
        assert!(Config::parse("[queue]\nownerless_after = \"1m\"").is_err());
    }

    #[test]
    fn an_error_is_short_whatever_is_written() {
        let long = "\u{1b}x".repeat(5_000);
        let text = format!("{long:?}").replace("\\u{1b}", "\\u001b");
        for written in [
            format!("{text} = 1"),
            format!("tracking.{text} = 1"),
            format!("[recovery]\nmode = {text}"),
            format!("[tracking]\nsettle = {text}"),
            format!("[tracking]\nconfig_dirs = [{text}]"),
            format!("[[loop.agent]]\nname = {text}"),
            format!("[[loop.agent]]\n{text} = 1"),
            format!("[[notify.channel]]\nkind = {text}"),
            format!("[[notify.channel]]\n{text} = 1"),
            format!("{text} = 1\n{text} = 2"),
            format!("a = {text}{text}"),
        ] {
            let message = Config::parse(&written).unwrap_err().to_string();
            assert!(message.len() < 1000, "{} bytes: {message}", message.len());
        }
        let key = "k".repeat(65);
        let message = Config::parse(&format!("{key} = 1")).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("line 1: unknown key \"{}…\";", &key[1..])),
            "{message}"
        );
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        for (text, message) in [
            (
                "[tracking]\nsetle = \"5s\"",
                "line 2: unknown key \"tracking.setle\"; the nearest known one is \"tracking.settle\"",
            ),
            (
                "[recovry]\n",
                "line 1: unknown key \"recovry\"; the nearest known one is \"recovery\"",
            ),
            ("run = 3", "line 1: \"run\" is a table of keys: write it as [run]"),
            ("\nlog = [\"debug\"]", "line 2: \"log\" is a table of keys: write it as [log]"),
            ("[[hooks]]", "line 1: \"hooks\" is a table of keys: write it as [hooks]"),
            (
                "[hooks]\nsettle = 5",
                "line 2: unknown key \"hooks.settle\"; the nearest known one is \"tracking.settle\"",
            ),
            (
                "log.level = \"info\"\nrecovery = { mode = 'act', grace = 5 }",
                "line 2: recovery.grace takes a duration such as \"30s\", \"5m\", \"2h\" or \"30d\"",
            ),
            (
                "[recovery]\ngrace = \"5s\"\n[recovery.mode.act]",
                "line 3: recovery.mode takes one of \"observe\", \"signature\", \"act\"",
            ),
            (
                "settle = 5",
                "line 1: unknown key \"settle\"; the nearest known one is \"tracking.settle\"",
            ),
            (
                "[recovery]\nmode = \"yes\"",
                "line 2: recovery.mode takes one of \"observe\", \"signature\", \"act\"",
            ),
            (
                "[tracking]\nsettle = 5",
                "line 2: tracking.settle takes a duration such as \"30s\", \"5m\", \"2h\" or \"30d\"",
            ),
            (
                "[store]\ntool_events_per_minute = 0",
                "line 2: store.tool_events_per_minute takes a whole number from 1",
            ),
            (
                "[tracking]\nconfig_dirs = [\"x\"]",
                "line 2: tracking.config_dirs takes a list of absolute paths",
            ),
        ] {
            assert_eq!(Config::parse(text).unwrap_err().to_string(), message, "{text}");
        }
        let error = Config::parse("[tracking]\nsettle = \n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: not TOML: "), "{error}");
    }

    // Whatever an earlier version took is still taken, and means the same.
    #[test]
    fn durations_have_units() {
        for (unit, ms) in
            [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        {
            for number in [0, 1, 7, 59, 60, 100, 1_000, 90_000, 6_000_000] {
                assert_eq!(duration_ms(&format!("{number}{unit}")), Some(number * ms));
                assert_eq!(duration_ms(&format!("00{number}{unit}")), Some(number * ms));
            }
        }
        for (text, ms) in [
            ("1h 30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("5", None),
            ("0", None),
            ("s", None),
            ("-5s", None),
            ("5s ago", None),
            ("1500us", None),
            ("1M", None),
            ("1mo", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn a_duration_is_shown_as_it_may_be_written() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (60_000, "1m"),
            (5_400_000, "1h 30m"),
            (2_592_000_000, "30d"),
        ] {
            assert_eq!(Ms(ms).text(), format!("{text:?}"));
            assert_eq!(duration_ms(text), Some(ms));
        }
    }

    #[test]
    fn numbers_are_read_as_toml_has_them() {
        for (number, count) in [("0x10", 16), ("1_000", 1_000), ("5_000_000_000", u32::MAX)] {
            let config = Config::parse(&format!("queue.retries = {number}")).unwrap();
            assert_eq!(config.settings().queue.retries, count);
        }
        assert!(Config::parse("queue.retries = -1").is_err());
    }
}

//! The configuration: one `config.toml`, one table of keys with their defaults.
//!
//! An unknown key is an error that names the nearest known one; a value of the wrong kind names the
//! key, the line and what is wanted. Decides no behaviour: it hands out typed values.

mod agents;
mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use agents::{AGENT_KEYS, AgentConfig, AgentKey, PromptBy, Written};
use coord_core::{Limits, RotationLimits, RunLimits};
use coord_model::{
    ConfigChange, Delay, Mode, QueueLimits, QuotaLimits, RestLimits, Settings, StallLimits,
    WakeLimits,
};
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
pub use keys::KEYS;
use keys::TABLES;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A shorter text would be found everywhere.
const TEXT_CHARS_MIN: usize = 8;

/// Keys whose values are in force from the coordinator's start on.
const NEED_RESTART: [&str; 5] = [
    "log.level",
    "recovery.signatures",
    "tracking.config_dirs",
    "tracking.tmux",
    "tracking.tmux_sockets",
];

/// Keys of earlier versions that have no effect any more: a file that has them is read as before.
const RETIRED: [&str; 1] = ["tracking.ownerless_after"];

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `"30s"`, `"5m"`, `"2h"`, `"30d"`, `"250ms"`.
    Duration,
    /// A whole number from 1.
    Count,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of absolute paths.
    Paths,
    /// A list of texts of 8 characters or more.
    Texts,
}

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Table and name, such as `tracking.settle`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as written in the file.
    pub default: &'static str,
    /// What it is for, with its requirement.
    pub about: &'static str,
}

/// A value with the place it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// As written in a file.
    pub text: String,
    /// Line of the file; none for a default.
    pub line: Option<usize>,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Ms(u64),
    Count(u64),
    Choice(String),
    Paths(Vec<PathBuf>),
    Texts(Vec<String>),
}

/// The effective configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<&'static str, Effective>,
    agents: Vec<AgentConfig>,
}

/// What is wrong with a file. One line, with the remedy.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read.
    Unreadable(String),
    /// It is no TOML.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// The parser's words.
        why: String,
    },
    /// A key that does not exist.
    UnknownKey {
        /// Line, from 1.
        line: usize,
        /// As written.
        key: String,
        /// The nearest that does.
        nearest: &'static str,
    },
    /// A value of the wrong kind.
    BadValue {
        /// Line, from 1.
        line: usize,
        /// Which key.
        key: &'static str,
        /// What it takes.
        wanted: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Syntax { line, why } => write!(f, "line {line}: not TOML: {why}"),
            Self::UnknownKey { line, key, nearest } if key == nearest => {
                write!(f, "line {line}: {key:?} is a table of keys: write it as [{key}]")
            }
            Self::UnknownKey { line, key, nearest } => {
                write!(f, "line {line}: unknown key {key:?}; the nearest known one is {nearest:?}")
            }
            Self::BadValue { line, key, wanted } => write!(f, "line {line}: {key} takes {wanted}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The defaults.
    pub fn defaults() -> Self {
        let values = KEYS.iter().filter_map(|key| {
            let text = format!("x = {}", key.default);
            let table = DeTable::parse(&text).ok()?;
            let value = table.get_ref().values().next()?;
            let value = parse_value(key.kind, value.get_ref())?;
            Some((key.name, Effective { text: key.default.to_owned(), line: None, value }))
        });
        Self { values: values.collect(), agents: Vec::new() }
    }

    /// Reads a file; an absent one gives the defaults.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = coord_store::read_small_file(path, SMALL_FILE_BYTES_MAX);
        match text.and_then(|text| String::from_utf8(text).map_err(std::io::Error::other)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::defaults()),
            Err(error) => Err(ConfigError::Unreadable(error.to_string())),
        }
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let line_of = |at| line_of(text, at);
        let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            line: line_of(error.span().map_or(0, |span| span.start)),
            why: error.message().to_owned(),
        })?;
        let mut config = Self::defaults();
        for (table, content) in document.get_ref() {
            let table_line = line_of(table.span().start);
            let unknown =
                |key: String, line| ConfigError::UnknownKey { line, nearest: nearest(&key), key };
            let DeValue::Table(keys) = content.get_ref() else {
                return Err(unknown(table.get_ref().to_string(), table_line));
            };
            if !TABLES.contains(&table.get_ref().as_ref()) {
                return Err(unknown(table.get_ref().to_string(), table_line));
            }
            for (name, value) in keys {
                let line = line_of(name.span().start);
                let full = format!("{}.{}", table.get_ref(), name.get_ref());
                if full == agents::ARRAY {
                    config.agents = agents::parse(value.get_ref(), text, line)?;
                    continue;
                }
                if RETIRED.contains(&full.as_str()) {
                    continue;
                }
                let Some(key) = KEYS.iter().find(|key| key.name == full) else {
                    return Err(unknown(full, line));
                };
                config.set(key, value, text, line)?;
            }
        }
        Ok(config)
    }

    fn set(
        &mut self,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
        text: &str,
        line: usize,
    ) -> Result<(), ConfigError> {
        let parsed = parse_value(key.kind, value.get_ref()).ok_or_else(|| {
            ConfigError::BadValue { line, key: key.name, wanted: wanted(key.kind) }
        })?;
        let text = text.get(value.span()).unwrap_or_default().to_owned();
        self.values.insert(key.name, Effective { text, line: Some(line), value: parsed });
        Ok(())
    }

    /// Every key with its value, by name.
    pub fn effective(&self) -> impl Iterator<Item = (&'static str, &Effective)> {
        self.values.iter().map(|(name, effective)| (*name, effective))
    }

    /// What differs in `new`, by key.
    pub fn changes_to(&self, new: &Self) -> Vec<ConfigChange> {
        let differing = self.values.iter().filter_map(|(key, old)| {
            let new = new.values.get(key).filter(|new| new.value != old.value)?;
            Some(ConfigChange {
                key: (*key).to_owned(),
                old: old.text.clone(),
                new: new.text.clone(),
                needs_restart: NEED_RESTART.contains(key),
            })
        });
        differing.collect()
    }

    /// The durations of the core.
    pub fn settings(&self) -> Settings {
        Settings {
            unknown_after_ms: self.ms("tracking.unknown_after"),
            sweep_ms: self.ms("tracking.sweep"),
            look_every_ms: self.ms("tracking.look_every"),
            death_judged_within_ms: self.ms("tracking.death_judged_within"),
            interrupted_within_ms: self.ms("tracking.interrupted_within"),
            interrupted_before_boot_ms: self.ms("tracking.interrupted_before_boot"),
            stopped_kept_ms: self.ms("tracking.stopped_kept"),
            settle_ms: self.ms("tracking.settle"),
            mode: self.mode(),
            recoveries_per_turn: self.small("recovery.recoveries_per_turn"),
            recoveries_total: self.small("recovery.recoveries_total"),
            cooldown_success_ms: self.ms("recovery.cooldown_success"),
            cooldown_failure_ms: self.ms("recovery.cooldown_failure"),
            recovery_delay_max_ms: self.ms("recovery.delay_max"),
            resume_proof_ms: self.ms("recovery.resume_proof"),
            verified_after_ms: self.ms("recovery.verified_after"),
            grace_ms: self.ms("recovery.grace"),
            keys_quiet_ms: self.ms("recovery.keys_quiet"),
            idle_quiet_ms: self.ms("recovery.idle_quiet"),
            end_within_ms: self.ms("recovery.end_within"),
            dies_again_within_ms: self.ms("recovery.dies_again_within"),
            recoveries_at_once: self.small("recovery.recoveries_at_once"),
            recoveries_per_window: self.small("recovery.recoveries_per_window"),
            recovery_window_ms: self.ms("recovery.window"),
            breaker_deaths: self.small("recovery.breaker_deaths"),
            breaker_within_ms: self.ms("recovery.breaker_within"),
            breaker_failures: self.small("recovery.breaker_failures"),
            wakes: WakeLimits {
                per_10min: self.small("queue.wakes_per_10min"),
                per_day: self.small("queue.wakes_per_day"),
            },
            quota: QuotaLimits {
                probe_after_ms: self.ms("quota.probe_after"),
                reset_margin_ms: self.ms("quota.reset_margin"),
                service_after_ms: self.ms("quota.service_after"),
                probe_delay_max_ms: self.ms("quota.probe_delay_max"),
                probes: self.small("quota.probes"),
            },
            queue: self.queue_limits(),
            rest: RestLimits {
                answers: self.state_of("stall.answers") == "unattended",
                per_iteration: self.small("stall.answers_per_iteration"),
                total: self.small("stall.answers_total"),
                context_tokens: self.count("stall.context_tokens"),
                summary_percent: self.small("stall.summary_percent"),
            },
            stall: StallLimits {
                heartbeat_ms: self.ms("stall.heartbeat"),
                captures: self.small("stall.captures"),
                thinking_after_ms: self.ms("stall.thinking_after"),
                tool_after_ms: self.ms("stall.tool_after"),
                mcp_after_ms: self.ms("stall.mcp_after"),
                subagent_after_ms: self.ms("stall.subagent_after"),
                retry_after_ms: self.ms("stall.retry_after"),
                approval_after_ms: self.ms("stall.approval_after"),
                approval_again_ms: self.ms("stall.approval_again"),
            },
        }
    }

    fn queue_limits(&self) -> QueueLimits {
        QueueLimits {
            lease_ms: self.ms("queue.lease"),
            slow_ms: self.ms("queue.slow_after"),
            retries: self.small("queue.retries"),
            delay: Delay {
                first_ms: self.ms("queue.retry_delay"),
                max_ms: self.ms("queue.retry_delay_max"),
            },
            per_receiver: self.small("queue.per_receiver"),
            processed_kept_ms: self.ms("queue.processed_kept"),
            failed_kept_ms: self.ms("queue.failed_kept"),
        }
    }

    /// The clocks of headless runs.
    pub fn run_limits(&self) -> RunLimits {
        RunLimits {
            timeout_ms: self.ms("run.timeout"),
            first_result_ms: self.ms("run.first_result"),
            post_result_ms: self.ms("run.post_result"),
            limbo_ms: self.ms("run.limbo"),
            limbo_warning_ms: self.ms("run.limbo_warning"),
            kill_grace_ms: self.ms("run.kill_grace"),
            tick_ms: self.ms("run.tick"),
            confirm_ms: self.ms("run.confirm"),
            confirm_before_result_ms: self.ms("run.confirm_before_result"),
            quiet_ms: self.ms("run.quiet_after"),
            unknown_ms: self.ms("run.unknown_after"),
            busy_ms: self.ms("run.busy_after"),
            wakeup_ms: self.ms("run.wakeup_after"),
            busy_percent: self.count("run.busy_percent"),
            settle_ms: self.ms("tracking.settle"),
        }
    }

    /// The limits of loops.
    pub fn rotation_limits(&self) -> RotationLimits {
        RotationLimits {
            max_iterations: self.small("loop.max_iterations"),
            crashes: Limits {
                per_turn: self.small("loop.crashes_in_a_row"),
                total: self.small("loop.crashes_total"),
                delay: Delay {
                    first_ms: self.ms("loop.crash_delay"),
                    max_ms: self.ms("loop.crash_delay_max"),
                },
            },
            exhausted: Delay {
                first_ms: self.ms("loop.exhausted_retry"),
                max_ms: self.ms("loop.exhausted_retry_max"),
            },
            never_waits: false,
        }
    }

    /// The agents of loops, in their order.
    pub fn agents(&self) -> &[AgentConfig] {
        &self.agents
    }

    /// `recovery.mode`.
    pub fn mode(&self) -> Mode {
        match self.state_of("recovery.mode") {
            "observe" => Mode::Observe,
            "act" => Mode::Act,
            _ => Mode::Signature,
        }
    }

    /// A duration, milliseconds; 0 for a key of another kind, which no caller names.
    pub fn ms(&self, key: &str) -> u64 {
        match self.values.get(key).map(|effective| &effective.value) {
            Some(Value::Ms(ms)) => *ms,
            Some(Value::Count(_) | Value::Choice(_) | Value::Paths(_) | Value::Texts(_)) | None => {
                0
            }
        }
    }

    /// A count that is kept in 32 bits.
    fn small(&self, key: &str) -> u32 {
        u32::try_from(self.count(key)).unwrap_or(u32::MAX)
    }

    /// A count; 0 for a key of another kind.
    pub fn count(&self, key: &str) -> u64 {
        match self.values.get(key).map(|effective| &effective.value) {
            Some(Value::Count(count)) => *count,
            Some(Value::Ms(_) | Value::Choice(_) | Value::Paths(_) | Value::Texts(_)) | None => 0,
        }
    }

    /// A word; empty for a key of another kind.
    pub fn state_of(&self, key: &str) -> &str {
        match self.values.get(key).map(|effective| &effective.value) {
            Some(Value::Choice(word)) => word,
            Some(Value::Ms(_) | Value::Count(_) | Value::Paths(_) | Value::Texts(_)) | None => "",
        }
    }

    /// A list of paths; empty for a key of another kind.
    pub fn paths(&self, key: &str) -> &[PathBuf] {
        match self.values.get(key).map(|effective| &effective.value) {
            Some(Value::Paths(paths)) => paths,
            Some(Value::Ms(_) | Value::Count(_) | Value::Choice(_) | Value::Texts(_)) | None => &[],
        }
    }

    /// A list of texts; empty for a key of another kind.
    pub fn texts(&self, key: &str) -> &[String] {
        match self.values.get(key).map(|effective| &effective.value) {
            Some(Value::Texts(texts)) => texts,
            Some(Value::Ms(_) | Value::Count(_) | Value::Choice(_) | Value::Paths(_)) | None => &[],
        }
    }
}

/// The line of a place in a text, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.get(..at).map_or(0, |before| before.matches('\n').count())
}

/// The known table or key that is written most alike.
fn nearest(written: &str) -> &'static str {
    let names = KEYS.iter().map(|key| key.name).chain(AGENT_KEYS.iter().map(|key| key.name));
    let keys = names.chain([agents::ARRAY]).map(|name| {
        let bare = name.split_once('.').map_or(name, |(_, name)| name);
        let as_bare = strsim::damerau_levenshtein(bare, written).saturating_add(1);
        (strsim::damerau_levenshtein(name, written).min(as_bare), name)
    });
    let tables = TABLES.iter().map(|table| (strsim::damerau_levenshtein(table, written), *table));
    keys.chain(tables).min_by_key(|(distance, _)| *distance).map_or("", |(_, name)| name)
}

fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Duration => "a duration such as \"30s\", \"5m\", \"2h\" or \"30d\"".to_owned(),
        Kind::Count => "a whole number from 1".to_owned(),
        Kind::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
        Kind::Paths => "a list of absolute paths".to_owned(),
        Kind::Texts => "a list of texts of 8 characters or more".to_owned(),
    }
}

fn parse_value(kind: Kind, value: &DeValue<'_>) -> Option<Value> {
    match (kind, value) {
        (Kind::Duration, DeValue::String(text)) => duration_ms(text).map(Value::Ms),
        (Kind::Count, DeValue::Integer(number)) => {
            let count = number.as_str().parse::<u64>().ok()?;
            (0 < count).then_some(Value::Count(count))
        }
        (Kind::Choice(words), DeValue::String(text)) => {
            words.contains(&text.as_ref()).then(|| Value::Choice(text.to_string()))
        }
        (Kind::Paths, DeValue::Array(items)) => {
            let paths = items.iter().map(|item| text_of(item.get_ref()).map(PathBuf::from));
            let paths = paths.map(|path| path.filter(|path| path.is_absolute()));
            paths.collect::<Option<Vec<_>>>().map(Value::Paths)
        }
        (Kind::Texts, DeValue::Array(items)) => {
            let texts = items.iter().map(|item| text_of(item.get_ref()));
            let texts =
                texts.map(|text| text.filter(|text| TEXT_CHARS_MIN <= text.chars().count()));
            texts.map(|text| text.map(str::to_owned)).collect::<Option<Vec<_>>>().map(Value::Texts)
        }
        _ => None,
    }
}

fn text_of<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    if let DeValue::String(text) = value { Some(text.as_ref()) } else { None }
}

/// Reads `"250ms"`, `"30s"`, `"5m"`, `"2h"`, `"30d"`.
pub fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_valid_default_and_a_table() {
        let config = Config::defaults();
        assert_eq!(config.values.len(), KEYS.len());
        for key in &KEYS {
            let (table, _) = key.name.split_once('.').unwrap();
            assert!(TABLES.contains(&table), "{}", key.name);
        }
        assert_eq!(config.settings(), Settings::default());
        assert_eq!(config.rotation_limits(), RotationLimits::default());
    }

    #[test]
    fn a_file_overrides_defaults_and_keeps_its_lines() {
        let config = Config::parse("[tracking]\n\nsettle = \"5s\"\n[queue]\n").unwrap();
        assert_eq!(config.settings().settle_ms, 5_000);
        let (_, settle) = config.effective().find(|(name, _)| *name == "tracking.settle").unwrap();
        assert_eq!((settle.text.as_str(), settle.line), ("\"5s\"", Some(3)));
    }

    #[test]
    fn a_key_of_an_earlier_version_is_no_error() {
        let config =
            Config::parse("[tracking]\nownerless_after = \"1m\"\nsettle = \"5s\"\n").unwrap();
        assert_eq!(config.settings().settle_ms, 5_000);
        assert!(config.effective().all(|(name, _)| name != "tracking.ownerless_after"));
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

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("30d", Some(2_592_000_000)),
            ("5", None),
            ("s", None),
            ("-5s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
    }
}

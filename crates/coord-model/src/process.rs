//! Processes: how one is named, where it runs, and how a harness was started.

use alloc::boxed::Box;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::Launch;

/// A process, identified so that a reused pid is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Pid in its own namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot, as in `/proc/PID/stat`. Stored as a decimal string.
    #[serde(with = "ticks")]
    pub start_time: u64,
}

/// Start times of processes as decimal strings, because not every JSON reader has 64-bit integers. Version 1 of
/// the snapshot has numbers.
pub mod ticks {
    use core::fmt;
    use serde::{Deserializer, Serializer, de};

    /// Writes the ticks as a string.
    pub fn serialize<S: Serializer>(ticks: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(ticks)
    }

    /// Reads the ticks from a string or a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        struct Ticks;
        impl de::Visitor<'_> for Ticks {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("clock ticks, as a number or a decimal string")
            }

            fn visit_u64<E: de::Error>(self, ticks: u64) -> Result<u64, E> {
                Ok(ticks)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Ticks)
    }
}

/// The domain in which a pid is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Machine id.
    pub machine: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// The machine, boot and namespace that the coordinator runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Machine id.
    pub machine: String,
    /// Kernel boot id.
    pub boot: String,
    /// Wall time of that boot, milliseconds since 1970.
    #[serde(rename = "boot_at", alias = "boot_at_ms")]
    pub boot_at_ms: u64,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// The kind of a run (H-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A person's session at a terminal.
    #[serde(alias = "Interactive")]
    Interactive,
    /// A run with `-p` or without a terminal.
    #[serde(alias = "Headless")]
    Headless,
}

/// What the process table shows of a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSeen {
    /// The process.
    pub process: ProcessRef,
    /// Whether it is alive; false if the pid is gone or was reused.
    pub alive: bool,
    /// The kind, by argv and terminal (H-24); none if these cannot be read.
    pub kind: Option<Kind>,
    /// Whether it is stopped by a signal (Ctrl-Z).
    #[serde(default, rename = "stopped")]
    pub is_stopped: bool,
    /// The session that its command line resumes under a new id (`--resume ID --fork-session`).
    #[serde(default)]
    pub forked_from: Option<String>,
    /// How it was started, if that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
}

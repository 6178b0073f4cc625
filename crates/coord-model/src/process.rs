//! Processes: how one is named, where it runs, and how a harness was started.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A process, named so that a reused pid is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Pid in its own namespace.
    pub pid: u32,
    /// Clock ticks since boot.
    pub start_time: u64,
}

/// Where a pid means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Machine id.
    pub machine: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// Where the coordinator runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Machine id.
    pub machine: String,
    /// Kernel boot id.
    pub boot: String,
    /// Wall time of that boot.
    pub boot_at_ms: u64,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// Kind of run (H-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A person's session at a terminal.
    Interactive,
    /// A run with `-p` or without a terminal.
    Headless,
}

/// How a harness was started, read from the process table while it lived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its parent.
    pub parent: Parent,
    /// The executable, and what stands before the client's own options.
    pub program: Vec<String>,
    /// Options that are carried over, with their values. A first prompt and what chose the
    /// conversation are left out.
    pub flags: Vec<String>,
    /// Why its command line cannot be used again, in words (H-19).
    pub unfit: Option<String>,
    /// Its working directory.
    pub cwd: Place,
    /// Names of the variables in its environment that choose account, endpoint or configuration.
    pub variables: Vec<String>,
    /// The configuration directory that its own environment gives (H-45).
    #[serde(default)]
    pub config_dir: Option<String>,
}

/// Who started a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// It.
    pub process: ProcessRef,
    /// What it is.
    pub kind: ParentKind,
}

/// What started a harness (H-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParentKind {
    /// A shell that waits for its user's commands on the same terminal.
    Shell,
    /// The tmux server: the harness is its pane's first process.
    Tmux,
    /// A wrapper, a loop, a service manager, an editor: it restarts what it wants to restart.
    Other {
        /// Its name.
        name: String,
    },
}

/// A directory, so that another one of the same name is not taken for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Its path.
    pub path: String,
    /// Device; 0 where it is not known, which it is not after a new boot.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

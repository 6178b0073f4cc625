//! How a harness was started, and where.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ProcessRef;

/// How a harness was started, read from the process table while it lived (S0-25d). The task that its user gave it
/// is not included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Launch {
    /// The process that started it.
    pub parent: Parent,
    /// The executable, and the arguments before the client's own options.
    pub program: Vec<String>,
    /// Options that a resume repeats, with their values. A first prompt, and the options that chose the
    /// conversation, are left out.
    pub flags: Vec<String>,
    /// Why its command line cannot be used again, in words (H-19).
    pub unfit: Option<String>,
    /// Its working directory.
    pub cwd: Place,
    /// Names of the variables in its environment that choose account, endpoint or configuration.
    pub variables: Vec<String>,
    /// The configuration directory in its own environment (H-45).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_dir: Option<String>,
}

/// The process that started a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The process.
    pub process: ProcessRef,
    /// The kind of process.
    pub kind: ParentKind,
}

/// The kind of process that started a harness (H-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// A shell that waits for its user's commands on the same terminal.
    #[serde(alias = "Shell")]
    Shell,
    /// The tmux server: the harness is its pane's first process.
    #[serde(alias = "Tmux")]
    Tmux,
    /// A wrapper, a loop, a service manager or an editor, by its name. It restarts by itself what it wants to
    /// restart.
    #[serde(alias = "Other", deserialize_with = "name")]
    Other(String),
}

/// A directory, identified so that another one of the same name is not confused with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Its path.
    pub path: String,
    /// Device number; 0 if unknown, as after a reboot.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// The stored shapes that are read: that of this version, and that of version 1 of the journal, which had the
/// parent's kind beside the parent.
#[derive(Deserialize)]
struct Stored {
    parent: StoredParent,
    parent_kind: Option<ParentKind>,
    program: Vec<String>,
    flags: Vec<String>,
    #[serde(default)]
    unfit: Option<String>,
    cwd: Place,
    #[serde(default)]
    variables: Vec<String>,
    #[serde(default)]
    config_dir: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredParent {
    Whole(Parent),
    Process(ProcessRef),
}

impl From<Stored> for Launch {
    fn from(stored: Stored) -> Self {
        let Stored { parent, parent_kind, program, flags, unfit, cwd, variables, config_dir } =
            stored;
        let parent = match parent {
            StoredParent::Whole(parent) => parent,
            StoredParent::Process(process) => {
                let kind = parent_kind.unwrap_or(ParentKind::Other(String::new()));
                Parent { process, kind }
            }
        };
        Self { parent, program, flags, unfit, cwd, variables, config_dir }
    }
}

/// A name, or `{"name": …}` as in version 1 of the snapshot.
fn name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Plain(String),
        Field { name: String },
    }
    Name::deserialize(deserializer).map(|name| match name {
        Name::Plain(name) | Name::Field { name } => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Version 1 has two shapes, one of the journal and one of the snapshot. This version writes a third one.
    #[test]
    fn launches_of_version_1_are_read() {
        let rest = r#""program":["claude"],"flags":[],"cwd":{"path":"/","device":1,"inode":2}"#;
        let of_journal = r#""parent":{"pid":7,"start_time":"9"},"parent_kind":{"other":"loop.sh"}"#;
        let of_snapshot =
            r#""parent":{"process":{"pid":7,"start_time":9},"kind":{"Other":{"name":"loop.sh"}}}"#;
        let process = ProcessRef { pid: 7, start_time: 9 };
        for parent in [of_journal, of_snapshot] {
            let launch: Launch =
                serde_json::from_str(&alloc::format!("{{{parent},{rest}}}")).unwrap();
            let kind = ParentKind::Other("loop.sh".into());
            assert_eq!(launch.parent, Parent { process, kind }, "{parent}");
            let written = serde_json::to_string(&launch).unwrap();
            assert_eq!(serde_json::from_str::<Launch>(&written).unwrap(), launch, "{written}");
        }
    }
}

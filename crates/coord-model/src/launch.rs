//! How a harness was started, and where.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ProcessRef;

/// How a harness was started, read from the process table while it lived (S0-25d). What its user asked it
/// to do is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_dir: Option<String>,
}

/// Who started a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The process.
    pub process: ProcessRef,
    /// What it is.
    pub kind: ParentKind,
}

/// What started a harness (H-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// A shell that waits for its user's commands on the same terminal.
    #[serde(alias = "Shell")]
    Shell,
    /// The tmux server: the harness is its pane's first process.
    #[serde(alias = "Tmux")]
    Tmux,
    /// A wrapper, a loop, a service manager, an editor, by its name: it restarts what it wants to restart.
    #[serde(alias = "Other", deserialize_with = "name")]
    Other(String),
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

/// What is read: this version's shape, and that of version 1 of the journal, in which the parent's kind
/// stood beside the parent.
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

    // Version 1 has two shapes, of the journal and of the snapshot; this one writes a third.
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

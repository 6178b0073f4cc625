//! Decides with which command line a session is resumed (S0-25d, H-18, H-19): that of its harness, as
//! far as it is understood, never with a wider permission mode than the last one seen.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::event::ProcessRef;

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

/// The modes from the narrowest to the widest, as payloads name them. What is not allowed beforehand,
/// `plan` does not do, `dontAsk` denies, `default` asks for, `auto` lets a model decide. The client's
/// option takes each of these words, and `manual` for `default`.
const MODES: [&str; 6] = ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"];
const MODE: &str = "--permission-mode";
const SKIP: &str = "--dangerously-skip-permissions";

impl Launch {
    /// The words that resume `session_id`, the program first.
    pub fn resume(&self, session_id: &str, last_mode: Option<&str>) -> Vec<String> {
        let mut words = self.program.clone();
        let mut flags = self.flags.iter();
        let mut asked = None;
        while let Some(flag) = flags.next() {
            if flag == MODE {
                asked = flags.next().map(String::as_str);
            } else if flag == SKIP {
                asked = Some("bypassPermissions");
            } else {
                words.push(flag.clone());
            }
        }
        if let Some(mode) = narrower(asked, last_mode) {
            words.extend([MODE.into(), mode.into()]);
        }
        words.extend(["--resume".into(), session_id.into()]);
        words
    }
}

/// The narrower of the mode it was started with and the one seen last; an unknown word is the widest
/// of all, and is not carried over. Without a mode at the start, the last one seen is taken.
fn narrower<'a>(asked: Option<&'a str>, last: Option<&'a str>) -> Option<&'a str> {
    let width = |mode: &str| {
        let mode = if mode == "manual" { "default" } else { mode };
        MODES.iter().position(|known| *known == mode)
    };
    let known = asked.into_iter().chain(last).filter_map(|mode| Some((width(mode)?, mode)));
    known.min_by_key(|(width, _)| *width).map(|(_, mode)| mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(Into::into).collect()
    }

    fn launch(flags: &[&str]) -> Launch {
        Launch {
            parent: Parent {
                process: ProcessRef { pid: 1, start_time: 1 },
                kind: ParentKind::Shell,
            },
            program: words(&["/bin/claude"]),
            flags: words(flags),
            unfit: None,
            cwd: Place::default(),
            variables: Vec::new(),
        }
    }

    // S0-25d: the mode is never wider than the last one seen.
    #[test]
    fn the_narrower_mode_is_resumed() {
        for (flags, last, mode) in [
            (&[][..], None, None),
            (&[], Some("plan"), Some("plan")),
            (&["--permission-mode", "plan"], Some("auto"), Some("plan")),
            (&["--permission-mode", "bypassPermissions"], Some("default"), Some("default")),
            (&["--dangerously-skip-permissions"], Some("acceptEdits"), Some("acceptEdits")),
            (&["--dangerously-skip-permissions"], None, Some("bypassPermissions")),
            (&["--permission-mode", "manual"], Some("default"), Some("manual")),
            (&["--permission-mode", "auto"], Some("dontAsk"), Some("dontAsk")),
            (&["--permission-mode", "news"], Some("auto"), Some("auto")),
        ] {
            let resumed = launch(flags).resume("s", last);
            let mut expected = words(&["/bin/claude"]);
            expected.extend(mode.iter().flat_map(|mode| words(&[MODE, mode])));
            expected.extend(words(&["--resume", "s"]));
            assert_eq!(resumed, expected, "{flags:?} {last:?}");
        }
    }

    // S0-25d
    #[test]
    fn other_flags_are_kept() {
        let flags = ["--model", "opus", "--add-dir", "/a"];
        let expected =
            words(&["/bin/claude", "--model", "opus", "--add-dir", "/a", "--resume", "s"]);
        assert_eq!(launch(&flags).resume("s", None), expected);
    }
}

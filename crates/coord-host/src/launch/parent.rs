//! Determines what started a harness: a shell that waits for its user's commands, tmux, or anything else
//! (H-13, H-18).

use std::fs::File;
use std::io::Read;

use coord_model::{Parent, ParentKind, ProcessRef};
use rustix::fs::{major, minor};

use crate::process::{CMDLINE_BYTES_MAX, Stat, stat};

/// Names of shells. A login shell has no dash in its process's name.
const SHELLS: [&str; 14] = [
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "sh", "tcsh",
    "xonsh", "zsh",
];
/// Options of shells that take the next word. A startup file that is read first leaves a shell interactive.
const TAKE_ONE: [&str; 6] = ["--init-file", "--rcfile", "-o", "+o", "-O", "+O"];
/// Long options of shells that run something and end, or may do so.
const RUN: [&str; 3] = ["--command", "--execute", "--file"];
/// Longest process name that is kept, in characters; real names are shorter.
const NAME_CHARS_MAX: usize = 64;

/// The parent of the process with this `stat`; none if the parent is gone.
pub(super) fn of(child: Stat) -> Option<Parent> {
    let pid = child.ppid;
    let before = stat(pid)?;
    let name = name(pid)?;
    let kind = if name.starts_with("tmux") && before.tty == 0 {
        ParentKind::Tmux
    } else if is_shell(&name, pid, before, child) {
        ParentKind::Shell
    } else {
        ParentKind::Other(name)
    };
    // What was read by pid belongs to one process only if the start time is the same at the end.
    let after = stat(pid)?;
    let process = ProcessRef { pid, start_time: after.start_time };
    (after.start_time == before.start_time).then_some(Parent { process, kind })
}

fn name(pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/comm")).ok()?.take(256).read_to_end(&mut bytes).ok()?;
    Some(clean(&String::from_utf8_lossy(&bytes)))
}

fn clean(name: &str) -> String {
    let chars = name.trim_end_matches('\n').chars().take(NAME_CHARS_MAX);
    chars.map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Whether the process is a shell that reads its commands from the child's terminal.
fn is_shell(name: &str, pid: u32, own: Stat, child: Stat) -> bool {
    SHELLS.contains(&name)
        && own.tty != 0
        && own.tty == child.tty
        && reads_terminal(pid, own.tty)
        && cmdline(pid).is_some_and(|cmdline| is_interactive(&cmdline))
}

/// Whether the standard input of a process is its terminal: the command line of `bash <script` shows no
/// script.
fn reads_terminal(pid: u32, tty: i64) -> bool {
    rustix::fs::stat(format!("/proc/{pid}/fd/0")).is_ok_and(|input| number(input.st_rdev) == tty)
}

/// A device number as `/proc/PID/stat` writes it: the upper bits of the minor number are above the major
/// number.
fn number(device: u64) -> i64 {
    let (major, minor) = (i64::from(major(device)), i64::from(minor(device)));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn cmdline(pid: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    file.take(CMDLINE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    (!bytes.is_empty() && bytes.len() < CMDLINE_BYTES_MAX).then_some(bytes)
}

/// Whether a shell's command line has neither a script nor a command to run.
fn is_interactive(cmdline: &[u8]) -> bool {
    let cmdline = String::from_utf8_lossy(cmdline);
    let mut words = cmdline.strip_suffix('\0').unwrap_or(&cmdline).split('\0').skip(1);
    while let Some(word) = words.next() {
        let is_long = word.starts_with("--");
        let is_option = 1 < word.len() && word.starts_with(['-', '+']);
        let runs = if is_long {
            RUN.iter().any(|long| word.starts_with(long))
        } else {
            word.contains('c')
        };
        if !is_option || runs {
            return false;
        }
        if TAKE_ONE.contains(&word) && words.next().is_none() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-13: neither a wrapper nor a loop in a script is a shell that waits for its user.
    #[test]
    fn a_shell_is_interactive_without_script_and_command() {
        for (cmdline, expected) in [
            ("-bash\0", true),
            ("bash\0", true),
            ("/usr/bin/zsh\0-l\0-i\0", true),
            ("fish\0--login\0--private\0", true),
            ("bash\0--init-file\0/opt/editor/rc.sh\0", true),
            ("bash\0-o\0vi\0", true),
            ("bash\0-c\0claude\0", false),
            ("bash\0-lc\0claude\0", false),
            ("bash\0-ic\0", false),
            ("fish\0--command=claude\0", false),
            ("nu\0--commands\0claude\0", false),
            ("sh\0loop.sh\0", false),
            ("sh\0-x\0./loop.sh\0", false),
            ("bash\0--rcfile\0rc\0loop.sh\0", false),
            ("bash\0--rcfile\0", false),
            ("bash\0-s\0word\0", false),
            ("bash\0-\0", false),
            ("bash\0\0", false),
        ] {
            assert_eq!(is_interactive(cmdline.as_bytes()), expected, "{cmdline:?}");
        }
    }

    // H-26
    #[test]
    fn a_name_is_bounded_and_clean() {
        assert_eq!(clean("a\u{1b}[2J\n"), "a\u{fffd}[2J");
        assert_eq!(clean(&"x".repeat(500)).len(), NAME_CHARS_MAX);
    }
}

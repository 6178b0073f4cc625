//! Determines which processes hold a session, and which ones a harness started (H-08, H-13, H-33).
//!
//! The sources are the client's registry, command lines, terminals and environments. What cannot be read is
//! no proof of absence where it would belong to this user: a process of this user whose files are closed to
//! us is gone, or is not one of the client's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coord_model::{ProcessRef, Registry};

use crate::process::{self, Stat};
use crate::registry::{self, Readable};

/// Longest part of a process's environment that is read, in bytes.
const ENVIRON_BYTES_MAX: u64 = 256 * 1024;
/// Most entries of a registry that are read; a user has one for each session.
const ENTRIES_MAX: usize = 4096;
/// The device number of `/dev/tty`, which stands for the reader's own terminal.
const OWN_TERMINAL: u64 = 0x500;
/// Programs that keep the command line of the first session with which they were started.
const MULTIPLEXERS: [&[u8]; 3] = [b"tmux", b"screen", b"SCREEN"];

/// The process table at one moment, without dead processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    all: BTreeMap<u32, Stat>,
    /// Processes that were not in the table before.
    new: Vec<u32>,
    /// Processes whose command line takes the session.
    takers: Vec<ProcessRef>,
}

impl Table {
    /// Reads the processes that are new since `before`; of known processes, only deaths are noticed. A
    /// process that the harness starts is new.
    pub(super) fn read_since(before: &Self) -> Self {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Self::default() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut table = Self::default();
        for pid in pids {
            // A process that had not called exec may run another program by now.
            let known = before.all.get(&pid).copied().filter(|stat| !stat.is_before_exec);
            let stat = known.or_else(|| process::stat(pid).filter(|stat| !stat.is_zombie));
            let Some(stat) = stat else { continue };
            table.all.insert(pid, stat);
            if known.is_none() {
                table.new.push(pid);
            }
        }
        let is_left = |taker: &ProcessRef| table.is_alive(*taker);
        table.takers = before.takers.iter().copied().filter(is_left).collect();
        table
    }

    fn of(&self, pid: u32) -> Option<ProcessRef> {
        self.all.get(&pid).map(|stat| ProcessRef { pid, start_time: stat.start_time })
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        self.of(process.pid) == Some(process)
    }

    /// Whether a process is the only member of its process group.
    pub(super) fn is_alone(&self, pid: u32) -> bool {
        let Some(own) = self.all.get(&pid) else { return false };
        self.all.values().filter(|stat| stat.group == own.group).count() == 1
    }

    /// Whether a process on this terminal is stopped.
    pub(super) fn has_stopped_on(&self, tty: i64) -> bool {
        self.all.values().any(|stat| stat.tty == tty && stat.is_stopped)
    }

    /// Those of `pids` that belong to this user and satisfy `is_it`.
    fn ours<'a>(
        &self,
        pids: impl Iterator<Item = &'a u32>,
        is_it: impl Fn(u32) -> bool,
    ) -> Vec<ProcessRef> {
        let euid = rustix::process::geteuid().as_raw();
        let is_ours =
            |pid: u32| std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|dir| dir.uid() == euid);
        // Few processes satisfy `is_it`, so the user is checked last.
        pids.filter(|pid| is_it(**pid) && is_ours(**pid)).filter_map(|pid| self.of(*pid)).collect()
    }

    /// Processes that a living harness started and that use its terminal: an editor reads from it and writes
    /// to it, unlike a process that only inherited it.
    pub(super) fn on_terminal(&self, harness: ProcessRef) -> Vec<ProcessRef> {
        let Some(own) = self.all.get(&harness.pid).filter(|own| own.tty != 0) else {
            return Vec::new();
        };
        let mut below = BTreeSet::from([harness.pid]);
        // A child may have a smaller pid than its parent, because pids wrap around.
        loop {
            let n = below.len();
            let children = self.all.iter().filter(|(_, stat)| below.contains(&stat.ppid));
            let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
            below.extend(children);
            if below.len() == n {
                break;
            }
        }
        below.remove(&harness.pid);
        let has_it = |pid: &u32| self.all.get(pid).is_some_and(|stat| stat.tty == own.tty);
        let there = below.into_iter().filter(|pid| has_it(pid) && uses(*pid, own.tty));
        there.filter_map(|pid| self.of(pid)).collect()
    }

    /// Processes that a dead harness started and that are still alive: its tools (H-33). One that began before
    /// `/clear` or an in-process resume names the session of that time, so its start decides then: it lies between
    /// that of the harness and that of a later process with the same pid.
    pub(super) fn left_by(&self, harness: ProcessRef, session_id: &str) -> Vec<ProcessRef> {
        let session = format!("CLAUDE_CODE_SESSION_ID={session_id}").into_bytes();
        let client = format!("CLAUDE_PID={}", harness.pid).into_bytes();
        let later = self.all.get(&harness.pid).filter(|_| !self.is_alive(harness));
        let later = later.map_or(u64::MAX, |later| later.start_time);
        self.ours(self.all.keys(), |pid| {
            let Some(environ) = environ(pid) else { return false };
            let has = |wanted: &[u8]| environ.split(|byte| *byte == 0).any(|one| one == wanted);
            let began = self.all.get(&pid).map_or(0, |stat| stat.start_time);
            has(&client) && (has(&session) || (harness.start_time..later).contains(&began))
        })
    }

    /// The other processes that hold a session.
    pub(super) fn owners(
        &mut self,
        session_id: &str,
        config_dir: &str,
        readable: &Readable,
        except: &[ProcessRef],
    ) -> Vec<ProcessRef> {
        let registered = registered(readable, Path::new(config_dir));
        let of_another = |process: &ProcessRef| {
            registered.get(process).is_some_and(|registered| registered != session_id)
        };
        let named = registered.iter().filter(|(_, registered)| *registered == session_id);
        let mut owners: BTreeSet<ProcessRef> =
            named.map(|(process, _)| *process).filter(|process| self.is_alive(*process)).collect();
        // Until a client's child calls exec, it has the client's command line.
        let is_before_exec = |pid: u32| self.all.get(&pid).is_some_and(|stat| stat.is_before_exec);
        let new = self.ours(self.new.iter(), |pid| {
            !is_before_exec(pid)
                && process::cmdline(pid).is_some_and(|line| takes(&line, session_id.as_bytes()))
        });
        self.takers.extend(new);
        // If a client was started with the session but has moved on to another one, its registry entry says
        // so.
        owners.extend(self.takers.iter().filter(|process| !of_another(process)));
        owners.into_iter().filter(|process| !except.contains(process)).collect()
    }
}

/// The living processes that hold a session, except those in `except`, by pid (H-13). They are those whose
/// entry in the registry of `config_dir` names the session, and those of this user whose command line takes
/// it.
pub fn owners(
    session_id: &str,
    config_dir: &str,
    readable: &Readable,
    except: &[ProcessRef],
) -> Vec<ProcessRef> {
    Table::read_since(&Table::default()).owners(session_id, config_dir, readable, except)
}

/// The sessions that the registry names, by process.
fn registered(readable: &Readable, config_dir: &Path) -> BTreeMap<ProcessRef, String> {
    let mut registered = BTreeMap::new();
    let Ok(sessions) = registry::open_sessions(readable, config_dir) else { return registered };
    let Ok(files) = std::fs::read_dir(config_dir.join("sessions")) else { return registered };
    let pid_of = |name: &str| name.strip_suffix(".json")?.parse().ok();
    let pids = files.flatten().filter_map(|file| pid_of(file.file_name().to_str()?));
    for pid in pids.take(ENTRIES_MAX) {
        let Ok(found) = registry::read_entry(&sessions, config_dir, pid) else { continue };
        if let Registry::Present(entry) = found.entry {
            let process = ProcessRef { pid, start_time: found.process.start_time };
            registered.insert(process, entry.session_id);
        }
    }
    registered
}

/// Whether a command line is that of a client that takes this session. A client that forks the session takes
/// a copy.
fn takes(cmdline: &[u8], session_id: &[u8]) -> bool {
    let program = cmdline.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let words: Vec<&[u8]> = process::options(cmdline).collect();
    if MULTIPLEXERS.contains(&name) || words.contains(&b"--fork-session".as_slice()) {
        return false;
    }
    let is_value = |pair: &[&[u8]]| matches!(pair, [b"--resume" | b"-r" | b"--session-id", value] if *value == session_id);
    let is_joined = |word: &&[u8]| {
        let options: [&[u8]; 2] = [b"--resume=", b"--session-id="];
        options.iter().any(|option| word.strip_prefix(*option) == Some(session_id))
    };
    words.windows(2).any(is_value) || words.iter().any(is_joined)
}

/// Whether a process reads from its terminal or writes to it. If that cannot be determined, it counts as yes.
fn uses(pid: u32, tty: i64) -> bool {
    let is_there = |fd: u32| match std::fs::metadata(format!("/proc/{pid}/fd/{fd}")) {
        Ok(file) => file.rdev() == OWN_TERMINAL || i64::try_from(file.rdev()) == Ok(tty),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    is_there(0) || is_there(1)
}

fn environ(pid: u32) -> Option<Vec<u8>> {
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut environ = Vec::new();
    file.take(ENVIRON_BYTES_MAX).read_to_end(&mut environ).ok()?;
    Some(environ)
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-13
    #[test]
    fn a_client_that_takes_a_session_is_told_by_its_command_line() {
        for (words, expected) in [
            ("claude\0--resume\0s1\0", true),
            ("/opt/claude\0-r\0s1\0--model\0opus\0", true),
            ("claude\0--resume=s1\0", true),
            ("claude\0--session-id\0s1\0", true),
            ("claude\0--session-id=s1\0hi\0", true),
            ("node\0cli.js\0--resume\0s1\0", true),
            ("claude\0--resume\0s12\0", false),
            ("claude\0--resume\0s1\0--fork-session\0", false),
            ("claude\0--\0--resume\0s1\0", false),
            ("/usr/bin/tmux\0new-session\0claude\0--resume\0s1\0", false),
            ("claude\0s1\0", false),
            ("coordctl\0resume-exec\0s1\0", false),
            ("claude\0--resume\0", false),
            ("", false),
        ] {
            assert_eq!(takes(words.as_bytes(), b"s1"), expected, "{words:?}");
        }
    }
}

//! Reads the part of the process table that concerns one run. Decides nothing (`coord_core::kill_set` does).

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;

use coord_core::{KillSet, Role, RunRoot, TreeProcess, TreeSeen};
use coord_host::process::{self, Stat};
use coord_model::{ProcessRef, Signal};
use rustix::process::pidfd_send_signal;

use crate::spec::SHELLS;

/// A clock tick of the process table, in milliseconds: 100 a second on every Linux that coord runs on.
const TICK_MS: u64 = 10;

/// The process tree of one run, and how to find it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: RunRoot,
    /// The inode numbers of the pipes for the run's output.
    pub(crate) pipes: Vec<u64>,
}

impl Tree {
    /// Looks at what the tree is doing.
    pub(crate) fn look(&self) -> TreeSeen {
        coord_core::tree_seen(&self.root, &self.read())
    }

    /// The processes that a forced end reaches. `proved` are those that an earlier look found.
    pub(crate) fn kill_set(&self, proved: &[ProcessRef]) -> KillSet {
        coord_core::kill_set(&self.root, proved, &self.read())
    }

    /// Reads all living processes near the run. Details are read only for these.
    fn read(&self) -> Vec<TreeProcess> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let all: BTreeMap<u32, Stat> = pids
            .filter_map(|pid| Some((pid, process::stat(pid).filter(|stat| !stat.is_zombie)?)))
            .collect();
        let near = self.near(&all);
        let of = |(pid, stat): (&u32, &Stat)| self.of(*pid, stat);
        all.iter().filter(|(pid, _)| near.contains(pid)).map(of).collect()
    }

    /// Processes below the supervisor or in the run's process group.
    fn near(&self, all: &BTreeMap<u32, Stat>) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, stat) in all {
            children.entry(stat.ppid).or_default().push(*pid);
        }
        let strayed = all.iter().filter(|(_, stat)| stat.group == self.root.child.pid);
        let mut open: Vec<u32> = strayed.map(|(pid, _)| *pid).collect();
        open.extend(children.get(&self.root.supervisor).into_iter().flatten());
        let mut near = BTreeSet::new();
        while let Some(pid) = open.pop() {
            if pid != self.root.supervisor && near.insert(pid) {
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        near
    }

    fn of(&self, pid: u32, stat: &Stat) -> TreeProcess {
        let is_adopted = stat.ppid == self.root.supervisor && pid != self.root.child.pid;
        TreeProcess {
            process: ProcessRef { pid, start_time: stat.start_time },
            parent: stat.ppid,
            group: stat.group,
            session: stat.session,
            role: role(pid),
            // Checked only for the processes to which it matters.
            holds_output: is_adopted && self.holds_output(pid),
            cpu_ms: Some(stat.cpu_ticks.saturating_mul(TICK_MS)),
        }
    }

    fn holds_output(&self, pid: u32) -> bool {
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| {
            let inode = target.as_os_str().as_bytes().strip_prefix(b"pipe:[");
            let inode = inode.and_then(|rest| rest.strip_suffix(b"]"));
            let inode = inode.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            inode.is_some_and(|inode: u64| self.pipes.contains(&inode))
        })
    }
}

/// The role of a process, by its command line.
fn role(pid: u32) -> Role {
    // Enough for the program and its first words.
    let Some(words) = process::words(pid) else { return Role::Plain };
    let mut words = words.iter().map(Vec::as_slice);
    let program = base_name(words.next().unwrap_or_default());
    let rest: Vec<&[u8]> = words.collect();
    let first = rest.first().copied().unwrap_or_default();
    match program {
        b"claude" if first == b"mcp" => Role::Mcp,
        b"claude" => Role::Harness,
        b"coord" if first == b"serve" || rest.contains(&b"serve".as_slice()) => Role::Coordinator,
        name if is_terminals(name) => Role::Terminals,
        // A shell's command is a text that anybody may have written.
        name if SHELLS.iter().any(|shell| name == shell.as_bytes()) => Role::Plain,
        name => {
            let is_mcp = names_mcp(name) || rest.iter().take(MCP_WORDS).any(|word| names_mcp(word));
            if is_mcp { Role::Mcp } else { Role::Plain }
        }
    }
}

/// Arguments in which the name of an MCP server is looked for.
const MCP_WORDS: usize = 4;

fn is_terminals(name: &[u8]) -> bool {
    // In some versions, the tmux server overwrites its command line with its purpose.
    name == b"tmux" || name.starts_with(b"tmux:") || name.eq_ignore_ascii_case(b"screen")
}

/// Whether a word has `mcp` as a part of a path or name, or the organisation that publishes most MCP servers.
fn names_mcp(word: &[u8]) -> bool {
    let is_mcp = |part: &[u8]| {
        part.eq_ignore_ascii_case(b"mcp") || part.eq_ignore_ascii_case(b"modelcontextprotocol")
    };
    word.len() <= WORD_BYTES_MAX && word.split(|byte| !byte.is_ascii_alphanumeric()).any(is_mcp)
}

/// Longest path or name that is examined, in bytes.
const WORD_BYTES_MAX: usize = 512;

fn base_name(word: &[u8]) -> &[u8] {
    word.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Sends a signal to exactly these processes. Those that are already gone are skipped.
pub(crate) fn signal_all(processes: &[ProcessRef], signal: Signal) {
    let signal = match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    for one in processes {
        let sent = process::open_pidfd(*one).and_then(|fd| Ok(pidfd_send_signal(&fd, signal)?));
        if let Err(error) = sent {
            tracing::debug!(pid = one.pid, %error, "not signalled");
        }
    }
}

/// Names a process for people, as pid and program.
pub(crate) fn named(one: ProcessRef) -> String {
    let program: String =
        process::program(one.pid).chars().filter(|one| !one.is_control()).take(64).collect();
    format!("{} {program}", one.pid)
}

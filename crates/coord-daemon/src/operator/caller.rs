//! Decides who may give orders (H-22, H-50): a person at a terminal, and no agent. Judged from the
//! process table, by the socket's peer.
//!
//! An agent is known by a client among the caller's ancestors, and by the variables that the client sets
//! for what it starts: they stay in the environment of a process that detached itself, and of a tmux
//! server that an agent started. It holds against agents that the client confines. Arbitrary code of the
//! user can clear both, and a window that an agent opens in its user's own tmux server has neither.

use core::fmt;

use coord_model::ProcessRef;

use coord_host::process::{self, Caller, Stat};

/// Ancestors that are looked at; a person's shell has a handful.
const DEPTH_MAX: usize = 256;

/// The first process of a pid namespace.
const INIT: u32 = 1;

/// Name of the client's program.
const CLIENT: &str = "claude";

/// Variables that the client sets for every process it starts.
const MARKS: [&str; 2] = ["CLAUDECODE", "CLAUDE_PID"];

/// Environments are read up to here, all ancestors together. The kernel allows 6 MiB for one.
const ENVIRONMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is asked of the process table.
pub(crate) trait Processes {
    /// The process that has this pid, if it can be seen.
    fn stat(&self, pid: u32) -> Option<Stat>;
    /// The file name of the program as its command line has it; empty where that cannot be read.
    fn program(&self, pid: u32) -> String;
    /// The environment that the process was started with; empty where that cannot be read.
    fn environment(&self, pid: u32) -> Vec<u8>;
}

/// This machine's.
#[derive(Debug)]
pub(crate) struct Machine;

impl Processes for Machine {
    fn stat(&self, pid: u32) -> Option<Stat> {
        process::stat(pid)
    }

    fn program(&self, pid: u32) -> String {
        process::program(pid)
    }

    fn environment(&self, pid: u32) -> Vec<u8> {
        process::environment(pid)
    }
}

/// Why an order is not taken. One line, with what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The caller, or what it descends from, is gone or cannot be seen.
    Unseen,
    /// It has no controlling terminal.
    NoTerminal,
    /// A harness is among its ancestors.
    BelowHarness(u32),
    /// The client started it, or one of its ancestors: this process has the client's variables.
    Marked(u32),
    /// A harness holds its terminal.
    HeldTerminal(u32),
}

impl Refusal {
    /// The word for programs.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Unseen => "unseen_caller",
            Self::NoTerminal => "no_terminal",
            Self::BelowHarness(_) => "below_harness",
            Self::Marked(_) => "started_by_client",
            Self::HeldTerminal(_) => "held_terminal",
        }
    }
}

impl Refusal {
    /// Why, and what a person does instead, who would run `command`.
    pub(crate) fn line(self, command: &str) -> String {
        match self {
            Self::Unseen => format!(
                "Refused: the calling process or one of its ancestors has ended or cannot be seen. Run {command} yourself, in a terminal."
            ),
            Self::NoTerminal => format!(
                "Refused: no terminal, so nothing shows that a person asks. Run {command} in one."
            ),
            Self::BelowHarness(pid) => format!(
                "Refused: this comes from Claude Code (pid {pid}). Run {command} in another terminal."
            ),
            Self::Marked(pid) => format!(
                "Refused: Claude Code started process {pid}, from which this comes (CLAUDECODE or CLAUDE_PID is in its environment). Run {command} in a terminal that Claude Code did not start."
            ),
            Self::HeldTerminal(pid) => format!(
                "Refused: Claude Code (pid {pid}) holds this terminal. Run {command} in another one."
            ),
        }
    }
}

/// Names `coordctl`, which is what most orders are given by.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line("coordctl"))
    }
}

/// Whom something comes from (H-04).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// A person at a terminal.
    Person,
    /// An agent, by its harness's pid.
    Harness(u32),
    /// An agent, of a session that nobody can tell.
    Agent,
    /// A program without a terminal, by the name of what started the caller; `unknown` where nobody can
    /// tell.
    Program(String),
}

/// Whom a request comes from. Nothing is refused: who cannot be told is told as that.
pub(crate) fn who(table: &impl Processes, caller: Caller, harnesses: &[ProcessRef]) -> Who {
    match check(table, caller, harnesses) {
        Ok(()) => Who::Person,
        Err(Refusal::BelowHarness(pid)) => Who::Harness(pid),
        Err(Refusal::HeldTerminal(_) | Refusal::Marked(_)) => Who::Agent,
        Err(Refusal::NoTerminal) => {
            let name = caller.parent.map_or_else(String::new, |parent| table.program(parent));
            let name: String = name.chars().filter(|one| !one.is_control()).take(64).collect();
            Who::Program(if name.is_empty() { UNKNOWN.to_owned() } else { name })
        }
        Err(Refusal::Unseen) => Who::Program(UNKNOWN.to_owned()),
    }
}

const UNKNOWN: &str = "unknown";

/// Whether the caller may give orders; `harnesses` are the processes that are known to be ones.
pub(crate) fn check(
    table: &impl Processes,
    caller: Caller,
    harnesses: &[ProcessRef],
) -> Result<(), Refusal> {
    let own = check_no_agent(table, caller, harnesses)?;
    if own.tty == 0 {
        return Err(Refusal::NoTerminal);
    }
    let holds = |harness: &&ProcessRef| {
        let stat = table.stat(harness.pid).filter(|stat| stat.start_time == harness.start_time);
        stat.is_some_and(|stat| stat.tty == own.tty && !stat.is_zombie)
    };
    match harnesses.iter().find(holds) {
        Some(harness) => Err(Refusal::HeldTerminal(harness.pid)),
        None => Ok(()),
    }
}

/// Whether the caller comes from no agent; a program without a terminal passes. Its own entry in the
/// process table.
pub(crate) fn check_no_agent(
    table: &impl Processes,
    caller: Caller,
    harnesses: &[ProcessRef],
) -> Result<Stat, Refusal> {
    let Some(own) = table.stat(caller.pid).filter(|stat| !stat.is_zombie) else {
        return Err(Refusal::Unseen);
    };
    // Whose parent has ended since it connected is another's child by now: nothing leads back.
    if caller.parent != Some(own.ppid) {
        return Err(Refusal::Unseen);
    }
    let pids = check_ancestors(table, (caller.pid, own), harnesses)?;
    check_environments(table, &pids)?;
    Ok(own)
}

/// Whether no process among these was started by the client.
fn check_environments(table: &impl Processes, pids: &[u32]) -> Result<(), Refusal> {
    let mut bytes = 0;
    for pid in pids {
        let environment = table.environment(*pid);
        if has_mark(&environment) {
            return Err(Refusal::Marked(*pid));
        }
        bytes += environment.len();
        if ENVIRONMENT_BYTES_MAX < bytes {
            return Err(Refusal::Unseen);
        }
    }
    Ok(())
}

/// Whether one of the client's variables has a value there.
fn has_mark(environment: &[u8]) -> bool {
    environment.split(|byte| *byte == 0).any(|entry| {
        MARKS.iter().any(|name| {
            let value =
                entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| !value.is_empty())
        })
    })
}

/// The caller and its ancestors, if none of them is a harness.
fn check_ancestors(
    table: &impl Processes,
    caller: (u32, Stat),
    harnesses: &[ProcessRef],
) -> Result<Vec<u32>, Refusal> {
    let (mut pid, mut stat) = caller;
    let mut pids = Vec::new();
    for _ in 0..DEPTH_MAX {
        pids.push(pid);
        let is_known = harnesses.contains(&ProcessRef { pid, start_time: stat.start_time });
        // One that no hook and no registry told of is known by its name.
        if is_known || table.program(pid) == CLIENT {
            return Err(Refusal::BelowHarness(pid));
        }
        if pid == INIT || stat.ppid == 0 {
            return Ok(pids);
        }
        match table.stat(stat.ppid) {
            Some(parent) => (pid, stat) = (stat.ppid, parent),
            // Where other users' processes are hidden (hidepid), so is the first one; what starts
            // there is another user's, and no harness of ours.
            None if table.stat(INIT).is_none() => return Ok(pids),
            None => return Err(Refusal::Unseen),
        }
    }
    Err(Refusal::Unseen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Pid, parent, terminal, program. Every process began at the tick of its pid.
    type Row = (u32, u32, i64, &'static str);

    /// The processes, and the environments of some.
    struct Table(BTreeMap<u32, Row>, BTreeMap<u32, Vec<u8>>);

    impl Table {
        fn of(rows: &[Row]) -> Self {
            Self(rows.iter().map(|row| (row.0, *row)).collect(), BTreeMap::new())
        }
    }

    impl Processes for Table {
        fn stat(&self, pid: u32) -> Option<Stat> {
            let row = self.0.get(&pid)?;
            Some(Stat {
                group: 0,
                session: 0,
                cpu_ticks: 0,
                front: 0,
                ppid: row.1,
                tty: row.2,
                start_time: u64::from(pid),
                is_zombie: row.3 == "zombie",
                is_stopped: false,
                is_before_exec: false,
            })
        }

        fn program(&self, pid: u32) -> String {
            self.0.get(&pid).map_or_else(String::new, |row| row.3.to_owned())
        }

        fn environment(&self, pid: u32) -> Vec<u8> {
            self.1.get(&pid).cloned().unwrap_or_default()
        }
    }

    const INIT_ROW: Row = (1, 0, 0, "init");
    const SHELL: Row = (20, 10, 7, "bash");
    const CTL: Row = (30, 20, 7, "coordctl");

    /// What is said to process 30, whose parent was 20 when it connected; 40 is a known harness, and
    /// so was 41, whose pid is another's now.
    fn said(rows: &[Row]) -> Result<(), Refusal> {
        let table = Table::of(rows);
        let harnesses = [(40, 40), (41, 7)].map(|(pid, start_time)| ProcessRef { pid, start_time });
        check(&table, Caller { pid: 30, parent: Some(20) }, &harnesses)
    }

    // H-22
    #[test]
    fn a_person_at_a_terminal_may_and_nobody_else() {
        let tmux: Row = (10, 1, 0, "tmux");
        for (what, rows, wanted) in [
            ("a shell in tmux", &[CTL, SHELL, tmux, INIT_ROW][..], Ok(())),
            ("a harness elsewhere", &[CTL, SHELL, tmux, INIT_ROW, (40, 10, 8, "node")], Ok(())),
            ("a pid reused", &[CTL, SHELL, tmux, INIT_ROW, (41, 10, 7, "vi")], Ok(())),
            ("a chain out of the namespace", &[CTL, (20, 0, 7, "bash"), INIT_ROW], Ok(())),
            ("processes of others hidden", &[CTL, SHELL], Ok(())),
            ("no terminal", &[(30, 20, 0, "x"), SHELL, tmux, INIT_ROW], Err(Refusal::NoTerminal)),
            (
                "below a known harness",
                &[CTL, (20, 40, 7, "bash"), (40, 1, 8, "node"), INIT_ROW],
                Err(Refusal::BelowHarness(40)),
            ),
            (
                "below a harness, without a terminal",
                &[(30, 20, 0, "x"), (20, 40, 0, "bash"), (40, 1, 8, "node"), INIT_ROW],
                Err(Refusal::BelowHarness(40)),
            ),
            (
                "below one that nobody told of",
                &[CTL, (20, 50, 7, "bash"), (50, 1, 8, "claude"), INIT_ROW],
                Err(Refusal::BelowHarness(50)),
            ),
            (
                "on a harness's terminal",
                &[CTL, SHELL, tmux, INIT_ROW, (40, 1, 7, "node")],
                Err(Refusal::HeldTerminal(40)),
            ),
            ("a dead harness", &[CTL, SHELL, tmux, INIT_ROW, (40, 1, 7, "zombie")], Ok(())),
            ("gone", &[SHELL, tmux, INIT_ROW], Err(Refusal::Unseen)),
            ("dead", &[(30, 20, 7, "zombie"), SHELL, tmux, INIT_ROW], Err(Refusal::Unseen)),
            ("its parent has ended", &[(30, 1, 7, "x"), INIT_ROW], Err(Refusal::Unseen)),
            ("a gap above it", &[CTL, SHELL, INIT_ROW], Err(Refusal::Unseen)),
            ("a ring", &[CTL, (20, 30, 7, "bash"), INIT_ROW], Err(Refusal::Unseen)),
        ] {
            assert_eq!(said(rows), wanted, "{what}");
        }
    }

    // H-50: what the client starts keeps its variables, whatever its ancestors are.
    #[test]
    fn the_environment_of_an_ancestor_tells_of_an_agent() {
        let tmux: Row = (10, 1, 0, "tmux");
        let rows = [CTL, SHELL, tmux, INIT_ROW];
        let caller = Caller { pid: 30, parent: Some(20) };
        for (what, pid, environment, wanted) in [
            ("its own", 30, &b"A=1\0CLAUDECODE=1\0"[..], Err(Refusal::Marked(30))),
            ("its shell's", 20, b"CLAUDE_PID=77\0A=1\0", Err(Refusal::Marked(20))),
            ("the tmux server's", 10, b"CLAUDECODE=1\0", Err(Refusal::Marked(10))),
            ("cut short", 10, b"CLAUDECODE=1", Err(Refusal::Marked(10))),
            ("not set", 20, b"CLAUDECODE=\0CLAUDE_PID=\0", Ok(())),
            ("other names", 20, b"XCLAUDECODE=1\0CLAUDE_PIDS=1\0A=CLAUDE_PID=1\0", Ok(())),
        ] {
            let environments = BTreeMap::from([(pid, environment.to_vec())]);
            let table = Table(Table::of(&rows).0, environments);
            assert_eq!(check(&table, caller, &[]), wanted, "{what}");
            let no_agent = check_no_agent(&table, caller, &[]).map(|_| ());
            assert_eq!(no_agent, wanted, "{what}");
            let sender = if wanted.is_ok() { Who::Person } else { Who::Agent };
            assert_eq!(who(&table, caller, &[]), sender, "{what}");
        }
        // More than can be read at a time may hide anything.
        let large = vec![b'x'; ENVIRONMENT_BYTES_MAX + 1];
        let table = Table(Table::of(&rows).0, BTreeMap::from([(20, large)]));
        assert_eq!(check(&table, caller, &[]), Err(Refusal::Unseen));
    }

    // H-50: a program without a terminal is no agent, and neither is who stopped a client with Ctrl-Z.
    #[test]
    fn a_program_is_no_agent() {
        let tmux: Row = (10, 1, 0, "tmux");
        let harness: Row = (40, 1, 7, "node");
        let caller = Caller { pid: 30, parent: Some(20) };
        let harnesses = [ProcessRef { pid: 40, start_time: 40 }];
        let cron = [(30, 20, 0, "x"), (20, 1, 0, "cron"), INIT_ROW];
        for rows in [&cron[..], &[CTL, SHELL, tmux, INIT_ROW, harness]] {
            assert!(check_no_agent(&Table::of(rows), caller, &harnesses).is_ok());
            assert!(check(&Table::of(rows), caller, &harnesses).is_err());
        }
        let below = [(30, 20, 0, "x"), (20, 40, 0, "bash"), harness, INIT_ROW];
        let refused = check_no_agent(&Table::of(&below), caller, &harnesses).map(|_| ());
        assert_eq!(refused, Err(Refusal::BelowHarness(40)));
    }

    // H-04: whom a message comes from, by the same table.
    #[test]
    fn a_sender_is_who_the_table_says() {
        let of = |rows: &[Row]| {
            let table = Table::of(rows);
            let harnesses = [ProcessRef { pid: 40, start_time: 40 }];
            who(&table, Caller { pid: 30, parent: Some(20) }, &harnesses)
        };
        let program = |name: &str| Who::Program(name.to_owned());
        let harness: Row = (40, 1, 8, "node");
        for (what, rows, wanted) in [
            ("a person", &[CTL, SHELL, (10, 1, 0, "tmux"), INIT_ROW][..], Who::Person),
            ("an agent", &[CTL, (20, 40, 0, "bash"), harness, INIT_ROW], Who::Harness(40)),
            (
                "on a harness's terminal",
                &[CTL, SHELL, (10, 1, 0, "tmux"), INIT_ROW, (40, 1, 7, "node")],
                Who::Agent,
            ),
            ("cron", &[(30, 20, 0, "x"), (20, 1, 0, "cron"), INIT_ROW], program("cron")),
            (
                "a name that steers",
                &[(30, 20, 0, "x"), (20, 1, 0, "a\u{1b}\n"), INIT_ROW],
                program("a"),
            ),
            ("gone", &[SHELL, INIT_ROW], program("unknown")),
        ] {
            assert_eq!(of(rows), wanted, "{what}");
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_what_to_do() {
        for refusal in [
            Refusal::Unseen,
            Refusal::NoTerminal,
            Refusal::BelowHarness(7),
            Refusal::Marked(7),
            Refusal::HeldTerminal(7),
        ] {
            let line = refusal.to_string();
            assert!(line.starts_with("Refused: ") && line.contains(". Run coordctl "), "{line}");
            assert!(!line.contains('\n'));
            assert!(refusal.line("coord down").contains(". Run coord down "));
        }
    }
}

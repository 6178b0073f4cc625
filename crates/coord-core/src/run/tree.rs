//! Decides which processes belong to a run (H-20), and what its tree is at (S3-21).
//!
//! What belongs to it: its process, what descends from it by an unbroken chain of parents, and what
//! stayed in its process group, or lost its parent and stayed in its session. What left the session and was
//! adopted is listed and left alone, unless it holds the run's output. A coordinator, a server of tmux or
//! screen, and another session's harness never belong to it, nor does anything below them, nor what was
//! there before the run's own process.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use coord_model::ProcessRef;

/// What a process is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Anything else.
    Plain,
    /// A Claude Code client.
    Harness,
    /// A server of MCP, by its command line.
    Mcp,
    /// A server of tmux or screen.
    Terminals,
    /// A coordinator.
    Coordinator,
}

/// One process of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeProcess {
    /// Which.
    pub process: ProcessRef,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// What it is.
    pub role: Role,
    /// Whether the run's output is open in it.
    pub holds_output: bool,
    /// Processor time it used, milliseconds; none where that cannot be read.
    pub cpu_ms: Option<u64>,
}

/// Where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunRoot {
    /// The supervisor, which adopts what loses its parent.
    pub supervisor: u32,
    /// The run's own process, which leads its group.
    pub child: ProcessRef,
    /// The session both live in.
    pub session: u32,
    /// What left the session is ended too.
    pub ends_daemons: bool,
}

/// What is ended, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KillSet {
    /// It belongs to the run.
    pub ends: Vec<ProcessRef>,
    /// It came from the run and is left alone.
    pub spares: Vec<ProcessRef>,
}

/// Which of these processes a forced end of the run reaches. `proved` are those that a look before the
/// first signal found to belong: that they lost their parents since changes nothing.
pub fn kill_set(root: &RunRoot, proved: &[ProcessRef], processes: &[TreeProcess]) -> KillSet {
    let table = Table::new(root, proved, processes);
    let mut set = KillSet::default();
    for one in processes {
        match table.tie(one) {
            Some(Tie { belongs: true, .. }) => set.ends.push(one.process),
            Some(Tie { belongs: false, .. }) => set.spares.push(one.process),
            None => (),
        }
    }
    set
}

/// How a process came from the run.
struct Tie {
    /// It belongs to it still.
    belongs: bool,
    /// It is a server of MCP, or one of a server's own processes.
    is_server: bool,
}

struct Table<'a> {
    root: &'a RunRoot,
    proved: &'a [ProcessRef],
    by_pid: BTreeMap<u32, &'a TreeProcess>,
    /// The run's group is the run's: its number is no other process by now.
    has_group: bool,
}

impl<'a> Table<'a> {
    fn new(root: &'a RunRoot, proved: &'a [ProcessRef], processes: &'a [TreeProcess]) -> Self {
        let by_pid: BTreeMap<_, _> = processes.iter().map(|one| (one.process.pid, one)).collect();
        let has_group = by_pid.get(&root.child.pid).is_none_or(|one| one.process == root.child);
        Self { root, proved, by_pid, has_group }
    }

    /// Walks up from a process; none where nothing above it leads to the run.
    fn tie(&self, one: &TreeProcess) -> Option<Tie> {
        let root = self.root;
        let (mut came, mut belongs, mut is_child, mut has_own) = (false, false, false, false);
        let (mut harnesses, mut is_with_others, mut is_server) = (0_u32, false, false);
        let mut is_younger = true;
        let mut next = Some(one);
        // A table that was read while pids were reused may have a loop.
        for _ in 0..self.by_pid.len() {
            let Some(it) = next.filter(|it| it.process.pid != root.supervisor) else { break };
            match it.role {
                Role::Harness => harnesses = harnesses.saturating_add(1),
                Role::Coordinator | Role::Terminals => is_with_others = true,
                Role::Mcp => is_server = true,
                Role::Plain => (),
            }
            is_younger &= root.child.start_time <= it.process.start_time;
            // What was there before the run is another's, of the same supervisor perhaps.
            if is_younger {
                is_child = it.process == root.child;
                let is_in_group = self.has_group && it.group == root.child.pid;
                let is_adopted = it.parent == root.supervisor;
                let is_proved = self.is_proved(it);
                let is_own_harness = it.role == Role::Harness && self.proved.contains(&it.process);
                has_own |= is_child || is_own_harness;
                let is_own = is_child || is_in_group || is_proved;
                came |= is_own || is_adopted;
                belongs |= is_own || (is_adopted && self.is_kept(it));
            }
            if is_child {
                break;
            }
            next = self.by_pid.get(&it.parent).copied();
        }
        // The first harness on the way down is the run's own; one below it is another session's.
        let is_with_others = is_with_others || u32::from(has_own) < harnesses;
        came.then_some(Tie { belongs: belongs && !is_with_others, is_server })
    }

    /// It was found to belong, or lives in a session whose leader was: what a tool starts while it is
    /// ended. The number of a session is no other process while it has members.
    fn is_proved(&self, one: &TreeProcess) -> bool {
        let leads = |found: &ProcessRef| {
            let leader = self.by_pid.get(&one.session);
            found.pid == one.session && leader.is_none_or(|leader| leader.process == *found)
        };
        self.proved.iter().any(|found| *found == one.process || leads(found))
    }

    /// Whether what was adopted still leads to the run.
    fn is_kept(&self, one: &TreeProcess) -> bool {
        one.session == self.root.session || one.holds_output || self.root.ends_daemons
    }
}

/// What a look at a tree found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeSeen {
    /// Processes of the run.
    pub members: u32,
    /// Those that are neither its process nor its harness nor of a server of MCP: tools and their
    /// children.
    pub tools: u32,
    /// Processor time of all but the client, milliseconds; none where one could not be read.
    pub cpu_ms: Option<u64>,
    /// That of the client, which is never quite still.
    pub client_cpu_ms: Option<u64>,
    /// A digest of who they are.
    pub who: u64,
}

/// What a tree is at, from the processes of one look.
pub fn tree_seen(root: &RunRoot, processes: &[TreeProcess]) -> TreeSeen {
    let table = Table::new(root, &[], processes);
    let mut seen = TreeSeen { cpu_ms: Some(0), client_cpu_ms: Some(0), ..TreeSeen::default() };
    for one in processes {
        let Some(tie) = table.tie(one).filter(|tie| tie.belongs) else { continue };
        seen.members = seen.members.saturating_add(1);
        let is_tool = one.role == Role::Plain && one.process != root.child && !tie.is_server;
        seen.tools = seen.tools.saturating_add(u32::from(is_tool));
        let is_client = one.role == Role::Harness;
        let sum = if is_client { &mut seen.client_cpu_ms } else { &mut seen.cpu_ms };
        *sum = sum.zip(one.cpu_ms).map(|(all, one)| all.saturating_add(one));
        let it = u64::from(one.process.pid) ^ one.process.start_time.rotate_left(24);
        // Order does not matter, and no two processes share pid and start time.
        seen.who = seen.who.wrapping_add(it.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    seen
}

/// What a tree did between two looks; none where they are too close together to tell.
pub(super) fn activity(
    before: TreeSeen,
    now: TreeSeen,
    between_ms: u64,
    busy_percent: u64,
) -> Option<super::Activity> {
    use super::Activity;
    if before.who != now.who {
        // Somebody came or went.
        return Some(Activity::Busy);
    }
    let used = |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?));
    let (Some(tools), Some(client)) =
        (used(before.cpu_ms, now.cpu_ms), used(before.client_cpu_ms, now.client_cpu_ms))
    else {
        return Some(Activity::Unknown);
    };
    // The table counts in hundredths of a second: a shorter time shows nothing.
    if between_ms < SAMPLE_MS_MIN {
        return None;
    }
    let is_over =
        |used: u64, percent: u64| between_ms.saturating_mul(percent) <= used.saturating_mul(100);
    let is_busy = is_over(tools, busy_percent) || is_over(client, CLIENT_PERCENT);
    Some(if is_busy { Activity::Busy } else { Activity::Quiet })
}

const SAMPLE_MS_MIN: u64 = 500;
/// A client that only waits uses up to 3 hundredths of a core (measured).
const CLIENT_PERCENT: u64 = 10;

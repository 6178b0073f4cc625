//! Decides which processes belong to a run (H-20), and whether its tree is busy (S3-21).
//!
//! A run consists of its process and of what descends from that by an unbroken chain of parents. What stayed in
//! its process group belongs to it too, and so does what lost its parent and stayed in its session. A process that
//! left the session and was adopted is listed and left alone, unless it holds the run's output. A coordinator, a
//! tmux or screen server, and another session's harness never belong to it. Neither does anything below these, nor
//! what existed before the run's own process.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use coord_model::ProcessRef;

/// The kind of a process, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Anything else.
    Plain,
    /// A Claude Code client.
    Harness,
    /// An MCP server, by its command line.
    Mcp,
    /// A tmux or screen server.
    Terminals,
    /// A coordinator.
    Coordinator,
}

/// One process of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeProcess {
    /// The process.
    pub process: ProcessRef,
    /// Pid of its parent.
    pub parent: u32,
    /// Id of its process group.
    pub group: u32,
    /// Id of its session.
    pub session: u32,
    /// The kind of process.
    pub role: Role,
    /// Whether it has the run's output open.
    pub holds_output: bool,
    /// Processor time that it used, milliseconds; none if that cannot be read.
    pub cpu_ms: Option<u64>,
}

/// The root of a run's process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunRoot {
    /// Pid of the supervisor, which adopts processes that lose their parent.
    pub supervisor: u32,
    /// The run's own process, which leads its group.
    pub child: ProcessRef,
    /// Id of the session that both are in.
    pub session: u32,
    /// Whether processes that left the session are ended too.
    pub ends_daemons: bool,
}

/// The processes that are ended, and those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KillSet {
    /// They belong to the run.
    pub ends: Vec<ProcessRef>,
    /// They came from the run and are left alone.
    pub spares: Vec<ProcessRef>,
}

/// The processes that a forced end of the run reaches. `proved` are those that a look before the first signal
/// found to belong to the run. They still belong if they lost their parents since.
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

/// How a process is related to the run.
struct Tie {
    /// Whether it still belongs to the run.
    belongs: bool,
    /// Whether it is an MCP server, or a process of one.
    is_server: bool,
}

struct Table<'a> {
    root: &'a RunRoot,
    proved: &'a [ProcessRef],
    by_pid: BTreeMap<u32, &'a TreeProcess>,
    /// Whether the run's process group is still the run's, so that its number was not reused.
    has_group: bool,
}

impl<'a> Table<'a> {
    fn new(root: &'a RunRoot, proved: &'a [ProcessRef], processes: &'a [TreeProcess]) -> Self {
        let by_pid: BTreeMap<_, _> = processes.iter().map(|one| (one.process.pid, one)).collect();
        let has_group = by_pid.get(&root.child.pid).is_none_or(|one| one.process == root.child);
        Self { root, proved, by_pid, has_group }
    }

    /// Walks up from a process to the run; none if nothing above it leads there.
    fn tie(&self, one: &TreeProcess) -> Option<Tie> {
        let root = self.root;
        let (mut came, mut belongs, mut is_child, mut has_own) = (false, false, false, false);
        let (mut harnesses, mut is_with_others, mut is_server) = (0_u32, false, false);
        let mut is_younger = true;
        let mut next = Some(one);
        // A table that was read while pids were reused may contain a loop.
        for _ in 0..self.by_pid.len() {
            let Some(it) = next.filter(|it| it.process.pid != root.supervisor) else { break };
            match it.role {
                Role::Harness => harnesses = harnesses.saturating_add(1),
                Role::Coordinator | Role::Terminals => is_with_others = true,
                Role::Mcp => is_server = true,
                Role::Plain => (),
            }
            is_younger &= root.child.start_time <= it.process.start_time;
            // A process that existed before the run belongs to another one, perhaps of the same supervisor.
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
        // The first harness on the way down is the run's own. One below it is another session's.
        let is_with_others = is_with_others || u32::from(has_own) < harnesses;
        came.then_some(Tie { belongs: belongs && !is_with_others, is_server })
    }

    /// Whether the process was found to belong, or is in a session whose leader was. A tool may start such
    /// processes while it is being ended. The number of a session is not reused while the session has members.
    fn is_proved(&self, one: &TreeProcess) -> bool {
        let leads = |found: &ProcessRef| {
            let leader = self.by_pid.get(&one.session);
            found.pid == one.session && leader.is_none_or(|leader| leader.process == *found)
        };
        self.proved.iter().any(|found| *found == one.process || leads(found))
    }

    /// Whether a process that was adopted still leads to the run.
    fn is_kept(&self, one: &TreeProcess) -> bool {
        one.session == self.root.session || one.holds_output || self.root.ends_daemons
    }
}

/// The result of a look at a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeSeen {
    /// Number of processes of the run.
    pub members: u32,
    /// Number of processes that are neither the run's own, nor its harness, nor an MCP server's: tools and their
    /// children.
    pub tools: u32,
    /// Processor time of all processes but the client, milliseconds; none if one could not be read.
    pub cpu_ms: Option<u64>,
    /// Processor time of the client, milliseconds. The client is never quite idle.
    pub client_cpu_ms: Option<u64>,
    /// A digest of the identities of the processes.
    pub who: u64,
}

/// Summarizes the tree of a run, from the processes of one look.
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

/// What a tree did between two looks; none if they are too close together to tell.
pub(super) fn activity(
    before: TreeSeen,
    now: TreeSeen,
    between_ms: u64,
    busy_percent: u64,
) -> Option<super::Activity> {
    use super::Activity;
    if before.who != now.who {
        // A process started or ended.
        return Some(Activity::Busy);
    }
    let used = |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?));
    let (Some(tools), Some(client)) =
        (used(before.cpu_ms, now.cpu_ms), used(before.client_cpu_ms, now.client_cpu_ms))
    else {
        return Some(Activity::Unknown);
    };
    // The table counts in hundredths of a second, so a shorter time shows nothing.
    if between_ms < SAMPLE_MS_MIN {
        return None;
    }
    let is_over =
        |used: u64, percent: u64| between_ms.saturating_mul(percent) <= used.saturating_mul(100);
    let is_busy = is_over(tools, busy_percent) || is_over(client, CLIENT_PERCENT);
    Some(if is_busy { Activity::Busy } else { Activity::Quiet })
}

const SAMPLE_MS_MIN: u64 = 500;
/// Maximum use of a core, in percent, by a client that only waits. It uses up to 3 percent (measured).
const CLIENT_PERCENT: u64 = 10;

//! Which processes belong to a run, and what its tree is at (H-20, S3-21).

use std::collections::BTreeSet;

use coord_core::{KillSet, Role, RunRoot, TreeProcess, kill_set, tree_seen};
use coord_model::ProcessRef;
use proptest::prelude::*;

const SUPERVISOR: u32 = 10;
const CHILD: u32 = 20;
const SESSION: u32 = 5;
/// The run's process started then.
const STARTED: u64 = 1_000;

fn root() -> RunRoot {
    RunRoot {
        supervisor: SUPERVISOR,
        child: ProcessRef { pid: CHILD, start_time: STARTED },
        session: SESSION,
        ends_daemons: false,
    }
}

/// A process in a session and group of its own, as a tool's shell is.
fn tool(pid: u32, parent: u32) -> TreeProcess {
    TreeProcess {
        process: ProcessRef { pid, start_time: STARTED + u64::from(pid) },
        parent,
        group: pid,
        session: pid,
        role: Role::Plain,
        holds_output: false,
        cpu_ms: Some(10),
    }
}

fn with_role(role: Role, process: TreeProcess) -> TreeProcess {
    TreeProcess { role, ..process }
}

/// One that stayed in the run's group.
fn in_group(process: TreeProcess) -> TreeProcess {
    TreeProcess { group: CHILD, session: SESSION, ..process }
}

fn client() -> TreeProcess {
    let process = ProcessRef { pid: CHILD, start_time: STARTED };
    in_group(with_role(Role::Harness, TreeProcess { process, ..tool(CHILD, SUPERVISOR) }))
}

/// The rest of the machine: init, a coordinator, the supervisor.
fn machine() -> Vec<TreeProcess> {
    let of = |pid, parent, role| {
        let process = ProcessRef { pid, start_time: u64::from(pid) };
        TreeProcess { process, ..with_role(role, tool(pid, parent)) }
    };
    vec![
        of(1, 0, Role::Plain),
        of(2, 1, Role::Coordinator),
        of(3, 1, Role::Terminals),
        of(5, 3, Role::Plain),
        TreeProcess { session: SESSION, ..of(SUPERVISOR, 5, Role::Plain) },
        of(6, 3, Role::Harness),
    ]
}

fn set(processes: &[TreeProcess]) -> (BTreeSet<u32>, BTreeSet<u32>) {
    set_of(&root(), processes)
}

fn set_of(root: &RunRoot, processes: &[TreeProcess]) -> (BTreeSet<u32>, BTreeSet<u32>) {
    later(root, &[], processes)
}

/// The same behind a look that proved some of them.
fn later(
    root: &RunRoot,
    proved: &[ProcessRef],
    processes: &[TreeProcess],
) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut all = machine();
    all.extend_from_slice(processes);
    let set = kill_set(root, proved, &all);
    let pids = |found: Vec<ProcessRef>| found.iter().map(|one| one.pid).collect();
    (pids(set.ends), pids(set.spares))
}

/// Ends and spares of a run with a client and these.
#[track_caller]
fn check(processes: &[TreeProcess], ends: &[u32], spares: &[u32]) {
    let all: Vec<_> = [client()].into_iter().chain(processes.iter().copied()).collect();
    let (found, alone) = set(&all);
    assert_eq!(found, ends.iter().copied().chain([CHILD]).collect(), "ends");
    assert_eq!(alone, spares.iter().copied().collect(), "spares");
}

// H-20, S3-06: whatever group and session they have made for themselves.
#[test]
fn what_descends_from_the_run_belongs_to_it() {
    let in_group_of =
        |group, process: TreeProcess| TreeProcess { group, session: group, ..process };
    let server = in_group(with_role(Role::Mcp, tool(30, CHILD)));
    let own_group = TreeProcess { group: 31, ..with_role(Role::Mcp, tool(31, CHILD)) };
    let shell = tool(32, CHILD);
    check(&[server, own_group, shell, in_group_of(32, tool(33, 32))], &[30, 31, 32, 33], &[]);
}

// H-20: what lost its parent, by where it is.
#[test]
fn what_was_adopted_belongs_if_something_still_leads_to_the_run() {
    let in_session = TreeProcess { session: SESSION, ..tool(30, SUPERVISOR) };
    check(&[in_session], &[30], &[]);
    check(&[in_group(tool(31, SUPERVISOR))], &[31], &[]);
    check(&[in_group(tool(32, 1))], &[32], &[]);
    check(&[tool(33, SUPERVISOR), tool(34, 33)], &[], &[33, 34]);
    let holds = TreeProcess { holds_output: true, ..tool(35, SUPERVISOR) };
    check(&[holds, tool(36, 35)], &[35, 36], &[]);
    check(&[TreeProcess { session: SESSION, ..tool(37, 1) }], &[], &[]);
}

// H-20: `--end-daemons`.
#[test]
fn daemons_are_ended_where_that_was_asked_for() {
    let root = RunRoot { ends_daemons: true, ..root() };
    let terminals = with_role(Role::Terminals, tool(32, SUPERVISOR));
    let processes = [client(), tool(30, SUPERVISOR), tool(31, 30), terminals, tool(33, 32)];
    let (ends, spares) = set_of(&root, &processes);
    assert_eq!(ends, BTreeSet::from([CHILD, 30, 31]));
    assert_eq!(spares, BTreeSet::from([32, 33]), "and a server of terminals is not");
}

// H-20: wherever they are, and whatever they hold.
#[test]
fn what_others_live_in_never_belongs() {
    for role in [Role::Coordinator, Role::Terminals, Role::Harness] {
        for parent in [CHILD, SUPERVISOR] {
            let other = with_role(role, tool(30, parent));
            let below = in_group(tool(31, 30));
            check(&[other, below, tool(32, 31)], &[], &[30, 31, 32]);
            let near = TreeProcess { holds_output: true, ..in_group(other) };
            check(&[near, below], &[], &[30, 31]);
        }
    }
}

// H-20: the client below a wrapper is the run's own; one that a tool of it starts is not.
#[test]
fn the_first_client_on_the_way_down_is_the_runs_own() {
    let wrapper = TreeProcess { role: Role::Plain, ..client() };
    let own = in_group(with_role(Role::Harness, tool(30, CHILD)));
    let other = with_role(Role::Harness, tool(32, 31));
    let (ends, spares) = set(&[wrapper, own, tool(31, 30), other, tool(33, 32)]);
    assert_eq!(ends, BTreeSet::from([CHILD, 30, 31]));
    assert_eq!(spares, BTreeSet::from([32, 33]));
}

// H-20, S3-06: a pid is not a process.
#[test]
fn a_pid_that_is_another_process_by_now_does_not_belong() {
    let start_time = STARTED + 9_999;
    let recycled = TreeProcess { process: ProcessRef { pid: CHILD, start_time }, ..tool(CHILD, 1) };
    let its_own = TreeProcess { group: CHILD, session: CHILD, ..tool(31, CHILD) };
    assert_eq!(set(&[recycled, its_own]), (BTreeSet::new(), BTreeSet::new()));
    // What the supervisor adopted before the run began is of another run.
    let of_before = ProcessRef { pid: 40, start_time: STARTED - 1 };
    let earlier = TreeProcess { process: of_before, session: SESSION, ..tool(40, SUPERVISOR) };
    let holding = TreeProcess { holds_output: true, ..earlier };
    check(&[earlier], &[], &[]);
    check(&[holding, tool(41, 40)], &[], &[]);
}

// S3-07, H-20: what SIGTERM orphaned is still of the run when SIGKILL follows, below a wrapper too.
#[test]
fn what_was_proved_before_the_first_signal_belongs_behind_it() {
    let own = with_role(Role::Harness, tool(30, CHILD));
    let nested = TreeProcess { session: 31, ..with_role(Role::Harness, tool(33, 31)) };
    let wrapper = TreeProcess { role: Role::Plain, ..client() };
    let mut all = machine();
    all.extend([wrapper, own, tool(31, 30), tool(32, 31), nested]);
    let proved = kill_set(&root(), &[], &all).ends;
    let orphans = [
        TreeProcess { parent: SUPERVISOR, ..own },
        TreeProcess { parent: 1, ..tool(31, 30) },
        TreeProcess { parent: 1, ..tool(32, 31) },
        tool(34, 32),
        TreeProcess { parent: SUPERVISOR, ..nested },
        tool(35, 33),
    ];
    assert_eq!(
        later(&root(), &proved, &orphans),
        (BTreeSet::from([30, 31, 32, 34]), BTreeSet::from([33, 35]))
    );
    // What a tool starts while it is ended stays in its session.
    let late = TreeProcess { session: 31, ..tool(36, SUPERVISOR) };
    assert_eq!(later(&root(), &proved, &[late]), (BTreeSet::from([36]), BTreeSet::new()));
    assert_eq!(later(&root(), &[], &[late]), (BTreeSet::new(), BTreeSet::from([36])));
    let start_time = 90_000;
    let recycled = TreeProcess { process: ProcessRef { pid: 31, start_time }, ..tool(31, 1) };
    assert_eq!(later(&root(), &proved, &[recycled]), (BTreeSet::new(), BTreeSet::new()));
}

// S3-21: what works, in a client with two servers and a shell.
#[test]
fn a_look_counts_tools_and_no_servers() {
    let server = in_group(with_role(Role::Mcp, tool(30, CHILD)));
    let of_server = in_group(tool(31, 30));
    let seen = tree_seen(&root(), &[client(), server, of_server]);
    assert_eq!((seen.members, seen.tools), (3, 0), "a server's own processes are no tools");
    let seen = tree_seen(&root(), &[client(), server, of_server, tool(32, CHILD), tool(33, 32)]);
    assert_eq!((seen.members, seen.tools), (5, 2));
    assert_eq!((seen.cpu_ms, seen.client_cpu_ms), (Some(40), Some(10)));
    let hidden = TreeProcess { cpu_ms: None, ..tool(34, 32) };
    assert_eq!(tree_seen(&root(), &[client(), tool(32, CHILD), hidden]).cpu_ms, None);
    let spared = with_role(Role::Terminals, tool(35, CHILD));
    assert_eq!(tree_seen(&root(), &[client(), spared, tool(36, 35)]).members, 1);
}

const FIRST: u32 = 21;

/// Processes of any kind whose parents are the run, the machine, one another, or a loop.
fn forest() -> impl Strategy<Value = Vec<TreeProcess>> {
    let role = prop_oneof![
        6 => Just(Role::Plain),
        1 => Just(Role::Harness),
        1 => Just(Role::Mcp),
        1 => Just(Role::Terminals),
        1 => Just(Role::Coordinator),
    ];
    let parent = prop_oneof![
        2 => Just(CHILD),
        1 => Just(SUPERVISOR),
        1 => Just(1_u32),
        1 => Just(3_u32),
        5 => FIRST..FIRST + 12,
    ];
    let place = 0..4_u8;
    let start = prop_oneof![9 => Just(STARTED + 5), 1 => Just(STARTED - 5)];
    let one = (parent, role, place, start, any::<bool>());
    let of = |(pid, (parent, role, place, start_time, holds_output)): (u32, _)| {
        let plain: TreeProcess = with_role(role, tool(pid, parent));
        let process = ProcessRef { pid, start_time };
        let own = TreeProcess { process, holds_output, ..plain };
        match place {
            0 => in_group(own),
            1 => TreeProcess { session: SESSION, ..own },
            2 => TreeProcess { group: FIRST, session: FIRST, ..own },
            _ => own,
        }
    };
    proptest::collection::vec(one, 0..12).prop_map(move |ones| {
        let forest = (FIRST..).zip(ones).map(of);
        let ancestry: Vec<_> = machine().into_iter().chain([client()]).chain(forest).collect();
        ancestry
    })
}

fn find(processes: &[TreeProcess], pid: u32) -> Option<&TreeProcess> {
    processes.iter().find(|one| one.process.pid == pid)
}

/// The process and what is above it, up to the machine or once round a loop.
fn above(processes: &[TreeProcess], pid: u32) -> Vec<&TreeProcess> {
    let mut above: Vec<&TreeProcess> = Vec::new();
    let mut next = find(processes, pid);
    while let Some(one) = next.filter(|one| !above.contains(one)) {
        above.push(one);
        next = find(processes, one.parent);
    }
    above
}

fn is_foreign(one: &TreeProcess) -> bool {
    one.process.pid != CHILD
        && matches!(one.role, Role::Coordinator | Role::Terminals | Role::Harness)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    })]

    // H-20
    #[test]
    fn no_kill_set_holds_what_is_not_the_runs(processes in forest(), ends_daemons: bool) {
        let root = RunRoot { ends_daemons, ..root() };
        let KillSet { ends, spares } = kill_set(&root, &[], &processes);
        for found in &ends {
            let above = above(&processes, found.pid);
            let one = above[0];
            prop_assert_eq!(one.process, *found);
            let leads = above.iter().any(|one| {
                one.process == root.child
                    || one.group == CHILD
                    || (one.parent == SUPERVISOR
                        && (one.session == SESSION || one.holds_output || ends_daemons))
            });
            prop_assert!(leads, "{:?} does not lead to the run", one);
            prop_assert!(STARTED <= found.start_time, "{:?} was there before the run", one);
            prop_assert!(found.pid != SUPERVISOR);
            // What is above the run is above everything.
            let below_run = above.iter().take_while(|one| one.process.pid != CHILD);
            let foreign = below_run.filter(|one| one.process.pid != 3).find(|one| is_foreign(one));
            prop_assert!(foreign.is_none(), "{:?} is below {:?}", one, foreign);
        }
        for found in &spares {
            prop_assert!(!ends.contains(found), "{:?} is both", found);
        }
    }

    // H-20, S3-06: and everything of it is in.
    #[test]
    fn whatever_descends_from_the_run_is_ended_or_lives_with_others(processes in forest()) {
        let KillSet { ends, spares } = kill_set(&root(), &[], &processes);
        for one in &processes {
            let above = above(&processes, one.process.pid);
            let is_below = above.iter().any(|one| one.process == root().child);
            let is_others = above.iter().any(|one| is_foreign(one) && FIRST <= one.process.pid);
            let to_run = above.iter().take_while(|one| one.process.pid != CHILD);
            let is_younger = to_run.map(|one| one.process.start_time).min() >= Some(STARTED);
            let is_younger = is_younger || one.process.pid == CHILD;
            if is_below && is_younger && !is_others {
                prop_assert!(ends.contains(&one.process), "{:?} is left", one);
            }
            if is_below && is_others && is_younger {
                prop_assert!(spares.contains(&one.process), "{:?} is not listed", one);
            }
        }
    }

    // H-20: the order in which the table was read says nothing.
    #[test]
    fn the_order_of_the_table_says_nothing(
        (processes, shuffled) in forest().prop_flat_map(|all| {
            (Just(all.clone()), Just(all).prop_shuffle())
        })
    ) {
        let sorted = |set: KillSet| {
            let (ends, spares): (BTreeSet<_>, BTreeSet<_>) =
                (set.ends.into_iter().collect(), set.spares.into_iter().collect());
            (ends, spares)
        };
        prop_assert_eq!(
            sorted(kill_set(&root(), &[], &processes)),
            sorted(kill_set(&root(), &[], &shuffled))
        );
        prop_assert_eq!(tree_seen(&root(), &processes), tree_seen(&root(), &shuffled));
    }
}

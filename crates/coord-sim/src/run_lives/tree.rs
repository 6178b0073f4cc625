//! The processes of a simulated run: who starts whom, who works, and who dies of what.

use coord_core::{ExitStatus, Role, RunRoot, TreeProcess, TreeSeen, kill_set, tree_seen};
use coord_model::{ProcessRef, Signal};

use coord_testkit::Random;

const SUPERVISOR: u32 = 10;
const CLIENT: u32 = 20;
const SESSION: u32 = 5;
const STARTED: u64 = 1_000;

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A shell in a session of its own, and what it runs.
    Tool,
    /// It left its session and its parents.
    Daemon,
    /// A server of terminals, and a shell in it.
    Terminals,
    /// Another session's client below a tool, and its own tool.
    Nested,
    /// It lost its parent and stayed in the session.
    Orphan,
}

/// What ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heeds {
    Term,
    Kill,
    Nothing,
}

#[derive(Debug, Clone)]
struct Member {
    is: TreeProcess,
    key: u64,
    used_us: u64,
    permille: u64,
    heeds: Heeds,
    /// Whether a forced end has to reach it.
    is_own: bool,
    /// Nobody has looked at the tree since it started: its client was signalled before.
    is_unseen: bool,
}

/// All of them.
pub(super) struct Tree {
    members: Vec<Member>,
    next_pid: u32,
    at_ms: u64,
    /// Since when the tree works without a pause, and since when not at all.
    busy_ms: Option<u64>,
    proved: Vec<ProcessRef>,
    is_signalled: bool,
    is_killed: bool,
    /// One that is not the run's and was signalled with it.
    harmed: Option<u32>,
    client_heeds: Heeds,
}

impl Tree {
    pub(super) fn new(now_ms: u64, random: &mut Random) -> Self {
        let client_heeds = match random.below(10) {
            0 | 1 => Heeds::Kill,
            2 if random.below(4) == 0 => Heeds::Nothing,
            _ => Heeds::Term,
        };
        let mut tree = Self {
            members: Vec::new(),
            next_pid: CLIENT,
            at_ms: now_ms,
            busy_ms: None,
            proved: Vec::new(),
            is_signalled: false,
            is_killed: false,
            harmed: None,
            client_heeds,
        };
        tree.add(SUPERVISOR, Role::Harness, Some((CLIENT, SESSION)), 0, true);
        tree.set(CLIENT, |client| {
            client.permille = 15;
            client.heeds = client_heeds;
        });
        for _ in 0..random.below(3) {
            // Servers live in the client's group, or in one of their own.
            let place = random.coin().then_some((CLIENT, SESSION));
            tree.add(CLIENT, Role::Mcp, place, 0, true);
        }
        tree
    }

    /// Adds one in this group and session, or in its own.
    fn add(
        &mut self,
        parent: u32,
        role: Role,
        place: Option<(u32, u32)>,
        key: u64,
        is_own: bool,
    ) -> u32 {
        let pid = self.next_pid;
        self.next_pid += 1;
        let (group, session) = place.unwrap_or((pid, pid));
        let process = ProcessRef { pid, start_time: STARTED + u64::from(pid) };
        let cpu_ms = Some(0);
        let is = TreeProcess { process, parent, group, session, role, holds_output: false, cpu_ms };
        let heeds = Heeds::Term;
        let is_unseen = self.is_signalled;
        self.members.push(Member { is, key, used_us: 0, permille: 0, heeds, is_own, is_unseen });
        pid
    }

    fn set(&mut self, pid: u32, change: impl Fn(&mut Member)) {
        self.members.iter_mut().filter(|one| one.is.process.pid == pid).for_each(change);
    }

    pub(super) fn start(&mut self, kind: Kind, key: u64, random: &mut Random) {
        // What SIGKILL was sent to runs nothing any more, however long it is kept alive.
        if !self.client_lives() || self.is_killed {
            return;
        }
        match kind {
            Kind::Tool => {
                let shell = self.add(CLIENT, Role::Plain, None, key, true);
                let inner = self.add(shell, Role::Plain, Some((shell, shell)), key, true);
                for pid in [shell, inner] {
                    let is_stubborn = random.below(5) == 0;
                    let heeds = if is_stubborn { Heeds::Kill } else { Heeds::Term };
                    self.set(pid, |one| one.heeds = heeds);
                }
            }
            Kind::Daemon => drop(self.add(SUPERVISOR, Role::Plain, None, key, false)),
            Kind::Terminals => {
                let parent = if random.coin() { SUPERVISOR } else { CLIENT };
                let server = self.add(parent, Role::Terminals, None, 0, false);
                self.add(server, Role::Plain, None, 0, false);
            }
            Kind::Nested => {
                let shell = self.add(CLIENT, Role::Plain, None, key, true);
                let nested = self.add(shell, Role::Harness, Some((shell, shell)), 0, false);
                self.add(nested, Role::Plain, None, 0, false);
            }
            Kind::Orphan => {
                let group = self.next_pid;
                self.add(SUPERVISOR, Role::Plain, Some((group, SESSION)), key, true);
            }
        }
    }

    pub(super) fn work(&mut self, key: u64, permille: u64) {
        self.members
            .iter_mut()
            .filter(|one| one.key == key)
            .for_each(|one| one.permille = permille);
    }

    pub(super) fn end_of(&mut self, key: u64) {
        let pids: Vec<u32> = self
            .members
            .iter()
            .filter(|one| one.key == key)
            .map(|one| one.is.process.pid)
            .collect();
        pids.into_iter().for_each(|pid| self.die(pid));
    }

    pub(super) fn die(&mut self, pid: u32) {
        self.members.retain(|one| one.is.process.pid != pid);
        let of_it = self.members.iter_mut().filter(|one| one.is.parent == pid);
        of_it.for_each(|one| one.is.parent = SUPERVISOR);
    }

    pub(super) fn advance(&mut self, ms: u64) {
        let passed = ms.saturating_sub(self.at_ms);
        for one in &mut self.members {
            one.used_us += passed * one.permille;
            one.is.cpu_ms = Some(one.used_us / 1_000);
        }
        self.at_ms = ms;
        // A tenth of a core is far from the limit, so that no rounding says otherwise.
        let is_busy = |one: &Member| one.is_own && 100 <= one.permille;
        let is_busy = self.members.iter().any(is_busy);
        self.busy_ms =
            if is_busy { self.busy_ms.or(Some(ms.saturating_sub(passed))) } else { None };
    }

    /// For how long it has worked without a pause.
    pub(super) fn busy_for_ms(&self) -> u64 {
        self.busy_ms.map_or(0, |since| self.at_ms.saturating_sub(since))
    }

    fn table(&self) -> Vec<TreeProcess> {
        self.members.iter().map(|one| one.is).collect()
    }

    pub(super) fn look(&self) -> TreeSeen {
        tree_seen(&root(), &self.table())
    }

    /// How many belong to the run.
    pub(super) fn left(&self) -> usize {
        kill_set(&root(), &self.proved, &self.table()).ends.len()
    }

    pub(super) fn is_signalled(&self) -> bool {
        self.is_signalled
    }

    pub(super) fn client_lives(&self) -> bool {
        self.members.iter().any(|one| one.is.process.pid == CLIENT)
    }

    pub(super) fn end_client(&mut self) {
        self.die(CLIENT);
    }

    /// Signals whom the core names; when who of them dies.
    pub(super) fn signal(&mut self, signal: Signal, random: &mut Random) -> Vec<(u32, u64)> {
        self.is_signalled = true;
        self.is_killed |= signal == Signal::Kill;
        self.proved = kill_set(&root(), &self.proved, &self.table()).ends;
        self.members.iter_mut().for_each(|one| one.is_unseen = false);
        let mut dying = Vec::new();
        for one in self.proved.clone() {
            let Some(member) = self.members.iter().find(|is| is.is.process == one) else {
                continue;
            };
            if !member.is_own {
                self.harmed = Some(one.pid);
            }
            let is_client = one.pid == CLIENT;
            let (session, is_tool) = (member.is.session, member.is.role == Role::Plain);
            let heeds = if is_client { Heeds::Nothing } else { member.heeds };
            match (signal, heeds) {
                (Signal::Term, Heeds::Term) => {
                    if is_tool && member.is_own && random.below(4) == 0 {
                        // It cleans up, and what cleans up is told nothing.
                        let helper =
                            self.add(one.pid, Role::Plain, Some((session, session)), 0, true);
                        self.set(helper, |one| one.heeds = Heeds::Kill);
                    }
                    dying.push((one.pid, random.range(0..2_000)));
                }
                (Signal::Kill, Heeds::Term | Heeds::Kill) => dying.push((one.pid, 0)),
                (Signal::Term, Heeds::Kill) | (_, Heeds::Nothing) => (),
            }
        }
        dying
    }

    /// How its client ends by a signal, and after how long.
    pub(super) fn client_answers(
        &self,
        signal: Signal,
        random: &mut Random,
    ) -> Option<(ExitStatus, u64)> {
        match (signal, self.client_heeds) {
            (Signal::Term, Heeds::Term) => Some((ExitStatus::Code(143), random.range(10..1_700))),
            (Signal::Kill, Heeds::Term | Heeds::Kill) => Some((ExitStatus::Signal(9), 1)),
            (Signal::Term, Heeds::Kill) | (_, Heeds::Nothing) => None,
        }
    }

    /// What lives on though a forced end has to reach it, and what died though it must not.
    pub(super) fn wrong_at_the_end(&self, was_forced: bool) -> Option<String> {
        if let Some(pid) = self.harmed {
            return Some(format!("{pid} is not the run's and was ended with it"));
        }
        // Whom a client in its last seconds started in a session of its own, nobody can tell from another's.
        let is_lost = |one: &Member| {
            let session = one.is.session;
            let is_proved = self.proved.iter().any(|process| process.pid == session);
            one.is_unseen && session != SESSION && !is_proved
        };
        // What a run that ended by itself left in sessions of its own is left alone.
        let own = |one: &&Member| {
            was_forced && one.is_own && one.heeds != Heeds::Nothing && !is_lost(one)
        };
        let left = self.members.iter().find(own);
        left.map(|one| format!("{} of the run outlives it", one.is.process.pid))
    }
}

fn root() -> RunRoot {
    RunRoot {
        supervisor: SUPERVISOR,
        child: ProcessRef { pid: CLIENT, start_time: STARTED + u64::from(CLIENT) },
        session: SESSION,
        ends_daemons: false,
    }
}

//! The machine that the simulated coordinator runs on: clocks, processes, the client's registry,
//! panes, transcripts, and a disk that takes its time. It is the coordinator's [`World`].
//!
//! What the client writes here is text as the real one writes it, and the coordinator's own readers
//! read it. It decides nothing: who lives, what stands where and how slow things are is told to it
//! by the simulation or by a scenario.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use coord_core::{Look, Now};
use coord_daemon::background::{Done, Job, run};
use coord_daemon::looker::Seen;
use coord_daemon::registry::{self, Found};
use coord_daemon::tmux::{PaneAnswer, PaneWish};
use coord_daemon::transcript::{TranscriptWish, tail_of};
use coord_daemon::world::{Change, World};
use coord_screen::Reading;
use coord_wire::envelope::Kind;
use coord_wire::journal::{Pane as PaneRecord, ProcessSeen, RegistryEntry};
use coord_wire::stamp::ProcessRef;

use crate::{FakeDisk, Random};

/// Machine id.
pub const MACHINE: &str = "5ee0c0de5ee0c0de5ee0c0de5ee0c0de";
/// Inode of its pid namespace.
pub const PID_NS: u64 = 4_026_531_836;
/// Of a transcript so much is kept, as much as is ever read.
const TRANSCRIPT_BYTES_MAX: usize = 64 * 1024;
const MS: u64 = 1_000_000;

/// A process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Clock ticks since boot.
    pub start_time: u64,
    /// What its command line says.
    pub kind: Kind,
    /// Stopped by Ctrl-Z.
    pub is_stopped: bool,
    /// Device number of its terminal; 0 without one.
    pub tty: u64,
    /// The session its command line forks.
    pub forked_from: Option<String>,
}

/// A tmux server.
#[derive(Debug, Clone)]
pub struct TmuxServer {
    /// It.
    pub process: ProcessRef,
    /// Whether it answers.
    pub answers: bool,
    /// Its panes by id, as `%3`.
    pub panes: BTreeMap<String, Pane>,
}

/// A pane.
#[derive(Debug, Clone)]
pub struct Pane {
    /// Its first process.
    pub pid: u32,
    /// Device number of its terminal.
    pub tty: u64,
    /// What stands on it.
    pub shown: Reading,
}

/// One configuration directory's registry.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Whether the directory is there.
    pub is_there: bool,
    /// The entries' texts by pid.
    pub entries: BTreeMap<u32, String>,
    is_wanted: bool,
    is_watched: bool,
}

impl Registry {
    /// Makes the directory, or removes it with all entries; whoever watched it has to watch anew.
    pub fn set_there(&mut self, is_there: bool) {
        if self.is_there != is_there {
            self.is_there = is_there;
            self.is_watched = false;
            self.entries.clear();
        }
    }
}

/// How long things take, in milliseconds.
#[derive(Debug, Clone)]
pub struct Pace {
    /// A flush or a snapshot.
    pub disk: Range<u64>,
    /// A look at a pane or a transcript.
    pub look: Range<u64>,
}

/// The machine.
pub struct Machine {
    /// The clocks.
    pub now: Now,
    /// Kernel boot id.
    pub boot: String,
    /// Wall time of that boot.
    pub boot_at_ms: u64,
    /// The disk of the store.
    pub disk: FakeDisk,
    /// Living processes by pid.
    pub processes: BTreeMap<u32, Process>,
    /// Registries by configuration directory.
    pub registries: BTreeMap<String, Registry>,
    /// Tmux servers by socket.
    pub tmux: BTreeMap<String, TmuxServer>,
    /// How long things take.
    pub pace: Pace,
    /// Processes whose ends cannot be watched.
    pub unwatchable: BTreeSet<u32>,
    /// Looks at panes that the coordinator asked for, where somebody takes them down.
    pub asked: Option<Vec<PaneWish>>,
    /// Configuration directories whose lock another coordinator holds.
    pub locked: BTreeSet<String>,
    transcripts: BTreeMap<String, Vec<u8>>,
    random: Random,
    desk: Desk,
}

/// What the running coordinator has asked for; gone with it.
#[derive(Default)]
struct Desk {
    watched: BTreeSet<ProcessRef>,
    exits: Vec<ProcessRef>,
    registry_changes: Vec<Change>,
    transcripts: BTreeMap<ProcessRef, String>,
    transcript_changes: Vec<ProcessRef>,
    looks: Vec<(u64, LookAt)>,
    seen: VecDeque<Seen>,
    jobs: VecDeque<(u64, Job<FakeDisk>)>,
}

enum LookAt {
    Pane(Box<PaneWish>, u64),
    Transcript(TranscriptWish),
}

/// The machine as the coordinator, the clients and the simulation share it.
#[derive(Clone)]
pub struct SharedMachine(Rc<RefCell<Machine>>);

impl SharedMachine {
    /// A machine that was just booted, with an empty disk.
    pub fn new(now: Now, pace: Pace, random: Random) -> Self {
        let machine = Machine {
            now,
            boot: "boot-1".to_owned(),
            boot_at_ms: now.wall_ms.saturating_sub(now.mono_ns / MS),
            disk: FakeDisk::new(),
            processes: BTreeMap::new(),
            registries: BTreeMap::new(),
            tmux: BTreeMap::new(),
            pace,
            unwatchable: BTreeSet::new(),
            asked: None,
            locked: BTreeSet::new(),
            transcripts: BTreeMap::new(),
            random,
            desk: Desk::default(),
        };
        Self(Rc::new(RefCell::new(machine)))
    }

    /// The machine itself; nobody else may have it at the same time.
    pub fn get(&self) -> RefMut<'_, Machine> {
        self.0.borrow_mut()
    }
}

impl Machine {
    /// Starts a process.
    ///
    /// # Panics
    /// Its pid is in use.
    pub fn spawn(&mut self, pid: u32, kind: Kind, tty: u64) -> ProcessRef {
        let start_time = self.now.mono_ns / (10 * MS);
        let process = Process { start_time, kind, is_stopped: false, tty, forked_from: None };
        let before = self.processes.insert(pid, process);
        assert!(before.is_none(), "pid {pid} is in use");
        ProcessRef { pid, start_time }
    }

    /// Ends a process; whoever watches it is told.
    pub fn end(&mut self, process: ProcessRef) {
        if self.is_alive(process) {
            self.processes.remove(&process.pid);
            if self.desk.watched.remove(&process) {
                self.desk.exits.push(process);
            }
        }
    }

    /// Whether exactly this process is alive.
    pub fn is_alive(&self, process: ProcessRef) -> bool {
        self.processes.get(&process.pid).is_some_and(|one| one.start_time == process.start_time)
    }

    /// Writes, or with none removes, a registry's entry, as the client does.
    pub fn write_registry(&mut self, config_dir: &str, pid: u32, text: Option<String>) {
        let registry = self.registries.entry(config_dir.to_owned()).or_default();
        if !registry.is_there {
            return;
        }
        match text {
            Some(text) => drop(registry.entries.insert(pid, text)),
            None => drop(registry.entries.remove(&pid)),
        }
        if registry.is_watched {
            self.desk.registry_changes.push((config_dir.to_owned(), pid));
        }
    }

    /// Makes a registry, or removes it with all its entries.
    pub fn set_registry(&mut self, config_dir: &str, is_there: bool) {
        let registry = self.registries.entry(config_dir.to_owned()).or_default();
        registry.is_there = is_there;
        if !is_there {
            let entries = std::mem::take(&mut registry.entries);
            if std::mem::take(&mut registry.is_watched) {
                let gone = entries.into_keys().map(|pid| (config_dir.to_owned(), pid));
                self.desk.registry_changes.extend(gone);
            }
        }
    }

    /// Appends a line to a transcript.
    pub fn write_transcript(&mut self, path: &str, line: &str) {
        let bytes = self.transcripts.entry(path.to_owned()).or_default();
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        if let Some(cut @ 1..) = bytes.len().checked_sub(TRANSCRIPT_BYTES_MAX) {
            let end_of_line = bytes.iter().skip(cut).position(|byte| *byte == b'\n');
            bytes.drain(..cut + end_of_line.map_or(0, |at| at + 1));
        }
        let watching = self.desk.transcripts.iter().filter(|(_, watched)| *watched == path);
        let watching: Vec<ProcessRef> = watching.map(|(process, _)| *process).collect();
        self.desk.transcript_changes.extend(watching);
    }

    /// The machine starts anew: every process is gone, and the disk is as the crash left it.
    pub fn reboot(&mut self, boot: String, now: Now, disk: FakeDisk) {
        self.now = now;
        self.boot = boot;
        self.boot_at_ms = now.wall_ms.saturating_sub(now.mono_ns / MS);
        self.disk = disk;
        self.processes.clear();
        self.tmux.clear();
        self.forget_coordinator();
    }

    /// The coordinator is gone, and with it whatever it watched and wished for.
    pub fn forget_coordinator(&mut self) {
        self.desk = Desk::default();
        for registry in self.registries.values_mut() {
            registry.is_wanted = false;
            registry.is_watched = false;
        }
    }

    /// Watched processes that ended since the last call.
    pub fn take_exits(&mut self) -> Vec<ProcessRef> {
        std::mem::take(&mut self.desk.exits)
    }

    /// Whether something waits for the coordinator.
    pub fn has_news(&self) -> bool {
        let desk = &self.desk;
        !(desk.exits.is_empty()
            && desk.registry_changes.is_empty()
            && desk.transcript_changes.is_empty()
            && desk.seen.is_empty())
            || self.next_result().is_some_and(|at| at <= self.now.mono_ns)
    }

    /// When the next look or flush will be over, CLOCK_MONOTONIC.
    pub fn next_result(&self) -> Option<u64> {
        let looks = self.desk.looks.iter().map(|(due, _)| *due);
        looks.chain(self.desk.jobs.front().map(|(due, _)| *due)).min()
    }

    fn due(&mut self, pace: Range<u64>) -> u64 {
        let ms = self.random.range(pace);
        self.now.mono_ns.saturating_add(ms * MS).saturating_add(self.random.below(MS))
    }

    fn serve_looks(&mut self) {
        let now = self.now.mono_ns;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.desk.looks).into_iter().partition(|(due, _)| *due <= now);
        self.desk.looks = later;
        for (_, look) in due {
            let seen = match look {
                LookAt::Pane(wish, looked_ns) => Seen::Pane(PaneAnswer {
                    process: wish.process,
                    pane: self.pane_of(&wish),
                    looked_ns,
                    after_death: wish.look == Look::AfterDeath,
                }),
                LookAt::Transcript(wish) => self.end_of_transcript(wish),
            };
            self.desk.seen.push_back(seen);
        }
    }

    fn end_of_transcript(&self, wish: TranscriptWish) -> Seen {
        let end = self.transcripts.get(&wish.path).map_or(&[][..], Vec::as_slice);
        let tail = tail_of(end, wish.signature.as_deref());
        Seen::Transcript {
            process: wish.process,
            interrupted_ms: tail.interrupted_ms,
            signature: wish.signature.filter(|_| tail.has_signature),
        }
    }

    /// What a look at a pane finds: that of its terminal while the process lives, the proved one
    /// after its death.
    fn pane_of(&self, wish: &PaneWish) -> PaneRecord {
        let unreadable = |why: &str| PaneRecord::Unreadable { why: why.to_owned() };
        let Some(server) = self.tmux.get(&wish.pane.socket) else {
            return unreadable("no server there");
        };
        if !server.answers {
            return unreadable("its server did not answer in 2 s");
        }
        let found = if wish.look == Look::AfterDeath {
            let Some(proof) = wish.proof else { return unreadable("it was not proved in life") };
            let is_server = wish.pane.server.pid == server.process.pid
                && wish.pane.server.start_time == server.process.start_time;
            let pane = server.panes.get_key_value(&wish.pane.pane).filter(|_| is_server);
            pane.filter(|(_, pane)| pane.pid == proof.pane_pid && pane.tty == proof.tty)
        } else {
            let process = self.processes.get(&wish.process.pid);
            let process = process.filter(|one| one.start_time == wish.process.start_time);
            let Some(process) = process else { return unreadable("the process is gone") };
            server.panes.iter().find(|(_, pane)| pane.tty == process.tty)
        };
        let Some((id, pane)) = found else { return PaneRecord::NotThere };
        PaneRecord::Its {
            socket: wish.pane.socket.clone(),
            server: server.process,
            pane: id.clone(),
            pane_pid: pane.pid,
            tty: pane.tty,
            screen: pane.shown.screen.map(|screen| screen.word().to_owned()),
            farewell: pane.shown.farewell.clone(),
            signature: pane.shown.signature.clone(),
        }
    }
}

impl World for SharedMachine {
    type Disk = FakeDisk;

    fn watch_process(&mut self, process: ProcessRef) -> io::Result<bool> {
        let mut machine = self.get();
        if machine.unwatchable.contains(&process.pid) {
            return Err(io::Error::other("injected: out of descriptors"));
        }
        let is_alive = machine.is_alive(process);
        if is_alive {
            machine.desk.watched.insert(process);
        }
        Ok(is_alive)
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        self.get().is_alive(process)
    }

    fn is_stopped(&self, process: ProcessRef) -> Option<bool> {
        let machine = self.get();
        let found = machine.processes.get(&process.pid);
        found.filter(|one| one.start_time == process.start_time).map(|one| one.is_stopped)
    }

    fn seen(&self, process: ProcessRef, alive: bool) -> ProcessSeen {
        let machine = self.get();
        let found = machine.processes.get(&process.pid).filter(|_| alive);
        let found = found.filter(|one| one.start_time == process.start_time);
        ProcessSeen {
            process,
            alive,
            kind: found.map(|one| one.kind),
            stopped: false,
            forked_from: found.and_then(|one| one.forked_from.clone()),
        }
    }

    fn watch_registry(&mut self, config_dir: &str) -> Vec<Change> {
        self.get().registries.entry(config_dir.to_owned()).or_default().is_wanted = true;
        self.retry_registries()
    }

    fn retry_registries(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (dir, registry) in &mut self.get().registries {
            if registry.is_there && registry.is_wanted && !registry.is_watched {
                registry.is_watched = true;
                changes.extend(registry.entries.keys().map(|pid| (dir.clone(), *pid)));
            }
        }
        changes
    }

    fn missing_registries(&self) -> Vec<String> {
        let machine = self.get();
        let missing = machine.registries.iter().filter(|(_, one)| one.is_wanted && !one.is_watched);
        missing.map(|(dir, _)| dir.clone()).collect()
    }

    fn registry_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.get().desk.registry_changes)
    }

    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<RegistryEntry>> {
        let machine = self.get();
        let registry = machine.registries.get(config_dir).filter(|registry| registry.is_there);
        let Some(registry) = registry else {
            let why = "sessions: No such file or directory".to_owned();
            return Err(Box::new(RegistryEntry::Unreadable { why }));
        };
        match registry.entries.get(&pid) {
            Some(text) => registry::parse(text.as_bytes(), pid, Path::new(config_dir)),
            None => Err(Box::new(RegistryEntry::Absent)),
        }
    }

    fn lock_config_dir(&mut self, config_dir: &str) -> bool {
        !self.get().locked.contains(config_dir)
    }

    fn watch_transcript(&mut self, process: ProcessRef, path: &str) -> bool {
        let mut machine = self.get();
        let is_there = machine.transcripts.contains_key(path);
        is_there && machine.desk.transcripts.insert(process, path.to_owned()).is_none()
    }

    fn forget_transcript(&mut self, process: ProcessRef) {
        self.get().desk.transcripts.remove(&process);
    }

    fn transcript_changes(&mut self) -> Vec<ProcessRef> {
        let mut changes = std::mem::take(&mut self.get().desk.transcript_changes);
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    fn look_at_panes(&mut self, wishes: Vec<PaneWish>) {
        let mut machine = self.get();
        let (pace, looked_ns) = (machine.pace.look.clone(), machine.now.mono_ns);
        if let Some(asked) = &mut machine.asked {
            asked.extend(wishes.iter().cloned());
        }
        for wish in wishes {
            let due = machine.due(pace.clone());
            machine.desk.looks.push((due, LookAt::Pane(Box::new(wish), looked_ns)));
        }
    }

    fn read_transcript(&mut self, wish: TranscriptWish) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        machine.desk.looks.push((due, LookAt::Transcript(wish)));
    }

    fn take_seen(&mut self) -> Option<Seen> {
        let mut machine = self.get();
        machine.serve_looks();
        machine.desk.seen.pop_front()
    }

    fn give(&mut self, job: Job<FakeDisk>) {
        let mut machine = self.get();
        let pace = machine.pace.disk.clone();
        let due = machine.due(pace);
        // One after the other.
        let due = machine.desk.jobs.back().map_or(due, |(before, _)| due.max(*before));
        machine.desk.jobs.push_back((due, job));
    }

    fn take_done(&mut self) -> Option<Done> {
        let mut machine = self.get();
        let now = machine.now.mono_ns;
        let is_over = machine.desk.jobs.front().is_some_and(|(due, _)| *due <= now);
        let (_, job) = if is_over { machine.desk.jobs.pop_front()? } else { return None };
        drop(machine);
        Some(run(job))
    }

    fn finish(&mut self) -> Vec<Done> {
        let jobs = std::mem::take(&mut self.get().desk.jobs);
        jobs.into_iter().map(|(_, job)| run(job)).collect()
    }
}

//! The machine that the simulated coordinator runs on: clocks, processes, the client's registry,
//! panes, transcripts, and a disk that takes its time. It is the coordinator's [`coord_daemon::world::World`].
//!
//! What the client writes here is text as the real one writes it, and the coordinator's own readers
//! read it. It decides nothing: who lives, what stands where and how slow things are is told to it
//! by the simulation or by a scenario.

mod executor;
mod notices;
mod terminal;
mod world;

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use coord_daemon::background::Job;
use coord_daemon::world::Membership;
use coord_host::executor::Reply;
use coord_host::observer::Seen;
use coord_host::passphrase::PassphraseHash;
use coord_host::registry::{self, Change, Found};
use coord_host::registry_reader::{RegistrySeen, RegistryWish};
use coord_host::task_dir;
use coord_host::tmux::{PaneAnswer, PaneWish};
use coord_host::transcript::{
    DecisionWish, MessageWish, TranscriptWish, arrived_in, decided_in, tail_of,
};
use coord_model::{
    Action, Farewell, Kind, Launch, Look, Now, PaneFound, PaneProof, PaneSeen, PathCount,
    ProcessRef, Registry, SessionKey, TaskFound, TmuxPane, Work, WorkFacts,
};

pub use executor::Happening;
pub use notices::{Channels, Shown};
pub use terminal::{Pane, ShellLine, TmuxServer};

use crate::serving::CONFIG_DIR;
use coord_testkit::{FakeDisk, Random};

/// Machine id.
pub const MACHINE: &str = "5ee0c0de5ee0c0de5ee0c0de5ee0c0de";
/// Inode of its pid namespace.
pub const PID_NS: u64 = 4_026_531_836;
/// Of a transcript so much is kept, as much as is ever read.
const TRANSCRIPT_BYTES_MAX: usize = 64 * 1024;
/// Processes that the machine starts itself have pids from here on.
const OWN_PIDS: u32 = 3_000_000;
const MS: u64 = 1_000_000;
/// How long a look at a repository takes, nanoseconds.
const WORK_NS: u64 = 50 * MS;

/// A process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Clock ticks since boot.
    pub start_time: u64,
    /// What its command line says.
    pub kind: Kind,
    /// Whether its executable is the client's.
    pub is_client: bool,
    /// The client's configuration directory by its environment.
    pub config_dir: Option<String>,
    /// Stopped by Ctrl-Z.
    pub is_stopped: bool,
    /// Its main thread has not run since then (CLOCK_MONOTONIC).
    pub hung_at: Option<u64>,
    /// Device number of its terminal; 0 without one.
    pub tty: u64,
    /// The session its command line forks.
    pub forked_from: Option<String>,
    /// The session its command line resumes: it holds it (H-13).
    pub holds: Option<String>,
    /// How it was started; none where that cannot be read.
    pub launch: Option<Launch>,
    /// A harness's tool: the session and the pid of that harness, as its environment names them.
    pub tool_of: Option<(String, u32)>,
    /// Its parent's pid.
    pub parent: u32,
}

/// One configuration directory's registry.
#[derive(Debug, Clone, Default)]
pub struct RegistryDir {
    /// Whether the directory is there.
    pub is_there: bool,
    /// The entries' texts by pid.
    pub entries: BTreeMap<u32, String>,
    is_wanted: bool,
    is_watched: bool,
}

impl RegistryDir {
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
    pub registries: BTreeMap<String, RegistryDir>,
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
    /// Transcripts that another process has locked.
    pub locked_transcripts: BTreeSet<String>,
    /// Transcripts that the coordinator has locked, by session; gone with it (H-13).
    pub held_transcripts: BTreeMap<String, String>,
    /// Directories and programs that are no longer what they were.
    pub gone: BTreeSet<String>,
    /// Files of task directories, by path.
    pub files: BTreeMap<String, String>,
    /// What the machine is short of, in words (H-11).
    pub want: Option<String>,
    /// It is being shut down, and says so (H-10).
    pub is_shutting_down: bool,
    /// Whether the path of coordctl has plain characters only (H-18).
    pub is_line_plain: bool,
    /// Whether the Enter behind the line arrives; the coordinator may be killed between the two (H-34).
    pub has_enter: bool,
    /// The channels through which people are told.
    pub channels: Channels,
    /// What the machine is in a fleet, if it has joined one.
    pub membership: Option<Membership>,
    /// The hash of the passphrase, if one is set.
    pub passphrase: Option<PassphraseHash>,
    happenings: Vec<Happening>,
    last_pid: u32,
    transcripts: BTreeMap<String, Vec<u8>>,
    random: Random,
    pending: PendingWork,
}

/// What the running coordinator has asked for; gone with it.
#[derive(Default)]
struct PendingWork {
    watched: BTreeSet<ProcessRef>,
    exits: Vec<ProcessRef>,
    registry_changes: Vec<Change>,
    transcripts: BTreeMap<ProcessRef, String>,
    transcript_changes: Vec<ProcessRef>,
    looks: Vec<(u64, LookAt)>,
    seen: VecDeque<Seen>,
    jobs: VecDeque<(u64, Job<FakeDisk>)>,
    actions: VecDeque<(u64, Action)>,
    replies: VecDeque<Reply>,
}

enum LookAt {
    Pane(Box<PaneWish>, u64),
    Registry(RegistryWish),
    Transcript(TranscriptWish),
    Messages(MessageWish),
    Decisions(DecisionWish),
    Task(String),
    Work(SessionKey),
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
            locked_transcripts: BTreeSet::new(),
            held_transcripts: BTreeMap::new(),
            gone: BTreeSet::new(),
            files: BTreeMap::new(),
            want: None,
            is_shutting_down: false,
            is_line_plain: true,
            has_enter: true,
            channels: Channels::default(),
            membership: None,
            passphrase: None,
            happenings: Vec::new(),
            last_pid: OWN_PIDS,
            transcripts: BTreeMap::new(),
            random,
            pending: PendingWork::default(),
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
        let process = Process {
            start_time,
            kind,
            is_client: true,
            config_dir: Some(CONFIG_DIR.to_owned()),
            is_stopped: false,
            hung_at: None,
            tty,
            forked_from: None,
            holds: None,
            launch: None,
            tool_of: None,
            parent: 1,
        };
        let before = self.processes.insert(pid, process);
        assert!(before.is_none(), "pid {pid} is in use");
        ProcessRef { pid, start_time }
    }

    /// Ends a process; whoever watches it is told.
    pub fn end(&mut self, process: ProcessRef) {
        if self.is_alive(process) {
            let one = self.processes.remove(&process.pid);
            // What a client started gives the terminal back to it.
            let tty = one.filter(|one| one.tool_of.is_none()).map_or(0, |one| one.tty);
            self.free_terminal(process.pid, tty);
            if self.pending.watched.remove(&process) {
                self.pending.exits.push(process);
            }
        }
    }

    /// The main threads of all processes hang, or run again.
    pub fn hang_all(&mut self, are_hung: bool) {
        let hung_at = are_hung.then_some(self.now.mono_ns);
        self.processes.values_mut().for_each(|one| one.hung_at = hung_at);
    }

    /// Whether exactly this process is alive.
    pub fn is_alive(&self, process: ProcessRef) -> bool {
        self.processes.get(&process.pid).is_some_and(|one| one.start_time == process.start_time)
    }

    /// Since when (CLOCK_MONOTONIC) the main thread of this process hangs.
    pub fn hung_at(&self, process: ProcessRef) -> Option<u64> {
        self.processes.get(&process.pid).filter(|_| self.is_alive(process))?.hung_at
    }

    /// Whether the main thread of this process hangs.
    pub fn is_hung(&self, process: ProcessRef) -> bool {
        self.hung_at(process).is_some()
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
            self.pending.registry_changes.push((config_dir.to_owned(), pid));
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
                self.pending.registry_changes.extend(gone);
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
        let watching = self.pending.transcripts.iter().filter(|(_, watched)| *watched == path);
        let watching: Vec<ProcessRef> = watching.map(|(process, _)| *process).collect();
        self.pending.transcript_changes.extend(watching);
    }

    /// Writes a file of a task directory, or with none removes it, as whoever works there does.
    pub fn put_file(&mut self, path: &str, text: Option<String>) {
        match text {
            Some(text) => drop(self.files.insert(path.to_owned(), text)),
            None => drop(self.files.remove(path)),
        }
    }

    /// The machine starts anew: every process is gone, and the disk is as the crash left it.
    pub fn reboot(&mut self, boot: String, now: Now, disk: FakeDisk) {
        self.now = now;
        self.boot = boot;
        self.boot_at_ms = now.wall_ms.saturating_sub(now.mono_ns / MS);
        self.disk = disk;
        self.is_shutting_down = false;
        self.processes.clear();
        self.tmux.clear();
        self.forget_coordinator();
        self.channels.reboot();
    }

    /// The coordinator is gone, and with it whatever it watched and wished for.
    pub fn forget_coordinator(&mut self) {
        self.pending = PendingWork::default();
        self.channels.forget_coordinator();
        self.held_transcripts.clear();
        for registry in self.registries.values_mut() {
            registry.is_wanted = false;
            registry.is_watched = false;
        }
    }

    /// Watched processes that ended since the last call.
    pub fn take_exits(&mut self) -> Vec<ProcessRef> {
        std::mem::take(&mut self.pending.exits)
    }

    /// Whether something waits for the coordinator.
    pub fn has_news(&self) -> bool {
        let pending = &self.pending;
        !(pending.exits.is_empty()
            && pending.registry_changes.is_empty()
            && pending.transcript_changes.is_empty()
            && pending.seen.is_empty()
            && pending.replies.is_empty())
            || self.next_result().is_some_and(|at| at <= self.now.mono_ns)
    }

    /// When the next look or flush will be over, CLOCK_MONOTONIC.
    pub fn next_result(&self) -> Option<u64> {
        let looks = self.pending.looks.iter().map(|(due, _)| *due);
        let jobs = self.pending.jobs.front().map(|(due, _)| *due);
        let actions = self.pending.actions.front().map(|(due, _)| *due);
        looks.chain(jobs).chain(actions).chain(self.channels.next()).min()
    }

    fn due(&mut self, pace: Range<u64>) -> u64 {
        let ms = self.random.range(pace);
        self.now.mono_ns.saturating_add(ms * MS).saturating_add(self.random.below(MS))
    }

    fn serve_looks(&mut self) {
        let now = self.now.mono_ns;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending.looks).into_iter().partition(|(due, _)| *due <= now);
        self.pending.looks = later;
        for (_, look) in due {
            let seen = match look {
                LookAt::Pane(wish, looked_ns) => Seen::Pane(PaneAnswer {
                    process: wish.process,
                    pane: self.pane_of(&wish),
                    looked_ns,
                    after_death: wish.look == Look::AfterDeath,
                }),
                LookAt::Registry(wish) => {
                    let found = self.registry_entry(&wish.entry.0, wish.entry.1);
                    Seen::Registry(RegistrySeen { wish, found, read_ns: now })
                }
                LookAt::Transcript(wish) => self.end_of_transcript(wish),
                LookAt::Messages(wish) => {
                    let end = self.transcripts.get(&wish.path).map_or(&[][..], Vec::as_slice);
                    Seen::of_messages(&wish, arrived_in(end, &wish.ids))
                }
                LookAt::Decisions(wish) => {
                    let end = self.transcripts.get(&wish.path).map_or(&[][..], Vec::as_slice);
                    let decided = decided_in(end, &wish.calls);
                    Seen::Decisions { session: wish.session, decided }
                }
                LookAt::Task(dir) => Seen::Task { found: self.task_in(&dir), dir },
                LookAt::Work(session) => Seen::Work { session, work: work_of(session).into() },
            };
            self.pending.seen.push_back(seen);
        }
    }

    /// What stands in a registry now.
    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<Registry>> {
        let registry = self.registries.get(config_dir).filter(|registry| registry.is_there);
        let Some(registry) = registry else {
            let why = "sessions: No such file or directory".to_owned();
            return Err(Box::new(Registry::Unreadable { why }));
        };
        match registry.entries.get(&pid) {
            Some(text) => registry::parse(text.as_bytes(), pid, Path::new(config_dir)),
            None => Err(Box::new(Registry::Absent)),
        }
    }

    fn end_of_transcript(&self, wish: TranscriptWish) -> Seen {
        let end = self.transcripts.get(&wish.path).map_or(&[][..], Vec::as_slice);
        let tail = tail_of(end, wish.signature.as_deref());
        Seen::Transcript {
            process: wish.process,
            interrupted_ms: tail.interrupted_ms,
            signature: wish.signature.filter(|_| tail.has_signature),
            failure: tail.last_words.failure,
        }
    }

    /// What a look at a task directory finds.
    fn task_in(&self, dir: &str) -> TaskFound {
        let file = |name: &str| self.files.get(&format!("{dir}/{name}"));
        TaskFound {
            signal: file(".auto-signal").map(|text| {
                text.bytes()
                    .fold(text.len() as u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte))
            }),
            stop: file(".auto-stop").map(|text| task_dir::reason_in(text.as_bytes())),
        }
    }

    /// What a look at a pane finds: that of its terminal while the process lives, the proved one
    /// after its death.
    fn pane_of(&self, wish: &PaneWish) -> PaneFound {
        let unreadable = |why: &str| PaneFound::Unreadable { why: why.to_owned() };
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
        let Some((id, pane)) = found else { return PaneFound::NotThere };
        let is_after_death = wish.look == Look::AfterDeath;
        if is_after_death
            && !matches!(pane.shown.farewell, Some(Farewell::Last(_)))
            && self.has_another(pane)
        {
            return unreadable("another program has its terminal by now");
        }
        let socket = wish.pane.socket.clone();
        PaneFound::Found(PaneSeen {
            pane: TmuxPane { socket, server: server.process, pane: id.clone() },
            proof: PaneProof { pane_pid: pane.pid, tty: pane.tty },
            screen: pane.screen(),
            farewell: pane.shown.farewell.clone(),
            signature: pane.shown.signature.clone(),
            place: None,
            digest: Some(pane.digest(self.hung_at(wish.process).unwrap_or(self.now.mono_ns))),
        })
    }
}

/// What a look at a session's repository finds.
fn work_of(session: SessionKey) -> Work {
    let count = |n| Some(PathCount::exactly(n));
    match session.0 % 4 {
        0 => Work::NoRepository,
        1 => Work::Unknown { why: "it took too long".to_owned() },
        clean => Work::Facts(WorkFacts {
            root: "/home/user/work".to_owned(),
            branch: Some("main".to_owned()),
            head: None,
            operation: None,
            staged: count(0),
            changed: count(clean - 2),
            conflicted: count(0),
            untracked: count(0),
            why_unknown: None,
        }),
    }
}

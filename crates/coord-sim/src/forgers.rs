//! Forgers on the simulated machine: processes that are no clients, and say what only a client's own hooks
//! may say (H-44 to H-47).
//!
//! They are there on demand (`coord-sim run --forgers`). Each seed draws its own rates, some of them none, from a
//! sequence of its own, so that clients, people and faults do what they do without them. What they do:
//!
//! * *Events* without a harness, in the name of another session's client or of one that is dead, of their own
//!   process, of a child of another client; of sessions that live, are dead, or were never there; over the
//!   socket and in the spool. Each claims `bypassPermissions` and another configuration directory, transcript,
//!   working directory and pane. Starts, also with source `resume`, prompts, tools, dialogs and ends of turns.
//! * *Registry files*: of processes that are no clients, with the right start time and a wrong one, naming
//!   sessions that live and such as were never there; and in a directory that nobody else names.
//!
//! Left out: a SessionEnd. One that nobody verified is believed, since it only keeps coord from acting (G6), so
//! it changes what is true of all that follows; unit tests prove what it does not do.

use std::collections::BTreeSet;

use coord_host::process::Caller;
use coord_model::envelope::TmuxClaim;
use coord_model::{Harness, Kind, ProcessRef};
use coord_testkit::Random;
use serde_json::{Value, json};

use crate::hooks::{self, Hook};
use crate::machine::{MACHINE, PID_NS};
use crate::serving::{CONFIG_DIR, Post, spool_dir};
use crate::simulation::{MINUTE, MS, SECOND, Simulation, What};

/// What forged events claim.
pub(crate) const PLANTED: &str = "/tmp/planted";
/// The widest permission mode, which no command line of the simulation gives; and one that no client has.
pub(crate) const MODE: &str = "bypassPermissions";
pub(crate) const OTHER_MODE: &str = "planted";
/// Pids of forgers.
const PIDS: u32 = 2_000_000;
/// Pids of what they start.
const CHILDREN: u32 = 2_500_000;
/// Ids of forged events have this bit, which no hook's id has.
const ID_BIT: u128 = 1 << 79;
const HOUR_MS: u64 = 3_600_000;

/// Something that a forger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// It sends or spools an event.
    Event,
    /// It writes a registry file.
    Entry,
    /// It takes one away again.
    Removal(u32),
}

/// The forgers of one seed.
#[derive(Debug)]
pub(crate) struct Forgers {
    random: Random,
    /// Per hour.
    events: f64,
    entries: f64,
    /// Share of events that are spooled.
    spooled: f64,
    n: u32,
    /// Living ones that send events.
    processes: Vec<ProcessRef>,
    /// Those that have a registry entry with all that a client's has: each counts as one (H-46).
    pub(crate) registered: BTreeSet<ProcessRef>,
    /// Events that wait for the next turn of the coordinator's loop.
    pub(crate) posts: Vec<Forged>,
}

/// A forged event on its way over the socket.
#[derive(Debug, Clone)]
pub(crate) struct Forged {
    pub(crate) post: Post,
    /// The event's id, and what it says, for the log.
    pub(crate) id: u128,
    pub(crate) what: String,
    /// The session that it names, and the client.
    pub(crate) session_id: String,
    pub(crate) harness: Option<ProcessRef>,
}

impl Forgers {
    /// Those of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0F04_6E45_0F04_6E45);
        let mut often = |max: f64| {
            let part = [0.03, 0.1, 0.3, 1.0].get(random.index(4)).copied().unwrap_or(1.0);
            if random.chance(0.4) { 0.0 } else { max * part }
        };
        let (events, entries) = (often(600.0), often(60.0));
        let spooled = [0.0, 0.1, 0.5, 1.0].get(random.index(4)).copied().unwrap_or(0.0);
        Self { random, events, entries, spooled, ..Self::none() }
    }

    /// A world without any.
    pub(crate) fn none() -> Self {
        Self {
            random: Random::new(0),
            events: 0.0,
            entries: 0.0,
            spooled: 0.0,
            n: 0,
            processes: Vec::new(),
            registered: BTreeSet::new(),
            posts: Vec::new(),
        }
    }

    /// None of the processes is there any more.
    pub(crate) fn forget(&mut self) {
        self.processes.clear();
        self.posts.clear();
    }

    fn after(&mut self, rate: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive, and hours fit"
        )]
        let mean_ms = (f64::from(3_600_000_u32) / rate.max(1e-3)) as u64;
        self.random.below(2 * mean_ms.min(100 * HOUR_MS)) * MS
    }

    fn number(&mut self) -> u32 {
        self.n += 1;
        self.n
    }
}

/// Whether a process is one of theirs.
pub(crate) fn is_forger(pid: u32) -> bool {
    (PIDS..CHILDREN).contains(&pid)
}

/// Whose name an event takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Nobody,
    Itself,
    Client(ProcessRef),
}

impl Simulation {
    /// Lets forgers begin, or go on.
    pub(crate) fn schedule_forgery(&mut self, forgery: Forgery) {
        let rate = match forgery {
            Forgery::Event => self.forgers.events,
            Forgery::Entry => self.forgers.entries,
            Forgery::Removal(_) => 0.0,
        };
        if 0.0 < rate {
            let after = self.forgers.after(rate);
            self.at(after, What::Forges(forgery));
        }
    }

    pub(crate) fn forge(&mut self, forgery: Forgery) {
        if let Forgery::Removal(pid) = forgery {
            return self.machine.get().write_registry(CONFIG_DIR, pid, None);
        }
        if !self.has_faults() {
            return;
        }
        self.schedule_forgery(forgery);
        match forgery {
            Forgery::Event => self.forge_event(),
            Forgery::Entry | Forgery::Removal(_) => self.forge_entry(),
        }
    }

    /// A forger that lives, for a while.
    fn forger(&mut self) -> ProcessRef {
        let machine = self.machine.get();
        self.forgers.processes.retain(|process| machine.is_alive(*process));
        drop(machine);
        let forgers = &mut self.forgers;
        let known = forgers.random.pick(&forgers.processes).copied();
        if let Some(known) = known.filter(|_| forgers.random.chance(0.8)) {
            return known;
        }
        let process = self.new_forger();
        let after = self.forgers.random.below(10 * MINUTE);
        self.at(after, What::Ends(process));
        self.forgers.processes.push(process);
        process
    }

    fn new_forger(&mut self) -> ProcessRef {
        let pid = PIDS + self.forgers.number();
        let process = self.machine.get().spawn(pid, Kind::Interactive, 0);
        if let Some(one) = self.machine.get().processes.get_mut(&pid) {
            one.is_client = false;
            one.config_dir = None;
        }
        process
    }

    /// The session that a forgery is about: mostly one that a client has, or had.
    fn forged_session(&mut self) -> String {
        if self.forgers.random.chance(0.2) {
            return format!("session-forged-{}", self.forgers.random.below(5));
        }
        let known: Vec<String> =
            self.places.iter().filter_map(|place| place.last_session.clone()).collect();
        self.forgers.random.pick(&known).cloned().unwrap_or_else(|| "session-1".to_owned())
    }

    fn forge_event(&mut self) {
        let itself = self.forger();
        let clients: Vec<ProcessRef> = self
            .places
            .iter()
            .filter_map(|place| place.client.as_ref())
            .map(|one| one.process)
            .collect();
        let session_id = self.forged_session();
        let random = &mut self.forgers.random;
        let named = match random.below(8) {
            0..3 => Named::Nobody,
            3..5 => Named::Itself,
            _ => random.pick(&clients).map_or(Named::Nobody, |client| Named::Client(*client)),
        };
        let process = match named {
            Named::Nobody => None,
            Named::Itself => Some(itself),
            // Sometimes of a process that had the pid before it.
            Named::Client(client) if random.chance(0.1) => {
                Some(ProcessRef { start_time: client.start_time.saturating_sub(1), ..client })
            }
            Named::Client(client) => Some(client),
        };
        let is_spooled = random.chance(self.forgers.spooled) || self.serving.is_none();
        // What the spool brings is looked for later, and by then a client may have switched to the widest mode.
        let mode = if is_spooled { OTHER_MODE } else { MODE };
        let payload = payload(&session_id, mode, &mut self.forgers.random);
        let (n, pid) = (self.forgers.number(), CHILDREN + self.forgers.n);
        let now = self.now();
        let hook = Hook {
            id: (u128::from(now.wall_ms) << 80) | ID_BIT | u128::from(n),
            pid,
            mono_ns: now.mono_ns,
            wall_ms: now.wall_ms,
            boot: self.boot(),
            harness: process.map(|process| Harness {
                pid: process.pid,
                start_time: process.start_time,
                pid_ns: PID_NS,
                tty: 0,
                kind: Some(Kind::Interactive),
            }),
            tmux: Some(TmuxClaim {
                socket: PLANTED.to_owned(),
                server_pid: 1,
                server_start: 1,
                pane: "%999".to_owned(),
            }),
            config_dir: PLANTED.to_owned(),
        };
        let text = hooks::envelope(&hook, &payload).and_then(|one| serde_json::to_vec(&one));
        let Ok(body) = text else { return };
        let what =
            format!("{} {:x} of {session_id} by {process:?}", payload["hook_event_name"], hook.id);
        if is_spooled {
            let disk = self.machine.get().disk.clone();
            let written = hooks::spool(&disk, &spool_dir(), hook.id, &body, usize::MAX);
            self.note(|| format!("FORGED {what}, spooled: {written:?}"));
            self.spool_changed = true;
            return;
        }
        // Its parent is the forger, or a client: any of its tools is its child.
        let parent = process.filter(|process| self.is_denied_to(*process, &session_id));
        let parent =
            parent.filter(|_| self.forgers.random.coin()).map_or(itself.pid, |one| one.pid);
        let caller = Caller { pid, parent: Some(parent) };
        let forged =
            Forged { post: Post { body, caller }, id: hook.id, what, session_id, harness: process };
        self.forgers.posts.push(forged);
    }

    /// Whether the client's own registry entry says that its child lies about this session. Without that word
    /// nobody can tell it from a client that went over to another conversation.
    fn is_denied_to(&self, client: ProcessRef, session_id: &str) -> bool {
        let Some(serving) = &self.serving else { return false };
        let held = serving.coordinator().state().session_of(client);
        let is_known = held.is_some_and(|held| {
            let has_reported = held.owner.as_ref().is_some_and(|owner| owner.has_reported);
            has_reported
                && held.config_dir == CONFIG_DIR
                && self.registered_as(client, &held.session_id)
        });
        let state = serving.coordinator().state();
        let is_anothers = || {
            state.sessions_with_id(session_id).any(|one| Some(one.key) != held.map(|held| held.key))
        };
        is_known && is_anothers() && held.is_some_and(|held| held.session_id != session_id)
    }

    /// A registry file of a forger, which lives on: the death of one that is registered like a client is a
    /// client's (H-46).
    fn forge_entry(&mut self) {
        let itself = self.new_forger();
        let session_id = self.forged_session();
        let is_held = self
            .places
            .iter()
            .filter_map(|place| place.client.as_ref())
            .any(|one| one.session_id == session_id);
        let changed_ms = self.now().wall_ms;
        let random = &mut self.forgers.random;
        let is_right = random.coin();
        let is_elsewhere = random.chance(0.2);
        // A conversation that nobody has is free for whoever is registered with it (H-42, H-46): of those only
        // such as never were.
        let session_id = if is_right && !is_elsewhere && !is_held {
            format!("session-planted-{}", itself.pid)
        } else {
            session_id
        };
        let start_time = if is_right { itself.start_time } else { itself.start_time + 1 };
        let status = random.pick(&["idle", "busy", "waiting"]).copied().unwrap_or("idle");
        let entry = json!({
            "pid": itself.pid,
            "procStart": start_time.to_string(),
            "pidDomain": format!("linux:{MACHINE}:pid:[{PID_NS}]"),
            "sessionId": session_id,
            "cwd": PLANTED,
            "kind": "interactive",
            "version": "2.1.328",
            "statusUpdatedAt": changed_ms,
            "status": status,
        });
        let dir = if is_elsewhere { PLANTED } else { CONFIG_DIR };
        self.note(|| format!("FORGED entry in {dir}: {entry}"));
        self.machine.get().write_registry(dir, itself.pid, Some(entry.to_string()));
        if is_right && !is_elsewhere {
            self.forgers.registered.insert(itself);
        }
        if is_held {
            // Before its client is gone: then it would be free.
            self.at(SECOND, What::Forges(Forgery::Removal(itself.pid)));
        }
    }
}

/// An event's payload, which claims whatever would be of use to its sender.
fn payload(session_id: &str, mode: &str, random: &mut Random) -> Value {
    const EVENTS: [(&str, &str, &str); 9] = [
        ("SessionStart", "source", "startup"),
        ("SessionStart", "source", "resume"),
        ("SessionStart", "source", "resume"),
        ("UserPromptSubmit", "prompt_id", "prompt-forged"),
        ("PreToolUse", "tool_name", "Bash"),
        ("PostToolUse", "tool_name", "Bash"),
        ("PermissionRequest", "tool_name", "Bash"),
        ("Stop", "prompt_id", "prompt-forged"),
        ("Notification", "notification_type", "idle_prompt"),
    ];
    let (event, field, value) = random.pick(&EVENTS).copied().unwrap_or(EVENTS[0]);
    json!({
        "hook_event_name": event, "session_id": session_id, field: value, "cwd": PLANTED,
        "transcript_path": format!("{PLANTED}/{session_id}.jsonl"), "permission_mode": mode,
        "tool_use_id": "tool-forged", "stop_hook_active": false,
    })
}

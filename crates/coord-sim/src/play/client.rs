//! The clients of a scenario: harnesses in their panes, what their hooks send, what they write.
//!
//! A file says what matters to it; the rest is filled in as the real client has it. It writes as
//! the client does and decides nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use coord_core::Now;
use coord_daemon::process::Caller;
use coord_wire::envelope::{Harness, Kind, TmuxClaim};
use coord_wire::stamp::{ProcessRef, rfc3339};
use serde_json::{Map, Value, json};

use super::clock::Clock;
use crate::SharedMachine;
use crate::hooks::{self, envelope};
use crate::machine::{MACHINE, PID_NS, Pane, TmuxServer};
use crate::scenario::{Front, Hook, Start};
use crate::serving::{CONFIG_DIR, Post};

/// Where every client works.
const CWD: &str = "/home/dev/project";
const SOCKET: &str = "/tmp/tmux-1000/default";
/// The first tmux server; the one after it has the next pid.
pub(crate) const SERVER_PID: u32 = 90;
/// Hooks have pids from here on.
const HOOK_PIDS: u32 = 1_000_000;
/// Device numbers of terminals begin here.
const TTYS: u64 = 34_816;
/// Shells have pids from here on.
const SHELL_PIDS: u32 = 2_000_000;

/// The clients, living and dead.
pub(crate) struct Clients {
    machine: SharedMachine,
    started: BTreeMap<u32, Client>,
    /// Who reports for a session.
    of_session: BTreeMap<String, u32>,
    ids: BTreeMap<String, u128>,
    n_hooks: u32,
    n_servers: u32,
    front: Option<Front>,
}

#[derive(Debug, Clone)]
struct Client {
    process: ProcessRef,
    kind: Kind,
    /// The pane whose terminal it has.
    pane: Option<String>,
    tty: u64,
    tmux: Option<TmuxClaim>,
    session: String,
}

/// An event on its way.
pub(crate) struct Fired {
    pub(crate) post: Post,
    pub(crate) id: u128,
    pub(crate) session: String,
}

impl Clients {
    pub(crate) fn new(machine: &SharedMachine, front: Option<Front>) -> Self {
        Self {
            machine: machine.clone(),
            started: BTreeMap::new(),
            of_session: BTreeMap::new(),
            ids: BTreeMap::new(),
            n_hooks: 0,
            n_servers: 0,
            front,
        }
    }

    /// A harness appears, in its pane.
    pub(crate) fn start(&mut self, start: &Start) -> Result<()> {
        if self.machine.get().processes.contains_key(&start.pid) {
            bail!("start: a process with pid {} lives already", start.pid);
        }
        let server = start.pane.as_ref().map(|_| self.server());
        let tty = start.pane.as_deref().map_or(0, |pane| self.pane(pane));
        let kind = kind_of(&start.argv, tty);
        let process = self.machine.get().spawn(start.pid, kind, tty);
        if let Some(one) = self.machine.get().processes.get_mut(&start.pid) {
            one.forked_from = forked_from(&start.argv);
        }
        let claimed = start.tmux_pane.as_ref().or(start.pane.as_ref());
        let tmux = server.zip(claimed).map(|(server, pane)| TmuxClaim {
            socket: SOCKET.to_owned(),
            server_pid: server.pid,
            server_start: server.start_time,
            pane: pane.clone(),
        });
        let (pane, session) = (start.pane.clone(), start.session.clone());
        self.of_session.insert(session.clone(), start.pid);
        self.started.insert(start.pid, Client { process, kind, pane, tty, tmux, session });
        if let Some(front) = self.front {
            self.set_front(front);
        }
        Ok(())
    }

    /// A client's hook fires; its event goes to the coordinator.
    pub(crate) fn fire(&mut self, hook: &Hook, clock: &Clock) -> Result<Fired> {
        let mut payload = hook.payload.clone();
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let session = text("session_id").unwrap_or_default();
        let is_start = text("hook_event_name").as_deref() == Some("SessionStart");
        let pid = hook.pid.or_else(|| self.of_session.get(&session).copied());
        let pid = pid.with_context(|| format!("hook: no step \"start\" names session {session:?}; say whose hook it is with \"pid\" beside \"hook\""))?;
        let client = self.started.get_mut(&pid);
        let client = client.with_context(|| format!("hook: no process {pid} was started"))?;
        client.session.clone_from(&session);
        self.of_session.insert(session.clone(), pid);
        payload.entry("cwd").or_insert_with(|| json!(CWD));
        payload.entry("transcript_path").or_insert_with(|| json!(transcript_of(&session)));
        let (boot, stamp) = clock.stamp(hook.emitted_ns.unwrap_or(clock.at_ns));
        let client = client.clone();
        let id = self.event_id(hook.id.as_deref(), stamp.wall_ms);
        let known = hooks::Hook {
            id,
            pid: HOOK_PIDS + self.n_hooks,
            mono_ns: stamp.mono_ns,
            wall_ms: stamp.wall_ms,
            boot,
            harness: Some(Harness {
                pid,
                start_time: client.process.start_time,
                pid_ns: PID_NS,
                tty: client.tty,
                kind: is_start.then_some(client.kind),
            }),
            tmux: client.tmux,
            config_dir: CONFIG_DIR.to_owned(),
        };
        let body = serde_json::to_vec(&envelope(&known, &Value::Object(payload))?)?;
        let parent = if hook.is_forged { 1 } else { pid };
        let caller = Caller { pid: known.pid, parent: Some(parent) };
        Ok(Fired { post: Post { body, caller }, id, session })
    }

    /// Ids begin with their time; a word of the file always means the same one.
    fn event_id(&mut self, word: Option<&str>, wall_ms: u64) -> u128 {
        self.n_hooks += 1;
        let fresh = (u128::from(wall_ms) << 80) | u128::from(self.n_hooks);
        match word {
            Some(word) => *self.ids.entry(word.to_owned()).or_insert(fresh),
            None => fresh,
        }
    }

    /// Writes an entry of the client's registry, or with none removes it.
    pub(crate) fn write_registry(
        &self,
        pid: Option<u32>,
        entry: Option<Map<String, Value>>,
        now: Now,
    ) -> Result<()> {
        let Some(mut entry) = entry else {
            let pid = pid.map_or_else(|| self.only_entry(), Ok)?;
            self.machine.get().write_registry(CONFIG_DIR, pid, None);
            return Ok(());
        };
        let pid = pid.unwrap_or_default();
        let client = self.started.get(&pid);
        if client.is_none() && !entry.contains_key("procStart") {
            bail!("registry: no process {pid} was started, and the entry has no procStart");
        }
        let mut fill = |name: &str, value: Value| {
            entry.entry(name).or_insert(value);
        };
        if let Some(client) = client {
            fill("procStart", json!(client.process.start_time.to_string()));
            fill("sessionId", json!(client.session));
            let is_headless = client.kind == Kind::Headless;
            fill("entrypoint", json!(if is_headless { "sdk-cli" } else { "cli" }));
            if let Some(pane) = &client.pane {
                fill("tmux", json!(format!("main:@1.{pane}")));
            }
        }
        fill("pidDomain", json!(format!("linux:{MACHINE}:pid:[{PID_NS}]")));
        fill("cwd", json!(CWD));
        fill("version", json!("2.1.328"));
        fill("kind", json!("interactive"));
        fill("updatedAt", json!(now.wall_ms));
        fill("statusUpdatedAt", json!(now.wall_ms));
        let text = Value::Object(entry).to_string();
        self.machine.get().write_registry(CONFIG_DIR, pid, Some(text));
        Ok(())
    }

    fn only_entry(&self) -> Result<u32> {
        let machine = self.machine.get();
        let entries = machine.registries.get(CONFIG_DIR).map(|registry| &registry.entries);
        let mut pids = entries.into_iter().flat_map(BTreeMap::keys);
        match (pids.next(), pids.next()) {
            (Some(pid), None) => Ok(*pid),
            (None, _) => bail!("registry: there is no entry to be removed"),
            (Some(_), Some(_)) => {
                bail!("registry: several entries; name one with \"pid\" beside it")
            }
        }
    }

    /// A pane shows something else, or something else comes to its front.
    pub(crate) fn show(
        &mut self,
        pane: &str,
        text: Option<&str>,
        front: Option<Front>,
    ) -> Result<()> {
        self.server();
        self.pane(pane);
        if let Some(text) = text {
            let shown = coord_screen::read(text);
            let mut machine = self.machine.get();
            let server = machine.tmux.get_mut(SOCKET).context("no tmux server")?;
            server.panes.get_mut(pane).context("no such pane")?.shown = shown;
        }
        if let Some(front) = front {
            self.bring(Some(pane), front);
        }
        Ok(())
    }

    /// Brings this to the front of every pane, now and from now on.
    pub(crate) fn set_front(&mut self, front: Front) {
        self.front = Some(front);
        self.bring(None, front);
    }

    /// A shell comes before a living harness only by Ctrl-Z, which stops it.
    fn bring(&self, pane: Option<&str>, front: Front) {
        let mut machine = self.machine.get();
        for client in self.started.values().filter(|client| client.pane.is_some()) {
            let is_there = pane.is_none() || client.pane.as_deref() == pane;
            let process = machine.processes.get_mut(&client.process.pid);
            let process = process.filter(|one| one.start_time == client.process.start_time);
            if let (true, Some(process)) = (is_there, process) {
                process.is_stopped = front == Front::Shell;
            }
        }
    }

    /// Appends a line to the transcript of the session it names.
    pub(crate) fn write_transcript(&self, line: &Value, now: Now) -> Result<()> {
        let mut line = line.clone();
        let session = line.get("sessionId").and_then(Value::as_str);
        let path = transcript_of(session.context("transcript: the line has no sessionId")?);
        if let Some(fields) = line.as_object_mut() {
            fields.entry("timestamp").or_insert_with(|| json!(rfc3339(now.wall_ms)));
        }
        self.machine.get().write_transcript(&path, &line.to_string());
        Ok(())
    }

    /// A process ends; a tmux server takes its panes along.
    pub(crate) fn exit(&self, pid: u32) -> Result<()> {
        let mut machine = self.machine.get();
        let one = machine.processes.get(&pid);
        let start_time = one.with_context(|| format!("exit: no process {pid} lives"))?.start_time;
        machine.tmux.retain(|_, server| server.process.pid != pid);
        machine.end(ProcessRef { pid, start_time });
        Ok(())
    }

    /// The tmux server; starts one if none lives.
    fn server(&mut self) -> ProcessRef {
        let mut machine = self.machine.get();
        if let Some(server) = machine.tmux.get(SOCKET) {
            return server.process;
        }
        let process = machine.spawn(SERVER_PID + self.n_servers, Kind::Headless, 0);
        self.n_servers += 1;
        let server = TmuxServer { process, answers: true, panes: BTreeMap::new() };
        machine.tmux.insert(SOCKET.to_owned(), server);
        process
    }

    /// The terminal of a pane, which is made if it is not there.
    fn pane(&self, id: &str) -> u64 {
        let number = id.trim_start_matches('%').parse::<u16>().unwrap_or(0);
        let tty = TTYS + u64::from(number);
        let pid = SHELL_PIDS + u32::from(number);
        if let Some(server) = self.machine.get().tmux.get_mut(SOCKET) {
            let shown = coord_screen::Reading::default();
            server.panes.entry(id.to_owned()).or_insert(Pane { pid, tty, shown });
        }
        tty
    }
}

fn transcript_of(session: &str) -> String {
    format!("{CONFIG_DIR}/projects/-home-dev-project/{session}.jsonl")
}

/// What the real hook judges from argv and terminal (H-24).
fn kind_of(argv: &[String], tty: u64) -> Kind {
    let mut options = argv.iter().skip(1).take_while(|word| *word != "--");
    if tty == 0 || options.any(|word| word == "-p" || word == "--print") {
        Kind::Headless
    } else {
        Kind::Interactive
    }
}

/// The session that a command line forks.
fn forked_from(argv: &[String]) -> Option<String> {
    argv.iter().find(|word| *word == "--fork-session")?;
    let resumed = argv.iter().skip_while(|word| *word != "--resume" && *word != "-r");
    resumed.skip(1).take(1).next().cloned()
}

//! The clients of a scenario: harnesses in their panes, what their hooks send, what they write.
//!
//! A file says what matters to it; the rest is filled in as the real client has it. It writes as
//! the client does and decides nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use coord_host::process::Caller;
use coord_model::envelope::TmuxClaim;
use coord_model::stamp::rfc3339;
use coord_model::{
    Harness, Input, Kind, Launch, Now, Parent, ParentKind, Place, ProcessRef, Screen,
};
use coord_screen::Reading;
use serde_json::{Map, Value, json};

use super::clock::Clock;
use super::launch;
use crate::SharedMachine;
use crate::hooks::{self, ARMING, envelope};
use crate::machine::{MACHINE, PID_NS, Pane, TmuxServer};
use crate::scenario::{Dialog, Front, Hook, PaneStep, Start, Words};
use crate::serving::{CONFIG_DIR, Post, WakeHook};

/// Where every client works.
const CWD: &str = "/home/dev/project";
const SOCKET: &str = "/tmp/tmux-1000/default";
/// The first tmux server; the one after it has the next pid.
pub(crate) const SERVER_PID: u32 = 90;
/// Hooks have pids from here on.
const HOOK_PIDS: u32 = 1_000_000;
/// Device numbers of terminals begin here.
const TTYS: u64 = 34_816;
/// Those of terminals outside tmux.
const TTYS_OUTSIDE: u64 = 100_000;
/// Shells have pids from here on.
const SHELL_PIDS: u32 = 2_000_000;
/// A shell that was started in a shell has a pid so much higher.
const INNER: u32 = 50_000;
/// A pane's next first process has a pid so much higher.
const RESPAWNED: u32 = 100_000;
/// Editors have pids from here on.
const EDITOR_PIDS: u32 = 4_000_000;

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
    /// Editors that clients have opened, by client.
    editors: BTreeMap<u32, ProcessRef>,
    /// Wall time of the newest key before there was a server.
    key_ms: Option<u64>,
    /// What stands in the input line of a client, and its dialog.
    input: Input,
    dialog: Option<Screen>,
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
    /// Whether it fires our hooks.
    is_claude: bool,
}

/// An event on its way.
pub(crate) struct Fired {
    pub(crate) post: Post,
    pub(crate) id: u128,
    pub(crate) session: String,
    pub(crate) event: String,
    /// Whose it is.
    pub(crate) process: ProcessRef,
    /// The wake hook that the client starts beside it, if it does.
    pub(crate) wake: Option<WakeHook>,
}

impl Clients {
    pub(crate) fn new(machine: &SharedMachine) -> Self {
        Self {
            machine: machine.clone(),
            started: BTreeMap::new(),
            of_session: BTreeMap::new(),
            ids: BTreeMap::new(),
            n_hooks: 0,
            n_servers: 0,
            front: None,
            editors: BTreeMap::new(),
            key_ms: None,
            input: Input::Empty,
            dialog: None,
        }
    }

    /// A harness appears, in its pane; or a tool of one.
    pub(crate) fn start(&mut self, start: &Start) -> Result<()> {
        if self.machine.get().processes.contains_key(&start.pid) {
            bail!("start: a process with pid {} lives already", start.pid);
        }
        if let Some(harness) = start.tool_of {
            let tty = start.pane.as_deref().map_or(0, |pane| self.pane(pane));
            self.tool(start.pid, (start.session.clone(), harness), tty);
            return Ok(());
        }
        let server = start.pane.as_ref().map(|_| self.server());
        let outside = if start.has_terminal { TTYS_OUTSIDE + u64::from(start.pid) } else { 0 };
        let tty = start.pane.as_deref().map_or(outside, |pane| self.pane(pane));
        let kind = kind_of(&start.argv, tty);
        let process = self.machine.get().spawn(start.pid, kind, tty);
        let launch = self.launch(start, process);
        if let Some(one) = self.machine.get().processes.get_mut(&start.pid) {
            one.forked_from = launch::forked_from(&start.argv);
            one.holds = launch::resumed(&start.argv).filter(|_| one.forked_from.is_none());
            one.parent = launch.parent.process.pid;
            one.launch = (kind == Kind::Interactive).then_some(launch);
        }
        let claimed = start.tmux_pane.as_ref().or(start.pane.as_ref());
        let tmux = server.zip(claimed).map(|(server, pane)| claim(server, pane));
        let (pane, session) = (start.pane.clone(), start.session.clone());
        let is_claude = start.is_claude;
        self.add(Client { process, kind, pane, tty, tmux, session, is_claude });
        if let Some(front) = self.front {
            self.set_front(front);
        }
        Ok(())
    }

    /// A process took the line that resumes a session, and became its client.
    pub(crate) fn became(&mut self, process: ProcessRef, pane: &str, session: &str) {
        let machine = self.machine.clone();
        let machine = machine.get();
        let server = machine.tmux.get(SOCKET).map(|server| server.process);
        let tty = machine.processes.get(&process.pid).map_or(0, |one| one.tty);
        let tmux = server.map(|server| claim(server, pane));
        let (pane, session) = (Some(pane.to_owned()), session.to_owned());
        let kind = Kind::Interactive;
        self.add(Client { process, kind, pane, tty, tmux, session, is_claude: true });
    }

    fn add(&mut self, client: Client) {
        self.of_session.insert(client.session.clone(), client.process.pid);
        self.started.insert(client.process.pid, client);
    }

    /// A tool of a client: it outlives it, unless it ends.
    fn tool(&self, pid: u32, of: (String, u32), tty: u64) -> ProcessRef {
        let mut machine = self.machine.get();
        let process = machine.spawn(pid, Kind::Headless, tty);
        if let Some(one) = machine.processes.get_mut(&pid) {
            one.parent = of.1;
            one.tool_of = Some(of);
        }
        process
    }

    fn launch(&self, start: &Start, process: ProcessRef) -> Launch {
        let mut machine = self.machine.get();
        let server = machine.tmux.get_mut(SOCKET).zip(start.pane.as_ref());
        let pane = server.and_then(|(server, id)| {
            let of_server = server.process;
            server.panes.get_mut(id).map(|pane| (of_server, pane))
        });
        let shell = pane.as_ref().map_or(1, |(_, pane)| pane.pid);
        let shell = ProcessRef { pid: shell, start_time: 1 };
        let (parent, kind) = match (start.parent.as_deref(), pane) {
            (Some("tmux"), Some((server, pane))) => {
                pane.pid = process.pid;
                (server, ParentKind::Tmux)
            }
            (None | Some("shell"), _) => (shell, ParentKind::Shell),
            (Some("inner shell"), _) => {
                (ProcessRef { pid: shell.pid + INNER, ..shell }, ParentKind::Shell)
            }
            (Some(name), _) => (shell, ParentKind::Other(name.to_owned())),
        };
        Launch {
            parent: Parent { process: parent, kind },
            program: vec![launch::PROGRAM.to_owned()],
            flags: launch::flags(&start.argv),
            unfit: start.unfit.clone(),
            cwd: Place { path: CWD.to_owned(), device: 1, inode: 2 },
            variables: Vec::new(),
            config_dir: None,
        }
    }

    /// A client's hook fires; its event goes to the coordinator.
    pub(crate) fn fire(&mut self, hook: &Hook, clock: &Clock) -> Result<Fired> {
        let mut payload = hook.payload.clone();
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let session = text("session_id").unwrap_or_default();
        let event = text("hook_event_name").unwrap_or_default();
        let is_start = event == "SessionStart";
        let pid = hook.pid.or_else(|| self.of_session.get(&session).copied());
        let pid = pid.with_context(|| format!("hook: no step \"start\" names session {session:?}; say whose hook it is with \"pid\" beside \"hook\""))?;
        let client = self.started.get_mut(&pid);
        let client = client.with_context(|| format!("hook: no process {pid} was started"))?;
        if !client.is_claude {
            bail!("hook: process {pid} is of another provider, which fires no hook of coord's");
        }
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
        let is_armed = client.kind == Kind::Interactive && ARMING.contains(&event.as_str());
        let wake = is_armed.then(|| WakeHook {
            session_id: session.clone(),
            harness: client.process,
            pid: known.pid,
        });
        let (post, process) = (Post { body, caller }, client.process);
        Ok(Fired { post, id, session, event, process, wake })
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

    /// Something happens to a pane.
    pub(crate) fn show(&mut self, step: &PaneStep, now: Now) -> Result<()> {
        self.server();
        self.pane(&step.pane);
        if let Some(front) = step.front {
            self.bring(Some(&step.pane), front);
        }
        let mut machine = self.machine.get();
        let server = machine.tmux.get_mut(SOCKET).context("no tmux server")?;
        if step.has_key {
            server.press(Some(&step.pane), now.wall_ms);
        }
        if step.is_closed {
            server.panes.remove(&step.pane);
            return Ok(());
        }
        let pane = server.panes.get_mut(&step.pane).context("no such pane")?;
        if let Some(text) = &step.text {
            pane.shown = coord_screen::read(text);
        }
        pane.is_in_mode = step.is_in_mode.unwrap_or(pane.is_in_mode);
        pane.is_synchronized = step.is_synchronized.unwrap_or(pane.is_synchronized);
        pane.is_kept = step.is_kept.unwrap_or(pane.is_kept);
        if let Some(line) = &step.line {
            pane.line.typed.clone_from(line);
        }
        if let Some(prompt) = &step.prompt {
            pane.line.prompt = Some(prompt.clone()).filter(|prompt| !prompt.is_empty());
        }
        if step.is_respawned {
            pane.pid = pane.pid.saturating_add(RESPAWNED);
        }
        Ok(())
    }

    /// Shows what a client paints.
    pub(crate) fn paint(&self, pane: &str, shown: Reading) {
        let mut machine = self.machine.get();
        let server = machine.tmux.get_mut(SOCKET);
        if let Some(pane) = server.and_then(|server| server.panes.get_mut(pane)) {
            pane.shown = shown;
        }
    }

    /// The pane whose terminal a client has.
    pub(crate) fn pane_of(&self, pid: u32) -> Option<String> {
        self.started.get(&pid)?.pane.clone()
    }

    /// The session that a client holds.
    pub(crate) fn session_of(&self, pid: u32) -> Option<String> {
        self.started.get(&pid).map(|client| client.session.clone())
    }

    /// The words about the world that concern clients and their panes.
    pub(crate) fn set(&mut self, words: &Words, now: Now) {
        if let Some(front) = words.front {
            self.set_front(front);
        }
        let mut machine = self.machine.get();
        if let Some(are_hung) = words.are_hung {
            machine.hang_all(are_hung);
        }
        if let Some(is_there) = words.has_registry {
            machine.set_registry(CONFIG_DIR, is_there);
        }
        machine.has_enter = words.has_enter.unwrap_or(machine.has_enter);
        machine.is_line_plain = words.is_line_plain.unwrap_or(machine.is_line_plain);
        if let Some(want) = &words.want {
            machine.want = Some(want.clone()).filter(|want| !want.is_empty());
        }
        machine.is_shutting_down = words.is_shutting_down.unwrap_or(machine.is_shutting_down);
        if let Some(gone) = &words.gone {
            let path = |what: &String| if what == "directory" { CWD } else { launch::PROGRAM };
            machine.gone = gone.iter().map(|what| path(what).to_owned()).collect();
        }
        if let Some(locked) = &words.locked {
            machine.locked_transcripts = locked.iter().map(|one| transcript_of(one)).collect();
        }
        match words.is_dir_locked {
            Some(true) => drop(machine.locked.insert(CONFIG_DIR.to_owned())),
            Some(false) => drop(machine.locked.remove(CONFIG_DIR)),
            None => (),
        }
        let key_ms = words.keys_age_ms.map(|age_ms| now.wall_ms.saturating_sub(age_ms));
        self.key_ms = self.key_ms.max(key_ms);
        if let Some(draft) = &words.draft {
            self.input = if draft.is_empty() { Input::Empty } else { Input::Draft };
        }
        match words.dialog {
            Some(Dialog::Open(screen)) => self.dialog = Some(screen),
            Some(Dialog::None) => self.dialog = None,
            Some(Dialog::Trust) | None => (),
        }
        let Some(server) = machine.tmux.get_mut(SOCKET) else { return };
        server.answers = words.tmux_answers.unwrap_or(server.answers);
        if let Some(key_ms) = key_ms {
            server.press(None, key_ms);
        }
        for pane in server.panes.values_mut() {
            if words.draft.is_some() {
                pane.input = self.input;
            }
            if words.dialog.is_some() {
                pane.dialog = self.dialog;
            }
        }
    }

    /// Brings this to the front of every pane, now and from now on.
    fn set_front(&mut self, front: Front) {
        self.front = Some(front);
        self.bring(None, front);
    }

    /// A shell comes before a living harness only by Ctrl-Z, which stops it. An editor is a child of the
    /// harness on its terminal, anything else has the terminal for itself.
    fn bring(&mut self, pane: Option<&str>, front: Front) {
        let clients = self.started.values().filter(|client| client.pane.is_some());
        let there = clients.filter(|client| pane.is_none() || client.pane.as_deref() == pane);
        for client in there.cloned().collect::<Vec<_>>() {
            let pid = client.process.pid;
            let is_alive = self.machine.get().is_alive(client.process);
            if let Some(one) = self.machine.get().processes.get_mut(&pid).filter(|_| is_alive) {
                one.is_stopped = front == Front::Shell;
            }
            if let Some(editor) = self.editors.remove(&pid) {
                self.machine.get().end(editor);
            }
            if front == Front::Editor && is_alive {
                let of = (client.session.clone(), pid);
                let editor = self.tool(EDITOR_PIDS + pid, of, client.tty);
                self.editors.insert(pid, editor);
            }
        }
        let mut machine = self.machine.get();
        let panes = machine.tmux.get_mut(SOCKET).into_iter().flat_map(|server| &mut server.panes);
        for (_, one) in panes.filter(|(id, _)| pane.is_none_or(|pane| pane == *id)) {
            one.is_covered = front == Front::Child;
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
        let server = TmuxServer { key_ms: self.key_ms, ..TmuxServer::new(process) };
        machine.tmux.insert(SOCKET.to_owned(), server);
        process
    }

    /// The terminal of a pane, which is made if it is not there.
    fn pane(&self, id: &str) -> u64 {
        let number = id.trim_start_matches('%').parse::<u16>().unwrap_or(0);
        let tty = TTYS + u64::from(number);
        let pid = SHELL_PIDS + u32::from(number);
        let mut machine = self.machine.get();
        let Some(server) = machine.tmux.get_mut(SOCKET) else { return tty };
        let mut new = Pane::new(pid, tty, Reading::default());
        // A client that is attached may have sent its last key here.
        (new.key_ms, new.input, new.dialog) = (server.key_ms, self.input, self.dialog);
        server.panes.entry(id.to_owned()).or_insert(new).tty
    }
}

fn transcript_of(session: &str) -> String {
    format!("{CONFIG_DIR}/projects/-home-dev-project/{session}.jsonl")
}

fn claim(server: ProcessRef, pane: &str) -> TmuxClaim {
    TmuxClaim {
        socket: SOCKET.to_owned(),
        server_pid: server.pid,
        server_start: server.start_time,
        pane: pane.to_owned(),
    }
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

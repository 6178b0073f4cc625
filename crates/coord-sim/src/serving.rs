//! A coordinator that serves on the simulated machine: the real one, with what `coord serve` does
//! around it on real sockets and clocks.

mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coord_config::{Config, ConfigError};
use coord_daemon::coordinator::{Coordinator, Parts};
use coord_daemon::engine::Engine;
use coord_daemon::http::{Request, Response};
use coord_daemon::routes::Route;
use coord_daemon::waiters::WaiterId;
use coord_host::here::Here;
use coord_host::process::Caller;
use coord_model::{MessageId, ProcessRef, Sender};
use coord_store::lock::Held;
use coord_store::{CoordinatorLock, Disk};
use coord_testkit::fake_disk::FakeFile;
use coord_wire::api::{OperatorRequest, ResumeClaim};
use coord_wire::message::{Send, Sent};
use coord_wire::paths::Paths;
use serde_json::{Value, json};

pub use self::requests::{Answered, RequestHook};
use crate::machine::{MACHINE, PID_NS, SharedMachine};

/// COORD_HOME on the simulated machine.
const ROOT: &str = "/coord";
/// The client's configuration directory there.
pub const CONFIG_DIR: &str = "/home/dev/.claude";
/// Who asks for states; no session's hook.
const ASKER: Caller = Caller { pid: 2, parent: Some(1) };

/// Where the store lies.
pub fn paths() -> Paths {
    let root = Path::new(ROOT);
    let state = root.join("state").join(MACHINE);
    Paths {
        config: root.join("config"),
        state_base: root.join("state"),
        state,
        run: root.join("run"),
    }
}

/// A running coordinator.
pub struct Serving {
    coordinator: Coordinator<SharedMachine>,
    machine: SharedMachine,
    /// Answers that wait until the record with this number is on disk.
    awaiting: Vec<(u64, Asker, Response)>,
    /// The leases of the messages in those for hooks, by the ids of their events.
    handed: BTreeMap<u128, Vec<(MessageId, u64)>>,
    /// Answers that are ready.
    answers: Vec<(Asker, Response)>,
    /// Wake hooks that wait, by number, since when (CLOCK_MONOTONIC); and those that were handed a text.
    waiting: BTreeMap<usize, (WakeHook, u64)>,
    wakes: Vec<(WakeHook, String)>,
    /// Hooks that wait for a reply, by number; and answers to such hooks.
    requests: BTreeMap<usize, ProcessRef>,
    replies: Vec<Answered>,
    hooks: usize,
    _lock: Held<FakeFile>,
}

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// The line that resumes a session.
    Line(ProcessRef),
    /// A hook, by the id of its event.
    Hook(u128),
    /// Whoever sent a message.
    Sender,
    /// Whoever replied to a request.
    Person,
}

/// What becomes of a hook's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It is answered at once, with this status.
    Answered(u16),
    /// It is answered with this text for its agent, once that is on disk.
    Handed(String),
}

impl Posted {
    /// The status of its answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::Answered(status) => *status,
            Self::Handed(_) => 200,
        }
    }
}

/// One request of a hook: its body, and who sends it.
#[derive(Debug, Clone)]
pub struct Post {
    /// The envelope.
    pub body: Vec<u8>,
    /// The hook and its parent.
    pub caller: Caller,
}

/// A wake hook, which waits beside an idle session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeHook {
    /// The session that its client had when it was started.
    pub session_id: String,
    /// Its client.
    pub harness: ProcessRef,
    /// Itself.
    pub pid: u32,
}

impl Serving {
    /// Starts one, as `coord serve` does.
    ///
    /// # Errors
    /// Another one has the lock, or the store cannot be opened.
    pub fn start(machine: &SharedMachine, config: &Config) -> anyhow::Result<Self> {
        let paths = paths();
        let (disk, now, here) = {
            let machine = machine.get();
            let here = Here {
                machine: MACHINE.to_owned(),
                host: "host".to_owned(),
                boot: machine.boot.clone(),
                boot_at_ms: machine.boot_at_ms,
                pid_ns: PID_NS,
                uid: 1000,
            };
            (machine.disk.clone(), machine.now, here)
        };
        for dir in [&paths.state, &paths.spool()] {
            disk.create_dir(dir).with_context(|| dir.display().to_string())?;
        }
        let lock = CoordinatorLock::acquire(&disk, &paths.coordinator_lock())?;
        let (engine, _findings) = Engine::open(&disk, &paths.state, &paths.journal())?;
        let world = machine.clone();
        let config = config.clone();
        let parts = Parts { world, disk, paths, here, config, engine };
        let mut coordinator = Coordinator::start(parts, now)?;
        coordinator.know_config_dir(CONFIG_DIR);
        let machine = machine.clone();
        Ok(Self {
            coordinator,
            machine,
            awaiting: Vec::new(),
            handed: BTreeMap::new(),
            answers: Vec::new(),
            waiting: BTreeMap::new(),
            wakes: Vec::new(),
            requests: BTreeMap::new(),
            replies: Vec::new(),
            hooks: 0,
            _lock: lock,
        })
    }

    /// The coordinator.
    pub fn coordinator(&self) -> &Coordinator<SharedMachine> {
        &self.coordinator
    }

    /// One turn of the loop at the machine's time, in which these requests are there. The statuses
    /// of the answers.
    pub fn turn(&mut self, posts: &[Post], spool_changed: bool) -> Vec<u16> {
        self.begin_turn();
        let statuses = posts.iter().map(|post| self.post(post)).collect();
        self.end_turn(spool_changed);
        statuses
    }

    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        let now = self.machine.get().now;
        let lives = |hook: &WakeHook| self.machine.get().is_alive(hook.harness);
        let gone = self.waiting.iter().filter(|(_, (hook, _))| !lives(hook));
        let gone: Vec<usize> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            self.waiting.remove(&number);
            self.coordinator.end_wait(WaiterId(number));
        }
        self.forget_request_hooks();
        self.coordinator.begin_turn(now);
    }

    /// What is left of a turn once its requests are taken.
    pub fn end_turn(&mut self, spool_changed: bool) {
        let now = self.machine.get().now;
        if spool_changed {
            self.coordinator.on_spool();
        }
        let exits = self.machine.get().take_exits();
        for process in exits {
            self.coordinator.on_exit(process, now);
        }
        self.coordinator.on_registry_changes();
        self.coordinator.on_transcript_changes(now);
        self.coordinator.take_results(now);
        self.coordinator.end_turn(!self.awaiting.is_empty(), now);
        for (WaiterId(number), text) in self.coordinator.take_wake_answers(now) {
            let hook = self.waiting.remove(&number).map(|(hook, _)| hook);
            self.wakes.extend(hook.zip(text));
        }
        self.answer_request_hooks(now);
        let synced = self.coordinator.synced_through();
        let ready = self.awaiting.extract_if(.., |(seq, _, _)| *seq <= synced);
        self.answers.extend(ready.map(|(_, asker, response)| (asker, response)));
    }

    /// A wake hook asks to wait beside its session.
    pub fn wait(&mut self, hook: WakeHook) {
        let now = self.machine.get().now;
        let WakeHook { session_id, harness, pid } = &hook;
        let ask = json!({"session_id": session_id, "harness": harness, "pid": pid});
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/wake".to_owned(),
            query: Vec::new(),
            body: ask.to_string().into_bytes(),
            keep_alive: false,
        };
        let caller = Caller { pid: *pid, parent: Some(harness.pid) };
        if let Route::Wait(ask) = self.coordinator.route(&request, caller, now) {
            self.hooks += 1;
            self.coordinator.begin_wait(WaiterId(self.hooks), ask, now);
            self.waiting.insert(self.hooks, (hook, now.mono_ns));
        }
    }

    /// Whether a wake hook of this client waits.
    pub fn has_waiter(&self, harness: ProcessRef) -> bool {
        self.waiting.values().any(|(hook, _)| hook.harness == harness)
    }

    /// The clients beside which wake hooks wait that have done so for `ns` or longer; one for each hook.
    pub fn waiters_for(&self, ns: u64) -> impl Iterator<Item = ProcessRef> {
        let now = self.machine.get().now.mono_ns;
        let old = self.waiting.values().filter(move |(_, since)| ns <= now.saturating_sub(*since));
        old.map(|(hook, _)| hook.harness)
    }

    /// Wake hooks that were handed a text since the last call.
    pub fn take_wakes(&mut self) -> Vec<(WakeHook, String)> {
        std::mem::take(&mut self.wakes)
    }

    /// A process that was started by the line that resumes a session asks for it; the answer comes by
    /// [`Self::take_answers`].
    pub fn claim(&mut self, process: ProcessRef, parent: u32, nonce: &str) {
        let now = self.machine.get().now;
        let claim = ResumeClaim { pid: process.pid, start_time: process.start_time };
        let request = Request {
            method: "POST".to_owned(),
            path: format!("/v1/resume/{nonce}"),
            query: Vec::new(),
            body: serde_json::to_vec(&claim).unwrap_or_default(),
            keep_alive: false,
        };
        let caller = Caller { pid: process.pid, parent: Some(parent) };
        match self.coordinator.route(&request, caller, now) {
            Route::Answer(response) => self.answers.push((Asker::Line(process), response)),
            Route::AfterSync(seq, response) => {
                self.awaiting.push((seq, Asker::Line(process), response));
            }
            Route::Handed(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down => (),
        }
    }

    /// Answers to claims that are ready.
    pub fn take_answers(&mut self) -> Vec<(ProcessRef, Response)> {
        self.take_of(|asker| match asker {
            Asker::Line(process) => Some(process),
            Asker::Hook(_) | Asker::Sender | Asker::Person => None,
        })
    }

    /// Texts for agents that are ready, by the ids of the events whose hooks wait for them.
    pub fn take_handed(&mut self) -> Vec<(u128, String)> {
        let ready = self.take_of(|asker| match asker {
            Asker::Hook(id) => Some(id),
            Asker::Line(_) | Asker::Sender | Asker::Person => None,
        });
        ready.iter().for_each(|(id, _)| drop(self.handed.remove(id)));
        ready.into_iter().map(|(id, response)| (id, context_of(&response))).collect()
    }

    /// Messages whose senders were told that they are accepted.
    pub fn take_accepted(&mut self) -> Vec<Sent> {
        let ready = self.take_of(|asker| (asker == Asker::Sender).then_some(()));
        let sent = ready.iter().map(|((), response)| serde_json::from_slice(&response.body));
        sent.flatten().collect()
    }

    fn take_of<T>(&mut self, of: impl Fn(Asker) -> Option<T>) -> Vec<(T, Response)> {
        let mut taken = Vec::new();
        for (asker, response) in std::mem::take(&mut self.answers) {
            match of(asker) {
                Some(of) => taken.push((of, response)),
                None => self.answers.push((asker, response)),
            }
        }
        taken
    }

    /// Somebody sends a message; that it is accepted is told by [`Self::take_accepted`].
    ///
    /// # Errors
    /// It is not: why.
    pub fn send(&mut self, ask: &Send, from: Sender) -> anyhow::Result<Sent> {
        let now = self.machine.get().now;
        let sent = self.coordinator.send(ask, from, now)?;
        self.answer_once_synced(Asker::Sender, Response::json(&sent))?;
        Ok(sent)
    }

    /// Answers somebody who waits for what was recorded so far, once it is on disk.
    fn answer_once_synced(&mut self, asker: Asker, response: Response) -> anyhow::Result<()> {
        let now = self.machine.get().now;
        let query = vec![("sync".to_owned(), String::new())];
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/events".to_owned(),
            query,
            body: b"[]".to_vec(),
            keep_alive: false,
        };
        match self.coordinator.route(&request, ASKER, now) {
            Route::AfterSync(seq, _) => {
                self.awaiting.push((seq, asker, response));
                Ok(())
            }
            Route::Answer(_)
            | Route::Handed(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down => {
                bail!("nobody tells when it is on disk")
            }
        }
    }

    /// The configuration file was saved, and read like this.
    pub fn configure(&mut self, loaded: Result<Config, ConfigError>) {
        let now = self.machine.get().now;
        self.coordinator.on_config(loaded, now);
    }

    /// What a person asks for by `coordctl`.
    ///
    /// # Errors
    /// The order is not taken: why.
    pub fn order(&mut self, order: &OperatorRequest) -> anyhow::Result<()> {
        let now = self.machine.get().now;
        self.coordinator.order(order, now)?;
        Ok(())
    }

    /// Takes one request of a hook; the status of the answer.
    pub fn post(&mut self, post: &Post) -> u16 {
        self.take(0, post).status()
    }

    /// Takes one request of the hook that reports the event with this id. A text for its agent comes by
    /// [`Self::take_handed`].
    pub fn take(&mut self, id: u128, post: &Post) -> Posted {
        let now = self.machine.get().now;
        let request = Request {
            method: "POST".to_owned(),
            path: "/v1/events".to_owned(),
            query: Vec::new(),
            body: post.body.clone(),
            keep_alive: false,
        };
        match self.coordinator.route(&request, post.caller, now) {
            Route::Answer(response) => Posted::Answered(response.status),
            Route::Handed(seq, response, leases) => {
                let text = context_of(&response);
                self.awaiting.push((seq, Asker::Hook(id), response));
                self.handed.insert(id, leases);
                Posted::Handed(text)
            }
            Route::AfterSync(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down => Posted::Answered(500),
        }
    }

    /// A hook no longer waits for its answer.
    pub fn hang_up(&mut self, id: u128) {
        let before = self.awaiting.len();
        self.awaiting.retain(|(_, asker, _)| *asker != Asker::Hook(id));
        // What was answered by then is on its way.
        let is_unheard = self.awaiting.len() < before;
        if let Some(leases) = self.handed.remove(&id).filter(|_| is_unheard) {
            self.take_back(&leases);
        }
    }

    /// A hook was gone before it could be answered with these.
    pub fn take_back(&mut self, leases: &[(MessageId, u64)]) {
        let now = self.machine.get().now;
        self.coordinator.take_back(leases, now);
    }

    /// What the coordinator does with a request.
    pub fn route(&mut self, request: &Request, caller: Caller) -> Route {
        let now = self.machine.get().now;
        self.coordinator.route(request, caller, now)
    }

    /// The answer to a question, such as `/v1/sessions`.
    ///
    /// # Errors
    /// The path has no plain answer.
    pub fn ask(&mut self, path: &str) -> anyhow::Result<Response> {
        let now = self.machine.get().now;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let fields = query.split('&').filter_map(|field| field.split_once('='));
        let request = Request {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: Vec::new(),
            keep_alive: false,
        };
        match self.coordinator.route(&request, ASKER, now) {
            Route::Answer(response) => Ok(response),
            Route::AfterSync(..)
            | Route::Handed(..)
            | Route::History(_)
            | Route::Wait(_)
            | Route::WaitForReply(_)
            | Route::Verified
            | Route::Down => {
                bail!("{path}: no answer")
            }
        }
    }

    /// When the loop has to turn at the latest, CLOCK_MONOTONIC.
    pub fn wake_at(&self) -> u64 {
        let result = self.machine.get().next_result();
        result.into_iter().fold(self.coordinator.wake_at(), u64::min)
    }

    /// Ends it as SIGTERM does.
    ///
    /// # Errors
    /// The disk refused something.
    pub fn end(self) -> anyhow::Result<()> {
        let now = self.machine.get().now;
        let ended = self.coordinator.finish(now);
        self.machine.get().forget_coordinator();
        ended
    }

    /// Ends it as SIGKILL does.
    pub fn kill(self) {
        let machine = self.machine.clone();
        drop(self);
        machine.get().forget_coordinator();
    }
}

/// What a hook's answer has for its agent.
fn context_of(response: &Response) -> String {
    let output: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let context = output.pointer("/hookSpecificOutput/additionalContext").and_then(Value::as_str);
    context.unwrap_or_default().to_owned()
}

/// The directory of the spool.
pub fn spool_dir() -> PathBuf {
    paths().spool()
}

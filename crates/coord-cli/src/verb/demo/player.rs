//! Plays the recording: each event is recorded in the journal and passes the core, as in a coordinator, and what the core
//! asks for is answered as it was recorded. Nothing acts.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use anyhow::Context as _;
use coord_daemon::engine::Engine;
use coord_host::here::Here;
use coord_host::registry::Readable;
use coord_host::{process, registry, state_dir};
use coord_model::envelope::{ENVELOPE_VERSION, Envelope};
use coord_model::stamp::rfc3339;
use coord_model::{
    Action, Command, Effect, Event, Failure, HookEvent, Intent, Kind, MarkChange, Now, Outcome,
    ProcessRef, ProcessSeen, Provenance, Settings, Started, Via, Whom,
};
use coord_store::RealDisk;
use coord_view::sessions::sessions;
use coord_wire::inspect::{Coordinator, Inspect, SCHEMA};
use serde_json::{Map, Value};

use super::client::{self, Client};
use super::published::Published;
use super::script::{Clock, Step, What};
use crate::context::Context;
use crate::verb::inspect::home;

/// The recorded sessions, and the store that their events are recorded in.
pub(super) struct Player {
    engine: Engine<RealDisk>,
    root: PathBuf,
    here: Here,
    clock: Clock,
    /// By the session's name.
    clients: BTreeMap<String, Client>,
    /// The demo itself, which stands for the tmux server.
    own: ProcessRef,
    /// Number of hook events so far.
    reported: u64,
    published: Arc<Published>,
}

impl Player {
    /// Opens a store below the root, and plays what happened before the demo begins.
    pub(super) fn new(
        context: &Context,
        clock: Clock,
        script: &[Step],
        published: Arc<Published>,
    ) -> anyhow::Result<Self> {
        let root = context.root.clone().context("the demo has no root")?;
        state_dir::prepare(&context.paths)?;
        std::fs::create_dir_all(client::config_dir(&root).join("sessions"))?;
        let paths = &context.paths;
        let (engine, _) = Engine::open(&RealDisk, &paths.state, &paths.journal())?;
        let (clients, own) = (BTreeMap::new(), client::process(std::process::id())?);
        let here = context.here.clone();
        let mut player = Self { engine, root, here, clock, clients, own, reported: 0, published };
        let before = || script.iter().take_while(|step| step.at < 0);
        let begun = clock.at(before().next().map_or(0, |step| step.at));
        // No silence is concluded from in 30 seconds, so there is nothing to settle.
        let settings = Settings { settle_ms: 0, ..Settings::default() };
        let (version, host) = (coord_wire::VERSION.to_owned(), player.here.for_core());
        player.record(Event::Started(Box::new(Started { version, host, settings })), begun)?;
        before().try_for_each(|step| player.take(step))?;
        player.publish(clock.at(0));
        Ok(player)
    }

    /// Plays the rest, each event at its time, until `stopped` is closed.
    pub(super) fn play(&mut self, script: &[Step], stopped: &Receiver<()>) -> anyhow::Result<()> {
        let begin = script.partition_point(|step| step.at < 0);
        // What happened at once is shown at once.
        for steps in script[begin..].chunk_by(|one, next| one.at == next.at) {
            let at = steps[0].at;
            match stopped.recv_timeout(self.clock.until(at)) {
                Err(RecvTimeoutError::Timeout) => {
                    steps.iter().try_for_each(|step| self.take(step))?;
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.publish(self.clock.at(at));
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) -> anyhow::Result<()> {
        let now = self.clock.at(step.at);
        if self.engine.state().is_due(now) {
            self.record(Event::Due, now)?;
        }
        let name = step.session.as_str();
        if let What::Start { id, pane, place } = &step.what {
            let number = u32::try_from(self.clients.len())?;
            let directory = format!("{}/src/{name}", home());
            let at = (&*self.root, self.own);
            let client = Client::start(id, directory, (pane, place), number, at)?;
            self.clients.insert(name.to_owned(), client);
            let source = Map::from_iter([("source".to_owned(), Value::from("startup"))]);
            return self.hook(name, "SessionStart", &source, now);
        }
        let (root, client) = (self.root.clone(), self.client(name)?);
        let (session_id, process) = (client.id.clone(), client.process());
        match &step.what {
            What::Start { .. } => Ok(()),
            What::Hook { event, fields } => self.hook(name, event, fields, now),
            What::Limit { resets_in_ms } => {
                let resets_ms = Some(now.wall_ms + resets_in_ms);
                let error = "rate_limit".to_owned();
                let failure = Some(Failure { error, written_ms: now.wall_ms, resets_ms });
                let (interrupted_ms, has_signature) = (None, None);
                self.record(
                    Event::TranscriptRead { process, interrupted_ms, has_signature, failure },
                    now,
                )
            }
            What::Unattended => {
                let whom = Whom::Session(client.key.context("it has no record")?);
                let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
                let what = format!("attend {name} --unattended");
                let command = Command::Attend { whom, marks };
                self.record(Event::Operator { session_id: Some(session_id), what, command }, now)
            }
            What::Crash => {
                let process = client.crash()?;
                self.record(Event::ProcessExited { process }, now)
            }
            What::Exit => {
                let process = client.exit(&root)?;
                self.record(Event::ProcessExited { process }, now)
            }
            What::Look => {
                let (intent, lives) = client.look.take().context("coord asked for no look")?;
                let proof = Box::new(Client::proof(lives, now));
                self.record(Event::Proved { session_id, intent, proof }, now)
            }
            What::Resume => {
                let session = client.key.context("it has no record")?;
                let (process, nonce) = (client.resume()?, client::nonce());
                self.record(Event::ResumeClaimed { session_id, session, nonce, process }, now)
            }
        }
    }

    fn client(&mut self, name: &str) -> anyhow::Result<&mut Client> {
        self.clients.get_mut(name).with_context(|| format!("{name} was not started"))
    }

    /// Records a hook's event, and what registry and pane show then.
    fn hook(
        &mut self,
        name: &str,
        event: &str,
        fields: &Map<String, Value>,
        now: Now,
    ) -> anyhow::Result<()> {
        self.reported += 1;
        let (number, root, here) = (self.reported, self.root.clone(), self.here.clone());
        let client = self.client(name)?;
        let mut envelope = Envelope {
            v: ENVELOPE_VERSION,
            id: format!("{:012x}{number:020x}", now.wall_ms),
            event: event.to_owned(),
            emitted_at: rfc3339(now.wall_ms),
            mono_ns: now.mono_ns,
            boot: here.boot,
            host: here.host,
            machine: here.machine,
            config_dir: client::config_dir(&root).display().to_string(),
            hook: coord_wire::VERSION.to_owned(),
            ..Envelope::default()
        };
        let sessions = client::config_dir(&root).join("projects");
        envelope.transcript_path = format!("{}/{}.jsonl", sessions.display(), client.id);
        client.sign(&mut envelope, here.pid_ns);
        let mut text = serde_json::to_value(&envelope)?;
        if let Value::Object(text) = &mut text {
            text.extend(fields.clone());
        }
        let text = serde_json::value::to_raw_value(&text)?;
        let envelope = Envelope::parse(text.get().as_bytes())?;
        let has_changed = client.report(&envelope, &root)?;
        let (process, found) = (client.process(), client.pane());
        let id = client.id.clone();
        let event = HookEvent::new(envelope, text, Via::Socket);
        let event = HookEvent { provenance: Provenance::Verified, ..event };
        self.record(Event::Hook(Box::new(event)), now)?;
        let key = self.engine.state().sessions().find(|one| one.session_id == id);
        let key = key.map(|session| session.key);
        self.client(name)?.key = key;
        if has_changed {
            self.record(self.registry(process, false), now)?;
            let (looked_ns, after_death) = (now.mono_ns, false);
            self.record(Event::PaneSeen { process, found, looked_ns, after_death }, now)?;
        }
        Ok(())
    }

    /// What the registry says of a process now.
    fn registry(&self, process: ProcessRef, after_death: bool) -> Event {
        let readable = Readable { root: Some(self.root.clone()), named: Vec::new() };
        let found = registry::read(&readable, &client::config_dir(&self.root), process);
        Event::RegistryRead { process, found, after_death, domain: None }
    }

    /// Records an event, and the answers to what the core asks for because of it.
    fn record(&mut self, event: Event, now: Now) -> anyhow::Result<()> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let effects = self.engine.record(&event, now)?;
            events.extend(effects.into_iter().filter_map(|effect| self.answer(effect)));
        }
        Ok(())
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what is not answered is not in the recording"
    )]
    fn answer(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::WatchProcess { process } => Some(Event::ProcessSeen(self.look_at(process))),
            Effect::ReadRegistry { process, after_death, .. } => {
                Some(self.registry(process, after_death))
            }
            Effect::LockConfigDir { config_dir } => {
                Some(Event::ConfigDirLock { config_dir, held: true })
            }
            Effect::Act(action) => match *action {
                Action::Prove { intent, subject } => {
                    self.client_of(intent)?.look = Some((intent, subject.lives));
                    None
                }
                Action::TypeResume { intent, .. } | Action::Wake { intent, .. } => {
                    let session_id = self.client_of(intent)?.id.clone();
                    Some(Event::Acted { session_id, intent, outcome: Outcome::Done })
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn client_of(&mut self, intent: Intent) -> Option<&mut Client> {
        self.clients.values_mut().find(|client| client.key == Some(intent.session))
    }

    fn look_at(&self, process: ProcessRef) -> ProcessSeen {
        let client = self.clients.values().find(|client| client.process() == process);
        ProcessSeen {
            process,
            alive: process::is_alive(process),
            kind: client.map(|_| Kind::Interactive),
            is_stopped: false,
            forked_from: None,
            launch: client.map(|client| Box::new(client.launch())),
        }
    }

    fn publish(&self, now: Now) {
        let coordinator = Coordinator {
            running: true,
            pid: self.own.pid,
            version: coord_wire::VERSION.to_owned(),
            ..Coordinator::default()
        };
        let sessions = sessions(self.engine.state(), now);
        self.published.publish(Inspect {
            schema: SCHEMA,
            coordinator,
            sessions,
            ..Inspect::default()
        });
    }
}

//! The relay: publishes this machine's journal and its sessions, keeps what is known of the others, and carries messages. It
//! decides nothing, and killing it costs time and nothing else: what it knows it asks for again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use coord_fleet::{
    BEAT_MS, Carrier, CarryError, Engine, EngineError, Identity, Incarnation, Outbox, Peers,
    SessionState, StateKey, Turn, TurnError, Watched, Writer,
};
use coord_wire::fleet::RelayStatus;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

mod notices;

use self::notices::Notices;
use crate::nats::{Connection, Status};
use crate::nats_engine::NatsEngine;
use crate::settings::Settings;
use crate::source::{Source, Watch};
use crate::state_schedule::{StateSchedule, content, pause_after, share};
use crate::views::{Views, write_whole};

/// Events are collected for so long before a batch is published.
const BATCH_WAIT: Duration = Duration::from_millis(250);
/// The engine is asked this often what it holds, though nothing happened.
const DOUBT_AFTER: Duration = Duration::from_secs(5 * 60);
/// Wait after an error before the same is tried again.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait between attempts to connect.
const CONNECT_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The coordinator is asked this often for messages whose time has come, and for records that became durable late.
const OUTBOX_PAUSE: Duration = Duration::from_secs(10);
/// The files of other machines are written this often at most.
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// Longest wait between two writes of a file that changes all the time.
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(2);
/// The status is looked at after so long, if nothing of another machine changed.
const STATUS_PAUSE: Duration = Duration::from_millis(500);

/// What a relay is started with.
#[derive(Debug)]
pub struct Options {
    /// Where the server is.
    pub settings: Settings,
    /// This machine's keys.
    pub identity: Identity,
    /// This machine's name, for people.
    pub name: String,
    /// The version of coord.
    pub version: String,
    /// The journal, and this process.
    pub writer: Writer,
    /// The boot of this machine.
    pub boot: String,
    /// The directory with a file for each machine.
    pub machines: PathBuf,
    /// The file with the relay's status.
    pub status: PathBuf,
}

/// What all parts of the relay share. One thread runs them.
struct Shared<S> {
    options: Options,
    source: RefCell<S>,
    peers: RefCell<Peers>,
    views: RefCell<Views>,
    /// Something is known of another machine that its file does not say.
    views_changed: Notify,
    /// Who tells of whose needs.
    notices: Notices,
    status: RefCell<RelayStatus>,
    /// The newest record that is known to be durable: more can be published when it grows.
    durable: watch::Sender<u64>,
    /// What each part cannot do at the moment.
    troubles: RefCell<BTreeMap<&'static str, String>>,
}

/// Runs the relay until it is killed, or `ended` comes true.
///
/// # Errors
/// It cannot begin.
pub fn run(
    options: Options,
    source: impl Source,
    watch: impl Watch,
    ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let news = spawn_watch(watch)?;
    let boot = options.boot.clone();
    let machine = options.identity.keys.machine();
    let views = Views::open(options.machines.clone(), boot, machine)?;
    let url = options.settings.url.clone();
    let status = RelayStatus { pid: std::process::id(), url, ..RelayStatus::default() };
    let shared = Shared {
        options,
        source: RefCell::new(source),
        peers: RefCell::default(),
        views: RefCell::new(views),
        views_changed: Notify::new(),
        notices: Notices::new(machine),
        status: RefCell::new(status),
        durable: watch::Sender::default(),
        troubles: RefCell::default(),
    };
    let mut ended = ended;
    runtime.block_on(async {
        tokio::select! {
            () = shared.connect(news) => (),
            () = shared.write_files() => (),
            _ = ended.wait_for(|ended| *ended) => (),
        }
    });
    Ok(())
}

/// A thread that waits for news, and how they are heard.
fn spawn_watch(mut watch: impl Watch) -> io::Result<watch::Receiver<u64>> {
    let (news, heard) = watch::channel(0);
    std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
        while watch.wait().is_ok() {
            news.send_modify(|count: &mut u64| *count = count.wrapping_add(1));
        }
    })?;
    Ok(heard)
}

/// What lets a part of the relay look again before its time.
struct News {
    journal: watch::Receiver<u64>,
    link: watch::Receiver<Status>,
}

impl News {
    /// Waits until the journal has grown or the link has changed, or for as long.
    async fn within(&mut self, time: Duration) {
        let news = async {
            tokio::select! {
                grown = self.journal.changed() => grown,
                changed = self.link.changed() => changed,
            }
        };
        if let Ok(Err(_)) = timeout(time, news).await {
            // Nobody watches any more.
            sleep(time).await;
        }
    }
}

impl<S: Source> Shared<S> {
    /// Connects, and works on the connection, which comes back by itself.
    async fn connect(&self, journal: watch::Receiver<u64>) {
        let mut pause = ERROR_PAUSE;
        let connection = loop {
            let machine = self.options.identity.keys.machine();
            match Connection::open(&self.options.settings, machine).await {
                Ok(connection) => break connection,
                Err(error) => self.set_link(false, Some(error.to_string()), None),
            }
            sleep(pause).await;
            pause = (pause * 2).min(CONNECT_PAUSE_MAX);
        };
        let news = || News { journal: journal.clone(), link: connection.changes() };
        tokio::join!(
            self.follow_link(&connection),
            self.publish(connection.engine(), &connection, news()),
            self.publish_states(connection.engine(), &connection, news()),
            self.follow_peers(connection.engine()),
            self.send(connection.engine(), &connection, news()),
            self.receive(connection.engine()),
            self.share_notices(connection.engine(), &connection),
        );
    }

    fn set_link(&self, is_up: bool, last_error: Option<String>, version: Option<String>) {
        let mut status = self.status.borrow_mut();
        if status.is_up != is_up || status.since_ms == 0 {
            status.since_ms = wall_ms();
        }
        status.is_up = is_up;
        status.last_error = last_error.or_else(|| status.last_error.take());
        status.server_version = version.or_else(|| status.server_version.take());
    }

    async fn follow_link(&self, connection: &Connection) {
        let mut changes = connection.changes();
        loop {
            let now = connection.status();
            self.set_link(
                now.is_up,
                now.last_error.map(|error| error.to_string()),
                now.server_version,
            );
            if changes.changed().await.is_err() {
                core::future::pending::<()>().await;
            }
        }
    }

    /// Notes whether a part of the relay works, and waits a while if it does not.
    async fn worked(&self, part: &'static str, error: Option<EngineError>) {
        let Some(error) = error else {
            self.troubles.borrow_mut().remove(part);
            return;
        };
        let is_down = matches!(error, EngineError::Unreachable(_)) && !self.status.borrow().is_up;
        if is_down {
            self.troubles.borrow_mut().remove(part);
        } else {
            self.troubles.borrow_mut().insert(part, format!("{part}: {error}"));
        }
        sleep(ERROR_PAUSE).await;
    }

    /// Publishes the journal.
    async fn publish(&self, mut engine: NatsEngine, connection: &Connection, mut news: News) {
        let mut outbox = Outbox::new(self.options.writer.clone());
        let mut durable = self.durable.subscribe();
        let mut connects = 0;
        let mut asked = Instant::now();
        loop {
            let now = connection.status().connects;
            if now != connects || DOUBT_AFTER <= asked.elapsed() {
                (connects, asked) = (now, Instant::now());
                outbox.doubt();
            }
            let turn = {
                let mut source = SharedSource(&self.source);
                outbox.turn(&mut engine, &mut source, &self.options.identity.keys).await
            };
            {
                let mut status = self.status.borrow_mut();
                status.held_through = outbox.held_through;
                status.rewinds = outbox.rewinds;
            }
            match turn {
                Ok(Turn::Published { .. }) => {
                    self.worked(PUBLISHING, None).await;
                }
                Ok(Turn::Conflict) => (),
                Ok(Turn::Idle) => {
                    self.worked(PUBLISHING, None).await;
                    tokio::select! {
                        () = news.within(DOUBT_AFTER) => (),
                        _ = durable.changed() => (),
                    }
                    sleep(BATCH_WAIT).await;
                }
                Err(TurnError::Engine(error)) => self.worked(PUBLISHING, Some(error)).await,
                // The coordinator is down, or takes long.
                Err(TurnError::Journal(_)) => sleep(ERROR_PAUSE).await,
                Err(TurnError::Duplicate(duplicate)) => {
                    self.status.borrow_mut().duplicate = Some(duplicate.0);
                    core::future::pending::<()>().await;
                }
            }
        }
    }

    /// Publishes the states of the sessions, and that this machine is there.
    async fn publish_states(
        &self,
        mut engine: NatsEngine,
        connection: &Connection,
        mut news: News,
    ) {
        let mut beat_at = Instant::now();
        let mut schedule = StateSchedule::default();
        let mut connects = 0;
        loop {
            let now = connection.status().connects;
            let is_new = now != connects;
            if is_new {
                connects = now;
                schedule = StateSchedule::default();
            }
            let is_beat = is_new || beat_at <= Instant::now();
            let done = self.put_states(&mut engine, &mut schedule, is_beat).await;
            if is_beat && done.is_ok() {
                beat_at = Instant::now() + Duration::from_millis(BEAT_MS);
            }
            let next = match done {
                Ok(Some(pause)) => {
                    self.worked(STATES, None).await;
                    sleep(pause).await;
                    schedule.next()
                }
                // The coordinator is down, or takes long.
                Ok(None) => {
                    sleep(ERROR_PAUSE).await;
                    Some(Instant::now())
                }
                Err(error) => {
                    self.worked(STATES, Some(error)).await;
                    // A link that is down is news once it is up.
                    connection.status().is_up.then(Instant::now)
                }
            };
            let next = next.map_or(beat_at, |next| next.min(beat_at));
            news.within(next.saturating_duration_since(Instant::now())).await;
        }
    }

    /// Puts the states that changed and are due. Returns how long to pause then; none if the coordinator did not answer.
    async fn put_states(
        &self,
        engine: &mut NatsEngine,
        schedule: &mut StateSchedule,
        is_beat: bool,
    ) -> Result<Option<Duration>, EngineError> {
        let Options { identity, writer, .. } = &self.options;
        let machine = identity.keys.machine();
        let durable = self.status.borrow().durable;
        if is_beat {
            self.put_beat(engine).await?;
        }
        let begun = Instant::now();
        let Ok(sessions) = self.source.borrow_mut().sessions() else { return Ok(None) };
        schedule.begin();
        let mut gone = self.known_of_self();
        gone.extend(schedule.sessions().cloned());
        let mut due = Vec::new();
        for (session, json) in sessions {
            gone.remove(&session);
            let content = content(json.get());
            if schedule.is_due(&session, &content, begun) {
                due.push((session, json, content));
            }
        }
        let reading = begun.elapsed();
        for (session, json, content) in due {
            let incarnation = writer.incarnation.clone();
            let state = SessionState { machine, incarnation, seq: durable, session: json };
            let key = StateKey { machine, session: Some(session.clone()) };
            engine.put_state(&key, Some(&state.seal(&identity.keys))).await?;
            schedule.note(session, content, Instant::now());
        }
        for session in gone {
            let key = StateKey { machine, session: Some(session.clone()) };
            engine.put_state(&key, None).await?;
            schedule.remove(&session);
        }
        Ok(Some(pause_after(reading, begun.elapsed().saturating_sub(reading))))
    }

    /// The sessions that the engine has of this machine.
    fn known_of_self(&self) -> std::collections::BTreeSet<String> {
        let peers = self.peers.borrow();
        let own = peers.all().get(&self.options.identity.keys.machine());
        own.into_iter().flat_map(|own| own.sessions.keys().cloned()).collect()
    }

    /// Follows what the other machines put.
    async fn follow_peers(&self, mut engine: NatsEngine) {
        loop {
            match engine.watch().await {
                Ok(watched) => {
                    self.take_in(watched);
                    self.worked(PEERS, None).await;
                }
                Err(error) => self.worked(PEERS, Some(error)).await,
            }
        }
    }

    fn take_in(&self, watched: Watched) {
        let is_whole = watched.is_whole;
        let mut peers = self.peers.borrow_mut();
        let refused = peers.take_in(watched, boottime_ms());
        let mut views = self.views.borrow_mut();
        self.notices.note_changed(peers.changed(), is_whole);
        views.note(&mut peers);
        self.views_changed.notify_one();
        if is_whole {
            // A file that stays is shown with its age.
            let _kept = views.forget_others(&peers);
        }
        let mut status = self.status.borrow_mut();
        let n = u64::try_from(refused.len()).unwrap_or(u64::MAX);
        status.refused = status.refused.saturating_add(n);
        if let Some(last) = refused.last() {
            status.last_refusal = Some(last.to_string());
        }
        let own = peers.all().get(&self.options.identity.keys.machine());
        status.skew_ms = own.map(|own| own.skew_ms).or(status.skew_ms);
    }

    /// Sends messages and fates.
    async fn send(&self, mut engine: NatsEngine, connection: &Connection, mut news: News) {
        let mut carrier = Carrier::default();
        loop {
            if connection.status().is_up {
                let sealer = (&self.options.identity.keys, &self.options.writer.incarnation);
                let sent = {
                    let mut source = SharedSource(&self.source);
                    carrier.send(&mut engine, &mut source, sealer).await
                };
                match sent {
                    Ok(sending) => {
                        self.status.borrow_mut().durable = sending.durable;
                        self.durable.send_replace(sending.durable);
                        self.worked(SENDING, None).await;
                        if sending.is_any {
                            continue;
                        }
                        if !sending.is_all_durable {
                            sleep(BATCH_WAIT).await;
                            continue;
                        }
                    }
                    Err(CarryError::Engine(error)) => self.worked(SENDING, Some(error)).await,
                    Err(CarryError::Local(_)) => (),
                }
            }
            news.within(OUTBOX_PAUSE).await;
        }
    }

    /// Takes in messages and fates.
    async fn receive(&self, mut engine: NatsEngine) {
        let mut carrier = Carrier::default();
        let mut counted = 0;
        loop {
            let engine_ms = self.peers.borrow().engine_ms(boottime_ms());
            let received = {
                let mut source = SharedSource(&self.source);
                carrier.receive(&mut engine, &mut source, engine_ms).await
            };
            {
                let mut status = self.status.borrow_mut();
                let refused = carrier.refused.saturating_sub(counted);
                counted = carrier.refused;
                status.refused = status.refused.saturating_add(refused);
                if 0 < refused {
                    status.last_refusal.clone_from(&carrier.last_refusal);
                }
            }
            match received {
                Ok(_) => self.worked(RECEIVING, None).await,
                Err(CarryError::Engine(error)) => self.worked(RECEIVING, Some(error)).await,
                Err(CarryError::Local(_)) => sleep(ERROR_PAUSE).await,
            }
        }
    }

    /// Writes the files of other machines and the status.
    async fn write_files(&self) {
        let mut written = RelayStatus::default();
        loop {
            let begun = Instant::now();
            // What is not written now is written with the next change; people see how old a file is.
            let _kept = self.views.borrow_mut().write(&self.peers.borrow());
            let troubles = self.troubles.borrow().values().cloned().collect();
            let status = RelayStatus { troubles, ..self.status.borrow().clone() };
            if status != written {
                written = status.clone();
                let status = RelayStatus { at_ms: wall_ms(), ..status };
                if let Ok(text) = serde_json::to_vec(&status) {
                    let _kept = write_whole(&self.options.status, &text);
                }
            }
            sleep(share(begun.elapsed()).clamp(WRITE_PAUSE, WRITE_PAUSE_MAX)).await;
            let _nothing = timeout(STATUS_PAUSE, self.views_changed.notified()).await;
        }
    }
}

/// The parts of the relay, as people read of their troubles.
const PUBLISHING: &str = "publishing the journal";
const STATES: &str = "publishing sessions";
const PEERS: &str = "looking at other machines";
const SENDING: &str = "sending messages";
const RECEIVING: &str = "taking in messages";

/// This machine, borrowed for one call at a time.
struct SharedSource<'a, S>(&'a RefCell<S>);

impl<S: Source> coord_fleet::Local for SharedSource<'_, S> {
    fn outbox(
        &mut self,
        ask: &coord_wire::fleet::OutboxAsk,
    ) -> io::Result<coord_wire::fleet::Outbox> {
        self.0.borrow_mut().outbox(ask)
    }

    fn inbox(
        &mut self,
        item: &coord_wire::fleet::InboxItem,
    ) -> io::Result<coord_wire::fleet::InboxAnswer> {
        self.0.borrow_mut().inbox(item)
    }
}

impl<S: Source> coord_fleet::Journal for SharedSource<'_, S> {
    fn extent(&mut self) -> io::Result<coord_fleet::Extent> {
        self.0.borrow_mut().extent()
    }

    fn read(&mut self, from: u64, through: u64) -> io::Result<coord_fleet::Piece> {
        self.0.borrow_mut().read(from, through)
    }

    fn was_published(&self) -> bool {
        self.0.borrow().was_published()
    }

    fn follows(&self, other: &Incarnation) -> bool {
        self.0.borrow().follows(other)
    }

    fn note_published(&mut self, after: Option<&Incarnation>) -> io::Result<()> {
        self.0.borrow_mut().note_published(after)
    }

    fn edition(&mut self) -> io::Result<u64> {
        self.0.borrow_mut().edition()
    }
}

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    coord_store::now().wall_ms
}

/// CLOCK_BOOTTIME, milliseconds.
pub fn boottime_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let ms = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(ms)
}

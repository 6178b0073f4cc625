//! The coordinator without its sockets: records events, performs the effects that the core returns, and
//! keeps the store durable.
//!
//! Every change goes through `Coordinator::record` or `Coordinator::take_hook`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coord_config::Config;
use coord_core::{Admission, State, admit};
use coord_host::here::Here;
use coord_host::tmux::PaneWish;
use coord_model::{
    Action, Effect, Event, HookEvent, HookKind, MachineId, MessageId, Mode, NeedId, Now,
    ProcessRef, RequestId, Started, Tell,
};
use coord_store::{AppendError, Bodies, Disk, Reserve, Spool};
use coord_wire::limits::{RESERVE_FILE_BYTES, is_reserved};
use coord_wire::paths::Paths;

use crate::conditions::{Condition, Conditions};
use crate::engine::Engine;
use crate::intake::Pass;
use crate::messages::{Leaving, Offered};
use crate::metrics::Timings;
use crate::notices::Shown;
use crate::observe::Known;
use crate::passphrase::Unlocks;
use crate::reopen::Reopening;
use crate::requests::Requests;
use crate::schedule::Schedule;
use crate::share::{Arrival, Fate, Shares};
use crate::sync::SNAPSHOT_AGAIN_NS;
use crate::waiters::Waiters;
use crate::world::World;

/// Observations kept for the store while it refuses records; a user has a few hundred sessions.
const OWED_MAX: usize = 10_000;

/// The coordinator: the engine, the outside world, and the work that is pending between them.
pub struct Coordinator<W: World> {
    pub(crate) engine: Engine<W::Disk>,
    pub(crate) world: W,
    pub(crate) disk: W::Disk,
    pub(crate) paths: Paths,
    pub(crate) here: Here,
    pub(crate) config: Config,
    pub(crate) config_at_start: Config,
    /// A changed configuration that could not be recorded yet.
    pub(crate) config_waits: Option<Config>,
    /// When the configuration last changed, as wall time in milliseconds, and the keys that changed.
    pub(crate) config_changed: Option<(u64, Vec<String>)>,
    pub(crate) started: Now,
    pub(crate) schedule: Schedule,
    pub(crate) spool: Spool<W::Disk>,
    /// Problems to show to people.
    pub(crate) conditions: Conditions,
    /// The attempts to reopen the journal after a failed sync, if one failed.
    pub(crate) reopening: Option<Reopening>,
    /// The spool files that are being drained.
    pub(crate) pass: Option<Pass>,
    /// Drained spool files, each removed once the journal is synced up to its number.
    pub(crate) drained: Vec<(String, u64)>,
    /// Deaths to judge once the socket and the spool are empty (H-05).
    pub(crate) deaths: VecDeque<(ProcessRef, String)>,
    pub(crate) invariant_violations: u64,
    /// The entries of the client's registry as last read.
    pub(crate) known: Known,
    /// Panes to capture, together, at the end of this turn of the loop.
    pub(crate) panes: Vec<PaneWish>,
    /// Processes whose exit cannot be watched yet.
    unwatched: BTreeSet<ProcessRef>,
    /// Observations that the store has not accepted yet, oldest first.
    pub(crate) owed: VecDeque<Event>,
    /// Effects that are not performed yet, while `perform` runs.
    performing: Option<VecDeque<Effect>>,
    /// Actions that wait until the record of their decision is synced.
    pub(crate) acts: VecDeque<(u64, Action)>,
    /// Requests to channels that wait for the same.
    pub(crate) tells: VecDeque<(u64, Tell)>,
    /// What the channels are telling, in one line, and of which needs.
    pub(crate) telling: BTreeMap<(String, u64), (String, Vec<NeedId>)>,
    /// What the status lines of tmux show.
    pub(crate) shown: Shown,
    /// When the relay last said who tells of this machine's needs, in nanoseconds of CLOCK_MONOTONIC (F-02).
    pub(crate) notifier_heard_ns: u64,
    /// Digests of the needs of other machines as they were heard last.
    pub(crate) needs_heard: BTreeMap<MachineId, u64>,
    /// The user's home directory, which people see as `~`.
    pub(crate) home: String,
    /// The texts of messages.
    pub(crate) bodies: Bodies<W::Disk>,
    /// Messages whose texts are removed once the journal is synced up to the number.
    pub(crate) gone_bodies: Vec<(MessageId, u64)>,
    /// Configuration directories that are known before any hook names them.
    pub(crate) client_dirs: BTreeSet<String>,
    /// Key of the digests of message texts.
    pub(crate) text_key: [u8; 16],
    /// Wake hooks that wait for a message (H-02).
    pub(crate) waiters: Waiters,
    /// Hooks that wait for a person's reply to their request.
    pub(crate) requests: Requests,
    /// What the core offered to the hook that is being answered.
    pub(crate) offered: Option<Offered>,
    /// Messages for wake hooks; each is sent once the record of its leaving is durable.
    pub(crate) leaving: VecDeque<Leaving>,
    pub(crate) shares: Shares,
    /// The terminals on which the passphrase was given.
    pub(crate) unlocks: Unlocks,
    /// Events that were only counted, and whose number is not recorded yet.
    pub(crate) counted: u64,
    /// When their number is recorded, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) counted_at_ns: u64,
    reserve: Reserve<W::Disk>,
    is_full: bool,
    /// Since when records wait for a sync, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) unsynced_since: Option<u64>,
    pub(crate) sync_out: bool,
    pub(crate) timings: Timings,
    pub(crate) snapshot_out: bool,
    /// No snapshot is attempted before this time, in nanoseconds of CLOCK_MONOTONIC. `snapshot_delay_ns`
    /// is the delay after the next failure.
    pub(crate) snapshot_from_ns: u64,
    pub(crate) snapshot_delay_ns: u64,
}

/// Everything that a coordinator is built from.
pub struct Parts<W: World> {
    /// The outside world.
    pub world: W,
    /// The disk of the store.
    pub disk: W::Disk,
    /// The locations of the coordinator's files.
    pub paths: Paths,
    /// The machine, boot and namespaces in which it runs.
    pub here: Here,
    /// The configuration.
    pub config: Config,
    /// The opened store.
    pub engine: Engine<W::Disk>,
}

impl<W: World> Coordinator<W> {
    /// Builds the coordinator and records its start.
    ///
    /// # Errors
    /// The start could not be recorded.
    pub fn start(parts: Parts<W>, now: Now) -> anyhow::Result<Self> {
        let Parts { world, disk, paths, here, config, engine } = parts;
        let mut coordinator = Self {
            engine,
            world,
            started: now,
            schedule: Schedule::new(now),
            spool: Spool::new(disk.clone(), &paths.spool()),
            conditions: Conditions::default(),
            reopening: None,
            pass: None,
            drained: Vec::new(),
            deaths: VecDeque::new(),
            invariant_violations: 0,
            known: Known::default(),
            panes: Vec::new(),
            unwatched: BTreeSet::new(),
            owed: VecDeque::new(),
            performing: None,
            acts: VecDeque::new(),
            tells: VecDeque::new(),
            telling: BTreeMap::new(),
            shown: Shown::default(),
            notifier_heard_ns: now.mono_ns,
            needs_heard: BTreeMap::new(),
            home: std::env::var("HOME").unwrap_or_default(),
            bodies: Bodies::new(disk.clone(), &paths.messages()),
            gone_bodies: Vec::new(),
            client_dirs: BTreeSet::new(),
            text_key: text_key(&disk, &paths),
            waiters: Waiters::default(),
            requests: Requests::default(),
            offered: None,
            leaving: VecDeque::new(),
            shares: Shares::new(config.store.tool_events_per_minute.0),
            unlocks: Unlocks::default(),
            counted: 0,
            counted_at_ns: 0,
            reserve: Reserve::new(disk.clone(), &paths.state, RESERVE_FILE_BYTES),
            is_full: false,
            unsynced_since: None,
            sync_out: false,
            timings: Timings::default(),
            snapshot_out: false,
            snapshot_from_ns: 0,
            snapshot_delay_ns: SNAPSHOT_AGAIN_NS,
            disk,
            paths,
            here,
            config_at_start: config.clone(),
            config_waits: None,
            config_changed: None,
            config,
        };
        coordinator.restore_reserve();
        let started = Event::Started(Box::new(Started {
            version: coord_wire::VERSION.to_owned(),
            host: coordinator.here.for_core(),
            settings: coordinator.config.settings(),
        }));
        coordinator.record(&started, now)?;
        coordinator.sweep_bodies();
        Ok(coordinator)
    }

    /// Records an event and performs the effects that follow from it.
    pub(crate) fn record(&mut self, event: &Event, now: Now) -> Result<(), AppendError> {
        let is_expendable = matches!(event, Event::Hook(hook) if !is_reserved(hook.kind.name()));
        let effects = match self.engine.record(event, now) {
            Err(error) if self.note_refused(&error) && !is_expendable && self.release_reserve() => {
                self.engine.record(event, now)?
            }
            result => result?,
        };
        self.mark_unsynced(now);
        self.perform(effects, now);
        Ok(())
    }

    /// Accepts one event of a hook. While the disk is full, only turn edges are recorded (H-29).
    pub(crate) fn take_hook(&mut self, event: HookEvent, now: Now) -> Result<(), AppendError> {
        if self.engine.is_duplicate(&event) {
            return Ok(());
        }
        if self.engine.state().is_old_usage(&event, now) {
            return Ok(());
        }
        match self.shares.take(Arrival::of(&event), now.mono_ns) {
            Fate::Kept => (),
            Fate::Named => {
                let name = event.kind.name().to_owned();
                let HookEvent { session_id, id, .. } = event;
                return self.record(&Event::Folded { session_id, event: name, id }, now);
            }
            Fate::Counted => {
                self.count();
                return Ok(());
            }
        }
        if matches!(event.kind, HookKind::SessionEnd(_)) {
            self.look_for_shutdown(now);
        }
        let asked = (event.kind == HookKind::PermissionRequest).then_some(RequestId(event.id));
        let id = event.session_id.clone();
        self.record(&Event::Hook(Box::new(event)), now)?;
        if let Some(request) = asked {
            self.await_hidden_hook(&id, request, now);
        }
        Ok(())
    }

    /// The state of the core.
    pub fn state(&self) -> &State {
        self.engine.state()
    }

    /// Invariants of the core found violated since the start; 0 unless the core has a bug.
    pub fn invariant_violations(&self) -> u64 {
        self.invariant_violations
    }

    /// The last record that is durable.
    pub fn synced_through(&self) -> u64 {
        self.engine.journal().synced_through()
    }

    /// Whether the journal is read-only after a failed sync: no record is accepted until it is reopened.
    pub fn is_read_only(&self) -> bool {
        self.engine.journal().is_read_only()
    }

    /// Handles the exit of a watched process.
    pub fn on_exit(&mut self, process: ProcessRef, now: Now) {
        let entry = Event::ProcessExited { process };
        if self.owed.is_empty() && self.record_or_say(&entry, now) {
            return;
        }
        // Once the exit is recorded later, the time of death is no longer known.
        self.owe(Event::ProcessSeen(self.world.seen(process, false)));
    }

    /// Judges the pending deaths, after the caller has emptied the socket and the spool (H-05).
    pub(crate) fn judge_deaths(&mut self) {
        while let Some((process, config_dir)) = self.deaths.pop_front() {
            self.read_registry(process, config_dir, true);
        }
    }

    /// Meets the core's deadlines: records the passing of time if a record is due, and requests captures
    /// that are due.
    pub(crate) fn tick(&mut self, now: Now) -> Result<(), AppendError> {
        if self.engine.state().is_due(now) {
            return self.record(&Event::Due, now);
        }
        let effects = self.engine.tick(now);
        self.perform(effects, now);
        Ok(())
    }

    /// Records what cannot be observed a second time. If the store refuses it, it is kept, and recorded
    /// later: in order, and before newer observations of this kind.
    pub(crate) fn record_or_owe(&mut self, entry: Event, now: Now) {
        if self.owed.is_empty() && self.record_or_say(&entry, now) {
            return;
        }
        self.owe(entry);
    }

    fn owe(&mut self, entry: Event) {
        if self.owed.len() < OWED_MAX {
            self.owed.push_back(entry);
        }
    }

    /// Records the pending observations, as far as the store accepts them. Returns true if none is left.
    pub(crate) fn pay(&mut self, now: Now) -> bool {
        while let Some(entry) = self.owed.pop_front() {
            if !self.record_or_say(&entry, now) {
                self.owed.push_front(entry);
                return false;
            }
        }
        true
    }

    /// Records an event whose result nobody waits for. A failure is logged and shown to people. Returns
    /// whether the event was recorded.
    pub(crate) fn record_or_say(&mut self, entry: &Event, now: Now) -> bool {
        let result = self.record(entry, now);
        if let Err(error) = &result {
            tracing::error!(%error, "not recorded");
        }
        result.is_ok()
    }

    /// Performs effects in the order in which the core returned them. Effects that follow from one of
    /// them are performed after those that were returned before.
    fn perform(&mut self, effects: Vec<Effect>, now: Now) {
        if let Some(asked) = &mut self.performing {
            return asked.extend(effects);
        }
        self.performing = Some(effects.into());
        while let Some(effect) = self.performing.as_mut().and_then(VecDeque::pop_front) {
            match (admit(self.mode(), &effect), effect) {
                (Admission::Perform, effect) => self.perform_one(effect, now),
                (Admission::RecordOnly, Effect::Act(action)) => self.observe_action(&action, now),
                (Admission::RecordOnly, effect) => tracing::info!(?effect, "not performed"),
            }
        }
        self.performing = None;
    }

    /// The mode from `recovery.mode`.
    pub(crate) fn mode(&self) -> Mode {
        self.config.mode()
    }

    fn perform_one(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::WatchProcess { process } => self.watch(process, now),
            Effect::ReadRegistry { process, config_dir, after_death: true } => {
                self.deaths.push_back((process, config_dir));
            }
            Effect::ReadRegistry { process, config_dir, after_death: false } => {
                self.read_registry(process, config_dir, false);
            }
            Effect::WatchRegistry { config_dir } => {
                self.watch_registry(&config_dir);
            }
            Effect::CapturePane { process, pane, proof, look } => {
                self.panes.push(PaneWish { process, pane, proof, look });
            }
            Effect::ReadTranscript { process, path, config_dir } => {
                self.watch_transcript(process, path, config_dir, now);
            }
            Effect::RemoveBody { message } => {
                let seq = self.engine.journal().next_seq().saturating_sub(1);
                self.gone_bodies.push((message, seq));
            }
            Effect::ReadTask { dir } => self.world.read_task(dir),
            Effect::LookAtWork { session, dir } => self.world.look_at_work(session, dir),
            Effect::Offer { event, session, delivery } => {
                self.offered = Some(Offered::new(event, session, delivery));
            }
            Effect::SeekMessages { session } => self.seek_messages(session),
            Effect::SeekLast { message } => self.seek_last(message),
            Effect::SeekDecisions { session } => self.seek_decisions(session),
            Effect::HandReply { session, request, .. } => self.hand_later(session, request),
            Effect::SendNotice { to, about, name, text } => {
                self.send_notice(to, (about, name), &text, now);
            }
            Effect::Tell(tell) => self.tell_later(*tell),
            Effect::LookForPresence { need, pane } => self.world.look_for_presence(need, pane),
            Effect::Act(action) => self.perform_action(*action),
            Effect::LockConfigDir { config_dir } => {
                let held = self.world.lock_config_dir(&config_dir);
                self.record_or_owe(Event::ConfigDirLock { config_dir, held }, now);
            }
        }
    }

    /// Watches a process, and records whether it is alive. If it cannot be watched, the attempt is
    /// repeated at every heartbeat.
    fn watch(&mut self, process: ProcessRef, now: Now) {
        let alive = match self.world.watch_process(process) {
            Ok(alive) => {
                self.unwatched.remove(&process);
                alive
            }
            Err(error) => {
                let is_first = self.unwatched.insert(process);
                self.show_unwatched(Some(&error));
                let alive = self.world.is_alive(process);
                if alive && !is_first {
                    return;
                }
                alive
            }
        };
        if !alive {
            self.unwatched.remove(&process);
        }
        self.show_unwatched(None);
        let seen = self.world.seen(process, alive);
        self.record_or_owe(Event::ProcessSeen(seen), now);
    }

    fn show_unwatched(&mut self, error: Option<&std::io::Error>) {
        match (self.unwatched.len(), error) {
            (0, _) => self.conditions.clear(Condition::Unwatched),
            (n, Some(error)) => {
                let text = format!(
                    "coord cannot watch the ends of {n} clients ({error}) and checks them every 5 s instead"
                );
                self.conditions.raise(Condition::Unwatched, text);
            }
            (_, None) => (),
        }
    }

    /// Tries again to watch the processes whose exit cannot be watched yet.
    pub(crate) fn watch_unwatched(&mut self, now: Now) {
        for process in self.unwatched.clone() {
            self.watch(process, now);
        }
    }

    fn mark_unsynced(&mut self, now: Now) {
        self.conditions.clear(Condition::Append);
        self.unsynced_since.get_or_insert(now.mono_ns);
    }

    /// Shows people why a record was refused. Returns whether the reason was lack of space.
    fn note_refused(&mut self, error: &AppendError) -> bool {
        match error {
            AppendError::Full { .. } => {
                self.is_full = true;
                self.conditions.raise(Condition::DiskFull, FULL);
                true
            }
            AppendError::Failed { source, .. } => {
                self.conditions.raise(Condition::Append, format!("{error}: {source}"));
                false
            }
            // Read-only: shown for as long as it lasts, by the condition of the reopening.
            AppendError::ReadOnly { .. } | _ => false,
        }
    }

    /// Releases the reserve. Returns true if there was one.
    fn release_reserve(&self) -> bool {
        self.reserve.release().unwrap_or(false)
    }

    /// Recreates the reserve once there is room. A reserve that was never released does not prove that
    /// there is room.
    pub(crate) fn restore_reserve(&mut self) {
        let free = || self.disk.free(&self.paths.state).unwrap_or(0);
        let has_room = !self.is_full || RESERVE_FILE_BYTES <= free();
        if has_room && let Ok(true) = self.reserve.restore() {
            self.is_full = false;
            self.conditions.clear(Condition::DiskFull);
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the passing of time is recorded.
    ///
    /// It is not while the disk is full or the journal has to be reopened. What time alone would change
    /// does not happen then.
    pub(crate) fn is_time_recorded(&self) -> bool {
        !self.is_full && !self.is_read_only()
    }

    /// Whether an event may be written now: while the disk is full, only turn edges may.
    pub(crate) fn has_room_for(&self, event: &str) -> bool {
        !self.is_full || is_reserved(event)
    }
}

const FULL: &str =
    "the disk is full: only the starts and ends of turns are recorded; free some space";

/// Reads the key of the digests of texts; hooks use the same key for the texts that they see.
///
/// Without a key file the key is zero: texts are still told apart, but others can search for their
/// digests.
fn text_key(disk: &impl Disk, paths: &Paths) -> [u8; 16] {
    disk.read(&paths.digest_key(), 16).ok().and_then(|key| key.try_into().ok()).unwrap_or_default()
}

/// The name of a mode in the configuration.
pub(crate) fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Observe => "observe",
        Mode::Signature => "signature",
        Mode::Act => "act",
    }
}

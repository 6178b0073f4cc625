//! Observes what no hook reports: entries of the client's registry, stopped processes, panes and
//! transcripts. Records what is new; concludes nothing.

use std::collections::BTreeMap;

use coord_core::{Session, is_failure_open, is_in_doubt, is_signature_open};
use coord_host::observer::Seen;
use coord_host::registry::{self, Change, Found};
use coord_host::registry_reader::{Purpose, RegistrySeen, RegistryWish};
use coord_host::tmux::PaneAnswer;
use coord_host::transcript::TranscriptWish;
use coord_model::{
    Domain, Event, Failure, Kind, Now, ProcessRef, ProcessSeen, Registry, SessionKey, TaskFound,
    Work,
};
use coord_wire::paths::MADE_UP_ID;

use crate::coordinator::Coordinator;
use crate::world::World;

/// By this time, in milliseconds, what a screen showed is in the transcript.
const TRANSCRIPT_LAG_MS: u64 = 30_000;

/// Most registry entries remembered; a user has a few hundred sessions.
const ENTRIES_MAX: usize = 10_000;

/// The entries of the client's registry as last read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    entries: BTreeMap<Change, Found>,
}

impl Known {
    /// Whether an entry differs from the last time it was read.
    fn is_news(&mut self, change: &Change, found: &Found) -> bool {
        if self.entries.get(change) == Some(found) {
            return false;
        }
        if self.entries.len() < ENTRIES_MAX {
            self.entries.insert(change.clone(), found.clone());
        }
        true
    }

    /// The processes of this machine that have a registry entry.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessRef> {
        let here = self.entries.values().filter(|found| found.domain.is_none());
        here.map(|found| found.process)
    }
}

impl<W: World> Coordinator<W> {
    /// Handles changes that the registry watches reported.
    pub fn on_registry_changes(&mut self) {
        let changes = self.world.registry_changes();
        self.read_changes(changes);
        self.forget_missing();
    }

    /// Has the entries read again whose directory is gone: they no longer support anything.
    fn forget_missing(&mut self) {
        let missing = self.world.missing_registries();
        if missing.is_empty() {
            return;
        }
        let known = self.known.entries.keys().filter(|(dir, _)| missing.contains(dir));
        let changes: Vec<Change> = known.cloned().collect();
        self.read_changes(changes);
    }

    /// Watches the registry of a configuration directory that is known before any hook names it.
    pub fn know_config_dir(&mut self, config_dir: &str) {
        self.client_dirs.insert(config_dir.to_owned());
        self.watch_registry(config_dir);
    }

    /// Watches the registry of a configuration directory, and has its present entries read.
    pub(crate) fn watch_registry(&mut self, config_dir: &str) {
        let changes = self.world.watch_registry(config_dir);
        self.read_changes(changes);
    }

    /// Tries again to watch the registries that were missing.
    pub(crate) fn look_for_registries(&mut self) {
        let changes = self.world.retry_registries();
        self.read_changes(changes);
        self.forget_missing();
    }

    /// Requests a read of entries that may have changed.
    fn read_changes(&mut self, changes: Vec<Change>) {
        let wish = |entry| RegistryWish { entry, purpose: Purpose::Change, is_again: false };
        self.world.read_registry(changes.into_iter().map(wish).collect());
    }

    /// Requests a read of a process's registry entry.
    pub(crate) fn read_registry(
        &mut self,
        process: ProcessRef,
        config_dir: String,
        after_death: bool,
    ) {
        let entry = (config_dir, process.pid);
        let purpose = Purpose::Process { process, after_death };
        self.world.read_registry(vec![RegistryWish { entry, purpose, is_again: false }]);
    }

    fn on_registry_seen(&mut self, seen: RegistrySeen, now: Now) {
        let is_old = seen.is_old(now.mono_ns);
        let RegistrySeen { wish, found, .. } = seen;
        if is_old {
            return self.world.read_registry(vec![RegistryWish { is_again: true, ..wish }]);
        }
        match wish.purpose {
            Purpose::Change => self.on_change(&wish.entry, found, now),
            Purpose::Process { process, after_death } => {
                let mut entry = registry::of_process(found, process);
                self.note_unrecognized_in(&mut entry, process);
                let read = Event::RegistryRead { process, found: entry, after_death, domain: None };
                self.record_or_owe(read, now);
            }
        }
    }

    /// Handles a read of an entry that may have changed. An entry that is being written is left until
    /// its next change.
    fn on_change(&mut self, change: &Change, found: Result<Found, Box<Registry>>, now: Now) {
        match found {
            Ok(found) => self.on_entry(change, found, now),
            Err(instead) if !matches!(*instead, Registry::Strange { .. }) => {
                if let Some(found) = self.known.entries.remove(change) {
                    self.record_entry(Found { entry: *instead, ..found }, now);
                }
            }
            Err(instead) => tracing::debug!(?instead, "registry"),
        }
    }

    /// Records an entry that is new and counts.
    ///
    /// Entries remain after their client was killed, and after a reboot, so an entry counts only if its
    /// process is alive. Whether a process on another machine or in another pid namespace is alive
    /// cannot be determined (H-15).
    fn on_entry(&mut self, change: &Change, mut found: Found, now: Now) {
        let is_alive = self.world.is_alive(found.process);
        // Where the machine has no id, the client makes up a different one than coord does.
        let has_no_id = self.here.machine.starts_with(MADE_UP_ID);
        let is_here = |domain: &Domain| {
            let is_machine = domain.machine == self.here.machine || has_no_id || is_alive;
            domain.pid_ns == self.here.pid_ns && is_machine
        };
        found.domain = found.domain.filter(|domain| !is_here(domain));
        self.note_unrecognized_in(&mut found.entry, found.process);
        let counts = found.domain.is_some() || (is_alive && self.is_its_own(&found));
        if counts && self.known.is_news(change, &found) {
            self.record_entry(found, now);
        }
    }

    /// Notes in a living process's entry whether its program is not recognized as a client.
    fn note_unrecognized_in(&self, entry: &mut Registry, process: ProcessRef) {
        if let Registry::Present(entry) = entry {
            entry.is_unrecognized =
                self.world.is_alive(process) && self.world.recognize(process).is_err();
        }
    }

    /// Whether a living process may hold the session that its entry names.
    fn is_its_own(&self, found: &Found) -> bool {
        let Registry::Present(entry) = &found.entry else { return true };
        self.may_hold(found.process, &entry.session_id, !entry.is_unrecognized)
    }

    fn record_entry(&mut self, found: Found, now: Now) {
        let Found { process, domain, entry } = found;
        let read = Event::RegistryRead { process, found: entry, after_death: false, domain };
        self.record_or_owe(read, now);
    }

    /// Sends the capture requests of this turn of the loop.
    pub(crate) fn look_at_panes(&mut self) {
        if !self.panes.is_empty() {
            let wishes = std::mem::take(&mut self.panes);
            self.world.look_at_panes(wishes);
        }
    }

    /// Watches a transcript, and reads its end if it was not watched before or a question about it is
    /// open.
    pub(crate) fn watch_transcript(
        &mut self,
        process: ProcessRef,
        path: String,
        config_dir: String,
        now: Now,
    ) {
        let awake = self.engine.state().moment(now).awake;
        let is_open = self
            .session_of(process)
            .is_some_and(|session| is_signature_open(session) || is_failure_open(session, awake));
        if self.world.watch_transcript(process, &path) || is_open {
            self.read_transcript(process, path, config_dir);
        }
    }

    fn read_transcript(&mut self, process: ProcessRef, path: String, config_dir: String) {
        let named = self.session_of(process).and_then(|session| session.signature.as_ref());
        let signature = named.map(|signature| signature.name.clone());
        self.world.read_transcript(TranscriptWish { process, path, config_dir, signature });
    }

    /// Handles changed transcripts: reads those that can answer an open question, and stops watching the
    /// others.
    pub fn on_transcript_changes(&mut self, now: Now) {
        for process in self.world.transcript_changes() {
            let awake = self.engine.state().moment(now).awake;
            let is_wanted =
                |session: &&Session| is_in_doubt(session) || is_failure_open(session, awake);
            let key = self.session_of(process).map(|session| session.key);
            let is_sought = key.is_some_and(|key| self.seeks_messages(key));
            if let Some(key) = key.filter(|_| is_sought) {
                self.seek_messages(key);
            }
            let is_awaited = key.is_some_and(|key| self.seeks_decisions(key));
            if let Some(key) = key.filter(|_| is_awaited) {
                self.seek_decisions(key);
            }
            let session = self.session_of(process).filter(is_wanted);
            let of = session.map(|one| (one.transcript_path.clone(), one.config_dir.clone()));
            match of {
                Some((path, config_dir)) => self.read_transcript(process, path, config_dir),
                None if is_sought || is_awaited => (),
                None => self.world.forget_transcript(process),
            }
        }
    }

    /// Records an observation if it is new.
    pub(crate) fn on_seen(&mut self, seen: Seen, now: Now) {
        match seen {
            Seen::Pane(PaneAnswer { process, pane, looked_ns, after_death }) => {
                let awake = self.engine.state().moment(now).awake;
                let is_news = self.session_of(process).is_some_and(|session| {
                    after_death || self.engine.state().is_news(session, &pane, awake)
                });
                if is_news {
                    let seen = Event::PaneSeen { process, found: pane, looked_ns, after_death };
                    self.record_or_say(&seen, now);
                }
            }
            Seen::Registry(seen) => self.on_registry_seen(seen, now),
            Seen::Task { dir, found } => self.on_task_seen(dir, found, now),
            Seen::Work { session, work } => self.on_work_seen(session, work, now),
            Seen::Decisions { session, decided } => self.on_decisions_seen(session, &decided, now),
            Seen::Messages { arrived, missed } => self.on_messages_seen(&arrived, &missed, now),
            Seen::Transcript { process, interrupted_ms, signature, failure } => {
                let has_signature = self.has_signature(process, signature.is_some(), now);
                let failure = failure.filter(|failure| self.is_failure_news(process, failure, now));
                if interrupted_ms.is_some() || has_signature.is_some() || failure.is_some() {
                    let read =
                        Event::TranscriptRead { process, interrupted_ms, has_signature, failure };
                    self.record_or_say(&read, now);
                }
            }
        }
    }

    /// Records what is new in a task directory.
    fn on_task_seen(&mut self, dir: String, found: TaskFound, now: Now) {
        if self.engine.state().is_task_news(&dir, &found) {
            self.record_or_say(&Event::TaskRead { dir, found }, now);
        }
    }

    /// Records what a look at a repository found, if anything waits for it still.
    fn on_work_seen(&mut self, session: SessionKey, work: Box<Work>, now: Now) {
        let record = self.engine.state().session(session);
        let Some(record) = record.filter(|one| one.work.is_requested()) else {
            return;
        };
        let session_id = record.session_id.clone();
        self.record_or_say(&Event::WorkSeen { session_id, session, work }, now);
    }

    /// Whether the crash signature on a session's screen is text of its conversation. The transcript
    /// lags behind the screen, so its absence from the transcript counts only after
    /// [`TRANSCRIPT_LAG_MS`].
    fn has_signature(&self, process: ProcessRef, is_found: bool, now: Now) -> Option<bool> {
        let session = self.session_of(process).filter(|session| is_signature_open(session))?;
        let awake = self.engine.state().moment(now).awake;
        let age_ms = session.signature.as_ref().map(|seen| awake.ms_since(seen.at.awake))?;
        (is_found || TRANSCRIPT_LAG_MS < age_ms).then_some(is_found)
    }

    /// Whether this error is new: it ended a turn whose end no hook reported, or it tells when a
    /// reported limit resets.
    fn is_failure_news(&self, process: ProcessRef, failure: &Failure, now: Now) -> bool {
        let awake = self.engine.state().moment(now).awake;
        let session = self.session_of(process).filter(|one| is_failure_open(one, awake));
        session.is_some_and(|one| one.failure.is_none() || failure.resets_ms.is_some())
    }

    fn session_of(&self, process: ProcessRef) -> Option<&Session> {
        self.engine.state().session_of(process)
    }

    /// Checks whether the machine is being shut down (H-10). This runs at every heartbeat, and before
    /// the end of a session is recorded.
    pub(crate) fn look_for_shutdown(&mut self, now: Now) {
        let under_way = self.world.is_shutting_down(now.wall_ms);
        if under_way != self.engine.state().header().shutdown.is_some() {
            self.record_or_say(&Event::Shutdown { under_way }, now);
        }
    }

    /// Checks whether watched interactive harnesses were stopped or continued; no source reports it.
    pub(crate) fn look_for_stopped(&mut self, now: Now) {
        let sessions = self.engine.state().sessions();
        let changed: Vec<ProcessSeen> =
            sessions.filter_map(|session| stopped_or_not(session, &self.world)).collect();
        for seen in changed {
            self.record_or_say(&Event::ProcessSeen(seen), now);
        }
    }
}

/// The observation to record if a session's process was stopped or continued.
fn stopped_or_not(session: &Session, world: &impl World) -> Option<ProcessSeen> {
    let owner = session.owner.as_ref()?;
    let is_watched = session.may_live() && matches!(owner.seen_alive, Some((true, _)));
    if !is_watched || session.kind == Some(Kind::Headless) {
        return None;
    }
    let process = owner.id.process;
    let is_stopped = world.is_stopped(process)?;
    let is_news = is_stopped != owner.is_stopped;
    is_news.then(|| ProcessSeen { is_stopped, ..world.seen(process, true) })
}

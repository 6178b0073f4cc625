//! Looks at what nobody reports: entries of the client's registry, processes that were stopped, panes
//! and transcripts. Records what is news; concludes nothing.

use coord_core::{Kind, Now, Session, is_in_doubt, is_news, is_signature_open};
use coord_store::Disk;
use coord_wire::journal::{Domain, Entry, ProcessSeen, RegistryEntry};
use coord_wire::paths::MADE_UP_ID;
use coord_wire::stamp::ProcessRef;

use crate::convert::{pane_found, process_ref, wire_process};
use crate::coordinator::Coordinator;
use crate::looker::Seen;
use crate::registry::Found;
use crate::registry_watch::Change;
use crate::tmux::PaneAnswer;
use crate::transcript::TranscriptWish;
use crate::{process, registry};

/// What a screen showed stands in the transcript after this at the latest.
const TRANSCRIPT_LAG_MS: u64 = 30_000;

impl<D: Disk> Coordinator<D> {
    /// The registry reported changes.
    pub(crate) fn on_registry_changes(&mut self, now: Now) {
        let changes = self.registry_watch.take();
        self.read_changes(changes, now);
    }

    /// Watches the registries of directories that are known from the start.
    pub(crate) fn watch_registries(&mut self, config_dirs: &[std::path::PathBuf], now: Now) {
        for config_dir in config_dirs {
            let changes = self.registry_watch.add(&self.readable, &config_dir.to_string_lossy());
            self.read_changes(changes, now);
        }
    }

    /// Tries registries that were not there.
    pub(crate) fn look_for_registries(&mut self, now: Now) {
        let changes = self.registry_watch.try_again(&self.readable);
        self.read_changes(changes, now);
    }

    /// Reads entries that may have changed. One that is being written is left for its next change.
    pub(crate) fn read_changes(&mut self, changes: Vec<Change>, now: Now) {
        for change in changes {
            match registry::read_pid(&self.readable, change.0.as_ref(), change.1) {
                Ok(found) => self.on_entry(&change, found, now),
                Err(instead) if *instead == RegistryEntry::Absent => {
                    if let Some(found) = self.registry_watch.forget(&change) {
                        self.record_entry(Found { entry: RegistryEntry::Absent, ..found }, now);
                    }
                }
                Err(instead) => tracing::debug!(?instead, "registry"),
            }
        }
    }

    /// Entries outlive their clients after a kill, and the machine: only a living process's counts.
    /// One that lives elsewhere cannot be looked at (H-15).
    fn on_entry(&mut self, change: &Change, mut found: Found, now: Now) {
        let is_alive = process::is_alive(found.process);
        // The client makes up another id than ours where the machine has none.
        let has_no_id = self.here.machine.starts_with(MADE_UP_ID);
        let is_here = |domain: &Domain| {
            let is_machine = domain.machine == self.here.machine || has_no_id || is_alive;
            domain.pid_ns == self.here.pid_ns && is_machine
        };
        found.domain = found.domain.filter(|domain| !is_here(domain));
        let counts = found.domain.is_some() || is_alive;
        if counts && self.registry_watch.is_news(change, &found) {
            self.record_entry(found, now);
        }
    }

    fn record_entry(&mut self, found: Found, now: Now) {
        let Found { process, domain, entry } = found;
        let read = Entry::RegistryRead { process, entry, after_death: false, domain };
        self.record_or_say(&read, now);
    }

    /// Sends the looks at panes off that were asked for in this turn of the loop.
    pub(crate) fn look_at_panes(&mut self) {
        if !self.panes.is_empty() {
            self.looker.look_at_panes(std::mem::take(&mut self.panes));
        }
    }

    /// Watches a transcript, and reads its end if nobody has.
    pub(crate) fn watch_transcript(
        &mut self,
        process: ProcessRef,
        path: String,
        config_dir: String,
    ) {
        let is_open = self.session_of(process).is_some_and(is_signature_open);
        if self.transcript_watch.add(process, path.as_ref()) || is_open {
            self.read_transcript(process, path, config_dir);
        }
    }

    fn read_transcript(&mut self, process: ProcessRef, path: String, config_dir: String) {
        let named = self.session_of(process).and_then(|session| session.signature.as_ref());
        let signature = named.map(|signature| signature.name.clone());
        self.looker.read_transcript(TranscriptWish { process, path, config_dir, signature });
    }

    /// Transcripts changed: those of sessions in doubt are read.
    pub(crate) fn on_transcript_changes(&mut self) {
        for process in self.transcript_watch.take() {
            let session = self.session_of(process).filter(|session| is_in_doubt(session));
            let of = session.map(|one| (one.transcript_path.clone(), one.config_dir.clone()));
            match of {
                Some((path, config_dir)) => self.read_transcript(process, path, config_dir),
                None => self.transcript_watch.remove(process),
            }
        }
    }

    /// Records what the looking thread saw, as far as it is news.
    pub(crate) fn take_seen(&mut self, now: Now) {
        while let Some(seen) = self.looker.take() {
            match seen {
                Seen::Pane(PaneAnswer { process, pane, looked_ns, after_death }) => {
                    let awake = self.engine.state().moment(now).awake;
                    let is_news = self.session_of(process).is_some_and(|session| {
                        after_death || is_news(session, &pane_found(&pane), awake)
                    });
                    if is_news {
                        let seen = Entry::PaneSeen { process, pane, looked_ns, after_death };
                        self.record_or_say(&seen, now);
                    }
                }
                Seen::Transcript { process, interrupted_ms, signature } => {
                    let has_signature = self.has_signature(process, signature.is_some(), now);
                    if interrupted_ms.is_some() || has_signature.is_some() {
                        let read = Entry::TranscriptRead { process, interrupted_ms, has_signature };
                        self.record_or_say(&read, now);
                    }
                }
            }
        }
    }

    /// Whether the crash signature of a session is content of its conversation. The transcript lags
    /// behind the screen: that it is not there counts only after a while.
    fn has_signature(&self, process: ProcessRef, is_found: bool, now: Now) -> Option<bool> {
        let session = self.session_of(process).filter(|session| is_signature_open(session))?;
        let awake = self.engine.state().moment(now).awake;
        let age_ms = session.signature.as_ref().map(|seen| awake.ms_since(seen.at.awake))?;
        (is_found || TRANSCRIPT_LAG_MS < age_ms).then_some(is_found)
    }

    fn session_of(&self, process: ProcessRef) -> Option<&Session> {
        self.engine.state().session_of(process_ref(process))
    }

    /// Looks whether watched interactive harnesses were stopped or go on: no source reports it.
    pub(crate) fn look_for_stopped(&mut self, now: Now) {
        let changed: Vec<ProcessSeen> =
            self.engine.state().sessions().filter_map(stopped_or_not).collect();
        for seen in changed {
            self.record_or_say(&Entry::ProcessSeen(seen), now);
        }
    }
}

/// The news of a session's process, if it was stopped or goes on.
fn stopped_or_not(session: &Session) -> Option<ProcessSeen> {
    let owner = session.owner.as_ref()?;
    let is_watched = session.may_live() && matches!(owner.seen_alive, Some((true, _)));
    if !is_watched || session.kind == Some(Kind::Headless) {
        return None;
    }
    let process = wire_process(owner.id.process);
    let stat = process::stat(process.pid).filter(|stat| stat.start_time == process.start_time)?;
    let is_news = stat.is_stopped != owner.is_stopped;
    is_news.then(|| ProcessSeen { stopped: stat.is_stopped, ..process::seen(process, true) })
}

//! Looks at what nobody reports: entries of the client's registry, and processes that were stopped
//! . Records what is news; concludes nothing.

use coord_core::{Kind, Now, Session};
use coord_store::Disk;
use coord_wire::journal::{Entry, ProcessSeen, RegistryEntry};
use coord_wire::stamp::ProcessRef;

use crate::convert::wire_process;
use crate::coordinator::Coordinator;
use crate::registry_watch::Change;
use crate::{process, registry};

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
                Ok((process, entry)) => self.on_entry(&change, process, entry, now),
                Err(instead) if *instead == RegistryEntry::Absent => {
                    if let Some(process) = self.registry_watch.forget(&change) {
                        self.record_entry(process, RegistryEntry::Absent, now);
                    }
                }
                Err(instead) => tracing::debug!(?instead, "registry"),
            }
        }
    }

    /// Entries outlive their clients after a kill, and the machine: only a living process's counts.
    fn on_entry(&mut self, change: &Change, process: ProcessRef, entry: RegistryEntry, now: Now) {
        if process::is_alive(process) && self.registry_watch.is_news(change, process, &entry) {
            self.record_entry(process, entry, now);
        }
    }

    fn record_entry(&mut self, process: ProcessRef, entry: RegistryEntry, now: Now) {
        self.record_or_say(&Entry::RegistryRead { process, entry, after_death: false }, now);
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

//! What clients leave on the simulated machine: registry entries, screens, transcripts.

use coord_model::Screen;
use serde_json::{Value, json};

use crate::host_events::HostFault;
use crate::living::Running;
use crate::machine::{MACHINE, PID_NS};
use crate::serving::CONFIG_DIR;
use crate::simulation::{MS, Simulation, What};

/// What a registry entry calls the client's version.
const CLIENT: &str = "2.1.328";

impl Simulation {
    pub(crate) fn write_registry(&mut self, place: usize) {
        if self.time < self.registry_stale_until {
            return;
        }
        let changed = self.now().wall_ms;
        let Some(one) = self.running(place).filter(|one| one.is_registered) else { return };
        let (process, text) = (one.process, registry_text(one, changed));
        self.machine.get().write_registry(CONFIG_DIR, process.pid, Some(text));
        let boot = self.boot();
        let is_there =
            self.machine.get().registries.get(CONFIG_DIR).is_some_and(|one| one.is_there);
        if let Some(life) = self.lives.get_mut(&(boot, process)).filter(|_| is_there) {
            life.lost_entry = false;
        }
    }

    /// An entry that is cut off, of another process, or of another's session.
    pub(crate) fn write_odd_registry(&mut self) {
        let (place, other) =
            (self.random.index(self.places.len()), self.random.index(self.places.len()));
        let changed = self.now().wall_ms;
        let Some(one) = self.running(place).filter(|one| one.is_registered) else { return };
        let (process, text) = (one.process, registry_text(one, changed));
        let theirs = self.running(other).map(|one| registry_text(one, changed));
        let odd = match self.random.below(3) {
            0 => text.chars().take(self.random.index(text.len())).collect(),
            1 => text.replace(&process.start_time.to_string(), "7"),
            _ => theirs.unwrap_or_default(),
        };
        self.machine.get().write_registry(CONFIG_DIR, process.pid, Some(odd));
        // The client writes its own again with its next change, or now.
        self.at(200 * MS, What::Over(HostFault::RegistryStale));
    }

    pub(crate) fn take_leave(&mut self, place: usize) {
        let boot = self.boot();
        let Some(one) = self.running(place) else { return };
        one.is_registered = false;
        let (pid, session_id) = (one.process.pid, one.session_id.clone());
        self.machine.get().write_registry(CONFIG_DIR, pid, None);
        // A pid that was used again takes along what its former owner left behind.
        let of_pid = self.lives.iter_mut().filter(|((_, process), _)| process.pid == pid);
        of_pid.for_each(|(_, life)| life.lost_entry |= !life.truth.is_alive());
        self.paint(place, Some(Screen::Shell), Some(session_id));
        // Whatever kills it from now on, it was ending itself, and left what a clean end leaves.
        let owner = self.running(place).map(|one| (boot, one.process));
        if let Some(life) = owner.and_then(|owner| self.lives.get_mut(&owner)) {
            life.is_ending = true;
        }
    }

    pub(crate) fn write_transcript(&mut self, place: usize, mut line: Value) {
        let at = coord_model::stamp::rfc3339(self.now().wall_ms);
        self.says(place, &line);
        let due = self.time + self.lag();
        let time = self.time;
        let Some(one) = self.running(place) else { return };
        let (path, session_id) = (one.client.transcript.clone(), one.session_id.clone());
        if let Some(line) = line.as_object_mut() {
            line.insert("sessionId".to_owned(), session_id.into());
            line.insert("timestamp".to_owned(), at.into());
        }
        // In their order, whatever each takes.
        let due = one.unwritten.back().map_or(due, |(last, ..)| due.max(*last));
        one.unwritten.push_back((due, path, line.to_string()));
        let process = one.process;
        self.at(due - time, What::Lands(process));
    }
}

fn registry_text(one: &Running, changed_ms: u64) -> String {
    let (status, waiting_for) = one.status;
    let mut entry = json!({
        "pid": one.process.pid,
        "procStart": one.process.start_time.to_string(),
        "pidDomain": format!("linux:{MACHINE}:pid:[{PID_NS}]"),
        "sessionId": one.session_id,
        "cwd": "/home/dev/project",
        "kind": if one.is_foreign { "bg" } else { "interactive" },
        "version": CLIENT,
        "statusUpdatedAt": changed_ms,
    });
    if let Some(entry) = entry.as_object_mut().filter(|_| !status.is_empty()) {
        entry.insert("status".to_owned(), status.into());
        if let Some(waiting_for) = waiting_for {
            entry.insert("waitingFor".to_owned(), waiting_for.into());
        }
    }
    entry.to_string()
}

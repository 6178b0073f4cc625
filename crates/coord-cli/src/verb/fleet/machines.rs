//! What is known of the other machines, from the relay's files: with the server, the relay and the coordinator, and without
//! any of them (F-02).

use coord_fleet::{Allowed, Peer, SILENT_MS, is_name};
use coord_model::{MachineId, SessionState};
use coord_relay::PeerFile;
use coord_wire::inspect::{Elsewhere, Session};

use crate::context::Context;
use crate::out::Failure;

/// Another machine.
pub(crate) struct Machine {
    /// Its id.
    pub(crate) id: MachineId,
    /// Its name: the one on this machine's list, else the one that it gives itself.
    pub(crate) name: String,
    /// How long ago it was heard, milliseconds; none if that is not known, as after a boot.
    pub(crate) age_ms: Option<u64>,
    /// What is known of it.
    pub(crate) peer: Peer,
}

impl Machine {
    /// Whether nothing is known of its sessions any more.
    pub(crate) fn is_silent(&self) -> bool {
        self.age_ms.is_none_or(|age| SILENT_MS < age)
    }

    /// The id of the session that a word means there: its id, the beginning of it, or its name. A word that means none may
    /// be an id that is not known here yet.
    ///
    /// # Errors
    /// It means none that is known and is no id, or several.
    fn session(&self, word: &str) -> anyhow::Result<String> {
        let sessions = self.sessions();
        let named = sessions.iter().filter(|one| {
            one.display_name.as_deref() == Some(word)
                || one.session_id == word
                || (4 <= word.len() && one.session_id.starts_with(word))
        });
        let mut ids: Vec<&str> = named.map(|one| one.session_id.as_str()).collect();
        ids.dedup();
        match ids[..] {
            [id] => Ok(id.to_owned()),
            [] if word.len() == 36 => Ok(word.to_owned()),
            [] => anyhow::bail!(
                "No session {word:?} on {}. coord inspect --fleet lists them.",
                self.name
            ),
            _ => anyhow::bail!(
                "{word:?} means several sessions on {}; use more of the id.",
                self.name
            ),
        }
    }

    /// Its sessions as they are shown here. What is known of a silent machine's sessions is what was known last.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        let parsed = self.peer.sessions.values().filter_map(|one| {
            let mut session: Session = serde_json::from_str(one.session.get()).ok()?;
            session.host.clone_from(&self.name);
            // What is known of its process, its pane and its files is true there.
            if let Some(place) = &mut session.place {
                "elsewhere".clone_into(&mut place.kind);
                place.text.clone_from(&self.name);
            }
            let (machine, seen_age_ms) = (Some(self.id), self.age_ms);
            session.elsewhere = Elsewhere { machine, seen_age_ms, last_known: None };
            if self.is_silent() && session.state != SessionState::Stopped {
                session.elsewhere.last_known = Some(session.state);
                session.state = SessionState::Unknown;
                session.because = match self.age_ms {
                    Some(age_ms) => {
                        format!("{} was last heard from {} s ago", self.name, age_ms / 1_000)
                    }
                    None => format!("{} was not heard from since this machine started", self.name),
                };
                session.need = None;
                session.needs.clear();
            }
            Some(session)
        });
        parsed.collect()
    }
}

/// All other machines, by name.
pub(crate) fn all(context: &Context) -> anyhow::Result<Vec<Machine>> {
    let allowed = Allowed::read(&context.paths.fleet_allow()).unwrap_or_default();
    let now_ms = coord_relay::boottime_ms();
    let files = PeerFile::read_all(&context.paths.fleet_machines())?;
    let mut machines: Vec<Machine> = files
        .into_iter()
        .map(|(id, PeerFile { boot, peer, .. })| {
            let age_ms = (boot == context.here.boot).then(|| now_ms.saturating_sub(peer.heard_ms));
            let own = Some(peer.beat.name.clone()).filter(|name| is_name(name));
            let listed = allowed.get(id).map(|one| one.name.clone());
            let name = listed.or(own).unwrap_or_else(|| short(id));
            Machine { id, name, age_ms, peer }
        })
        .collect();
    machines.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    // A name that several have tells none of them.
    let names: Vec<String> = machines.iter().map(|one| one.name.clone()).collect();
    for machine in &mut machines {
        let is_shared = 1 < names.iter().filter(|name| **name == machine.name).count();
        if is_shared && allowed.get(machine.id).is_none() {
            machine.name = format!("{}-{}", machine.name, short(machine.id));
        }
    }
    Ok(machines)
}

/// The beginning of an id.
pub(crate) fn short(id: MachineId) -> String {
    id.to_string().chars().take(8).collect()
}

/// The machine and the session's id that two words mean.
///
/// # Errors
/// There is no such session.
pub(crate) fn session(
    machine: &str,
    word: &str,
    context: &Context,
) -> Result<(Machine, String), Failure> {
    let found = named(machine, context).and_then(|machine| {
        let id = machine.session(word)?;
        Ok((machine, id))
    });
    let both = format!("{machine}/{word}");
    found.map_err(|why| Failure::NoSuchSession(format!("No session {both:?}. {why}")))
}

/// The machine that a word means: its name, or the beginning of its id.
///
/// # Errors
/// It means none, or several.
fn named(word: &str, context: &Context) -> anyhow::Result<Machine> {
    let machines = all(context)?;
    let names: Vec<String> = machines.iter().map(|one| one.name.clone()).collect();
    let is_it = |one: &Machine| {
        one.name == word || (4 <= word.len() && one.id.to_string().starts_with(word))
    };
    let mut found = machines.into_iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => anyhow::bail!("{word:?} means several machines; use more of the id"),
        (None, _) if names.is_empty() => {
            anyhow::bail!("No machine {word:?}: none is known. coord fleet status shows the link.")
        }
        (None, _) => anyhow::bail!("No machine {word:?}. Known: {}.", names.join(", ")),
    }
}

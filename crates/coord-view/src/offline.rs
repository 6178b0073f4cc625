//! Reads the store without a coordinator, for `coord inspect` and `coord events`. It reads the snapshot, the
//! journal's tail and the spool under the shared state lock. Then it checks processes and the client's
//! registry as a starting coordinator does, so that a session that died in the meantime is not shown as alive
//! (H-05, H-15). Changes nothing.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::Context;
use coord_core::{SeenIds, Session, State, step};
use coord_model::envelope::Envelope;
use coord_model::{
    Effect, Event, HookEvent, Host, Now, ProcessRef, ProcessSeen, Provenance, Registry, Started,
    Via,
};
use coord_store::spool::Drained;
use coord_store::{RealDisk, Snapshot, SnapshotIndex, Spool, StateLock, Tail, check_owner};
use coord_wire::paths::Paths;

use crate::replay;

/// The machine, as far as a starting coordinator would query it.
pub trait Machine {
    /// The machine, boot and namespace.
    fn host(&self) -> Host;
    /// Whether exactly this process is a living client, by its executable (H-46).
    fn is_client(&self, process: ProcessRef) -> bool;
    /// What the process table shows about a process.
    fn look_at(&self, process: ProcessRef) -> ProcessSeen;
    /// The entry of a process in the client's registry.
    fn read_registry(&self, config_dir: &Path, process: ProcessRef) -> Registry;
}

/// The state as read from the files.
#[derive(Debug)]
pub struct Offline {
    /// The state, with the spool's events applied.
    pub state: State,
    /// Number of events in the spool.
    pub spool_pending: u64,
    /// Problems found while reading the store.
    pub problems: Vec<String>,
}

/// Reads the store of `paths`.
///
/// With `id`, only the records that it may stand for need to be complete. After a clean end the snapshot
/// contains everything, and its index finds one session among ten thousand as fast as among ten.
pub fn read(
    paths: &Paths,
    machine: &impl Machine,
    id: Option<&str>,
    now: Now,
) -> anyhow::Result<Offline> {
    let mut offline = Offline { state: State::default(), spool_pending: 0, problems: Vec::new() };
    if !is_there(paths)? {
        return Ok(offline);
    }
    match id.map(|id| indexed(paths, id)).transpose()?.flatten() {
        Some(state) => offline.state = state,
        None => read_all(paths, machine, now, &mut offline)?,
    }
    look_around(&mut offline.state, machine, now);
    Ok(offline)
}

fn read_all(
    paths: &Paths,
    machine: &impl Machine,
    now: Now,
    offline: &mut Offline,
) -> anyhow::Result<()> {
    let lock = StateLock::shared(&paths.state_lock())?;
    let snapshot = Snapshot::load(&RealDisk, &paths.state)?;
    let through_seq = snapshot.as_ref().map_or(0, |snapshot| snapshot.through_seq);
    let tail = Tail::read(&RealDisk, &paths.journal(), through_seq)
        .with_context(|| format!("reading {}", paths.journal().display()))?;
    drop(lock);
    (offline.state, _) = replay::replay(snapshot.as_ref(), &tail)?;
    offline.problems.extend(tail.report.iter().map(ToString::to_string));
    for text in spooled(paths, now)?.iter().flat_map(Drained::records) {
        offline.spool_pending += 1;
        match (Envelope::parse(text), serde_json::from_slice(text)) {
            (Ok(envelope), Ok(text)) => {
                let provenance = provenance_of(&envelope, machine);
                let event = HookEvent::new(envelope, text, Via::Spool);
                let event = Event::Hook(Box::new(HookEvent { provenance, ..event }));
                step(&mut offline.state, &event, now);
            }
            (Err(_), _) | (_, Err(_)) => {
                offline.problems.push("a record of the spool is no event".to_owned());
            }
        }
    }
    Ok(())
}

/// How far a spooled event is believed before a coordinator records it, by the process table (H-44). The
/// registry entry of its harness is read later.
fn provenance_of(envelope: &Envelope, machine: &impl Machine) -> Provenance {
    let host = machine.host();
    let is_here = |pid_ns: u64| {
        (&envelope.machine, &envelope.boot, pid_ns) == (&host.machine, &host.boot, host.pid_ns)
    };
    let harness = envelope.harness.as_ref().filter(|harness| is_here(harness.pid_ns));
    let is_client = harness.is_some_and(|harness| machine.is_client(harness.process()));
    if is_client {
        Provenance::Corroborated { is_client, registry_dir: None }
    } else {
        Provenance::Claimed
    }
}

/// The records with an id that begins with `prefix`, with their messages, if there are some and the snapshot alone
/// contains everything.
fn indexed(paths: &Paths, prefix: &str) -> anyhow::Result<Option<State>> {
    let _lock = StateLock::shared(&paths.state_lock())?;
    let Some(index) = SnapshotIndex::open(&RealDisk, &paths.state)? else { return Ok(None) };
    let tail = Tail::read(&RealDisk, &paths.journal(), index.through_seq)?;
    let spooled = Spool::new(RealDisk, &paths.spool()).pending().unwrap_or(0);
    if tail.records().next().is_some() || !tail.report.is_empty() || 0 < spooled {
        return Ok(None);
    }
    let header = serde_json::from_slice(&index.header()?)?;
    let found = index.find(prefix)?;
    let found = found.iter().filter(|payload| !replay::is_message(payload));
    let sessions = found.map(|payload| serde_json::from_slice(payload));
    let sessions = sessions.collect::<Result<Vec<Session>, _>>()?;
    if sessions.is_empty() {
        // The index knows ids only, and the word may be a name.
        return Ok(None);
    }
    let mut messages = Vec::new();
    for session in &sessions {
        for payload in index.find(&replay::key_of_messages(session.key))? {
            messages.push(replay::kept_message(&payload)?);
        }
    }
    Ok(Some(State::from_parts(header, sessions, messages, SeenIds::default())))
}

/// Whether there is a store. If that cannot be determined, it is an error, so that the store is not taken for
/// absent.
pub fn is_there(paths: &Paths) -> anyhow::Result<bool> {
    check_owner(paths, None)?;
    paths.state.try_exists().with_context(|| paths.state.display().to_string())
}

/// Applies what a starting coordinator would observe now. Socket and spool come before the judgement of a
/// death (H-05): nobody listens at the socket, and the spool has been applied.
fn look_around(state: &mut State, machine: &impl Machine, now: Now) {
    let settings = state.header().settings.clone();
    let (version, host) = (coord_wire::VERSION.to_owned(), machine.host());
    let started = Event::Started(Box::new(Started { version, host, settings }));
    let mut todo = VecDeque::from([started]);
    while let Some(event) = todo.pop_front() {
        let effects = step(state, &event, now).effects;
        todo.extend(effects.into_iter().filter_map(|effect| answer(effect, machine)));
    }
}

fn answer(effect: Effect, machine: &impl Machine) -> Option<Event> {
    Some(match effect {
        Effect::WatchProcess { process } => Event::ProcessSeen(machine.look_at(process)),
        Effect::ReadRegistry { process, config_dir, after_death } => {
            let found = machine.read_registry(config_dir.as_ref(), process);
            Event::RegistryRead { process, found, after_death, domain: None }
        }
        // The other effects are only for a process that acts, or that stays to watch.
        Effect::LockConfigDir { .. }
        | Effect::WatchRegistry { .. }
        | Effect::CapturePane { .. }
        | Effect::ReadTranscript { .. }
        | Effect::ReadTask { .. }
        | Effect::LookAtWork { .. }
        | Effect::RemoveBody { .. }
        | Effect::Offer { .. }
        | Effect::SeekMessages { .. }
        | Effect::SeekLast { .. }
        | Effect::SeekDecisions { .. }
        | Effect::HandReply { .. }
        | Effect::SendNotice { .. }
        | Effect::Tell(_)
        | Effect::LookForPresence { .. }
        | Effect::Act(_) => return None,
    })
}

/// Reads everything in the spool, `current` included. If a file vanishes meanwhile, a coordinator has
/// recorded its events in the journal.
fn spooled(paths: &Paths, now: Now) -> anyhow::Result<Vec<Drained>> {
    let spool = Spool::new(RealDisk, &paths.spool());
    let mut all = Vec::new();
    match spool.drained(now.wall_ms) {
        Ok(files) => all.extend(files.filter_map(Result::ok)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(error).context(paths.spool().display().to_string()),
    }
    if let Ok(current) = spool.read(coord_wire::spool::CURRENT) {
        all.push(current);
    }
    Ok(all)
}

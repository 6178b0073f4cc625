//! Reads the store without a coordinator, for `coord inspect` and `coord events`: the snapshot, the
//! journal's tail and what waits in the spool, under the shared state lock. Changes nothing.

use anyhow::Context;
use coord_core::{Now, Session, State, step};
use coord_store::spool::Drained;
use coord_store::{RealDisk, Snapshot, SnapshotIndex, Spool, StateLock, Tail};
use coord_wire::envelope::Envelope;
use coord_wire::journal::Via;
use coord_wire::paths::Paths;

use crate::{convert, engine, lookup};

/// The state as the files tell it.
#[derive(Debug)]
pub struct Offline {
    /// The state, with the spool's events taken in.
    pub state: State,
    /// Events in the spool.
    pub spool_pending: u64,
    /// What reading the store found.
    pub problems: Vec<String>,
}

/// Reads the store of `paths`.
pub fn read(paths: &Paths, now: Now) -> anyhow::Result<Offline> {
    if !paths.state.is_dir() {
        return Ok(Offline { state: State::default(), spool_pending: 0, problems: Vec::new() });
    }
    let lock = StateLock::shared(&paths.state_lock())?;
    let snapshot = Snapshot::load(&RealDisk, &paths.state)?;
    let through_seq = snapshot.as_ref().map_or(0, |snapshot| snapshot.through_seq);
    let tail = Tail::read(&RealDisk, &paths.journal(), through_seq)
        .with_context(|| format!("reading {}", paths.journal().display()))?;
    drop(lock);
    let (mut state, _) = engine::replay(snapshot.as_ref(), &tail)?;
    let mut problems: Vec<String> = tail.report.iter().map(ToString::to_string).collect();
    let mut spool_pending = 0;
    for text in spooled(paths, now)?.iter().flat_map(Drained::records) {
        spool_pending += 1;
        let event = Envelope::parse(text)
            .ok()
            .and_then(|envelope| convert::hook_event(envelope, Via::Spool, false));
        match event {
            Some(event) => {
                step(&mut state, &coord_core::Event::Hook(Box::new(event)), now);
            }
            None => problems.push("a record of the spool is no event".to_owned()),
        }
    }
    Ok(Offline { state, spool_pending, problems })
}

/// What the files say of one session.
#[derive(Debug)]
pub struct One {
    /// The records that the id names, or why none, in words.
    pub sessions: Result<Vec<Session>, String>,
    /// Events in the spool.
    pub spool_pending: u64,
    /// What reading the store found.
    pub problems: Vec<String>,
}

/// Reads the records that `id` names. After a clean end the snapshot has everything, and its index
/// finds one session among ten thousand as fast as among ten; else the whole store is read.
pub fn read_one(paths: &Paths, id: &str, now: Now) -> anyhow::Result<One> {
    if let Some(sessions) = indexed(paths, id)? {
        let found = lookup::find(sessions.iter().collect(), id);
        let sessions = found.map(|found| found.into_iter().cloned().collect());
        return Ok(One { sessions, spool_pending: 0, problems: Vec::new() });
    }
    let Offline { state, spool_pending, problems } = read(paths, now)?;
    let found = lookup::find(state.sessions_with_prefix(id), id);
    let sessions = found.map(|found| found.into_iter().cloned().collect());
    Ok(One { sessions, spool_pending, problems })
}

/// The sessions whose ids begin with `prefix`, where the snapshot alone has everything.
fn indexed(paths: &Paths, prefix: &str) -> anyhow::Result<Option<Vec<Session>>> {
    if !paths.state.is_dir() {
        return Ok(None);
    }
    let _lock = StateLock::shared(&paths.state_lock())?;
    let Some(index) = SnapshotIndex::open(&RealDisk, &paths.state)? else { return Ok(None) };
    let tail = Tail::read(&RealDisk, &paths.journal(), index.through_seq)?;
    let spooled = Spool::new(RealDisk, &paths.spool()).pending().unwrap_or(0);
    if tail.records().next().is_some() || !tail.report.is_empty() || 0 < spooled {
        return Ok(None);
    }
    let found = index.find(prefix)?;
    let sessions = found.iter().map(|payload| serde_json::from_slice(payload));
    Ok(Some(sessions.collect::<Result<_, _>>()?))
}

/// Everything in the spool, `current` included. A file that goes away meanwhile was taken in by a
/// coordinator; its records are then in the journal.
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

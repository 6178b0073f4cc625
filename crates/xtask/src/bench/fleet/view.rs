//! A fleet of 1,000 machines with 50 sessions each on one real server: reading the whole view, following changes, and
//! memory of the server and of the reader.

use super::{Member, Server, has_server, mib, runtime};
use crate::bench::Bench;
use crate::bench::place::load;
use crate::bench::sample::count;
use crate::bench::sandbox::resident;
use crate::bench::table::{Goal, Table};
use anyhow::{anyhow, bail};
use coord_fleet::{
    Beat, Engine as _, EngineError, Incarnation, Peers, SessionState, StateKey, Watched,
};
use coord_model::MachineId;
use coord_relay::{Connection, NatsEngine, boottime_ms};
use coord_store::now;
use futures_util::future::try_join_all;
use serde_json::value::to_raw_value;
use std::time::{Duration, Instant};

const MACHINES: usize = 1_000;
const SESSIONS: usize = 50;
/// Changes after the view was read.
const CHANGES: usize = 5_000;
/// Machines that connect or publish at once.
const AT_ONCE: usize = 50;
/// Bytes of a session as `coord inspect --json` shows it.
const SESSION_BYTES: usize = 1_000;
/// No change takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(in crate::bench) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let mut server = Server::start()?;
    let members = (0..MACHINES).map(|_| Member::new()).collect::<Result<Vec<_>, _>>()?;
    server.admit(&members.iter().collect::<Vec<_>>())?;
    runtime()?.block_on(async {
        let machines = connect(&server, members).await?;
        let idle = resident(server.nats.pid())?;
        let begun = Instant::now();
        publish(&machines, 0..SESSIONS, true).await?;
        let (took, records) = (begun.elapsed(), MACHINES * (SESSIONS + 1));
        let holding = resident(server.nats.pid())?;
        let rate = count(records) / took.as_secs_f64();
        let detail = format!("{records} keys, sealed; {MACHINES} connections; load {}", load());
        table.row("fleet: states published", rate, "records/s", Goal::None, detail);
        let what = format!(
            "fleet: server's memory, {MACHINES} machines, {} sessions",
            MACHINES * SESSIONS
        );
        let detail = format!("{:.0} MiB before anything was published", mib(idle));
        table.row(what, mib(holding), "MiB", Goal::AtMost(200.0, 100.0), detail);
        let mut reader = Reader::open(&machines)?;
        reader.read_all(if bench.quick { 2 } else { 5 }, table).await?;
        reader.follow(bench, &machines, table).await
    })
}

/// A machine that says what it has.
pub(super) struct Remote {
    member: Member,
    connection: Connection,
}

pub(super) async fn connect(server: &Server, members: Vec<Member>) -> anyhow::Result<Vec<Remote>> {
    let mut machines = Vec::new();
    let mut members = members.into_iter().peekable();
    while members.peek().is_some() {
        let some: Vec<Member> = members.by_ref().take(AT_ONCE).collect();
        let opened = some.into_iter().map(async |member| {
            let settings = server.settings(member.login.seed());
            let connection = Connection::open(&settings, member.id()).await?;
            Ok::<_, EngineError>(Remote { member, connection })
        });
        machines.extend(try_join_all(opened).await?);
    }
    Ok(machines)
}

/// Publishes these sessions of machines, and, if it is wanted, that the machines are there.
async fn publish(
    machines: &[Remote],
    sessions: core::ops::Range<usize>,
    with_beat: bool,
) -> anyhow::Result<()> {
    for some in machines.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|one| one.publish(sessions.clone(), with_beat))).await?;
    }
    Ok(())
}

impl Remote {
    async fn publish(
        &self,
        sessions: core::ops::Range<usize>,
        with_beat: bool,
    ) -> anyhow::Result<()> {
        if with_beat {
            self.beat(None).await?;
        }
        for number in sessions {
            let id = crate::bench::events::session_id(number);
            let mut session =
                serde_json::json!({"session_id": id, "state": "running", "at": now().mono_ns});
            let bytes = SESSION_BYTES.saturating_sub(session.to_string().len());
            if let Some(session) = session.as_object_mut() {
                session.insert("because".to_owned(), "x".repeat(bytes).into());
            }
            self.put_session(&id, &session).await?;
        }
        Ok(())
    }

    /// Says that it is there, and which machine tells of its needs.
    pub(super) async fn beat(&self, notifier: Option<MachineId>) -> anyhow::Result<()> {
        let (machine, keys) = (self.member.id(), &self.member.keys);
        let beat = Beat {
            name: machine.to_string(),
            version: coord_wire::VERSION.to_owned(),
            incarnation: Incarnation(machine.to_string()),
            last: 1,
            at_ms: now().wall_ms,
            notifies: false,
            notifier,
            taken: Vec::new(),
        };
        let key = StateKey { machine, session: None };
        Ok(self.connection.engine().put_state(&key, Some(&beat.seal(keys))).await?)
    }

    /// Publishes a session.
    pub(super) async fn put_session(
        &self,
        id: &str,
        session: &serde_json::Value,
    ) -> anyhow::Result<()> {
        let (machine, keys) = (self.member.id(), &self.member.keys);
        let incarnation = Incarnation(machine.to_string());
        let state = SessionState { machine, incarnation, seq: 1, session: to_raw_value(session)? };
        let key = StateKey { machine, session: Some(id.to_owned()) };
        Ok(self.connection.engine().put_state(&key, Some(&state.seal(keys))).await?)
    }
}

/// Reads the view on the connection of the first machine, as its relay does.
struct Reader {
    engine: NatsEngine,
    peers: Peers,
}

impl Reader {
    fn open(machines: &[Remote]) -> anyhow::Result<Self> {
        let first = machines.first().ok_or_else(|| anyhow!("no machine"))?;
        Ok(Self { engine: first.connection.engine(), peers: Peers::default() })
    }

    /// Takes in what came; each seal is verified.
    fn take_in(&mut self, watched: Watched) -> anyhow::Result<()> {
        let refused = self.peers.take_in(watched, boottime_ms());
        refused.first().map_or(Ok(()), |one| Err(anyhow!("{one}")))
    }

    async fn read_all(&mut self, rounds: usize, table: &mut Table) -> anyhow::Result<()> {
        let before = resident(std::process::id())?;
        let mut best: Option<(Duration, Duration)> = None;
        for _ in 0..rounds {
            // A clone begins anew.
            self.engine = self.engine.clone();
            self.peers = Peers::default();
            let begun = Instant::now();
            let watched = self.engine.watch().await?;
            let came = begun.elapsed();
            self.take_in(watched)?;
            let whole = begun.elapsed();
            let sessions: usize = self.peers.all().values().map(|one| one.sessions.len()).sum();
            if sessions != MACHINES * SESSIONS {
                bail!("{sessions} sessions were read");
            }
            if best.is_none_or(|(_, before)| whole < before) {
                best = Some((came, whole));
            }
        }
        let grown = resident(std::process::id())?.saturating_sub(before);
        let (came, whole) = best.ok_or_else(|| anyhow!("nothing was read"))?;
        let records = MACHINES * (SESSIONS + 1);
        let detail = format!(
            "best of {rounds}; {:.2} s to receive, {:.2} s to verify and parse; {:.0} records/s; load {}",
            came.as_secs_f64(),
            whole.saturating_sub(came).as_secs_f64(),
            count(records) / whole.as_secs_f64(),
            load()
        );
        let what = format!("fleet: view of {} sessions is read", MACHINES * SESSIONS);
        table.row(what, whole.as_secs_f64(), "s", Goal::AtMost(10.0, 3.0), detail);
        let detail = "grown while it was read; one thread".to_owned();
        table.row("fleet: reader's memory", mib(grown), "MiB", Goal::None, detail);
        Ok(())
    }

    /// Follows changes while machines make them as fast as they can.
    async fn follow(
        &mut self,
        bench: &Bench,
        machines: &[Remote],
        table: &mut Table,
    ) -> anyhow::Result<()> {
        let changes = bench.rounds(CHANGES);
        let each = changes.div_ceil(MACHINES);
        let some = machines.get(..changes / each).unwrap_or(machines);
        let expected = some.len() * each;
        let begun = Instant::now();
        let publishing = async { publish(some, 0..each, false).await.map(|()| begun.elapsed()) };
        let reading = async {
            let mut seen = 0;
            while seen < expected {
                let watched = self.engine.watch().await?;
                if watched.is_whole || PATIENCE < begun.elapsed() {
                    bail!("{seen} of {expected} changes were seen");
                }
                seen += watched.changes.iter().filter(|one| one.key.session.is_some()).count();
                self.take_in(watched)?;
            }
            Ok(begun.elapsed())
        };
        let (published, seen) = futures_util::future::try_join(publishing, reading).await?;
        let rate = count(expected) / seen.as_secs_f64();
        let detail = format!(
            "{expected} changes, published in {:.2} s, seen in {:.2} s; both in one thread",
            published.as_secs_f64(),
            seen.as_secs_f64()
        );
        table.row("fleet: changes followed", rate, "records/s", Goal::None, detail);
        Ok(())
    }
}

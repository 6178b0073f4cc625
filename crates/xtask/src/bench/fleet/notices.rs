//! A fleet of 1,000 machines, each with a need, on one real server, and a machine that tells for all of them: how long until
//! all were told, and that each was told once.

use super::view::{Remote, connect};
use super::{Machine, Member, Server, has_server, runtime};
use crate::bench::Bench;
use crate::bench::place::load;
use crate::bench::sample::count;
use crate::bench::table::{Goal, Table};
use anyhow::{anyhow, bail};
use coord_daemon::engine::Engine;
use coord_model::MachineId;
use coord_store::{RealDisk, now};
use futures_util::future::try_join_all;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const MACHINES: usize = 1_000;
/// Between two beats of all machines.
const BEATS: Duration = Duration::from_secs(10);
/// No machine is silent for so long that it counts as gone.
const PATIENCE: Duration = Duration::from_secs(300);
/// Machines that say something at once.
const AT_ONCE: usize = 50;

pub(in crate::bench) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    if !has_server() {
        return Ok(());
    }
    let machines = bench.rounds(MACHINES);
    let mut server = Server::start()?;
    let notifier = Machine::new(bench, "laptop", &server)?;
    let members = (0..machines).map(|_| Member::new()).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<&Member> = members.iter().collect();
    all.push(&notifier.member);
    server.admit(&all)?;
    let told = configure(&notifier, &members)?;
    let coordinator = notifier.sandbox.serve()?;
    let took = runtime()?.block_on(async {
        let machines = connect(&server, members).await?;
        let begun = Instant::now();
        try_join_all(machines.iter().map(need)).await?;
        until_told(&machines, notifier.member.id(), &told).await?;
        Ok::<_, anyhow::Error>(begun.elapsed())
    })?;
    coordinator.down()?;
    let paths = &notifier.sandbox.paths;
    let (engine, _) = Engine::open(&RealDisk, &paths.state, &paths.journal())?;
    let state = engine.state().header();
    let channel = state.notices.channels.get("log").ok_or_else(|| anyhow!("no channel"))?;
    let counts =
        state.elsewhere.needs.keys().map(|id| channel.notices.get(id).map(|one| one.count));
    let once = counts.filter(|count| *count == Some(1)).count();
    if once != machines {
        bail!("{once} of {machines} needs were told once");
    }
    let notices = fs::read_to_string(&told)?.lines().count();
    let detail = format!(
        "{machines} machines with a need each, in {notices} notices, each need once; load {}",
        load()
    );
    let rate = count(machines) / took.as_secs_f64();
    table.row("fleet: needs told by one machine", rate, "needs/s", Goal::None, detail);
    Ok(())
}

/// Has a machine tell for others, through a program that keeps what it is told. Returns the file with that.
fn configure(notifier: &Machine, members: &[Member]) -> anyhow::Result<std::path::PathBuf> {
    let paths = &notifier.sandbox.paths;
    let told = notifier.sandbox.root().join("told");
    let program = notifier.sandbox.root().join("tell");
    fs::write(&program, format!("#!/bin/sh\nexec /bin/cat >> '{}'\n", told.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut config = fs::read_to_string(paths.config_file())?;
    write!(
        config,
        "notify = true\n[notice]\ndelays = {{}}\n[notice.channel.log]\nvia = 'command'\nprogram = '{}'\n",
        program.display()
    )?;
    fs::write(paths.config_file(), config)?;
    let mut allowed = String::new();
    for (number, member) in members.iter().enumerate() {
        writeln!(allowed, "{} m{number} notify", member.keys.public())?;
    }
    fs::write(paths.fleet_allow(), allowed)?;
    Ok(told)
}

/// Publishes a session that needs a person.
async fn need(machine: &Remote) -> anyhow::Result<()> {
    let since = coord_model::stamp::rfc3339(now().wall_ms);
    let id = crate::bench::events::session_id(0);
    let need = json!({
        "id": "a_1.1", "kind": "permission", "since": since, "text": "asks to run Bash", "command": null,
    });
    let session =
        json!({"session_id": id, "state": "awaiting_permission", "cwd": "/", "needs": [need]});
    machine.put_session(&id, &session).await
}

/// Has the machines beat until all needs were told.
async fn until_told(machines: &[Remote], notifier: MachineId, told: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        for some in machines.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|one| one.beat(Some(notifier)))).await?;
        }
        let beat = Instant::now();
        while beat.elapsed() < BEATS {
            let text = fs::read_to_string(told).unwrap_or_default();
            let needs = text.lines().filter_map(needs_in).sum::<usize>();
            if machines.len() <= needs {
                return Ok(());
            }
            if PATIENCE < begun.elapsed() {
                bail!("{needs} of {} needs were told", machines.len());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// How many needs a notice tells of.
fn needs_in(notice: &str) -> Option<usize> {
    let notice: serde_json::Value = serde_json::from_str(notice).ok()?;
    match notice.get("event")?.as_str()? {
        "need" => Some(1),
        "digest" => {
            let listed = notice.get("lines").and_then(|lines| lines.as_array()).map_or(0, Vec::len);
            let more = notice.get("more").and_then(serde_json::Value::as_u64).unwrap_or(0);
            Some(listed + usize::try_from(more).ok()?)
        }
        _ => None,
    }
}

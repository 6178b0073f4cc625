//! The coordinator: whether it runs, answers, is of this version, and what it says of itself.

use std::fs::symlink_metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use coord_wire::api::Health;
use coord_wire::exchange::Miss;

use super::fix::Fix;
use super::{Finding, Setup};
use crate::context::Context;
use crate::verb::install::shown;

/// What the checks of the store say better.
const SAID_ELSEWHERE: [&str; 3] =
    ["spool/malformed", "spool/crashes", "stay in force; fix the file"];

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let context = setup.context;
    let mut findings = run_directory(context);
    match &setup.health {
        Ok(health) => findings.extend(well(health)),
        Err(miss) => findings.extend(missing(*miss, setup)),
    }
    findings
}

/// The directory of the socket: hooks use it only if it is ours and private.
fn run_directory(context: &Context) -> Vec<Finding> {
    let run = &context.paths.run;
    let mut findings = Vec::new();
    let wanted = context.root.as_ref().map(|root| root.join("run"));
    if wanted.is_some_and(|wanted| wanted != *run) || is_moved(run) {
        findings.push(Finding::note(
            "coordinator.socket_path",
            format!(
                "the socket's usual path would be too long, so the socket is in {}",
                shown(run)
            ),
            "none needed; a shorter COORD_HOME or XDG_RUNTIME_DIR avoids it",
        ));
    }
    let Ok(metadata) = symlink_metadata(run) else { return findings };
    if !metadata.is_dir() || metadata.uid() != context.here.uid {
        let found = format!(
            "{} is not a directory of yours, so hooks do not use the socket there",
            shown(run)
        );
        let remedy = format!("move {} away, then coord up", shown(run));
        findings.push(Finding::error("coordinator.run_directory", found, remedy));
    }
    findings
}

fn is_moved(run: &Path) -> bool {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    run.parent() == Some(Path::new("/tmp")) && name.starts_with("coord-")
}

fn well(health: &Health) -> Vec<Finding> {
    let mut findings = Vec::new();
    if health.version != coord_wire::VERSION {
        let found = format!(
            "the coordinator has version {}, this program {}",
            health.version,
            coord_wire::VERSION
        );
        let finding = Finding::warning("coordinator.version", found, "replace it: coord up");
        findings.push(finding.fixed_by(Fix::run(["up"])));
    }
    if health.invariant_violations != 0 {
        let found = format!("{} invariants were violated", health.invariant_violations);
        let remedy = "report it with the output of coord doctor --bundle FILE";
        findings.push(Finding::error("coordinator.invariants", found, remedy));
    }
    let problems = health.problems.iter();
    let own = problems.filter(|text| !SAID_ELSEWHERE.iter().any(|said| text.contains(said)));
    findings.extend(own.map(|problem| {
        let remedy = "see its log (coord doctor --bundle FILE), then coord down and coord up";
        Finding::warning("coordinator.problem", problem.clone(), remedy)
    }));
    if findings.is_empty() {
        let Health { pid, version, sessions, .. } = health;
        let noun = if *sessions == 1 { "session" } else { "sessions" };
        let found = format!("runs (pid {pid}, version {version}), {sessions} {noun}");
        findings.push(Finding::ok("coordinator.runs", found));
    }
    findings
}

fn missing(miss: Miss, setup: &Setup<'_>) -> Vec<Finding> {
    let context = setup.context;
    let paths = &context.paths;
    let socket = paths.socket();
    let name = shown(&socket);
    match miss {
        Miss::Absent => {
            let mut findings = Vec::new();
            if symlink_metadata(&socket).is_ok_and(|file| file.file_type().is_socket()) {
                let found = format!("{name} is a stale socket: nothing listens there");
                let finding = Finding::note("coordinator.socket", found, "coord up replaces it");
                findings.push(finding.fixed_by(Fix::Remove { path: socket }));
            }
            if paths.miss().exists() {
                let found = "a marker of a missed connection is left, and no coordinator runs";
                let finding = Finding::note("coordinator.miss", found, "coord up removes it");
                findings.push(finding.fixed_by(Fix::Remove { path: paths.miss() }));
            }
            findings.push(not_running(setup));
            findings
        }
        Miss::Late => vec![Finding::error(
            "coordinator.hangs",
            format!("the coordinator at {name} does not answer"),
            "coord down, then coord up (nothing accepted is lost)",
        )],
        Miss::Foreign => vec![Finding::error(
            "coordinator.foreign",
            format!(
                "the process that listens at {name} belongs to another user or another pid namespace"
            ),
            "end that process, or set another COORD_HOME here",
        )],
        Miss::Broken => vec![Finding::error(
            "coordinator.answer",
            format!(
                "coord does not understand the answer at {name}; the coordinator may have another version"
            ),
            "coord down, then coord up",
        )],
    }
}

fn not_running(setup: &Setup<'_>) -> Finding {
    let paths = &setup.context.paths;
    if paths.down().exists() {
        let found = "`coord down` stopped the coordinator: events wait in the spool";
        return Finding::warning("coordinator.down", found, "coord up");
    }
    let finding = Finding::warning(
        "coordinator.runs",
        "no coordinator runs: events wait in the spool until one does",
        "coord up",
    );
    // Where it could not start anyway, there is nothing to try.
    let can_start = paths.state.is_dir() && setup.config_error.is_none();
    if can_start { finding.fixed_by(Fix::run(["up"])) } else { finding }
}

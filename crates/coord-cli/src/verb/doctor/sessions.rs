//! The sessions: whether they report with hooks of this version, and from configuration directories
//! that have our hooks at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use coord_model::envelope::Envelope;
use coord_model::{Event, Record, SessionState};
use coord_store::journal::read_segments;
use coord_store::{RealDisk, StateLock};
use coord_wire::inspect::Session;

use super::finding::quoted;
use super::settings::is_registered;
use super::{Finding, Setup};
use crate::context::Context;
use crate::verb::install::shown;

/// Segments of the journal that are searched for the last words of a session.
const SEGMENTS: usize = 2;

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let sessions = match &setup.sessions {
        Ok(sessions) => sessions,
        Err(why) => {
            let remedy = "follow the remedies above, then check with coord inspect";
            return vec![Finding::error("sessions.read", why.clone(), remedy)];
        }
    };
    let living: Vec<&Session> = sessions.iter().filter(|one| may_live(one)).collect();
    let mut findings = unregistered(&living, setup);
    let hooks = last_hooks(setup.context);
    findings.extend(old_hooks(&living, &hooks));
    if findings.is_empty() {
        let found = match (living.len(), sessions.len()) {
            (_, 0) => "none yet".to_owned(),
            (living, known) => format!("{living} of {known} may be alive"),
        };
        findings.push(Finding::ok("sessions.read", found));
    }
    findings
}

fn may_live(session: &Session) -> bool {
    session.owner.as_ref().is_none_or(|owner| owner.alive != Some(false))
        && !matches!(
            session.state,
            SessionState::Stopped | SessionState::Crashed | SessionState::Interrupted
        )
}

/// Configuration directories that sessions use and that have no hook of ours.
fn unregistered(living: &[&Session], setup: &Setup<'_>) -> Vec<Finding> {
    let readable = setup.readable();
    let checked: BTreeSet<&Path> =
        setup.settings.iter().filter_map(|one| one.path.parent()).collect();
    let seen: BTreeSet<&Path> = living
        .iter()
        .map(|session| Path::new(&session.config_dir))
        .chain(readable.named.iter().map(std::path::PathBuf::as_path))
        .filter(|dir| readable.allows(dir) && dir.is_dir() && !checked.contains(dir))
        .collect();
    seen.into_iter()
        .filter(|dir| !is_registered(dir))
        .map(|dir| {
            let found =
                format!("sessions use {}, where coord's hooks are not registered", shown(dir));
            let remedy = format!("coord install --config-dir {}", quoted(dir));
            Finding::warning("sessions.config_dir", found, remedy)
        })
        .collect()
}

/// The version of the hook that last spoke for each session.
fn last_hooks(context: &Context) -> BTreeMap<String, String> {
    let mut hooks = BTreeMap::new();
    let Ok(_lock) = StateLock::shared(&context.paths.state_lock()) else { return hooks };
    let dir = context.paths.journal();
    let Ok(segments) = read_segments(&RealDisk, &dir, 0) else { return hooks };
    // The newest first: the first word of a session that is met is its last one.
    for segment in segments.rev().take(SEGMENTS).flatten() {
        for (_, text) in segment.records().rev() {
            let Ok(Record { entry: Event::Hook(event), .. }) = serde_json::from_slice(text) else {
                continue;
            };
            if let Ok(envelope) = Envelope::parse(event.text.0.get().as_bytes()) {
                hooks.entry(envelope.session_id).or_insert(envelope.hook);
            }
        }
    }
    hooks
}

/// A session that runs keeps the hooks it has until the programs are replaced.
fn old_hooks(living: &[&Session], hooks: &BTreeMap<String, String>) -> Option<Finding> {
    let is_old = |session: &&&Session| {
        hooks.get(&session.session_id).is_some_and(|version| version != coord_wire::VERSION)
    };
    let old: Vec<String> = living
        .iter()
        .filter(is_old)
        .map(|session| session.session_id.chars().take(8).collect())
        .collect();
    (!old.is_empty()).then(|| {
        let found = format!("{} run with hooks of another version: {}", old.len(), old.join(", "));
        let remedy =
            "./install.sh replaces the hooks; restart sessions that use hooks of another prefix";
        Finding::note("sessions.old_hooks", found, remedy)
    })
}

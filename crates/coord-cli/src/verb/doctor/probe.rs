//! The probe: one harmless event through the installed hook, as the client runs it, until it stands
//! where events belong: in the journal, or in the spool while no coordinator runs.

use std::process::Command;
use std::time::Duration;

use coord_model::Via;
use coord_model::envelope::{Envelope, PROBE};
use coord_store::{RealDisk, Spool, StateLock};
use coord_view::history::{self, Of, Wanted};
use coord_wire::api::Health;
use coord_wire::exchange::mono_ns;

use super::settings::SettingsFile;
use super::{Finding, Setup, child};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::verb::install::audit::Entry;
use crate::verb::install::shown;

/// The hook executable that takes every event.
const PROGRAM: &str = "coord-hook-event";
/// The hook itself is bounded to a second.
const HOOK_WITHIN: Duration = Duration::from_secs(5);
/// A coordinator that is well takes an event at once, a spooled one a moment later.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn check(setup: &Setup<'_>) -> Finding {
    let entries = setup.settings.iter().flat_map(SettingsFile::entries);
    // An entry of another place leads to somebody else's journal.
    let entry = entries
        .filter(|entry| entry.reports_to(setup.context))
        .find(|entry| entry.command.file_name().is_some_and(|name| name == PROGRAM));
    let Some(entry) = entry else {
        let found = "no probe was sent: the settings name no hook of this coord";
        return Finding::note("probe.sent", found, "coord install");
    };
    if let Ok(health) = &setup.health
        && health.version != coord_wire::VERSION
    {
        let found = "no probe was sent: the coordinator has another version";
        return Finding::note("probe.sent", found, "coord up");
    }
    send(entry, setup)
}

fn send(entry: &Entry, setup: &Setup<'_>) -> Finding {
    let context = setup.context;
    let session = format!("coord-doctor-{}-{}", std::process::id(), context.now.mono_ns);
    let payload = serde_json::json!({
        "session_id": session, "hook_event_name": PROBE, "cwd": "/", "transcript_path": "",
    });
    // Watched before it is sent: what comes from now on is news.
    let watch = setup.health.is_ok().then(|| JournalWatch::new(context).ok()).flatten();
    let began_ns = mono_ns();
    let mut command = Command::new(&entry.command);
    command.args(&entry.args).current_dir("/");
    let hook = shown(&entry.command);
    let said = match child::run(&mut command, payload.to_string().as_bytes(), HOOK_WITHIN) {
        Ok(ended) if ended.code == Some(0) => ended,
        Ok(ended) => {
            let why = ended.stderr.lines().next().unwrap_or("no message").to_owned();
            let found = format!("the probe is lost: {hook} ended with {:?}: {why}", ended.code);
            return Finding::error(
                "probe.hook",
                found,
                "follow the remedies above, then run coord doctor again",
            );
        }
        Err(why) => {
            let found = format!("the probe was not sent: {hook}: {why}");
            return Finding::error("probe.hook", found, "./install.sh");
        }
    };
    match arrived(&session, setup.health.as_ref().ok(), watch.as_ref(), began_ns, context) {
        Some(place) => {
            let ms = mono_ns().saturating_sub(began_ns) / 1_000_000;
            let found =
                format!("a probe event is {place} after {ms} ms (hook: {} ms)", said.took_ms);
            Finding::ok("probe.arrived", found)
        }
        None => Finding::error(
            "probe.arrived",
            format!(
                "{hook} reported success, but the probe did not arrive within {} s",
                ARRIVES_WITHIN.as_secs()
            ),
            "check that coord is not disabled and that the entries name its state directory: coord install --dry-run",
        ),
    }
}

/// Where the probe stands, once it does.
fn arrived(
    session: &str,
    health: Option<&Health>,
    watch: Option<&JournalWatch>,
    began_ns: u64,
    context: &Context,
) -> Option<&'static str> {
    loop {
        if let Some(health) = health
            && let Some(via) = in_journal(session, health.seq, context)
        {
            return Some(match via {
                Via::Socket => "in the journal, by the socket,",
                Via::Spool => "in the journal, by the spool,",
            });
        }
        if health.is_none() && is_in_spool(session, context) {
            return Some("in the spool, where it waits for a coordinator,");
        }
        let waited = Duration::from_nanos(mono_ns().saturating_sub(began_ns));
        let left = ARRIVES_WITHIN.checked_sub(waited).filter(|left| !left.is_zero())?;
        // Without a coordinator the hook has written it before it ended.
        watch?.pause(left).ok()?;
    }
}

fn in_journal(session: &str, from_seq: u64, context: &Context) -> Option<Via> {
    let _lock = StateLock::shared(&context.paths.state_lock()).ok()?;
    let of = Some(Of::Ids([session.to_owned()].into()));
    let wanted = Wanted { from_seq, of, ..Wanted::default() };
    let mut via = None;
    let each = |line: history::Line| via = line.via;
    history::read(&RealDisk, &context.paths.journal(), &wanted, each).ok()?;
    via
}

fn is_in_spool(session: &str, context: &Context) -> bool {
    let spool = Spool::new(RealDisk, &context.paths.spool());
    let current = spool.read(coord_wire::spool::CURRENT).ok();
    let others = spool.drained(context.now.wall_ms);
    let files = current.into_iter().chain(others.into_iter().flatten().flatten());
    let is_it =
        |text: &[u8]| Envelope::parse(text).is_ok_and(|envelope| envelope.session_id == session);
    files.into_iter().any(|file| file.records().any(is_it))
}

//! Journal, snapshot and spool: whether they can be read, are whole, and have room (G1, H-29).
//! Reads all of the journal, under the shared lock; changes nothing.

use std::path::Path;

use coord_model::Record;
use coord_store::journal::read_segments;
use coord_store::{Disk, RealDisk, Snapshot, Spool, StateLock, Tail};
use coord_wire::frame::{Frame, Frames};
use coord_wire::limits::SEGMENT_FILE_BYTES_MAX;
use coord_wire::limits::{
    MALFORMED_RECORDS_MAX, SPOOL_BYTES_MAX, SPOOL_RECORDS_MAX, SPOOL_RESERVE_BYTES,
};
use coord_wire::spool::{CRASHES, CURRENT, MALFORMED};

use super::finding::quoted;
use super::{Finding, Setup};
use crate::context::Context;
use crate::verb::install::shown;

/// A record this far ahead of the clock says that the clock was set back, milliseconds.
const AHEAD_MS: u64 = 60_000;
/// With fewer records there is no room to speak of.
const SPOOL_IS_LONG: u64 = SPOOL_RECORDS_MAX / 2;

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let context = setup.context;
    if !context.paths.state.is_dir() {
        return Vec::new();
    }
    let mut findings = journal(setup);
    findings.extend(spool(context));
    if findings.is_empty() {
        findings.push(Finding::ok("store.journal", "journal and spool are undamaged"));
    }
    findings
}

fn damaged(found: String) -> Finding {
    let remedy = "keep a copy of the state directory, coord down, move it aside, then coord install and coord up";
    Finding::error("store.journal", found, remedy)
}

fn journal(setup: &Setup<'_>) -> Vec<Finding> {
    let paths = &setup.context.paths;
    // What stands in the way of locks is found elsewhere.
    let Ok(_lock) = StateLock::shared(&paths.state_lock()) else { return Vec::new() };
    let mut findings = Vec::new();
    let snapshot = match Snapshot::load(&RealDisk, &paths.state) {
        Ok(snapshot) => snapshot,
        Err(error) => return vec![damaged(error.to_string())],
    };
    for odd in snapshot.iter().flat_map(|snapshot| &snapshot.report) {
        let remedy = "nothing is lost; the coordinator writes it again when it stops";
        findings.push(Finding::note("store.snapshot", odd.to_string(), remedy));
    }
    let through_seq = snapshot.as_ref().map_or(0, |snapshot| snapshot.through_seq);
    if let Err(error) = Tail::read(&RealDisk, &paths.journal(), through_seq) {
        findings.push(damaged(error.to_string()));
        return findings;
    }
    let dir = paths.journal();
    let segments = match read_segments(&RealDisk, &dir, 0) {
        Ok(segments) => segments,
        Err(error) => {
            findings.push(damaged(error.to_string()));
            return findings;
        }
    };
    let mut last = None;
    for segment in segments {
        match segment {
            Ok(segment) => last = Some(segment),
            Err(error) => findings.push(damaged(error.to_string())),
        }
    }
    if let Some(last) = last {
        let newest = last.records().next_back();
        let newest = newest.and_then(|(_, text)| serde_json::from_slice::<Record>(text).ok());
        findings.extend(newest.and_then(|newest| clock(newest.at, setup.context.now.wall_ms)));
        if !setup.is_running() {
            findings.extend(tail(last.path()));
        }
    }
    findings
}

/// Bytes at the end that no sync covered, while nobody is writing.
fn tail(segment: &Path) -> Option<Finding> {
    let bytes = RealDisk.read(segment, SEGMENT_FILE_BYTES_MAX).ok()?;
    let bad = Frames::new(&bytes, 0).find_map(|frame| match frame {
        Frame::Torn { at, .. } | Frame::Damaged { at, .. } => Some(at),
        Frame::Record { .. } => None,
    })?;
    let n = bytes.len().saturating_sub(bad);
    let found =
        format!("{} ends in {n} bytes that were never acknowledged as durable", shown(segment));
    Some(Finding::note(
        "store.tail",
        found,
        "nothing accepted is lost; the next start cuts them off: coord up",
    ))
}

fn clock(newest_ms: u64, now_ms: u64) -> Option<Finding> {
    (now_ms.saturating_add(AHEAD_MS) < newest_ms).then(|| {
        let found = format!(
            "the clock was set back: the journal's last record is from {}, and it is {} now",
            coord_model::stamp::rfc3339(newest_ms),
            coord_model::stamp::rfc3339(now_ms)
        );
        Finding::warning("store.clock", found, "set the clock: timedatectl set-ntp true")
    })
}

fn spool(context: &Context) -> Vec<Finding> {
    let dir = context.paths.spool();
    let spool = Spool::new(RealDisk, &dir);
    let mut findings = Vec::new();
    let bytes = RealDisk.len(&dir.join(CURRENT)).unwrap_or(0);
    let pending = spool.pending().unwrap_or(0);
    let remedy = "start the coordinator, which reads the spool: coord up";
    if SPOOL_BYTES_MAX - SPOOL_RESERVE_BYTES <= bytes || SPOOL_RECORDS_MAX <= pending {
        let found =
            format!("the spool is full ({pending} events, {} MiB): events are lost", bytes >> 20);
        findings.push(Finding::error("store.spool", found, remedy));
    } else if SPOOL_IS_LONG <= pending {
        let found = format!("{pending} events wait in the spool");
        findings.push(Finding::warning("store.spool", found, remedy));
    }
    for (name, check, what) in [
        (MALFORMED, "store.malformed", "inputs were not hook payloads"),
        (CRASHES, "store.crashes", "panics of hooks"),
    ] {
        let n = if name == MALFORMED { spool.malformed() } else { spool.crashes() };
        if let Ok(n @ 1..) = n {
            let path = dir.join(name);
            let file = shown(&path);
            let more = if MALFORMED_RECORDS_MAX <= n { " or more" } else { "" };
            let found = format!("{n}{more} {what}: {file}");
            let remedy = format!("read {file}, then remove it: rm {}", quoted(&path));
            findings.push(Finding::warning(check, found, remedy));
        }
    }
    if let Ok(current) = spool.read(CURRENT) {
        for odd in current.findings {
            let remedy =
                "none needed: a killed hook left them, and the records around them are kept";
            findings.push(Finding::note("store.spool_damage", odd.to_string(), remedy));
        }
        if 0 < current.folded {
            let found =
                format!("{} tool events were only counted: the spool was full", current.folded);
            findings.push(Finding::warning("store.folded", found, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_named() {
        let finding = clock(1_000_000, 900_000).unwrap();
        assert_eq!(finding.check, "store.clock");
        assert!(finding.remedy.unwrap().contains("timedatectl"));
        assert!(clock(1_000_000, 999_000).is_none());
    }
}

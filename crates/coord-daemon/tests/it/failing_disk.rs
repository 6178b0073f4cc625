//! Record, then step, on a disk that fails: what was not written changes nothing, what was synced is
//! there again, and after a failed sync nothing more is taken (G1, G2, H-29).

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_core::State;
use coord_daemon::engine::Engine;
use coord_model::envelope::Envelope;
use coord_model::{Event, HookEvent, Host, Now, Provenance, Settings, Started, Via};
use coord_store::{AppendError, Disk};
use coord_testkit::fake_disk::{Damage, FakeDisk, Fault};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::io::ErrorKind;
use std::path::Path;

const STATE: &str = "/s";
const JOURNAL: &str = "/s/journal";
const EVENTS: u64 = 12;

fn disk() -> FakeDisk {
    let disk = FakeDisk::new();
    disk.create_dir(Path::new(STATE)).unwrap();
    disk
}

fn open(disk: &FakeDisk) -> anyhow::Result<Engine<FakeDisk>> {
    Engine::open(disk, Path::new(STATE), Path::new(JOURNAL)).map(|(engine, _)| engine)
}

fn at(n: u64) -> Now {
    Now { mono_ns: 1_000_000_000 * (n + 1), wall_ms: 1_700_000_000_000 + 1000 * n }
}

/// The `n`-th event of sessions that take a prompt each and end their turn.
fn event(n: u64) -> Box<RawValue> {
    let names = ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"];
    let name = names[usize::try_from(n % 4).unwrap()];
    let event = json!({
        "v": 1, "id": format!("{:012x}{n:020x}", at(n).wall_ms), "event": name, "session_id": format!("session-{}", n / 4),
        "emitted_at": coord_model::stamp::rfc3339(at(n).wall_ms), "mono_ns": at(n).mono_ns,
        "boot": "boot", "machine": "machine", "pid": 1, "source": "startup",
        "harness": {"pid": 100 + n / 4, "start_time": "1", "pid_ns": 1, "tty": 7},
    });
    to_raw_value(&event).unwrap()
}

/// Takes the `n`-th event as the coordinator does. True if it is there for the first time.
fn take(engine: &mut Engine<FakeDisk>, n: u64) -> Result<bool, AppendError> {
    let text = event(n);
    let envelope = Envelope::parse(text.get().as_bytes()).unwrap();
    let event = HookEvent::new(envelope, text, Via::Socket);
    let event = HookEvent { provenance: Provenance::Verified, ..event };
    if engine.is_duplicate(&event) {
        return Ok(false);
    }
    engine.record(&Event::Hook(Box::new(event)), at(n))?;
    Ok(true)
}

fn start(engine: &mut Engine<FakeDisk>) {
    let host = Host { machine: "machine".into(), boot: "boot".into(), boot_at_ms: 0, pid_ns: 1 };
    let started = Started { version: "0".into(), host, settings: Settings::default() };
    engine.record(&Event::Started(Box::new(started)), at(0)).unwrap();
}

fn sync(engine: &mut Engine<FakeDisk>) -> bool {
    let Some(job) = engine.journal_mut().unsynced() else { return true };
    engine.journal_mut().synced(job.run()).is_ok()
}

/// The states after no event, one event, two …, on a disk that works.
fn reference() -> Vec<State> {
    let mut engine = open(&disk()).unwrap();
    start(&mut engine);
    let mut states = vec![engine.state().clone()];
    for n in 0..EVENTS {
        take(&mut engine, n).unwrap();
        states.push(engine.state().clone());
    }
    states
}

// H-29: an event that could not be written was not taken, in no part; sent again it counts once.
#[test]
fn h29_what_is_not_written_changes_nothing() {
    let reference = reference();
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for fails_at in 1.. {
            let disk = disk();
            let mut engine = open(&disk).unwrap();
            start(&mut engine);
            disk.arm(Fault::Error { at: fails_at, kind });
            let mut failed = 0;
            for n in 0..EVENTS {
                let before = engine.state().clone();
                while take(&mut engine, n).is_err() {
                    assert_eq!(engine.state(), &before, "{kind} at {fails_at}, event {n}");
                    failed += 1;
                    assert!(failed < 10, "the fault is over, and still: {kind} at {fails_at}");
                }
                assert!(matches!(take(&mut engine, n), Ok(false)));
            }
            assert_eq!(Some(engine.state()), reference.last());
            drop(engine);
            disk.disarm();
            let again = open(&disk.after_crash(Damage::Kept)).unwrap();
            assert_eq!(Some(again.state()), reference.last(), "{kind} at {fails_at}");
            if failed == 0 {
                assert!(EVENTS <= fails_at, "every append has met the fault");
                break;
            }
        }
    }
}

// A sync that failed makes it read-only until it is opened anew.
#[test]
fn g1_after_a_failed_sync_nothing_more_is_taken() {
    let reference = reference();
    let disk = disk();
    let mut engine = open(&disk).unwrap();
    start(&mut engine);
    for n in 0..4 {
        take(&mut engine, n).unwrap();
    }
    let job = engine.journal_mut().unsynced().unwrap();
    disk.arm(Fault::Error { at: 1, kind: ErrorKind::Other });
    assert!(engine.journal_mut().synced(job.run()).is_err());
    disk.disarm();
    assert!(engine.journal().is_read_only());
    for n in 4..6 {
        assert!(matches!(take(&mut engine, n), Err(AppendError::ReadOnly { .. })), "event {n}");
        assert_eq!(engine.state(), &reference[4], "what is refused changes nothing");
    }
    // Opened anew it has all that was acknowledged, and takes events again.
    drop(engine);
    let mut again = open(&disk.after_crash(Damage::Kept)).unwrap();
    assert_eq!(again.state(), &reference[4]);
    for n in 4..EVENTS {
        take(&mut again, n).unwrap();
    }
    assert!(sync(&mut again));
    assert_eq!(Some(again.state()), reference.last());
}

/// Takes all events, syncing after every third. How many were taken, and how many of them synced.
fn work(engine: &mut Engine<FakeDisk>) -> (u64, u64) {
    let (mut taken, mut synced) = (0, 0);
    for n in 0..EVENTS {
        if take(engine, n).is_err() {
            break;
        }
        taken = n + 1;
        if taken % 3 == 0 {
            if !sync(engine) {
                break;
            }
            synced = taken;
        }
    }
    (taken, synced)
}

// G1: the power goes at any operation. What was synced is there, nothing is half applied, and the
// events sent again lead to where they always lead.
#[test]
fn g1_a_power_cut_at_any_operation_leaves_a_prefix_with_all_that_was_synced() {
    let reference = reference();
    for cut in 1.. {
        let disk = disk();
        let mut engine = open(&disk).unwrap();
        start(&mut engine);
        assert!(sync(&mut engine));
        disk.arm(Fault::PowerCut { at: cut });
        let (taken, synced) = work(&mut engine);
        drop(engine);
        let torn = (1..=5).map(Damage::Torn);
        for damage in [Damage::Kept, Damage::Dropped].into_iter().chain(torn) {
            let what = format!("cut at {cut}, {damage:?}");
            let mut again = open(&disk.after_crash(damage)).expect(&what);
            let found = reference.iter().position(|state| state == again.state());
            let found = u64::try_from(found.expect(&what)).unwrap();
            // The record that the power went at may be there or not.
            assert!(synced <= found && found <= taken + 1, "{what}: {synced} {found} {taken}");
            for n in 0..EVENTS {
                take(&mut again, n).unwrap();
            }
            assert_eq!(Some(again.state()), reference.last(), "{what}");
        }
        if synced == EVENTS {
            assert!(EVENTS <= cut, "every append has met the cut");
            return;
        }
    }
}

//! What a start has to replay after many kills: work is counted, not timed.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_daemon::engine::Engine;
use coord_model::envelope::Envelope;
use coord_model::{Event, HookEvent, Host, Now, Provenance, Settings, Started, Via};
use coord_store::{Disk, Snapshot, Tail};
use coord_testkit::fake_disk::FakeDisk;
use serde_json::json;
use serde_json::value::to_raw_value;
use std::path::Path;

const STATE: &str = "/s";
const JOURNAL: &str = "/s/journal";
const SESSIONS: u64 = 600;
const KILLS: u64 = 16;

fn open(disk: &FakeDisk) -> Engine<FakeDisk> {
    Engine::open(disk, Path::new(STATE), Path::new(JOURNAL)).unwrap().0
}

fn at(n: u64) -> Now {
    Now { mono_ns: 1_000_000_000 * (n + 1), wall_ms: 1_700_000_000_000 + n }
}

fn prompt(engine: &mut Engine<FakeDisk>, n: u64) {
    let text = to_raw_value(&json!({
        "v": 1, "id": format!("{:012x}{n:020x}", at(n).wall_ms), "event": "UserPromptSubmit",
        "session_id": format!("session-{n}"), "emitted_at": "2023-11-14T22:13:20.000Z",
        "mono_ns": n, "boot": "boot", "machine": "machine", "pid": 1,
    }))
    .unwrap();
    let envelope = Envelope::parse(text.get().as_bytes()).unwrap();
    let event = HookEvent::new(envelope, text, Via::Socket);
    let event = HookEvent { provenance: Provenance::Verified, ..event };
    engine.record(&Event::Hook(Box::new(event)), at(n)).unwrap();
}

fn started() -> Event {
    let (machine, boot) = ("machine".to_owned(), "boot".to_owned());
    Event::Started(Box::new(Started {
        version: "0".to_owned(),
        host: Host { machine, boot, boot_at_ms: 1, pid_ns: 1 },
        settings: Settings::default(),
    }))
}

/// A start touches every session, so it counts as so many records: coordinators that are killed
/// right after their start still leave a snapshot after a few of them.
#[test]
fn many_kills_do_not_make_the_next_start_slower() {
    let disk = FakeDisk::new();
    disk.create_dir(Path::new(STATE)).unwrap();
    let mut engine = open(&disk);
    (0..SESSIONS).for_each(|n| prompt(&mut engine, n));
    drop(engine);
    let mut longest = 0;
    for kill in 0..KILLS {
        let through = Snapshot::load(&disk, Path::new(STATE)).unwrap();
        let through = through.map_or(0, |snapshot| snapshot.through_seq);
        let mut engine = open(&disk);
        assert_eq!(u64::try_from(engine.state().sessions().len()).unwrap(), SESSIONS);
        if 0 < through {
            let tail = Tail::read(&disk, Path::new(JOURNAL), through).unwrap();
            longest = longest.max(tail.records().count());
        }
        engine.record(&started(), at(SESSIONS + kill)).unwrap();
        if engine.wants_snapshot() {
            let (writer, ids) = engine.snapshot().unwrap();
            writer.stage(&disk, Path::new(STATE), &ids).unwrap().publish().unwrap();
        }
    }
    assert!(0 < longest && longest <= 4, "{longest} starts to replay");
}

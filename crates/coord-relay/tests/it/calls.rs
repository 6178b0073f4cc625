//! The six calls, with two machines.

use crate::fleet::Fleet;
use coord_fleet::{
    Change, Engine as _, EngineError, Held, Item, Parcel, Settled, StateKey, Verdict,
};

/// F-04: what is appended is held, and a batch is refused if another one came meanwhile.
#[test]
fn f_04_a_batch_is_appended_after_the_newest_one_or_not_at_all() {
    let fleet = Fleet::start(2);
    let [mut one, mut other] = [0, 1].map(|n| fleet.engine(n));
    assert_eq!(fleet.run(one.held()), Ok(None));
    let first = fleet.run(one.append(b"first", 0)).unwrap();
    // Another machine's batches lie between.
    fleet.run(other.append(b"another machine's", 0)).unwrap();
    assert_eq!(fleet.run(one.append(b"stale", 0)), Err(EngineError::Conflict));
    let second = fleet.run(one.append(b"second", first)).unwrap();
    assert!(first + 1 < second, "{first} {second}");
    assert_eq!(fleet.run(one.append(b"stale", first)), Err(EngineError::Conflict));
    let held = Held { place: second, bytes: b"second".to_vec() };
    assert_eq!(fleet.run(one.held()), Ok(Some(held.clone())));
    // Two connections of one machine see the same.
    assert_eq!(fleet.run(fleet.engine(0).held()), Ok(Some(held)));
}

fn key(fleet: &Fleet, n: usize, session: Option<&str>) -> StateKey {
    StateKey { machine: fleet.machine(n), session: session.map(str::to_owned) }
}

fn without_time(changes: Vec<Change>) -> Vec<(StateKey, Option<String>)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let pairs = changes.into_iter().map(|change| {
        assert!(1_500_000_000_000 < change.stored_ms, "{change:?}");
        (change.key, change.value.map(text))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs
}

/// F-02: a look shows all keys of all machines, and the next ones what changed.
#[test]
fn f_02_all_keys_are_seen_and_then_their_changes() {
    let fleet = Fleet::start(2);
    let [mut one, mut other] = [0, 1].map(|n| fleet.engine(n));
    let first = fleet.run(other.watch()).unwrap();
    assert!(first.is_whole && first.changes.is_empty(), "{first:?}");
    let odd = key(&fleet, 0, Some("no token: é.*>"));
    let plain = key(&fleet, 0, Some("0f6b-1"));
    let beat = key(&fleet, 0, None);
    fleet.run(one.put_state(&odd, Some(b"old"))).unwrap();
    fleet.run(one.put_state(&odd, Some(b"new"))).unwrap();
    fleet.run(one.put_state(&plain, Some(b"gone soon"))).unwrap();
    fleet.run(one.put_state(&beat, Some(b"beat"))).unwrap();
    fleet.run(one.put_state(&plain, None)).unwrap();

    let mut seen = Vec::new();
    let expected = [
        (beat.clone(), Some("beat".to_owned())),
        (plain.clone(), None),
        (odd.clone(), Some("new".to_owned())),
    ];
    fleet.until(
        "the changes arrive",
        async || {
            let watched = other.watch().await?;
            assert!(!watched.is_whole, "{watched:?}");
            seen.extend(without_time(watched.changes));
            Ok(seen.clone())
        },
        |seen| expected.iter().all(|one| seen.contains(one)),
    );

    // Whoever begins now sees what there is, and nothing of what was removed.
    let late = fleet.run(fleet.engine(1).watch()).unwrap();
    assert!(late.is_whole, "{late:?}");
    let [beat, _, odd] = expected;
    assert_eq!(without_time(late.changes), [beat, odd]);
}

/// F-02: a look at many keys is whole, with more of them than the server sends without being asked to go on.
#[test]
fn f_02_a_look_at_many_keys_is_whole() {
    let fleet = Fleet::start(1);
    let engine = fleet.engine(0);
    let value = [b'v'; 500];
    let keys: Vec<_> = (0..1000).map(|n| key(&fleet, 0, Some(&n.to_string()))).collect();
    for keys in keys.chunks(50) {
        let puts = keys.iter().map(|key| {
            let mut engine = engine.clone();
            async move { engine.put_state(key, Some(&value)).await }
        });
        let done = fleet.run(futures_util::future::join_all(puts));
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
    let watched = fleet.run(engine.clone().watch()).unwrap();
    assert!(watched.is_whole, "{}", watched.changes.len());
    assert_eq!(watched.changes.len(), keys.len());
}

/// F-05: messages and fates arrive at the machine they are for, with who sent them, and are gone once they are kept.
#[test]
fn f_05_items_arrive_once_and_are_gone_once_they_are_kept() {
    let fleet = Fleet::start(2);
    let [mut one, mut other] = [0, 1].map(|n| fleet.engine(n));
    let to = fleet.machine(1);
    let message = Item::Message("a session".to_owned());
    for (item, bytes) in [(message.clone(), b"do it"), (Item::Fate, b"fated")] {
        let parcel = Parcel { to, item, bytes: bytes.to_vec() };
        fleet.run(one.send(&parcel)).unwrap();
    }
    let mut arrived = Vec::new();
    fleet.until(
        "both items arrive",
        async || {
            arrived.extend(other.inbox(Vec::new()).await?);
            Ok(arrived.len())
        },
        |n| *n == 2,
    );
    arrived.sort_by_key(|delivery| delivery.item.clone());
    let from = Some(fleet.machine(0));
    let found: Vec<_> =
        arrived.iter().map(|one| (one.item.clone(), one.from, &*one.bytes)).collect();
    assert_eq!(found, [(message, from, &b"do it"[..]), (Item::Fate, from, b"fated")]);
    assert!(arrived.iter().all(|one| 1_500_000_000_000 < one.stored_ms), "{arrived:?}");
    let kept = |token| Settled { token, verdict: Verdict::Kept };
    let settled = arrived.iter().map(|one| kept(one.token)).collect();
    assert_eq!(fleet.run(other.inbox(settled)), Ok(Vec::new()));
    for queue in ["COORD_MSG", "COORD_FATE"] {
        assert_eq!(waiting(&fleet, queue), 0, "{queue}");
    }
}

/// How many items wait in a queue.
pub(crate) fn waiting(fleet: &Fleet, queue: &str) -> u64 {
    let info = fleet.api(&format!("STREAM.INFO.{queue}"), &serde_json::json!({}));
    info["state"]["messages"].as_u64().expect("a number")
}

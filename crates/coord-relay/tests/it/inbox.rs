//! What becomes of items that are not settled, or settled otherwise (F-05).

use crate::calls::waiting;
use crate::fleet::Fleet;
use coord_fleet::{Delivery, Engine as _, Item, Parcel, Settled, Verdict};
use coord_relay::NatsEngine;

fn send(fleet: &Fleet, bytes: &[u8]) {
    let item = Item::Message("s".to_owned());
    let parcel = Parcel { to: fleet.machine(1), item, bytes: bytes.to_vec() };
    fleet.run(fleet.engine(0).send(&parcel)).expect("it is sent");
}

/// The next item, after it is said what became of another.
#[track_caller]
fn next(fleet: &Fleet, engine: &mut NatsEngine, settled: Option<(u64, Verdict)>) -> Delivery {
    let settled = settled.map(|(token, verdict)| Settled { token, verdict });
    let mut settled: Vec<Settled> = settled.into_iter().collect();
    let ask = async || engine.inbox(std::mem::take(&mut settled)).await;
    let mut items = fleet.until("an item arrives", ask, |items| !items.is_empty());
    assert_eq!(items.len(), 1, "{items:?}");
    items.remove(0)
}

#[test]
fn f_05_an_item_of_which_nothing_is_said_comes_again() {
    let fleet = Fleet::start(2);
    let mut engine = fleet.engine(1);
    send(&fleet, b"one");
    let first = next(&fleet, &mut engine, None);
    let again = next(&fleet, &mut engine, None);
    assert_eq!((&first.bytes, first.stored_ms), (&again.bytes, again.stored_ms));
    assert_ne!(first.token, again.token);
    // It comes to another process of the machine too.
    drop(engine);
    let mut engine = fleet.engine(1);
    let again = next(&fleet, &mut engine, None);
    assert_eq!(again.bytes, b"one");
    assert_eq!(waiting(&fleet, "COORD_MSG"), 1);
}

#[test]
fn f_05_an_item_comes_again_later_and_not_once_it_is_refused() {
    let fleet = Fleet::start(2);
    let mut engine = fleet.engine(1);
    send(&fleet, b"one");
    let first = next(&fleet, &mut engine, None);
    let again = next(&fleet, &mut engine, Some((first.token, Verdict::Later)));
    assert_eq!(again.bytes, b"one");
    let refused = Settled { token: again.token, verdict: Verdict::Refused };
    assert_eq!(fleet.run(engine.inbox(vec![refused])), Ok(Vec::new()));
    assert_eq!(waiting(&fleet, "COORD_MSG"), 0);
    // A token means nothing once it was used.
    let used = Settled { token: again.token, verdict: Verdict::Kept };
    assert_eq!(fleet.run(engine.inbox(vec![used])), Ok(Vec::new()));
}

/// More items wait than are asked for at once.
#[test]
fn f_05_a_long_queue_is_taken_whole() {
    let fleet = Fleet::start(2);
    let sender = fleet.engine(0);
    let parcel = Parcel { to: fleet.machine(1), item: Item::Fate, bytes: b"fate".to_vec() };
    let sends = (0..200).map(|_| {
        let mut sender = sender.clone();
        let parcel = &parcel;
        async move { sender.send(parcel).await }
    });
    let sent = fleet.run(futures_util::future::join_all(sends));
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let mut engine = fleet.engine(1);
    let mut settled: Vec<Settled> = Vec::new();
    let mut taken = 0;
    fleet.until(
        "all items are taken",
        async || {
            let items = engine.inbox(std::mem::take(&mut settled)).await?;
            taken += items.len();
            let kept = |one: &Delivery| Settled { token: one.token, verdict: Verdict::Kept };
            settled.extend(items.iter().map(kept));
            Ok(taken)
        },
        |taken| *taken == 200,
    );
    fleet.run(engine.inbox(settled)).unwrap();
    assert_eq!(waiting(&fleet, "COORD_FATE"), 0);
}

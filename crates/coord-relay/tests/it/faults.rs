//! What breaks, and comes back.

use crate::fleet::Fleet;
use coord_fleet::{Engine as _, EngineError, Held, Item, Parcel, StateKey};

/// F-04: the connection comes back by itself, and the engine is asked anew what it holds.
#[test]
fn f_04_a_killed_server_is_found_again_with_what_it_holds() {
    let mut fleet = Fleet::start(1);
    let connection = fleet.connection(0);
    let mut engine = connection.engine();
    let place = fleet.run(engine.append(b"batch", 0)).unwrap();
    let beat = StateKey { machine: fleet.machine(0), session: None };
    fleet.run(engine.put_state(&beat, Some(b"beat"))).unwrap();
    fleet.run(engine.watch()).unwrap();
    fleet.run(engine.inbox(Vec::new())).unwrap();
    let before = connection.status();
    assert!(before.is_up && before.server_version.is_some(), "{before:?}");

    let mut changes = connection.changes();
    fleet.server.kill();
    fleet.run(changes.wait_for(|status| !status.is_up)).unwrap();
    let down = fleet.run(engine.held());
    assert!(matches!(down, Err(EngineError::Unreachable(_))), "{down:?}");
    let down = fleet.run(engine.watch());
    assert!(matches!(down, Err(EngineError::Unreachable(_))), "{down:?}");
    let down = fleet.run(engine.inbox(Vec::new()));
    assert!(matches!(down, Err(EngineError::Unreachable(_))), "{down:?}");

    fleet.server.start_again();
    fleet.run(changes.wait_for(|status| status.is_up)).unwrap();
    assert_eq!(connection.status().connects, before.connects + 1);
    let held = Held { place, bytes: b"batch".to_vec() };
    assert_eq!(fleet.run(engine.held()), Ok(Some(held)));
    let watched = fleet.run(engine.watch()).unwrap();
    assert!(watched.is_whole && watched.changes.len() == 1, "{watched:?}");
    fleet.run(engine.append(b"next", place)).unwrap();
    fleet.run(engine.inbox(Vec::new())).unwrap();
}

/// F-07: what waits for a server that is killed hears of it at once.
#[test]
fn f_07_what_waits_for_a_killed_server_hears_of_it() {
    let mut fleet = Fleet::start(1);
    let mut engine = fleet.engine(0);
    fleet.run(engine.watch()).unwrap();
    let Fleet { server, runtime, .. } = &mut fleet;
    let (watched, ()) = runtime.block_on(async {
        let kill = async { server.kill() };
        tokio::join!(engine.watch(), kill)
    });
    assert!(matches!(watched, Err(EngineError::Unreachable(_))), "{watched:?}");
}

/// F-07: a server that hangs answers nothing, which is said soon, and it is found again.
#[test]
fn f_07_a_server_that_hangs_is_unreachable() {
    let fleet = Fleet::start(1);
    let connection = fleet.connection(0);
    let mut engine = connection.engine();
    let mut changes = connection.changes();
    fleet.run(engine.watch()).unwrap();
    fleet.server.hang();
    let hanging = fleet.run(engine.append(b"batch", 0));
    assert!(matches!(hanging, Err(EngineError::Unreachable(_))), "{hanging:?}");
    fleet.run(changes.wait_for(|status| !status.is_up)).unwrap();
    fleet.server.go_on();
    fleet.run(changes.wait_for(|status| status.is_up)).unwrap();
    // The batch may have arrived in the end, as the engine says it may.
    let held = fleet.run(engine.held()).unwrap();
    let after = held.map_or(0, |held| held.place);
    fleet.run(engine.append(b"next", after)).unwrap();
    assert!(fleet.run(engine.watch()).unwrap().is_whole);
}

/// F-04: a batch may be as large as a sealed text may be; what the server does not take is said at once.
#[test]
fn f_04_a_batch_may_be_as_large_as_a_sealed_text() {
    let fleet = Fleet::start(1);
    let mut engine = fleet.engine(0);
    let largest = vec![b'x'; coord_fleet::sealed::TEXT_BYTES_MAX + 1024];
    let place = fleet.run(engine.append(&largest, 0)).unwrap();
    let held = fleet.run(engine.held()).unwrap().unwrap();
    assert_eq!((held.place, held.bytes), (place, largest));
    let beyond = fleet.run(engine.append(&vec![b'x'; 1 << 20], place));
    assert!(matches!(beyond, Err(EngineError::Other(_))), "{beyond:?}");
}

/// F-04: a server that lost everything holds nothing, and says so by what it does not know.
#[test]
fn f_04_a_wiped_server_holds_nothing() {
    let mut fleet = Fleet::start(2);
    let connection = fleet.connection(0);
    let mut engine = connection.engine();
    let place = fleet.run(engine.append(b"batch", 0)).unwrap();
    let beat = StateKey { machine: fleet.machine(0), session: None };
    fleet.run(engine.put_state(&beat, Some(b"beat"))).unwrap();
    fleet.run(engine.watch()).unwrap();
    fleet.run(engine.inbox(Vec::new())).unwrap();

    fleet.server.wipe();
    let is_unset = |error: &EngineError| match error {
        EngineError::Other(why) => why.contains("coord fleet init"),
        EngineError::Conflict
        | EngineError::Denied { .. }
        | EngineError::Full(_)
        | EngineError::Unreachable(_) => false,
    };
    _ = fleet.until(
        "it is said that the server is not set up",
        async || Ok(engine.held().await),
        |held| held.as_ref().is_err_and(is_unset),
    );
    for answer in
        [fleet.run(engine.append(b"batch", place)).err(), fleet.run(engine.inbox(Vec::new())).err()]
    {
        assert!(answer.as_ref().is_some_and(is_unset), "{answer:?}");
    }
    fleet.set_up();
    assert_eq!(fleet.run(engine.held()), Ok(None));
    assert_eq!(fleet.run(engine.append(b"batch", place)), Err(EngineError::Conflict));
    fleet.run(engine.append(b"batch", 0)).unwrap();
    let watched = fleet.run(engine.watch()).unwrap();
    assert!(watched.is_whole && watched.changes.is_empty(), "{watched:?}");
    fleet.run(engine.inbox(Vec::new())).unwrap();
}

/// F-07: a queue that is full takes no more, and says that it is full.
#[test]
fn f_07_a_full_queue_is_named() {
    let fleet = Fleet::start(2);
    let mut engine = fleet.engine(0);
    let item = Item::Message("s".to_owned());
    let parcel = Parcel { to: fleet.machine(1), item, bytes: vec![b'x'; 10_000] };
    let sent = (0..20).map(|_| fleet.run(engine.send(&parcel)));
    let refused = sent.into_iter().find_map(Result::err);
    assert!(
        matches!(&refused, Some(EngineError::Full(why)) if why.contains("maximum bytes")),
        "{refused:?}"
    );
    // The journal goes on, and forgets the oldest batches instead.
    let mut place = 0;
    for _ in 0..60 {
        place = fleet.run(engine.append(&vec![b'x'; 100_000], place)).unwrap();
    }
}

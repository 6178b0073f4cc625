//! F-05: what is carried between the engine and the coordinator, and what one item does to the others.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use coord_fleet::{Carrier, CarryError, Engine as _, Item, Keys, Local, Parcel};
use coord_testkit::{EngineFaults, FakeEngine, FakeServer, ready};
use coord_wire::fleet::{InboxAnswer, InboxItem, ItemVerdict, Outbox, OutboxAsk};

fn keys(number: u8) -> Keys {
    Keys::from_seed(&[number; 32]).expect("a key")
}

/// A coordinator that notes what it is handed, and does not answer for some of it.
#[derive(Debug, Default)]
struct Notes {
    handed: Vec<String>,
    is_down: bool,
}

impl Local for Notes {
    fn outbox(&mut self, _: &OutboxAsk) -> io::Result<Outbox> {
        Ok(Outbox::default())
    }

    fn inbox(&mut self, item: &InboxItem) -> io::Result<InboxAnswer> {
        if self.is_down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.handed.push(item.sealed.clone());
        let verdict = if item.sealed == "later" { ItemVerdict::Later } else { ItemVerdict::Kept };
        Ok(InboxAnswer { verdict, why: String::new() })
    }
}

/// An engine in which these items wait.
fn engine_with(items: &[&[u8]]) -> FakeEngine {
    let server = Rc::new(RefCell::new(FakeServer::default()));
    let engine =
        |number| FakeEngine::new(&server, keys(number).machine(), EngineFaults::default(), 0);
    let mut sender = engine(1);
    for bytes in items {
        let parcel = Parcel { to: keys(2).machine(), item: Item::Fate, bytes: bytes.to_vec() };
        ready(sender.send(&parcel)).expect("it is sent");
    }
    engine(2)
}

#[test]
fn f_06_what_no_coordinator_would_take_is_not_handed_to_one() {
    let mut engine = engine_with(&[&vec![b'x'; 500 * 1024], b"\xff", b"good"]);
    let (mut carrier, mut local) = (Carrier::default(), Notes::default());
    for _ in 0..3 {
        ready(carrier.receive(&mut engine, &mut local, None)).expect("both answer");
    }
    assert_eq!(local.handed, ["good"], "and each is over");
    assert_eq!(carrier.refused, 2);
}

#[test]
fn f_05_an_item_that_cannot_be_taken_now_comes_again_and_keeps_no_other() {
    let mut engine = engine_with(&[b"later", b"good"]);
    let (mut carrier, mut local) = (Carrier::default(), Notes::default());
    for _ in 0..3 {
        ready(carrier.receive(&mut engine, &mut local, None)).expect("both answer");
    }
    let count = |what: &str| local.handed.iter().filter(|one| *one == what).count();
    assert_eq!((count("later"), count("good")), (3, 1));
}

#[test]
fn f_05_without_a_coordinator_nothing_is_settled() {
    let mut engine = engine_with(&[b"good"]);
    let (mut carrier, mut local) =
        (Carrier::default(), Notes { is_down: true, ..Notes::default() });
    for _ in 0..3 {
        let received = ready(carrier.receive(&mut engine, &mut local, None));
        assert!(matches!(received, Err(CarryError::Local(_))), "{received:?}");
    }
    local.is_down = false;
    assert!(ready(carrier.receive(&mut engine, &mut local, None)).expect("both answer"));
    assert_eq!(local.handed, ["good"]);
}

//! F-02, F-06, F-07: what is known of other machines, and how old it is.

use coord_fleet::{
    Beat, Change, Incarnation, Keys, Peers, SILENT_MS, SessionState, StateKey, Watched,
};
use serde_json::value::RawValue;

fn keys(number: u8) -> Keys {
    Keys::from_seed(&[number; 32]).expect("a key")
}

fn beat(keys: &Keys, at_ms: u64, stored_ms: u64) -> Change {
    let incarnation = Incarnation("i".to_owned());
    let beat = Beat {
        name: "there".to_owned(),
        version: "1".to_owned(),
        incarnation,
        last: 1,
        at_ms,
        notifies: false,
        notifier: None,
        taken: Vec::new(),
    };
    let key = StateKey { machine: keys.machine(), session: None };
    Change { key, value: Some(beat.seal(keys)), stored_ms }
}

fn state(keys: &Keys, session: &str, signed_by: &Keys) -> Change {
    let value = SessionState {
        machine: keys.machine(),
        incarnation: Incarnation("i".to_owned()),
        seq: 1,
        session: RawValue::from_string("{}".to_owned()).expect("JSON"),
    };
    let key = StateKey { machine: keys.machine(), session: Some(session.to_owned()) };
    Change { key, value: Some(value.seal(signed_by)), stored_ms: 1_000 }
}

fn changed(changes: Vec<Change>) -> Watched {
    Watched { is_whole: false, changes }
}

fn whole(changes: Vec<Change>) -> Watched {
    Watched { is_whole: true, changes }
}

#[test]
fn f_02_sessions_are_known_by_their_machine_in_any_order() {
    let [one, other] = [keys(1), keys(2)];
    let mut peers = Peers::default();
    let all = vec![state(&one, "s1", &one), state(&other, "s1", &other), beat(&one, 1_000, 1_000)];
    assert_eq!(peers.take_in(whole(all), 50), []);
    let known = &peers.all()[&one.machine()];
    assert_eq!(known.sessions.keys().collect::<Vec<_>>(), ["s1"]);
    assert!(!peers.all().contains_key(&other.machine()));
    peers.take_in(changed(vec![beat(&other, 1_000, 1_000)]), 60);
    assert!(peers.all()[&other.machine()].sessions.contains_key("s1"));
    // A key that was removed is gone, and so is what a new look does not find.
    let gone = StateKey { machine: one.machine(), session: Some("s1".to_owned()) };
    peers.take_in(changed(vec![Change { key: gone, value: None, stored_ms: 2_000 }]), 70);
    assert!(peers.all()[&one.machine()].sessions.is_empty());
    peers.take_in(whole(vec![beat(&other, 1_000, 1_000)]), 80);
    assert_eq!(peers.all().keys().collect::<Vec<_>>(), [&other.machine()]);
    assert!(peers.all()[&other.machine()].sessions.is_empty());
    assert!(peers.take_changed().any(|machine| machine == one.machine()));
}

#[test]
fn f_06_nobody_speaks_for_another_machine() {
    let [one, other] = [keys(1), keys(2)];
    let mut peers = Peers::default();
    let mut forged = beat(&other, 1_000, 1_000);
    forged.key.machine = one.machine();
    let refused = peers.take_in(whole(vec![forged, state(&one, "s1", &other)]), 0);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(peers.all().is_empty());
    // Nor does a machine's own older value count for another key: it names its machine.
    let mut moved = state(&other, "s1", &other);
    moved.key.machine = one.machine();
    assert_eq!(peers.take_in(changed(vec![moved]), 0).len(), 1);
}

#[test]
fn f_07_the_age_of_a_beat_follows_no_other_machines_clock() {
    let [one, other] = [keys(1), keys(2)];
    let mut peers = Peers::default();
    let hour_ms = 3_600_000;
    // The engine stored one beat a minute before the other; the machines' own clocks are an hour off either way.
    let engine_ms = 10 * hour_ms;
    let all = vec![
        beat(&one, engine_ms + hour_ms, engine_ms - 60_000),
        beat(&other, engine_ms - hour_ms, engine_ms),
    ];
    peers.take_in(whole(all), 5 * 60_000);
    let [first, second] = [&peers.all()[&one.machine()], &peers.all()[&other.machine()]];
    assert_eq!((first.heard_ms, second.heard_ms), (4 * 60_000, 5 * 60_000));
    assert_eq!(first.skew_ms, (hour_ms + 60_000).cast_signed());
    assert_eq!(second.skew_ms, -hour_ms.cast_signed());
    assert!(SILENT_MS < 5 * 60_000 - first.heard_ms);
    // All that was there was old: what comes live shows how old.
    let live = keys(3);
    let later_ms = engine_ms + hour_ms;
    peers.take_in(changed(vec![beat(&live, later_ms, later_ms)]), 6 * 60_000);
    let [first, second] = [&peers.all()[&one.machine()], &peers.all()[&other.machine()]];
    assert_eq!(peers.all()[&live.machine()].heard_ms, 6 * 60_000);
    assert_eq!((first.heard_ms, second.heard_ms), (0, 0), "an hour ago, before this boot");
}

//! F-02: what the coordinator hears of the needs of other machines, and of who tells of this one's.

use std::collections::BTreeSet;

use coord_fleet::{
    Beat, Change, Incarnation, Keys, NeedsHeard, Peers, SILENT_MS, SessionState, StateKey, Watched,
};
use coord_model::{MachineId, NeedId};
use coord_wire::fleet::{FleetNotices, NoticesAnswer, TakenNeed};
use coord_wire::limits::BODY_BYTES_MAX;
use serde_json::{json, value::to_raw_value};

fn keys(number: u16) -> Keys {
    let mut seed = [1; 32];
    seed[..2].copy_from_slice(&number.to_le_bytes());
    Keys::from_seed(&seed).expect("a key")
}

fn incarnation() -> Incarnation {
    Incarnation("i".to_owned())
}

/// Says that it is there, that it tells for others, or who tells for it.
fn beat(keys: &Keys, tells: bool, notifier: Option<MachineId>, taken: Vec<TakenNeed>) -> Change {
    let (name, version) = ("there".to_owned(), "1".to_owned());
    let beat = Beat {
        name,
        version,
        incarnation: incarnation(),
        last: 1,
        at_ms: 1_000,
        notifies: tells,
        notifier,
        taken,
    };
    let key = StateKey { machine: keys.machine(), session: None };
    Change { key, value: Some(beat.seal(keys)), stored_ms: 1_000 }
}

/// A session with so many needs.
fn session(keys: &Keys, needs: u32, text: &str) -> Change {
    let needs: Vec<_> = (1..=needs)
        .map(|number| {
            json!({
                "id": format!("a_1.{number}"), "kind": "permission", "text": text, "command": null,
                "since": "2026-01-01T00:00:00.000Z",
            })
        })
        .collect();
    let session = json!({"session_id": "s", "display_name": "parser", "cwd": text, "needs": needs});
    let state = SessionState {
        machine: keys.machine(),
        incarnation: incarnation(),
        seq: 1,
        session: to_raw_value(&session).expect("JSON"),
    };
    let key = StateKey { machine: keys.machine(), session: Some("s".to_owned()) };
    Change { key, value: Some(state.seal(keys)), stored_ms: 1_000 }
}

/// What is known after these changes, and of which machines the coordinator is to hear.
fn known(own: &Keys, changes: Vec<Change>) -> (Peers, NeedsHeard) {
    let (mut peers, mut needs) = (Peers::default(), NeedsHeard::new(own.machine()));
    assert_eq!(peers.take_in(Watched { is_whole: true, changes }, 1_000), []);
    needs.note_changed(peers.changed());
    (peers, needs)
}

fn heard(notices: &FleetNotices) -> Vec<(MachineId, Option<usize>)> {
    let needs = |one: &coord_wire::fleet::MachineNeeds| one.needs.as_ref().map(Vec::len);
    notices.machines.iter().map(|one| (one.machine, needs(one))).collect()
}

fn tells_for(machines: &[MachineId]) -> NoticesAnswer {
    NoticesAnswer { tells_for: machines.to_vec(), ..NoticesAnswer::default() }
}

#[test]
fn f_02_needs_are_heard_of_machines_that_leave_them_to_this_one_and_are_not_silent() {
    let [own, desk, other] = [keys(1), keys(2), keys(3)];
    let changes = vec![
        beat(&desk, false, Some(own.machine()), Vec::new()),
        session(&desk, 2, "asks"),
        beat(&other, false, Some(desk.machine()), Vec::new()),
        session(&other, 1, "asks"),
    ];
    let (peers, mut needs) = known(&own, changes);
    let notices = needs.notices(&peers, 2_000);
    assert_eq!(heard(&notices), [(desk.machine(), Some(2))]);
    let need = &notices.machines[0].needs.as_ref().expect("needs")[0];
    assert_eq!((need.name.as_str(), need.text.as_str(), need.was_told), ("parser", "asks", false));
    needs.note_answer(&notices, &tells_for(&[desk.machine()]));
    assert_eq!(heard(&needs.notices(&peers, 2_000)), [], "nothing changed");
    let late_ms = 2_000 + SILENT_MS;
    assert_eq!(heard(&needs.notices(&peers, late_ms)), [(desk.machine(), None)]);
}

#[test]
fn f_02_the_machine_that_tells_is_heard_with_what_it_has_taken_on() {
    let [own, laptop, other] = [keys(1), keys(2), keys(3)];
    let id = |number| NeedId { session: coord_model::SessionKey(1), number };
    let need = |number, told| TakenNeed { machine: own.machine(), need: id(number), told };
    let elsewhere = TakenNeed { machine: other.machine(), need: id(9), told: true };
    let changes = vec![
        beat(&laptop, true, None, vec![need(1, true), need(2, false), elsewhere]),
        beat(&other, false, None, Vec::new()),
    ];
    let (peers, mut needs) = known(&own, changes);
    let notices = needs.notices(&peers, 2_000);
    assert_eq!(notices.notifiers.len(), 1);
    let found = &notices.notifiers[0];
    assert_eq!((found.machine, &found.told), (laptop.machine(), &vec![id(1)]));
    assert_eq!(found.taken, [id(1), id(2)]);
    assert_eq!(needs.notices(&peers, 2_000 + SILENT_MS).notifiers, [], "it is silent");
}

// F-02: however much other machines say, a request to the coordinator is small enough to be taken, and in the end it has
// heard all.
#[test]
fn f_02_what_is_heard_at_once_is_bounded() {
    let own = keys(1);
    let machines: Vec<Keys> = (2..42).map(keys).collect();
    let mut changes = Vec::new();
    for one in &machines {
        let taken = |number| TakenNeed {
            machine: own.machine(),
            need: NeedId { session: coord_model::SessionKey(u64::MAX), number },
            told: true,
        };
        changes.push(beat(one, true, Some(own.machine()), (0..2_000).map(taken).collect()));
        changes.push(session(one, 150, &"\u{1}".repeat(200)));
    }
    let (peers, mut needs) = known(&own, changes);
    let mut all = BTreeSet::new();
    loop {
        let notices = needs.notices(&peers, 2_000);
        assert!(serde_json::to_vec(&notices).expect("JSON").len() <= BODY_BYTES_MAX);
        if notices.machines.is_empty() {
            break;
        }
        all.extend(notices.machines.iter().map(|one| one.machine));
        needs.note_answer(&notices, &tells_for(&[]));
    }
    assert_eq!(all, machines.iter().map(Keys::machine).collect());
}

//! Who tells people of a need if another machine may (F-02): no need is left to a machine of which nothing is heard, or
//! that is not on the list.

use coord_fleet::Allowed;
use coord_model::{NeedElsewhere, NeedId, NeedKind, SessionKey};
use coord_wire::fleet::{FleetNotices, HeardNotifier, MachineNeeds, NoticesAnswer};

use super::*;

/// The relay asks this often.
const RELAY_MS: u64 = 10_000;

impl Place {
    /// The relay says what it heard.
    fn hears(&mut self, heard: &FleetNotices) -> NoticesAnswer {
        self.post("/v1/fleet/notices", heard).unwrap()
    }

    /// The same for a while, as often as the relay says it.
    fn hears_for(&mut self, heard: &FleetNotices, ms: u64) {
        for _ in 0..ms / RELAY_MS {
            self.hears(heard);
            self.pass(RELAY_MS);
        }
    }

    /// The client waits for a permission.
    fn needs_permission(&mut self, client: ProcessRef) -> NeedId {
        let ask = json!({
            "hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "ls"}
        });
        self.hook(client, ask);
        (0..3).for_each(|_| self.turn());
        let state = self.serving.coordinator().state();
        let mut needs = state.sessions().flat_map(coord_core::Session::open_needs);
        needs.next().expect("a need").id
    }

    /// The needs of which people were told here since the last call.
    fn told(&mut self) -> Vec<NeedId> {
        let shown = self.machine.get().channels.take_shown();
        shown.into_iter().filter_map(|one| one.id).collect()
    }

    /// The list is now this one.
    fn lists(&mut self, list: &str) {
        let allowed = Allowed::parse(list).unwrap();
        self.machine.get().membership.as_mut().unwrap().allowed = allowed;
    }
}

fn may_notify(number: u8) -> String {
    format!("{} m{number} notify\n", keys(number).public())
}

/// Machine 2 tells of this machine's needs, and has taken these on.
fn taken_on(taken: &[NeedId]) -> FleetNotices {
    let machine = keys(2).machine();
    let notifier = HeardNotifier { machine, told: Vec::new(), taken: taken.to_vec() };
    FleetNotices { notifiers: vec![notifier], machines: Vec::new() }
}

// F-02: if the own relay falls silent, nobody knows whether the other machine still tells.
#[test]
fn f_02_a_machine_whose_relay_is_silent_tells_of_its_needs_itself() {
    let mut place = Place::with_list(1, &may_notify(2), &Config::default());
    let client = place.begins_session();
    let nothing_taken = taken_on(&[]);
    assert_eq!(place.hears(&nothing_taken).notifier, Some(keys(2).machine()));
    let need = place.needs_permission(client);
    place.hears_for(&taken_on(&[need]), 300_000);
    assert_eq!(place.told(), [], "another machine has taken it on");
    place.pass(20_000);
    assert_eq!(place.told(), [], "a relay may be silent for a moment");
    place.pass(60_000);
    assert_eq!(place.told(), [need]);
    // The relay is back: what was told here is not to be told there.
    let answer = place.hears(&taken_on(&[need]));
    assert!(answer.taken.iter().any(|one| one.need == need && one.told), "{answer:?}");
}

// F-02: who is taken off the list tells nothing, and nothing is told for it.
#[test]
fn f_02_a_machine_that_is_taken_off_the_list_is_left_at_once() {
    let mut place = Place::with_list(1, &may_notify(2), &Config::default());
    let client = place.begins_session();
    place.hears(&taken_on(&[]));
    let need = place.needs_permission(client);
    place.hears_for(&taken_on(&[need]), 60_000);
    assert_eq!(place.told(), []);
    place.lists("");
    assert_eq!(place.hears(&taken_on(&[need])).notifier, None);
    place.pass(30_000);
    assert_eq!(place.told(), [need]);
}

// F-02: the same where the needs of the other are told.
#[test]
fn f_02_the_needs_of_a_machine_that_is_taken_off_the_list_are_told_no_more() {
    let tells = Config::parse("[fleet]\nnotify = true\n").unwrap();
    let mut place = Place::with_list(2, &may_notify(1), &tells);
    let machine = keys(1).machine();
    let need = NeedElsewhere {
        id: NeedId { session: SessionKey(1), number: 1 },
        kind: NeedKind::Permission,
        since_ms: NOW.wall_ms,
        session_id: SESSION.to_owned(),
        name: "auth".to_owned(),
        text: "wants to run ls".to_owned(),
        directory: "/home/dev/project".to_owned(),
        place: None,
        was_told: false,
    };
    let needs = vec![MachineNeeds { machine, needs: Some(vec![need]) }];
    let heard = FleetNotices { notifiers: Vec::new(), machines: needs };
    let answer = place.hears(&heard);
    assert_eq!((answer.notifies, &*answer.tells_for), (true, &[machine][..]));
    assert_eq!(answer.taken.len(), 1);
    place.lists("");
    let answer = place.hears(&FleetNotices::default());
    assert!(answer.taken.is_empty() && answer.tells_for.is_empty(), "{answer:?}");
    place.pass(300_000);
    assert_eq!(place.told(), []);
}

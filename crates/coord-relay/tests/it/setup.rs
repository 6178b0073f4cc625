//! Setting a server up (F-01).

use crate::fleet::{Fleet, block, limits};
use coord_fleet::{Engine as _, EngineError};
use coord_model::MachineId;
use coord_relay::Connection;
use coord_relay::init::{self, Difference, InitError, Limits};
use coord_relay::login::Login;
use coord_tests::nats::Users;
use serde_json::json;

#[test]
fn f_01_a_second_set_up_changes_nothing_and_says_so() {
    let fleet = Fleet::bare(2);
    let ids = fleet.ids();
    let [one, other] = [ids[0], ids[1]];
    let expected = [
        "COORD_JOURNAL".to_owned(),
        "COORD_MSG".to_owned(),
        "COORD_FATE".to_owned(),
        "KV_COORD_SESSIONS".to_owned(),
        "KV_COORD_HOSTS".to_owned(),
        format!("COORD_MSG/{one}"),
        format!("COORD_FATE/{one}"),
        format!("COORD_MSG/{other}"),
        format!("COORD_FATE/{other}"),
    ];
    let set_up = || fleet.init(&fleet.administrator, &ids, &limits()).unwrap();
    let first = set_up();
    assert_eq!((&*first.created, &*first.unchanged), (&expected[..], &[][..]));
    assert!(first.server_version.is_some());
    let second = set_up();
    assert_eq!((&*second.created, &*second.unchanged), (&[][..], &expected[..]));
}

/// The limits that are used unless others are asked for are taken by the server.
#[test]
fn f_01_the_usual_limits_are_taken() {
    let fleet = Fleet::bare(1);
    let set_up = fleet.init(&fleet.administrator, &fleet.ids(), &Limits::default());
    assert_eq!(set_up.unwrap().created.len(), 7);
}

#[track_caller]
fn different(fleet: &Fleet) -> Difference {
    match fleet.init(&fleet.administrator, &fleet.ids(), &limits()).expect_err("a difference") {
        InitError::Different(difference) => *difference,
        InitError::Engine(error) => panic!("{error}"),
    }
}

#[test]
fn f_01_a_stream_that_is_otherwise_is_named_with_its_field() {
    let fleet = Fleet::bare(1);
    let other = json!({
        "name": "COORD_JOURNAL",
        "subjects": ["coord.v1.journal.*"],
        "storage": "file",
        "num_replicas": 1,
        "max_bytes": limits().journal_bytes,
        "retention": "limits",
        "discard": "old",
        "max_age": 86_400_000_000_000_u64,
    });
    let created = fleet.api("STREAM.CREATE.COORD_JOURNAL", &other);
    assert!(created["error"].is_null(), "{created}");
    let found = different(&fleet);
    assert_eq!(
        (&*found.of, &*found.field, &*found.asked),
        ("COORD_JOURNAL", "allow_direct", "true")
    );
    assert_eq!((found.is_new, found.needs), (false, Some("2.9")));
    let text = found.to_string();
    assert!(
        text.contains("`allow_direct`") && text.contains("2.9") && text.contains("true"),
        "{text}"
    );
}

#[test]
fn f_01_a_consumer_that_is_otherwise_is_named_with_its_field() {
    let fleet = Fleet::start(1);
    let own = fleet.machine(0);
    let deleted = fleet.api(&format!("CONSUMER.DELETE.COORD_MSG.{own}"), &json!({}));
    assert_eq!(deleted["success"], true, "{deleted}");
    // A subject of the client's own choosing would be filtered otherwise.
    let config = json!({
        "name": own,
        "durable_name": own,
        "filter_subject": "coord.v1.msg.>",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": 2_000_000_000_u64,
        "max_deliver": -1,
        "max_ack_pending": -1,
    });
    let body = json!({"stream_name": "COORD_MSG", "config": config});
    let create = format!("CONSUMER.CREATE.COORD_MSG.{own}.coord.v1.msg.>");
    let created = fleet.api(&create, &body);
    assert!(created["error"].is_null(), "{created}");
    let found = different(&fleet);
    assert_eq!((found.of, &*found.field), (format!("COORD_MSG/{own}"), "filter_subject"));
}

/// F-07: without the permission to set a server up, that is said.
#[test]
fn f_07_a_machine_cannot_set_a_server_up() {
    let fleet = Fleet::bare(1);
    let error = fleet.init(&fleet.machines[0].1, &[], &limits()).unwrap_err();
    assert!(matches!(error, InitError::Engine(EngineError::Denied { .. })), "{error}");
}

#[test]
fn f_01_one_more_machine_is_let_in() {
    let mut fleet = Fleet::start(1);
    let (machine, login) = (MachineId(0xff), Login::new().unwrap());
    let settings = fleet.settings(&login);
    let unknown = fleet.run(Connection::open(&settings, machine));
    assert!(unknown.is_err(), "{unknown:?}");
    let (administrator, limits) = (fleet.settings(&fleet.administrator), limits());
    let add = init::add_machine(&administrator, machine, &limits);
    let report = fleet.run(add).unwrap();
    assert_eq!(report.created, [format!("COORD_MSG/{machine}"), format!("COORD_FATE/{machine}")]);
    let administrator = fleet.administrator.public_key().to_owned();
    fleet.server.set_users(Users { administrator, others: vec![block(machine, &login)] });
    let mut engine = fleet.run(Connection::open(&settings, machine)).unwrap().engine();
    assert_eq!(fleet.run(engine.held()), Ok(None));
    assert_eq!(fleet.run(engine.inbox(Vec::new())), Ok(Vec::new()));
}

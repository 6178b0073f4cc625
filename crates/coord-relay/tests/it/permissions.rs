//! What a machine may do at the server: everything that it needs, and nothing in another's name (F-07).

use crate::fleet::{Client, Fleet, block};
use async_nats::{HeaderMap, Message};
use coord_fleet::{Engine as _, EngineError, Item, Parcel, StateKey};
use coord_tests::nats::Users;
use coord_tests::wait::wait_until;
use futures_util::StreamExt as _;
use serde_json::json;

/// What the server reported next.
fn reported(fleet: &Fleet, client: &mut Client) -> String {
    let limit = coord_tests::wait::PATIENCE;
    let next = async { tokio::time::timeout(limit, client.errors.recv()).await };
    fleet.run(next).expect("the server reports a refusal").expect("the client is there")
}

#[track_caller]
fn cannot_publish(fleet: &Fleet, client: &mut Client, subject: &str, body: &str) {
    let body = body.to_owned().into_bytes();
    fleet.run(client.client.publish(subject.to_owned(), body.into())).expect("it is sent");
    let error = reported(fleet, client);
    let expected = format!("Permissions Violation for Publish to \"{subject}\"");
    assert!(error.to_lowercase().contains(&expected.to_lowercase()), "{subject}: {error}");
}

#[track_caller]
fn cannot_listen(fleet: &Fleet, client: &mut Client, subject: &str) {
    let subscriber = fleet.run(client.client.subscribe(subject.to_owned())).expect("it is sent");
    let error = reported(fleet, client);
    let expected = format!("Permissions Violation for Subscription to \"{subject}\"");
    assert!(error.to_lowercase().contains(&expected.to_lowercase()), "{subject}: {error}");
    drop(subscriber);
}

#[test]
fn f_07_a_machine_can_act_in_its_own_name_alone() {
    let fleet = Fleet::start(2);
    let [own, other] = [0, 1].map(|n| fleet.machine(n));
    let mut client = fleet.client(&fleet.machines[0].1);
    let mut publish =
        |subject: &str, body: &str| cannot_publish(&fleet, &mut client, subject, body);
    // Another's journal, state and beat.
    publish(&format!("coord.v1.journal.{other}"), "forged");
    publish(&format!("$KV.COORD_SESSIONS.{other}.s"), "forged");
    publish(&format!("$KV.COORD_HOSTS.{other}"), "forged");
    // A message and a fate under another's name.
    publish(&format!("coord.v1.msg.{own}.{other}.s"), "forged");
    publish(&format!("coord.v1.fate.{own}.{other}"), "forged");
    // Another's inbox: taking from it, settling what is in it, and answering what is asked of it.
    for queue in ["COORD_MSG", "COORD_FATE"] {
        publish(&format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{other}"), "1");
        publish(&format!("$JS.API.CONSUMER.INFO.{queue}.{other}"), "");
        publish(&format!("$JS.ACK.{queue}.{other}.1.1.1.1.0"), "+ACK");
        publish(&format!("$JS.API.CONSUMER.CREATE.{queue}.mine"), "{}");
        publish(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{queue}.mine"), "{}");
        publish(&format!("$JS.API.STREAM.MSG.GET.{queue}"), "{\"seq\":1}");
    }
    publish(&format!("_INBOX_coord.{other}.x"), "forged");
    // Another's journal is read a batch at a time, which costs the server little, and in no other way.
    publish(&format!("$JS.API.DIRECT.GET.COORD_JOURNAL.coord.v1.journal.{other}"), "");
    publish("$JS.API.CONSUMER.CREATE.COORD_JOURNAL", "{}");
    // The streams themselves.
    for stream in
        ["COORD_JOURNAL", "COORD_MSG", "COORD_FATE", "KV_COORD_SESSIONS", "KV_COORD_HOSTS"]
    {
        for act in ["DELETE", "PURGE", "UPDATE", "CREATE", "MSG.DELETE"] {
            publish(&format!("$JS.API.STREAM.{act}.{stream}"), "{}");
        }
    }
    publish("$JS.API.STREAM.NAMES", "");
    publish("$JS.API.INFO", "");
    publish("anything", "else");
    // Listening: to journals, to messages, to other machines' answers.
    for subject in [
        "coord.v1.journal.*",
        &format!("coord.v1.journal.{other}"),
        "coord.v1.msg.>",
        &format!("coord.v1.msg.{own}.>"),
        &format!("_INBOX_coord.{other}.>"),
        "_INBOX_coord.>",
        "$KV.>",
        "$JS.>",
        ">",
    ] {
        cannot_listen(&fleet, &mut client, subject);
    }
    let empty = json!({});
    for stream in
        ["COORD_JOURNAL", "COORD_MSG", "COORD_FATE", "KV_COORD_SESSIONS", "KV_COORD_HOSTS"]
    {
        let info = fleet.api(&format!("STREAM.INFO.{stream}"), &empty);
        assert_eq!(info["state"]["messages"], 0, "{stream}: {info}");
    }
}

/// A machine without one of its permissions, or with none at all, hears which one is missing.
#[test]
fn f_07_a_missing_permission_is_named_with_its_subject() {
    let mut fleet = Fleet::start(2);
    let [own, other] = [0, 1].map(|n| fleet.machine(n));
    let login = &fleet.machines[0].1;
    let whole = block(own, login);
    let connection = fleet.connection(0);
    let mut engine = connection.engine();
    let key = StateKey { machine: own, session: Some("s".to_owned()) };
    let parcel = Parcel { to: other, item: Item::Fate, bytes: Vec::new() };
    let users = |block: String| Users {
        administrator: fleet.administrator.public_key().to_owned(),
        others: vec![block],
    };
    let cases = [
        ("  \"coord.v1.journal", format!("coord.v1.journal.{own}"), 0),
        ("\"$JS.API.DIRECT", format!("$JS.API.DIRECT.GET.COORD_JOURNAL.coord.v1.journal.{own}"), 1),
        ("\"$KV.COORD_SESSIONS", format!("$KV.COORD_SESSIONS.{own}.s"), 2),
        ("\"coord.v1.fate", format!("coord.v1.fate.{other}.{own}"), 3),
        (
            "\"$JS.API.CONSUMER.MSG.NEXT.COORD_FATE",
            format!("$JS.API.CONSUMER.MSG.NEXT.COORD_FATE.{own}"),
            4,
        ),
        ("\"$JS.API.CONSUMER.INFO.COORD_MSG", format!("$JS.API.CONSUMER.INFO.COORD_MSG.{own}"), 4),
        (
            "\"$JS.API.CONSUMER.CREATE.KV_COORD_HOSTS\"",
            "$JS.API.CONSUMER.CREATE.KV_COORD_HOSTS".to_owned(),
            5,
        ),
    ];
    let cases = cases.map(|(begin, subject, act)| {
        let lines = whole.lines().filter(|line| !line.contains(begin));
        let less: String = lines.flat_map(|line| [line, "\n"]).collect();
        assert_ne!(less, whole, "{begin}");
        (users(less), subject, act)
    });
    let restored = users(whole);
    for (users, subject, act) in cases {
        fleet.server.set_users(users);
        let denied = EngineError::Denied { subject: subject.clone(), what: "publish" };
        fleet.until(
            "the missing permission is named",
            async || {
                let error = match act {
                    0 => engine.append(b"batch", 0).await.err(),
                    1 => engine.held().await.err(),
                    2 => engine.put_state(&key, Some(b"state")).await.err(),
                    3 => engine.send(&parcel).await.err(),
                    4 => engine.clone().inbox(Vec::new()).await.err(),
                    _ => engine.clone().watch().await.err(),
                };
                Ok(error)
            },
            |error| error.as_ref() == Some(&denied),
        );
        let last = connection.status().last_error.unwrap();
        assert_eq!(last.subject.as_deref(), Some(&*subject), "{last:?}");
    }
    // All of them together are enough again, on the same connection.
    fleet.server.set_users(restored);
    fleet.until("the journal is appended to", async || engine.append(b"batch", 0).await, |_| true);
}

/// Without its inbox no answer ever comes, and that is said.
#[test]
fn f_07_a_missing_inbox_is_named() {
    let mut fleet = Fleet::start(1);
    let (own, login) = &fleet.machines[0];
    let less = block(*own, login).replace("_INBOX_coord.", "_INBOX_other.");
    let administrator = fleet.administrator.public_key().to_owned();
    fleet.server.set_users(Users { administrator, others: vec![less] });
    let mut engine = fleet.engine(0);
    let error = fleet.run(engine.held()).unwrap_err();
    let EngineError::Denied { subject, what: "subscribe" } = &error else { panic!("{error}") };
    assert!(subject.starts_with("_INBOX_coord."), "{error}");
}

/// A login that is taken from the server loses its connection, and gets none again.
#[test]
fn f_07_a_revoked_login_is_cut_off() {
    let mut fleet = Fleet::start(1);
    let connection = fleet.connection(0);
    let administrator = fleet.administrator.public_key().to_owned();
    let mut changes = connection.changes();
    fleet.server.set_users(Users { administrator, others: Vec::new() });
    fleet.run(changes.wait_for(|status| !status.is_up)).unwrap();
    let is_told = |error: &EngineError| match error {
        EngineError::Unreachable(why) => why.to_lowercase().contains("authorization"),
        EngineError::Conflict
        | EngineError::Denied { .. }
        | EngineError::Full(_)
        | EngineError::Other(_) => false,
    };
    let mut engine = connection.engine();
    _ = fleet.until(
        "it is said that the login is not accepted",
        async || Ok(engine.held().await),
        |held| held.as_ref().is_err_and(is_told),
    );
}

/// The answers of a machine go to that machine alone, even if another one asks for them in its name.
#[test]
fn f_07_a_reply_to_another_machines_inbox_brings_nothing_of_its_own() {
    let fleet = Fleet::start(2);
    let [own, other] = [0, 1].map(|n| fleet.machine(n));
    let parcel = Parcel { to: own, item: Item::Fate, bytes: b"fate".to_vec() };
    fleet.run(fleet.engine(1).send(&parcel)).unwrap();
    let login = &fleet.machines[1].1;
    let mut client = fleet.client(login);
    let inbox = format!("_INBOX_coord.{other}.x");
    let mut answers = fleet.run(client.client.subscribe(inbox.clone())).unwrap();
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.COORD_FATE.{own}");
    let asked = client.client.publish_with_reply_and_headers(
        subject.clone(),
        inbox,
        HeaderMap::new(),
        "1".into(),
    );
    fleet.run(asked).unwrap();
    assert!(reported(&fleet, &mut client).contains(&subject));
    let nothing: Option<Option<Message>> = futures_util::FutureExt::now_or_never(answers.next());
    assert!(nothing.is_none(), "{nothing:?}");
}

/// A consumer of the states delivers where its creator wants it to, since permissions do not check that. If somebody
/// listens there, a stream takes it too, but under the subject that it had: it is nobody's batch and nobody's message.
#[test]
fn f_07_what_the_server_is_made_to_deliver_keeps_its_own_name() {
    let fleet = Fleet::start(2);
    let [own, victim] = [0, 1].map(|n| fleet.machine(n));
    let beat = StateKey { machine: own, session: None };
    fleet.run(fleet.engine(0).put_state(&beat, Some(b"forged"))).unwrap();
    let subject = format!("coord.v1.journal.{victim}");
    let administrator = fleet.client(&fleet.administrator);
    let mut listening = fleet.run(administrator.client.subscribe(subject.clone())).unwrap();
    fleet.run(administrator.client.flush()).unwrap();
    let config = json!({"deliver_subject": subject, "deliver_policy": "all", "ack_policy": "none"});
    let body = json!({"stream_name": "KV_COORD_HOSTS", "config": config}).to_string();
    let client = fleet.client(&fleet.machines[0].1);
    let create = "$JS.API.CONSUMER.CREATE.KV_COORD_HOSTS";
    fleet.run(client.client.publish(create, body.into())).unwrap();
    fleet.run(client.client.flush()).unwrap();
    let heard = fleet.run(listening.next()).unwrap();
    let beat = format!("$KV.COORD_HOSTS.{own}");
    assert_eq!((&*heard.subject, &*heard.payload), (&*beat, &b"forged"[..]));
    let stored = wait_until("the journals' stream takes it", || {
        let first = fleet.api("STREAM.MSG.GET.COORD_JOURNAL", &json!({"seq": 1}));
        if first["error"].is_null() { Ok(first) } else { Err(first) }
    });
    assert_eq!(stored["message"]["subject"], beat, "{stored}");
    let mut engine = fleet.engine(1);
    assert_eq!(fleet.run(engine.held()), Ok(None));
    fleet.run(engine.append(b"the machine's own", 0)).unwrap();
}

//! The history of all machines of a fleet, and a damaged copy of it that is published again (F-01, F-03).

use coord_fleet::{Batch, Engine as _, Identity, Incarnation, Writer};
use coord_model::MachineId;
use coord_relay::{Connection, Settings};
use coord_tests::coord::{coord, programs};
use coord_tests::home::Home;
use coord_tests::nats::NatsServer;
use coord_tests::process::{Finished, Running};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use super::fleet::{Machine, SESSION, fleet, is_whole, status};
use super::wire::{client_event, post, with};

/// What `coord events ARGUMENTS` says.
fn said(machine: &Machine, arguments: &[&str]) -> Finished {
    coord(&machine.home, &[&["events"], arguments].concat())
}

/// The lines of `coord events ARGUMENTS --json`.
#[track_caller]
fn lines(machine: &Machine, arguments: &[&str]) -> Vec<Value> {
    let text = said(machine, &[arguments, &["--json"]].concat()).expect_success().stdout;
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Machine, session and name of what happened to sessions.
fn edges(lines: &[Value]) -> Vec<[String; 3]> {
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let edges = lines.iter().filter(|line| line["kind"] == "edge");
    edges.map(|line| ["host", "session_id", "name"].map(|field| text(line, field))).collect()
}

/// Lets something happen to the session of a machine, and waits until that is published.
fn happens(machine: &Machine, event: &str, n: u32) {
    post(&machine.home, &client_event(SESSION, event, n));
    through_newest(machine);
}

/// Waits until the newest record of a machine's journal is published.
#[track_caller]
fn through_newest(machine: &Machine) {
    let newest = lines(machine, &["--all", "-n", "1"]).pop().expect("a record");
    let newest = newest["seq"].as_u64().expect("a number");
    wait_until(&format!("record {newest} is published"), || {
        let relay = status(&machine.home)["relay"].clone();
        if newest <= relay["held_through"].as_u64().unwrap_or(0) { Ok(()) } else { Err(relay) }
    });
}

/// Appends to a machine's journal at the server, as the machine itself.
#[track_caller]
fn append(machine: &Machine, server: &NatsServer, batch: impl Fn(&Identity) -> Vec<u8>) {
    let identity = Identity::read(&machine.home.paths().fleet_identity()).expect("its keys");
    let bytes = batch(&identity);
    let (url, login_seed) = (server.url(), identity.login_seed);
    let settings = Settings { url, login_seed, ca: Some(server.ca()), cert: None, key: None };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let id = MachineId::parse(&machine.id).expect("an id");
        let mut engine = Connection::open(&settings, id).await.expect("it connects").engine();
        let held = engine.held().await.expect("an answer").expect("a batch");
        engine.append(&bytes, held.place).await.expect("it is appended");
    });
}

// F-03: every machine shows the history of all of them, in one order.
#[test]
fn f_03_the_history_of_all_machines_is_shown_as_one() {
    let (mut server, [desk, laptop]) = fleet(["desk", "laptop"]);
    happens(&desk, "UserPromptSubmit", 1);
    happens(&laptop, "UserPromptSubmit", 1);
    happens(&desk, "Stop", 2);
    let edge = |host: &str, name: &str| [host, SESSION, name].map(str::to_owned);
    let all = [
        edge("desk", "UserPromptSubmit"),
        edge("laptop", "UserPromptSubmit"),
        edge("desk", "Stop"),
    ];
    for machine in [&desk, &laptop] {
        let lines = lines(machine, &["--fleet"]);
        assert_eq!(edges(&lines), all);
        let id = |line: &Value| line["machine"].as_str().map(str::to_owned);
        let ids: Vec<_> = lines.iter().filter(|line| line["kind"] == "edge").map(id).collect();
        assert_eq!(ids, [&desk.id, &laptop.id, &desk.id].map(|id| Some(id.clone())));
    }
    // What this machine shows of itself is the same without the server's help.
    let own: Vec<Value> = lines(&desk, &["--fleet"])
        .into_iter()
        .filter(|line| line["host"] == "desk")
        .map(|mut line| {
            let line = line.as_object_mut().expect("an object");
            line.retain(|field, _| field != "host" && field != "machine");
            Value::Object(line.clone())
        })
        .collect();
    let whole = lines(&desk, &[]);
    assert!(own.iter().all(|line| whole.contains(line)), "{own:#?} {whole:#?}");

    wait_until("the other machine's session is known", || {
        let shown = desk.shows();
        if shown.len() == 2 { Ok(()) } else { Err(shown) }
    });
    let text = said(&desk, &["--fleet"]).expect_success().stdout;
    let column = |line: &str| line.get(16..40).unwrap_or_default().trim_end().to_owned();
    let named: Vec<String> = text.lines().map(column).collect();
    assert_eq!(named, ["project", "laptop/project", "project"], "{text}");
    // One session of another machine, by its name; the last lines; the last hour.
    let of_laptop = lines(&desk, &["laptop/project"]);
    assert_eq!(edges(&of_laptop), [edge("laptop", "UserPromptSubmit")]);
    assert_eq!(said(&desk, &["--fleet", "-n", "1"]).expect_success().stdout, {
        let last = text.lines().last().expect("a line");
        format!("{last}\n")
    });
    assert_eq!(edges(&lines(&desk, &["--fleet", "--since", "1h"])), all);
    let refused = said(&desk, &["--fleet", SESSION]);
    assert!(refused.code() == Some(1) && refused.stderr.contains("MACHINE/ID"), "{refused:?}");
    assert_eq!(said(&desk, &["nowhere/project"]).code(), Some(3));

    server.kill();
    let down = said(&desk, &["--fleet"]);
    assert_eq!(down.code(), Some(4), "{down:?}");
    assert!(down.stderr.contains("→ coord fleet status"), "{down:?}");
    assert_eq!((down.stdout.as_str(), down.stderr.lines().count()), ("", 1), "{down:?}");
    assert_eq!(coord(&desk.home, &["fleet", "check"]).code(), Some(4));
    let alone = coord(&Home::new(), &["events", "--fleet"]);
    assert!(alone.stderr.contains("joined no fleet. → coord fleet join URL"), "{alone:?}");
}

// F-03: what happens on another machine is followed, over a server that is killed and comes back empty.
#[test]
fn f_03_what_happens_on_another_machine_is_followed() {
    let (mut server, [desk, laptop]) = fleet(["desk", "laptop"]);
    happens(&laptop, "UserPromptSubmit", 1);
    let mut command = desk.home.command(programs().join("coord"));
    command.args(["events", "--fleet", "--follow", "--json"]).env("COORD_HOME", desk.home.root());
    let following = Running::start(command, &desk.home.tmp(), "follow");
    let follows = |names: &[&str]| {
        wait_until(&format!("{names:?} are shown"), || {
            let [text, error] = following.output();
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let lines = whole.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            let shown = edges(&lines.collect::<Vec<Value>>());
            let shown: Vec<&str> = shown.iter().map(|[.., name]| name.as_str()).collect();
            if shown == names { Ok(()) } else { Err(format!("{text}\n{error}")) }
        });
    };
    follows(&["UserPromptSubmit"]);
    happens(&laptop, "Stop", 2);
    follows(&["UserPromptSubmit", "Stop"]);
    server.kill();
    wait_until("it says that the server is gone", || {
        let [_, error] = following.output();
        if error.contains("Waiting for it") { Ok(()) } else { Err(error) }
    });
    server.start_again();
    happens(&laptop, "UserPromptSubmit", 3);
    follows(&["UserPromptSubmit", "Stop", "UserPromptSubmit"]);
    let [_, error] = following.output();
    assert_eq!(error.lines().count(), 1, "{error}");
}

// F-06: what another machine writes is shown as text, whatever it is; what it did not sign is not shown.
#[test]
fn f_06_what_another_machine_writes_is_text() {
    let (server, [desk, mut laptop]) = fleet(["desk", "laptop"]);
    let odd = json!({"tool_name": "\u{1b}]0;owned\u{7}\u{202e}"});
    post(&laptop.home, &with(client_event(SESSION, "PermissionRequest", 1), odd));
    through_newest(&laptop);
    laptop.coordinator.take().expect("it runs").kill();
    append(&laptop, &server, |identity| {
        let writer = Writer { incarnation: Incarnation("i".to_owned()), relay: String::new() };
        let line = |seq, at, source| {
            json!({
                "seq": seq, "at": at, "kind": "edge", "name": "\u{1b}[2Jodd\n", "source": source,
                "session_id": "\u{1b}[1m\nx", "detail": "\r\u{9b}2J",
            })
        };
        let good = line(1, "2026-01-01T00:00:00Z", "hook");
        let bad = [line(2, "\u{1b}c", "hook"), line(3, "2026-01-01T00:00:00Z", "\u{1b}c")];
        let lines = format!("{good}\n{}\n{}\n{{\n", bad[0], bad[1]);
        Batch { writer, edition: 0, first: 1, last: 9, is_gap: false, lines }.seal(&identity.keys)
    });
    append(&laptop, &server, |_| b"coord1 \x1b[2J forged\n".to_vec());
    for arguments in [&["--fleet", "--all"][..], &["--fleet", "--json"], &["--fleet", "-n", "3"]] {
        let said = said(&desk, arguments).expect_success();
        let is_bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!said.stdout.contains(is_bad) && !said.stderr.contains(is_bad), "{said:?}");
        assert!(said.stdout.contains("odd"), "{said:?}");
        let trouble = "laptop: 1 batches are left out: damaged, or not signed by it";
        assert!(said.stderr.lines().count() == 1 && said.stderr.contains(trouble), "{said:?}");
    }
    let unreadable = |line: &&Value| line["name"] == "Unreadable";
    assert_eq!(lines(&desk, &["--fleet"]).iter().filter(unreadable).count(), 2);
}

// F-01: a copy that is damaged is found, and published again: then each record is shown once, and nobody is told of the old copy.
#[test]
fn f_01_a_damaged_copy_is_found_and_published_again() {
    let (server, [desk, laptop]) = fleet(["desk", "laptop"]);
    happens(&desk, "UserPromptSubmit", 1);
    is_whole(&desk);
    append(&desk, &server, |_| b"damaged".to_vec());
    // The relay finds a batch that is not its own.
    happens(&desk, "Stop", 2);
    let found = coord(&desk.home, &["fleet", "check"]);
    assert_eq!(found.code(), Some(1), "{found:?}");
    for line in ["Twice: 1 to ", "Not signed by this machine, or damaged: 1 batches\n"] {
        assert!(found.stdout.contains(line), "{found:?}");
    }
    assert!(found.stderr.contains("→ coord fleet check --republish"), "{found:?}");

    let mended = coord(&desk.home, &["fleet", "check", "--republish"]).expect_success().stdout;
    assert!(mended.contains("The relay publishes the journal again now."), "{mended}");
    let checked = || coord(&desk.home, &["fleet", "check"]);
    wait_until("it is published again", || {
        let said = checked();
        if said.stdout.ends_with("matches the journal.\n") { Ok(()) } else { Err(said) }
    });
    // It stays so when the relay begins anew, and there is nothing to mend any more.
    happens(&desk, "UserPromptSubmit", 3);
    let mut desk = desk;
    desk.coordinator.take().expect("it runs").kill();
    desk.coordinator = Some(coord_tests::coord::Coordinator::start(&desk.home));
    happens(&desk, "Stop", 4);
    is_whole(&desk);
    let again = coord(&desk.home, &["fleet", "check", "--republish"]).expect_success().stdout;
    assert!(again.ends_with("matches the journal.\n"), "{again}");

    let shown = edges(&lines(&laptop, &["--fleet"]));
    let of_desk = shown.iter().filter(|edge| edge[0] == "desk");
    let names: Vec<&str> = of_desk.map(|[.., name]| name.as_str()).collect();
    assert_eq!(names, ["UserPromptSubmit", "Stop", "UserPromptSubmit", "Stop"]);
    let told = said(&laptop, &["--fleet"]).expect_success().stderr;
    assert_eq!(told, "", "nothing is left out");
}

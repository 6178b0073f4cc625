//! Messages to programs (S4), through the command line and the socket: what was accepted is handed out, to
//! one consumer at a time, whatever ends meanwhile.

use super::disk::SmallDisk;
use super::harness::Harness;
use super::wire::ask;
use coord_tests::coord::{Coordinator, coord, events, programs};
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running};
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// `coord queue …`.
fn queue(home: &Home, arguments: &[&str]) -> Finished {
    coord(home, &[&["queue"], arguments].concat())
}

/// The same, as JSON.
#[track_caller]
fn json_of(home: &Home, arguments: &[&str]) -> Value {
    let done = queue(home, &[arguments, &["--json"]].concat()).expect_success();
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Sends a message; its id.
#[track_caller]
fn send(home: &Home, text: &str) -> String {
    word(&json_of(home, &["send", "builds", text])["id"])
}

#[track_caller]
fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no word: {value}")).to_owned()
}

/// `coord queue send builds -`, with a text on standard input.
#[track_caller]
fn send_from_stdin(home: &Home, text: &str) -> Finished {
    let file = home.tmp().join("text");
    std::fs::write(&file, text).unwrap();
    let mut command = home.command(programs().join("coord"));
    command.args(["queue", "send", "builds", "-"]).env("COORD_HOME", home.root());
    command.stdin(std::fs::File::open(&file).unwrap());
    Running::start(command, &home.tmp(), "send").finish()
}

/// Takes the next message: its id and fence.
#[track_caller]
fn claim(home: &Home, options: &[&str]) -> (String, String, Value) {
    let claimed = json_of(home, &[&["claim", "builds"], options].concat());
    (word(&claimed["message"]["id"]), claimed["fence"].to_string(), claimed)
}

#[track_caller]
fn state(home: &Home, id: &str) -> String {
    word(&json_of(home, &["show", id])["state"])
}

fn quick() -> Home {
    let home = Home::new();
    home.write_config("[queue]\nretry_delay = \"1s\"\n");
    home
}

// S4-01 to S4-03, S4-18, S4-20
#[test]
fn s4_01_a_message_goes_its_way() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let text = "build $HOME `id` \u{1b}[2J\nand \"more\"";
    let id = send(&home, text);
    let listed = queue(&home, &[]).expect_success().stdout;
    assert!(listed.contains(&id) && listed.contains("waits for a consumer"), "{listed}");
    let shown = queue(&home, &["show", &id[..7]]).expect_success().stdout;
    assert!(shown.contains("build $HOME `id` \u{fffd}[2J\nand"), "escaped for people: {shown}");
    let (claimed, fence, answer) = claim(&home, &["--as", "worker 1"]);
    assert_eq!((claimed.as_str(), &answer["text"]), (id.as_str(), &json!(text)));
    assert_eq!(answer["message"]["holder"], "worker 1");
    let nothing = queue(&home, &["claim", "builds"]);
    assert_eq!((nothing.code(), nothing.stdout.as_str()), (Some(5), ""), "{nothing:?}");
    queue(&home, &["renew", &id, &fence, "--lease", "1h"]).expect_success();
    let totals = &json_of(&home, &[])["totals"];
    assert_eq!(
        (&totals["processing"], &totals["slow"], &totals["stuck"]),
        (&json!(1), &json!(0), &json!(0))
    );
    let done = queue(&home, &["done", &id, &fence]).expect_success();
    assert_eq!(done.stdout, format!("{id} processed\n"));
    assert_eq!(state(&home, &id), "processed");
    let what: Vec<String> = events(&home, None)
        .iter()
        .filter(|line| line["name"] == "Message")
        .map(|line| word(&line["detail"]))
        .collect();
    assert!(what.len() == 4 && what[1].contains("claimed by worker 1"), "{what:?}");
}

// G11: a text is its user's alone, and stands in no record.
#[test]
fn a_text_lies_in_a_file_of_its_own() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let id = send(&home, "a word of mine");
    let file = home.paths().messages().join(&id);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a word of mine");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    coordinator.kill();
    for dir in [home.paths().journal(), home.paths().state] {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.is_file()) {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("a word of mine"), "{file:?}");
        }
    }
    // What no message has is swept, and a message whose text is gone says so (S4-22).
    let stray = home.paths().messages().join("m_000000000000");
    std::fs::write(&stray, "half").unwrap();
    std::fs::remove_file(&file).unwrap();
    let _coordinator = Coordinator::start_again(&home);
    assert!(!stray.exists());
    assert_eq!(queue(&home, &["claim", "builds"]).code(), Some(5));
    let lost = json_of(&home, &["show", &id]);
    assert_eq!(lost["state"], "failed");
    assert!(word(&lost["because"]).contains("cannot be read"), "{lost}");
}

// S4-04, S4-22, G10: what a coordinator says is what the store says, from the journal and from a snapshot.
#[test]
fn s4_04_a_restart_shows_the_same() {
    let home = Home::new();
    home.write_config("[queue]\nretry_delay = \"5m\"\n");
    let mut coordinator = Coordinator::start(&home);
    for n in 0..6 {
        send(&home, &n.to_string());
    }
    queue(&home, &["send", "others", "x", "--urgent", "--key", "k", "--ttl", "1h"])
        .expect_success();
    let taken: Vec<_> = (0..4).map(|_| claim(&home, &[])).collect();
    queue(&home, &["done", &taken[0].0, &taken[0].1]).expect_success();
    queue(&home, &["fail", &taken[1].0, &taken[1].1, "--why", "no", "--final"]).expect_success();
    queue(&home, &["fail", &taken[2].0, &taken[2].1, "--why", "no"]).expect_success();
    // Times of what waits are told from now on, and so to the millisecond or two.
    let told = || {
        let mut told = json_of(&home, &[]);
        for message in told["messages"].as_array_mut().unwrap() {
            message.as_object_mut().unwrap().remove("until");
        }
        told
    };
    let before = told();
    coordinator.kill();
    coordinator = Coordinator::start_again(&home);
    assert_eq!(told(), before, "from the journal");
    coord(&home, &["down"]).expect_success();
    drop(coordinator);
    assert_eq!(told(), before, "from the snapshot, by the command line");
    let _coordinator = Coordinator::start_again(&home);
    assert_eq!(told(), before, "from the snapshot");
}

// S4-11, S4-13: the consumer hangs on a claimed message.
#[test]
fn s4_13_a_consumer_hangs_on_a_claimed_message() {
    let home = quick();
    let _coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    let (_, fence, _) = claim(&home, &["--lease", "1s"]);
    let (again, newer, answer) = claim(&home, &["--wait", "60s"]);
    assert_eq!(again, id);
    assert_eq!(
        (&answer["message"]["attempts"], &answer["message"]["maybe_duplicate"]),
        (&json!(2), &json!(true))
    );
    let late = queue(&home, &["done", &id, &fence]);
    assert_eq!(late.code(), Some(1));
    assert!(late.stderr.contains("ran out") && late.stderr.lines().count() == 1, "{late:?}");
    assert_eq!(state(&home, &id), "processing");
    queue(&home, &["done", &id, &newer]).expect_success();
}

// S4-14: the consumer crashes after the claim, and the coordinator too: the lease lives on, and ends.
#[test]
fn s4_14_a_consumer_crashes_after_the_claim() {
    let home = quick();
    let coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    let (_, fence, _) = claim(&home, &["--lease", "2s"]);
    coordinator.kill();
    let _coordinator = Coordinator::start_again(&home);
    let shown = json_of(&home, &["show", &id]);
    assert!(shown["state"] == "processing" || shown["maybe_duplicate"] == true, "{shown}");
    let (again, newer, _) = claim(&home, &["--wait", "60s"]);
    assert_eq!(again, id);
    let (fence, newer): (u64, u64) = (fence.parse().unwrap(), newer.parse().unwrap());
    assert!(fence < newer, "no fence comes twice");
}

// S4-15: the store fails in mid-batch: what was accepted is there, the rest was refused in words.
#[test]
fn s4_15_the_store_fails_in_mid_batch() {
    let disk = SmallDisk::new();
    let serving = disk.serve();
    let before: Vec<String> = (0..5).map(|n| send(&disk.home, &format!("before {n}"))).collect();
    let (claimed, fence, _) = claim(&disk.home, &[]);
    assert_eq!(claimed, before[0]);
    disk.fill();
    let mut accepted = before;
    let mut n_refused = 0;
    for n in 0..2_000 {
        let text = format!("{n} {}", "x".repeat(8_000));
        let body = json!({"queue": "builds", "text": text}).to_string();
        let answer = ask(&disk.home, "POST", "/v1/messages", &body);
        if answer.status == 200 {
            accepted.push(word(&answer.json()["id"]));
        } else {
            answer.expect(503);
            n_refused += 1;
        }
        if 3 < n_refused {
            break;
        }
    }
    assert_eq!(n_refused, 4, "the disk is full");
    disk.make_room();
    wait_until("there is room again", || {
        let status = disk.coord(&["status"]).stdout;
        if status.contains("disk is full") { Err(status) } else { Ok(()) }
    });
    queue(&disk.home, &["done", &claimed, &fence]).expect_success();
    serving.kill();
    let _serving = disk.serve();
    let listed = json_of(&disk.home, &["--limit", "5000"]);
    let there: BTreeSet<String> =
        listed["messages"].as_array().unwrap().iter().map(|one| word(&one["id"])).collect();
    assert_eq!(there, accepted.into_iter().collect(), "all of them, and nothing half done");
    assert_eq!(listed["totals"]["failed"], 0);
    for _ in 1..there.len() {
        let (id, fence, _) = claim(&disk.home, &[]);
        queue(&disk.home, &["done", &id, &fence]).expect_success();
    }
}

// S4-16: the answer that it succeeded is not heard; saying it again is no second end.
#[test]
fn s4_16_done_is_said_twice() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    let (_, fence, _) = claim(&home, &[]);
    queue(&home, &["done", &id, &fence]).expect_success();
    coordinator.kill();
    let _coordinator = Coordinator::start_again(&home);
    queue(&home, &["done", &id, &fence]).expect_success();
    let other = queue(&home, &["done", &id, "4711"]);
    assert_eq!(other.code(), Some(1), "{other:?}");
}

// S4-02, S4-12: many at once, each message once.
#[test]
fn s4_02_a_claim_is_one_consumer_s_alone() {
    const MESSAGES: usize = 120;
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let taken = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|one| {
                let home = &home;
                scope.spawn(move || {
                    for n in 0..MESSAGES / 4 {
                        let body = json!({"queue": "builds", "text": format!("{one}-{n}")});
                        ask(home, "POST", "/v1/messages", &body.to_string()).expect(200);
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|one| one.join().unwrap());
        let consumers: Vec<_> = (0..8)
            .map(|one| {
                let home = &home;
                scope.spawn(move || {
                    let mut taken = Vec::new();
                    let body = json!({"holder": format!("consumer {one}")}).to_string();
                    loop {
                        let answer = ask(home, "POST", "/v1/queues/builds/claim", &body);
                        if answer.status == 204 {
                            return taken;
                        }
                        let claimed = answer.expect(200).json();
                        taken.push(word(&claimed["text"]));
                        let path = format!("/v1/messages/{}/done", word(&claimed["message"]["id"]));
                        let body = json!({"fence": claimed["fence"]}).to_string();
                        ask(home, "POST", &path, &body).expect(200);
                    }
                })
            })
            .collect();
        consumers.into_iter().flat_map(|one| one.join().unwrap()).collect::<Vec<String>>()
    });
    assert_eq!(taken.len(), MESSAGES);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), MESSAGES, "none twice");
    let metrics = ask(&home, "GET", "/metrics", "").expect(200).body;
    for line in ["coord_messages_processed_total 120\n", "coord_messages_stuck 0\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

// S4-10, S4-19, S4-23: a failure is that message's alone; a person has it tried again, without a restart.
#[test]
fn s4_19_a_failed_message_is_retried() {
    let home = quick();
    let _coordinator = Coordinator::start(&home);
    let (first, second) = (send(&home, "one"), send(&home, "two"));
    let (id, fence, _) = claim(&home, &[]);
    queue(&home, &["fail", &id, &fence, "--why", "no such branch", "--final"]).expect_success();
    let (next, fence, _) = claim(&home, &[]);
    assert_eq!((&id, &next), (&first, &second));
    let worked_on = queue(&home, &["retry", &next]);
    assert_eq!(worked_on.code(), Some(1));
    assert!(worked_on.stderr.contains("is working on the message"), "{worked_on:?}");
    queue(&home, &["fail", &next, &fence, "--why", "no disk"]).expect_success();
    assert!(word(&json_of(&home, &["show", &next])["because"]).starts_with("no disk; waits"));
    let failed = queue(&home, &["--failed"]).expect_success().stdout;
    assert!(failed.contains(&first) && failed.contains("no such branch"), "{failed}");
    assert!(!failed.contains(&second), "{failed}");
    queue(&home, &["retry", &first]).expect_success();
    let (again, ..) = claim(&home, &[]);
    assert_eq!(again, first);
    queue(&home, &["drop", &second]).expect_success();
    let gone = queue(&home, &["show", &second]);
    assert_eq!(gone.code(), Some(3), "{gone:?}");
    wait_until("its text is gone", || {
        let file = home.paths().messages().join(&second);
        if file.exists() { Err(file) } else { Ok(()) }
    });
}

// S4-25, S4-26: a sender learns the fate, and a key is one message.
#[test]
fn s4_25_a_sender_waits_for_the_fate() {
    let home = quick();
    let _coordinator = Coordinator::start(&home);
    let (done, failed) = std::thread::scope(|scope| {
        let wait = |text: &'static str, key: &'static str| {
            let home = &home;
            scope.spawn(move || {
                queue(home, &["send", "builds", text, "--key", key, "--wait", "60s"])
            })
        };
        let (one, two) = (wait("one", "1"), wait("two", "2"));
        for _ in 0..2 {
            let (id, fence, claimed) = claim(&home, &["--wait", "60s"]);
            if claimed["text"] == "one" {
                queue(&home, &["done", &id, &fence]).expect_success();
            } else {
                queue(&home, &["fail", &id, &fence, "--why", "no", "--final"]).expect_success();
            }
        }
        (one.join().unwrap(), two.join().unwrap())
    });
    assert!(done.code() == Some(0) && done.stdout.ends_with(" processed\n"), "{done:?}");
    assert_eq!(failed.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.ends_with(" failed\n") && failed.stderr.contains("no"), "{failed:?}");
    let again = json_of(&home, &["send", "builds", "one", "--key", "1"]);
    assert_eq!((&again["folded"], &again["state"]), (&json!(true), &json!("processed")));
    let other = queue(&home, &["send", "builds", "three", "--key", "1"]);
    assert!(other.code() == Some(1) && other.stderr.contains("another key"), "{other:?}");
    let late = queue(&home, &["send", "builds", "four", "--wait", "0s"]);
    assert!(late.code() == Some(5) && late.stderr.contains("still pending"), "{late:?}");
}

/// `coord queue work builds OPTIONS -- sh -c SCRIPT`.
fn worker(home: &Home, options: &[&str], script: &str) -> Running {
    let mut command = home.command(programs().join("coord"));
    command.args(["queue", "work", "builds"]).args(options).args(["--", "sh", "-c", script]);
    command.env("COORD_HOME", home.root()).stdin(Stdio::null());
    Running::start(command, &home.tmp(), "work")
}

// S4-10, S4-21, S4-23: a message that cannot be done is that message's matter, and the command runs again
// for the next one.
#[test]
fn s4_10_a_worker_survives_what_fails() {
    let home = quick();
    let _coordinator = Coordinator::start(&home);
    let ids: Vec<String> = ["good", "bad", "better"].map(|text| send(&home, text)).into();
    let script = "read text; echo \"$COORD_MESSAGE $COORD_ATTEMPT $text\"; test \"$text\" != bad || { echo no disk >&2; exit 3; }";
    let working = worker(&home, &[], script);
    wait_until("two are done, and the third has failed for good", || {
        let states: Vec<String> = ids.iter().map(|id| state(&home, id)).collect();
        if states == ["processed", "failed", "processed"] { Ok(()) } else { Err(states) }
    });
    let because = word(&json_of(&home, &["show", &ids[1]])["because"]);
    assert!(because.starts_with("exit code 3; coord explain run_"), "{because}");
    assert!(because.ends_with("; tried 4 times") && !because.contains("disk"), "{because}");
    let late = send(&home, "late");
    wait_until("it goes on", || {
        let state = state(&home, &late);
        if state == "processed" { Ok(()) } else { Err(state) }
    });
    working.signal(Signal::TERM);
    let finished = working.finish();
    assert_eq!(finished.code(), Some(130), "{finished:?}");
    let attempts = finished.stdout.lines().filter(|line| line.ends_with(" bad")).count();
    assert_eq!((attempts, finished.stdout.lines().count()), (4, 7), "{finished:?}");
    assert!(finished.stdout.starts_with(&format!("{} 1 good\n", ids[0])), "{finished:?}");
}

// S4-17: one that hangs is ended, with what it started.
#[test]
fn s4_17_a_hung_worker_is_ended() {
    let home = Home::new();
    home.write_config("[queue]\nretry_delay = \"1h\"\n");
    let _coordinator = Coordinator::start(&home);
    let id = send(&home, "hangs");
    let script = "tail -f /dev/null >/dev/null 2>&1 & echo $!; wait";
    let finished = worker(&home, &["--once", "--timeout", "1s"], script).finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    // Who adopted it takes the end of what it started, at its own time.
    let entry = std::path::PathBuf::from(format!("/proc/{}", finished.stdout.trim()));
    wait_until("it is gone", || if entry.exists() { Err("it is there") } else { Ok(()) });
    let because = word(&json_of(&home, &["show", &id])["because"]);
    assert!(because.contains("timeout"), "{because}");
    let nothing = worker(&home, &["--once"], "exit 0").finish();
    assert_eq!(nothing.code(), Some(5), "it waits for its next attempt: {nothing:?}");
}

// S4-22: the coordinator is away while a worker works; what was done is told when it is back.
#[test]
fn s4_22_an_end_is_told_to_the_next_coordinator() {
    let home = quick();
    let coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    let (up, go) = (home.tmp().join("up"), home.tmp().join("go"));
    let script =
        format!("touch '{}'; while ! test -e '{}'; do sleep 0.1; done", up.display(), go.display());
    let working = worker(&home, &["--once"], &script);
    wait_until("it works", || if up.exists() { Ok(()) } else { Err("not yet") });
    coordinator.kill();
    std::fs::write(&go, "").unwrap();
    let _coordinator = Coordinator::start_again(&home);
    assert_eq!(working.finish().code(), Some(0));
    assert_eq!(state(&home, &id), "processed");
}

// H-04: a sender is who the process table says, not who it says it is.
#[test]
fn h04_a_sender_is_established() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    let from = word(&json_of(&home, &["show", &id])["from"]);
    assert!(from.starts_with("program "), "nobody's terminal is here: {from}");
    // What a session's own process starts comes from that session.
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    let (coord, root, out) = (programs().join("coord"), home.root(), home.tmp().join("sent"));
    let line = format!(
        "COORD_HOME='{}' '{}' queue send builds two >'{}'",
        root.display(),
        coord.display(),
        out.display()
    );
    assert_eq!(harness.run(&line), 0);
    let told = std::fs::read_to_string(&out).unwrap();
    let id = told.split_whitespace().next().unwrap();
    assert_eq!(json_of(&home, &["show", id])["from"], "session session-one");
    let claimed = json!({"queue": "builds", "text": "x", "from": "operator"}).to_string();
    ask(&home, "POST", "/v1/messages", &claimed).expect(400);
}

// Each bad input is one line that names the thing and the remedy, and changes nothing.
#[test]
fn what_cannot_be_sent_is_refused() {
    let home = Home::new();
    home.write_config("[queue]\nper_receiver = 2\n");
    let _coordinator = Coordinator::start(&home);
    let long = "x".repeat(64 * 1024 + 1);
    for (arguments, code, words) in [
        (&["send", "no name", "x"][..], 1, "\"no name\" is not a valid queue name"),
        (&["send", "builds", ""], 1, "The text is empty"),
        (&["send", "builds", &long], 1, "65,537 bytes"),
        (&["send", "builds", "x", "--ttl", "0s"], 1, "time to live"),
        (&["send", "builds", "x", "--key", ""], 1, "key must be one line"),
        (&["send", "builds"], 2, "TEXT"),
        (&["claim", "no/name"], 1, "not a valid queue name"),
        (&["claim", "builds", "--lease", "25h"], 1, "24 hours"),
        (&["claim", "builds", "--lease", "0s"], 1, "24 hours"),
        (&["done", "m_000000000000", "1"], 3, "No message "),
        (&["show", "m_0"], 3, "too short"),
        (&["show", "m_zzzz"], 3, "No message "),
        (&["retry", "session"], 3, "No message "),
    ] {
        let refused = queue(&home, arguments);
        assert_eq!(refused.code(), Some(code), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(words), "{arguments:?}: {refused:?}");
        if code != 2 {
            assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        }
    }
    for text in ["x".repeat(3_000_000), format!("{}…", "x".repeat(64 * 1024 - 1))] {
        let refused = send_from_stdin(&home, &text);
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("more than 65,536 bytes"), "{refused:?}");
    }
    assert!(json_of(&home, &[])["messages"].as_array().unwrap().is_empty());
    send(&home, "one");
    send(&home, "two");
    let full = queue(&home, &["send", "builds", "three"]);
    assert!(full.code() == Some(1) && full.stderr.contains("queue.per_receiver"), "{full:?}");
    for body in ["", "[]", "{\"queue\":\"builds\"}", "{\"queue\":1,\"text\":\"x\"}"] {
        ask(&home, "POST", "/v1/messages", body).expect(400);
    }
    ask(&home, "GET", "/v1/messages?limit=many", "").expect(400);
    ask(&home, "DELETE", "/v1/messages", "").expect(405);
    ask(&home, "GET", "/v1/queues/builds/claim", "").expect(405);
}

// 4: it needs the coordinator.
#[test]
fn without_a_coordinator_it_says_so() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let id = send(&home, "one");
    coordinator.kill();
    let listed = queue(&home, &[]).expect_success().stdout;
    assert!(listed.contains(&id) && listed.contains("the last recorded state"), "{listed}");
    let inspected = coord(&home, &["inspect"]).expect_success().stdout;
    assert!(inspected.contains("1 pending, 0 processing"), "S4-18: {inspected}");
    let refused = queue(&home, &["send", "builds", "x"]);
    assert!(refused.code() == Some(4) && refused.stderr.contains("coord up"), "{refused:?}");
}

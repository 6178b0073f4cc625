//! Several machines on one real NATS server, with the real programs: each machine is a root of its own (F-01 to F-07).

mod cuts;
mod kills;
mod local;
mod notices;

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use coord_relay::login::Login;
use coord_tests::coord::{Coordinator, coord, inspect};
use coord_tests::home::Home;
use coord_tests::nats::{Encryption, NatsServer, Users};
use coord_tests::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::wire::{client_event, post};

pub(super) const SESSION: &str = "10000000-0000-4000-8000-000000000000";

/// A machine of the fleet.
pub(super) struct Machine {
    name: &'static str,
    pub(super) home: Home,
    pub(super) id: String,
    key: String,
    /// What the server needs to let it in, as `coord fleet join` printed it.
    block: String,
    pub(super) coordinator: Option<Coordinator>,
}

impl Machine {
    /// Joins a fleet.
    #[track_caller]
    fn joins(name: &'static str, server: &NatsServer) -> Self {
        let home = Home::new();
        let ca = server.ca().display().to_string();
        let words = ["fleet", "join", &server.url(), "--name", name, "--ca", &ca];
        let said = coord(&home, &words).expect_success().stdout;
        let block: Vec<&str> = said
            .lines()
            .skip_while(|line| !line.starts_with("1. "))
            .take_while(|line| !line.starts_with("2. "))
            .filter_map(|line| line.strip_prefix("   "))
            .collect();
        let block = block.join("\n");
        let status = status(&home);
        let text = |field: &str| status[field].as_str().expect("a text").to_owned();
        let (id, key) = (text("machine"), text("key"));
        assert!(said.contains(&format!("coord fleet allow {key} {name} --send")), "{said}");
        Self { name, home, id, key, block, coordinator: None }
    }

    fn starts(&mut self) {
        self.coordinator = Some(Coordinator::start(&self.home));
    }

    /// Its sessions as this machine shows them, by id: machine and state.
    pub(super) fn shows(&self) -> Vec<(String, String, String)> {
        let json = coord(&self.home, &["inspect", "--fleet", "--json"]).expect_success().stdout;
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let mut all: Vec<(String, String, String)> = json["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
                (text("session_id"), text("machine"), text("state"))
            })
            .collect();
        all.sort();
        all
    }
}

pub(super) fn status(home: &Home) -> Value {
    let json = coord(home, &["fleet", "status", "--json"]).expect_success().stdout;
    serde_json::from_str(&json).expect("JSON")
}

/// Makes an administrator's login. The key in the entry that the server needs.
#[track_caller]
fn administrator(home: &Home, seed: &std::path::Path) -> String {
    let said = coord(home, &["fleet", "admin", &path(seed)]).expect_success().stdout;
    let key = said.split_once("   { nkey: \"").and_then(|(_, rest)| rest.split_once("\" }\n"));
    key.expect("an entry").0.to_owned()
}

// F-01
#[test]
fn f_01_an_administrators_login_is_made_once_and_is_private() {
    let home = Home::new();
    let seed = home.dir().join("admin.seed");
    let key = administrator(&home, &seed);
    assert_eq!(fs::metadata(&seed).unwrap().mode() & 0o777, 0o600);
    let login = Login::from_seed(fs::read_to_string(&seed).unwrap().trim()).unwrap();
    assert_eq!(login.public_key(), key);
    assert_eq!(administrator(&home, &seed), key, "it is not made again");
    fs::write(&seed, "notes\n").unwrap();
    let refused = coord(&home, &["fleet", "admin", &path(&seed)]);
    assert_eq!(refused.code(), Some(1));
    let why = "admin.seed: not the seed of a NATS user key (`SU…`)\n";
    assert!(refused.stderr.ends_with(why), "{refused:?}");
    assert_eq!(fs::read_to_string(&seed).unwrap(), "notes\n", "a file of something else stays");
}

/// A server, and machines that it lets in and is set up for. Their coordinators run.
pub(super) fn fleet<const N: usize>(names: [&'static str; N]) -> (NatsServer, [Machine; N]) {
    let office = Home::new();
    let seed = office.dir().join("admin.seed");
    let administrator = administrator(&office, &seed);
    let users = Users { administrator: administrator.clone(), others: Vec::new() };
    let mut server = NatsServer::start(Encryption::Tls, users);
    let mut machines = names.map(|name| Machine::joins(name, &server));
    let others = machines.iter().map(|one| one.block.clone()).collect();
    server.set_users(Users { administrator, others });
    fs::copy(&seed, machines[0].home.dir().join("admin.seed")).unwrap();
    let of_all: Vec<&Machine> = machines.iter().collect();
    let said = set_up(&server, &of_all);
    assert!(said.contains("created   COORD_JOURNAL\n"), "{said}");
    let again = set_up(&server, &of_all);
    assert!(!again.contains("created") && again.contains("unchanged COORD_JOURNAL\n"), "{again}");
    machines.iter_mut().for_each(Machine::starts);
    (server, machines)
}

/// Sets the server up for machines, of which the first has the administrator's seed.
#[track_caller]
fn set_up(server: &NatsServer, machines: &[&Machine]) -> String {
    let home = &machines[0].home;
    let seed = home.dir().join("admin.seed");
    let [url, seed, ca] = [server.url(), path(&seed), path(&server.ca())];
    let mut words = vec!["fleet", "init", &url, "--admin", &seed, "--ca", &ca];
    words.extend(machines.iter().map(|one| one.id.as_str()));
    coord(home, &words).expect_success().stdout
}

fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Waits until a machine's link is up and its journal published.
#[track_caller]
fn published(machine: &Machine) -> Value {
    wait_until(&format!("{} has published its journal", machine.name), || {
        let status = status(&machine.home);
        let relay = &status["relay"];
        let is_whole = relay["held_through"].as_u64() == relay["durable"].as_u64();
        if relay["is_up"] == true && is_whole && relay["durable"] != 0 {
            Ok(status)
        } else {
            Err(status)
        }
    })
}

// F-02: each machine shows what all of them show of themselves.
#[test]
fn f_02_every_machine_shows_the_sessions_of_all() {
    let (server, machines) = fleet(["desk", "laptop", "server"]);
    for (machine, n) in machines.iter().zip(1..) {
        for session in 0..3 {
            let id = format!("{n}{session}000000-0000-4000-8000-000000000000");
            post(&machine.home, &client_event(&id, "UserPromptSubmit", 1));
            if session == 0 {
                post(&machine.home, &client_event(&id, "Stop", 2));
            }
        }
    }
    let all = |machine: &Machine| {
        let mut expected: Vec<(String, String, String)> = Vec::new();
        for other in &machines {
            let id = if other.id == machine.id { String::new() } else { other.id.clone() };
            let own = inspect(&other.home).sessions;
            let state = |one| serde_json::to_value(one).expect("a word");
            expected.extend(own.iter().map(|one| {
                let state = state(one.state).as_str().unwrap_or_default().to_owned();
                (one.session_id.clone(), id.clone(), state)
            }));
        }
        expected.sort();
        expected
    };
    for machine in &machines {
        published(machine);
        wait_until(&format!("{} shows all", machine.name), || {
            let (shown, expected) = (machine.shows(), all(machine));
            if shown == expected && shown.len() == 9 {
                Ok(())
            } else {
                Err((shown, expected, status(&machine.home), server.log()))
            }
        });
    }
    let list = coord(&machines[0].home, &["inspect", "--fleet"]).expect_success().stdout;
    for name in ["project ", "laptop/project ", "server/project-2 "] {
        assert!(list.contains(name), "{name}: {list}");
    }
    let one = coord(&machines[0].home, &["inspect", "laptop/project-2"]).expect_success().stdout;
    assert!(one.contains("host laptop"), "{one}");
    let found = coord(&machines[0].home, &["doctor"]).stdout;
    assert!(found.contains("the link to tls://127.0.0.1:"), "{found}");
    let status = coord(&machines[0].home, &["fleet", "status"]).expect_success().stdout;
    assert!(status.contains("link      up for "), "{status}");
    assert!(status.contains("journal   published\n"), "{status}");
    assert!(status.contains("\nlaptop   3 "), "{status}");
}

// F-03, F-05, F-06: nobody types on a machine that allows nobody; an allowed machine's message arrives once, and its fate is heard.
#[test]
fn f_05_a_message_reaches_a_session_of_another_machine_that_allows_it() {
    let (_server, [desk, laptop]) = fleet(["desk", "laptop"]);
    post(&laptop.home, &client_event(SESSION, "UserPromptSubmit", 1));
    wait_until("the session is known", || {
        let shown = desk.shows();
        if shown.is_empty() { Err(shown) } else { Ok(()) }
    });
    let way = coord(&desk.home, &["go", "laptop/1000"]);
    assert!(way.stderr.contains(" runs on laptop"), "{way:?}");
    let send = |text: &str| {
        let sent = coord(&desk.home, &["send", "laptop/1000", text, "--json"]).expect_success();
        let sent: Value = serde_json::from_str(&sent.stdout).expect("JSON");
        sent["id"].as_str().expect("an id").to_owned()
    };
    let first = send("rebase");
    wait_until("it is refused there", || {
        let relay = status(&laptop.home)["relay"].clone();
        let why = relay["last_refusal"].as_str().unwrap_or_default().to_owned();
        if why.contains("is not on the list") { Ok(()) } else { Err(relay) }
    });
    let there = || coord(&laptop.home, &["queue", "--json"]).expect_success().stdout;
    let texts = |n: usize| {
        wait_until("so many messages are there", || {
            let listed: Value = serde_json::from_str(&there()).expect("JSON");
            let messages = listed["messages"].as_array().expect("a list").clone();
            if messages.len() == n { Ok(messages) } else { Err(messages) }
        })
    };
    texts(0);
    coord(&laptop.home, &["fleet", "allow", &desk.key, "desk", "--send"]).expect_success();
    let second = send("rebase again");
    let arrived = texts(1);
    assert!(arrived[0]["from"].as_str().is_some_and(|from| from.contains("desk")), "{arrived:?}");
    let because = |id: &str, wanted: &str| {
        wait_until(&format!("{id} is {wanted}"), || {
            let shown = coord(&desk.home, &["queue", "show", id, "--json"]).expect_success().stdout;
            let shown: Value = serde_json::from_str(&shown).expect("JSON");
            let because = shown["because"].as_str().unwrap_or_default().to_owned();
            if because.starts_with(wanted) { Ok(()) } else { Err(shown) }
        });
    };
    because(&second, "kept on laptop");
    because(&first, "on its way to laptop");
    let local = arrived[0]["id"].as_str().expect("an id");
    coord(&laptop.home, &["queue", "drop", local]).expect_success();
    because(&second, "laptop: a person dropped it");
    texts(0);
}

/// Everything that the server holds of a machine is there once, and as its journal has it.
#[track_caller]
pub(super) fn is_whole(machine: &Machine) -> String {
    let checked = coord(&machine.home, &["fleet", "check"]).expect_success().stdout;
    assert!(checked.ends_with("Each record is there once and matches the journal.\n"), "{checked}");
    checked
}

// F-04, F-09: the server is killed and comes back, and once it comes back empty; the machines go on meanwhile.
#[test]
fn f_04_what_happened_while_the_server_was_gone_is_published_when_it_is_back() {
    let (mut server, [desk, laptop]) = fleet(["desk", "laptop"]);
    post(&desk.home, &client_event(SESSION, "UserPromptSubmit", 1));
    published(&desk);
    published(&laptop);
    for (is_wiped, event, state, n) in
        [(false, "Stop", "idle", 2), (true, "UserPromptSubmit", "running", 3)]
    {
        server.kill();
        wait_until("the link is down", || {
            let status = status(&desk.home);
            if status["relay"]["is_up"] == false { Ok(()) } else { Err(status) }
        });
        post(&desk.home, &client_event(SESSION, event, n));
        if is_wiped {
            server.wipe();
            set_up(&server, &[&desk, &laptop]);
        } else {
            server.start_again();
        }
        published(&desk);
        wait_until("the other machine knows", || {
            let shown = laptop.shows();
            if shown.first().is_some_and(|(.., now)| now == state) { Ok(()) } else { Err(shown) }
        });
        is_whole(&desk);
    }
    let status = status(&desk.home);
    assert_eq!(status["relay"]["duplicate"], Value::Null, "{status}");
}

/// The processes that a coordinator has started and that run, with their command lines.
fn children(coordinator: &Coordinator) -> Vec<(Pid, String)> {
    let pid = coordinator.pid();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let of_task =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let pids = tasks.map(of_task).collect::<Vec<_>>().join(" ");
    let child = |pid: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some((Pid::from_raw(pid.parse().ok()?)?, line))
    };
    pids.split_whitespace().filter_map(child).collect()
}

// F-10: nothing that could connect runs, until the configuration names a server, and no longer than it does.
#[test]
fn f_10_nothing_connects_unless_the_configuration_names_a_server() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    post(&home, &client_event(SESSION, "UserPromptSubmit", 1));
    let relays =
        || children(&coordinator).iter().filter(|(_, line)| line.contains(" fleet relay ")).count();
    assert_eq!(relays(), 0);
    // Nobody listens there.
    coord(&home, &["fleet", "join", "nats://127.0.0.1:1"]).expect_success();
    let so_many = |n: usize| {
        wait_until(
            &format!("{n} relays run"),
            || if relays() == n { Ok(()) } else { Err(relays()) },
        );
    };
    so_many(1);
    let words = coord(&home, &["fleet", "leave"]).expect_success().stdout;
    assert!(words.contains("Other machines show it as silent"), "{words}");
    so_many(0);
    assert_eq!(inspect(&home).sessions.len(), 1);
}

/// Copies a directory and everything in it, but for sockets.
fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_all(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

// F-07: a machine and its clone: one of them finds the other, says so and publishes nothing more; its local side goes on.
#[test]
fn f_07_a_cloned_machine_is_named_and_its_local_side_goes_on() {
    let (_server, [mut desk]) = fleet(["desk"]);
    post(&desk.home, &client_event(SESSION, "UserPromptSubmit", 1));
    published(&desk);
    desk.coordinator.take().expect("it runs").kill();
    let clone = Home::new();
    copy_all(&desk.home.root(), &clone.root());
    desk.starts();
    published(&desk);
    let _coordinator = Coordinator::start(&clone);
    let mut n = 1;
    wait_until("one of them finds the other", || {
        n += 1;
        for home in [&desk.home, &clone] {
            let event = if n % 2 == 0 { "Stop" } else { "UserPromptSubmit" };
            post(home, &client_event(SESSION, event, n));
        }
        let found = [&desk.home, &clone].map(|home| status(home)["relay"]["duplicate"].clone());
        if found.iter().any(Value::is_string) { Ok(()) } else { Err(found) }
    });
    let said = [&desk.home, &clone].map(|home| coord(home, &["fleet", "status"]).stdout);
    assert!(
        said.iter().any(|said| said.contains("another machine has the same identity")),
        "{said:?}"
    );
    for home in [&desk.home, &clone] {
        assert_eq!(inspect(home).sessions.len(), 1);
        post(home, &client_event(SESSION, "Stop", 1_000));
    }
}

// F-01: who leaves is forgotten elsewhere, and connects to nothing any more.
#[test]
fn f_01_a_machine_that_leaves_is_forgotten() {
    let (_server, [desk, laptop]) = fleet(["desk", "laptop"]);
    post(&desk.home, &client_event(SESSION, "UserPromptSubmit", 1));
    wait_until("it is known", || {
        let shown = laptop.shows();
        if shown.len() == 1 { Ok(()) } else { Err(shown) }
    });
    let said = coord(&desk.home, &["fleet", "leave"]).expect_success().stdout;
    assert!(
        said.starts_with("This machine has left the fleet, and its keys are gone.\n"),
        "{said}"
    );
    assert!(said.contains(&desk.key), "{said}");
    wait_until("it is forgotten", || {
        let shown = laptop.shows();
        if shown.is_empty() { Ok(()) } else { Err(shown) }
    });
    // Its sessions are removed before it is.
    wait_until("the machine is forgotten too", || {
        let machines = status(&laptop.home)["machines"].clone();
        if machines == serde_json::json!([]) { Ok(()) } else { Err(machines) }
    });
    let gone = coord(&desk.home, &["fleet", "status"]);
    assert_eq!(gone.code(), Some(1));
    assert!(gone.stderr.contains("has joined no fleet"), "{gone:?}");
}

/// The relay that a machine's coordinator runs, once there is one.
#[track_caller]
fn relay(machine: &Machine) -> Pid {
    let coordinator = machine.coordinator.as_ref().expect("it runs");
    wait_until(&format!("{} has a relay", machine.name), || {
        let children = children(coordinator);
        let relay = children.iter().find(|(_, line)| line.contains(" fleet relay "));
        relay.map(|(pid, _)| *pid).ok_or(children)
    })
}

/// Kills the relay of a machine, and waits until it is gone.
#[track_caller]
fn kill_relay(machine: &Machine) {
    let pid = relay(machine);
    // Its parent may have reaped it if it has ended by itself.
    let _gone = kill_process(pid, Signal::KILL);
    let coordinator = machine.coordinator.as_ref().expect("it runs");
    wait_until("the relay is gone", || {
        let children = children(coordinator);
        // One that its parent did not reap yet has no command line.
        let runs = |(other, line): &(Pid, String)| *other == pid && !line.is_empty();
        if children.iter().any(runs) { Err(children) } else { Ok(()) }
    });
}

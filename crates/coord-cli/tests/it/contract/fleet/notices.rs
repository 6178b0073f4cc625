//! Machines of a fleet tell for each other (F-02).

use serde_json::json;

use super::*;
use crate::contract::harness::Harness;
use crate::contract::notice::{channel, recorder, told};

/// Gives a machine a channel, and says whether it tells for others. What it has in its configuration stays.
fn tells(machine: &Machine, for_others: bool) {
    let file = machine.home.paths().config_file();
    let before = fs::read_to_string(&file).unwrap();
    let notify = format!("[fleet]\nnotify = {for_others}\n");
    let channel = channel("log", &recorder(&machine.home));
    let config = before.replacen("[fleet]\n", &notify, 1);
    fs::write(file, format!("{config}\n[notice]\ndelays = {{}}\n{channel}")).unwrap();
}

/// The sessions of which a machine has told.
fn told_of(machine: &Machine) -> Vec<String> {
    let needs = told(&machine.home).into_iter().filter(|one| one["event"] == "need");
    needs.map(|one| one["session_id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn asks(client: &mut Harness) {
    client.report("UserPromptSubmit", &json!({"prompt": "x"}));
    client.report("PermissionRequest", &json!({"tool_name": "Bash", "tool_input": {}}));
}

/// The id of the need that a session has.
#[track_caller]
fn need_of(machine: &Machine, session: &str) -> String {
    let shown = inspect(&machine.home);
    let session = shown.sessions.iter().find(|one| one.session_id == session).expect("it is there");
    session.needs[0].id.clone()
}

/// Waits until a machine knows that another one has told its need.
#[track_caller]
fn knows_told(machine: &Machine, need: &str) {
    wait_until(&format!("{} knows that {need} was told", machine.name), || {
        let events = coord(&machine.home, &["events", "--json"]).stdout;
        let is_told = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["name"] == "FleetNotices" && line["needs"].to_string().contains(need)
        };
        if events.lines().any(is_told) { Ok(()) } else { Err(events) }
    });
}

// F-02: a machine that tells for others says so where none leaves it to this machine, and what to do there.
#[test]
fn f_02_who_tells_for_nobody_is_told_what_is_missing() {
    let (_server, machines) = fleet(["desk"]);
    let [desk] = &machines;
    published(desk);
    let said = || coord(&desk.home, &["fleet", "status"]).expect_success().stdout;
    assert!(!said().contains("notices"), "{}", said());
    tells(desk, true);
    let command = format!("coord fleet allow {} desk --notify\n", desk.key);
    assert!(said().contains(&command), "{}", said());
}

// F-02: a need is told once in the fleet, by the machine that tells for others; by its own when that one is gone.
#[test]
fn f_02_a_need_is_told_once_in_the_fleet() {
    let (_server, mut machines) = fleet(["desk", "laptop"]);
    let [desk, laptop] = &mut machines;
    for (machine, other) in [(&*desk, &*laptop), (&*laptop, &*desk)] {
        let words = ["fleet", "allow", &other.key, other.name, "--notify"];
        coord(&machine.home, &words).expect_success();
    }
    tells(desk, false);
    tells(laptop, true);
    wait_until("desk leaves its notices to the laptop", || {
        let relay = &status(&desk.home)["relay"];
        if relay["notifier"] == laptop.id.as_str() { Ok(()) } else { Err(relay.clone()) }
    });
    let mut first = Harness::at_terminal(&desk.home, "first-of-desk");
    asks(&mut first);
    let notice = wait_until("the laptop tells it", || {
        told(&laptop.home).first().cloned().ok_or_else(|| status(&laptop.home))
    });
    assert_eq!((&notice["session_id"], &notice["host"]), (&"first-of-desk".into(), &"desk".into()));
    let name = notice["session"].as_str().unwrap();
    assert!(name.starts_with("desk/"), "{notice}");
    assert_eq!(notice["text"], format!("{name} asks to run Bash"));
    knows_told(desk, &need_of(desk, "first-of-desk"));
    wait_until("the laptop says for whom it tells", || {
        let relay = &status(&laptop.home)["relay"];
        if relay["tells_for"][0] == desk.id.as_str() { Ok(()) } else { Err(relay.clone()) }
    });
    first.report("PostToolUse", &json!({"tool_name": "Bash", "tool_input": {}}));
    let back = wait_until("the laptop takes it back", || {
        told(&laptop.home).get(1).cloned().ok_or("not yet")
    });
    assert_eq!((&back["event"], &back["id"]), (&"withdrawn".into(), &notice["id"]));
    // Told by the laptop, and still open when the laptop is gone: desk does not tell it once more.
    asks(&mut first);
    wait_until("the laptop tells it", || told(&laptop.home).get(2).cloned().ok_or("not yet"));
    knows_told(desk, &need_of(desk, "first-of-desk"));
    laptop.coordinator = None;
    let mut second = Harness::at_terminal(&desk.home, "second-of-desk");
    asks(&mut second);
    wait_until("desk tells what nobody told", || {
        let told = told_of(desk);
        if told.is_empty() { Err(status(&desk.home)) } else { Ok(()) }
    });
    assert_eq!(told_of(desk), ["second-of-desk"]);
    assert_eq!(told_of(laptop), ["first-of-desk", "first-of-desk"]);
}

// F-02, F-06: a machine that is not on the list for it neither tells of the needs here nor has its needs told here.
#[test]
fn f_06_only_machines_on_the_list_share_notices() {
    let (_server, mut machines) = fleet(["desk", "laptop"]);
    let [desk, laptop] = &mut machines;
    // The laptop would tell; desk has it on its list, but not for that.
    coord(&desk.home, &["fleet", "allow", &laptop.key, "laptop", "--send"]).expect_success();
    coord(&laptop.home, &["fleet", "allow", &desk.key, "desk", "--notify"]).expect_success();
    tells(desk, false);
    tells(laptop, true);
    let mut client = Harness::at_terminal(&desk.home, "first-of-desk");
    wait_until("desk hears the laptop", || {
        let machines = status(&desk.home)["machines"].clone();
        if machines[0]["id"] == laptop.id.as_str() { Ok(()) } else { Err(machines) }
    });
    asks(&mut client);
    wait_until("desk tells it", || {
        let told = told_of(desk);
        if told == ["first-of-desk"] { Ok(()) } else { Err(told) }
    });
    assert_eq!(status(&desk.home)["relay"]["notifier"], Value::Null);
}

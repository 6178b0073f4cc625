//! The status line of the real client (N-08): its user's own line is on the screen as before, and its numbers arrive.

use std::time::SystemTime;

use coord_tests::client::sign_in;
use coord_tests::coord::{Coordinator, coord, inspect, programs};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::terminal::Terminal;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

/// The text of the journal.
fn journal(home: &Home) -> String {
    let files = std::fs::read_dir(home.paths().journal()).into_iter().flatten().flatten();
    let texts = files.map(|file| std::fs::read(file.path()).unwrap_or_default());
    texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
}

pub(crate) fn a_status_line() {
    let home = Home::new();
    let (seen, settings) = (home.dir().join("seen"), home.config_dir().join("settings.json"));
    // What the client would show of an unwrapped command: quotes, letters beyond ASCII and a second line.
    let script = format!("cat > '{}'; printf \"it's %s\\\\nliné two\" mine", seen.display());
    let before = json!({"statusLine": {"type": "command", "command": script, "padding": 1}});
    let before = serde_json::to_string_pretty(&before).expect("plain JSON");
    std::fs::write(&settings, &before).expect("write the settings");
    let (hooks, config_dir) = (programs(), home.config_dir());
    let place = ["--config-dir", &config_dir.to_string_lossy()];
    let install = ["install", "--statusline", "--hooks-dir", &hooks.to_string_lossy()];
    let said = coord(&home, &[&install[..], &place].concat()).expect_success();
    assert!(said.stdout.contains("13 events and the status line"), "{}", said.stdout);

    let _coordinator = Coordinator::start(&home);
    let api = FakeApi::start([Turn::text("One.")]);
    let terminal = Terminal::start(&home, &api);
    let pane = terminal.pane();
    let pid = pane.start(&[]);
    pane.wait_screen("it's mine");
    pane.wait_screen("liné two");
    pane.type_line("First prompt");
    pane.wait_screen("One.");

    let given = |text: &str| -> Option<Value> { serde_json::from_str(text).ok() };
    let payload = wait_until("its own command was given a payload", || {
        let text = std::fs::read_to_string(&seen).unwrap_or_default();
        given(&text).ok_or(text)
    });
    let id = payload["session_id"].as_str().expect("an id").to_owned();
    let size = payload["context_window"]["context_window_size"].as_u64().expect("a size");
    wait_until("the journal has its numbers", || {
        let text = journal(&home);
        let lines = text.lines().filter(|line| line.contains("\"event\":\"StatusLine\""));
        let mut lines = lines.filter(|line| line.contains(&format!("\"session_id\":\"{id}\"")));
        let words = [format!("\"context_size\":{size}"), "\"verified\"".to_owned()];
        let found = lines.any(|line| words.iter().all(|word| line.contains(word)));
        if found { Ok(()) } else { Err(text) }
    });
    let sessions = inspect(&home).sessions;
    let owner = sessions.iter().find(|one| one.session_id == id).and_then(|one| one.owner.as_ref());
    assert_eq!(owner.map(|owner| owner.pid), Some(pid), "{sessions:#?}");

    // what people see of it, once an answer has filled the context.
    wait_until("its context is shown", || {
        let shown = coord(&home, &["inspect", &id]).expect_success().stdout;
        let parts = [
            "  context    ",
            "% of ",
            " tokens · status line, ",
            " since its start or /clear · status line, ",
        ];
        if parts.iter().all(|part| shown.contains(part)) { Ok(()) } else { Err(shown) }
    });

    coord(&home, &[&["uninstall"][..], &place].concat()).expect_success();
    assert_eq!(std::fs::read_to_string(&settings).expect("they are there"), before);
}

/// An answer with what the API says of a subscription's limits, in hundredths.
fn answer(text: &str, used: u32, resets_s: u64) -> Turn {
    let (resets, used) = (resets_s.to_string(), format!("0.{used:02}"));
    Turn::text(text)
        .only_for(text)
        .header("anthropic-ratelimit-unified-status", "allowed")
        .header("anthropic-ratelimit-unified-5h-status", "allowed")
        .header("anthropic-ratelimit-unified-5h-utilization", &used)
        .header("anthropic-ratelimit-unified-5h-reset", &resets)
        .header("anthropic-ratelimit-unified-7d-status", "allowed")
        .header("anthropic-ratelimit-unified-7d-utilization", "0.17")
        .header("anthropic-ratelimit-unified-7d-reset", &resets)
        .header("anthropic-ratelimit-unified-reset", &resets)
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
}

// before any limit is hit, from the real headers; three sessions of one account tell of one account.
pub(crate) fn the_limits_of_an_account() {
    let home = Home::new();
    let (hooks, config_dir) = (programs(), home.config_dir());
    let place = ["--config-dir", &config_dir.to_string_lossy()];
    let install = ["install", "--statusline", "--hooks-dir", &hooks.to_string_lossy()];
    coord(&home, &[&install[..], &place].concat()).expect_success();
    sign_in(&home);
    let now_s = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let resets_s = now_s + 7_200;
    let _coordinator = Coordinator::start(&home);
    let used = [("first", 42), ("second", 55), ("third", 61)];
    let api = FakeApi::start(used.map(|(text, used)| answer(text, used, resets_s)));
    let terminal = Terminal::start(&home, &api);
    for (at, (text, used)) in used.into_iter().enumerate() {
        let pane = terminal.pane();
        pane.start_with("env -u ANTHROPIC_API_KEY", &[]);
        pane.type_line(text);
        wait_until("the account has what the newest session said", || {
            let quota = coord(&home, &["quota", "--json"]).expect_success().stdout;
            let quota: Value = serde_json::from_str(&quota).expect("JSON");
            let [account] = &quota["accounts"].as_array().expect("accounts")[..] else {
                panic!("one account: {quota}")
            };
            let limits = account["limits"].as_array().cloned().unwrap_or_default();
            let percents: Vec<_> = limits.iter().map(|one| one["percent"].as_f64()).collect();
            let is_said = percents == [Some(f64::from(used)), Some(17.0)];
            if is_said && account["sessions"] == at + 1 { Ok(()) } else { Err(quota) }
        });
    }
    // Each session shows its account's newest numbers.
    let resets = coord_model::stamp::rfc3339(resets_s * 1_000);
    for session in inspect(&home).sessions {
        let limits = session.usage.expect("its account is known").limits;
        let shown: Vec<_> =
            limits.iter().map(|one| (one.name.as_str(), one.percent.whole())).collect();
        assert_eq!(shown, [("5-hour", 61), ("7-day", 17)]);
        assert!(limits.iter().all(|one| one.resets_at == resets), "{limits:?}");
    }
    let lines = coord(&home, &["quota"]).expect_success().stdout;
    assert!(lines.contains("39%") && lines.contains("83%"), "what is left: {lines}");
}

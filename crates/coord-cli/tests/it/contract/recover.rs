//! `coordctl recover` reports each step, and returns when it is certain how the recovery ends (U-07).

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use coord_model::SessionState;
use coord_tests::coord::{Coordinator, install, session, session_when};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use coord_wire::inspect::Session;
use serde_json::Value;

use super::control::{at_terminal, from_file, into_file, new_file};
use super::harness::{Harness, Tmux};

/// A home in which coord may act on the sessions of the tests' tmux servers, without the waits that a person
/// would need.
fn acting(mode: &str) -> (Home, Coordinator) {
    let home = Home::new();
    home.write_config(&quick(&home, mode));
    install(&home);
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

/// A configuration for the tests' tmux servers, without the waits that a person would need.
pub(super) fn quick(home: &Home, mode: &str) -> String {
    let uid = rustix::process::geteuid().as_raw();
    let sockets = home.tmp().join(format!("tmux-{uid}"));
    format!(
        "[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\ninterrupted_within = '1h'\n\
         settle = '1s'\nsweep = '1s'\n[recovery]\nmode = '{mode}'\ncooldown_failure = '1s'\n\
         keys_quiet = '1s'\nidle_quiet = '1s'\nverified_after = '1s'\n",
        home.config_dir().display(),
        sockets.display()
    )
}

/// A session that crashed in a shell; coord resumes it as a client that runs these lines of shell. Its
/// id and its name.
#[track_caller]
fn crashed(home: &Home, tmux: &Tmux<'_>, resumed: impl Fn(&Harness) -> String) -> (String, String) {
    let id = &*new_id();
    let (mut harness, pane) = Harness::in_shell(tmux, id);
    harness.write_transcript();
    harness.register();
    harness.begin_turn();
    session_when(home, id, "its pane was seen", has_seen_pane);
    wait_until("its command line was read", || {
        let said = at_terminal(home, tmux, &format!("recover {id} --dry-run"), "");
        if said.text.contains("refused: it is alive and busy") { Ok(()) } else { Err(said.text) }
    });
    harness.resumes_as(&resumed(&harness));
    harness.kill();
    tmux.shows_prompt(&pane);
    let seen = session_when(home, id, "crashed, and left alone", |session| {
        session.state == SessionState::Crashed && session.pending_recovery.is_none()
    });
    (id.to_owned(), seen.display_name.unwrap())
}

/// `coordctl ARGUMENTS` in a pane, not waited for: where its answer will be.
fn begin(home: &Home, tmux: &Tmux<'_>, arguments: &str) -> PathBuf {
    let file = new_file(home);
    tmux.run(&["new-window", "-d", "-n", "order", &into_file(home, arguments, &file)]);
    file
}

/// Waits until a command that has not ended has printed this.
#[track_caller]
fn says(file: &std::path::Path, words: &str) {
    let so_far = file.with_extension("new");
    wait_until(words, || {
        let text = fs::read_to_string(&so_far).unwrap_or_default();
        if text.contains(words) { Ok(()) } else { Err(text) }
    });
}

/// An id of its own: coord also sees the processes of other tests, by the ids on their command lines.
fn new_id() -> String {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let number = IDS.fetch_add(1, Ordering::Relaxed);
    format!("{number:04}-of-{}", std::process::id())
}

pub(super) fn has_seen_pane(session: &Session) -> bool {
    session.evidence.iter().any(|one| one.fact.starts_with("shows "))
}

fn owner(home: &Home, id: &str) -> u32 {
    session(home, id).unwrap().owner.unwrap().pid
}

/// Its last two lines: what was said last before the end, and the end.
fn last_lines(text: &str) -> (&str, &str) {
    let mut lines = text.lines().rev();
    let (end, before) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    (before, end)
}

#[test]
fn u_07_each_step_is_said_once_to_the_verified_end() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (id, harness) = crashed(&home, &tmux, Harness::comes_up);
    let said = at_terminal(&home, &tmux, &format!("recover {harness}"), "").done();
    let pid = owner(&home, &id);
    let lines: Vec<&str> = said.lines().collect();
    let [order, placed, started, back] = lines.as_slice() else { panic!("{said}") };
    assert!(order.contains("  coord will check the session, then resume it "), "{said}");
    assert_eq!(*placed, format!("{harness}: resume line typed into first:1"));
    assert_eq!(*started, format!("{harness}: client started (pid {pid})"));
    let took = back.strip_prefix(&format!("{harness}: recovered in ")).unwrap_or_default();
    let took: f64 = took.strip_suffix(" s").unwrap_or_default().parse().unwrap();
    assert!((1.0..60.0).contains(&took), "it stood for verified_after: {said}");
    // What is back is no longer waited for.
    let again = at_terminal(&home, &tmux, &format!("recover {harness}"), "");
    assert!(again.code == 1 && again.text.contains("refused: "), "{again:?}");
}

#[test]
fn u_07_a_living_client_is_ended_first() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let id = new_id();
    let (mut harness, _pane) = Harness::in_shell(&tmux, &id);
    harness.write_transcript();
    harness.register_as_idle();
    harness.begin_turn();
    harness.shows_an_empty_prompt();
    assert_eq!(harness.report("Stop", &serde_json::json!({})), 0);
    let seen = session_when(&home, &id, "at rest, in its pane", |session| {
        session.state == SessionState::Idle && has_seen_pane(session)
    });
    let name = seen.display_name.unwrap();
    harness.resumes_as(&harness.comes_up());
    let said = at_terminal(&home, &tmux, &format!("recover {name} --restart"), "");
    let said = said.done();
    let steps: Vec<&str> = said.lines().filter(|line| !line.contains(": waits: ")).collect();
    let [_, ending, placed, started, back] = steps.as_slice() else { panic!("{said}") };
    assert_eq!(*ending, format!("{name}: ending the client"));
    assert_eq!(*placed, format!("{name}: resume line typed into first:1"));
    assert!(started.contains("client started") && back.contains("recovered in"), "{said}");
}

#[test]
fn u_07_json_is_one_document_with_the_end() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (id, _) = crashed(&home, &tmux, Harness::comes_up);
    let no_wait = at_terminal(&home, &tmux, &format!("recover {id} --json --dry-run"), "").done();
    let no_wait: Value = serde_json::from_str(&no_wait).unwrap();
    assert_eq!(no_wait["results"][0]["outcome"], "dry_run");
    let said = at_terminal(&home, &tmux, &format!("recover {id} --json"), "").done();
    let said: Value = serde_json::from_str(&said).unwrap();
    let result = &said["results"][0];
    assert_eq!((&said["what"], &result["outcome"]), (&"recover".into(), &"accepted".into()));
    let recovery = &result["recovery"];
    assert_eq!(recovery["outcome"], "recovered", "{said}");
    assert_eq!(recovery["pid"], owner(&home, &id), "{said}");
    assert!(1_000 <= recovery["after_ms"].as_u64().unwrap(), "{said}");
    assert_eq!((&recovery["reason"], &recovery["command"]), (&Value::Null, &Value::Null));
}

#[test]
fn u_07_what_is_not_brought_back_is_told_with_the_remedy() {
    let (home, _coordinator) = acting("observe");
    let tmux = Tmux::start(&home);
    let (id, name) = crashed(&home, &tmux, Harness::comes_up);
    let said = at_terminal(&home, &tmux, &format!("recover {name}"), "");
    let why = format!(
        "not recovered: coord only observes (recovery.mode is \"observe\"). → claude --resume {id}"
    );
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(last_lines(&said.text).1, format!("{name}: {why}"));
    assert!(!said.text.contains("typed into"), "it says what was done: {said:?}");

    fs::remove_dir_all(home.config_dir().join("projects")).unwrap();
    let said = at_terminal(&home, &tmux, &format!("recover {name}"), "");
    let why = format!(
        "{name}: not recovered: nothing to resume: it has no transcript. → coord explain {name}"
    );
    assert_eq!((said.code, last_lines(&said.text).1), (1, &*why), "{said:?}");
    let json = at_terminal(&home, &tmux, &format!("recover {name} --json"), "");
    let document: Value = serde_json::from_str(&json.text).unwrap();
    let recovery = &document["results"][0]["recovery"];
    assert_eq!((json.code, &recovery["outcome"]), (1, &"not_recovered".into()), "{json:?}");
    assert!(recovery["reason"].as_str().unwrap().contains("no transcript"), "{json:?}");
}

#[test]
fn u_07_an_order_that_waits_for_a_person_returns_and_stays() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (id, name) = crashed(&home, &tmux, Harness::comes_up);
    at_terminal(&home, &tmux, &format!("hold {name}"), "").done();
    let said = at_terminal(&home, &tmux, &format!("recover {name} --no-wait"), "").done();
    assert_eq!(said.lines().count(), 1, "it returns at once: {said}");
    let said = at_terminal(&home, &tmux, &format!("recover {name}"), "");
    let why = format!(
        "{name}: waits until a person acts: a person holds the session. The order stays. → coordctl release {name}"
    );
    assert_eq!((said.code, last_lines(&said.text).1), (1, &*why), "{said:?}");
    at_terminal(&home, &tmux, &format!("release {name}"), "").done();
    session_when(&home, &id, "brought back by the order that stayed", |session| {
        session.recovery.last_outcome.as_deref() == Some("verified")
    });
}

// A hold that ends by itself is waited for.
#[test]
fn u_07_a_wait_with_an_end_is_said_and_waited_for() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (_, name) = crashed(&home, &tmux, Harness::comes_up);
    at_terminal(&home, &tmux, &format!("hold {name} --for 10m"), "").done();
    let file = begin(&home, &tmux, &format!("recover {name}"));
    says(&file, &format!("{name}: waits: a person holds the session\n"));
    at_terminal(&home, &tmux, &format!("release {name}"), "").done();
    let said = from_file(&file).done();
    assert!(last_lines(&said).1.starts_with(&format!("{name}: recovered in ")), "{said}");
}

#[test]
fn u_07_failed_attempts_are_told_until_coord_gives_up() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (_, name) = crashed(&home, &tmux, |_| "exit 7".to_owned());
    let said = at_terminal(&home, &tmux, &format!("recover {name}"), "");
    let failed = said.text.lines().filter(|line| line.contains(": the attempt failed: "));
    assert_eq!((said.code, failed.count()), (1, 3), "{said:?}");
    assert!(said.text.contains(&format!("{name}: waits: the last attempt failed")), "{said:?}");
    let end = last_lines(&said.text).1;
    let why = format!("{name}: waits until a person acts: 3 recoveries in this turn.");
    assert!(end.starts_with(&why), "{said:?}");
    assert!(end.ends_with(&format!("→ coordctl reset-failed {name}")), "{said:?}");
}

#[test]
fn u_07_a_killed_coordinator_does_not_end_the_wait() {
    let (home, coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (up, gate) = (home.tmp().join("up"), home.tmp().join("gate"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (_, name) = crashed(&home, &tmux, |harness| {
        format!(": >'{}'\nread -r go <'{}'\n{}", up.display(), gate.display(), harness.comes_up())
    });
    let file = begin(&home, &tmux, &format!("recover {name}"));
    says(&file, &format!("{name}: resume line typed into first:1\n"));
    wait_until("the line became the client", || fs::metadata(&up).map(drop));
    coordinator.kill();
    says(&file, "the coordinator does not answer; the recovery goes on when it runs again\n");
    let _coordinator = Coordinator::start(&home);
    // Opened for both directions, it does not wait for a reader.
    let mut gate = fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    gate.write_all(b"go\n").unwrap();
    let said = from_file(&file).done();
    let count = |words: &str| said.matches(words).count();
    assert_eq!((count("resume line typed"), count("client started (pid ")), (1, 1), "{said}");
    assert!(last_lines(&said).1.starts_with(&format!("{name}: recovered in ")), "{said}");
}

#[test]
fn u_07_ctrl_c_ends_the_wait_and_not_the_recovery() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (id, name) = crashed(&home, &tmux, Harness::comes_up);
    at_terminal(&home, &tmux, &format!("hold {name} --for 10m"), "").done();
    let file = new_file(&home);
    let line = format!("trap : INT; {}", into_file(&home, &format!("recover {name}"), &file));
    let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", &line]);
    says(&file, &format!("{name}: waits: a person holds the session\n"));
    tmux.run(&["send-keys", "-t", pane.trim(), "C-c"]);
    let said = from_file(&file);
    let end = format!("{name}: the recovery goes on. → coord explain {name}");
    assert_eq!((said.code, last_lines(&said.text).1), (130, &*end), "{said:?}");
    at_terminal(&home, &tmux, &format!("release {name}"), "").done();
    session_when(&home, &id, "brought back all the same", |session| {
        session.recovery.last_outcome.as_deref() == Some("verified")
    });
}

#[test]
fn u_07_several_sessions_are_waited_for_to_the_last() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let (id, one) = crashed(&home, &tmux, Harness::comes_up);
    let (_, two) = crashed(&home, &tmux, Harness::comes_up);
    let unknown = at_terminal(&home, &tmux, &format!("recover {one} nobody-has-this"), "");
    assert_eq!(unknown.code, 3, "{unknown:?}");
    let untouched = session(&home, &id).unwrap();
    assert!(untouched.pending_recovery.is_none(), "nothing was ordered: {untouched:?}");
    let said = at_terminal(&home, &tmux, &format!("recover {one} {two} {one}"), "").done();
    for name in [&one, &two] {
        let own = format!("{name}: ");
        let lines: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(&own)).collect();
        assert!(lines.last().is_some_and(|line| line.starts_with("recovered in ")), "{said}");
    }
}

#[test]
fn u_07_a_refused_session_does_not_end_the_wait_for_others() {
    let (home, _coordinator) = acting("signature");
    let tmux = Tmux::start(&home);
    let busy = new_id();
    let (mut working, _pane) = Harness::in_shell(&tmux, &busy);
    working.begin_turn();
    let (_, name) = crashed(&home, &tmux, Harness::comes_up);
    let said = at_terminal(&home, &tmux, &format!("recover {busy} {name}"), "");
    assert!(said.code == 1 && said.text.contains("refused: it is alive and busy"), "{said:?}");
    let end = last_lines(&said.text).1;
    assert!(end.starts_with(&format!("{name}: recovered in ")), "{said:?}");
}

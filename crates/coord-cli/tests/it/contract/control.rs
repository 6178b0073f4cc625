//! `coordctl`: what it does at a person's terminal, and that it does nothing for anybody else (H-22).
//!
//! A person's terminal is a pane of a tmux server, which has no ancestor but the system: the tests
//! themselves may run below an agent.

use super::harness::{Harness, Tmux};
use super::wire::{ask, client_event, post};
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, events, install, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::{Finished, run};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a command at a terminal came to. Its two streams are one there.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) text: String,
}

impl Said {
    /// The one line of a failure.
    #[track_caller]
    fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.text.lines().count(), 1, "{self:?}");
        self.text.trim_end()
    }

    #[track_caller]
    pub(super) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.text
    }
}

fn program() -> String {
    format!("'{}'", programs().join("coordctl").display())
}

/// A file for an answer.
pub(super) fn new_file(home: &Home) -> PathBuf {
    static FILES: AtomicU64 = AtomicU64::new(0);
    home.tmp().join(format!("said-{}", FILES.fetch_add(1, Ordering::Relaxed)))
}

/// A line of shell that leaves a command's answer in a file, the code on its last line.
pub(super) fn into_file(home: &Home, arguments: &str, file: &std::path::Path) -> String {
    let (root, program, file) = (home.root(), program(), file.display());
    let command = format!("COORD_HOME='{}' {program} {arguments}", root.display());
    format!("{{ {command}; echo $?; }} >'{file}.new' 2>&1; mv '{file}.new' '{file}'")
}

#[track_caller]
pub(super) fn from_file(file: &std::path::Path) -> Said {
    let text = wait_until("the command has ended", || fs::read_to_string(file));
    let (text, code) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
    Said { code: code.parse().unwrap(), text: text.to_owned() }
}

/// `coordctl ARGUMENTS` in a pane; `input` is what stands on its standard input.
#[track_caller]
pub(super) fn at_terminal(home: &Home, tmux: &Tmux<'_>, arguments: &str, input: &str) -> Said {
    let file = new_file(home);
    let line = format!("printf '{input}' | {{ {}; }}", into_file(home, arguments, &file));
    let line = if input.is_empty() { into_file(home, arguments, &file) } else { line };
    tmux.run(&["new-window", "-d", &line]);
    from_file(&file)
}

/// What the journal has of orders: whose, and what.
fn orders(home: &Home) -> Vec<(Option<String>, String)> {
    let of = |line: &Value| {
        assert_eq!(line["source"], "operator");
        (
            line["session_id"].as_str().map(str::to_owned),
            line["detail"].as_str().unwrap().to_owned(),
        )
    };
    let lines = events(home, None);
    lines.iter().filter(|line| line["name"] == "Operator").map(of).collect()
}

fn started() -> (Home, Coordinator) {
    let home = Home::new();
    install(&home);
    let coordinator = Coordinator::start(&home);
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    post(&home, &client_event("aaaa2222", "Stop", 1));
    (home, coordinator)
}

// H-22, G1: what a person asks for at a terminal is durable when it is answered.
#[test]
fn an_order_of_a_person_is_recorded_and_outlives_a_kill() {
    let (home, coordinator) = started();
    let tmux = Tmux::start(&home);
    let task = home.project();
    let task = fs::canonicalize(task).unwrap();
    for (arguments, of, what) in [
        ("hold aaaa1111 --for 10m", Some("aaaa1111"), "hold for 10m"),
        ("hold --all", None, "hold all sessions"),
        ("release --all", None, "release all sessions"),
        ("release aaaa1111", Some("aaaa1111"), "release"),
        ("reset-failed aaaa2222", Some("aaaa2222"), "reset-failed"),
        (
            "attend aaaa1111 --unattended --no-recover --name tests --parent aaaa2222",
            Some("aaaa1111"),
            "attend unattended no-recover name tests parent aaaa2222",
        ),
        (
            &format!("attend aaaa1111 --task-dir '{}'", task.display()),
            Some("aaaa1111"),
            &format!("attend task-dir {}", task.display()),
        ),
        (
            &format!("attend --dir '{}/.' --recover", task.display()),
            None,
            &format!("attend all of {} recover", task.display()),
        ),
    ] {
        let before = orders(&home).len();
        let dry = at_terminal(&home, &tmux, &format!("{arguments} --dry-run"), "").done();
        assert!(dry.contains("Dry run: nothing was changed."), "{arguments}: {dry}");
        assert_eq!(orders(&home).len(), before, "{arguments}: a dry run records nothing");
        let said = at_terminal(&home, &tmux, arguments, "").done();
        assert!(!said.trim().is_empty(), "{arguments}: what came of it is said");
        let all = orders(&home);
        assert_eq!(all[before..], [(of.map(str::to_owned), what.to_owned())], "{arguments}");
    }
    // What a guard stands against is a failure, and recorded all the same.
    for (arguments, what) in [
        ("recover aaaa2222", "recover"),
        ("restore --yes aaaa2222 aaaa1111", "restore 2 in this order: aaaa2222, aaaa1111"),
    ] {
        let said = at_terminal(&home, &tmux, arguments, "");
        assert!(
            said.code == 1 && said.text.contains("aaaa2222 (project-2)  refused: "),
            "{said:?}"
        );
        assert_eq!(orders(&home).pop().unwrap().1, what);
        let dry = at_terminal(&home, &tmux, &format!("{arguments} --dry-run"), "").done();
        assert!(dry.contains("refused: "), "{dry}");
    }
    let json = at_terminal(&home, &tmux, "hold aaaa --json --dry-run", "");
    assert!(json.refused(3).contains("aaaa1111, aaaa2222"), "{json:?}");
    let json = at_terminal(&home, &tmux, "hold aaaa1111 --json", "").done();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["results"][0]["session_id"], "aaaa1111");
    assert_eq!(json["results"][0]["outcome"], "accepted");
    let before = orders(&home);
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    assert_eq!(orders(&home), before);
}

// A name that cannot be one is refused with the rule, and the old one stays.
#[test]
fn a_bad_name_is_refused() {
    let (home, _coordinator) = started();
    let tmux = Tmux::start(&home);
    at_terminal(&home, &tmux, "attend aaaa1111 --name tests", "").done();
    for name in ["bad name", "a/b", "-x", "n\u{e9}"] {
        let said = at_terminal(&home, &tmux, &format!("attend aaaa1111 --name='{name}'"), "");
        let line = said.refused(1);
        assert!(
            line.contains("is not a valid session name") && line.contains("letters, digits"),
            "{line}"
        );
    }
    let session = coord_tests::coord::session(&home, "aaaa1111").unwrap();
    assert_eq!(session.name.as_deref(), Some("tests"));
}

// What a release changes is said, and that it changes nothing.
#[test]
fn a_release_says_what_it_changes() {
    let (home, _coordinator) = started();
    let tmux = Tmux::start(&home);
    let released = |arguments: &str| at_terminal(&home, &tmux, arguments, "").done();
    assert!(released("release aaaa1111").contains("nothing changes: it is not held"));
    assert!(released("release --all").contains("this applies to no session"));
    at_terminal(&home, &tmux, "hold aaaa1111", "").done();
    at_terminal(&home, &tmux, "hold --all", "").done();
    let said = released("release aaaa1111");
    assert!(said.contains("its own hold ends, but `coordctl hold --all` still holds it"), "{said}");
    let said = released("release aaaa1111");
    assert!(said.contains("nothing changes: `coordctl hold --all` holds it"), "{said}");
    assert!(released("release --all").contains("its hold ends"));
}

// H-22
#[test]
fn nobody_gives_orders_without_a_terminal_of_their_own() {
    let (home, _coordinator) = started();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    let words = "hold --all";
    let mut command = home.command("setsid");
    command.arg("--wait").arg(programs().join("coordctl")).args(words.split(' '));
    command.env("COORD_HOME", home.root());
    let Finished { stderr, stdout, .. } = run(command, &home.tmp(), "coordctl");
    let no_terminal = "coordctl: Refused: no terminal, so nothing shows";
    let below = "coordctl: Refused: this comes from Claude Code (pid ";
    // The tests may run below an agent themselves: then that is seen first.
    assert!(stderr.starts_with(no_terminal) || stderr.starts_with(below), "{stderr}");
    assert_eq!((stderr.lines().count(), stdout.as_str()), (1, ""));

    let pid = harness.process.pid;
    let file = new_file(&home);
    harness.run(&into_file(&home, words, &file));
    assert!(from_file(&file).refused(1).starts_with(&format!("{below}{pid})")));
    // A job that its shell left behind: nothing leads back to the harness.
    let orphan = |line: &str| {
        format!(
            "env -u CLAUDECODE -u CLAUDE_PID /bin/sh -c '( while kill -0 $$; do :; done; {line} ) </dev/null 2>/dev/null &'"
        )
    };
    for (before, wanted) in [
        ("", format!("coordctl: Refused: Claude Code (pid {pid}) holds this terminal. Run")),
        ("setsid --wait ", no_terminal.to_owned()),
    ] {
        let file = new_file(&home);
        let script = home.tmp().join("job");
        fs::write(&script, into_file(&home, words, &file)).unwrap();
        harness.run(&orphan(&format!("{before}/bin/sh \"{}\"", script.display())));
        let said = from_file(&file);
        assert!(said.refused(1).starts_with(&wanted), "{said:?}");
    }
    // By whatever path.
    let recover = ask(&home, "POST", "/v1/sessions/aaaa1111/recover", r#"{"dry_run": true}"#);
    assert!(recover.status == 403 || recover.status == 200, "{recover:?}");
    assert_eq!(orders(&home), []);
    at_terminal(&home, &tmux, words, "").done();
    assert_eq!(orders(&home).len(), 1, "a pane beside it is a person's");
}

/// What an agent's shell does to look like a person: the line of shell `FILE` runs with a terminal of its
/// own, and no client is among its ancestors.
pub(super) fn disguises(home: &Home) -> Vec<(&'static str, String)> {
    let socket = home.tmp().join("agents-tmux");
    vec![
        ("plain", "/bin/sh FILE".to_owned()),
        ("script", "setsid -f script -qec '/bin/sh FILE' /dev/null >/dev/null 2>&1".to_owned()),
        (
            "tmux",
            format!("tmux -S '{}' -f /dev/null new-session -d '/bin/sh FILE'", socket.display()),
        ),
        ("nohup", "(nohup setsid /bin/sh FILE >/dev/null 2>&1 &)".to_owned()),
    ]
}

/// A command of `program` that the agent of this harness runs in disguise.
#[track_caller]
pub(super) fn by_agent(
    home: &Home,
    harness: &mut Harness,
    program: &str,
    arguments: &str,
    as_: &str,
) -> Said {
    let file = new_file(home);
    let line = into_file(home, arguments, &file).replace("/coordctl'", &format!("/{program}'"));
    let script = home.tmp().join("disguised");
    fs::write(&script, line).unwrap();
    harness.run(&as_.replace("FILE", &script.display().to_string()));
    let said = from_file(&file);
    // A server of the agent's ends with its last window; the next one is a new one.
    wait_until("its tmux server is gone", || {
        let mut ask = home.command("tmux");
        ask.arg("-S").arg(home.tmp().join("agents-tmux")).arg("list-sessions");
        if run(ask, &home.tmp(), "tmux").code() == Some(0) { Err("not yet") } else { Ok(()) }
    });
    said
}

// H-50: setsid, script and a tmux server of its own do not make an agent a person.
#[test]
fn an_agent_that_detaches_itself_gives_no_orders() {
    let (home, _coordinator) = started();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    for (what, as_) in disguises(&home) {
        for arguments in
            ["hold --all", "recover aaaa1111", "attend aaaa1111 --recover", "release --all"]
        {
            let said = by_agent(&home, &mut harness, "coordctl", arguments, &as_);
            let line = said.refused(1);
            assert!(line.starts_with("coordctl: Refused: "), "{what} {arguments}: {line}");
        }
        let config = home.paths().config_file();
        let before = fs::read_to_string(&config).ok();
        let said = by_agent(&home, &mut harness, "coordctl", "recovery-mode act", &as_);
        assert!(said.refused(1).contains("`coordctl recovery-mode`"), "{what}: {said:?}");
        assert_eq!(fs::read_to_string(&config).ok(), before, "{what}");
    }
    assert_eq!(orders(&home), []);
    at_terminal(&home, &tmux, "hold --all", "").done();
}

// H-50: no agent stops the coordinator that every session relies on.
#[test]
fn an_agent_does_not_stop_the_coordinator() {
    let (home, coordinator) = started();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    for (what, as_) in disguises(&home) {
        let said = by_agent(&home, &mut harness, "coord", "down", &as_);
        let line = said.refused(1);
        assert!(
            line.starts_with("coord: Refused: ") && line.contains("`coord down`"),
            "{what}: {line}"
        );
        assert!(!home.paths().down().exists(), "{what}");
    }
    // U-04: nor does it move anybody's tmux client.
    for words in ["go harness-one", "next", "back"] {
        for (what, as_) in disguises(&home) {
            let said = by_agent(&home, &mut harness, "coord", words, &as_);
            assert!(said.refused(1).starts_with("coord: Refused: "), "{what}: {said:?}");
        }
    }
    // Without the client's variables the program itself finds nothing, and the coordinator does.
    let bare = "env -u CLAUDECODE -u CLAUDE_PID /bin/sh FILE";
    let said = by_agent(&home, &mut harness, "coord", "down", bare);
    assert!(said.refused(1).contains("this comes from Claude Code (pid "), "{said:?}");
    assert!(!home.paths().down().exists());
    assert_eq!(coord_tests::coord::health(&home).unwrap().pid, coordinator.pid());
    // A person may.
    let file = new_file(&home);
    let line = into_file(&home, "down", &file).replace("/coordctl'", "/coord'");
    tmux.run(&["new-window", "-d", &line]);
    assert!(from_file(&file).done().contains("coordinator stopped"));
}

// H-50, H-04: an agent changes no messages of others, and is no person by detaching itself.
#[test]
fn an_agent_changes_its_own_messages_alone() {
    let (home, _coordinator) = started();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    let sent = |said: &Said| said.text.split(' ').next().unwrap().to_owned();
    let coord = |arguments: &[&str]| coord(&home, arguments);
    let others = coord(&["queue", "send", "builds", "one"]).expect_success().stdout;
    let others = others.split(' ').next().unwrap();
    let from = |id: &str| {
        let shown = coord(&["queue", "show", id, "--json"]).expect_success().stdout;
        serde_json::from_str::<Value>(&shown).unwrap()["from"].as_str().unwrap().to_owned()
    };
    for (what, as_) in disguises(&home) {
        for verb in ["drop", "retry"] {
            let words = format!("queue {verb} {others}");
            let said = by_agent(&home, &mut harness, "coord", &words, &as_);
            assert!(said.refused(1).starts_with("coord: Refused: "), "{what}: {said:?}");
        }
        let words = format!("queue send builds by-{what}");
        let said = by_agent(&home, &mut harness, "coord", &words, &as_);
        let own = sent(&said);
        let wanted = if what == "plain" { "session harness-one" } else { "an agent" };
        assert_eq!(from(&own), wanted, "{what}");
        let said =
            by_agent(&home, &mut harness, "coord", &format!("queue drop {own}"), "/bin/sh FILE");
        assert_eq!(said.code == 0, what == "plain", "{what}: {said:?}");
    }
    // U-13: nor does it read the texts of others.
    let mut by_agent = |words: &str| {
        let said = by_agent(&home, &mut harness, "coord", words, "/bin/sh FILE");
        said.text.clone()
    };
    let own = by_agent("queue send builds my-own");
    let own = own.split(' ').next().unwrap();
    let shown = by_agent(&format!("queue show {own}"));
    assert!(shown.contains("\nmy-own"), "{shown}");
    let withheld = by_agent(&format!("queue show {others}"));
    assert!(withheld.contains("text       only for a person"), "{withheld}");
    assert!(coord(&["queue", "show", others]).expect_success().stdout.ends_with("\none\n"));
    coord(&["queue", "drop", others]).expect_success();
}

/// Sessions whose tmux server is dead; where it listened.
fn interrupted(home: &Home, ids: &[&str]) -> PathBuf {
    let tmux = Tmux::named(home, "dead");
    let mut inside: Vec<Harness> = ids.iter().map(|id| Harness::in_tmux(&tmux, id)).collect();
    for harness in &mut inside {
        harness.register();
        harness.begin_turn();
    }
    let socket = tmux.socket();
    tmux.kill();
    for id in ids {
        session_when(home, id, "interrupted", |one| one.state == SessionState::Interrupted);
    }
    socket
}

/// A home in which coord may reach the tests' tmux servers and the client's registry.
pub(super) fn watched() -> (Home, Coordinator) {
    let home = Home::new();
    let uid = rustix::process::geteuid().as_raw();
    let sockets = home.tmp().join(format!("tmux-{uid}"));
    home.write_config(&format!(
        "[recovery]\nmode = 'observe'\n[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\ninterrupted_within = '1h'\n",
        home.config_dir().display(),
        sockets.display()
    ));
    install(&home);
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

// U-01, U-02: a need is shown until it ends or is dismissed, and one of several is named by its id.
#[test]
fn u_01_a_need_is_dismissed_by_name_or_by_id() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let nobody = coord(&home, &["inspect", "--needs-me"]);
    assert_eq!((nobody.code(), nobody.stdout.as_str()), (Some(8), "Nobody needs you.\n"));
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.begin_turn();
    let name = session_when(&home, "session-one", "it is known", |_| true).display_name.unwrap();
    let none = at_terminal(&home, &tmux, &format!("dismiss {name}"), "");
    assert!(none.refused(1).contains("needs nobody; nothing was dismissed"), "{none:?}");
    let asks = |harness: &mut Harness, command: &str| {
        let call = json!({"tool_name": "Bash", "tool_input": {"command": command}});
        assert_eq!(harness.report("PermissionRequest", &call), 0);
    };
    asks(&mut harness, "ls");
    let needing = coord(&home, &["inspect", "--needs-me", "-o", "name"]).expect_success();
    assert_eq!(needing.stdout.trim_end(), name);
    asks(&mut harness, "make");
    let needs = || session_when(&home, "session-one", "it is known", |_| true).needs;
    let [first, second] = &needs()[..] else { panic!("{:?}", needs()) };
    let several = at_terminal(&home, &tmux, &format!("dismiss {name}"), "");
    assert!(several.refused(1).contains(&format!("{}, {}", first.id, second.id)), "{several:?}");
    at_terminal(&home, &tmux, &format!("dismiss {}", first.id), "").done();
    let left: Vec<_> = needs().into_iter().map(|need| need.id).collect();
    assert_eq!(left, [&*second.id], "it hides nothing else");
    at_terminal(&home, &tmux, &format!("dismiss {name}"), "").done();
    assert_eq!(coord(&home, &["inspect", "--needs-me"]).code(), Some(8));
    let over = at_terminal(&home, &tmux, &format!("dismiss {}", first.id), "");
    assert!(over.refused(1).contains("no open need"), "{over:?}");
}

// S0-25f, H-10: the interrupted sessions are listed, asked about, and a server is started for them.
#[test]
fn restore_asks_and_starts_the_server_that_is_gone() {
    let (home, _coordinator) = watched();
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let tmux = Tmux::start(&home);
    let none = at_terminal(&home, &tmux, "restore", "").done();
    assert_eq!(none.trim_end(), "No session waits to be brought back.");
    let socket = interrupted(&home, &["bbbb1111", "bbbb2222"]);
    let gone = format!("The tmux server {} is gone", socket.display());
    let plan = at_terminal(&home, &tmux, "restore --dry-run", "").done();
    for text in ["SESSION", "bbbb1111", "bbbb2222", &gone, "would be started again"] {
        assert!(plan.contains(text), "{text}: {plan}");
    }
    assert!(!plan.contains("aaaa"), "{plan}");
    // Nobody to ask.
    let said = at_terminal(&home, &tmux, "restore", "y\\n");
    assert_eq!(said.code, 1);
    assert!(said.text.contains("use --yes"), "{said:?}");
    // What lies there is removed by a server that starts: it has to be a socket, and ours alone.
    let aside = socket.with_extension("aside");
    fs::rename(&socket, &aside).unwrap();
    let place = socket.parent().unwrap();
    for (mode, words) in
        [(0o750, "or others can enter it"), (0o700, "another file, or another user")]
    {
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
        if mode == 0o700 {
            // A link to the socket is none.
            std::os::unix::fs::symlink(&aside, &socket).unwrap();
        }
        let said = at_terminal(&home, &tmux, "restore --yes", "");
        assert!(said.code == 1 && said.text.contains(words), "{said:?}");
    }
    fs::rename(&aside, &socket).unwrap();
    assert_eq!(orders(&home), []);
    // A person says no, and then yes.
    for (answer, wanted) in [("n", "Nothing was changed."), ("y", "then resume it in its pane")] {
        let file = new_file(&home);
        let script = home.tmp().join("restore");
        fs::write(&script, into_file(&home, "restore bbbb2222 bbbb1111", &file)).unwrap();
        let line = format!("exec /bin/sh '{}'", script.display());
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", &line]);
        let asked = file.with_extension("new");
        wait_until("it asks", || {
            let text = fs::read_to_string(&asked).unwrap_or_default();
            if text.contains("Bring these 2 sessions back? [y/N]") { Ok(()) } else { Err(text) }
        });
        tmux.run(&["send-keys", "-t", pane.trim(), answer, "Enter"]);
        let said = from_file(&file).done();
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(orders(&home), [(None, "restore 2 in this order: bbbb2222, bbbb1111".to_owned())]);
    let mut ask = home.command("tmux");
    ask.arg("-S").arg(&socket).args(["list-sessions", "-F", "#{session_name}"]);
    assert_eq!(run(ask, &home.tmp(), "tmux").expect_success().stdout, "coord\n");
    let mut end = home.command("tmux");
    end.arg("-S").arg(&socket).arg("kill-server");
    run(end, &home.tmp(), "tmux").expect_success();
}

#[test]
fn without_a_coordinator_it_names_the_remedy() {
    let home = Home::new();
    for arguments in [&["hold", "--all"][..], &["restore"], &["recover", "aaaa1111"]] {
        let mut command = home.command(programs().join("coordctl"));
        command.args(arguments).env("COORD_HOME", home.root());
        let finished = run(command, &home.tmp(), "coordctl");
        assert_eq!(finished.code(), Some(4), "{finished:?}");
        assert!(finished.stderr.contains("Coordinator not running. → coord up"), "{finished:?}");
        assert!(finished.stderr.starts_with("coordctl: "), "{finished:?}");
    }
}

#[track_caller]
fn coordctl(home: &Home, arguments: &[&str]) -> Finished {
    let mut command = home.command(programs().join("coordctl"));
    command.args(arguments).env("COORD_HOME", home.root());
    run(command, &home.tmp(), "coordctl")
}

#[test]
fn every_verb_has_help_with_an_example_and_its_usage() {
    let home = Home::new();
    for verb in [
        "recover",
        "restore",
        "reset-failed",
        "hold",
        "release",
        "attend",
        "completions",
        "man",
        "recovery-mode",
        "passphrase",
    ] {
        let help = coordctl(&home, &[verb, "--help"]).expect_success().stdout;
        assert!(help.contains("Example"), "{verb}: {help}");
        assert!(help.contains(&format!("coordctl {verb}")), "{verb}: {help}");
    }
    let top = coordctl(&home, &["--help"]).expect_success().stdout;
    assert!(!top.contains("recovery-mode") && !top.contains("inspect"), "{top}");
    for arguments in [
        &[][..],
        &["inspect"],
        &["hold"],
        &["hold", "aaaa1111", "--all"],
        &["hold", "--all", "--for", "soon"],
        &["hold", "--all", "--for", "0s"],
        &["release"],
        &["recover"],
        &["recover", "--all"],
        &["attend", "aaaa1111"],
        &["attend", "--recover"],
        &["attend", "aaaa1111", "--recover", "--no-recover"],
        &["attend", "aaaa1111", "--attended", "--unattended"],
        &["attend", "--dir", ".", "--name", "x"],
        &["attend", "--dir", ".", "--task-dir", "."],
        &["attend", "--dir", ".", "--answers"],
        &["attend", "aaaa1111", "--answers", "--no-answers"],
        &["recovery-mode", "yes"],
    ] {
        let finished = coordctl(&home, arguments);
        assert_eq!(finished.code(), Some(2), "{arguments:?}: {finished:?}");
    }
    for path in ["/nonexistent", "/dev/null"] {
        let finished = coordctl(&home, &["attend", "aaaa1111", "--task-dir", path]);
        assert!(finished.code() == Some(1) && finished.stderr.contains(path), "{finished:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = coordctl(&home, &["completions", shell]).expect_success().stdout;
        assert!(script.contains("coordctl") && script.contains("COORD_COMPLETE"), "{shell}");
    }
    assert!(coordctl(&home, &["man", "hold"]).expect_success().stdout.contains("hold"));
    assert!(!home.paths().state.exists(), "asking for help makes nothing");
}

// H-22: one program, and the name decides.
#[test]
fn the_name_by_which_it_is_called_decides() {
    let home = Home::new();
    let link = home.tmp().join("coordctl");
    std::os::unix::fs::symlink(programs().join("coord"), &link).unwrap();
    let mut command = home.command(&link);
    command.arg("--help");
    let help = run(command, &home.tmp(), "coordctl").expect_success().stdout;
    assert!(help.contains("Usage: coordctl") && help.contains("reset-failed"), "{help}");
}

//! `coordctl passphrase`, at real terminals: what it takes to set, change and give the passphrase, and who
//! may not (H-22, A-08).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use coord_tests::coord::{Coordinator, install, programs};
use coord_tests::home::Home;
use coord_tests::process::run;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use super::control::{Said, by_agent, disguises, from_file, into_file, new_file};
use super::harness::{Harness, Tmux};
use super::wire::ask;

const FIRST: &str = "violet-anchor-1";
const SECOND: &str = "copper-lantern-2";
const WRONG: &str = "marble-thicket-3";

/// A shell at a terminal of its own.
struct Shell<'a> {
    home: &'a Home,
    tmux: &'a Tmux<'a>,
    pane: String,
}

impl<'a> Shell<'a> {
    #[track_caller]
    fn start(home: &'a Home, tmux: &'a Tmux<'a>) -> Self {
        let shell = "PS1='dev$ ' exec bash --norc --noprofile -i";
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", shell]);
        let shell = Self { home, tmux, pane: pane.trim().to_owned() };
        tmux.shows_prompt(&shell.pane);
        shell
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux.run(&[&["send-keys", "-t", &self.pane], keys].concat());
    }

    /// Types an answer once this question is the last line of the terminal.
    #[track_caller]
    fn answer(&self, question: &str, answer: &str) {
        self.asks(question);
        self.keys(&["-l", answer]);
        self.keys(&["Enter"]);
    }

    #[track_caller]
    fn asks(&self, question: &str) {
        wait_until(question, || {
            let text = self.tmux.run(&["capture-pane", "-p", "-t", &self.pane]);
            let last = text.trim_end().lines().last().unwrap_or_default().trim_end();
            if last == question { Ok(()) } else { Err(text.clone()) }
        });
    }

    /// What `coordctl passphrase ARGUMENTS` says after these answers.
    #[track_caller]
    fn passphrase(&self, arguments: &str, answers: &[(&str, &str)]) -> Said {
        let file = new_file(self.home);
        let script = file.with_extension("sh");
        fs::write(&script, into_file(self.home, &format!("passphrase {arguments}"), &file))
            .unwrap();
        self.keys(&[&format!("/bin/sh '{}'", script.display()), "Enter"]);
        for (question, answer) in answers {
            self.answer(question, answer);
        }
        let said = from_file(&file);
        self.tmux.shows_prompt(&self.pane);
        said
    }

    /// Sets the first passphrase.
    #[track_caller]
    fn set(&self, passphrase: &str) -> String {
        let (new, again) = ("New passphrase:", "Repeat the new passphrase:");
        self.passphrase("", &[(new, passphrase), (again, passphrase)]).done()
    }

    #[track_caller]
    fn gives(&self, passphrase: &str) -> Said {
        self.passphrase("--unlock", &[("Passphrase:", passphrase)])
    }

    /// Whether the terminal is unlocked: then nothing is asked.
    #[track_caller]
    fn is_unlocked(&self) -> bool {
        let file = new_file(self.home);
        let script = file.with_extension("sh");
        fs::write(&script, into_file(self.home, "passphrase --unlock", &file)).unwrap();
        self.keys(&[&format!("clear; /bin/sh '{}'", script.display()), "Enter"]);
        let is_unlocked = wait_until("it asks, or has ended", || {
            let text = self.tmux.run(&["capture-pane", "-p", "-t", &self.pane]);
            match text.trim_end().lines().last().unwrap_or_default().trim_end() {
                "Passphrase:" => Ok(false),
                _ if file.exists() => Ok(true),
                _ => Err(text),
            }
        });
        if !is_unlocked {
            self.keys(&["C-d"]);
        }
        let said = from_file(&file);
        assert_eq!(said.code == 0, is_unlocked, "{said:?}");
        self.tmux.shows_prompt(&self.pane);
        is_unlocked
    }

    /// Ends the shell, and starts another one on the same device. The kernel gives out the lowest number, and
    /// somebody else may be faster: then it is another device.
    #[track_caller]
    fn replaced(self) -> Self {
        let device = |shell: &Self| {
            self.tmux.run(&["display-message", "-p", "-t", &shell.pane, "#{pane_tty}"])
        };
        let before = device(&self);
        self.tmux.run(&["kill-window", "-t", &self.pane]);
        let mut others = (0..20).map(|_| Self::start(self.home, self.tmux));
        let first = others.next().unwrap();
        if device(&first) == before {
            return first;
        }
        others.find(|shell| device(shell) == before).unwrap_or(first)
    }

    /// All that the terminal has shown.
    fn shown(&self) -> String {
        self.tmux.run(&["capture-pane", "-p", "-S", "-", "-t", &self.pane])
    }
}

#[track_caller]
fn refused(said: &Said, line: &str) {
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(said.text.trim_end(), format!("coordctl: {line}"));
}

/// The regular files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries {
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

/// No file and no terminal has a passphrase in clear text.
#[track_caller]
fn nothing_leaked(home: &Home, shells: &[&Shell<'_>]) {
    for secret in [FIRST, SECOND, WRONG] {
        for file in files(home.dir()) {
            let bytes = fs::read(&file).unwrap_or_default();
            let is_there = bytes.windows(secret.len()).any(|one| one == secret.as_bytes());
            assert!(!is_there, "{secret} in {}", file.display());
        }
        for shell in shells {
            let shown = shell.shown();
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
}

fn started() -> (Home, Coordinator) {
    let home = Home::new();
    install(&home);
    let coordinator = Coordinator::start(&home);
    (home, coordinator)
}

fn status(home: &Home) -> Value {
    ask(home, "GET", "/v1/passphrase", "").expect(200).json()
}

// H-22: what is stored is a hash, and who would change it has to know the passphrase.
#[test]
fn h_22_a_passphrase_is_set_changed_and_removed() {
    let (home, _coordinator) = started();
    let (tmux, file) = (Tmux::start(&home), home.paths().passphrase());
    let shell = Shell::start(&home, &tmux);
    refused(&shell.passphrase("--unlock", &[]), "No passphrase is set. → coordctl passphrase");
    let none = shell.passphrase("--remove", &[]).done();
    assert_eq!(none.trim_end(), "No passphrase is set; nothing was changed.");
    let (old, new, again) = ("Old passphrase:", "New passphrase:", "Repeat the new passphrase:");
    let short = shell.passphrase("", &[(new, "1234567")]);
    refused(&short, "The passphrase is too short: use 8 characters or more. Nothing was changed.");
    let differ = shell.passphrase("", &[(new, FIRST), (again, SECOND)]);
    refused(&differ, "The two passphrases differ; nothing was changed.");
    assert!(!file.exists());
    let set = shell.set(FIRST);
    assert_eq!(set.trim_end(), format!("Passphrase set. Its hash is in {}", file.display()));
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(status(&home)["is_set"], true);
    for arguments in ["", "--remove"] {
        let wrong = shell.passphrase(arguments, &[(old, WRONG)]);
        refused(&wrong, "Wrong passphrase; nothing was changed.");
        assert_eq!(fs::read_to_string(&file).unwrap(), stored);
    }
    let changed = shell.passphrase("", &[(old, FIRST), (new, SECOND), (again, SECOND)]).done();
    assert!(
        changed.starts_with("Passphrase changed; every terminal is locked again."),
        "{changed}"
    );
    assert_ne!(fs::read_to_string(&file).unwrap(), stored);
    refused(
        &shell.passphrase("--remove", &[(old, FIRST)]),
        "Wrong passphrase; nothing was changed.",
    );
    nothing_leaked(&home, &[&shell]);
    let removed = shell.passphrase("--remove", &[(old, SECOND)]).done();
    assert_eq!(removed.trim_end(), format!("Passphrase removed: {}", file.display()));
    assert!(!file.exists());
    assert_eq!(status(&home), json!({"is_set": false, "is_unlocked": false, "wrong_tries": 0}));
}

// a right passphrase unlocks the terminal on which it was given; a wrong one delays the next.
#[test]
fn a_08_a_passphrase_unlocks_one_terminal() {
    let (home, coordinator) = started();
    let tmux = Tmux::start(&home);
    let [one, other] = [(); 2].map(|()| Shell::start(&home, &tmux));
    one.set(FIRST);
    assert!(!one.is_unlocked(), "setting it unlocks nothing");
    // The delay doubles, so that a next try comes within it, however slow this machine is.
    let mut wrong = 0;
    while let said = one.gives(WRONG)
        && !said.text.contains("Too many tries")
    {
        refused(&said, "Wrong passphrase; nothing was sent.");
        wrong += 1;
        assert!(wrong < 10, "nothing delays a next try");
    }
    assert!(0 < wrong);
    assert_eq!(status(&home)["wrong_tries"], wrong);
    let delayed = other.gives(FIRST);
    assert!(delayed.code == 0 || delayed.text.contains("; try again in "), "{delayed:?}");
    wait_until("the delay is over", || {
        let said = one.gives(FIRST);
        if said.code == 0 { Ok(()) } else { Err(said) }
    });
    assert!(one.is_unlocked());
    assert_eq!(status(&home)["is_unlocked"], false, "this test is at another terminal, or at none");
    if delayed.code != 0 {
        assert!(!other.is_unlocked());
    }
    let log = fs::read_dir(home.paths().logs()).unwrap();
    let log: String = log.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let count = log.matches("a wrong passphrase was given").count();
    assert!(count == wrong && log.contains("terminal=\"/dev/pts/"), "{log}");

    let one = one.replaced();
    assert!(!one.is_unlocked(), "another shell on the same device is asked");
    one.gives(FIRST).done();
    assert!(one.is_unlocked());
    let (old, new, again) = ("Old passphrase:", "New passphrase:", "Repeat the new passphrase:");
    other.passphrase("", &[(old, FIRST), (new, SECOND), (again, SECOND)]).done();
    assert!(!one.is_unlocked(), "it was unlocked with another passphrase");
    one.gives(SECOND).done();
    assert!(one.is_unlocked());
    coordinator.kill();
    let _coordinator = Coordinator::start(&home);
    assert!(!one.is_unlocked(), "a restart forgets it");
    nothing_leaked(&home, &[&one, &other]);
}

// H-22: no agent sets or gives a passphrase, in whatever disguise, and a person does at a terminal only.
#[test]
fn h_22_an_agent_neither_sets_nor_gives_a_passphrase() {
    let (home, _coordinator) = started();
    let (tmux, file) = (Tmux::start(&home), home.paths().passphrase());
    let shell = Shell::start(&home, &tmux);
    let mut harness = Harness::in_tmux(&tmux, "harness-one");
    harness.begin_turn();
    let disguises = disguises(&home);
    for is_set in [false, true] {
        if is_set {
            shell.set(FIRST);
        }
        for ((what, as_), arguments) in disguises.iter().zip(["", "--unlock", "--remove", ""]) {
            let words = format!("passphrase {arguments}");
            let said = by_agent(&home, &mut harness, "coordctl", &words, as_);
            assert!(
                said.code == 1 && said.text.starts_with("coordctl: Refused: "),
                "{what}: {said:?}"
            );
            assert_eq!(file.exists(), is_set, "{what}");
        }
    }
    // Without the client's variables the program itself finds nothing, and the coordinator does: it refuses
    // the right passphrase unread.
    let said = new_file(&home);
    let script = home.tmp().join("bare");
    fs::write(&script, into_file(&home, "passphrase --unlock", &said)).unwrap();
    let bare = format!("env -u CLAUDECODE -u CLAUDE_PID /bin/sh '{}' &", script.display());
    let panes = tmux.run(&["list-panes", "-a", "-F", "#{pane_pid} #{pane_id}"]);
    let own = format!("{} ", harness.process.pid);
    let pane = panes.lines().find_map(|line| line.strip_prefix(&own)).unwrap().to_owned();
    harness.run(&bare);
    let at_harness = Shell { home: &home, tmux: &tmux, pane };
    at_harness.answer("Passphrase:", FIRST);
    let line = from_file(&said);
    let below =
        format!("coordctl: Refused: this comes from Claude Code (pid {})", harness.process.pid);
    assert!(line.code == 1 && line.text.starts_with(&below), "{line:?}");
    assert_eq!(status(&home)["wrong_tries"], 0);
    let mut command = home.command("setsid");
    command.args(["--wait".as_ref(), programs().join("coordctl").as_os_str()]);
    command.arg("passphrase").env("COORD_HOME", home.root());
    let without = run(command, &home.tmp(), "coordctl");
    assert!(without.stderr.starts_with("coordctl: Refused: "), "{without:?}");
    nothing_leaked(&home, &[&shell, &at_harness]);
}

// H-22: a file that somebody else could have read or written is not used.
#[test]
fn h_22_a_file_open_to_others_is_refused_with_its_remedy() {
    let (home, _coordinator) = started();
    let (tmux, file) = (Tmux::start(&home), home.paths().passphrase());
    let shell = Shell::start(&home, &tmux);
    shell.set(FIRST);
    let set_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let path = file.display();
    let line = format!("{path} is open to other users (mode 0644). → chmod 600 {path}");
    for arguments in ["", "--remove", "--unlock"] {
        refused(&shell.passphrase(arguments, &[]), &line);
    }
    let said = status(&home);
    assert_eq!((&said["is_set"], &said["problem"]), (&json!(false), &json!(line)));
    set_mode(0o600);
    shell.gives(FIRST).done();
    assert!(shell.is_unlocked());
    set_mode(0o644);
    assert_eq!(status(&home)["is_set"], false);
    refused(&shell.passphrase("--unlock", &[]), &line);
}

// H-22: the terminal shows what is typed again, however the question ended.
#[test]
fn h_22_a_signal_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let tmux = Tmux::start(&home);
    let shell = Shell::start(&home, &tmux);
    let (program, root) = (programs().join("coordctl"), home.root());
    let coordctl = format!("COORD_HOME='{}' '{}' passphrase", root.display(), program.display());
    // No shell that edits lines: it would set the modes itself.
    for (keys, script) in [("C-c", "trap : INT"), ("C-\\", "trap : QUIT"), ("C-d", ":")] {
        let modes = new_file(&home);
        let file = modes.with_extension("sh");
        let said = modes.display();
        let line = format!(
            "{script}\n{coordctl} 2>/dev/null\nstty -a >'{said}.new'\nmv '{said}.new' '{said}'\n"
        );
        fs::write(&file, line).unwrap();
        shell.keys(&[&format!("/bin/sh '{}'", file.display()), "Enter"]);
        shell.asks("New passphrase:");
        // Ctrl-D ends the input only at the beginning of a line.
        if keys != "C-d" {
            shell.keys(&["-l", FIRST]);
        }
        shell.keys(&[keys]);
        let modes = wait_until("it has ended", || fs::read_to_string(&modes));
        assert!(modes.contains(" echo ") && modes.contains(" icanon "), "{keys}: {modes}");
        shell.tmux.shows_prompt(&shell.pane);
    }
    // Ctrl-Z stops it, and the question is asked again.
    let said = home.tmp().join("said");
    shell.keys(&[&format!("clear; {coordctl} >'{}'", said.display()), "Enter"]);
    shell.asks("New passphrase:");
    shell.keys(&["C-z"]);
    tmux.shows_prompt(&shell.pane);
    shell.keys(&["fg", "Enter"]);
    shell.answer("New passphrase:", FIRST);
    shell.answer("Repeat the new passphrase:", FIRST);
    wait_until("it is set", || match fs::read_to_string(&said) {
        Ok(text) if text.starts_with("Passphrase set. ") => Ok(()),
        other => Err(other),
    });
    nothing_leaked(&home, &[&shell]);
}

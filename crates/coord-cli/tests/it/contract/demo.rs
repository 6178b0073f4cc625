//! `coord demo`: what it plays, in a terminal and without one, and that nothing is left of it (U-11).

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coord_tests::coord::programs;
use coord_tests::home::Home;
use coord_tests::process::{Running, run};
use coord_tests::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use super::harness::Tmux;
use super::top::{Shell, pid_of};

/// A home with a place for temporary files of the demo alone.
struct Place {
    home: Home,
    before: Vec<(PathBuf, i64, u64)>,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        fs::create_dir(Self::tmp_of(&home)).unwrap();
        let before = Self::listing(&home);
        Self { home, before }
    }

    fn tmp_of(home: &Home) -> PathBuf {
        home.dir().join("demo-tmp")
    }

    fn tmp(&self) -> PathBuf {
        Self::tmp_of(&self.home)
    }

    /// Every file below HOME, coord's root and the project, with the time of its last change and its length.
    fn listing(home: &Home) -> Vec<(PathBuf, i64, u64)> {
        let mut all = Vec::new();
        let mut dirs = vec![home.home(), home.root(), home.project()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                all.push((path.clone(), meta.mtime_nsec() ^ meta.mtime(), meta.len()));
                dirs.extend(meta.is_dir().then_some(path));
            }
        }
        all.sort();
        all
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.home.command(programs().join("coord"));
        command.arg("demo").args(words).stdin(Stdio::null());
        command.env("COORD_HOME", self.home.root()).env("TMPDIR", self.tmp());
        command
    }

    /// The processes whose environment names its directory for temporary files: the demo and its children.
    fn processes(&self) -> Vec<u32> {
        let own = [b"TMPDIR=", self.tmp().as_os_str().as_bytes()].concat();
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| {
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let is_own = environment.split(|byte| *byte == 0).any(|one| one == own);
            entry.file_name().to_str()?.parse().ok().filter(|_| is_own)
        })
        .collect()
    }

    /// The demo's temporary root.
    fn root(&self) -> Option<PathBuf> {
        let mut all = fs::read_dir(self.tmp()).unwrap();
        all.next().map(|entry| entry.unwrap().path())
    }

    /// The demo's root, once its sessions are there; it and its 8 clients run.
    #[track_caller]
    fn plays(&self) -> PathBuf {
        wait_until("the demo plays", || {
            let processes = self.processes();
            match self.root() {
                Some(root) if processes.len() == 9 => Ok(root),
                root => Err((root, processes)),
            }
        })
    }

    /// Checks that the demo left nothing.
    #[track_caller]
    fn has_nothing_left(&self) {
        assert_eq!(self.root(), None);
        assert_eq!(self.processes(), [0; 0]);
        assert_eq!(Self::listing(&self.home), self.before);
    }
}

/// Checks that these lines are printed in this order.
#[track_caller]
fn says_in_order(output: &str, wanted: &[&str]) {
    let mut rest = output;
    for words in wanted {
        let at = rest.find(words).unwrap_or_else(|| panic!("no {words:?} at its place: {output}"));
        rest = &rest[at + words.len()..];
    }
}

#[test]
fn u_11_plain_plays_to_its_end_and_leaves_nothing() {
    let place = Place::new();
    let said = run(place.command(&["--plain", "--speed", "10"]), &place.home.tmp(), "demo");
    assert_eq!((said.code(), said.stderr.as_str()), (Some(0), ""), "{said:?}");
    says_in_order(
        &said.stdout,
        &[
            // For 7 minutes, or as long as this machine has been up.
            "1 needs you (docs ",
            ") · 5 working · 2 idle\n",
            "docs needs you: asks a question, work:docs\n",
            "site needs you: asks to run Bash, web:site\n",
            "api is quota_wait: resets ",
            "build is background: 1 shell, work:build\n",
            "nightly is recovery_pending: ",
            "nightly is recovering: ",
            "nightly is idle",
            "docs is running",
            "release is stopped: a person ended it",
            "nightly is running",
            "build is running",
            "build is idle",
            "tests is idle",
            "Everything in the demo was recorded; nothing is left behind. → coord install\n",
        ],
    );
    place.has_nothing_left();
}

// Who has installed coord is not asked to do so again.
#[test]
fn u_11_the_next_step_is_one_that_is_left_to_do() {
    let home = Home::new();
    let record = home.paths().install_record();
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(record, "{}").unwrap();
    fs::create_dir(Place::tmp_of(&home)).unwrap();
    let before = Place::listing(&home);
    let place = Place { home, before };
    let said = run(place.command(&["--plain", "--speed", "100"]), &place.home.tmp(), "demo");
    let end = said.expect_success().stdout;
    assert!(end.ends_with("nothing is left behind. → coord inspect\n"), "{end}");
    place.has_nothing_left();
}

#[test]
fn u_11_signals_and_a_closed_output_leave_nothing() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let place = Place::new();
        let demo = Running::start(place.command(&["--plain"]), &place.home.tmp(), "demo");
        place.plays();
        demo.signal(signal);
        let ended = demo.finish();
        assert_eq!(ended.signal(), Some(signal.as_raw()), "{ended:?}");
        place.has_nothing_left();
    }
    // Its first line finds nobody who reads it.
    let place = Place::new();
    let mut command = place.command(&["--plain", "--speed", "10"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    place.has_nothing_left();
}

// What kills the demo itself cannot be cleaned up after; but its clients do not outlive it.
#[test]
fn u_11_clients_end_with_a_demo_that_is_killed() {
    let place = Place::new();
    let demo = Running::start(place.command(&["--plain"]), &place.home.tmp(), "demo");
    place.plays();
    demo.kill();
    wait_until("its clients end", || {
        let left = place.processes();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn u_11_a_terminal_shows_it_explains_it_and_is_left_as_it_was() {
    let place = Place::new();
    let tmux = Tmux::start(&place.home);
    let shell = Shell::open(&place.home, &tmux);
    let tmp = place.tmp();
    let before = shell.settings("before");
    shell.types(&format!("TMPDIR={} coord demo --speed 10; echo \"code $?\"", tmp.display()));
    shell.shows("coord demo   ");
    shell.shows("Recorded sessions, played live.");
    // The end of the recording.
    let last = shell.shows("1 needs you (site ");
    assert!(shell.is_covered(), "{last}");
    shell.shows("ENDED");
    shell.shows("3 idle · 1 ended");

    // What is shown is explained from the files.
    let root = place.root().expect("its root");
    only_below(&root);
    shell.keys(&["g"]);
    shell.keys(&["e"]);
    let explained = shell.shows("coord explain site");
    assert!(explained.contains("permission asked for Bash"), "{explained}");
    shell.keys(&["q"]);
    shell.keys(&["v"]);
    shell.shows("coord events site");
    shell.keys(&["q"]);

    // What would act does not.
    for keys in [&["Enter"][..], &["n"], &["b"], &["R", "Enter"], &["m", "x", "Enter"]] {
        for key in keys {
            shell.keys(&[key]);
        }
        shell.shows("This is a demo: ");
        shell.keys(&["j"]);
        wait_until("the next key ends the notice", || {
            let screen = shell.screen();
            if screen.contains("This is a demo: ") { Err(screen) } else { Ok(()) }
        });
    }
    shell.keys(&["p"]);
    shell.shows("No screen: recorded sessions have none.");

    shell.keys(&["q"]);
    let end = shell.shows("code 0");
    assert!(end.contains("nothing is left behind. → coord install"), "{end}");
    shell.is_uncovered();
    assert_eq!(shell.settings("after"), before);
    place.has_nothing_left();

    // A signal ends it as well.
    shell.types(&format!("TMPDIR={} coord demo; echo \"code $?\"", tmp.display()));
    shell.shows("Recorded sessions, played live.");
    let pid = Pid::from_raw(i32::try_from(pid_of(&place.home, "demo")).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    // 128 and the number of the signal.
    shell.shows("code 143");
    shell.is_uncovered();
    assert_eq!(shell.settings("after a signal"), before);
    place.has_nothing_left();
}

/// Checks that the root has a journal and no coordinator.
fn only_below(root: &Path) {
    assert!(root.join("state").is_dir());
    assert!(!root.join("run/coord.sock").exists());
}

#[test]
fn u_11_without_a_terminal_it_says_what_to_use() {
    let place = Place::new();
    let said = run(place.command(&[]), &place.home.tmp(), "demo");
    let wanted = "coord: coord demo needs a terminal. → coord demo --plain\n";
    assert_eq!((said.code(), said.stderr.as_str()), (Some(1), wanted));
    place.has_nothing_left();
}

//! A root with an install record, and a harness on a terminal.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{self, World, payload_of};
use coord_wire::api::InstallRecord;
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who has this is the only test that runs.
static ALONE: Mutex<()> = Mutex::new(());

/// A stand-in for `coord` that says how it was started. One at a time: it collects the children of the
/// whole process.
pub(crate) struct Installed {
    pub(crate) world: World,
    pub(crate) coord: PathBuf,
    started: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Installed {
    pub(crate) fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // What a hook leaves behind becomes a child of this process and can be waited for.
        set_child_subreaper(Some(getpid())).unwrap();
        let world = World::new();
        let (coord, started) = (world.dir.path().join("coord"), world.dir.path().join("started"));
        let report =
            r#"{ echo "$@"; pwd; for n in 0 1 2; do readlink /proc/$$/fd/$n; done; env | sort; }"#;
        let script = format!("#!/bin/sh\n{report} > \"$4/started\"\n");
        std::fs::write(&coord, script).unwrap();
        world::set_mode(&coord, 0o755);
        let installed = Self { world, coord, started, _alone: alone };
        installed.record(|_| ());
        installed
    }

    pub(crate) fn record(&self, change: impl FnOnce(&mut InstallRecord)) {
        let mut record = InstallRecord {
            v: 1,
            coord: self.coord.to_str().unwrap().to_owned(),
            machine: self.world.machine.clone(),
            uid: rustix::process::geteuid().as_raw(),
            pid_ns: coord_wire::exchange::pid_namespace().unwrap(),
            root: self.world.dir.path().to_str().map(str::to_owned),
            tmux: None,
            notify_send: None,
            git: None,
            environment: [("HOME", "/recorded"), ("XDG_DATA_HOME", "/recorded/data")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            client: None,
        };
        change(&mut record);
        let text = serde_json::to_vec(&record).unwrap();
        std::fs::write(self.world.paths.install_record(), text).unwrap();
    }

    /// Runs a hook below a harness on a terminal of its own, as `script` makes one.
    pub(crate) fn run_at_terminal(&self, hook: &str, event: &str, harness_arguments: &str) {
        let arguments = self.world.arguments().map(|word| word.into_string().unwrap());
        self.run_registered(hook, &arguments.join(" "), event, harness_arguments);
    }

    /// The same of a hook that was registered with these arguments.
    pub(crate) fn run_registered(
        &self,
        hook: &str,
        arguments: &str,
        event: &str,
        harness_arguments: &str,
    ) {
        let payload = self.world.dir.path().join("payload");
        std::fs::write(&payload, payload_of(event)).unwrap();
        let root = self.world.dir.path().display();
        // A shell that waits for a command at once may turn its own output aside for it (dash), and then
        // the harness would not write to its terminal.
        let inner = format!(
            "CLAUDE_PID=\\$\\$ CLAUDECODE=1 CLAUDE_CODE_MESSAGING_TOKEN=T0ken LANG=C.UTF-8 \
             {hook} {arguments} < {} > {root}/out 2>&1 & wait \\$!; echo \\$? > {root}/code",
            payload.display()
        );
        let harness = format!("sh -c \"{inner}\" sh {harness_arguments}");
        let status = Command::new("script")
            .args(["-qec", &harness, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .env("SHELL", "/bin/sh")
            .env("XDG_DATA_HOME", "/session")
            .env("TMUX_TMPDIR", "/session")
            .env_remove("COORD_HOME")
            .env_remove("COORD_DISABLE")
            .status()
            .unwrap();
        assert!(status.success());
        let read = |name| std::fs::read_to_string(self.world.dir.path().join(name)).unwrap();
        assert_eq!((read("code").as_str(), read("out").as_str()), ("0\n", ""));
        assert_eq!(self.world.spooled().len(), 1, "the event is safe before anything is started");
        std::fs::remove_dir_all(self.world.paths.spool()).unwrap();
    }

    /// What the stand-in wrote, once it is gone. It became a child of this process.
    pub(crate) fn report(&self) -> String {
        wait(WaitOptions::empty()).unwrap();
        std::fs::read_to_string(&self.started).unwrap()
    }

    /// Whether anything is left of what the hooks started.
    pub(crate) fn has_started_nothing(&self) -> bool {
        wait(WaitOptions::NOHANG).err() == Some(Errno::CHILD) && !self.started.exists()
    }
}

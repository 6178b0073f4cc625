//! A place for one case: a coordinator that may act, a client in a pane, and a second pane from which a
//! person gives orders. Decides nothing about what should happen.

use crate::client::program;
use crate::coord::{
    Coordinator, coord, events, inspect, install, programs, session_beyond, session_when,
};
use crate::fake_api::{FakeApi, Request, Turn};
use crate::home::Home;
use crate::stalls::Watch;
use crate::terminal::{Pane, Terminal};
use crate::wait::{LOOKS_WITHIN, wait_until};
use coord_model::SessionState;
use coord_wire::inspect::Session;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// No approval is asked for by itself.
pub const MANUAL: [&str; 2] = ["--permission-mode", "manual"];
/// Times that a person would wait for, cut short: what is proved is what happens, not when.
const QUICK: [(&str, &str); 6] = [
    ("cooldown_failure", "1s"),
    ("cooldown_success", "1s"),
    ("grace", "2s"),
    ("idle_quiet", "1s"),
    ("keys_quiet", "1s"),
    ("verified_after", "3s"),
];

/// Fields go in this order.
#[derive(Debug)]
pub struct Place {
    /// The client's pane.
    pub pane: Pane,
    operator: Pane,
    /// The server of both.
    pub terminal: Terminal,
    /// The coordinator, while one runs.
    pub coordinator: Option<Coordinator>,
    /// What answers the client.
    pub api: FakeApi,
    /// The session's id.
    pub id: String,
    /// The client's pid.
    pub pid: u32,
    orders: u32,
    /// Where all of it lies.
    pub home: Home,
}

/// A line of the shell that a person runs in the pane where they give orders.
#[derive(Debug)]
pub struct Order(PathBuf);

impl Place {
    /// A coordinator, and a pane with a shell. `recovery` are lines for that table of the configuration.
    #[track_caller]
    pub fn open(recovery: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        let home = Home::new();
        install(&home);
        let (config_dir, socket) = (home.config_dir(), Terminal::socket(&home));
        let quick = QUICK.iter().filter(|(key, _)| !recovery.contains(key));
        let quick: Vec<String> = quick.map(|(key, time)| format!("{key} = '{time}'")).collect();
        let quick = quick.join("\n");
        home.write_config(&format!(
            "[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\nsettle = '1s'\nsweep = '1s'\n\
             [recovery]\n{quick}\n{recovery}\n",
            config_dir.display(),
            socket.display()
        ));
        let coordinator = Some(Coordinator::start(&home));
        let api = FakeApi::start(turns);
        let terminal = Terminal::start(&home, &api);
        let (pane, operator) = (terminal.pane(), terminal.pane());
        let (id, pid, orders) = (String::new(), 0, 0);
        Self { pane, operator, terminal, coordinator, api, id, pid, orders, home }
    }

    /// A client at its prompt.
    #[track_caller]
    pub fn start(
        recovery: &str,
        turns: impl IntoIterator<Item = Turn>,
        arguments: &[&str],
    ) -> Self {
        let mut place = Self::open(recovery, turns);
        place.pid = place.pane.start(arguments);
        place.learn_id();
        place
    }

    /// A client at its prompt that nobody watches.
    #[track_caller]
    pub fn unattended(turns: impl IntoIterator<Item = Turn>, arguments: &[&str]) -> Self {
        let mut place = Self::start("", turns, arguments);
        place.attend();
        place
    }

    /// Learns the id of the client's session.
    #[track_caller]
    pub fn learn_id(&mut self) {
        self.id = self.id_of(self.pid);
    }

    /// The id of a client's session, once it is at its prompt.
    #[track_caller]
    pub fn id_of(&self, pid: u32) -> String {
        wait_until("the client's session is listed", || {
            let all = inspect(&self.home);
            let of_pid = |one: &&Session| one.owner.as_ref().is_some_and(|owner| owner.pid == pid);
            let found =
                all.sessions.iter().find(|one| of_pid(one) && one.state == SessionState::Idle);
            found.map(|one| one.session_id.clone()).ok_or_else(|| format!("{:#?}", all.sessions))
        })
    }

    /// From here on this is the session that is looked at, after a turn of it. On a busy machine its first hook may
    /// not be heard in time to be verified, and only a later one tells of its pane.
    #[track_caller]
    pub fn look_at(&mut self, pane: Pane, pid: u32) {
        (self.pane, self.pid) = (pane, pid);
        self.learn_id();
        self.a_turn();
        self.when("its pane was seen", |session| {
            session.evidence.iter().any(|one| one.fact.starts_with("shows "))
        });
    }

    /// A turn with a short answer, so that there is something to resume.
    #[track_caller]
    pub fn a_turn(&self) {
        self.prompt("First prompt");
        self.when_at_rest();
    }

    /// Waits until a turn has ended and the client is through with it: the transcript, which it writes
    /// a moment later, has the answer, and nothing more is written on its screen.
    #[track_caller]
    pub fn when_at_rest(&self) {
        self.when("the turn ends", |session| {
            let is_over = session.last_event.as_ref().is_some_and(|last| last.name == "Stop");
            session.state == SessionState::Idle && is_over
        });
        self.when_written("\"type\":\"assistant\"");
        self.pane.wait_screen("done ");
    }

    /// Waits until its transcript has a line with that.
    #[track_caller]
    pub fn when_written(&self, words: &str) {
        wait_until(&format!("its transcript has {words}"), || {
            // Where the disk is slow, the hooks are spooled, and none of them says where it is until a later one.
            let session = self.when("it is known", |_| true);
            let text = std::fs::read_to_string(&session.transcript_path).unwrap_or_default();
            if text.contains(words) { Ok(()) } else { Err(text) }
        });
    }

    /// Nobody watches what is started in the project, now and later.
    #[track_caller]
    pub fn nobody_watches(&mut self) {
        let project = self.home.project();
        self.order(&["attend", "--dir", &project.to_string_lossy(), "--unattended"]);
    }

    /// Waits until its recovery waits for that.
    #[track_caller]
    pub fn when_held(&self, why: &str) -> Session {
        self.when(&format!("it waits: {why}"), |session| {
            session.hold.as_ref().is_some_and(|hold| hold.reason.contains(why))
        })
    }

    /// Waits until its operator is needed.
    #[track_caller]
    pub fn when_needed(&self, why: &str) -> Session {
        self.when(&format!("it needs its operator: {why}"), |session| {
            session.needs_operator.as_ref().is_some_and(|flag| flag.reason.contains(why))
        })
    }

    /// All clients of this home, but what clients started themselves.
    pub fn clients(&self) -> Vec<u32> {
        let home = [b"HOME=", self.home.home().as_os_str().as_bytes()].concat();
        let program = program();
        let is_client = |pid: &u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
                && environ.split(|byte| *byte == 0).any(|entry| entry == home)
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let all: Vec<u32> = pids.filter(is_client).collect();
        all.iter()
            .copied()
            .filter(|pid| !parent_of(*pid).is_some_and(|of| all.contains(&of)))
            .collect()
    }

    /// Ends the client's own supervisor and all that it runs.
    #[track_caller]
    pub fn stop_background(&self) {
        self.pane.command("claude daemon stop --any; echo daemon ended");
        self.pane.wait_screen("\ndaemon ended");
        self.when_clients(&[]);
    }

    /// Waits until just these clients run.
    #[track_caller]
    pub fn when_clients(&self, expected: &[u32]) {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        wait_until("just these clients run", || {
            let mut clients = self.clients();
            clients.sort_unstable();
            if clients == expected { Ok(()) } else { Err((clients, expected.clone())) }
        });
    }

    /// So many acts were carried out, and none failed. How one went may be recorded after what it led to was seen.
    #[track_caller]
    pub fn assert_done_only(&self, acts: usize) {
        let done = wait_until(&format!("{acts} acts"), || {
            let done = self.acts();
            if done.len() < acts { Err(done) } else { Ok(done) }
        });
        assert!(done.len() == acts && done.iter().all(|act| act == "done"), "{done:?}");
    }

    /// It came back by so many acts, none of which failed, and this client is the only one.
    #[track_caller]
    pub fn assert_back_by(&self, acts: usize) {
        self.assert_done_only(acts);
        self.when_clients(&[self.pid]);
    }

    /// Nobody watches this session.
    #[track_caller]
    pub fn attend(&mut self) {
        let id = self.id.clone();
        self.order(&["attend", &id, "--unattended"]);
    }

    /// Orders are given at another terminal from here on.
    #[track_caller]
    pub fn sit_down_at(&mut self, terminal: &Terminal) {
        self.operator = terminal.pane();
    }

    /// A person gives an order in a pane of their own. What is printed.
    #[track_caller]
    pub fn order(&mut self, words: &[&str]) -> String {
        // What comes of a recovery is looked for by the test itself.
        let no_wait = if words.first() == Some(&"recover") { &["--no-wait"][..] } else { &[] };
        self.runs("coordctl", &[words, no_wait].concat())
    }

    /// A person sets the passphrase, and unlocks the pane in which they give orders.
    #[track_caller]
    pub fn unlock(&mut self) {
        let coordctl = programs().join("coordctl");
        let line = format!("{} --root {}", coordctl.display(), self.home.root().display());
        for (words, asked, done) in [
            ("passphrase", &["New passphrase:", "Repeat the new"][..], "Passphrase set"),
            ("passphrase --unlock", &["Passphrase:"], "unlocked for 8 hours"),
        ] {
            self.operator.command(&format!("clear; {line} {words}"));
            for prompt in asked {
                self.operator.wait_screen(prompt);
                self.operator.type_text("correct horse battery");
                self.operator.keys(&["Enter"]);
            }
            self.operator.wait_screen(done);
        }
    }

    /// A person runs one of coord's programs in a pane of their own. What is printed.
    #[track_caller]
    pub fn runs(&mut self, program: &str, words: &[&str]) -> String {
        let order = self.begins("", program, words);
        self.ends(&order)
    }

    /// The same, without waiting for its end; `before` are words of the shell before the command.
    #[track_caller]
    pub fn begins(&mut self, before: &str, program: &str, words: &[&str]) -> Order {
        let (program, root) = (programs().join(program), self.home.root());
        let (program, root, words) = (program.display(), root.display(), words.join(" "));
        self.begins_line(&format!("{before}{program} --root {root} {words}"))
    }

    /// A person runs a line of the shell in the pane where they give orders.
    #[track_caller]
    pub fn begins_line(&mut self, line: &str) -> Order {
        self.orders += 1;
        let out = self.home.tmp().join(format!("order-{}", self.orders));
        self.operator
            .command(&format!("{line} > {out} 2>&1; echo code $? >> {out}", out = out.display()));
        Order(out)
    }

    /// What an order printed, once it has ended.
    #[track_caller]
    pub fn ends(&self, order: &Order) -> String {
        wait_until("the order is carried out", || {
            let text = std::fs::read_to_string(&order.0).unwrap_or_default();
            if text.contains("code ") { Ok(text) } else { Err(self.operator.screen()) }
        })
    }

    /// Records from here on whether it is shown as stalled.
    #[track_caller]
    pub fn watch(&self, case: &str) -> Watch {
        Watch::start(&self.home, (&self.id, self.pid), case)
    }

    /// A prompt that starts a turn.
    #[track_caller]
    pub fn prompt(&self, text: &str) {
        self.pane.type_line(text);
        self.api.wait_for(text);
    }

    /// Signals the client.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        signal_process(self.pid, signal);
    }

    /// Waits until the session is as wanted.
    #[track_caller]
    pub fn when(&self, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
        session_when(&self.home, &self.id, what, fits)
    }

    /// Waits until it was brought back in another process, and that is verified. Takes that over.
    #[track_caller]
    pub fn when_back(&mut self) -> Session {
        let before = self.pid;
        let fits = |session: &Session| {
            let pid = session.owner.as_ref().map(|owner| owner.pid);
            let outcome = session.recovery.last_outcome.as_deref();
            pid.is_some_and(|pid| pid != before) && outcome == Some("verified")
        };
        let session =
            session_beyond(LOOKS_WITHIN, &self.home, &self.id, "it is brought back", fits);
        self.pid = session.owner.as_ref().map_or(0, |owner| owner.pid);
        session
    }

    /// Waits until nothing more will be done by itself.
    #[track_caller]
    pub fn when_left(&self) -> Session {
        self.when("it is left as it is", |session| {
            session.state == SessionState::Crashed && session.pending_recovery.is_none()
        })
    }

    /// What was carried out on the session, as the journal has it, but acts that something changed
    /// before: those touch nothing.
    pub fn acts(&self) -> Vec<String> {
        let mut acts = self.details("Acted");
        acts.retain(|act| !act.starts_with("not done: ") || act == "not done: coord only observes");
        acts
    }

    /// The journal's entries of that name about the session.
    pub fn details(&self, name: &str) -> Vec<String> {
        let detail = |event: &Value| event["detail"].as_str().unwrap_or_default().to_owned();
        let all = events(&self.home, Some(&self.id));
        all.iter().filter(|event| event["name"] == name).map(detail).collect()
    }

    /// Waits for an entry about the session.
    #[track_caller]
    pub fn when_entry(&self, name: &str, words: &str) {
        wait_until(&format!("the journal has {name} {words:?}"), || {
            let all = self.details(name);
            if all.iter().any(|detail| detail.contains(words)) { Ok(()) } else { Err(all) }
        });
    }

    /// How many requests carried the continuation after a crash.
    pub fn n_continued(&self) -> usize {
        let is_one = |one: &Request| !one.is_background && one.last_user_text.contains("[coord]");
        self.api.requests().iter().filter(|one| is_one(one)).count()
    }

    /// Nothing was done to the session, and nothing will be.
    #[track_caller]
    pub fn assert_untouched(&self) {
        let acts = self.acts();
        assert!(acts.is_empty(), "{acts:?}");
    }

    /// What was decided on the session and by which rules, newest last.
    pub fn decisions(&self) -> String {
        coord(&self.home, &["explain", &self.id, "--verbose"]).stdout
    }
}

/// The command line of a process.
pub fn words_of(pid: u32) -> Vec<String> {
    let cmdline = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    cmdline.split_terminator('\0').map(str::to_owned).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Whether there is a process of that pid.
pub fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Signals a process.
#[track_caller]
pub fn signal_process(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the process is there");
    pidfd_send_signal(&pidfd, signal).expect("signal the process");
}

impl Drop for Place {
    /// A failed case leaves what the coordinator recorded.
    #[expect(clippy::print_stderr, reason = "this is a failed test's own report")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let recorded = coord(&self.home, &["events", "--json"]);
            eprintln!("the journal\n{}\n{}", recorded.stdout, self.pane.last_screen());
        }
    }
}

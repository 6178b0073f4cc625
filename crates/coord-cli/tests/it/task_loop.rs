//! `coord loop` with real agents: shell scripts that crash, hang, are killed and end (S2).

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use coord_loop::Line;
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running, run};
use coord_tests::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const COORD: &str = env!("CARGO_BIN_EXE_coord");
/// Says who it is, and then hangs until it is ended: `tail` would end with the reader of its output.
const HANGS: &str = r#"echo $$ > new; mv new "$1.pid"; exec tail -f /dev/null > /dev/null"#;
/// Keeps its prompt, and says that the task is done.
const DOES_IT: &str =
    r#"printf %s "$2" > "$1.prompt"; echo output of "$1"; echo done > .coord-loop/status"#;

/// A task and the agents for it.
struct Task {
    home: Home,
}

impl Task {
    fn of(agents: &[(&str, &str)]) -> Self {
        Self::with(agents, "")
    }

    fn with(agents: &[(&str, &str)], keys: &str) -> Self {
        let home = Home::new();
        let agents = agents.iter().map(|(name, script)| {
            format!(
                "[[loop.agent]]\nname = '{name}'\ncommand = ['sh', '-c', '''{script}''', 'sh', '{name}', '{{prompt}}']\n{keys}\n"
            )
        });
        let agents: String = agents.collect();
        home.write_config(&format!(
            "[loop]\ncrash_delay = \"10ms\"\nmin_free_memory_mb = 1\n{agents}"
        ));
        fs::write(home.project().join("task.md"), "Build the thing.").unwrap();
        Self { home }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.home.command(program);
        command.env("COORD_HOME", self.home.root()).stdin(Stdio::null());
        command
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(COORD);
        command.args(["loop", "--prompt", "task.md"]).args(arguments);
        Running::start(command, &self.home.tmp(), "loop")
    }

    #[track_caller]
    fn ends(&self, arguments: &[&str], code: i32) -> Finished {
        let finished = self.start(arguments).finish();
        assert_eq!(finished.code(), Some(code), "{}{}", finished.stdout, finished.stderr);
        finished
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.project().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// The pid of an agent that hangs, once it does.
    fn hanging(&self, name: &str) -> Pid {
        let file = self.file(&format!("{name}.pid"));
        let pid = wait_until("an agent's pid", || fs::read_to_string(&file));
        Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
    }

    fn history(&self) -> Vec<Line> {
        let text = self.text(".coord-loop/history.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

// S2-19, S2-06, S2-10, S2-11, S2-12: killed in mid-run: noticed, gone on from, handed on, written down.
#[test]
fn an_agent_killed_in_mid_run_is_gone_on_from() {
    let task = Task::of(&[("first", HANGS), ("second", DOES_IT)]);
    let running = task.start(&[]);
    kill_process(task.hanging("first"), Signal::KILL).unwrap();
    let finished = running.finish();
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, "output of second\n");
    for line in [
        "coord loop: iteration 1 of 100: first runs\n",
        "coord loop: iteration 1: first: crash after ",
        "coord loop: iteration 2 of 100: second runs\n",
        "coord loop: the task is done\n",
    ] {
        assert!(finished.stderr.contains(line), "{line} in {}", finished.stderr);
    }
    let handoff = task.text(".coord-loop/handoff.md");
    assert!(
        handoff.contains("## Crash in iteration 1 (") && handoff.contains("- exit: signal 9\n")
    );
    let prompt = task.text("second.prompt");
    assert!(prompt.contains("The previous rotation crashed: agent first, crash ("), "{prompt}");
    assert!(prompt.ends_with("Build the thing."));
    let history: Vec<_> =
        task.history().into_iter().map(|line| (line.agent, line.outcome, line.exit)).collect();
    let line = |of: [&str; 3]| (of[0].to_owned(), of[1].to_owned(), of[2].to_owned());
    assert_eq!(
        history,
        [line(["first", "crash", "signal 9"]), line(["second", "done", "exit code 0"])]
    );
}

// S2-05, S2-06: one that names a known error and hangs is ended at once where that is configured, and gone on from.
#[test]
fn an_agent_that_hangs_behind_a_known_error_is_gone_on_from() {
    let hangs = r"echo 'Error: read ECONNRESET' >&2; exec tail -f /dev/null";
    let task = Task::with(&[("first", hangs), ("second", DOES_IT)], "confirm = '0s'");
    task.ends(&[], 0);
    assert_eq!(task.history()[0].exit_reason, "error_hang_timeout");
    let handoff = task.text(".coord-loop/handoff.md");
    assert!(handoff.contains("\"Error: read ECONNRESET\"\n"), "{handoff}");
}

// S2-20, S2-01, S2-02, S2-17
#[test]
fn every_end_has_its_exit_code() {
    let says = |word: &str| format!("echo x; echo {word} > .coord-loop/status");
    Task::of(&[("a", &says("done"))]).ends(&[], 0);
    Task::of(&[("a", "exit 2")]).ends(&[], 1);
    Task::of(&[("a", "exit 0")]).ends(&[], 1);
    Task::of(&[("a", &says("stuck"))]).ends(&[], 2);
    let task = Task::of(&[("a", &says("rotate")), ("b", &says("COMPLETE"))]);
    task.ends(&["--max-iterations", "3"], 3);
    let ran: Vec<_> = task.history().into_iter().map(|line| line.agent).collect();
    assert_eq!(ran, ["a", "b", "b"]);
    let limit = [("a", "echo used up for today >&2; exit 1")];
    Task::with(&limit, "limit_texts = ['used up for today']").ends(&["--no-wait"], 4);
    for wrong in [&["--max-iterations", "0"][..], &["--agent", "nobody"], &["--nonsense"]] {
        let finished = Task::of(&[("a", "exit 0")]).ends(wrong, 64);
        assert!(finished.stdout.is_empty(), "{}", finished.stdout);
    }
}

// G10: its user's Ctrl-C reaches the agent, and the loop goes on where it stopped.
#[test]
fn an_interrupted_loop_goes_on() {
    let task = Task::of(&[("first", HANGS), ("second", DOES_IT)]);
    let running = task.start(&[]);
    let agent = task.hanging("first");
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.code(), Some(130), "{}", finished.stderr);
    assert!(test_kill_process(agent).is_err(), "the agent lives on");
    assert_eq!(task.history()[0].outcome, "cancelled");
    let finished = task.ends(&["--dry-run"], 0);
    assert!(finished.stdout.contains("next       first, iteration 2\n"), "{}", finished.stdout);
    task.ends(&["--agent", "second"], 0);
    assert_eq!(task.history()[1].iteration, 2);
}

// G10: a loop that was killed does not start a second agent beside one that still works.
#[test]
fn a_killed_loop_waits_for_its_agent() {
    let task = Task::of(&[("first", HANGS), ("second", DOES_IT)]);
    let running = task.start(&[]);
    let agent = task.hanging("first");
    // The run's file is written when its process is there, which may be a while after that.
    wait_until("its run's file", || {
        let mut inspect = task.command(COORD);
        inspect.args(["inspect", "--json"]);
        let listed = run(inspect, &task.home.tmp(), "inspect").expect_success().stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let has_run = listed["runs"].as_array().is_some_and(|runs| !runs.is_empty());
        if has_run { Ok(()) } else { Err(listed) }
    });
    running.signal(Signal::KILL);
    assert_eq!(running.finish().signal(), Some(9));
    let finished = task.ends(&[], 1);
    let pid = agent.as_raw_nonzero();
    assert!(finished.stderr.contains(&format!("`kill {pid}`")), "{}", finished.stderr);
    kill_process(agent, Signal::KILL).unwrap();
    wait_until("the agent's end", || test_kill_process(agent).map_or(Ok(()), |()| Err(agent)));
    task.ends(&[], 0);
    let history: Vec<_> =
        task.history().into_iter().map(|line| (line.iteration, line.outcome)).collect();
    assert_eq!(history, [(1, "unknown".to_owned()), (2, "done".to_owned())]);
    let left = task.history().remove(0);
    let id = left.run_id.unwrap();
    assert!(left.started.is_some(), "its file tells when it began");
    let mut explain = task.command(COORD);
    explain.args(["explain", &id]);
    run(explain, &task.home.tmp(), "explain").expect_success();
    assert!(task.text("second.prompt").contains("the loop itself was interrupted"));
}

#[test]
fn without_agents_the_error_has_a_configuration_that_works() {
    let task = Task::of(&[]);
    let finished = task.ends(&[], 1);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    let (_, example) = finished.stderr.split_once(".toml: ").unwrap();
    task.home.write_config(&format!("[loop]\n{example}"));
    let finished = task.ends(&["--dry-run"], 0);
    let command = "agent      claude: claude -p --output-format stream-json --verbose {prompt}\n";
    assert!(finished.stdout.contains(command), "{}", finished.stdout);
    assert!(finished.stdout.contains("next       claude, iteration 1\n"), "{}", finished.stdout);
    assert!(!task.file(".coord-loop").exists());
}

#[test]
fn the_agents_are_shown_with_the_configuration() {
    let task = Task::of(&[("first", "exit 0")]);
    let show = |arguments: &[&str]| {
        let mut command = task.command(COORD);
        command.args(["config", "show"]).args(arguments);
        run(command, &task.home.tmp(), "config").expect_success().stdout
    };
    let text = show(&[]);
    assert!(text.contains("\n[[loop.agent]]\nname = 'first'  # line 5: Name of the agent: "));
    let json: serde_json::Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!(json["loop.agent.first.name"]["value"], "'first'");
    assert_eq!(json["loop.max_iterations"]["origin"], "default");
}

// H-26: what an agent prints does not reach a terminal.
#[test]
fn a_terminal_shows_the_loop_and_nothing_of_its_agents() {
    let prints = r#"printf "\033]0;title\007from the agent"; printf "\033[2Jfrom the agent" >&2; echo done > .coord-loop/status"#;
    let task = Task::of(&[("first", prints)]);
    let mut command = task.command("script");
    command.args(["-qec", &format!("'{COORD}' loop --prompt task.md"), "/dev/null"]);
    command.env("TERM", "xterm");
    let shown = run(command, &task.home.tmp(), "script").expect_success().stdout;
    assert!(!shown.contains("from the agent") && !shown.contains("\u{1b}]"), "{shown:?}");
    assert!(shown.contains("iteration 1: first: done after "), "{shown:?}");
    assert!(shown.contains("\r\u{1b}[K0s  iteration 1 of 100: first runs"), "{shown:?}");
    assert!(shown.ends_with("coord loop: the task is done\r\n"), "{shown:?}");
}

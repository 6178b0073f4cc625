//! A message to a session of another machine, with each program that carries it killed at each step of its way: it reaches the
//! agent once, and `coord send --wait` says so (F-05).
//!
//! Stopping the program that would carry the message on holds it at a step; that it is there is seen, not assumed. Then a
//! program is killed, and everything goes on.

use std::fs;
use std::io::Write as _;

use coord_tests::coord::{coord, programs};
use coord_tests::nats::NatsServer;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Machine, SESSION, fleet, kill_relay, relay, status};
use crate::contract::harness::Harness;

const MESSAGES: &str = "COORD_MSG";
const FATES: &str = "COORD_FATE";

/// Where a message is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The sending coordinator keeps it, and its relay does not have it.
    Kept,
    /// The sending relay has it, and the server does not.
    Handed,
    /// The server has it, and the receiving relay does not.
    Stored,
    /// The receiving relay has it, and its coordinator does not.
    Taken,
    /// The receiving coordinator keeps it; the server does not know.
    Recorded,
    /// The server has the word that it is kept; the sending relay does not.
    AcceptedStored,
    /// The sending relay has that word, and its coordinator does not.
    AcceptedTaken,
    /// The agent has read it. The server has that word, and the sending relay does not.
    ProcessedStored,
    /// The sending relay has that word, and its coordinator does not.
    ProcessedTaken,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    SendingCoordinator,
    SendingRelay,
    Server,
    ReceivingRelay,
    ReceivingCoordinator,
    /// `coord send --wait`, which is then asked again.
    Wait,
}

/// A program that was stopped.
pub(super) struct Stopped(Pid);

impl Stopped {
    #[track_caller]
    fn stop(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).expect("it runs");
        let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
        wait_until("every thread of it has stopped", || {
            let states = fs::read_dir(&tasks).expect("its threads").flatten().map(|thread| {
                let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().unwrap_or_default().chars().next()
            });
            let states: Vec<Option<char>> = states.collect();
            if states.iter().all(|state| *state == Some('T')) { Ok(()) } else { Err(states) }
        });
        Self(pid)
    }

    fn coordinator(machine: &Machine) -> Self {
        let pid = machine.coordinator.as_ref().expect("it runs").pid();
        Self::stop(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap())
    }

    pub(super) fn relay(machine: &Machine) -> Self {
        Self::stop(relay(machine))
    }

    /// Lets it go on, if it was not killed.
    pub(super) fn go_on(self) {
        let _gone = kill_process(self.0, Signal::CONT);
    }
}

/// The session's agent: what a hook's answer brings is in its next request, and the agent answers that.
struct Agent {
    harness: Harness,
    /// All that it was given to read.
    read: String,
}

impl Agent {
    fn begin(laptop: &Machine) -> Self {
        let mut harness = Harness::headless(&laptop.home, SESSION);
        harness.write_transcript();
        harness.begin_turn();
        Self { harness, read: String::new() }
    }

    /// Ends a tool, whose result brings what waits.
    #[track_caller]
    fn reads(&mut self) {
        let tool = json!({"tool_name": "Bash", "permission_mode": "default"});
        let answer = self.harness.answer("PostToolUse", &tool);
        let Ok(answer) = serde_json::from_str::<Value>(&answer) else { return };
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("a text");
        self.read.push_str(text);
        let given = json!({"type": "hook_additional_context", "hookEvent": "PostToolUse", "content": [text]});
        let lines = [
            json!({"type": "attachment", "sessionId": SESSION, "attachment": given}),
            json!({"type": "assistant", "sessionId": SESSION, "message": {"model": "a model", "content": []}}),
        ];
        let mut transcript =
            fs::OpenOptions::new().append(true).open(self.harness.transcript()).unwrap();
        transcript.write_all(format!("{}\n{}\n", lines[0], lines[1]).as_bytes()).unwrap();
    }
}

/// A message, and who waits for its fate.
struct Sent {
    text: String,
    waits: Running,
}

/// Everything between a sender and an agent.
struct Way {
    server: NatsServer,
    desk: Machine,
    laptop: Machine,
    agent: Agent,
    sent: Vec<Sent>,
}

impl Way {
    fn begin() -> Self {
        let (server, [desk, mut laptop]) = fleet(["desk", "laptop"]);
        kill_coordinator(&mut laptop);
        let file = laptop.home.paths().config_file();
        let mut config = fs::OpenOptions::new().append(true).open(file).unwrap();
        // Its transcripts are read.
        writeln!(config, "[tracking]\nconfig_dirs = ['{}']", laptop.home.config_dir().display())
            .unwrap();
        laptop.starts();
        coord(&laptop.home, &["fleet", "allow", &desk.key, "desk", "--send"]).expect_success();
        let agent = Agent::begin(&laptop);
        let way = Self { server, desk, laptop, agent, sent: Vec::new() };
        wait_until("the session is known", || {
            let shown = way.desk.shows();
            if shown.iter().any(|(id, ..)| id == SESSION) { Ok(()) } else { Err(shown) }
        });
        way
    }

    /// Waits until both relays run and are connected.
    #[track_caller]
    fn is_whole(&self) {
        // What a relay says of its link is a moment old.
        wait_until("the server has two connections", || {
            let n = self.server.connections();
            if n == 2 { Ok(()) } else { Err(n) }
        });
        for machine in [&self.desk, &self.laptop] {
            wait_until(&format!("the relay of {} is connected", machine.name), || {
                let pid = u64::try_from(relay(machine).as_raw_nonzero().get()).unwrap();
                let now = status(&machine.home)["relay"].clone();
                let is_up = now["is_up"] == true && now["pid"] == pid;
                if is_up { Ok(()) } else { Err(now) }
            });
        }
    }

    /// Sends a message, and waits for its fate beside this.
    #[track_caller]
    fn send(&self, text: &str) -> Running {
        let to = format!("laptop/{SESSION}");
        let mut command = self.desk.home.command(programs().join("coord"));
        command.args(["send", &to, text, "--urgent", "--key", text, "--wait"]);
        command.env("COORD_HOME", self.desk.home.root()).stdin(std::process::Stdio::null());
        Running::start(command, &self.desk.home.tmp(), "send")
    }

    /// The highest number that a stream has given, and the highest one that was delivered.
    #[track_caller]
    fn numbers(&self, stream: &str) -> (u64, u64) {
        let found = self.server.stream(stream);
        let last = found["state"]["last_seq"].as_u64().expect("a number");
        let consumers = found["consumer_detail"].as_array().expect("consumers");
        let delivered = consumers.iter().filter_map(|one| one["delivered"]["stream_seq"].as_u64());
        (last, delivered.max().unwrap_or(0))
    }

    /// Waits until something came to a stream after this number, and was delivered from it if that is wanted.
    #[track_caller]
    fn passes(&self, stream: &str, after: u64, is_delivered: bool) {
        wait_until(&format!("{stream} has something new"), || {
            let (last, delivered) = self.numbers(stream);
            let is_there = after < last && (!is_delivered || after < delivered);
            if is_there { Ok(()) } else { Err((last, delivered)) }
        });
    }

    /// Sends the message, and holds it at a step.
    #[track_caller]
    fn hold(&mut self, text: &str, step: Step) -> (Running, Vec<Stopped>) {
        match step {
            Step::Kept => {
                let stopped = Stopped::relay(&self.desk);
                let waits = self.send(text);
                is_listed(&self.desk, text, "pending");
                (waits, vec![stopped])
            }
            Step::Handed => {
                self.server.hang();
                let waits = self.send(text);
                is_there_or_link_is_down(&self.desk, text, "processing");
                (waits, Vec::new())
            }
            Step::Stored => {
                let (stopped, before) = (Stopped::relay(&self.laptop), self.numbers(MESSAGES).0);
                let waits = self.send(text);
                self.passes(MESSAGES, before, false);
                (waits, vec![stopped])
            }
            Step::Taken => {
                let (stopped, before) =
                    (Stopped::coordinator(&self.laptop), self.numbers(MESSAGES).0);
                let waits = self.send(text);
                self.passes(MESSAGES, before, true);
                (waits, vec![stopped])
            }
            Step::Recorded => {
                let (waits, stopped) = self.hold(text, Step::Taken);
                self.server.hang();
                stopped.into_iter().for_each(Stopped::go_on);
                is_there_or_link_is_down(&self.laptop, text, "pending");
                (waits, Vec::new())
            }
            Step::AcceptedStored | Step::AcceptedTaken => {
                let before = self.numbers(FATES).0;
                let (waits, stopped) = self.hold(text, Step::Taken);
                let at_desk = self.stop_desk(step == Step::AcceptedTaken);
                stopped.into_iter().for_each(Stopped::go_on);
                self.passes(FATES, before, step == Step::AcceptedTaken);
                (waits, vec![at_desk])
            }
            Step::ProcessedStored | Step::ProcessedTaken => {
                let waits = self.send(text);
                wait_until("the sender knows that it is kept", || {
                    let message = listed(&self.desk, text);
                    let because = message["because"].as_str().unwrap_or_default();
                    if because.starts_with("kept on laptop") { Ok(()) } else { Err(message) }
                });
                let before = self.numbers(FATES).0;
                let at_desk = self.stop_desk(step == Step::ProcessedTaken);
                wait_until("the agent has it", || {
                    self.agent.reads();
                    let message = listed(&self.laptop, text);
                    if message["state"] == "processed" { Ok(()) } else { Err(message) }
                });
                self.passes(FATES, before, step == Step::ProcessedTaken);
                (waits, vec![at_desk])
            }
        }
    }

    fn stop_desk(&self, is_coordinator: bool) -> Stopped {
        if is_coordinator { Stopped::coordinator(&self.desk) } else { Stopped::relay(&self.desk) }
    }

    /// Sends a message, and kills a program while the message is at a step.
    #[track_caller]
    fn cut(&mut self, step: Step, victim: Victim) {
        self.is_whole();
        let text = format!("{step:?}-{victim:?}");
        let (waits, stopped) = self.hold(&text, step);
        let mut waits = Some(waits);
        let is_hung = matches!(step, Step::Handed | Step::Recorded);
        match victim {
            Victim::SendingCoordinator => kill_coordinator(&mut self.desk),
            Victim::ReceivingCoordinator => kill_coordinator(&mut self.laptop),
            Victim::SendingRelay => kill_relay(&self.desk),
            Victim::ReceivingRelay => kill_relay(&self.laptop),
            Victim::Server => self.server.kill(),
            Victim::Wait => {
                waits.take().expect("it waits").kill();
            }
        }
        stopped.into_iter().for_each(Stopped::go_on);
        if victim == Victim::Server {
            self.server.start_again();
        } else if is_hung {
            self.server.go_on();
        }
        for machine in [&mut self.desk, &mut self.laptop] {
            if machine.coordinator.is_none() {
                machine.starts();
            }
        }
        let waits = waits.unwrap_or_else(|| self.send(&text));
        self.sent.push(Sent { text, waits });
    }

    /// Every message reaches the agent, once; whoever waits hears it, and nothing is left anywhere.
    #[track_caller]
    fn arrive(mut self) {
        wait_until("every sender knows the fate", || {
            self.agent.reads();
            let mut left = Vec::new();
            for at in 0..self.sent.len() {
                let Sent { text, waits } = &self.sent[at];
                if !waits.has_ended() {
                    left.push(text.clone());
                    continue;
                }
                // Its coordinator was killed before it had answered: it is asked again, as its user would.
                if waits.output()[1].contains("may have been sent") {
                    let waits = self.send(text);
                    self.sent[at].waits = waits;
                    left.push(self.sent[at].text.clone());
                }
            }
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        let texts: Vec<String> = self.sent.iter().map(|one| one.text.clone()).collect();
        for Sent { text, waits } in self.sent {
            let told = waits.finish();
            let is_right = told.code() == Some(0) && told.stdout.contains(" processed");
            assert!(is_right, "{text}: {told:?}");
        }
        // A repeat that is still on its way would be known by its number, and would not count.
        // What a killed server took back into its stream after it was settled, it delivers to nobody.
        wait_until("nothing is on its way any more", || {
            let left = [MESSAGES, FATES].map(|name| self.server.stream(name));
            let is_none =
                |consumer: &Value| consumer["num_pending"] == 0 && consumer["num_ack_pending"] == 0;
            let mut consumers =
                left.iter().filter_map(|one| one["consumer_detail"].as_array()).flatten();
            if consumers.all(is_none) { Ok(()) } else { Err(left) }
        });
        self.agent.reads();
        for text in &texts {
            let times =
                self.agent.read.lines().filter(|line| line.ends_with(text.as_str())).count();
            assert_eq!(times, 1, "{text}: {}", self.agent.read);
        }
        for machine in [&self.desk, &self.laptop] {
            let all = messages(machine);
            let all = all.as_array().expect("a list");
            assert!(all.iter().all(|one| one["state"] == "processed"), "{}: {all:?}", machine.name);
            assert_eq!(all.len(), texts.len(), "{}: {all:?}", machine.name);
        }
    }
}

/// Kills a coordinator, whose relay then ends.
fn kill_coordinator(machine: &mut Machine) {
    machine.coordinator.take().expect("it runs").kill();
}

/// The messages that a machine shows.
#[track_caller]
fn messages(machine: &Machine) -> Value {
    let listed = coord(&machine.home, &["queue", "--json"]).expect_success().stdout;
    serde_json::from_str::<Value>(&listed).expect("JSON")["messages"].take()
}

/// A message as a machine shows it; null if it shows none with this text. Texts are not shown: the sender knows it by its key,
/// and the receiver by its place.
#[track_caller]
fn listed(machine: &Machine, text: &str) -> Value {
    let all = messages(machine);
    let mut all = all.as_array().expect("a list").iter();
    let is_it = |one: &&Value| {
        if one["key"] == text {
            return true;
        }
        let id = one["id"].as_str().expect("an id");
        let shown = coord(&machine.home, &["queue", "show", id, "--json"]).expect_success().stdout;
        serde_json::from_str::<Value>(&shown).expect("JSON")["text"] == text
    };
    all.find(is_it).cloned().unwrap_or_default()
}

/// Waits until a machine shows a message in a state.
#[track_caller]
fn is_listed(machine: &Machine, text: &str, state: &str) {
    wait_until(&format!("{} has {text} as {state}", machine.name), || {
        let message = listed(machine, text);
        if message["state"] == state { Ok(()) } else { Err(message) }
    });
}

/// The same while the server hangs. A relay that is slow to begin finds that out, and then leaves the message where it is, which
/// is one step before.
#[track_caller]
fn is_there_or_link_is_down(machine: &Machine, text: &str, state: &str) {
    wait_until(&format!("{} has {text} as {state}", machine.name), || {
        let (message, relay) = (listed(machine, text), status(&machine.home)["relay"].clone());
        if message["state"] == state || relay["is_up"] == false {
            Ok(())
        } else {
            Err((message, relay))
        }
    });
}

// F-05
#[test]
fn f_05_a_message_that_is_cut_off_at_its_sender_takes_effect_once() {
    let mut way = Way::begin();
    for victim in [Victim::SendingCoordinator, Victim::SendingRelay, Victim::Server, Victim::Wait] {
        way.cut(Step::Kept, victim);
    }
    for victim in [Victim::SendingCoordinator, Victim::SendingRelay, Victim::Server, Victim::Wait] {
        way.cut(Step::Handed, victim);
    }
    way.arrive();
}

// F-05
#[test]
fn f_05_a_message_that_is_cut_off_on_its_way_takes_effect_once() {
    let mut way = Way::begin();
    for victim in [
        Victim::SendingCoordinator,
        Victim::SendingRelay,
        Victim::Server,
        Victim::ReceivingRelay,
        Victim::ReceivingCoordinator,
        Victim::Wait,
    ] {
        way.cut(Step::Stored, victim);
    }
    for victim in [Victim::Server, Victim::ReceivingRelay, Victim::ReceivingCoordinator] {
        way.cut(Step::Taken, victim);
    }
    for victim in [Victim::Server, Victim::ReceivingRelay, Victim::ReceivingCoordinator] {
        way.cut(Step::Recorded, victim);
    }
    way.arrive();
}

// F-05
#[test]
fn f_05_a_message_whose_fate_is_cut_off_takes_effect_once() {
    let mut way = Way::begin();
    for victim in [
        Victim::SendingCoordinator,
        Victim::SendingRelay,
        Victim::Server,
        Victim::ReceivingRelay,
        Victim::ReceivingCoordinator,
    ] {
        way.cut(Step::AcceptedStored, victim);
        way.cut(Step::ProcessedStored, victim);
    }
    for step in [Step::AcceptedTaken, Step::ProcessedTaken] {
        for victim in [Victim::SendingCoordinator, Victim::SendingRelay, Victim::Server] {
            way.cut(step, victim);
        }
    }
    way.cut(Step::ProcessedTaken, Victim::Wait);
    way.arrive();
}

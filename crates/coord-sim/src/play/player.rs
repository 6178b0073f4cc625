//! Plays a scenario: the real coordinator on the simulated machine, in simulated time.
//!
//! Between the steps the loop turns whenever it would: at each time it asked to be woken, and when
//! something waits for it. Two steps of the same time happen one after another. What is shown are
//! changes of states, decisions and effects; what is expected is asked of the coordinator as any
//! client asks. It decides nothing about sessions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use coord_config::Config;
use coord_model::{Event, Record};
use coord_store::journal::read_segments;
use coord_testkit::{Damage, Fault, Random};
use coord_wire::inspect::Inspect;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Clients;
use super::clock::Clock;
use super::compare::{compare, is_effect};
use super::doings::Doings;
use super::messages::Messages;
use super::run::Runs;
use crate::SharedMachine;
use crate::machine::Pace;
use crate::scenario::{Act, Check, Expect, Hook, Scenario, Step, Subject, Switch, USUAL_MS, Words};
use crate::serving::{CONFIG_DIR, Post, Serving, paths};

/// A loop that turns so often at one time does not rest.
const TURNS_MAX: u32 = 100;
const RESTLESS: &str = "the coordinator's loop turns again and again and does not come to rest";
/// Between two things that happen at the same time.
const STEP_NS: u64 = 1_000;

/// What playing came to.
#[derive(Debug)]
pub struct Played {
    /// What happened, as lines of JSON.
    pub lines: Vec<String>,
    /// The first expectation that did not hold, in one line; or why the scenario cannot be played.
    pub end: Result<Option<String>>,
}

/// Plays the text of a file.
pub fn play(text: &str) -> Played {
    play_and_sample(text, u64::MAX).played
}

/// What playing came to, and what the coordinator told meanwhile.
#[derive(Debug)]
pub struct Sampled {
    /// What playing came to.
    pub played: Played,
    /// The metrics at regular times, from one period after the start on; none while no coordinator runs.
    pub metrics: Vec<Option<String>>,
}

/// Plays the text of a file, and asks for the metrics after each `period_ns` of its time.
pub fn play_and_sample(text: &str, period_ns: u64) -> Sampled {
    let begun = Scenario::parse(text).and_then(|scenario| {
        let mut player = Player::new(&scenario)?;
        (player.period_ns, player.sample_ns) = (period_ns, period_ns);
        Ok((scenario, player))
    });
    match begun {
        Err(error) => {
            Sampled { played: Played { lines: Vec::new(), end: Err(error) }, metrics: Vec::new() }
        }
        Ok((scenario, mut player)) => {
            let end = player.play(&scenario);
            let Player { lines, metrics, .. } = player;
            Sampled { played: Played { lines, end }, metrics }
        }
    }
}

pub(super) struct Player {
    pub(super) machine: SharedMachine,
    pub(super) clock: Clock,
    pub(super) clients: Clients,
    config: Config,
    pub(super) serving: Option<Serving>,
    lines: Vec<String>,
    /// State and reason as shown last, by session and owner.
    shown: BTreeMap<(String, u32), (String, String)>,
    /// Effects since the last step that spoke of them.
    effects: Vec<Value>,
    /// What clients are about to do by themselves.
    pub(super) doings: Doings,
    pub(super) messages: Messages,
    runs: Runs,
    /// Sessions that are marked unattended as soon as they are known.
    pub(super) unattended: BTreeSet<String>,
    /// The next record of the journal to be looked at, and the bytes on the disk at the last look.
    next_seq: u64,
    used: u64,
    /// How often the metrics are asked for, when next, and what they were.
    period_ns: u64,
    sample_ns: u64,
    metrics: Vec<Option<String>>,
}

#[derive(Serialize)]
struct StateLine<'a> {
    t: f64,
    session: &'a str,
    state: &'a str,
    because: &'a str,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    t: f64,
    session: &'a str,
    rule: &'a str,
    saw: &'a str,
    did: &'a str,
}

#[derive(Serialize)]
struct EffectLine<'a> {
    t: f64,
    effect: &'a Value,
}

#[derive(Serialize)]
struct LostLine<'a> {
    t: f64,
    session: &'a str,
    lost: &'a str,
}

impl Player {
    fn new(scenario: &Scenario) -> Result<Self> {
        let clock = Clock::new();
        let pace = Pace { disk: USUAL_MS, look: 10..20 };
        let machine = SharedMachine::new(clock.now(), pace, Random::new(1));
        machine.get().asked = Some(Vec::new());
        machine.get().set_registry(CONFIG_DIR, true);
        let mut player = Self {
            clients: Clients::new(&machine),
            machine,
            clock,
            config: scenario.config.clone(),
            serving: None,
            lines: Vec::new(),
            shown: BTreeMap::new(),
            effects: Vec::new(),
            doings: Doings::default(),
            messages: Messages::default(),
            runs: Runs::default(),
            unattended: BTreeSet::new(),
            next_seq: 0,
            used: 0,
            period_ns: u64::MAX,
            sample_ns: u64::MAX,
            metrics: Vec::new(),
        };
        player.set_time(0);
        player.set_world(&scenario.world);
        player.start()?;
        Ok(player)
    }

    fn play(&mut self, scenario: &Scenario) -> Result<Option<String>> {
        for Step { at_ns, place, act } in &scenario.steps {
            self.pass(*at_ns)?;
            self.set_time((self.clock.at_ns + STEP_NS).max(*at_ns));
            let failed = self.act(act).with_context(|| place.clone())?;
            if let Some(failed) = failed {
                return Ok(Some(format!("{place}: {failed}")));
            }
            self.settle().with_context(|| place.clone())?;
        }
        Ok(None)
    }

    /// Does what a step says; what of it did not hold.
    fn act(&mut self, act: &Act) -> Result<Option<String>> {
        match act {
            Act::Start(start) => {
                self.clients.start(start)?;
                if start.is_unattended {
                    self.unattended.insert(start.session.clone());
                }
            }
            Act::Hook(hook) => self.fire(hook)?,
            Act::Registry { pid, entry } => {
                self.clients.write_registry(*pid, entry.clone(), self.clock.now())?;
            }
            Act::Pane(step) => self.clients.show(step, self.clock.now())?,
            Act::Transcript(line) => self.clients.write_transcript(line, self.clock.now())?,
            Act::File { path, text } => self.machine.get().put_file(path, text.clone()),
            Act::Exit { pid, status } => match self.runs.exit(*pid, *status, self.clock.now()) {
                Some(effects) => self.show_effects(effects)?,
                None => self.clients.exit(*pid)?,
            },
            Act::Run(begin) => {
                let limits = self.config.run_limits();
                let effects = self.runs.begin(begin, limits, self.clock.now())?;
                self.show_effects(effects)?;
            }
            Act::InRun(step) => {
                let effects = self.runs.happen(&step.run, &step.what, self.clock.now())?;
                self.show_effects(effects)?;
            }
            Act::Coordinator(Switch::Start) => self.start()?,
            Act::Coordinator(Switch::Stop) => {
                self.running()?.end()?;
                self.hang_up()?;
            }
            Act::Coordinator(Switch::Kill) => {
                self.running()?.kill();
                self.hang_up()?;
            }
            Act::ConfigFile { is_wrong } => {
                let right = Ok(self.config.clone());
                let loaded = if *is_wrong { Config::parse("no table") } else { right };
                self.serving.as_mut().context("config_file: no coordinator")?.configure(loaded);
            }
            Act::Clock { jump_ms } => {
                self.clock.jump(*jump_ms);
                self.set_time(self.clock.at_ns);
                self.turn(&[], false);
                let effects = self.runs.gap(self.clock.now());
                self.show_effects(effects)?;
            }
            Act::Boot { lost_power } => self.boot(*lost_power),
            Act::Disk(fault) => {
                let machine = self.machine.get();
                machine.disk.disarm();
                if let Some(fault) = fault {
                    machine.disk.arm(*fault);
                }
                self.runs.is_disk_broken = matches!(fault, Some(Fault::Sync));
            }
            Act::DiskRoom(left) => {
                let machine = self.machine.get();
                machine.disk.set_capacity(left.map(|left| machine.disk.used() + left));
            }
            Act::DiskPace(ms) => self.machine.get().pace.disk = ms.clone(),
            Act::World(words) => self.set_world(words),
            Act::Command(order) => self.order(order)?,
            Act::Send(letter) => self.send(letter)?,
            Act::Check(check) => return self.check(check),
        }
        Ok(None)
    }

    fn set_world(&mut self, words: &Words) {
        self.clients.set(words, self.clock.now());
        self.doings.set(words);
    }

    fn running(&mut self) -> Result<Serving> {
        self.serving.take().context("coordinator: it is not running")
    }

    fn start(&mut self) -> Result<()> {
        if self.serving.is_some() {
            bail!("coordinator: it is running already");
        }
        self.serving = Some(Serving::start(&self.machine, &self.config)?);
        self.turn(&[], false);
        Ok(())
    }

    fn boot(&mut self, lost_power: bool) {
        if let Some(serving) = self.serving.take() {
            serving.kill();
        }
        self.clock.boot();
        self.runs.clear();
        let (boot, now) = self.clock.stamp(self.clock.at_ns);
        let damage = if lost_power { Damage::Dropped } else { Damage::Kept };
        let disk = self.machine.get().disk.after_crash(damage);
        self.machine.get().reboot(boot, now, disk);
    }

    /// A hook of a client fires; where the client starts its wake hook beside it, that one waits from now
    /// on (H-02).
    pub(super) fn fire(&mut self, hook: &Hook) -> Result<()> {
        let fired = self.clients.fire(hook, &self.clock)?;
        let wake = fired.wake.clone();
        self.deliver(fired)?;
        if let Some((serving, wake)) = self.serving.as_mut().zip(wake) {
            serving.wait(wake);
        }
        Ok(())
    }

    /// Lets time pass up to there, and asks for the metrics meanwhile.
    fn pass(&mut self, until_ns: u64) -> Result<()> {
        while self.sample_ns <= until_ns {
            self.pass_to(self.sample_ns)?;
            let answer =
                self.serving.as_mut().map(|serving| serving.ask("/metrics")).transpose()?;
            let text = answer.map(|answer| String::from_utf8(answer.body)).transpose()?;
            self.metrics.push(text);
            self.sample_ns = self.sample_ns.saturating_add(self.period_ns);
        }
        self.pass_to(until_ns)
    }

    /// Lets time pass up to there, serving the loop and what clients do by themselves.
    fn pass_to(&mut self, until_ns: u64) -> Result<()> {
        let mut overdue = 0;
        loop {
            self.settle()?;
            let doing_ns = self.doings.next_at();
            let wake_ns = self.serving.as_ref().map(|one| self.clock.at_of(one.wake_at()));
            let run_ns = self.runs.wake_at().map(|at| self.clock.at_of(at));
            let next = doing_ns.into_iter().chain(wake_ns).chain(run_ns).min();
            let Some(next_ns) = next else { break };
            if until_ns <= next_ns {
                break;
            }
            overdue = if next_ns <= self.clock.at_ns { overdue + 1 } else { 0 };
            if TURNS_MAX < overdue {
                bail!("{RESTLESS}");
            }
            // A loop that is woken turns a little later.
            self.set_time(next_ns.max(self.clock.at_ns + STEP_NS));
            match self.doings.take(self.clock.at_ns) {
                Some(doing) => self.do_one(doing)?,
                None if run_ns == Some(next_ns) => {
                    let effects = self.runs.wake(self.clock.now());
                    self.show_effects(effects)?;
                }
                None => drop(self.turn(&[], false)),
            }
        }
        self.set_time(until_ns.max(self.clock.at_ns));
        Ok(())
    }

    /// Turns the loop until nothing waits for it.
    fn settle(&mut self) -> Result<()> {
        let mut turns = 0;
        self.mark_unattended()?;
        while self.serving.is_some() && self.machine.get().has_news() {
            self.turn(&[], false);
            self.mark_unattended()?;
            turns += 1;
            if TURNS_MAX < turns {
                bail!("{RESTLESS}");
            }
        }
        Ok(())
    }

    fn set_time(&mut self, at_ns: u64) {
        self.clock.at_ns = at_ns;
        let now = self.clock.now();
        let mut machine = self.machine.get();
        machine.now = now;
        machine.disk.set_now(now.wall_ms);
    }

    pub(super) fn turn(&mut self, posts: &[Post], spool_changed: bool) -> Vec<u16> {
        let Some(serving) = &mut self.serving else { return Vec::new() };
        let statuses = serving.turn(posts, spool_changed);
        self.observe_or_say();
        statuses
    }

    /// What is left of a turn whose requests are taken.
    pub(super) fn ends_turn(&mut self) {
        if let Some(serving) = &mut self.serving {
            serving.end_turn(false);
            self.observe_or_say();
        }
    }

    fn observe_or_say(&mut self) {
        if let Err(error) = self.observe() {
            self.lines.push(format!("{{\"unreadable\":{:?}}}", error.to_string()));
        }
    }

    /// Shows that an event is lost.
    pub(super) fn show_lost(&mut self, session: &str, lost: &str) -> Result<()> {
        self.show(&LostLine { t: self.seconds(), session, lost })
    }

    /// Shows what a turn changed.
    fn observe(&mut self) -> Result<()> {
        let t = self.seconds();
        self.show_decisions(t)?;
        let sessions =
            self.ask::<Inspect>("/v1/sessions")?.map_or_else(Vec::new, |all| all.sessions);
        for one in sessions {
            let state = serde_json::to_value(one.state)?;
            let state = state.as_str().unwrap_or_default().to_owned();
            let key = (one.session_id, one.owner.map_or(0, |owner| owner.pid));
            let shown = (state, one.because);
            if self.shown.get(&key) != Some(&shown) {
                let ((session, _), (state, because)) = (&key, &shown);
                self.show(&StateLine { t, session, state, because })?;
                self.shown.insert(key, shown);
            }
        }
        let asked = self.machine.get().asked.replace(Vec::new()).unwrap_or_default();
        for wish in asked {
            let look = match wish.look {
                coord_model::Look::Sweep => "sweep",
                coord_model::Look::Decision => "decision",
                coord_model::Look::AfterDeath => "after_death",
            };
            let (pane, pid) = (&wish.pane.pane, wish.process.pid);
            let effect = json!({"kind": "capture_pane", "look": look, "pane": pane, "pid": pid});
            self.show_effect(effect)?;
        }
        self.take_doings()
    }

    /// Shows what was carried out.
    pub(super) fn show_effect(&mut self, effect: Value) -> Result<()> {
        self.show(&EffectLine { t: self.seconds(), effect: &effect })?;
        self.effects.push(effect);
        Ok(())
    }

    fn show_effects(&mut self, effects: Vec<Value>) -> Result<()> {
        effects.into_iter().try_for_each(|effect| self.show_effect(effect))
    }

    fn show_decisions(&mut self, t: f64) -> Result<()> {
        let disk = self.machine.get().disk.clone();
        let used = disk.used();
        if used == self.used {
            return Ok(());
        }
        self.used = used;
        let from = self.next_seq;
        let records = disk.aside(|disk| -> Result<Vec<(u64, Vec<u8>)>> {
            let mut records = Vec::new();
            for segment in read_segments(disk, &paths().journal(), from)? {
                let segment = segment?;
                let new = segment.records().filter(|(seq, _)| from <= *seq);
                records.extend(new.map(|(seq, payload)| (seq, payload.to_vec())));
            }
            Ok(records)
        })?;
        for (seq, payload) in records {
            self.next_seq = seq + 1;
            if let Event::Decision(one) = serde_json::from_slice::<Record>(&payload)?.entry {
                let (session, rule, saw, did) = (&one.session_id, &one.rule, &one.saw, &one.did);
                self.show(&DecisionLine { t, session, rule, saw, did })?;
            }
        }
        Ok(())
    }

    fn show(&mut self, line: &impl Serialize) -> Result<()> {
        self.lines.push(serde_json::to_string(line)?);
        Ok(())
    }

    /// Asks the coordinator; none where there is no such thing.
    fn ask<T: serde::de::DeserializeOwned>(&mut self, path: &str) -> Result<Option<T>> {
        let serving = self.serving.as_mut();
        let response =
            serving.context("the coordinator is down, nobody can be asked")?.ask(path)?;
        match response.status {
            200 => Ok(Some(serde_json::from_slice(&response.body)?)),
            404 => Ok(None),
            status => bail!("{path} was answered by {status}"),
        }
    }

    /// What of a check does not hold.
    fn check(&mut self, check: &Check) -> Result<Option<String>> {
        if let Some(expect) = &check.expect
            && let Some(failed) = self.expect(expect)?
        {
            return Ok(Some(failed));
        }
        for (session, wanted) in &check.needs {
            let kinds = self.needs_of(session)?;
            if kinds != *wanted {
                return Ok(Some(format!(
                    "expect_needs: wanted {wanted:?} of {session}, got {kinds:?}"
                )));
            }
        }
        if !check.is_of_effects {
            return Ok(None);
        }
        let effects = std::mem::take(&mut self.effects);
        let mut rest = effects.iter();
        for wanted in &check.effects {
            if !rest.any(|effect| is_effect(wanted, effect)) {
                return Ok(Some(format!(
                    "expect_effects: wanted {wanted}, got none (or not in this order)"
                )));
            }
        }
        let forbidden = check.forbidden.iter().find_map(|unwanted| {
            let found = effects.iter().find(|effect| is_effect(unwanted, effect))?;
            Some(format!("forbid_effects: wanted no {unwanted}, got {found}"))
        });
        Ok(forbidden)
    }

    /// The kinds of the open needs of a session.
    fn needs_of(&mut self, session: &str) -> Result<Vec<String>> {
        let found: Option<Value> = self.ask(&format!("/v1/sessions/{}", encoded(session)))?;
        let needs = found.as_ref().and_then(|all| all.pointer("/sessions/0/needs")?.as_array());
        let kinds = needs.into_iter().flatten().filter_map(|need| need.get("kind")?.as_str());
        Ok(kinds.map(str::to_owned).collect())
    }

    fn expect(&mut self, expect: &Expect) -> Result<Option<String>> {
        let id = match &expect.subject {
            Subject::Session(id) => id,
            Subject::Run(run) => return Ok(self.expect_run(run, expect)),
            Subject::Message(name) => {
                let path = format!("/v1/messages/{}", self.messages.id(name)?);
                return self.expect_one(name, &path, expect);
            }
            Subject::Inbox(session) => {
                let path = format!("/v1/messages?session={}", encoded(session));
                return self.expect_one(session, &path, expect);
            }
        };
        let path = format!("/v1/sessions/{}", encoded(id));
        let found: Option<Value> = self.ask(&path)?;
        let sessions = found.as_ref().and_then(|all| all.get("sessions")?.as_array());
        let sessions = sessions.map_or(&[][..], Vec::as_slice);
        Ok(match (&expect.fields, sessions) {
            (None, []) => None,
            (None, [..]) => Some(format!("expect: wanted no session {id:?}, got one")),
            (Some(_), []) => Some(format!("expect: wanted a session {id:?}, got none")),
            // Two live processes may hold one id: it is enough that one record is as wanted.
            (Some(fields), sessions) => {
                let wanted = Value::Object(fields.clone());
                let differences: Vec<_> =
                    sessions.iter().map(|got| compare("", &wanted, got)).collect();
                let all_differ = differences.iter().all(Option::is_some);
                let first = differences.into_iter().flatten().next().filter(|_| all_differ);
                first.map(|one| {
                    format!("expect {id:?}: {}: wanted {}, got {}", one.path, one.wanted, one.got)
                })
            }
        })
    }

    /// What of an answer is not as wanted.
    fn expect_one(&mut self, name: &str, path: &str, expect: &Expect) -> Result<Option<String>> {
        let found: Option<Value> = self.ask(path)?;
        Ok(match (&expect.fields, found) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("expect: wanted no {name:?}, got one")),
            (Some(_), None) => Some(format!("expect: wanted {name:?}, got none")),
            (Some(fields), Some(got)) => {
                let one = compare("", &Value::Object(fields.clone()), &got);
                one.map(|one| {
                    format!("expect {name:?}: {}: wanted {}, got {}", one.path, one.wanted, one.got)
                })
            }
        })
    }

    fn expect_run(&self, run: &str, expect: &Expect) -> Option<String> {
        let found = self.runs.inspect(run, self.clock.now());
        match (&expect.fields, found) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("expect: wanted no run {run:?}, got one")),
            (Some(_), None) => Some(format!("expect: wanted a run {run:?}, got none")),
            (Some(fields), Some(got)) => {
                let one = compare("", &Value::Object(fields.clone()), &got)?;
                let (path, wanted, got) = (one.path, one.wanted, one.got);
                Some(format!("expect {run:?}: {path}: wanted {wanted}, got {got}"))
            }
        }
    }

    /// The scenario's time, to the millisecond.
    fn seconds(&self) -> f64 {
        let ms = u32::try_from(self.clock.at_ns / 1_000_000 % 1_000).unwrap_or(0);
        let seconds = u32::try_from(self.clock.at_ns / 1_000_000_000).unwrap_or(u32::MAX);
        (f64::from(seconds) * 1_000.0 + f64::from(ms)) / 1_000.0
    }
}

/// An id as a part of a path.
fn encoded(id: &str) -> String {
    let byte = |byte: u8| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    id.bytes().map(byte).collect()
}

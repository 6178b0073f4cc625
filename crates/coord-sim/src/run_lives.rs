//! Whole lives of headless runs drawn from a seed: a client with a stream and a tree, and the real
//! `coord_core::Run` with a supervisor as `coord run` has it. Decides nothing about runs.
//!
//! The client takes turns, with tools, tries, requests, background work and wake-ups; it hangs, ends or
//! dies anywhere, closes its output and lives on, or ignores SIGTERM. Faults: gaps, refused and slow
//! records, words that come while one is made. After each step `checks` says whether it was right.

mod checks;
mod plan;
mod tree;

use std::collections::{BTreeMap, VecDeque};

use checks::Checks;
use coord_core::{
    ExitReason, ExitStatus, Run, RunAct, RunEvent, RunLimits, StreamFact, Teardown, TeardownStep,
};
use coord_model::{Awake, Moment, Signal};
use coord_testkit::Random;
use plan::{Doing, Plan};
use tree::Tree;

use crate::Violation;

/// The client and its supervisor.
pub(crate) struct RunLife {
    random: Random,
    now_ms: u64,
    plan: Plan,
    run: Run,
    tree: Tree,
    checks: Checks,
    faults: Faults,
    lines: Option<Vec<String>>,
    exit: Option<ExitStatus>,
}

#[derive(Debug, Clone, Copy)]
struct Faults {
    gap: f64,
    refused: f64,
    slow: f64,
}

/// What a life came to.
pub(crate) struct Lived {
    /// What must not happen, if it did.
    pub(crate) wrong: Option<Violation>,
    /// How it ended.
    pub(crate) reason: Option<ExitReason>,
    /// What happened, where that was asked for.
    pub(crate) lines: Vec<String>,
}

/// More steps than any life has.
const STEPS_MAX: u32 = 200_000;

impl RunLife {
    pub(crate) fn new(seed: u64, is_told: bool) -> Self {
        let mut random = Random::new(seed ^ 0x0052_554e_4c49_5645);
        let is_faulty = random.coin();
        let often = |random: &mut Random, most: f64| {
            if is_faulty && random.coin() { most } else { 0.0 }
        };
        let faults = Faults {
            gap: often(&mut random, 0.02),
            refused: often(&mut random, 0.8),
            slow: often(&mut random, 0.7),
        };
        let now_ms = 1_000_000;
        let tree = Tree::new(now_ms, &mut random);
        let plan = Plan::draw(now_ms, &mut random);
        let (run, acts) = Run::begin(RunLimits::default(), moment(now_ms));
        let checks = Checks::new(now_ms);
        let lines = is_told.then(Vec::new);
        let mut life = Self { random, now_ms, plan, run, tree, checks, faults, lines, exit: None };
        life.perform(acts);
        life
    }

    /// To its end, and that of its tree.
    pub(crate) fn live(mut self) -> Lived {
        for _ in 0..STEPS_MAX {
            if self.run.exit().is_some() || self.checks.wrong().is_some() {
                break;
            }
            self.turn();
        }
        if self.run.exit().is_none() {
            self.checks.fail("S3-02", "its supervisor does not come to rest");
        }
        self.end_tree();
        let reason = self.run.exit().map(|(_, reason)| reason);
        let unkillable = reason == Some(ExitReason::Unkillable);
        self.checks.ended(&self.tree, unkillable);
        Lived { wrong: self.checks.wrong(), reason, lines: self.lines.unwrap_or_default() }
    }

    /// What comes next: a deadline of the supervisor, or something that the client does.
    fn turn(&mut self) {
        let due_ms = self.run.next_deadline().map(|at| at.0.div_ceil(1_000_000));
        let doing_ms = self.plan.next_ms();
        let Some(next_ms) = due_ms.into_iter().chain(doing_ms).min() else {
            self.checks.fail("S3-02", "nothing would ever wake its supervisor");
            return;
        };
        // A supervisor that is woken is woken a little later.
        self.pass_to(next_ms.max(self.now_ms + u64::from(doing_ms != Some(next_ms))));
        if let Some(doing) = self.plan.take(self.now_ms) {
            self.happen(doing);
        } else if self.random.chance(self.faults.gap) {
            self.tell(&RunEvent::Gap);
        } else {
            self.tell(&RunEvent::Tick);
        }
        let (run, now_ms) = (&self.run, self.now_ms);
        self.checks.after_a_turn(run, now_ms);
    }

    fn pass_to(&mut self, ms: u64) {
        self.now_ms = ms;
        self.tree.advance(ms);
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let ms = self.now_ms;
        if let Some(lines) = &mut self.lines {
            let tenths = ms / 100;
            lines.push(format!("run {}.{} {}", tenths / 10, tenths % 10, line()));
        }
    }

    fn happen(&mut self, doing: Doing) {
        self.say(|| format!("{doing:?}"));
        match doing {
            Doing::Says(fact) => {
                if self.tree.client_lives() {
                    self.tell(&RunEvent::Stream(fact));
                }
            }
            Doing::Speaks => self.tell(&RunEvent::Output),
            Doing::Names(text) => self.tell(&RunEvent::ErrorText(text)),
            Doing::Starts { kind, key } => self.tree.start(kind, key, &mut self.random),
            Doing::Works { key, permille } => self.tree.work(key, permille),
            Doing::Ends { key } => self.tree.end_of(key),
            Doing::Closes => {
                if !self.checks.is_eof() {
                    self.tell(&RunEvent::Eof);
                }
            }
            Doing::Exits(status) => self.exits(status),
            Doing::Dies(pid) => self.tree.die(pid),
            Doing::Forwarded(signal) => self.tell(&RunEvent::Forwarded { signal }),
        }
    }

    fn exits(&mut self, status: ExitStatus) {
        if self.exit.is_none() && self.tree.client_lives() {
            self.exit = Some(status);
            self.tree.end_client();
            self.plan.clear_client();
            if !self.checks.is_eof() {
                self.tell(&RunEvent::Eof);
            }
            self.tell(&RunEvent::Exited(status));
        }
    }

    fn tell(&mut self, event: &RunEvent) {
        if self.run.exit().is_some() {
            return;
        }
        self.checks.before(event, &self.run, self.now_ms);
        let acts = self.run.step(event, moment(self.now_ms));
        self.checks.after(event, &self.run);
        self.perform(acts);
    }

    fn perform(&mut self, acts: Vec<RunAct>) {
        let mut acts: VecDeque<RunAct> = acts.into();
        while let Some(act) = acts.pop_front() {
            let answer = match act {
                RunAct::Look => Some(RunEvent::TreeSeen(self.tree.look())),
                RunAct::Record { reason, quarantine } => {
                    self.say(|| format!("record {}", reason.word()));
                    self.checks.decided(reason, quarantine.is_some(), &self.tree, self.now_ms);
                    Some(self.write_down())
                }
                RunAct::End(signal) => {
                    self.end(signal);
                    None
                }
                RunAct::Note(note) => {
                    self.say(|| format!("{}: {}", note.name, note.because));
                    None
                }
                RunAct::GiveUp => None,
            };
            if let Some(answer) = answer {
                self.checks.before(&answer, &self.run, self.now_ms);
                acts.extend(self.run.step(&answer, moment(self.now_ms)));
                self.checks.after(&answer, &self.run);
            }
        }
    }

    /// A record takes time, and what is said meanwhile may be heard before its answer.
    fn write_down(&mut self) -> RunEvent {
        if self.random.chance(self.faults.slow) {
            let end_ms = self.now_ms + self.random.range(1..8_000);
            while let Some(ms) = self.plan.next_ms().filter(|ms| *ms <= end_ms) {
                self.pass_to(ms.max(self.now_ms));
                let said = self.plan.take(self.now_ms);
                match said {
                    Some(Doing::Says(fact)) => self.hear(fact),
                    Some(Doing::Exits(_)) | None => break,
                    Some(other) => self.happen_aside(other),
                }
            }
            self.pass_to(end_ms.max(self.now_ms));
        }
        let is_refused = self.random.chance(self.faults.refused);
        if is_refused { RunEvent::NotRecorded } else { RunEvent::Recorded }
    }

    fn hear(&mut self, fact: StreamFact) {
        let event = RunEvent::Stream(fact);
        self.checks.before(&event, &self.run, self.now_ms);
        let acts = self.run.step(&event, moment(self.now_ms));
        self.checks.after(&event, &self.run);
        if acts.iter().any(|act| matches!(act, RunAct::Record { .. } | RunAct::End(_))) {
            self.checks.fail("S3-23", "a word behind a decision decides another one");
        }
    }

    /// What happens to processes while nobody listens.
    fn happen_aside(&mut self, doing: Doing) {
        match doing {
            Doing::Starts { kind, key } => self.tree.start(kind, key, &mut self.random),
            Doing::Works { key, permille } => self.tree.work(key, permille),
            Doing::Ends { key } => self.tree.end_of(key),
            Doing::Dies(pid) => self.tree.die(pid),
            // It is heard later.
            other @ (Doing::Says(_)
            | Doing::Speaks
            | Doing::Names(_)
            | Doing::Closes
            | Doing::Exits(_)
            | Doing::Forwarded(_)) => self.plan.add(self.now_ms + 10_000, other),
        }
    }

    fn end(&mut self, signal: Signal) {
        self.say(|| format!("{signal:?} to its tree"));
        self.checks.signalled(&self.tree, self.now_ms);
        for (pid, ms) in self.tree.signal(signal, &mut self.random) {
            self.plan.add(self.now_ms + ms, Doing::Dies(pid));
        }
        if let Some((status, ms)) = self.tree.client_answers(signal, &mut self.random) {
            self.plan.clear_client();
            self.plan.add(self.now_ms + ms, Doing::Exits(status));
        }
    }

    /// What is left of the tree, as the supervisor ends it.
    fn end_tree(&mut self) {
        let now = moment(self.now_ms).awake;
        let grace_ms = RunLimits::default().kill_grace_ms;
        let mut teardown = if self.tree.is_signalled() {
            Teardown::after_signal(grace_ms, Signal::Term, now)
        } else {
            Teardown::after_exit(grace_ms, now)
        };
        for _ in 0..1_000 {
            match teardown.next(self.tree.left(), moment(self.now_ms).awake) {
                TeardownStep::Done | TeardownStep::GiveUp => return,
                TeardownStep::Wait(at) => {
                    self.pass_to(at.0.div_ceil(1_000_000).max(self.now_ms + 1));
                    while let Some(doing) = self.plan.take(self.now_ms) {
                        self.happen_aside_of_the_end(&doing);
                    }
                }
                TeardownStep::Send(signal) => {
                    self.say(|| format!("{signal:?} to what is left"));
                    for (pid, ms) in self.tree.signal(signal, &mut self.random) {
                        self.plan.add(self.now_ms + ms, Doing::Dies(pid));
                    }
                }
            }
        }
    }

    fn happen_aside_of_the_end(&mut self, doing: &Doing) {
        if let Doing::Dies(pid) = doing {
            self.tree.die(*pid);
        }
    }
}

fn moment(ms: u64) -> Moment {
    Moment { awake: Awake::default().plus_ms(ms), wall_ms: ms }
}

/// The lives that belong to a seed of the simulation.
pub(crate) struct Lives {
    pub(crate) wrong: Option<Violation>,
    pub(crate) ended: BTreeMap<&'static str, u64>,
    pub(crate) lines: Vec<String>,
}

/// Lives for each seed of the simulation: they cost little.
const LIVES: u64 = 8;

/// Lives them all, to the first that goes wrong.
pub(crate) fn of_seed(seed: u64, is_told: bool) -> Lives {
    let mut lives = Lives { wrong: None, ended: BTreeMap::new(), lines: Vec::new() };
    for n in 0..LIVES {
        let one = RunLife::new(seed.wrapping_mul(LIVES).wrapping_add(n), is_told).live();
        let how = one.reason.map_or("none", ExitReason::word);
        *lives.ended.entry(how).or_default() += 1;
        lives.lines.extend(one.lines);
        lives.wrong = one.wrong;
        if lives.wrong.is_some() {
            break;
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;

    // G4, S3-02, S3-06, S3-08, S3-21, S3-22, S3-23, H-09, H-20, H-32: whole lives, and no seed does wrong.
    #[test]
    fn no_life_of_a_run_goes_wrong_and_every_end_of_one_occurs() {
        let mut reasons = std::collections::BTreeSet::new();
        for seed in 0..4_000 {
            let one = RunLife::new(seed, false).live();
            if let Some(wrong) = one.wrong {
                let lines = RunLife::new(seed, true).live().lines;
                panic!("seed {seed}: {wrong}\n{}", lines.join("\n"));
            }
            reasons.extend(one.reason);
        }
        let all = ExitReason::ALL.into_iter().filter(|reason| *reason != ExitReason::NotStarted);
        let missing: Vec<_> = all.filter(|reason| !reasons.contains(reason)).collect();
        assert_eq!(missing, [], "the lives are too tame");
    }

    #[test]
    fn a_seed_decides_everything() {
        let lines = || RunLife::new(7, true).live().lines;
        assert!(lines().len() > 3);
        assert_eq!(lines(), lines());
    }
}

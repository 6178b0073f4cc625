//! Headless runs of a scenario: the real `coord_core::Run` and readers of `coord_run`, with a supervisor
//! as `coord run` has it, over the processes that the scenario names. Decides nothing about runs.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, bail};
use coord_core::{
    Ended, ExitStatus, Judged, Role, Run, RunAct, RunEvent, RunLimits, RunRoot, TreeProcess, judge,
    kill_set, tree_seen,
};
use coord_model::{Awake, Moment, Now, ProcessRef, Signal};
use coord_run::standard_error::StandardError;
use coord_run::stream::facts_of;
use serde_json::{Value, json};

use crate::scenario::{Begin, InTree, RunDoing};

/// All supervisors of a scenario have this pid and live in this session.
const SUPERVISOR: u32 = 80;
const SESSION: u32 = 79;
/// What is not a run's own process started later than all of them.
const STARTED: u64 = 1_000;

/// The runs there are, by name.
#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<String, Supervised>,
    /// Nothing can be put on the disk.
    pub(super) is_disk_broken: bool,
}

struct Supervised {
    run: Run,
    root: RunRoot,
    begin: (coord_core::Provider, bool),
    tree: Vec<Member>,
    proved: Vec<ProcessRef>,
    errors: StandardError,
    stdout_bytes: u64,
    ended: Option<(ExitStatus, Judged)>,
}

struct Member {
    is: TreeProcess,
    /// Hundredths of a core, and since when.
    cpu: u64,
    since_ns: u64,
}

impl Member {
    fn at(&self, now_ns: u64) -> TreeProcess {
        let used_ms = now_ns.saturating_sub(self.since_ns) / 1_000_000 * self.cpu / 100;
        TreeProcess { cpu_ms: self.is.cpu_ms.map(|before| before + used_ms), ..self.is }
    }
}

impl Runs {
    pub(super) fn begin(
        &mut self,
        begin: &Begin,
        limits: RunLimits,
        now: Now,
    ) -> Result<Vec<Value>> {
        if self.runs.contains_key(&begin.run) {
            bail!("run: there is a run {:?} already", begin.run);
        }
        let child = ProcessRef { pid: begin.pid, start_time: STARTED };
        let (supervisor, session) = (SUPERVISOR, SESSION);
        let root = RunRoot { supervisor, child, session, ends_daemons: begin.ends_daemons };
        let (run, acts) = Run::begin(limits, moment(now));
        let mut one = Supervised {
            run,
            root,
            begin: (begin.provider, begin.is_resume),
            tree: Vec::new(),
            proved: Vec::new(),
            errors: StandardError::new(Vec::new(), None),
            stdout_bytes: 0,
            ended: None,
        };
        one.set_tree(&[], now);
        let mut effects = Vec::new();
        one.perform(acts, now, self.is_disk_broken, &mut effects);
        self.runs.insert(begin.run.clone(), one);
        Ok(named(&begin.run, effects))
    }

    pub(super) fn happen(&mut self, run: &str, what: &RunDoing, now: Now) -> Result<Vec<Value>> {
        let is_broken = self.is_disk_broken;
        let one = self.runs.get_mut(run).with_context(|| format!("there is no run {run:?}"))?;
        let mut effects = Vec::new();
        let mut tell =
            |one: &mut Supervised, event: RunEvent| one.take(&event, now, is_broken, &mut effects);
        match what {
            RunDoing::Line(line) => {
                one.stdout_bytes += line.len() as u64 + 1;
                let facts = facts_of(line);
                if facts.is_empty() {
                    tell(one, RunEvent::Output);
                }
                facts.into_iter().for_each(|fact| tell(one, RunEvent::Stream(fact)));
            }
            RunDoing::Complains(text) => {
                for text in one.errors.take(text.as_bytes()) {
                    tell(one, RunEvent::ErrorText(text));
                }
            }
            RunDoing::Eof => tell(one, RunEvent::Eof),
            RunDoing::Tree(tree) => one.set_tree(tree, now),
            RunDoing::Forwarded(signal) => tell(one, RunEvent::Forwarded { signal: *signal }),
        }
        Ok(named(run, effects))
    }

    /// Ends the process of a run, or one of its tree; none if it is nobody's here.
    pub(super) fn exit(&mut self, pid: u32, status: ExitStatus, now: Now) -> Option<Vec<Value>> {
        let is_broken = self.is_disk_broken;
        let of = |one: &Supervised| one.tree.iter().any(|is| is.is.process.pid == pid);
        let (name, one) = self.runs.iter_mut().find(|(_, one)| of(one))?;
        let mut effects = Vec::new();
        one.tree.retain(|is| is.is.process.pid != pid);
        for orphan in one.tree.iter_mut().filter(|is| is.is.parent == pid) {
            orphan.is.parent = SUPERVISOR;
        }
        if one.root.child.pid == pid {
            one.take(&RunEvent::Exited(status), now, is_broken, &mut effects);
            one.judge();
        }
        Some(named(name, effects))
    }

    /// The machine slept or its clock was set.
    pub(super) fn gap(&mut self, now: Now) -> Vec<Value> {
        self.each(now, &RunEvent::Gap)
    }

    /// When a supervisor wants to be woken, on CLOCK_MONOTONIC.
    pub(super) fn wake_at(&self) -> Option<u64> {
        let of = |one: &Supervised| one.run.next_deadline().map(|at| at.0);
        self.runs.values().filter_map(of).min()
    }

    /// Wakes those that want to be.
    pub(super) fn wake(&mut self, now: Now) -> Vec<Value> {
        self.each(now, &RunEvent::Tick)
    }

    fn each(&mut self, now: Now, event: &RunEvent) -> Vec<Value> {
        let is_broken = self.is_disk_broken;
        let mut all = Vec::new();
        for (name, one) in &mut self.runs {
            let is_due = one.run.next_deadline().is_some_and(|at| at.0 <= now.mono_ns);
            if *event != RunEvent::Tick || is_due {
                let mut effects = Vec::new();
                one.take(event, now, is_broken, &mut effects);
                all.extend(named(name, effects));
            }
        }
        all
    }

    /// The machine went down: nobody supervises anything any more.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    /// What is expected of a run, as an object.
    pub(super) fn inspect(&self, run: &str, now: Now) -> Option<Value> {
        Some(self.runs.get(run)?.inspect(now))
    }
}

fn named(run: &str, mut effects: Vec<Value>) -> Vec<Value> {
    for effect in &mut effects {
        if let Some(effect) = effect.as_object_mut() {
            effect.insert("run".to_owned(), json!(run));
        }
    }
    effects
}

fn moment(now: Now) -> Moment {
    Moment { awake: Awake(now.mono_ns), wall_ms: now.wall_ms }
}

impl Supervised {
    /// The client, and what was said to live beside it.
    fn set_tree(&mut self, tree: &[InTree], now: Now) {
        let child = self.root.child;
        let before: BTreeMap<u32, Option<u64>> = (self.tree.iter())
            .map(|one| (one.is.process.pid, one.at(now.mono_ns).cpu_ms))
            .collect();
        let client = InTree {
            pid: child.pid,
            parent: Some(SUPERVISOR),
            group: Some(child.pid),
            session: Some(SESSION),
            role: Role::Harness,
            holds_output: true,
            cpu: Some(1),
        };
        let own = tree.iter().find(|one| one.pid == child.pid).map(|one| one.cpu);
        let client = InTree { cpu: own.unwrap_or(client.cpu), ..client };
        let others = tree.iter().filter(|one| one.pid != child.pid);
        let member = |one: &InTree| Member {
            is: TreeProcess {
                process: ProcessRef {
                    pid: one.pid,
                    start_time: STARTED + u64::from(one.pid != child.pid),
                },
                parent: one.parent.unwrap_or(child.pid),
                group: one.group.unwrap_or(one.pid),
                session: one.session.unwrap_or(one.pid),
                role: one.role,
                holds_output: one.holds_output,
                cpu_ms: one.cpu.and(Some(before.get(&one.pid).copied().flatten().unwrap_or(0))),
            },
            cpu: one.cpu.unwrap_or(0),
            since_ns: now.mono_ns,
        };
        self.tree = [&client].into_iter().chain(others).map(member).collect();
    }

    fn table(&self, now: Now) -> Vec<TreeProcess> {
        self.tree.iter().map(|one| one.at(now.mono_ns)).collect()
    }

    fn take(&mut self, event: &RunEvent, now: Now, is_broken: bool, effects: &mut Vec<Value>) {
        let acts = self.run.step(event, moment(now));
        self.perform(acts, now, is_broken, effects);
    }

    fn perform(&mut self, acts: Vec<RunAct>, now: Now, is_broken: bool, effects: &mut Vec<Value>) {
        let mut acts: VecDeque<RunAct> = acts.into();
        while let Some(act) = acts.pop_front() {
            let answer = match act {
                RunAct::Look => Some(RunEvent::TreeSeen(tree_seen(&self.root, &self.table(now)))),
                RunAct::Record { reason, quarantine } => {
                    let (reason, is_kept) = (reason.word(), !is_broken);
                    effects.push(json!({"kind": "record", "reason": reason, "quarantine": quarantine, "kept": is_kept}));
                    Some(if is_broken { RunEvent::NotRecorded } else { RunEvent::Recorded })
                }
                RunAct::End(signal) => {
                    self.proved = kill_set(&self.root, &self.proved, &self.table(now)).ends;
                    let pids: Vec<u32> = self.proved.iter().map(|one| one.pid).collect();
                    let signal = match signal {
                        Signal::Term => "TERM",
                        Signal::Kill => "KILL",
                    };
                    effects.push(json!({"kind": "signal", "signal": signal, "pids": pids}));
                    None
                }
                RunAct::Note(note) => {
                    let (name, warning, text) = (note.name, note.is_warning, note.because);
                    effects.push(
                        json!({"kind": "note", "name": name, "warning": warning, "text": text}),
                    );
                    None
                }
                RunAct::GiveUp => {
                    self.judge();
                    None
                }
            };
            if let Some(answer) = answer {
                acts.extend(self.run.step(&answer, moment(now)));
            }
        }
    }

    fn judge(&mut self) {
        let Some(exit) = self.run.exit() else { return };
        let (provider, is_resume) = self.begin;
        let errors = std::mem::replace(&mut self.errors, StandardError::new(Vec::new(), None));
        let (stdout_bytes, complaint) = (self.stdout_bytes, errors.end().complaint);
        let ended =
            Ended { exit, provider, is_resume, stdout_bytes, complaint, is_limit_line: false };
        self.ended.get_or_insert_with(|| (exit.0, judge(&self.run, &ended)));
    }

    fn inspect(&self, now: Now) -> Value {
        let hold = self.run.hold().map(|hold| {
            let remaining = hold.remaining_ms(moment(now).awake).div_ceil(1_000);
            json!({"reason": hold.reason, "remaining": remaining})
        });
        let set = kill_set(&self.root, &self.proved, &self.table(now));
        let spared: Vec<u32> = set.spares.iter().map(|one| one.pid).collect();
        let tasks = self.run.tasks();
        json!({
            "state": self.run.state().0.word(),
            "hold": hold,
            "session_id": self.run.session_id(),
            "results": self.run.results(),
            "background": tasks.shells + tasks.others + tasks.subagents,
            "spared": spared,
            "exit_reason": self.run.exit().map(|(_, reason)| reason.word()),
            "status": self.ended.as_ref().map(|(status, _)| status.words()),
            "outcome": self.ended.as_ref().map(|(_, judged)| judged.outcome.word()),
        })
    }
}

//! What follows from the coordinator's acts: clients take a signal, lines are run and become clients, or
//! not. And whoever happens to do something just then.

use coord_core::{Stage, Way};
use coord_daemon::http::{Request, Response};
use coord_host::process::Caller;
use coord_model::{Farewell, Kind, ProcessRef, Screen, SessionKey, Signal};
use coord_wire::api::ResumeOrder;
use serde_json::json;

use crate::act_checks::Case;
use crate::checks::Violation;
use crate::client::{Client, End, Move, Plan};
use crate::forger_checks::check_order;
use crate::host_events::SOCKET;
use crate::machine::Happening;
use crate::places::{Parent, Place};
use crate::serving::Serving;
use crate::simulation::{MS, SECOND, Simulation, WORK_END, What};

/// `resume-exec` waits so long for an answer.
const PATIENCE: u64 = 10 * SECOND;

/// A line of the coordinator's that was run.
#[derive(Debug, Clone)]
pub(crate) struct Taker {
    pub(crate) place: usize,
    pub(crate) nonce: String,
    /// It has asked, and that the session was ended by its user was known by then.
    pub(crate) has_asked: bool,
    pub(crate) known_end: Option<String>,
}

/// A request of `resume-exec`.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) process: ProcessRef,
    pub(crate) parent: u32,
    pub(crate) nonce: String,
    /// It gives up, and says why.
    pub(crate) failed: Option<&'static str>,
}

/// How a resume goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    Up,
    Slowly,
    /// And dies soon.
    Short,
    /// It ends before it reports.
    Fails,
    /// There is no such conversation.
    NoSession,
    OtherId,
    Trust,
    Silent,
}

impl Simulation {
    /// What the acts of a turn set going.
    pub(crate) fn on_happenings(&mut self, happenings: Vec<Happening>) -> Result<(), Violation> {
        for happening in happenings {
            self.note(|| format!("  ACT {happening:?}"));
            match happening {
                Happening::Signalled { process, signal } => {
                    self.check_signal(process)?;
                    self.on_signal(process, signal);
                }
                Happening::Placed { way, pane, line, nonce, process } => {
                    self.meter.tried += 1;
                    let place = self.place_of(way, &pane, process);
                    self.check_placed(way, place, &nonce)?;
                    self.on_placed(place, line, nonce, process)?;
                }
                Happening::Told { pane, .. } => {
                    let place = self.places.iter().position(|one| one.pane == pane);
                    if let Some(place) = place.filter(|_| self.random.chance(0.3)) {
                        let after = self.random.below(12 * SECOND);
                        self.at(after, What::Presses(place));
                    }
                }
                Happening::Written { .. } | Happening::Removed { .. } => (),
            }
        }
        Ok(())
    }

    /// The place with that pane; a new window is a new place.
    fn place_of(&mut self, way: Way, pane: &str, process: Option<ProcessRef>) -> usize {
        let found = self.places.iter().position(|one| one.pane == pane);
        if let (Some(found), Way::Shell | Way::Pane) = (found, way) {
            return found;
        }
        let tty = process
            .and_then(|process| self.machine.get().processes.get(&process.pid).map(|one| one.tty));
        self.forget_pane(pane);
        let mut place = Place::new(0);
        place.tty = tty.unwrap_or(0);
        pane.clone_into(&mut place.pane);
        place.parent = Parent::Tmux;
        place.is_window = true;
        place.is_scripted = true;
        self.places.push(place);
        self.places.len() - 1
    }

    fn on_placed(
        &mut self,
        place: usize,
        line: String,
        nonce: String,
        process: Option<ProcessRef>,
    ) -> Result<(), Violation> {
        let Some(one) = self.places.get_mut(place) else { return Ok(()) };
        one.nonce = Some(nonce.clone());
        let Some(process) = process else {
            // Killed between text and Enter.
            one.typed = line;
            self.machine.get().has_enter = true;
            return self.kill_coordinator(None);
        };
        self.takes_line(place, process, nonce);
        Ok(())
    }

    fn takes_line(&mut self, place: usize, process: ProcessRef, nonce: String) {
        if let Some(one) = self.places.get_mut(place) {
            one.taker = Some(process);
        }
        // The line stands below whatever stood there last.
        self.with_pane(place, |pane| {
            if let Some(Farewell::Last(session)) = pane.shown.farewell.take() {
                pane.shown.farewell = Some(Farewell::Above { session });
            }
        });
        let taker = Taker { place, nonce, has_asked: false, known_end: None };
        self.takers.insert(process, taker);
        let after = match self.random.below(20) {
            0 => self.random.range(SECOND..80 * SECOND),
            1 => return self.at(20 * MS, What::TakerEnds(process)),
            _ => self.random.range(20 * MS..100 * MS),
        };
        self.at(after, What::Claims(process));
    }

    /// Somebody runs the line again that resumed the session of this shell.
    pub(crate) fn rerun_line(&mut self, place: usize) {
        let Some(nonce) = self.places.get(place).and_then(|one| one.nonce.clone()) else { return };
        if !self.random.chance(0.1) || !self.has_shell(place) {
            return;
        }
        let Some(shell) = self.with_pane(place, |pane| pane.pid) else { return };
        self.press(place);
        let pid = self.free_pid();
        let tty = self.places.get(place).map_or(0, |one| one.tty);
        let process = self.machine.get().spawn(pid, Kind::Interactive, tty);
        if let Some(one) = self.machine.get().processes.get_mut(&pid) {
            one.parent = shell;
        }
        self.takes_line(place, process, nonce);
    }

    /// A line that was run asks for its session.
    pub(crate) fn claims(&mut self, process: ProcessRef) {
        let parent = self.machine.get().processes.get(&process.pid).map(|one| one.parent);
        let (Some(taker), Some(parent)) = (self.takers.get_mut(&process), parent) else { return };
        let nonce = taker.nonce.clone();
        taker.has_asked = true;
        if self.serving.is_none() {
            return self.at(10 * MS, What::TakerEnds(process));
        }
        self.claims.push(Claim { process, parent, nonce, failed: None });
        self.at(PATIENCE, What::LosesPatience(process));
    }

    /// `resume-exec` was not answered.
    pub(crate) fn loses_patience(&mut self, process: ProcessRef) {
        if self.takers.contains_key(&process) {
            self.taker_ends(process);
        }
    }

    /// It ends without having become a client.
    pub(crate) fn taker_ends(&mut self, process: ProcessRef) {
        let Some(taker) = self.takers.remove(&process) else { return };
        self.note(|| format!("pid {} gives up", process.pid));
        self.machine.get().end(process);
        if let Some(one) = self.places.get_mut(taker.place) {
            one.taker = None;
        }
        let after = self.random.range(30..600) * SECOND;
        self.at(after, What::Starts(taker.place));
    }

    /// Whoever waits for an answer of the coordinator gets none.
    pub(crate) fn hang_up(&mut self) {
        self.claims.clear();
        self.hang_up_hooks();
        self.hang_up_requests();
        let asking: Vec<ProcessRef> =
            self.takers.iter().filter(|(_, one)| one.has_asked).map(|(of, _)| *of).collect();
        for process in asking {
            self.at(10 * MS, What::TakerEnds(process));
        }
    }

    /// The requests of lines that were run, in a turn.
    pub(crate) fn put_claims(&mut self, serving: &mut Serving) {
        for claim in std::mem::take(&mut self.claims) {
            let Claim { process, parent, nonce, failed } = claim;
            if let Some(why) = failed {
                let body = json!({ "why": why });
                let path = format!("/v1/resume/{nonce}/failed");
                let caller = Caller { pid: process.pid, parent: Some(parent) };
                drop(serving.route(&post(path, &body), caller));
                continue;
            }
            let known_end = self.known_end(serving, &nonce);
            if let Some(taker) = self.takers.get_mut(&process) {
                taker.known_end = known_end;
            }
            serving.claim(process, parent, &nonce);
        }
    }

    /// The answers to them.
    pub(crate) fn on_answers(
        &mut self,
        answers: Vec<(ProcessRef, Response)>,
    ) -> Result<(), Violation> {
        for (process, response) in answers {
            let Some(taker) = self.takers.get(&process).cloned() else { continue };
            let status = response.status;
            self.note(|| format!("  pid {} is answered {status}", process.pid));
            let order = serde_json::from_slice::<ResumeOrder>(&response.body).ok();
            let Some(order) = order.filter(|_| status == 200) else {
                self.at(10 * MS, What::TakerEnds(process));
                continue;
            };
            self.check_granted(process, &taker, &order)?;
            let after = self.random.range(2 * MS..30 * MS);
            self.at(after, What::Becomes(process, Box::new(order)));
        }
        Ok(())
    }

    /// `resume-exec` looks once more, and becomes the client.
    pub(crate) fn becomes_client(
        &mut self,
        process: ProcessRef,
        order: &ResumeOrder,
    ) -> Result<(), Violation> {
        let Some(taker) = self.takers.get(&process).cloned() else { return Ok(()) };
        let is_free =
            self.machine.get().holders(&order.session_id, &order.config_dir_in_use).is_empty();
        let has_cwd = !self.machine.get().gone.contains(&order.cwd.path);
        if !(is_free && has_cwd) {
            let parent = self.machine.get().processes.get(&process.pid).map(|one| one.parent);
            let failed = Some(if is_free { "its directory is gone" } else { "it is open" });
            let (nonce, parent) = (taker.nonce.clone(), parent.unwrap_or(1));
            if self.serving.is_some() {
                self.claims.push(Claim { process, parent, nonce, failed });
            }
            self.at(10 * MS, What::TakerEnds(process));
            return Ok(());
        }
        self.takers.remove(&process);
        self.check_started(&taker.nonce, order)?;
        check_order(order)?;
        self.machine.get().exec(process, order);
        self.life += 1;
        let mut client = Client::new(self.life, order.session_id.clone(), true);
        client.window.clone_from(&self.habits.window);
        client.mode = self.mode_in(&order.argv, &order.session_id);
        let comes = self.comes();
        let plan = self.plan_of(comes, &mut client);
        if let Some(one) = self.places.get_mut(taker.place) {
            order.cwd.path.clone_into(&mut one.cwd);
        }
        self.move_in(taker.place, process, client, true);
        self.note(|| format!("  it comes up: {comes:?}"));
        self.follow(taker.place, plan);
        let is_up = matches!(comes, Comes::Up | Comes::Slowly);
        if is_up && self.time < WORK_END && self.random.chance(self.habits.again) {
            let after = self.random.range(SECOND..150 * SECOND);
            self.at(after, What::Crashes(taker.place));
        }
        Ok(())
    }

    fn comes(&mut self) -> Comes {
        if !self.random.chance(self.habits.odd_resumes) {
            return Comes::Up;
        }
        let all = [
            Comes::Slowly,
            Comes::Short,
            Comes::Short,
            Comes::Fails,
            Comes::Fails,
            Comes::NoSession,
            Comes::OtherId,
            Comes::Trust,
            Comes::Silent,
        ];
        self.random.pick(&all).copied().unwrap_or(Comes::Up)
    }

    fn plan_of(&mut self, comes: Comes, client: &mut Client) -> Plan {
        if comes == Comes::OtherId {
            client.session_id = format!("session-{}", self.life);
            client.transcript = crate::client::transcript_of(&client.session_id);
        }
        let source = if comes == Comes::OtherId { "startup" } else { "resume" };
        let start = client.start(source, &mut self.random);
        let later =
            |ms: u64| -> Plan { start.iter().map(|(at, one)| (at + ms, one.clone())).collect() };
        let end = Move::Dies(End::Other);
        match comes {
            Comes::Up | Comes::OtherId => start,
            Comes::Slowly => later(self.random.range(61_000..240_000)),
            Comes::Short => {
                let ms = self.random.range(700..8_000);
                let mut plan: Plan = start.into_iter().filter(|(at, _)| *at < ms).collect();
                plan.retain(|(_, one)| *one != Move::NextPlan);
                plan.push((ms, Move::Dies(End::Kill)));
                plan
            }
            Comes::Fails => vec![(400, end)],
            Comes::NoSession => {
                let end_of = json!({"session_id": client.session_id, "hook_event_name": "SessionEnd", "reason": "other", "transcript_path": client.transcript, "cwd": "/home/dev/project"});
                vec![(400, Move::Fires(end_of)), (500, end)]
            }
            Comes::Trust => {
                let ms = self.random.range(2_000..300_000);
                let mut plan = if self.random.coin() { later(ms) } else { vec![(ms, end)] };
                plan.insert(0, (300, Move::Paints(Screen::Trust)));
                plan
            }
            Comes::Silent => vec![(self.random.range(100_000..1_200_000), end)],
        }
    }

    /// A client is sent a signal.
    fn on_signal(&mut self, process: ProcessRef, signal: Signal) {
        let is_it = |one: &Place| one.client.as_ref().is_some_and(|it| it.process == process);
        let Some(place) = self.places.iter().position(is_it) else { return };
        let boot = self.boot();
        if let Some(life) = self.lives.get_mut(&(boot, process)) {
            life.is_signalled = true;
        }
        self.meter.signals += 1;
        if signal == Signal::Kill {
            return self.dies(place, End::Kill);
        }
        if self.hung_at(process).is_some() || self.random.chance(self.habits.ignore_term) {
            return;
        }
        self.drop_plan(place);
        let mut plan = vec![(300, Move::TakesLeave), (600, Move::Dies(End::Other))];
        if !self.random.chance(0.1) {
            plan.insert(0, (300, Move::Fires(self.end_payload(place))));
        }
        self.follow(place, plan);
    }

    /// The steps of recoveries that a turn made: who is about to meddle does.
    pub(crate) fn watch_steps(&mut self, serving: &Serving) {
        let state = serving.coordinator().state();
        let mut steps: Vec<(SessionKey, u64, String, bool)> = Vec::new();
        for session in state.sessions() {
            let Some(pending) = &session.recovery.pending else { continue };
            let (step, is_act) = match &pending.stage {
                Stage::Waiting { .. } => (0, false),
                Stage::Grace { .. } => {
                    let began = pending.graced_at.map(|at| at.awake);
                    let seen = self.acts.graced.get(&session.key);
                    if seen.is_none_or(|(_, of)| *of != began) {
                        self.acts.graced.insert(session.key, (self.time, began));
                    }
                    (1, false)
                }
                Stage::Proving { number, .. } => (2 + (number << 8), false),
                Stage::Ending { number, .. } => {
                    let process = pending.harness;
                    self.acts.endings.insert(process, Case::of(session, pending));
                    (3 + (number << 8), true)
                }
                Stage::Placing { number, nonce, .. } => {
                    self.acts.cases.insert(nonce.clone(), Case::of(session, pending));
                    (4 + (number << 8), true)
                }
                Stage::Claimed { .. } => (5, true),
                Stage::Started { is_sole, .. } => (6 + u64::from(*is_sole), true),
            };
            steps.push((session.key, step, session.session_id.clone(), is_act));
        }
        for (key, step, session_id, is_act) in steps {
            if self.acts.steps.insert(key, step) != Some(step) {
                self.meddle(&session_id, is_act, step & 0xff == 4);
            }
        }
        let has_pending = |key: &SessionKey| {
            state.session(*key).is_some_and(|one| one.recovery.pending.is_some())
        };
        self.acts.forget_closed(self.time, has_pending);
    }

    /// Somebody does something at this very moment, or the coordinator is killed.
    fn meddle(&mut self, session_id: &str, is_act: bool, is_placed: bool) {
        if WORK_END <= self.time {
            return;
        }
        let is_its = |one: &Place| one.last_session.as_deref() == Some(session_id);
        if let Some(place) = self.places.iter().position(is_its)
            && self.random.chance(self.habits.meddling)
        {
            let within = if self.random.coin() { 70 } else { 5_000 };
            let after = self.random.below(within) * MS;
            let what = match self.random.below(8) {
                0 => What::Starts(place),
                1 => What::Starts(self.random.index(self.places.len())),
                2 if is_act => What::Crashes(place),
                _ => What::Meddles(place),
            };
            self.at(after, what);
        }
        if self.has_faults() && self.random.chance(self.habits.step_kills) {
            let after = self.random.below(if is_act { 200 } else { 70 }) * MS;
            if is_placed && self.random.chance(0.2) {
                self.machine.get().has_enter = false;
            } else {
                self.at(after, What::Kills);
            }
        }
    }

    /// After a restart of the machine nothing of it is left.
    pub(crate) fn forget_takers(&mut self) {
        self.takers.clear();
        self.claims.clear();
        self.machine.get().has_enter = true;
        for one in &mut self.places {
            one.taker = None;
            one.editor = None;
            one.has_draft = false;
        }
    }

    /// Processes in the panes of a server that dies go with it.
    pub(crate) fn close_terminals(&mut self) {
        let takers: Vec<ProcessRef> = self.takers.keys().copied().collect();
        for process in takers {
            self.taker_ends(process);
        }
        debug_assert!(!self.machine.get().tmux.contains_key(SOCKET));
    }
}

fn post(path: String, body: &serde_json::Value) -> Request {
    Request {
        method: "POST".to_owned(),
        path,
        query: Vec::new(),
        body: body.to_string().into_bytes(),
        keep_alive: false,
    }
}

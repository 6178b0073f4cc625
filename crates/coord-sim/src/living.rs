//! The lives of clients: they are started, do what they planned, and end.

use std::collections::BTreeSet;

use coord_model::{Farewell, Kind, ProcessRef, Screen};

use crate::client::{Client, End, Move, Plan, Truth};
use crate::host_events::SOCKET;
use crate::messages::{Context, Unwritten};
use crate::meter::Judged;
use crate::people::SIGNATURE;
use crate::places::{Parent, Place};
use crate::requests::Asking;
use crate::simulation::{MS, SECOND, Simulation, Time, WORK_END, What};
use crate::wakes::{BeforePlan, leaves_at_rest};

/// A living client.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) client: Client,
    /// Number of the life, or of what it follows since something else came of its plan.
    pub(crate) life: u64,
    pub(crate) process: ProcessRef,
    /// Its session's id at this moment: its plan is ahead of it.
    pub(crate) session_id: String,
    pub(crate) status: (&'static str, Option<&'static str>),
    pub(crate) truth: Truth,
    pub(crate) judged: Judged,
    /// Since when its state is shown as what cannot be, if it is.
    pub(crate) wrong_since: Option<Time>,
    /// Its entry is in the registry, or would be there if that were.
    pub(crate) is_registered: bool,
    /// Itself before its plan, as long as a wake would find it at rest.
    pub(crate) before_plan: BeforePlan,
    /// Calls of tools of its main thread that are under way, with their tools.
    pub(crate) tools: Vec<(String, String)>,
    /// What it is at nobody at its terminal asked for.
    pub(crate) is_woken: bool,
    /// It is one of Claude Code's own supervisor.
    pub(crate) is_foreign: bool,
    /// What stands in its conversation, in no request yet that was answered.
    pub(crate) contexts: Vec<Context>,
    /// What wake hooks brought while it was at something.
    pub(crate) held: Vec<String>,
    /// Lines of its transcript that it has not written yet.
    pub(crate) unwritten: Unwritten,
    /// Its permission prompt, while one is open.
    pub(crate) asking: Option<Asking>,
}

impl Running {
    /// What it wrote into its registry last, where that is no longer so: whoever hangs before its next
    /// word is known by that one.
    pub(crate) fn told(&self) -> Option<Truth> {
        match (self.truth, self.status.0) {
            (Truth::Running, "idle") => Some(Truth::Idle),
            (Truth::Running, "waiting") => Some(Truth::AwaitingPermission),
            (Truth::Running, "shell") => Some(Truth::Shell),
            _ => None,
        }
    }
}

/// A client's life as it really was.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each asked for by itself")]
pub(crate) struct Life {
    /// The conversation it had last.
    pub(crate) session_id: String,
    /// Those whose end by /clear or /resume it reported, and to which it did not come back.
    pub(crate) left: BTreeSet<String>,
    pub(crate) truth: Truth,
    pub(crate) is_interactive: bool,
    /// What started it, and whether its command line cannot be used again.
    pub(crate) parent: Parent,
    pub(crate) is_unfit: bool,
    /// Where it works.
    pub(crate) cwd: String,
    /// When it was started.
    pub(crate) started: Time,
    /// The coordinator's line started it.
    pub(crate) is_ours: bool,
    /// It had background work.
    pub(crate) had_background: bool,
    /// A turn of it met an error that is a state of its own.
    pub(crate) had_error: bool,
    /// Its last turn was interrupted, and its transcript does not show that.
    pub(crate) is_interrupt_hidden: bool,
    /// Its last turn was interrupted.
    pub(crate) is_interrupted: bool,
    /// Its user compacts its conversation, which opens no turn.
    pub(crate) is_compacting: bool,
    /// When the truth was last another one.
    pub(crate) since: Time,
    /// It fired its SessionEnd.
    pub(crate) is_ending: bool,
    /// Its SessionEnd was accepted, with this reason.
    pub(crate) end_told: Option<String>,
    /// The ids of its SessionEnds that are no change of conversation, with their reasons.
    pub(crate) ends: Vec<(u128, String)>,
    /// A hook of it was accepted, and as what.
    pub(crate) has_reported: bool,
    /// The coordinator sent it a signal.
    pub(crate) is_signalled: bool,
    /// A crash signature stood on its screen.
    pub(crate) has_signature: bool,
    /// Its last turn ended at a usage limit. Background work from before goes on.
    pub(crate) is_at_limit: bool,
    /// Its last turn ended at a usage limit, and the coordinator was told.
    pub(crate) is_limit_told: bool,
    /// Wakes for its quota since it waits, and the last one of all.
    pub(crate) probes: u32,
    pub(crate) probed_at: Option<Time>,
    /// A tool of it goes on until then.
    pub(crate) survivor_until: Time,
    /// Something happened that may have taken it along, near its end or after it.
    pub(crate) may_be_taken: bool,
    /// The registry entry that it left behind was taken away.
    pub(crate) lost_entry: bool,
}

/// How a client comes to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    New,
    /// `--resume ID`.
    Resume,
    /// `--continue`: its command line does not name the conversation.
    Continue,
}

impl Simulation {
    /// A place gets a new client, by its user or by what else starts them there.
    pub(crate) fn start_client(&mut self, place: usize) {
        if WORK_END <= self.time || self.places.get(place).is_none_or(|one| one.is_window) {
            return;
        }
        if !self.places.get(place).is_some_and(Place::is_free) {
            // Whoever is there now: its end makes room.
            return;
        }
        self.life += 1;
        let last = self.wanted_session(place);
        let way = match last {
            Some(_) if self.random.chance(0.2) => Way::Continue,
            Some(_) => Way::Resume,
            None => Way::New,
        };
        let session_id = last.unwrap_or(format!("session-{}", self.life));
        let is_interactive = self.places.get(place).is_some_and(|one| !one.is_headless);
        let pid = self.free_pid();
        let kind = if is_interactive { Kind::Interactive } else { Kind::Headless };
        let tty = self.places.get(place).map_or(0, |one| one.tty);
        let process = self.machine.get().spawn(pid, kind, if is_interactive { tty } else { 0 });
        if is_interactive {
            if self.places.get(place).is_some_and(|one| one.parent != Parent::Wrapper) {
                self.press(place);
            }
            self.launch(place, process);
            if let Some(one) = self.machine.get().processes.get_mut(&pid) {
                one.holds = (way == Way::Resume).then(|| session_id.clone());
            }
        }
        if self.random.chance(self.rates.unwatchable) {
            self.machine.get().unwatchable.insert(pid);
        }
        let mut client = Client::new(self.life, session_id, is_interactive);
        client.window.clone_from(&self.habits.window);
        client.mode = self.draw_mode(&client.session_id);
        let source = if way == Way::New { "startup" } else { "resume" };
        let plan = client.start(source, &mut self.random);
        self.move_in(place, process, client, false);
        self.follow(place, plan);
    }

    /// The conversation that its user wants to go on with.
    fn wanted_session(&mut self, place: usize) -> Option<String> {
        let from = if self.random.chance(self.habits.elsewhere) {
            self.random.index(self.places.len())
        } else {
            place
        };
        let last = self.places.get(from).and_then(|one| one.last_session.clone())?;
        let lives = |id: &str| {
            let clients = self.places.iter().filter_map(|one| one.client.as_ref());
            clients.into_iter().any(|one| one.session_id == id)
        };
        // Most people see that it is open already.
        let wish = if lives(&last) { 0.1 } else { 0.6 };
        self.random.chance(wish).then_some(last)
    }

    /// A process is a place's client from now on.
    pub(crate) fn move_in(
        &mut self,
        place: usize,
        process: ProcessRef,
        client: Client,
        is_ours: bool,
    ) {
        let Some(one) = self.places.get_mut(place) else { return };
        let (session_id, is_interactive) = (client.session_id.clone(), client.is_interactive);
        let (parent, is_unfit, cwd) = (one.parent, one.is_unfit, one.cwd.clone());
        one.taker = None;
        one.client = Some(Running {
            client,
            life: self.life,
            process,
            session_id: session_id.clone(),
            status: ("", None),
            truth: Truth::Started,
            judged: Judged::Unlisted,
            wrong_since: None,
            is_registered: false,
            before_plan: None,
            tools: Vec::new(),
            is_woken: false,
            is_foreign: parent == Parent::Supervisor && is_interactive,
            contexts: Vec::new(),
            held: Vec::new(),
            unwritten: Unwritten::new(),
            asking: None,
        });
        one.last_session = Some(session_id.clone());
        self.follows(place, &session_id);
        let life = Life {
            session_id: session_id.clone(),
            left: BTreeSet::new(),
            truth: Truth::Started,
            is_interactive,
            parent,
            is_unfit,
            cwd,
            started: self.time,
            is_ours,
            had_background: false,
            had_error: false,
            is_interrupt_hidden: false,
            is_interrupted: false,
            is_compacting: false,
            since: self.time,
            is_ending: false,
            end_told: None,
            ends: Vec::new(),
            has_reported: false,
            is_signalled: false,
            has_signature: false,
            is_at_limit: false,
            is_limit_told: false,
            probes: 0,
            probed_at: None,
            survivor_until: 0,
            may_be_taken: false,
            lost_entry: false,
        };
        self.lives.insert((self.boot(), process), life);
        let pid = process.pid;
        self.note(|| format!("place {place}: {session_id} starts as pid {pid}"));
    }

    /// Puts a plan into the queue.
    pub(crate) fn follow(&mut self, place: usize, plan: Plan) {
        let Some(life) =
            self.places.get(place).and_then(|one| one.client.as_ref()).map(|one| one.life)
        else {
            return;
        };
        for (ms, a_move) in plan {
            let jitter = self.random.below(MS);
            self.at(ms * MS + jitter, What::Moves(place, life, a_move));
        }
    }

    /// What a client planned is over: something else happens to it.
    pub(crate) fn drop_plan(&mut self, place: usize) {
        self.life += 1;
        let life = self.life;
        self.forget_moves(place);
        if let Some(one) = self.running(place) {
            one.life = life;
            one.before_plan = None;
        }
    }

    pub(crate) fn moves(&mut self, place: usize, a_move: Move) {
        self.note(|| format!("place {place}: {a_move:?}"));
        if let Some(one) = self.running(place).filter(|_| !leaves_at_rest(&a_move)) {
            one.before_plan = None;
        }
        match a_move {
            Move::Is(truth) => {
                let is_by_hand = self.places.get(place).is_some_and(|place| {
                    let is_woken = place.client.as_ref().is_some_and(|one| one.is_woken);
                    !place.is_scripted && !is_woken
                });
                if is_by_hand && truth != Truth::Started {
                    self.press(place);
                }
                self.becomes(place, truth);
            }
            Move::Fires(payload) => {
                self.takes_held(place, &payload);
                self.fire(place, &payload);
            }
            Move::Interrupts { has_output, is_shown } => {
                let owner = self.running(place).map(|one| one.process);
                let owner = owner.map(|owner| (self.boot(), owner));
                if let Some(life) = owner.and_then(|owner| self.lives.get_mut(&owner)) {
                    // Before any output neither screen nor transcript keeps a mark (measured).
                    life.is_interrupt_hidden = !(is_shown && has_output);
                    life.is_interrupted = true;
                }
                self.is_interrupted(place, has_output);
            }
            Move::Registry(status, waiting_for) => {
                if let Some(one) = self.running(place) {
                    one.status = (status, waiting_for);
                    one.is_registered = true;
                }
                self.write_registry(place);
            }
            Move::Writes(line) => self.write_transcript(place, line),
            Move::Paints(screen) => self.paint(place, Some(screen), None),
            Move::Stops(is_stopped) => {
                let pid = self.running(place).map(|one| one.process.pid);
                let mut machine = self.machine.get();
                if let Some(process) = pid.and_then(|pid| machine.processes.get_mut(&pid)) {
                    process.is_stopped = is_stopped;
                }
            }
            Move::TakesLeave => self.take_leave(place),
            Move::Dies(end) => self.dies(place, end),
            Move::Follows(session_id) => {
                let boot = self.boot();
                let before = self.running(place).map(|one| one.session_id.clone());
                self.leaves(place, before);
                if let Some(one) = self.running(place) {
                    one.session_id.clone_from(&session_id);
                    let process = one.process;
                    if let Some(life) = self.lives.get_mut(&(boot, process)) {
                        life.session_id.clone_from(&session_id);
                        life.left.remove(&session_id);
                    }
                }
                self.follows(place, &session_id);
                if let Some(one) = self.places.get_mut(place) {
                    one.last_session = Some(session_id);
                }
            }
            Move::Asks(asked) => self.asks(place, *asked),
            Move::NextPlan => self.plans_on(place),
        }
    }

    pub(crate) fn running(&mut self, place: usize) -> Option<&mut Running> {
        self.places.get_mut(place)?.client.as_mut()
    }

    pub(crate) fn becomes(&mut self, place: usize, truth: Truth) {
        let (time, boot) = (self.time, self.boot());
        let Some(one) = self.running(place) else { return };
        one.truth = truth;
        let (process, session_id) = (one.process, one.session_id.clone());
        if let Some(life) = self.lives.get_mut(&(boot, process)) {
            life.truth = truth;
            let goes_on_beside_it = matches!(
                truth,
                Truth::Subagent
                    | Truth::Shell
                    | Truth::AwaitingPermission
                    | Truth::AwaitingInput
                    | Truth::Suspended
            );
            life.is_at_limit = truth == Truth::Quota || (life.is_at_limit && goes_on_beside_it);
            let is_over = !matches!(
                truth,
                Truth::Running
                    | Truth::AwaitingPermission
                    | Truth::AwaitingInput
                    | Truth::Suspended
            ) && !life.is_at_limit;
            life.is_limit_told &= !is_over && truth != Truth::Running;
            life.is_interrupted &= truth != Truth::Running;
            life.is_compacting = false;
            // Whatever a turn comes to but a limit ends the wait.
            let probes = if is_over { std::mem::take(&mut life.probes) } else { 0 };
            self.meter.went_on += u64::from(0 < probes);
            life.had_error |=
                matches!(truth, Truth::Quota | Truth::Authentication | Truth::Billing);
            life.had_background |= matches!(truth, Truth::Subagent | Truth::Shell);
            life.since = time;
        }
        if truth == Truth::Running {
            self.acts.turned(&session_id, time);
        }
    }

    /// A client crashes; something of it may stay.
    pub(crate) fn crash(&mut self, place: usize) {
        let boot = self.boot();
        let Some(one) = self.running(place) else { return };
        let (process, session_id) = (one.process, one.session_id.clone());
        let is_working = one.truth == Truth::Running;
        let is_signed = self.random.chance(self.habits.signed);
        let has_survivor = is_working && self.random.chance(self.habits.survivors);
        let mut survivor_until = 0;
        if has_survivor {
            let pid = self.free_pid();
            let tool = self.machine.get().spawn(pid, Kind::Headless, 0);
            if let Some(one) = self.machine.get().processes.get_mut(&pid) {
                one.tool_of = Some((session_id, process.pid));
            }
            let after = self.random.range(SECOND..1_000 * SECOND);
            survivor_until = self.time + after;
            self.at(after, What::Ends(tool));
        }
        if is_signed {
            self.with_pane(place, |pane| pane.shown.signature = Some(SIGNATURE.to_owned()));
        }
        if let Some(life) = self.lives.get_mut(&(boot, process)) {
            life.survivor_until = survivor_until;
        }
        self.note(|| format!("place {place}: pid {} crashes", process.pid));
        self.dies(place, End::Kill);
    }

    /// A client's process is gone.
    pub(crate) fn dies(&mut self, place: usize, end: End) {
        let truth = match end {
            End::Exit => Truth::Stopped,
            End::Other => Truth::Ended,
            End::Kill => Truth::Crashed,
        };
        let is_signed = self.with_pane(place, |pane| pane.shown.signature.is_some());
        let boot = self.boot();
        if let Some(process) = self.running(place).map(|one| one.process)
            && let Some(life) = self.lives.get_mut(&(boot, process))
        {
            life.has_signature |= is_signed.unwrap_or(false);
        }
        if end == End::Kill {
            self.meter.deaths += 1;
            self.note_death(place);
        }
        self.becomes(place, truth);
        self.prompts_end(place, end);
        self.leaves_conversation(place, end);
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.take()) else {
            return;
        };
        self.machine.get().end(one.process);
        self.machine.get().unwatchable.remove(&one.process.pid);
        self.dead_pids.push(one.process.pid);
        self.leave_terminal(place);
        self.rerun_line(place);
        let is_again = self.places.get(place).is_some_and(|one| one.parent == Parent::Wrapper);
        let after = if is_again {
            self.random.range(SECOND..5 * SECOND)
        } else if self.random.chance(self.habits.quick_users) {
            self.random.range(100 * MS..15 * SECOND)
        } else {
            self.random.range(2..600) * SECOND
        };
        self.at(after, What::Starts(place));
    }

    /// What a client paints, with what it painted before gone.
    pub(crate) fn paint(&mut self, place: usize, screen: Option<Screen>, farewell: Option<String>) {
        if self.running(place).is_none_or(|one| !one.client.is_interactive) {
            return;
        }
        let id = self.places.get(place).map(|one| one.pane.clone()).unwrap_or_default();
        let mut machine = self.machine.get();
        let pane = machine.tmux.get_mut(SOCKET).and_then(|one| one.panes.get_mut(&id));
        if let Some(pane) = pane {
            let farewell = farewell.map(Farewell::Last);
            pane.shown = coord_screen::Reading { screen, farewell, ..Default::default() };
        }
    }
}

//! Runs of hook executables on the simulated machine: fired by a client, exchanged with the
//! coordinator or spooled, acknowledged or lost.

use coord_host::process::Caller;
use coord_model::envelope::TmuxClaim;
use coord_model::{Harness, Kind, ProcessRef};
use serde_json::Value;

use crate::checks::{Checks, Violation};
use crate::client::Truth;
use crate::hooks::{self, Hook};
use crate::host_events::SOCKET;
use crate::machine::PID_NS;
use crate::serving::{CONFIG_DIR, Post, Posted, spool_dir};
use crate::simulation::{MS, SECOND, Simulation, Time, What};

/// The answer comes within this, or it comes too late (H-37).
pub(crate) const EXCHANGE: u64 = 150 * MS;
/// A miss is remembered for this long (H-37).
pub(crate) const MISS: u64 = 10 * SECOND;

/// One run of a hook.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Run {
    pub(crate) id: u128,
    pub(crate) event: String,
    pub(crate) reason: Option<String>,
    pub(crate) of_agent: bool,
    /// Its session's id, and the prompt's.
    pub(crate) session_id: String,
    pub(crate) prompt_id: Option<String>,
    /// Its turn goes on by a Stop hook's word already.
    pub(crate) is_again: bool,
    /// It tells of a prompt that was typed into a running turn.
    pub(crate) is_queued: bool,
    /// It tells of a usage limit, and when it was fired.
    is_limit: bool,
    pub(crate) fired: Time,
    /// The life of the client that fired it, for what its SessionEnd proves.
    pub(crate) owner: (String, ProcessRef),
    post: Post,
    /// The process of a hook that asks to wait for a reply once its event is delivered.
    pub(crate) waits_as: Option<ProcessRef>,
    /// The call that it tells of as over.
    pub(crate) call_over: Option<String>,
    /// It ends at this point by a signal.
    killed: Option<KilledAt>,
    /// Its answer comes too late: it spools as well.
    pub(crate) is_slow: bool,
    /// It waits for no answer: it has spooled, and ended, before its request was read.
    pub(crate) is_gone: bool,
}

impl Run {
    /// It is killed between its answer and its end.
    pub(crate) fn is_killed_at_answer(&self) -> bool {
        self.killed == Some(KilledAt::Answer)
    }

    /// It can be seen to be its client's own (H-25).
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.post.caller.parent == Some(self.owner.1.pid)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KilledAt {
    Start,
    Answer,
    Spool(usize),
}

impl Simulation {
    /// A client fires a hook.
    pub(crate) fn fire(&mut self, place: usize, payload: &Value) {
        self.fire_for(place, payload, None);
    }

    /// A client fires a hook, for this call if it asks for permission.
    pub(crate) fn fire_for(&mut self, place: usize, payload: &Value, call: Option<&str>) {
        let owner = self.running(place).map(|one| one.process).map(|owner| (self.boot(), owner));
        if let Some(life) = owner.and_then(|owner| self.lives.get_mut(&owner)) {
            match payload.get("reason").and_then(Value::as_str) {
                Some("clear" | "resume") => _ = life.left.insert(life.session_id.clone()),
                Some(_) => life.is_ending = true,
                None => (),
            }
            life.had_error |=
                payload.get("hook_event_name").is_some_and(|name| name == "StopFailure");
            life.is_compacting |=
                payload.get("hook_event_name").is_some_and(|name| name == "PreCompact")
                    && payload.get("trigger").is_some_and(|trigger| trigger == "manual");
        }
        let is_start = payload.get("hook_event_name").is_some_and(|name| name == "SessionStart");
        if let Some(one) = self.running(place) {
            one.note_tool(payload);
            let is_interactive = one.client.is_interactive;
            let process = one.process;
            if is_start {
                self.begins_anew(process);
            }
            let is_prompt =
                payload.get("hook_event_name").is_some_and(|name| name == "UserPromptSubmit");
            if is_prompt && is_interactive {
                self.hidden_anew(process);
            }
        }
        self.end_wait(place, payload);
        self.arm_wake(place, payload);
        if self.random.chance(self.rates.hook_lost) {
            self.meter.hooks_lost += 1;
            return self.note(|| "  the hook never runs".to_owned());
        }
        self.run_hook(place, payload, call);
        if self.random.chance(self.rates.hook_twice) {
            self.note(|| "  a second hook runs for it".to_owned());
            self.run_hook(place, payload, call);
        }
    }

    fn run_hook(&mut self, place: usize, payload: &Value, call: Option<&str>) {
        let start = self.random.range(MS..6 * MS);
        let Some(one) = self.places.get(place) else { return };
        let (pane, tty) = (one.pane.clone(), one.tty);
        let server = self.machine.get().tmux.get(SOCKET).map(|server| server.process);
        let Some(one) = self.running(place) else { return };
        let (process, is_interactive) = (one.process, one.client.is_interactive);
        let kind = if is_interactive { Kind::Interactive } else { Kind::Headless };
        let is_start = payload.get("hook_event_name").is_some_and(|name| name == "SessionStart");
        let harness = Harness {
            pid: process.pid,
            start_time: process.start_time,
            pid_ns: PID_NS,
            tty: if is_interactive { tty } else { 0 },
            kind: is_start.then_some(kind),
        };
        let tmux = server.filter(|_| is_interactive).map(|server| TmuxClaim {
            socket: SOCKET.to_owned(),
            server_pid: server.pid,
            server_start: server.start_time,
            pane,
        });
        let now = self.now();
        let pid = self.hook_pid();
        self.meter.hooks += 1;
        let hook = Hook {
            id: (u128::from(now.wall_ms) << 80) | u128::from(self.meter.hooks),
            pid,
            mono_ns: now.mono_ns + start,
            wall_ms: now.wall_ms + start / MS,
            boot: self.boot(),
            harness: Some(harness),
            tmux,
            config_dir: CONFIG_DIR.to_owned(),
        };
        let text = hooks::envelope(&hook, payload).and_then(|one| serde_json::to_vec(&one));
        let Ok(body) = text else { return };
        self.note_end(process, hook.id, payload);
        let waits_as = self.start_request_hook((place, hook.id, pid), payload, call);
        let field = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let killed =
            self.random.chance(self.rates.hook_killed).then(|| match self.random.below(3) {
                0 => KilledAt::Start,
                1 => KilledAt::Answer,
                _ => KilledAt::Spool(self.random.index(body.len() + 40)),
            });
        let run = Run {
            id: hook.id,
            event: field("hook_event_name").unwrap_or_default(),
            reason: field("reason"),
            is_limit: payload.get("error").is_some_and(|error| error == "rate_limit"),
            fired: self.time,
            of_agent: payload.get("agent_id").is_some(),
            session_id: field("session_id").unwrap_or_default(),
            prompt_id: field("prompt_id"),
            is_again: payload.get("stop_hook_active").is_some_and(|is| is == true),
            is_queued: payload.get("prompt").is_some_and(|prompt| prompt == "later"),
            owner: (self.boot(), process),
            post: Post { body, caller: Caller { pid, parent: Some(process.pid) } },
            waits_as,
            call_over: call_over(payload),
            killed,
            is_slow: self.random.chance(self.rates.hook_slow),
            is_gone: false,
        };
        let late = if self.random.chance(self.rates.hook_late) {
            self.random.below(120 * SECOND)
        } else {
            self.random.range(MS..20 * MS)
        };
        self.at(start + late, What::Exchange(run));
    }

    pub(crate) fn hook_pid(&self) -> u32 {
        100_000 + u32::try_from(self.meter.hooks % 50_000).unwrap_or(0)
    }

    /// G6: a client says that it ends.
    fn note_end(&mut self, process: ProcessRef, id: u128, payload: &Value) {
        let goes_on = |reason: &Value| reason == "clear" || reason == "resume";
        let reason = payload.get("reason").filter(|reason| !goes_on(reason));
        let boot = self.boot();
        if let Some(reason) = reason.and_then(Value::as_str)
            && let Some(life) = self.lives.get_mut(&(boot, process))
        {
            life.ends.push((id, reason.to_owned()));
        }
    }

    /// A hook turns to the coordinator.
    pub(crate) fn exchange(&mut self, mut run: Run) {
        if run.killed == Some(KilledAt::Start) {
            self.request_hook_ends(run.waits_as);
            return self.note(|| format!("  {:x} {} is killed", run.id, run.event));
        }
        if self.serving.is_none() || self.time < self.missed_until {
            return self.spool(run);
        }
        if self.random.chance(self.rates.hook_refused) {
            self.missed_until = self.time + MISS;
            self.note(|| format!("  {:x} {} is refused", run.id, run.event));
            return self.at(EXCHANGE, What::Spools(run));
        }
        if self.time < self.stalled_until {
            self.missed_until = self.time + MISS;
            self.at(EXCHANGE, What::Spools(run.clone()));
            // By the time that its request is read nobody sees whose child it was.
            run.is_gone = true;
            run.post.caller.parent = None;
            run.waits_as = None;
        }
        self.posts.push(run);
    }

    /// A hook spools its event.
    pub(crate) fn spool(&mut self, run: Run) {
        let bytes_max = match run.killed {
            Some(KilledAt::Spool(bytes)) => bytes,
            Some(KilledAt::Start | KilledAt::Answer) | None => usize::MAX,
        };
        let disk = self.machine.get().disk.clone();
        let written = hooks::spool(&disk, &spool_dir(), run.id, &run.post.body, bytes_max);
        self.note(|| format!("  {:x} {} spooled: {written:?}", run.id, run.event));
        self.spool_changed = true;
        // Killed behind its last byte it has not said so, and neither do we.
        if matches!(written, Ok(true)) && run.killed.is_none() {
            self.meter.spooled += 1;
            self.checks.spooled(run.id);
            self.end_told(&run);
            self.reported(&run);
            self.request_hook_goes_on(run.waits_as);
            self.checks.ends_in_spool.push(run.owner);
        } else {
            self.request_hook_ends(run.waits_as);
        }
    }

    /// One turn of the coordinator's loop.
    pub(crate) fn turn(&mut self) -> Result<(), Violation> {
        let (posts, spool_changed) =
            (std::mem::take(&mut self.posts), std::mem::take(&mut self.spool_changed));
        let Some(mut serving) = self.serving.take() else { return Ok(()) };
        self.meter.turns += 1;
        self.arm_disk();
        serving.begin_turn();
        let mut answered = Vec::with_capacity(posts.len());
        for run in posts {
            let before = Checks::before_post(&run, serving.coordinator(), self.now());
            let posted = serving.take(run.id, &run.post);
            Checks::after_post(&run, before, posted.status(), serving.coordinator())?;
            if let Posted::Handed(text) = &posted {
                self.check_handed(&run, text, &serving)?;
            }
            answered.push((run, posted));
        }
        let forged = self.take_forged(&mut serving);
        self.put_claims(&mut serving);
        self.put_orders(&mut serving);
        self.put_sends(&mut serving);
        let asked = self.put_requests(&mut serving);
        serving.end_turn(spool_changed);
        let happenings = self.machine.get().take_happenings();
        let answers = serving.take_answers();
        let wakes = serving.take_wakes();
        let (handed, replies) = (serving.take_handed(), serving.take_replies());
        let checked = self.checks.after_turn(serving.coordinator(), self.now());
        let checked = checked.and_then(|()| self.check_messages(&serving)).and(forged);
        let checked = checked.and_then(|()| self.check_forgers(serving.coordinator().state()));
        for (run, posted) in &answered {
            if is_taken(posted.status()) {
                self.reported(run);
            }
        }
        let accepted = serving.take_accepted();
        self.consider(&serving);
        let watched = self.watch_ends(&serving);
        self.watch_steps(&serving);
        self.serving = Some(serving);
        self.on_happenings(happenings)?;
        let was_cut = self.serving.is_none() || self.follow_disk_fault()?;
        if !was_cut {
            self.on_answers(answers)?;
            self.on_wakes(wakes)?;
            self.on_accepted(accepted);
            asked?;
            self.on_replies(replies)?;
        }
        for (run, posted) in answered {
            match posted {
                Posted::Handed(_) if !was_cut => self.waits_for_answer(run),
                Posted::Handed(_) => self.on_answer(run, 500, was_cut),
                Posted::Answered(status) => self.on_answer(run, status, was_cut),
            }
        }
        if !was_cut {
            self.on_handed(handed)?;
        }
        self.note_shown();
        // What a coordinator thought that was killed in the midst of its turn is gone with it.
        if !was_cut {
            checked?;
        }
        watched?;
        if !was_cut {
            self.check_needs()?;
            self.check_outcomes()?;
            self.check_notices()?;
        }
        self.check_owners()?;
        self.check_ends()
    }

    /// Something of a client was accepted.
    fn reported(&mut self, run: &Run) {
        self.call_is_over(run);
        if let Some(life) = self.lives.get_mut(&run.owner) {
            life.has_reported = true;
            // The change and its hook are of one moment.
            let is_last = life.since <= run.fired + 5 * MS;
            life.is_limit_told |= run.is_limit && is_last && life.truth == Truth::Quota;
        }
    }

    fn on_answer(&mut self, run: Run, status: u16, was_cut: bool) {
        self.note(|| format!("  {:x} {} answered {status}", run.id, run.event));
        let is_taken = is_taken(status) && !was_cut;
        if is_taken && run.is_slow {
            self.missed_until = self.time + MISS;
            return self.at(EXCHANGE, What::Spools(run));
        }
        if !is_taken {
            return self.at(MS, What::Spools(run));
        }
        if run.is_killed_at_answer() {
            self.request_hook_ends(run.waits_as);
        } else {
            self.acknowledge(&run);
        }
    }

    /// A hook was told that its event is taken.
    pub(crate) fn acknowledge(&mut self, run: &Run) {
        self.meter.acknowledged += 1;
        self.checks.acknowledged(run.id, self.time);
        self.end_told(run);
        self.request_hook_goes_on(run.waits_as);
    }

    /// A SessionEnd that was accepted: from now on nobody may take that session for crashed. After a
    /// /clear the process goes on.
    fn end_told(&mut self, run: &Run) {
        if run.event == "SessionEnd"
            && !matches!(run.reason.as_deref(), Some("clear" | "resume"))
            && let Some(life) = self.lives.get_mut(&run.owner)
        {
            life.end_told.clone_from(&run.reason);
        }
    }
}

/// The call that this payload reports as over.
fn call_over(payload: &Value) -> Option<String> {
    let event = payload.get("hook_event_name")?.as_str()?;
    let call = payload.get("tool_use_id").filter(|_| event.starts_with("PostToolUse"))?;
    call.as_str().map(str::to_owned)
}

/// Whether an event that was answered so is taken in.
pub(crate) fn is_taken(status: u16) -> bool {
    status == 204 || status == 200
}

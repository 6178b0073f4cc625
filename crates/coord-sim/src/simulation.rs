//! One simulated life of a machine with clients and a coordinator: who does what when, by one seed.
//!
//! Three phases. In the first faults happen, and after each step what must never be is looked for
//! ([`crate::checks`]). Then they stop, and clients work on. Then clients finish what they are at, and
//! once time enough has passed for every deadline, each reported state must be the true one, or
//! `unknown`. Everything runs on one thread; time is simulated and jumps from event to event.

use std::collections::BTreeMap;

use coord_config::Config;
use coord_core::Session;
use coord_model::{Now, ProcessRef, SessionState};
use coord_testkit::{FakeDisk, Random};
use coord_wire::api::{OperatorRequest, ResumeOrder};

use crate::act_checks::Acts;
use crate::checks::{Checks, Violation, may_be};
use crate::client::Move;
use crate::faults::Rates;
use crate::forgers::{Forgers, Forgery};
use crate::habits::Habits;
use crate::hook_runs::Run;
use crate::host_events::HostFault;
use crate::living::{Life, Running};
use crate::machine::{Pace, RegistryDir, SharedMachine};
use crate::messages::{Hearing, Messages, Sending};
use crate::meter::{Conditions, Judged, Meter};
use crate::need_checks::NeedWatch;
use crate::notice_checks::NoticeWatch;
use crate::people::{Action, Passing};
use crate::places::Place;
use crate::quota_checks::Waits;
use crate::requests::{Requests, Step, draw_approvals};
use crate::resumes::{Claim, Taker};
use crate::said::Said;
use crate::serving::{CONFIG_DIR, Serving, WakeHook};
use crate::stalls::StallWatch;

/// Nanoseconds of simulated time since the simulation began; goes on through suspends and boots.
pub(crate) type Time = u64;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// Faults happen until then.
pub(crate) const FAULTS_END: Time = 60 * MINUTE;
/// Clients take up new work until then.
pub(crate) const WORK_END: Time = 80 * MINUTE;
/// After the last fault, what it left behind settles within this.
pub(crate) const SETTLED: Time = 2 * MINUTE;
/// Without faults a state is shown by then.
const SOON: Time = 10 * SECOND;
/// Whatever rests on silence alone is over after this (`tracking.unknown_after` and settling).
const QUIET: Time = 1_000 * SECOND;
/// A plan is over by then at the latest.
const LAST_PLAN_END: Time = 16 * 60 * MINUTE;
/// The machine was up for so long when the simulation begins.
const UPTIME: u64 = 100 * SECOND;
const BEGAN_AT_MS: u64 = 1_800_000_000_000;

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum What {
    /// A client moves, if it is still the one it was planned for.
    Moves(usize, u64, Move),
    /// A place gets a new client.
    Starts(usize),
    /// A hook meets the coordinator.
    Exchange(Run),
    /// A hook spools its event.
    Spools(Run),
    /// A coordinator is started.
    CoordinatorStarts,
    /// The machine, its disk or its clocks.
    Host(HostFault),
    /// Something for a while is over.
    Over(HostFault),
    /// Something of [`crate::habits`].
    Happens(Action),
    /// What was for a while in a place is over.
    Passes(usize, Passing),
    /// A client crashes.
    Crashes(usize),
    /// Somebody presses a key.
    Presses(usize),
    /// Somebody does something in a place.
    Meddles(usize),
    /// The coordinator is killed.
    Kills,
    /// A process that is no client ends.
    Ends(ProcessRef),
    /// A line of the coordinator's asks for its session; is not answered; gives up; becomes the client.
    Claims(ProcessRef),
    LosesPatience(ProcessRef),
    TakerEnds(ProcessRef),
    Becomes(ProcessRef, Box<ResumeOrder>),
    /// A person's order.
    Orders(Box<OperatorRequest>),
    /// A wake hook asks to wait; a text that one was handed reaches its client.
    Waits(WakeHook),
    Wakes(ProcessRef, String),
    /// Somebody sends a message.
    Sends(Box<Sending>),
    /// A hook's time for its answer is over; what it printed reaches its client.
    GivesUp(u128),
    Hears(Box<Hearing>),
    /// A client writes to its transcript.
    Lands(ProcessRef),
    /// Something about a permission prompt.
    Request(Step),
    /// A forger is at work.
    Forges(Forgery),
}

/// What a seed came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What must not be, if it was.
    pub violation: Option<Violation>,
    /// Counts and times.
    pub meter: Meter,
}

/// One seed's simulation.
pub struct Simulation {
    pub(crate) random: Random,
    pub(crate) rates: Rates,
    pub(crate) habits: Habits,
    pub(crate) forgers: Forgers,
    pub(crate) machine: SharedMachine,
    pub(crate) config: Config,
    pub(crate) serving: Option<Serving>,
    pub(crate) time: Time,
    /// Simulated time at which CLOCK_MONOTONIC was 0.
    pub(crate) booted_at: i128,
    pub(crate) boots: u64,
    pub(crate) wall_offset_ms: i64,
    queue: BTreeMap<(Time, u64), What>,
    sequence: u64,
    pub(crate) places: Vec<Place>,
    pub(crate) lives: BTreeMap<(String, ProcessRef), Life>,
    pub(crate) life: u64,
    /// Lines of the coordinator's that were run and are no client yet.
    pub(crate) takers: BTreeMap<ProcessRef, Taker>,
    pub(crate) said: Said,
    pub(crate) acts: Acts,
    pub(crate) needs: NeedWatch,
    pub(crate) notices: NoticeWatch,
    pub(crate) quota: Waits,
    pub(crate) stalls: StallWatch,
    pub(crate) messages: Messages,
    pub(crate) requests: Requests,
    /// When a key was pressed last, in any pane.
    pub(crate) key_at: Option<Time>,
    pub(crate) shells: u32,
    pub(crate) posts: Vec<Run>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) orders: Vec<OperatorRequest>,
    pub(crate) spool_changed: bool,
    /// The coordinator is stopped until then.
    pub(crate) stalled_until: Time,
    /// Hooks go straight to the spool until then.
    pub(crate) missed_until: Time,
    pub(crate) registry_stale_until: Time,
    pub(crate) checks: Checks,
    pub(crate) meter: Meter,
    pub(crate) log: Option<Vec<String>>,
    /// What was shown last, for the log.
    shown: BTreeMap<u64, String>,
    pids: u32,
    pub(crate) dead_pids: Vec<u32>,
}

/// Half of all seeds have channels, half of these with trouble. Their chance is their own.
fn draw_channels(seed: u64, machine: &SharedMachine) -> String {
    const SALT: u64 = 0x006e_6f74_6963_6573;
    let mut random = Random::new(seed ^ SALT);
    if random.coin() {
        return "[notice]\nkinds = []\n".to_owned();
    }
    let has_trouble = random.coin();
    machine.get().channels.trouble(has_trouble.then_some(random));
    let channels = [("tmux", "tmux"), ("desk", "desktop"), ("phone", "webhook")];
    let table = |(name, via): (&str, &str)| {
        let url = if via == "webhook" { "url = \"http://127.0.0.1/x\"\n" } else { "" };
        format!("[notice.channel.{name}]\nvia = {via:?}\nper_hour = 1000\n{url}")
    };
    channels.map(table).concat()
}

impl Simulation {
    /// The simulation of a seed; with `has_log` everything that happens is written down.
    pub(crate) fn new(seed: u64, forgers: Forgers, has_log: bool) -> Self {
        let mut random = Random::new(seed);
        let rates = Rates::draw(&mut random);
        let habits = Habits::draw(&mut random);
        let now = Now { mono_ns: UPTIME, wall_ms: BEGAN_AT_MS };
        let pace = Pace { disk: 0..rates.sync_ms_max, look: 3..60 };
        let machine = SharedMachine::new(now, pace, Random::new(random.next()));
        let mut registry = RegistryDir::default();
        registry.set_there(rates.has_registry);
        machine.get().registries.insert(CONFIG_DIR.to_owned(), registry);
        // Segments are pruned within the hour, and a session over its share is folded.
        let text =
            format!("[store]\njournal_kept = \"5m\"\n[recovery]\nmode = {:?}\n", habits.mode);
        let text = text + &draw_channels(seed, &machine) + &draw_approvals(seed, &machine);
        let mut simulation = Self {
            machine,
            config: Config::parse(&text).unwrap_or_else(|_| Config::default()),
            serving: None,
            time: 0,
            booted_at: -i128::from(UPTIME),
            boots: 1,
            wall_offset_ms: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            places: Vec::new(),
            lives: BTreeMap::new(),
            life: 0,
            takers: BTreeMap::new(),
            said: Said::default(),
            acts: Acts::default(),
            needs: NeedWatch::default(),
            notices: NoticeWatch::default(),
            quota: Waits::default(),
            stalls: StallWatch::default(),
            messages: Messages::default(),
            requests: Requests::default(),
            key_at: None,
            shells: 0,
            posts: Vec::new(),
            claims: Vec::new(),
            orders: Vec::new(),
            spool_changed: false,
            stalled_until: 0,
            missed_until: 0,
            registry_stale_until: 0,
            checks: Checks::default(),
            meter: Meter::default(),
            log: has_log.then(Vec::new),
            shown: BTreeMap::new(),
            pids: 1_000,
            dead_pids: Vec::new(),
            random,
            rates,
            habits,
            forgers,
        };
        simulation.begin();
        simulation
    }

    fn begin(&mut self) {
        let drawn = format!("{:?}\n{:?}\n{}", self.rates, self.habits, self.approvals());
        self.note(|| drawn);
        self.draw_places();
        self.set_habits();
        self.start_tmux();
        self.at(0, What::CoordinatorStarts);
        for place in 0..self.places.len() {
            let after = self.random.below(120) * SECOND;
            self.at(after, What::Starts(place));
        }
        for fault in HostFault::ALL {
            self.schedule(fault);
        }
        for action in Action::ALL {
            self.schedule_action(action);
        }
        self.schedule_forgery(Forgery::Event);
        self.schedule_forgery(Forgery::Entry);
    }

    /// Runs it to its end.
    pub fn run(mut self) -> (Outcome, Vec<String>) {
        let violation = self.phases().err();
        (Outcome { violation, meter: self.meter }, self.log.unwrap_or_default())
    }

    fn phases(&mut self) -> Result<(), Violation> {
        self.run_until(FAULTS_END)?;
        self.note(|| "the faults stop".to_owned());
        self.stop_faults()?;
        self.run_until(WORK_END)?;
        self.note(|| "no more new work".to_owned());
        // Whoever is at something finishes it: NextPlan is not followed any more. Who waits for its quota is
        // woken when it is there again.
        let is_busy = |what: &What| {
            matches!(what, What::Moves(..) | What::Starts(_) | What::Wakes(..))
                || matches!(what, What::Request(step) if step.is_of_client())
        };
        loop {
            while self.time < LAST_PLAN_END
                && (self.queue.values().any(is_busy) || self.quota.is_awaited())
            {
                self.run_until(self.time + MINUTE)?;
            }
            self.run_until(self.time + QUIET)?;
            if LAST_PLAN_END <= self.time || !self.queue.values().any(is_busy) {
                break;
            }
        }
        self.check_notices_rest()?;
        self.check_rest()?;
        self.check_messages_rest()?;
        self.check_recoveries()
    }

    /// Something happens after so many nanoseconds.
    pub(crate) fn at(&mut self, after: Time, what: What) {
        self.sequence += 1;
        self.queue.insert((self.time + after, self.sequence), what);
    }

    /// Writes a line into the log, if there is one.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let time = self.time;
        if let Some(log) = &mut self.log {
            log.push(format!("{}.{:06} {}", time / SECOND, time % SECOND / 1_000, line()));
        }
    }

    /// Writes into the log which states are shown otherwise than before.
    pub(crate) fn note_shown(&mut self) {
        let Some(serving) = self.serving.as_ref().filter(|_| self.log.is_some()) else { return };
        let line = |session: &Session| {
            let Session { session_id, shown, owner, .. } = session;
            let pid = owner.as_ref().map_or(0, |owner| owner.id.process.pid);
            let id = session.key.0;
            (
                id,
                format!(
                    "    {session_id} (pid {pid}, record {id}): {:?}: {}",
                    shown.state, shown.because
                ),
            )
        };
        let all: BTreeMap<u64, String> =
            serving.coordinator().state().sessions().map(line).collect();
        for (id, line) in &all {
            if self.shown.get(id) != Some(line) {
                self.note(|| line.clone());
            }
        }
        self.shown = all;
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.time < FAULTS_END
    }

    pub(crate) fn mono_ns(&self) -> u64 {
        u64::try_from(i128::from(self.time) - self.booted_at).unwrap_or(0)
    }

    pub(crate) fn now(&self) -> Now {
        let wall = BEGAN_AT_MS + self.time / MS;
        Now { mono_ns: self.mono_ns(), wall_ms: wall.saturating_add_signed(self.wall_offset_ms) }
    }

    /// Simulated time of a CLOCK_MONOTONIC of this boot.
    fn time_of(&self, mono_ns: u64) -> Time {
        u64::try_from(i128::from(mono_ns) + self.booted_at).unwrap_or(0)
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        loop {
            let wake = self.serving.as_ref().map(Serving::wake_at);
            let wake = wake.map(|at| self.time_of(at).max(self.stalled_until));
            let queued = self.queue.keys().next().map(|(at, _)| *at);
            let Some(next) = queued.into_iter().chain(wake).min().filter(|next| *next < end) else {
                self.advance(end);
                return Ok(());
            };
            self.advance(next.max(self.time));
            while let Some(entry) = self.queue.first_entry().filter(|one| one.key().0 <= self.time)
            {
                let what = entry.remove();
                self.happens(what)?;
            }
            self.take_wrong()?;
            self.serve(wake.is_some_and(|at| at <= self.time))?;
            self.judge()?;
            self.judge_waits()?;
            self.judge_requests()?;
            self.measure_stalls();
        }
    }

    /// What this time is like.
    pub(crate) fn conditions(&self) -> Conditions {
        let (has_faults, has_registry) = (self.has_faults(), self.rates.has_registry);
        Conditions { has_faults, has_registry }
    }

    fn advance(&mut self, to: Time) {
        let (ns, under) = (to - self.time, self.conditions());
        let clients = self.places.iter().filter_map(|place| place.client.as_ref());
        let unattended = clients.filter(|one| self.is_unattended(one)).count() as u64;
        self.meter.stalls.entry(under).or_default().unattended += unattended * ns;
        self.meter.pass(ns, under, &self.places, self.serving.is_some());
        self.time = to;
        let now = self.now();
        let mut machine = self.machine.get();
        machine.now = now;
        machine.disk.set_now(now.wall_ms);
    }

    fn happens(&mut self, what: What) -> Result<(), Violation> {
        match what {
            What::Moves(place, life, a_move) => {
                let is_same = |one: &Running| one.life == life;
                if self.places.get(place).and_then(|one| one.client.as_ref()).is_some_and(is_same) {
                    self.moves(place, a_move);
                }
            }
            What::Starts(place) => self.start_client(place),
            What::Exchange(run) => self.exchange(run),
            What::Spools(run) => self.spool(run),
            What::CoordinatorStarts => self.start_coordinator()?,
            What::Host(fault) => self.host_fault(fault)?,
            What::Over(fault) => self.fault_over(fault),
            What::Happens(action) => self.action(action),
            What::Passes(place, passing) => self.passes(place, &passing),
            What::Crashes(place) => self.crash(place),
            What::Presses(place) => self.press(place),
            What::Meddles(place) => self.does_something(place),
            What::Kills if self.has_faults() => self.kill_coordinator(None)?,
            What::Kills => (),
            What::Ends(process) => self.ends(process),
            What::Claims(process) => self.claims(process),
            What::LosesPatience(process) => self.loses_patience(process),
            What::TakerEnds(process) => self.taker_ends(process),
            What::Becomes(process, order) => self.becomes_client(process, &order)?,
            What::Orders(order) => self.orders.push(*order),
            What::Waits(hook) => self.waits(hook),
            What::Wakes(process, text) => self.is_woken(process, text),
            What::Sends(sending) => self.sends(*sending),
            What::GivesUp(id) => self.gives_up(id),
            What::Hears(hearing) => self.hears(*hearing),
            What::Forges(forgery) => self.forge(forgery),
            What::Request(step) => self.request_step(step)?,
            What::Lands(process) => {
                if let Some(place) = self.place_of_client(&self.boot(), process) {
                    self.lands(place, self.time);
                }
            }
        }
        Ok(())
    }

    /// One turn of the coordinator's loop, if something waits for it.
    fn serve(&mut self, is_awake: bool) -> Result<(), Violation> {
        if self.serving.is_none() || self.time < self.stalled_until {
            return Ok(());
        }
        let has_news = self.machine.get().has_news();
        if is_awake || has_news || self.spool_changed || self.has_requests() {
            self.turn()?;
        }
        Ok(())
    }

    fn has_requests(&self) -> bool {
        let is_empty = self.posts.is_empty() && self.claims.is_empty() && self.orders.is_empty();
        let has_others = self.has_sends() || self.requests.has_any();
        !is_empty || !self.forgers.posts.is_empty() || has_others
    }

    /// Whatever a client planned it does so much later.
    pub(crate) fn delay_moves(&mut self, place: usize, by: Time) {
        let is_its = |what: &What| matches!(what, What::Moves(of, ..) if *of == place);
        let queue = std::mem::take(&mut self.queue);
        self.queue.extend(queue.into_iter().map(|((time, number), what)| {
            let time = if is_its(&what) { time + by } else { time };
            ((time, number), what)
        }));
    }

    /// Whatever a client planned it does not do.
    pub(crate) fn forget_moves(&mut self, place: usize) {
        self.queue.retain(|_, what| !matches!(what, What::Moves(of, ..) if *of == place));
    }

    /// Whether a client is to fire more hooks of what it has planned.
    pub(crate) fn has_fires(&self, place: usize) -> bool {
        let is_its =
            |what: &What| matches!(what, What::Moves(of, _, Move::Fires(_)) if *of == place);
        self.queue.values().any(is_its)
    }

    /// Hooks that run at a restart of the machine end with it.
    pub(crate) fn forget_runs(&mut self) {
        self.queue.retain(|_, what| {
            let is_hook = matches!(what, What::Exchange(_) | What::Spools(_) | What::Waits(_));
            let is_text = matches!(what, What::GivesUp(_) | What::Hears(_) | What::Wakes(..));
            !is_hook && !is_text && !matches!(what, What::Request(_))
        });
        self.requests.forget();
        self.forget_takers();
        self.forget_messages();
        self.forgers.forget();
    }

    pub(crate) fn boot(&self) -> String {
        format!("boot-{}", self.boots)
    }

    pub(crate) fn free_pid(&mut self) -> u32 {
        if self.random.chance(self.rates.pid_reuse) {
            let at = self.random.index(self.dead_pids.len());
            if at < self.dead_pids.len() {
                return self.dead_pids.swap_remove(at);
            }
        }
        self.pids += 1;
        self.pids
    }

    /// Whether each living client's state is shown as it is. Without faults, and with a registry, it is
    /// soon.
    fn judge(&mut self) -> Result<(), Violation> {
        let state = self.serving.as_ref().map(|one| one.coordinator().state());
        let is_judged = self.rates.has_registry && FAULTS_END + SETTLED < self.time;
        let boot = self.boot();
        for one in self.places.iter_mut().filter_map(|place| place.client.as_mut()) {
            let Some(life) = self.lives.get(&(boot.clone(), one.process)) else { continue };
            let process = one.process;
            let shown = state.and_then(|state| state.session_of(process));
            let word = shown.map(|session| session.shown.state);
            one.judged = Judged::of(one.truth, one.is_foreign, word);
            // A disagreement of sources is shown as one, and claims nothing.
            let is_open = shown.is_some_and(|session| session.contested.is_some());
            let is_hung = self.machine.get().hung_at(one.process).is_some();
            let told = one.told().filter(|_| is_hung);
            let may_be_as = |word| {
                let may_be = |truth| may_be(truth, life, word);
                let is_still = word != SessionState::Stalled || is_hung;
                is_still && (may_be(one.truth) || told.is_some_and(may_be))
            };
            let may_be = is_open || word.is_none_or(may_be_as);
            one.wrong_since = one.wrong_since.or(Some(self.time)).filter(|_| !may_be);
            if is_judged && one.wrong_since.is_some_and(|since| since + SOON < self.time) {
                let (id, truth) = (&one.session_id, one.truth);
                let because = shown.map_or("", |session| session.shown.because.as_str());
                let what = format!("{id}: {word:?} ({because}) for long, in truth {truth:?}");
                return Err(Violation::new("R-21", what));
            }
        }
        Ok(())
    }

    /// The disk that the next coordinator finds.
    pub(crate) fn set_disk(&mut self, disk: FakeDisk) {
        disk.set_now(self.now().wall_ms);
        self.machine.get().disk = disk;
    }
}

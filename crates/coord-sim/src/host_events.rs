//! What happens to the simulated machine: its coordinator is started, killed and stopped, its disk and
//! clocks misbehave, it restarts.

use std::io::ErrorKind;

use coord_model::Kind;
use coord_testkit::{Damage, FakeDisk, Fault};
use serde_json::{Value, json};

use crate::checks::{Image, NEAR, Violation, image_of, reopen};
use crate::client::{End, Truth};
use crate::machine::TmuxServer;
use crate::serving::{CONFIG_DIR, Serving};
use crate::simulation::{MINUTE, MS, SECOND, Simulation, What};

/// The tmux server's socket.
pub(crate) const SOCKET: &str = "/tmp/tmux-1000/default";
/// A coordinator that is killed may not have recorded for so long that it watches.
const UNMARKED: u64 = 75 * SECOND;
/// What was acknowledged within this may not be synced yet.
const UNSYNCED: u64 = 100 * MS;
const HOUR_MS: u64 = 3_600_000;

/// A fault of the machine; see [`crate::faults`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostFault {
    Kill,
    DiskKill,
    Restart,
    Stall,
    Second,
    DiskError,
    DiskFull,
    ClockJump,
    Suspend,
    Reboot,
    TmuxDeath,
    TmuxHang,
    RegistryGone,
    RegistryStale,
    RegistryOdd,
}

/// A fault of the disk that is armed, and what it is to end in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    /// The coordinator is killed at the operation.
    Kill,
    /// The power goes at the operation.
    PowerCut,
}

impl HostFault {
    pub(crate) const ALL: [Self; 15] = [
        Self::Kill,
        Self::DiskKill,
        Self::Restart,
        Self::Stall,
        Self::Second,
        Self::DiskError,
        Self::DiskFull,
        Self::ClockJump,
        Self::Suspend,
        Self::Reboot,
        Self::TmuxDeath,
        Self::TmuxHang,
        Self::RegistryGone,
        Self::RegistryStale,
        Self::RegistryOdd,
    ];

    /// Its name in reports.
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::DiskKill => "kill at a disk operation",
            Self::Restart => "restart",
            Self::Stall => "stall",
            Self::Second => "second coordinator",
            Self::DiskError => "disk error",
            Self::DiskFull => "disk full",
            Self::ClockJump => "clock set",
            Self::Suspend => "suspend",
            Self::Reboot => "reboot",
            Self::TmuxDeath => "tmux death",
            Self::TmuxHang => "tmux hang",
            Self::RegistryGone => "registry gone",
            Self::RegistryStale => "registry stale",
            Self::RegistryOdd => "registry odd",
        }
    }
}

impl Simulation {
    fn rate(&self, fault: HostFault) -> f64 {
        let rates = &self.rates;
        match fault {
            HostFault::Kill => rates.kills,
            HostFault::DiskKill => rates.disk_kills,
            HostFault::Restart => rates.restarts,
            HostFault::Stall => rates.stalls,
            HostFault::Second => rates.seconds,
            HostFault::DiskError => rates.disk_errors,
            HostFault::DiskFull => rates.disk_full,
            HostFault::ClockJump => rates.clock_jumps,
            HostFault::Suspend => rates.suspends,
            HostFault::Reboot => rates.reboots,
            HostFault::TmuxDeath => rates.tmux_deaths,
            HostFault::TmuxHang => rates.tmux_hangs,
            HostFault::RegistryGone => rates.registry_gone,
            HostFault::RegistryStale => rates.registry_stale,
            HostFault::RegistryOdd => rates.registry_odd,
        }
    }

    /// Lets a fault happen at its rate.
    pub(crate) fn schedule(&mut self, fault: HostFault) {
        let rate = self.rate(fault);
        if 0.0 < rate {
            let after = self.after(rate);
            self.at(after, What::Host(fault));
        }
    }

    /// When something happens next that happens so often in an hour.
    pub(crate) fn after(&mut self, rate: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive, and hours fit"
        )]
        let mean_ms = (f64::from(3_600_000_u32) / rate.max(1e-3)) as u64;
        self.random.below(2 * mean_ms.min(100 * HOUR_MS)) * MS
    }

    /// A fault happens, and will again.
    pub(crate) fn host_fault(&mut self, fault: HostFault) -> Result<(), Violation> {
        if !self.has_faults() {
            return Ok(());
        }
        self.note(|| format!("FAULT {fault:?}"));
        *self.meter.faults.entry(fault.name()).or_default() += 1;
        self.schedule(fault);
        match fault {
            HostFault::Kill => self.kill_coordinator(None)?,
            HostFault::DiskKill => self.arm(Armed::Kill),
            HostFault::Restart => self.restart_coordinator()?,
            HostFault::Stall => {
                let ns = self.random.range(SECOND..120 * SECOND);
                self.stalled_until = self.time + ns;
                self.checks.forgive(self.time.saturating_sub(UNSYNCED));
            }
            HostFault::Second => self.start_second()?,
            HostFault::DiskError => {
                let at = 1 + self.random.below(30);
                self.machine.get().disk.arm(Fault::Error { at, kind: ErrorKind::Other });
            }
            HostFault::DiskFull => {
                let room = self.random.below(20_000);
                let disk = self.machine.get().disk.clone();
                disk.set_capacity(Some(disk.used() + room));
                self.for_a_while(fault, 5 * MINUTE);
            }
            HostFault::ClockJump => {
                let by = i64::try_from(self.random.below(2 * HOUR_MS)).unwrap_or(0);
                self.set_clock(by - 3_600_000);
            }
            HostFault::Suspend => {
                let night = self.random.below(8 * HOUR_MS);
                self.set_clock(i64::try_from(night).unwrap_or(0));
            }
            HostFault::Reboot if self.random.coin() => self.arm(Armed::PowerCut),
            HostFault::Reboot => self.reboot(),
            HostFault::TmuxDeath => self.end_tmux(),
            HostFault::TmuxHang => {
                self.set_tmux(false);
                self.for_a_while(fault, 3 * MINUTE);
            }
            HostFault::RegistryGone => {
                self.set_registry(false);
                self.for_a_while(fault, 10 * MINUTE);
            }
            HostFault::RegistryStale => {
                self.registry_stale_until = self.time + self.random.below(5 * MINUTE);
                let until = self.registry_stale_until;
                self.at(until - self.time, What::Over(fault));
            }
            HostFault::RegistryOdd => self.write_odd_registry(),
        }
        Ok(())
    }

    fn for_a_while(&mut self, fault: HostFault, max: u64) {
        let after = self.random.below(max);
        self.at(after, What::Over(fault));
    }

    /// What a fault did for a while is over.
    pub(crate) fn fault_over(&mut self, fault: HostFault) {
        self.note(|| format!("{fault:?} is over"));
        match fault {
            HostFault::DiskFull => self.machine.get().disk.set_capacity(None),
            HostFault::TmuxHang => self.set_tmux(true),
            HostFault::TmuxDeath => self.start_tmux(),
            HostFault::RegistryGone if self.rates.has_registry => self.set_registry(true),
            HostFault::RegistryStale => {
                (0..self.places.len()).for_each(|place| self.write_registry(place));
            }
            HostFault::RegistryGone
            | HostFault::Kill
            | HostFault::DiskKill
            | HostFault::Restart
            | HostFault::Stall
            | HostFault::Second
            | HostFault::DiskError
            | HostFault::ClockJump
            | HostFault::Suspend
            | HostFault::Reboot
            | HostFault::RegistryOdd => (),
        }
    }

    /// No more faults, and whatever was taken away for a while is back.
    pub(crate) fn stop_faults(&mut self) -> Result<(), Violation> {
        self.rates = self.rates.none();
        self.machine.get().disk.disarm();
        self.machine.get().has_enter = true;
        self.checks.armed = None;
        self.stalled_until = 0;
        self.registry_stale_until = 0;
        self.machine.get().unwatchable.clear();
        self.machine.get().pace.disk = 0..self.rates.sync_ms_max;
        for fault in [
            HostFault::DiskFull,
            HostFault::TmuxHang,
            HostFault::RegistryGone,
            HostFault::RegistryStale,
        ] {
            self.fault_over(fault);
        }
        if self.rates.has_tmux && !self.machine.get().tmux.contains_key(SOCKET) {
            self.start_tmux();
        }
        if self.serving.is_none() {
            self.start_coordinator()?;
        }
        self.orders_all_free();
        Ok(())
    }

    /// A journal that could not be synced is reopened by its coordinator, if that lives long enough.
    fn is_killed_unsynced(&mut self) -> bool {
        let is_read_only = |one: &Serving| one.coordinator().is_read_only();
        let is_unsynced = self.serving.as_ref().is_some_and(is_read_only);
        let is_news = is_unsynced && self.checks.unsynced_from.is_none();
        if is_news {
            self.checks.unsynced_from = Some(self.time.saturating_sub(UNSYNCED));
        } else if !is_unsynced {
            self.checks.unsynced_from = None;
        }
        is_news && self.random.chance(0.3)
    }

    pub(crate) fn start_coordinator(&mut self) -> Result<(), Violation> {
        if self.serving.is_some() {
            return Ok(());
        }
        self.arm_disk();
        match Serving::start(&self.machine, &self.config) {
            Ok(serving) => {
                self.meter.starts += 1;
                self.note(|| "the coordinator starts".to_owned());
                self.checks.started(serving.coordinator(), self.now());
                self.checks.started_at = self.time;
                self.acts.coordinator_starts();
                self.serving = Some(serving);
                self.spool_changed = true;
                self.follow_disk_fault().map(drop)
            }
            Err(error) if self.has_faults() => {
                self.note(|| format!("the coordinator does not start: {error:#}"));
                self.machine.get().forget_coordinator();
                self.follow_disk_fault()?;
                self.at(SECOND, What::CoordinatorStarts);
                Ok(())
            }
            Err(error) => Err(Violation::new("G1", format!("the store does not open: {error:#}"))),
        }
    }

    fn start_later(&mut self) {
        let after = match self.random.below(10) {
            0..6 => self.random.below(2 * SECOND),
            6..9 => self.random.below(2 * MINUTE),
            _ => self.random.below(30 * MINUTE),
        };
        self.at(after, What::CoordinatorStarts);
    }

    /// SIGKILL; the page cache stays.
    pub(crate) fn kill_coordinator(&mut self, disk: Option<FakeDisk>) -> Result<(), Violation> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let disk = disk.unwrap_or_else(|| self.machine.get().disk.after_crash(Damage::Kept));
        disk.set_capacity(None);
        let shown = image_of(serving.coordinator().state());
        let is_failed = serving.coordinator().is_read_only();
        // A sync that failed loses what it was to save; what nobody synced nobody promised.
        self.checks.ended(self.time);
        self.checks.forgive(if is_failed { 0 } else { self.time.saturating_sub(UNSYNCED) });
        serving.kill();
        self.hang_up();
        self.set_disk(disk.clone());
        self.meter.kills += 1;
        self.start_later();
        if is_failed {
            self.said.reread(reopen(&disk)?.state(), self.time);
        }
        self.check_reopened(&disk, &shown)
    }

    /// SIGTERM, after which the snapshot has everything.
    fn restart_coordinator(&mut self) -> Result<(), Violation> {
        self.stalled_until = 0;
        self.turn()?;
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let (mut state, now) = (serving.coordinator().state().clone(), self.now());
        let shown = image_of(&state);
        // What is due by now is recorded on the way out, unless the disk refuses it until the end.
        let due = state.is_due(now).then(|| {
            coord_core::step(&mut state, &coord_model::Event::Due, now);
            image_of(&state)
        });
        self.arm_disk();
        let ended = serving.end();
        self.hang_up();
        self.checks.ended(self.time);
        self.note(|| format!("the coordinator ends: {ended:?}"));
        let disk = self.machine.get().disk.clone();
        self.follow_disk_fault()?;
        self.start_later();
        let disk = disk.after_crash(Damage::Kept);
        let is_kept = self.check_reopened(&disk, &shown);
        due.filter(|_| is_kept.is_err()).map_or(is_kept, |due| self.check_reopened(&disk, &due))
    }

    /// G10: what a coordinator showed is what the files show.
    fn check_reopened(&mut self, disk: &FakeDisk, shown: &Image) -> Result<(), Violation> {
        let engine = reopen(disk)?;
        self.meter.reopened += 1;
        shown.compare(&image_of(engine.state()))
    }

    fn start_second(&mut self) -> Result<(), Violation> {
        if self.serving.is_none() {
            return Ok(());
        }
        let second = Serving::start(&self.machine, &self.config);
        match second {
            Err(_) => Ok(()),
            Ok(_) => Err(Violation::new("H-14", "two coordinators on one store".to_owned())),
        }
    }

    fn arm(&mut self, armed: Armed) {
        self.checks.armed = Some((armed, 1 + self.random.below(60)));
    }

    /// The coordinator's next operations on the disk are counted, nobody else's.
    pub(crate) fn arm_disk(&mut self) {
        if let Some((_, at)) = self.checks.armed {
            let machine = self.machine.get();
            machine.disk.arm(Fault::PowerCut { at });
            self.checks.armed_from = machine.disk.operations();
        }
    }

    /// If the armed operation has come: the coordinator, or the machine, ended there. True if so.
    pub(crate) fn follow_disk_fault(&mut self) -> Result<bool, Violation> {
        let Some((armed, at)) = self.checks.armed else {
            if self.is_killed_unsynced() {
                self.kill_coordinator(None)?;
            }
            return Ok(false);
        };
        let disk = self.machine.get().disk.clone();
        let done = disk.operations().saturating_sub(self.checks.armed_from);
        if done < at {
            disk.disarm();
            self.checks.armed = Some((armed, at - done));
            return Ok(false);
        }
        self.checks.armed = None;
        self.note(|| format!("the armed operation has come: {armed:?}"));
        match armed {
            Armed::Kill => {
                let after = disk.after_crash(Damage::Kept);
                self.set_disk(after.clone());
                self.kill_coordinator(Some(after))?;
            }
            Armed::PowerCut => self.lose_power(&disk)?,
        }
        Ok(true)
    }

    fn lose_power(&mut self, disk: &FakeDisk) -> Result<(), Violation> {
        let damage = match self.random.below(3) {
            0 => Damage::Dropped,
            _ => Damage::Torn(self.random.next()),
        };
        self.meter.power_cuts += 1;
        self.needs.forget();
        // What could not be synced before the power went nobody promised.
        if let Some(from) = self.checks.unsynced_from {
            self.checks.forgive(from);
        }
        for owner in std::mem::take(&mut self.checks.ends_in_spool) {
            if let Some(life) = self.lives.get_mut(&owner) {
                life.end_told = None;
            }
        }
        self.boot_anew(disk.after_crash(damage));
        let known = reopen(&self.machine.get().disk)?;
        // What was acknowledged a moment ago is not durable yet (G1).
        for life in self.lives.values_mut() {
            if !life.ends.iter().any(|(id, _)| known.state().has_seen(*id)) {
                life.end_told = None;
            }
        }
        self.said.reread(known.state(), self.time);
        self.check_kept(known.state())?;
        self.checks.power_lost(&self.machine.get().disk, self.time)
    }

    /// A planned restart: everybody is asked to end first.
    fn reboot(&mut self) {
        for place in 0..self.places.len() {
            if self.random.chance(0.7) {
                self.fire(place, &self.end_payload(place));
                self.take_leave(place);
            }
        }
        if let Some(serving) = self.serving.take() {
            let ended = serving.end();
            self.note(|| format!("the coordinator ends: {ended:?}"));
        }
        let disk = self.machine.get().disk.after_crash(Damage::Kept);
        self.boot_anew(disk);
    }

    pub(crate) fn end_payload(&self, place: usize) -> Value {
        let session = self.places.get(place).and_then(|one| one.client.as_ref());
        let session_id = session.map_or("", |one| one.session_id.as_str());
        json!({"session_id": session_id, "hook_event_name": "SessionEnd", "reason": "other"})
    }

    fn boot_anew(&mut self, disk: FakeDisk) {
        disk.disarm();
        disk.set_capacity(None);
        self.checks.armed = None;
        if let Some(serving) = self.serving.take() {
            serving.kill();
        }
        for life in self.lives.values_mut() {
            life.may_be_taken = true;
            life.survivor_until = 0;
        }
        for place in 0..self.places.len() {
            self.becomes(place, Truth::TakenAlong);
            self.prompts_end(place, End::Kill);
            self.leaves_conversation(place, End::Kill);
            if let Some(one) = self.places.get_mut(place) {
                one.client = None;
            }
            let after = self.random.range(60..900) * SECOND;
            self.at(after, What::Starts(place));
        }
        self.key_at = None;
        self.said.rebase();
        self.acts.rebase();
        self.posts.clear();
        self.stalled_until = 0;
        self.missed_until = 0;
        self.boots += 1;
        // The new boot's clocks begin some time after the old one's ended.
        self.booted_at = i128::from(self.time) - i128::from(20 * SECOND);
        let (boot, now) = (self.boot(), self.now());
        self.machine.get().reboot(boot, now, disk);
        self.forget_runs();
        self.start_tmux();
        let after = self.random.range(SECOND..120 * SECOND);
        self.at(after, What::CoordinatorStarts);
    }

    fn set_clock(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
        let now = self.now();
        self.machine.get().now = now;
    }

    pub(crate) fn start_tmux(&mut self) {
        if !self.rates.has_tmux {
            return;
        }
        let pid = self.free_pid();
        let process = self.machine.get().spawn(pid, Kind::Headless, 0);
        let panes = self.new_panes().into_iter().collect();
        let server = TmuxServer { panes, ..TmuxServer::new(process) };
        self.machine.get().tmux.insert(SOCKET.to_owned(), server);
    }

    fn set_tmux(&mut self, answers: bool) {
        if let Some(server) = self.machine.get().tmux.get_mut(SOCKET) {
            server.answers = answers;
        }
    }

    /// The server dies: its clients get SIGHUP, and some do not get to their end.
    fn end_tmux(&mut self) {
        let Some(server) = self.machine.get().tmux.remove(SOCKET) else { return };
        self.machine.get().end(server.process);
        self.close_terminals();
        self.key_at = None;
        for place in 0..self.places.len() {
            if self.running(place).is_none_or(|one| !one.client.is_interactive) {
                continue;
            }
            let end = if self.random.chance(0.8) { End::Other } else { End::Kill };
            if end == End::Other {
                self.fire(place, &self.end_payload(place));
                self.take_leave(place);
            }
            self.dies(place, end);
        }
        // Nobody who comes later can tell which of two ends came first.
        let down_since = self.checks.down_since.saturating_sub(UNMARKED);
        let is_new = self.time < self.checks.started_at + NEAR;
        let unseen_since = if self.serving.is_none() || is_new { down_since } else { self.time };
        let boot = self.boot();
        for ((of, _), life) in &mut self.lives {
            // What was to be brought back has nowhere to come back to.
            let is_near = unseen_since <= life.since + NEAR || life.truth == Truth::Crashed;
            if *of == boot && !life.truth.is_alive() && is_near {
                life.may_be_taken = true;
            }
        }
        let after = self.random.range(SECOND..MINUTE);
        self.at(after, What::Over(HostFault::TmuxDeath));
    }

    fn set_registry(&mut self, is_there: bool) {
        if let Some(registry) = self.machine.get().registries.get_mut(CONFIG_DIR) {
            registry.set_there(is_there);
        }
        if is_there {
            (0..self.places.len()).for_each(|place| self.write_registry(place));
        } else {
            self.lives.values_mut().for_each(|life| life.lost_entry = true);
        }
    }
}

//! Decides when the loop has to turn, and what a turn does and in which order: spool, deadlines,
//! captures, syncs, heartbeat (H-05: first the socket, then the spool, then the judgement of deaths).

use coord_model::{Event, Now};

use crate::coordinator::Coordinator;
use crate::intake::Intake;
use crate::world::World;

/// Longest time between two turns, in nanoseconds, so that a gap can be told from rest (H-32).
const HEARTBEAT_NS: u64 = 5_000_000_000;
/// While any session lives, a record is made at least this often, in nanoseconds.
const MARK_NS: u64 = 60_000_000_000;
/// Interval in nanoseconds at which stopped processes are looked for; no source reports them.
const STOPPED_NS: u64 = 800_000_000;
/// A longer gap between turns, or a larger jump of the wall clock, is recorded; in nanoseconds.
const GAP_NS: u64 = 10_000_000_000;
/// Delay in nanoseconds after which a spool is tried again to which a hook is writing.
const SPOOL_AGAIN_NS: u64 = 20_000_000;

/// Longest time, in nanoseconds, that a death waits for the spool to become empty.
const JUDGED_WITHIN_NS: u64 = 2_000_000_000;

/// Times in a row that a deadline may still be due after it was met; one action can make the next one
/// due.
const STAYED_DUE_MAX: u32 = 100;

/// When the loop has to turn. All times are in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) struct Schedule {
    spool_at: Option<u64>,
    /// Since when deaths wait for the spool to become empty.
    judging_since: Option<u64>,
    heartbeat_at: u64,
    stopped_at: u64,
    /// The core's deadlines and the pending observations wait until then, after the store refused the
    /// last record or a deadline stayed due.
    deadlines_from: u64,
    /// Times in a row that a deadline was still due after it had been met.
    stayed_due: u32,
    last_turn: Now,
}

impl Schedule {
    /// The schedule of a coordinator that starts: everything is due.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            spool_at: Some(now.mono_ns),
            judging_since: None,
            heartbeat_at: now.mono_ns,
            stopped_at: now.mono_ns,
            deadlines_from: now.mono_ns,
            stayed_due: 0,
            last_turn: now,
        }
    }
}

impl<W: World> Coordinator<W> {
    /// When the loop has to turn at the latest, in nanoseconds of CLOCK_MONOTONIC.
    pub fn wake_at(&self) -> u64 {
        let schedule = &self.schedule;
        let owed = (!self.owed.is_empty()).then_some(0);
        let core = owed.or(self.engine.state().next_deadline());
        let core = core.map(|at| at.max(schedule.deadlines_from));
        let timers = [schedule.heartbeat_at, schedule.stopped_at];
        let all = timers.into_iter().chain(schedule.spool_at).chain(core);
        let all = all.chain(self.sync_at()).chain(self.reopen_at()).chain(self.counted_at());
        let all = all.chain(self.show_at()).chain(self.notifier_lost_at());
        all.min().unwrap_or(schedule.heartbeat_at)
    }

    /// Begins a turn, and records a gap if the loop was held up, the machine slept, or the wall clock
    /// was set (H-32).
    pub fn begin_turn(&mut self, now: Now) {
        let last = self.schedule.last_turn;
        let passed_ns = now.mono_ns.saturating_sub(last.mono_ns);
        let wall_ns = now.wall_ms.abs_diff(last.wall_ms).saturating_mul(1_000_000);
        let stood_ns = passed_ns.saturating_sub(HEARTBEAT_NS);
        if GAP_NS < stood_ns || GAP_NS < wall_ns.abs_diff(passed_ns) {
            let ns = if GAP_NS < stood_ns { stood_ns } else { 0 };
            tracing::warn!(stood_ms = ns / 1_000_000, "gap");
            self.record_or_owe(Event::Gap { ns }, now);
        }
        self.schedule.last_turn = now;
    }

    /// Notes that the spool may contain events.
    pub fn on_spool(&mut self) {
        self.schedule.spool_at = Some(0);
    }

    /// Schedules what waited for the journal, which accepts records again: the spool first, then the
    /// deadlines.
    pub(crate) fn take_up_again(&mut self, now: Now) {
        self.schedule.spool_at = Some(now.mono_ns);
        self.schedule.deadlines_from = now.mono_ns;
    }

    /// Whether a death waits for judgement. If so, the caller processes what the socket holds before the
    /// turn ends (H-05).
    pub fn is_judging(&self) -> bool {
        !self.deaths.is_empty()
    }

    /// Records that time passed, so that after a restart the coordinator knows how long it watched, and
    /// periods of silence count (H-10, H-32).
    fn mark(&mut self, now: Now) {
        let state = self.engine.state();
        let last_ns = state.header().last.map_or(0, |last| last.mono_ns);
        let is_old = MARK_NS <= now.mono_ns.saturating_sub(last_ns);
        if is_old && state.sessions().any(coord_core::Session::may_live) {
            self.record_or_say(&Event::Due, now);
        }
    }

    /// Meets the core's deadlines. A deadline that stays due, however often it is met, is a bug
    /// of the core. The next attempt is then delayed, so that the loop and the journal do not run
    /// for ever.
    fn meet_deadlines(&mut self, now: Now) {
        let met = self.tick(now);
        let stays = met.is_ok() && self.engine.state().is_due(now);
        self.schedule.stayed_due =
            if stays { self.schedule.stayed_due.saturating_add(1) } else { 0 };
        if let Err(error) = met {
            tracing::warn!(%error, "a deadline was not met");
        } else if self.schedule.stayed_due < STAYED_DUE_MAX {
            return;
        } else {
            tracing::error!("a deadline stays due");
            self.invariant_violations = self.invariant_violations.saturating_add(1);
        }
        self.schedule.deadlines_from = now.mono_ns.saturating_add(HEARTBEAT_NS);
    }

    /// Whether what time alone changes has happened by now. While time is not recorded, and until the
    /// next attempt afterwards, it has not.
    pub fn has_met_deadlines(&self, now: Now) -> bool {
        self.is_time_recorded() && self.schedule.deadlines_from <= now.mono_ns
    }

    /// Drains the spool, and judges deaths once it is empty (H-05). A spool that does not become empty
    /// delays them by [`JUDGED_WITHIN_NS`] at most.
    fn take_spool_and_judge(&mut self, now: Now) {
        let is_due = self.schedule.spool_at.is_some_and(|at| at <= now.mono_ns);
        let mut has_more = false;
        if self.is_judging() || is_due {
            let intake = self.drain_spool(now);
            has_more = intake == Intake::More;
            self.schedule.spool_at = match intake {
                Intake::Empty => None,
                Intake::More => Some(now.mono_ns),
                Intake::Again => Some(now.mono_ns.saturating_add(SPOOL_AGAIN_NS)),
                Intake::Refused => Some(now.mono_ns.saturating_add(HEARTBEAT_NS)),
            };
        }
        if !self.is_judging() {
            return;
        }
        let since = *self.schedule.judging_since.get_or_insert(now.mono_ns);
        if !has_more || JUDGED_WITHIN_NS <= now.mono_ns.saturating_sub(since) {
            self.schedule.judging_since = None;
            self.judge_deaths();
        }
    }

    /// Does everything that is due at the end of a turn. Returns whether the turn had a heartbeat.
    pub fn end_turn(&mut self, is_sync_awaited: bool, now: Now) -> bool {
        let is_due = |at: u64| at <= now.mono_ns;
        if !self.owed.is_empty() && is_due(self.schedule.deadlines_from) && !self.pay(now) {
            self.schedule.deadlines_from = now.mono_ns.saturating_add(HEARTBEAT_NS);
        }
        self.take_spool_and_judge(now);
        let deadline = self.engine.state().next_deadline();
        if deadline.is_some_and(is_due) && is_due(self.schedule.deadlines_from) {
            self.meet_deadlines(now);
        }
        self.look_at_panes();
        self.lose_notifier(now);
        self.show_state(now);
        self.reopen_if_due(now);
        self.sync_if_due(is_sync_awaited, now);
        if is_due(self.schedule.stopped_at) {
            self.schedule.stopped_at = now.mono_ns.saturating_add(STOPPED_NS);
            self.look_for_stopped(now);
        }
        let is_heartbeat = is_due(self.schedule.heartbeat_at);
        if is_heartbeat {
            self.schedule.heartbeat_at = now.mono_ns.saturating_add(HEARTBEAT_NS);
            self.look_for_registries();
            self.watch_unwatched(now);
            self.check_invariants(now);
            self.restore_reserve();
            self.retry_config(now);
            self.read_local_clock(now);
            self.schedule.spool_at.get_or_insert(now.mono_ns);
            self.look_for_shutdown(now);
            self.mark(now);
        }
        is_heartbeat
    }
}

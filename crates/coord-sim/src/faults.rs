//! The fault model: what goes wrong on the simulated machine, and how often.
//!
//! Each seed draws its own rates (swarm), most of them zero, so that faults meet in ever other
//! combinations. What can go wrong:
//!
//! * *Hooks*: one never runs; runs late, by up to two minutes, and so out of order; is registered twice
//!   (the same event under two ids); is answered too late, so that the event is taken and spooled as
//!   well (one id twice); meets half an exchange or a refusal; is killed before its exchange, between
//!   its exchange and its end, or in the middle of its spool record.
//! * *The coordinator*: SIGKILL between any two turns of its loop, or at any single operation of its
//!   disk; SIGTERM; stopped for seconds to minutes and continued; down for up to half an hour; a second
//!   one started beside it.
//! * *Its disk*: one operation fails with EIO; no space for a while; power cut, with what was not synced
//!   kept, dropped or torn; slow syncs.
//! * *Time*: the wall clock is set by up to an hour, forwards and back; suspend, for up to a night.
//! * *The machine*: restart, planned or by power cut; the tmux server dies with everything in it, hangs
//!   for a while, or is not there at all; pids and pane ids are used again.
//! * *The client's registry*: not there at all, gone for a while, not written for a while (stale), an
//!   entry half written, entries of dead clients left behind and of others' sessions (spoofed).
//! * *Watching*: a process's end cannot be watched.
//! * *Forgers*: see [`crate::forgers`].
//!
//! Left out, and why: bits that rot in synced data (the store's own tests flip them); hooks that lie
//! on purpose about their own session (H-25 confines them to it, proved on the real socket); clients
//! in other pid namespaces or on other machines and foreign supervisors (nothing of them changes with
//! time, so scenarios prove them); the HTTP bytes themselves (fuzzed); the real executables and their
//! time limits (run for real, killed for real); clocks that run backwards within a boot
//! (CLOCK_MONOTONIC does not).

use coord_testkit::Random;

/// Rates of one seed. Shares are of 1; the others are per hour.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates {
    /// Share of hooks that never run.
    pub(crate) hook_lost: f64,
    /// Share that run late.
    pub(crate) hook_late: f64,
    /// Share that fire under two ids.
    pub(crate) hook_twice: f64,
    /// Share that are answered too late.
    pub(crate) hook_slow: f64,
    /// Share whose exchange fails.
    pub(crate) hook_refused: f64,
    /// Share that are killed.
    pub(crate) hook_killed: f64,
    /// SIGKILL of the coordinator between two turns.
    pub(crate) kills: f64,
    /// SIGKILL of the coordinator at an operation of its disk.
    pub(crate) disk_kills: f64,
    /// SIGTERM of the coordinator.
    pub(crate) restarts: f64,
    /// The coordinator stopped and continued.
    pub(crate) stalls: f64,
    /// A second coordinator started.
    pub(crate) seconds: f64,
    /// Operations of the disk that fail.
    pub(crate) disk_errors: f64,
    /// Times without space.
    pub(crate) disk_full: f64,
    /// The clock set.
    pub(crate) clock_jumps: f64,
    /// Suspends.
    pub(crate) suspends: f64,
    /// Restarts of the machine.
    pub(crate) reboots: f64,
    /// Deaths of the tmux server.
    pub(crate) tmux_deaths: f64,
    /// Times in which the tmux server hangs.
    pub(crate) tmux_hangs: f64,
    /// Times without a registry.
    pub(crate) registry_gone: f64,
    /// Times in which the registry is not written.
    pub(crate) registry_stale: f64,
    /// Spoofed or half-written registry entries.
    pub(crate) registry_odd: f64,
    /// Share of processes whose end cannot be watched at first.
    pub(crate) unwatchable: f64,
    /// Share of starts that use a pid again.
    pub(crate) pid_reuse: f64,
    /// Whether every hook comes through, and at once, from the first to the last.
    pub(crate) are_hooks_sure: bool,
    /// Whether there is a registry at all.
    pub(crate) has_registry: bool,
    /// Whether clients run in tmux.
    pub(crate) has_tmux: bool,
    /// Longest sync, in milliseconds.
    pub(crate) sync_ms_max: u64,
}

impl Rates {
    /// The rates of a seed.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut share = |max: f64| if random.chance(0.5) { 0.0 } else { max * part(random) };
        let (hook_lost, hook_late, hook_twice) = (share(0.2), share(0.2), share(0.1));
        let (hook_slow, hook_refused, hook_killed) = (share(0.2), share(0.2), share(0.1));
        let (unwatchable, pid_reuse) = (share(0.2), share(0.5));
        let mut often = |max: f64| if random.chance(0.6) { 0.0 } else { max * part(random) };
        Self {
            hook_lost,
            hook_late,
            hook_twice,
            hook_slow,
            hook_refused,
            hook_killed,
            kills: often(20.0),
            disk_kills: often(20.0),
            restarts: often(20.0),
            stalls: often(6.0),
            seconds: often(6.0),
            disk_errors: often(10.0),
            disk_full: often(3.0),
            clock_jumps: often(4.0),
            suspends: often(3.0),
            reboots: often(3.0),
            tmux_deaths: often(2.0),
            tmux_hangs: often(4.0),
            registry_gone: often(4.0),
            registry_stale: often(4.0),
            registry_odd: often(20.0),
            unwatchable,
            pid_reuse,
            are_hooks_sure: [hook_lost, hook_late, hook_killed].iter().all(|share| *share <= 0.0),
            has_registry: random.chance(0.75),
            has_tmux: random.chance(0.8),
            sync_ms_max: if random.chance(0.3) { 20 } else { 5 },
        }
    }

    /// The faults stop; what the machine lacks it goes on lacking.
    #[must_use]
    pub(crate) fn none(&self) -> Self {
        Self {
            are_hooks_sure: self.are_hooks_sure,
            has_registry: self.has_registry,
            has_tmux: self.has_tmux,
            sync_ms_max: 5,
            ..Self::default()
        }
    }
}

/// A part of the whole, small ones as likely as large ones.
fn part(random: &mut Random) -> f64 {
    [0.02, 0.1, 0.3, 1.0].get(random.index(4)).copied().unwrap_or(1.0)
}

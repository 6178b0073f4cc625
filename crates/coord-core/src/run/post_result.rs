//! Decides when a run that does not end is ended (S2-05, S2-20, S3-03 to S3-14, S3-20 to S3-22).
//!
//! Each tier has a base: the moment from which it may end the run. After that, one table decides (S3-21): pending
//! work defers the end, live work extends the base up to a cap, and nothing else does. No tier depends on another
//! having run.

use alloc::format;
use alloc::string::String;

use coord_model::Awake;

use super::{Activity, ExitReason, Run};

/// Maximum age of a look that counts as made for the decision, in milliseconds (G4).
const FRESH_MS: u64 = 2_000;

pub(super) enum Verdict {
    /// Nothing is due.
    Nothing,
    /// Something is due, and is deferred.
    Wait { reason: &'static str, until: Awake },
    /// Something is due, and needs a look first.
    Look,
    /// The run has to be ended.
    End { reason: ExitReason, because: String },
}

/// A reason to end a run. They are checked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// The run takes too long (S2-20).
    Invocation,
    /// The output ended (S3-03).
    Eof,
    /// The result came (S3-10).
    Limbo,
    /// The run reported an error and hangs (S2-05).
    ErrorHang,
    /// The run is silent, and gave no result (S3-22).
    Silence,
}

const TIERS: [Tier; 5] = [Tier::Invocation, Tier::Eof, Tier::Limbo, Tier::ErrorHang, Tier::Silence];

impl Tier {
    /// The moment from which this tier may end the run; none if it may not.
    fn base(self, run: &Run) -> Option<Awake> {
        let limits = &run.limits;
        match self {
            Self::Invocation => Some(invocation(run)),
            Self::Eof => run.eof.map(|eof| eof.max(run.rearmed).plus_ms(limits.post_result_ms)),
            Self::Limbo => {
                let (at, _) = run.last_result.as_ref().filter(|_| run.eof.is_none())?;
                Some((*at).max(run.last_output).max(run.rearmed).plus_ms(limits.limbo_ms))
            }
            Self::ErrorHang => {
                let case = run.case.as_ref()?;
                let from = case.at.max(run.last_output).max(run.rearmed);
                Some(from.plus_ms(confirm_ms(run)))
            }
            Self::Silence => {
                let is_open = run.last_result.is_none() && run.eof.is_none();
                let from = run.last_output.max(run.rearmed);
                is_open.then(|| from.plus_ms(limits.first_result_ms))
            }
        }
    }

    fn reason(self) -> ExitReason {
        match self {
            Self::Invocation => ExitReason::Invocation,
            Self::Eof => ExitReason::ReaderDoneButAlive,
            Self::Limbo => ExitReason::PostResultLimbo,
            Self::ErrorHang => ExitReason::ErrorHang,
            Self::Silence => ExitReason::FirstResult,
        }
    }

    /// Whether this tier is checked during a turn. A running tool explains any silence then.
    fn is_in_a_turn(self) -> bool {
        match self {
            Self::ErrorHang | Self::Silence => true,
            Self::Invocation | Self::Eof | Self::Limbo => false,
        }
    }
}

/// When the run has taken too long. Time spent waiting for quota does not count (S1-19).
fn invocation(run: &Run) -> Awake {
    let waiting = run.quota_since.map_or(0, |since| run.last_output.ms_since(since));
    let ms = run.limits.timeout_ms.saturating_add(run.quota_ms).saturating_add(waiting);
    run.begun.plus_ms(ms)
}

/// Silence that confirms a hang, in milliseconds. Before a result, the client's own retries outlast any short
/// silence (H-09).
fn confirm_ms(run: &Run) -> u64 {
    match &run.last_result {
        Some(_) => run.limits.confirm_ms,
        None => run.limits.confirm_before_result_ms,
    }
}

/// When the next tier reaches its base.
pub(super) fn next_base(run: &Run) -> Option<Awake> {
    let is_later = |base: &Awake| run.hold.as_ref().is_none_or(|hold| hold.until < *base);
    TIERS.into_iter().filter_map(|tier| tier.base(run)).filter(is_later).min()
}

/// The name of its pending work for people; none if nothing is pending (S3-14).
pub(super) fn pending(run: &Run, now: Awake) -> Option<&'static str> {
    if !run.controls.is_empty() {
        return Some("a request");
    }
    if run.wakes_at.is_some_and(|at| now < at) {
        return Some("a wake-up");
    }
    has_live_work(run).then_some("background work")
}

fn has_live_work(run: &Run) -> bool {
    // MCP servers alone do not count as work: they live as long as the client.
    let tools = run.tree.is_some_and(|(_, tree)| tree.tools > 0);
    run.tasks.is_any() || tools || run.activity == Activity::Busy
}

pub(super) fn verdict(run: &Run, now: Awake) -> Verdict {
    let due = TIERS.into_iter().filter_map(|tier| Some((tier, tier.base(run)?)));
    // The wait that ends first: then the run is decided again.
    let mut first: Option<(&'static str, Awake)> = None;
    for (tier, base) in due.filter(|(_, base)| *base <= now) {
        match decide(run, tier, base, now) {
            Verdict::Nothing => (),
            Verdict::Wait { reason, until } => {
                first = first.filter(|(_, other)| *other <= until).or(Some((reason, until)));
            }
            other @ (Verdict::Look | Verdict::End { .. }) => return other,
        }
    }
    first.map_or(Verdict::Nothing, |(reason, until)| Verdict::Wait { reason, until })
}

fn decide(run: &Run, tier: Tier, base: Awake, now: Awake) -> Verdict {
    if now < run.settles_until {
        return Verdict::Wait { reason: "settling", until: run.settles_until };
    }
    let end = |because: String| Verdict::End { reason: tier.reason(), because };
    let s = run.limits.timeout_ms / 1000;
    if tier == Tier::Invocation {
        return end(format!("the time limit of {s} s is reached"));
    }
    if tier == Tier::ErrorHang && confirm_ms(run) == 0 {
        return end(String::from("the run reported an error that coord does not wait for"));
    }
    if let Some((reason, cap)) = deferral(run, tier, base) {
        let until = cap.min(invocation(run));
        if now < until {
            return Verdict::Wait { reason, until };
        }
    }
    if run.tree.is_none_or(|(at, _)| now.ms_since(at) > FRESH_MS) {
        return Verdict::Look;
    }
    let silent_s = now.ms_since(run.last_output) / 1000;
    let because = || {
        let (activity, work) = (run.activity.word(), if has_live_work(run) { "" } else { "no " });
        format!("silent for {silent_s} s, {work}live work, process tree {activity}")
    };
    match extension(run, tier, base) {
        Some((reason, until)) if now < until.min(invocation(run)) => {
            Verdict::Wait { reason, until: until.min(invocation(run)) }
        }
        Some(_) | None => end(because()),
    }
}

/// What defers a tier, whatever the tree does, and until when at most.
fn deferral(run: &Run, tier: Tier, base: Awake) -> Option<(&'static str, Awake)> {
    if !run.controls.is_empty() {
        return Some(("pending_request", invocation(run)));
    }
    // Checked before a wake-up, whose time may pass while the tool still runs.
    if !run.tools.is_empty() && tier.is_in_a_turn() {
        return Some(("tool_running", invocation(run)));
    }
    // After its wake-up the run gets as much time as after a result, and no more than the cap.
    let after = run.wakes_at?.plus_ms(run.limits.limbo_ms);
    Some(("scheduled_wakeup", after.min(base.plus_ms(run.limits.wakeup_ms))))
}

/// The table of S3-21: how long live work extends a base.
fn extension(run: &Run, tier: Tier, base: Awake) -> Option<(&'static str, Awake)> {
    let limits = &run.limits;
    // If the tree was busy until now, and is quiet or unreadable since, its time counts from then on.
    let lasting = |ms| {
        let until = run.activity_since.max(base).plus_ms(ms);
        until.min(base.plus_ms(limits.busy_ms))
    };
    if !has_live_work(run) {
        // An idle tree confirms a hang. A tree that cannot be read does not (S2-05).
        let is_unreadable = tier == Tier::ErrorHang && run.activity == Activity::Unknown;
        return is_unreadable.then(|| ("tree_unknown", lasting(limits.unknown_ms)));
    }
    let has_tools = run.tree.is_some_and(|(_, tree)| tree.tools > 0);
    let is_busy = run.activity == Activity::Busy;
    let is_at_work = match tier {
        Tier::Silence => has_tools || is_busy,
        // After a named error an idle tree is a hang, whatever it contains (S2-05).
        Tier::ErrorHang => is_busy,
        Tier::Invocation | Tier::Eof | Tier::Limbo => false,
    };
    if is_at_work && !run.has_stream {
        // Only the tree shows that it works.
        return Some(("tool_running", invocation(run)));
    }
    Some(match run.activity {
        Activity::Busy => ("background_work_busy", base.plus_ms(limits.busy_ms)),
        Activity::Unknown => ("background_work_unknown", lasting(limits.unknown_ms)),
        Activity::Quiet => ("background_work_quiet", lasting(limits.quiet_ms)),
    })
}

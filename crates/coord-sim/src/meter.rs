//! What a simulation counts: how much happened, and for how long what was shown was false.

use coord_model::SessionState;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::client::Truth;
use crate::places::Place;
use crate::simulation::Time;

/// Whether a client's state is shown as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Nothing is shown of it.
    Unlisted,
    Unknown,
    True,
    False,
}

impl Judged {
    pub(crate) fn of(truth: Truth, is_foreign: bool, shown: Option<SessionState>) -> Self {
        let Some(word) = shown else { return Self::Unlisted };
        let is_true = match word {
            SessionState::Unknown => return Self::Unknown,
            SessionState::Starting => truth == Truth::Started,
            SessionState::Idle => matches!(truth, Truth::Idle | Truth::Started),
            SessionState::Running | SessionState::Stalled => truth == Truth::Running,
            SessionState::Background => matches!(truth, Truth::Subagent | Truth::Shell),
            SessionState::AwaitingPermission => truth == Truth::AwaitingPermission,
            SessionState::AwaitingInput => truth == Truth::AwaitingInput,
            SessionState::QuotaWait => truth == Truth::Quota,
            SessionState::BlockedAuth => truth == Truth::Authentication,
            SessionState::BlockedBilling => truth == Truth::Billing,
            SessionState::Suspended => truth == Truth::Suspended,
            SessionState::Foreign => is_foreign,
            SessionState::Interrupted
            | SessionState::Crashed
            | SessionState::RecoveryPending
            | SessionState::Recovering
            | SessionState::Stopped
            | SessionState::Elsewhere => false,
        };
        if is_true { Self::True } else { Self::False }
    }
}

/// What a time was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions {
    /// Whether faults happened.
    pub has_faults: bool,
    /// Whether the client has a registry at all.
    pub has_registry: bool,
}

/// Session time, in nanoseconds, by how it was shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown {
    /// All of it.
    pub all: u64,
    /// Shown as another state than the true one.
    pub not_true: u64,
    /// Shown as unknown.
    pub unknown: u64,
    /// Not listed.
    pub unlisted: u64,
}

/// How true it was that an unattended session has stalled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Time of unattended sessions that live while a coordinator runs, in nanoseconds.
    pub unattended: u64,
    /// Stalls that were said.
    pub said: u64,
    /// Those of them whose client did not hang.
    pub not_true: u64,
    /// Hangs of unattended turns that were to be said: longer than the clock of what the turn was at and
    /// three heartbeats, seen all the time.
    pub due: u64,
    /// Those of them that nobody was told of.
    pub missed: u64,
}

/// Messages to sessions, by what became of them.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Accepted, and their senders were told so.
    pub sent: u64,
    /// Sent again, and folded into the first.
    pub folded: u64,
    /// Refused.
    pub refused: u64,
    /// Handed over, by the way that they left.
    pub deliveries: BTreeMap<String, u64>,
    /// Read by a model, in a request that it answered; and how often of that not for the first time.
    pub read: u64,
    /// The latter.
    pub repeats: u64,
    /// Those from coord, about the end of a session.
    pub told: u64,
    /// Those to which so many others led that a person has to let them pass.
    pub deep: u64,
    /// Where they were in the end.
    pub fates: BTreeMap<&'static str, u64>,
}

/// The ways by which messages leave, as they are counted.
const DELIVERY_PATHS: [&str; 5] =
    ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "the wake hook"];

impl Sent {
    /// What never happened, in words: nothing is proved of it.
    pub fn missing(&self) -> Option<String> {
        if self.deep == 0 {
            return Some("no message had to wait for a person".to_owned());
        }
        let unused =
            DELIVERY_PATHS.into_iter().find(|delivery| !self.deliveries.contains_key(*delivery));
        unused.map(|delivery| format!("no message left by {delivery}"))
    }
}

/// What happens about permission prompts, in words.
const SITUATIONS: [&str; 27] = [
    "several prompts at once",
    "several questions at once",
    "a later prompt decided first",
    "the same call asked for again",
    "dialog of a background subagent",
    "answered at the terminal beside a waiting hook",
    "interrupted beside a waiting hook",
    "coordinator gone beside a waiting hook",
    "two replies at once",
    "refused",
    "refused, since it does not fit",
    "refused at the door",
    "a headless run denied what nobody decided",
    "hidden: of a headless run",
    "hidden: of a subagent",
    "hidden: to the bound",
    "hidden: decided from elsewhere",
    "handed over",
    "handed over after the terminal",
    "kept back by the second look",
    "printed too late, and ignored",
    "allowed from elsewhere",
    "denied from elsewhere",
    "answered from elsewhere",
    "approved from elsewhere",
    "proved: taken",
    "proved: terminal first",
];

/// Counts and times of one simulation, or of many.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    /// Simulated time, nanoseconds.
    pub time: u64,
    /// Time of living clients, nanoseconds.
    pub sessions: u64,
    /// The same while a coordinator ran, by conditions.
    pub shown: BTreeMap<Conditions, Shown>,
    /// How true stalls were, by conditions.
    pub stalls: BTreeMap<Conditions, Stalls>,
    /// Hooks that ran.
    pub hooks: u64,
    /// Hooks that never ran.
    pub hooks_lost: u64,
    /// Events that the coordinator acknowledged.
    pub acknowledged: u64,
    /// Events that were spooled.
    pub spooled: u64,
    /// Turns of the loop, each with all checks.
    pub turns: u64,
    /// Coordinators started.
    pub starts: u64,
    /// Coordinators killed.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Stores compared with what was shown.
    pub reopened: u64,
    /// Events that somebody forged, over the socket.
    pub forged: u64,
    /// Clients that were killed or crashed.
    pub deaths: u64,
    /// Lines that resume a session put somewhere, and clients that were sent a signal.
    pub tried: u64,
    /// The latter.
    pub signals: u64,
    /// Acts that were not carried out because something had changed.
    pub changed: u64,
    /// Recoveries that came to an end, by how.
    pub ended: BTreeMap<&'static str, u64>,
    /// Texts that wake hooks were handed.
    pub wakes: u64,
    /// Those that asked whether a quota is back.
    pub probes: u64,
    /// Sessions that went on by such a wake.
    pub went_on: u64,
    /// A person's orders that were taken.
    pub orders: u64,
    /// Notices that channels showed, withdrawals among them.
    pub notices: u64,
    /// Messages to sessions.
    pub messages: Sent,
    /// What happened about permission prompts, hooks beside them and replies, by situation.
    pub requests: BTreeMap<&'static str, u64>,
    /// Headless runs, by how they ended.
    pub runs: BTreeMap<&'static str, u64>,
    /// Faults of the machine, by number.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Meter {
    /// What never happened, in words: nothing is proved of it.
    pub fn missing(&self) -> Option<String> {
        let unseen = SITUATIONS.into_iter().find(|one| !self.requests.contains_key(*one));
        let unseen = unseen.map(|one| format!("no permission prompt met this: {one}"));
        self.messages.missing().or(unseen)
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ns: Time, under: Conditions, places: &[Place], is_up: bool) {
        self.time += ns;
        let shown = self.shown.entry(under).or_default();
        for one in places.iter().filter_map(|place| place.client.as_ref()) {
            self.sessions += ns;
            if !is_up {
                continue;
            }
            shown.all += ns;
            match one.judged {
                Judged::True => (),
                Judged::False => shown.not_true += ns,
                Judged::Unknown => shown.unknown += ns,
                Judged::Unlisted => shown.unlisted += ns,
            }
        }
    }
}

impl AddAssign for Shown {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.not_true += other.not_true;
        self.unknown += other.unknown;
        self.unlisted += other.unlisted;
    }
}

impl AddAssign for Stalls {
    fn add_assign(&mut self, other: Self) {
        self.unattended += other.unattended;
        self.said += other.said;
        self.not_true += other.not_true;
        self.due += other.due;
        self.missed += other.missed;
    }
}

impl AddAssign<&Self> for Sent {
    fn add_assign(&mut self, other: &Self) {
        self.sent += other.sent;
        self.folded += other.folded;
        self.refused += other.refused;
        self.read += other.read;
        self.repeats += other.repeats;
        self.told += other.told;
        self.deep += other.deep;
        for (delivery, n) in &other.deliveries {
            *self.deliveries.entry(delivery.clone()).or_default() += n;
        }
        for (fate, n) in &other.fates {
            *self.fates.entry(fate).or_default() += n;
        }
    }
}

impl AddAssign<&Self> for Meter {
    fn add_assign(&mut self, other: &Self) {
        self.time += other.time;
        self.sessions += other.sessions;
        for (under, shown) in &other.shown {
            *self.shown.entry(*under).or_default() += *shown;
        }
        for (under, stalls) in &other.stalls {
            *self.stalls.entry(*under).or_default() += *stalls;
        }
        self.hooks += other.hooks;
        self.hooks_lost += other.hooks_lost;
        self.acknowledged += other.acknowledged;
        self.spooled += other.spooled;
        self.turns += other.turns;
        self.starts += other.starts;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.reopened += other.reopened;
        self.forged += other.forged;
        self.deaths += other.deaths;
        self.tried += other.tried;
        self.signals += other.signals;
        self.changed += other.changed;
        self.wakes += other.wakes;
        self.probes += other.probes;
        self.went_on += other.went_on;
        self.orders += other.orders;
        self.notices += other.notices;
        self.messages += &other.messages;
        for (how, n) in &other.ended {
            *self.ended.entry(how).or_default() += n;
        }
        for (situation, n) in &other.requests {
            *self.requests.entry(situation).or_default() += n;
        }
        for (how, n) in &other.runs {
            *self.runs.entry(how).or_default() += n;
        }
        for (fault, n) in &other.faults {
            *self.faults.entry(fault).or_default() += n;
        }
    }
}

//! Permission prompts that people answer at the terminal and from elsewhere at once.
//!
//! Beside each prompt its client starts a hook, which waits for a reply where it may ([`hooks`]). People look at what is
//! open, and reply with what they saw some time ago ([`people`]); others answer at the terminal at about the same time.
//! Whichever comes first counts for the client ([`prompts`]), and [`checks`] judges what coord made of it.
//!
//! Questions and plans are answered by replies of their own ([`replies`]). A background subagent and a headless run show
//! no dialog while a hook waits; [`hidden`] counts for how long nobody at a terminal can answer.
//!
//! Left out: which terminal is unlocked by the passphrase, since the coordinator reads the caller's terminal from the real
//! process table. A reply of somebody whom it cannot see there is played, and a coordinator without a passphrase.

mod checks;
mod hidden;
mod hooks;
mod people;
mod prompts;
mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use coord_host::passphrase::{Passphrase, PassphraseHash};
use coord_model::{NeedId, ProcessRef, ReplyKind, RequestId};
use coord_testkit::Random;
use coord_wire::api::DecisionRequest;
use serde_json::Value;

use self::hidden::Hidden;
use self::hooks::HookLife;
use self::replies::Shown;
use crate::checks::Violation;
use crate::client::{Asked, AskedFor, Decision};
use crate::machine::SharedMachine;
use crate::simulation::{Simulation, Time};

/// What happens about a prompt.
#[derive(Debug)]
pub(crate) enum Step {
    /// The client of a place builds the dialog of this prompt.
    Shows(usize, u64),
    /// A call is answered at the terminal.
    Answers(usize, String, Decision),
    /// A prompt is open for six seconds.
    Notifies(usize, u64),
    /// A hook asks to wait.
    HookAsks(ProcessRef),
    /// A hook reads the answer.
    HookHears(ProcessRef, Option<String>),
    /// A hook ends; what it printed.
    HookEnds(ProcessRef, Option<ReplyKind>),
    /// A person looks at what is open, to reply at this time.
    Looks(Time),
    /// A person replies.
    Replies(NeedId, DecisionRequest),
}

impl Step {
    /// Whether a client is at something because of it.
    pub(crate) fn is_of_client(&self) -> bool {
        matches!(self, Self::Shows(..) | Self::Answers(..))
    }
}

/// The open prompt of a client.
#[derive(Debug)]
pub(crate) struct Asking {
    number: u64,
    /// With the calls that are not decided.
    asked: Asked,
    is_shown: bool,
}

/// A call that asked, as it really was.
#[derive(Debug, Default)]
struct Call {
    /// When its prompt was over.
    closed: Option<Time>,
    /// How it was decided; none if its client ended.
    decision: Option<Decision>,
    /// The request whose hook decided it.
    decided_by: Option<RequestId>,
    /// The events that tell the coordinator that the call is over.
    ends: Vec<u128>,
    /// Hooks that were started for it.
    hooks: u32,
    /// Nobody sees it before its hooks have ended.
    is_hidden: bool,
    /// Whom it asks for what.
    is_headless: bool,
    asked_for: AskedFor,
    input: Value,
}

/// A reply that the coordinator took.
#[derive(Debug)]
struct Taken {
    asked: DecisionRequest,
    is_handed: bool,
}

/// All prompts of a simulation, their hooks, and who replies.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    number: u64,
    calls: BTreeMap<String, Call>,
    /// The calls of requests.
    of_request: BTreeMap<RequestId, String>,
    hooks: BTreeMap<ProcessRef, HookLife>,
    /// Hooks that ask to wait, and replies, in the next turn of the coordinator's loop.
    asks: Vec<ProcessRef>,
    replies: Vec<(NeedId, DecisionRequest)>,
    /// What a person saw some time ago.
    remembered: Option<Shown>,
    taken: BTreeMap<ProcessRef, Taken>,
    hidden: Hidden,
    /// Outcomes that were found to be what their client made of the reply, and counted.
    proved: BTreeSet<(RequestId, &'static str)>,
}

impl Requests {
    /// Whether somebody is about to turn to the coordinator.
    pub(crate) fn has_any(&self) -> bool {
        !self.asks.is_empty() || !self.replies.is_empty()
    }

    /// The machine restarts.
    pub(crate) fn forget(&mut self) {
        self.hooks.clear();
        self.asks.clear();
        self.replies.clear();
    }
}

/// Most seeds let people reply from elsewhere, and in most of these a passphrase is set. Headless runs may ask in
/// most of them. Their chance is their own.
pub(crate) fn draw_approvals(seed: u64, machine: &SharedMachine) -> String {
    const SALT: u64 = 0x6170_7072_6f76_6573;
    static HASH: LazyLock<Option<PassphraseHash>> =
        LazyLock::new(|| PassphraseHash::of(&Passphrase::new("simulated".to_owned())).ok());
    let mut random = Random::new(seed ^ SALT);
    let (is_remote, has_passphrase) = (random.chance(0.7), random.chance(0.9));
    if has_passphrase {
        machine.get().passphrase.clone_from(&HASH);
    }
    let headless = random.chance(0.7);
    let bound =
        random.pick(&["0s", "20s", "30s", "90s", "90s", "3m", "10m"]).copied().unwrap_or("10m");
    format!(
        "[approvals]\nremote = {is_remote}\nheadless = {headless}\nheadless_bound = \"{bound}\"\n"
    )
}

impl Simulation {
    pub(crate) fn request_step(&mut self, step: Step) -> Result<(), Violation> {
        match step {
            Step::Shows(place, number) => self.shows_dialog(place, number),
            Step::Answers(place, call, decision) => {
                self.answers_at_terminal(place, &call, decision);
            }
            Step::Notifies(place, number) => self.notifies(place, number),
            Step::HookAsks(hook) => self.hook_asks(hook),
            Step::HookHears(hook, text) => self.hook_hears(hook, text.as_deref()),
            Step::HookEnds(hook, printed) => return self.hook_ends(hook, printed),
            Step::Looks(at) => self.looks_at_requests(at),
            Step::Replies(need, asked) => self.replies_to_request(need, asked),
        }
        Ok(())
    }

    /// Counts a situation.
    fn counts(&mut self, situation: &'static str) {
        *self.meter.requests.entry(situation).or_default() += 1;
    }

    /// What was drawn of approvals.
    pub(crate) fn approvals(&self) -> String {
        let settings = self.config.settings();
        let (is_remote, bound_ms) = (settings.remote_answers, settings.hidden_wait_ms);
        let (is_headless, channels) = (settings.headless_answers, settings.notice.channels.len());
        let has_passphrase = self.machine.get().passphrase.is_some();
        format!(
            "Approvals {{ remote: {is_remote}, passphrase: {has_passphrase}, headless: {is_headless}, bound_ms: {bound_ms}, channels: {channels} }}"
        )
    }

    /// Whether people may reply from elsewhere.
    fn is_remote(&self) -> bool {
        self.config.settings().remote_answers
    }
}

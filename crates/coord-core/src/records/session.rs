//! The record of one session: facts only, with their times. Other modules decide what they mean (`turn`, `death`,
//! `host_event`, `status`).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{
    Awake, Background, EndReason, Kind, Launch, Moment, NeedId, PaneProof, ProcessRef, SessionKey,
    TmuxPane, Via,
};

use super::clocks::clocks;
use super::facts::{PaneFact, RegistryFact, Signature, Source};
use super::hold::Hold;
use super::marks::Marks;
use super::message::Inbox;
use super::name::DerivedName;
use super::need::Need;
use super::owner::{Owner, OwnerId, OwnerProof};
use super::presence::Presence;
use super::protected::Protected;
use super::quota::QuotaWait;
use super::recovery::Recovery;
use super::reply::Reply;
use super::rest::Rest;
use super::shown::ShownState;
use super::stall::{Stall, UnderWay};
use super::subagent::Subagent;
use super::task::Task;
use super::turn::{Counts, Starter, Turn};
use super::usage::SaidUsage;
use super::wait::{HiddenWaits, Over, Wait};
use super::wakes::WakeBudget;
use super::work::WorkLook;

/// Emission time of an event. Two stamps compare only within one record and owner (H-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC nanoseconds.
    pub mono_ns: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

/// The newest event, by the time at which it was emitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEvent {
    /// The client's name of the event.
    pub name: String,
    /// When it was emitted.
    pub stamp: Stamp,
    /// Whether its sender was proved (H-25).
    pub verified: bool,
    /// How it arrived: over the socket or through the spool.
    pub via: Via,
}

/// A SessionEnd that came before any other event of its session. It opens no record. A record that an older
/// event opens later applies it (G2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyEnd {
    /// The id that ended.
    pub session_id: String,
    /// The harness that reported it.
    pub owner: OwnerId,
    /// The client's reason.
    pub reason: EndReason,
    /// The event.
    pub last: LastEvent,
    /// When.
    pub at: Moment,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Number of the record.
    pub key: SessionKey,
    /// The id that resumes the session now.
    pub session_id: String,
    /// Ids that the session had before, oldest first.
    pub previous_ids: Protected<Vec<String>>,
    /// The client's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The name that it has without its user's doing (U-03).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<DerivedName>,
    /// Host name.
    pub host: String,
    /// The client's configuration directory.
    pub config_dir: String,
    /// Interactive or headless; none if unknown.
    pub kind: Option<Kind>,
    /// The harness that holds the session; none if unknown.
    pub owner: Protected<Option<Owner>>,
    /// A few harnesses that held it before, oldest first.
    pub former_owners: Protected<Vec<OwnerId>>,
    /// Whether another live process claims the same id.
    pub two_owners: bool,
    /// The session it was forked from, if its command line names one.
    pub forked_from: Option<String>,
    /// The pane that its environment names: a claim.
    pub tmux: Option<TmuxPane>,
    /// The pane as it was captured.
    pub pane: Protected<PaneFact>,
    /// When the pane and the transcript were last requested.
    pub look: Awake,
    /// A crash signature seen on the pane.
    pub signature: Protected<Option<Signature>>,
    /// Signatures seen before that one, which no longer count. Each signature counts once per process, and never
    /// if it was content of the conversation (H-07).
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub old_signatures: Protected<Vec<Signature>>,
    /// Whether the harness is there.
    pub presence: Protected<Presence>,
    /// How its conversation ended, if its process continues and has not named the next conversation yet: cleared,
    /// or left for another (R-07, H-36).
    #[serde(default)]
    pub left: Option<EndReason>,
    /// The turn.
    pub turn: Protected<Turn>,
    /// The client's id of the open turn; none if no event named it.
    pub turn_id: Option<String>,
    /// Open prompts, as hooks report them (S0-18).
    pub waits: Protected<Vec<Wait>>,
    /// How long its hooks waited while the client showed no dialog.
    #[serde(default = "Protected::initial")]
    pub hidden_waits: Protected<HiddenWaits>,
    /// Tool calls of the main thread that have not ended, as hooks report them.
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub under_way: Protected<Vec<UnderWay>>,
    /// Its subagents, the oldest first.
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub subagents: Protected<Vec<Subagent>>,
    /// The screen that the last heartbeat of an unattended session found (S1-04, S1-05).
    #[serde(default = "Protected::initial", skip_serializing_if = "Option::is_none")]
    pub stall: Protected<Option<Stall>>,
    /// Its wait for the end of a usage limit, or for the API.
    #[serde(default = "Protected::initial", skip_serializing_if = "Option::is_none")]
    pub quota: Protected<Option<QuotaWait>>,
    /// What coord told it at rest.
    #[serde(default = "Protected::initial")]
    pub rest: Protected<Rest>,
    /// The files of its task.
    #[serde(default = "Protected::initial")]
    pub task: Protected<Task>,
    /// Why it needs a person (U-01).
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub needs: Protected<Vec<Need>>,
    /// Number of its newest need.
    #[serde(default = "Protected::initial", skip_serializing_if = "is_zero")]
    pub last_need: Protected<u32>,
    /// A person's replies to its requests, the newest few.
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub replies: Protected<Vec<Reply>>,
    /// The newest few calls that ended since the newest turn edge: a request that is older than its own result
    /// comes too late (G2).
    #[serde(default = "Protected::initial", skip_serializing_if = "Vec::is_empty")]
    pub over: Protected<Vec<Over>>,
    /// What it uses, as its status line last said.
    #[serde(default = "Protected::initial", skip_serializing_if = "Option::is_none")]
    pub usage: Protected<Option<SaidUsage>>,
    /// The repository of its work, as it was after its client died.
    #[serde(default = "Protected::initial", skip_serializing_if = "Option::is_none")]
    pub work: Protected<Option<WorkLook>>,
    /// Background work at the last Stop.
    pub background: Background,
    /// The typed error of the last StopFailure, until a turn ends well.
    pub failure: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// Path of the transcript.
    pub transcript_path: String,
    /// Permission mode last seen.
    pub permission_mode: Option<String>,
    /// Boot of the newest event; empty if no hook has reported.
    pub boot: String,
    /// The newest turn edge that was applied. Older events change nothing (G2).
    pub edge: Option<Stamp>,
    /// When the newest turn edge or prompt arrived. The registry may lag behind it for a while.
    pub edge_at: Moment,
    /// Which source contradicts the hooks, and since when.
    pub contested: Protected<Option<(Source, Moment)>>,
    /// The newest event.
    pub last: Option<LastEvent>,
    /// The last sign of life of any kind.
    pub sign: Awake,
    /// What the registry says of its owner.
    pub registry: Protected<RegistryFact>,
    /// Whether it is owned by the client's own background supervisor.
    pub is_foreign: bool,
    /// The pane that was proved to be its own before a reboot.
    #[serde(default)]
    pub old_pane: Option<TmuxPane>,
    /// How its harness was started.
    #[serde(default)]
    pub launch: Option<Launch>,
    /// What its user set for it.
    #[serde(default = "Protected::initial")]
    pub marks: Protected<Marks>,
    /// The turns that coord started in it (H-21).
    #[serde(default)]
    pub wakes: WakeBudget,
    /// Who started its newest turn.
    #[serde(default = "Protected::initial")]
    pub starter: Protected<Starter>,
    /// The messages that were handed to it.
    #[serde(default = "Protected::initial")]
    pub inbox: Protected<Inbox>,
    /// A person's hold: nothing acts on it.
    #[serde(default = "Protected::initial")]
    pub held: Protected<Option<Hold>>,
    /// Start of the newest hold of which people were told (H-35).
    #[serde(default)]
    pub told_hold: Option<Awake>,
    /// Its recoveries.
    #[serde(default = "Protected::initial")]
    pub recovery: Protected<Recovery>,
    /// Counts.
    pub counts: Protected<Counts>,
    /// The state that people see, since when, and why.
    #[serde(rename = "word")]
    pub shown: Protected<ShownState>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Maximum number of former owners, and of previous ids, per record.
const FORMER_MAX: usize = 16;

/// How long hooks of a SessionEnd can run, in milliseconds: 1.5 s, or as long as an entry's `timeout` says, up to this.
const END_HOOKS_MS: u64 = 60_000;

impl Session {
    /// A record that has no facts yet.
    pub(crate) fn begin(key: SessionKey, session_id: &str, at: Moment) -> Self {
        Self {
            key,
            session_id: session_id.into(),
            previous_ids: Protected::initial(),
            client_name: None,
            derived: None,
            host: String::new(),
            config_dir: String::new(),
            kind: None,
            owner: Protected::initial(),
            former_owners: Protected::initial(),
            two_owners: false,
            forked_from: None,
            tmux: None,
            pane: Protected(PaneFact::Unknown),
            look: at.awake,
            signature: Protected::initial(),
            old_signatures: Protected::initial(),
            presence: Protected(Presence::Alive),
            left: None,
            turn: Protected(Turn::None),
            turn_id: None,
            waits: Protected::initial(),
            hidden_waits: Protected::initial(),
            under_way: Protected::initial(),
            subagents: Protected::initial(),
            stall: Protected::initial(),
            quota: Protected::initial(),
            rest: Protected::initial(),
            task: Protected::initial(),
            needs: Protected::initial(),
            last_need: Protected::initial(),
            replies: Protected::initial(),
            over: Protected::initial(),
            usage: Protected::initial(),
            work: Protected::initial(),
            background: Background::default(),
            failure: None,
            cwd: String::new(),
            transcript_path: String::new(),
            permission_mode: None,
            boot: String::new(),
            edge: None,
            edge_at: at,
            contested: Protected::initial(),
            last: None,
            sign: at.awake,
            registry: Protected(RegistryFact::Unknown),
            is_foreign: false,
            old_pane: None,
            launch: None,
            marks: Protected::initial(),
            wakes: WakeBudget::default(),
            starter: Protected::initial(),
            inbox: Protected::initial(),
            held: Protected::initial(),
            told_hold: None,
            recovery: Protected::initial(),
            counts: Protected::initial(),
            shown: Protected(ShownState::unknown(at)),
        }
    }

    /// Whether its conversation can be resumed, as far as is known: it has a turn, and was not cleared (H-36).
    pub fn is_resumable(&self) -> bool {
        let is_cleared =
            matches!(*self.presence, Presence::Ended { reason: Some(EndReason::Clear), .. });
        let has_turn = 0 < self.counts.turns
            && self.recovery.nothing_left.as_deref() != Some(&*self.session_id);
        has_turn && !is_cleared && self.left != Some(EndReason::Clear)
    }

    /// Whether its harness may still be there.
    pub fn may_live(&self) -> bool {
        matches!(*self.presence, Presence::Alive)
    }

    /// The pane it runs in: the proved one, else the one its environment names (H-16).
    pub fn pane(&self) -> Option<&TmuxPane> {
        match &*self.pane {
            PaneFact::Its(view) => Some(&view.pane),
            PaneFact::Unknown | PaneFact::Unreadable { .. } => self.tmux.as_ref(),
            PaneFact::NotThere { .. } => None,
        }
    }

    /// The tmux server that its end is judged by: that of its pane, also if the pane was seen to be gone within
    /// `within_ms` milliseconds. A dying server takes the pane along before its client ends.
    pub(crate) fn server(&self, within_ms: u64, at: Moment) -> Option<ProcessRef> {
        match &*self.pane {
            PaneFact::NotThere { at: lost, server } => {
                server.filter(|_| at.awake.ms_since(lost.awake) <= within_ms)
            }
            PaneFact::Its(_) | PaneFact::Unknown | PaneFact::Unreadable { .. } => {
                self.pane().map(|pane| pane.server)
            }
        }
    }

    /// The pane that was proved to be its own while it lived. A proof from an older boot no longer fits any pane.
    pub(crate) fn proved_pane(&self) -> Option<(TmuxPane, PaneProof)> {
        match &*self.pane {
            PaneFact::Its(view) => Some((view.pane.clone(), view.proof)),
            PaneFact::Unknown | PaneFact::Unreadable { .. } | PaneFact::NotThere { .. } => {
                Some((self.old_pane.clone()?, PaneProof { pane_pid: 0, tty: 0 }))
            }
        }
    }

    /// Returns the id of a new need.
    pub(crate) fn next_need(&mut self) -> NeedId {
        self.last_need.0 = self.last_need.saturating_add(1);
        NeedId { session: self.key, number: *self.last_need }
    }

    /// What a person is needed for now, the oldest first (U-01).
    pub fn open_needs(&self) -> impl Iterator<Item = &Need> {
        self.needs.iter().filter(|need| !need.is_dismissed)
    }

    /// Whether `owner` is its present owner.
    pub fn is_owned_by(&self, owner: &OwnerId) -> bool {
        self.owner.as_ref().is_some_and(|mine| mine.id.is_same(owner))
    }

    /// Sets a new owner. Stamps, turn and registry entry start again (H-31, H-42).
    pub(crate) fn change_owner(&mut self, id: OwnerId) {
        let was_unowned = self.is_unowned();
        let former = self.owner.leave();
        self.former_owners.0.extend(former.clone());
        if FORMER_MAX < self.former_owners.len() {
            self.former_owners.0.remove(0);
        }
        // What unverified events said of a session without an owner does not apply to any owner (H-44).
        if former.is_some() || (was_unowned && self.last.is_some()) {
            self.forget_process();
        }
        self.owner.begin(id);
        self.presence.live();
    }

    /// Forgets what was known of one process. The pattern names every field, so that a new field needs a decision
    /// on whether it outlives its process.
    fn forget_process(&mut self) {
        self.retire_signature();
        #[rustfmt::skip]
        let Self {
            subagents, edge, edge_at, last, turn, turn_id, waits, hidden_waits, over, background, registry, left, tmux, pane, old_pane, old_signatures,
            forked_from, kind, launch, recovery,
            // These outlive the process, or end by what the next process reports.
            key: _, session_id: _, previous_ids: _, client_name: _, derived: _, host: _, config_dir: _, owner: _, former_owners: _, two_owners: _, look: _,
            signature: _, presence: _, under_way: _, stall: _, quota: _, rest: _, task: _, needs: _, last_need: _, replies: _, failure: _, cwd: _,
            transcript_path: _, permission_mode: _, boot: _, contested: _, sign: _, is_foreign: _, marks: _, wakes: _,
            starter: _, inbox: _, held: _, told_hold: _, counts: _, shown: _, usage: _, work: _,
        } = self;
        (*edge, *last, *turn_id, *left, *tmux, *old_pane) = (None, None, None, None, None, None);
        (*forked_from, *kind, *launch) = (None, None, None);
        recovery.change_owner();
        edge_at.wall_ms = 0;
        turn.forget();
        *background = Background::default();
        registry.forget();
        pane.forget();
        waits.end_all();
        hidden_waits.forget();
        over.forget();
        subagents.forget();
        old_signatures.0.retain(|one| one.is_content == Some(true));
    }

    /// Whether a hook of its owner reported it. A hook that nothing confirms does not count (H-44).
    pub(crate) fn is_reported(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.has_confirmed_hook || owner.has_reported)
    }

    /// Whether its process may have gone over to another session, according to unverified events (H-44).
    pub(crate) fn may_have_left(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.may_have_left)
    }

    /// Whether its client's registry entry names another conversation: the hooks that report the change were lost, or are
    /// on their way.
    pub(crate) fn registry_names_another(&self) -> bool {
        let named = self.owner.as_ref().and_then(|owner| owner.registry_session.as_ref());
        named.is_some_and(|named| *named != self.session_id)
    }

    /// Whether only unverified events report it: no client is known that holds or held it (H-44).
    pub(crate) fn is_unowned(&self) -> bool {
        self.owner.is_none() && self.former_owners.is_empty()
    }

    /// Makes room for another crash signature. This one no longer counts (H-07).
    pub(crate) fn retire_signature(&mut self) {
        if let Some(signature) = self.signature.0.take() {
            let old = &mut self.old_signatures.0;
            old.retain(|one| one.name != signature.name);
            old.push(signature);
            if FORMER_MAX < old.len() {
                old.remove(0);
            }
        }
    }

    /// Whether this crash signature is content of its conversation: everyday output, on whatever screen it still
    /// is (H-07).
    pub(crate) fn is_content(&self, name: &str) -> bool {
        self.signatures().any(|one| one.name == name && one.is_content == Some(true))
    }

    /// The crash signatures seen on its pane, the newest first.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = &Signature> {
        self.signature.iter().chain(self.old_signatures.iter().rev())
    }

    /// Changes its id, within one process.
    pub(crate) fn follow(&mut self, session_id: &str) {
        self.previous_ids.0.retain(|id| id != session_id);
        let before = core::mem::replace(&mut self.session_id, session_id.into());
        self.remember_id(before);
        self.left = None;
    }

    /// Changes its id on the registry's word alone, while no hook has reported.
    pub(crate) fn follow_registry(&mut self, session_id: &str) {
        if self.session_id != session_id {
            self.follow(session_id);
        }
    }

    /// Its client did something in this conversation at `wall_ms`, milliseconds since 1970. If that is longer after the
    /// conversation was cleared than the hooks of that end can run, the client has returned to it.
    pub(crate) fn note_return(&mut self, wall_ms: u64) {
        let ended_ms = self.edge.map(|edge| edge.wall_ms.saturating_add(END_HOOKS_MS));
        let is_later = ended_ms.is_some_and(|ended_ms| ended_ms <= wall_ms);
        if self.left == Some(EndReason::Clear) && is_later {
            self.left = None;
        }
    }

    /// Whether the client has reported that it leaves this conversation for another one.
    pub(crate) fn has_left(&self) -> bool {
        let is_resume =
            matches!(*self.presence, Presence::Ended { reason: Some(EndReason::Resume), .. });
        is_resume || self.left.is_some()
    }

    /// Its process went over to another conversation, and is a former owner from here on.
    pub(crate) fn leave(&mut self, at: Moment) {
        self.presence.end(EndReason::Resume, at);
        let former = self.owner.leave();
        self.former_owners.0.extend(former);
    }

    /// Remembers an id that this record had before.
    pub(crate) fn remember_id(&mut self, id: String) {
        let ids = &mut self.previous_ids.0;
        if !ids.contains(&id) {
            ids.push(id);
            if FORMER_MAX < ids.len() {
                ids.remove(0);
            }
        }
    }

    /// Begins a new boot. Its pane is another one, and what was counted on the old boot's clock begins again
    /// (H-32).
    pub(crate) fn begin_boot(&mut self) {
        self.old_pane = self.proved_pane().map(|(pane, _)| pane);
        self.pane.forget();
        if let Some(launch) = &mut self.launch {
            launch.cwd.device = 0;
        }
        self.registry.begin_boot();
        self.over.forget();
        self.stall.forget();
        self.quota.end();
    }

    /// Whether its present id or a previous one is `id`.
    pub fn has_id(&self, id: &str) -> bool {
        self.session_id == id || self.previous_ids.iter().any(|former| former == id)
    }

    /// Whether it yields to a client that is proved to hold its conversation (H-46).
    pub(crate) fn makes_way(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.proof == OwnerProof::Registered)
    }

    /// Whether its conversation continued in another record after its harness had died.
    pub fn is_passed_on(&self) -> bool {
        let process = self.owner.as_ref().map(|owner| owner.id.process);
        process.is_some() && self.recovery.passed_on == process && !self.may_live()
    }

    /// Whether a signature was seen on it that was not content of its conversation (H-07).
    pub(crate) fn has_own_signature(&self) -> bool {
        self.signatures().any(|signature| signature.is_content == Some(false))
    }
}

clocks!(struct Session {
    key, session_id, previous_ids, client_name, derived, host, config_dir, kind, owner, former_owners, two_owners, forked_from, tmux, pane,
    look, signature, old_signatures, presence, left, turn, turn_id, waits, hidden_waits, under_way, subagents, stall, quota, rest, task, needs, last_need, replies, over,
    usage, work, background, failure, cwd, transcript_path, permission_mode, boot, edge, edge_at, contested, last, sign, registry,
    is_foreign, old_pane, launch, marks, wakes, starter, inbox, held, told_hold, recovery, counts, shown,
} until {});

clocks!(struct LastEvent { name, stamp, verified, via } until {});

clocks!(struct EarlyEnd { session_id, owner, reason, last, at } until {});

clocks!(none in Stamp);

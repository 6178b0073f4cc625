//! The record of one session: facts only, with their times. What they mean is decided elsewhere
//! (`turn`, `death`, `host_event`, `status`).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{
    Awake, Background, EndReason, Kind, Launch, Moment, PaneProof, SessionKey, TmuxPane, Via,
};

use super::clocks::clocks;
use super::facts::{PaneFact, RegistryFact, Signature, Source};
use super::hold::Hold;
use super::host_event::HostEvent;
use super::marks::Marks;
use super::message::Inbox;
use super::owner::{Owner, OwnerId, OwnerProof};
use super::quota::QuotaWait;
use super::recovery::Recovery;
use super::rest::Rest;
use super::shown::ShownState;
use super::stall::{Stall, UnderWay};
use super::task::Task;
use super::wait::{Over, Wait};
use super::wakes::WakeBudget;

/// Emission time of an event. Two stamps compare only within one record and owner (H-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC nanoseconds.
    pub mono_ns: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

/// Whether the harness is there, and how it went if it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// There, as far as anybody knows.
    Alive,
    /// Its process is gone; what it left behind is being read (H-05).
    Dying {
        /// Since when.
        since: Moment,
        /// The registry said nothing: its pane is asked.
        asks_pane: bool,
        /// Its end was told when it happened; else it was found dead, and may have been for long.
        #[serde(default)]
        is_fresh: bool,
    },
    /// It ended its session.
    Ended {
        /// Its own reason; none where only the removed registry entry says so.
        reason: Option<EndReason>,
        /// When.
        at: Moment,
    },
    /// A host event took it along (H-10).
    Interrupted {
        /// Which.
        by: HostEvent,
        /// When.
        at: Moment,
    },
    /// It died without ending its session, and something positive proves it (H-05).
    Crashed {
        /// When.
        at: Moment,
    },
    /// Its process is gone and nothing proves how (H-05).
    Gone {
        /// When.
        at: Moment,
    },
}

/// The turn of the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turn {
    /// No prompt was seen from this process; without an edge of it, nothing tells whether it has one.
    None,
    /// A turn is open.
    Open {
        /// Since when.
        since: Moment,
        /// Prompts typed while it ran and not yet answered.
        queued: u32,
    },
    /// The last turn ended.
    Closed {
        /// When.
        at: Moment,
    },
    /// The last turn was interrupted: no hook says so, another source did.
    Interrupted {
        /// When.
        at: Moment,
        /// Which source.
        by: Source,
    },
}

/// Who started a turn (H-35, S1-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Starter {
    /// Its user, as far as anybody knows.
    #[default]
    User,
    /// A wake of coord's own was sent that no prompt has followed yet: the next one is not its user's.
    Awaited,
    /// Coord, by a wake.
    Coord,
}

/// The newest event by emission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEvent {
    /// The client's name of it.
    pub name: String,
    /// When it was emitted.
    pub stamp: Stamp,
    /// Whether its sender was proved (H-25).
    pub verified: bool,
    /// How it came.
    pub via: Via,
}

/// A SessionEnd that came before any other event of its session. It opens no record; the
/// record that an older event opens later takes it in (G2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyEnd {
    /// The id that ended.
    pub session_id: String,
    /// The harness that said so.
    pub owner: OwnerId,
    /// Its reason.
    pub reason: EndReason,
    /// The event.
    pub last: LastEvent,
    /// When.
    pub at: Moment,
}

/// Counts of a session's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Events applied.
    pub events: u64,
    /// Turns opened.
    pub turns: u64,
    /// Events that came too late to change anything (G2).
    pub late: u64,
    /// Events of which only the count was kept (H-29).
    pub folded: u64,
    /// Events whose sender could not be proved (H-25).
    pub unverified: u64,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Number of the record.
    pub key: SessionKey,
    /// The id that resumes it now.
    pub session_id: String,
    /// Ids it had before, oldest first.
    pub previous_ids: Vec<String>,
    /// Host name.
    pub host: String,
    /// The client's configuration directory.
    pub config_dir: String,
    /// Interactive or headless, where known.
    pub kind: Option<Kind>,
    /// The harness that holds it, where known.
    pub owner: Option<Owner>,
    /// Harnesses that held it before, oldest first, a few.
    pub former_owners: Vec<OwnerId>,
    /// Another live process claims the same id.
    pub two_owners: bool,
    /// The session it was forked from, where its command line says so.
    pub forked_from: Option<String>,
    /// The pane its environment named: a claim.
    pub tmux: Option<TmuxPane>,
    /// The pane as it was seen.
    pub pane: PaneFact,
    /// When the pane and the transcript were asked for last.
    pub look: Awake,
    /// A crash signature seen on the pane.
    pub signature: Option<Signature>,
    /// Those seen before it that count no more: each counts once per process, and none that was content of
    /// the conversation (H-07).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_signatures: Vec<Signature>,
    /// Whether the harness is there.
    pub presence: Presence,
    /// How its conversation ended, if its process goes on and has not named the next one yet: cleared,
    /// or left for another (R-07, H-36).
    #[serde(default)]
    pub left: Option<EndReason>,
    /// The turn.
    pub turn: Turn,
    /// The client's id of the open turn, where an event named it.
    pub turn_id: Option<String>,
    /// Open prompts, as hooks tell (S0-18).
    pub waits: Vec<Wait>,
    /// The main thread's calls of tools that have not ended, as hooks tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<UnderWay>,
    /// The screen that a heartbeat found last, of an unattended session (S1-04, S1-05).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// A wait for quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaWait>,
    /// What was told to it at rest.
    #[serde(default)]
    pub rest: Rest,
    /// The files of its task.
    #[serde(default)]
    pub task: Task,
    /// When somebody was reminded last that it waits for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminded_at: Option<Awake>,
    /// What was over since the newest turn edge, the newest few: a request older than its own result
    /// comes too late (G2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<Over>,
    /// Background work at the last Stop.
    pub background: Background,
    /// The last StopFailure's typed error, until the next turn ends well.
    pub failure: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// Transcript.
    pub transcript_path: String,
    /// Permission mode last seen.
    pub permission_mode: Option<String>,
    /// Boot of the newest event; empty where no hook has reported.
    pub boot: String,
    /// The newest turn edge that was applied; older events change nothing (G2).
    pub edge: Option<Stamp>,
    /// When the newest turn edge or prompt arrived: the registry may lag behind it for a while.
    pub edge_at: Moment,
    /// Which source contradicts the hooks, and since when.
    pub contested: Option<(Source, Moment)>,
    /// The newest event.
    pub last: Option<LastEvent>,
    /// The last sign of life of any kind.
    pub sign: Awake,
    /// What the registry said.
    pub registry: RegistryFact,
    /// Owned by the client's own background supervisor.
    pub is_foreign: bool,
    /// The pane that was proved to be its own, before a new boot.
    #[serde(default)]
    pub old_pane: Option<TmuxPane>,
    /// How its harness was started.
    #[serde(default)]
    pub launch: Option<Launch>,
    /// What its user said of it.
    #[serde(default)]
    pub marks: Marks,
    /// The turns that coord started in it (H-21).
    #[serde(default)]
    pub wakes: WakeBudget,
    /// Who started its newest turn.
    #[serde(default)]
    pub starter: Starter,
    /// The messages that were handed to it.
    #[serde(default)]
    pub inbox: Inbox,
    /// A person's hold: nothing acts on it.
    #[serde(default)]
    pub held: Option<Hold>,
    /// Its recoveries.
    #[serde(default)]
    pub recovery: Recovery,
    /// Counts.
    pub counts: Counts,
    /// The one word for people, since when, and why.
    #[serde(rename = "word")]
    pub shown: ShownState,
}

/// Former owners and previous ids remembered per record.
const FORMER_MAX: usize = 16;

impl Session {
    /// A record without a fact.
    pub(crate) fn begin(key: SessionKey, session_id: &str, at: Moment) -> Self {
        Self {
            key,
            session_id: session_id.into(),
            previous_ids: Vec::new(),
            host: String::new(),
            config_dir: String::new(),
            kind: None,
            owner: None,
            former_owners: Vec::new(),
            two_owners: false,
            forked_from: None,
            tmux: None,
            pane: PaneFact::Unknown,
            look: at.awake,
            signature: None,
            old_signatures: Vec::new(),
            presence: Presence::Alive,
            left: None,
            turn: Turn::None,
            turn_id: None,
            waits: Vec::new(),
            under_way: Vec::new(),
            stall: None,
            quota: None,
            rest: Rest::default(),
            task: Task::default(),
            reminded_at: None,
            over: Vec::new(),
            background: Background::default(),
            failure: None,
            cwd: String::new(),
            transcript_path: String::new(),
            permission_mode: None,
            boot: String::new(),
            edge: None,
            edge_at: at,
            contested: None,
            last: None,
            sign: at.awake,
            registry: RegistryFact::Unknown,
            is_foreign: false,
            old_pane: None,
            launch: None,
            marks: Marks::default(),
            wakes: WakeBudget::default(),
            starter: Starter::default(),
            inbox: Inbox::default(),
            held: None,
            recovery: Recovery::default(),
            counts: Counts::default(),
            shown: ShownState::unknown(at),
        }
    }

    /// Whether its conversation can be resumed, as far as is known: it has a turn, and was not cleared away
    /// (H-36).
    pub fn is_resumable(&self) -> bool {
        let is_cleared =
            matches!(self.presence, Presence::Ended { reason: Some(EndReason::Clear), .. });
        let has_turn = 0 < self.counts.turns
            && self.recovery.nothing_left.as_deref() != Some(&*self.session_id);
        has_turn && !is_cleared && self.left != Some(EndReason::Clear)
    }

    /// Whether its harness may still be there.
    pub fn may_live(&self) -> bool {
        matches!(self.presence, Presence::Alive)
    }

    /// The pane it runs in: the proved one, else the one its environment names (H-16).
    pub fn pane(&self) -> Option<&TmuxPane> {
        match &self.pane {
            PaneFact::Its(view) => Some(&view.pane),
            PaneFact::Unknown | PaneFact::Unreadable { .. } => self.tmux.as_ref(),
            PaneFact::NotThere { .. } => None,
        }
    }

    /// The pane that was proved to be its own while it lived: by this boot's proof, or an older one's,
    /// which no longer fits any pane.
    pub(crate) fn proved_pane(&self) -> Option<(TmuxPane, PaneProof)> {
        match &self.pane {
            PaneFact::Its(view) => Some((view.pane.clone(), view.proof)),
            PaneFact::Unknown | PaneFact::Unreadable { .. } | PaneFact::NotThere { .. } => {
                Some((self.old_pane.clone()?, PaneProof { pane_pid: 0, tty: 0 }))
            }
        }
    }

    /// Whether `owner` holds it.
    pub fn is_owned_by(&self, owner: &OwnerId) -> bool {
        self.owner.as_ref().is_some_and(|mine| mine.id.is_same(owner))
    }

    /// A new harness holds it: its stamps, turn and registry entry begin anew (H-31, H-42).
    pub(crate) fn change_owner(&mut self, id: OwnerId) {
        let was_nobodys = self.is_nobodys();
        let former = self.owner.take().map(|owner| owner.id);
        self.former_owners.extend(former.clone());
        if FORMER_MAX < self.former_owners.len() {
            self.former_owners.remove(0);
        }
        // What unverified events said of nobody's session is said of no owner (H-44).
        if former.is_some() || (was_nobodys && self.last.is_some()) {
            self.forget_process();
        }
        self.owner = Some(Owner::begin(id));
        self.presence = Presence::Alive;
    }

    /// Forgets what was said of one process. Names every field, so that nobody adds one without deciding whether it
    /// outlives its process.
    fn forget_process(&mut self) {
        self.retire_signature();
        #[rustfmt::skip]
        let Self {
            edge, edge_at, last, turn, turn_id, waits, over, background, registry, left, tmux, pane, old_pane, old_signatures,
            forked_from, kind, launch, recovery,
            // These outlive it, or end by what the new one says.
            key: _, session_id: _, previous_ids: _, host: _, config_dir: _, owner: _, former_owners: _, two_owners: _, look: _,
            signature: _, presence: _, under_way: _, stall: _, quota: _, rest: _, task: _, reminded_at: _, failure: _, cwd: _,
            transcript_path: _, permission_mode: _, boot: _, contested: _, sign: _, is_foreign: _, marks: _, wakes: _,
            starter: _, inbox: _, held: _, counts: _, shown: _,
        } = self;
        (*edge, *last, *turn_id, *left, *tmux, *old_pane) = (None, None, None, None, None, None);
        (*forked_from, *kind, *launch, recovery.nothing_left) = (None, None, None, None);
        edge_at.wall_ms = 0;
        *turn = Turn::None;
        *background = Background::default();
        *registry = RegistryFact::Unknown;
        *pane = PaneFact::Unknown;
        waits.clear();
        over.clear();
        old_signatures.retain(|one| one.is_content == Some(true));
    }

    /// Whether a hook of its owner told of it: what nobody confirms is none (H-44).
    pub(crate) fn was_told(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.has_told || owner.has_reported)
    }

    /// Whether its process may have gone over to another session, as only unverified events say (H-44).
    pub(crate) fn may_have_left(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.may_have_left)
    }

    /// Whether only unverified events tell of it: no client is known that has or had it (H-44).
    pub(crate) fn is_nobodys(&self) -> bool {
        self.owner.is_none() && self.former_owners.is_empty()
    }

    /// Makes room for another crash signature; this one counts no more (H-07).
    pub(crate) fn retire_signature(&mut self) {
        if let Some(signature) = self.signature.take() {
            self.old_signatures.retain(|one| one.name != signature.name);
            self.old_signatures.push(signature);
            if FORMER_MAX < self.old_signatures.len() {
                self.old_signatures.remove(0);
            }
        }
    }

    /// Whether this crash signature is content of its conversation: everyday output, on whatever screen it still
    /// stands (H-07).
    pub(crate) fn is_content(&self, name: &str) -> bool {
        self.signatures().any(|one| one.name == name && one.is_content == Some(true))
    }

    /// The crash signatures seen on its pane, the newest first.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = &Signature> {
        self.signature.iter().chain(self.old_signatures.iter().rev())
    }

    /// Its id changed within one process.
    pub(crate) fn follow(&mut self, session_id: &str) {
        let before = core::mem::replace(&mut self.session_id, session_id.into());
        self.remember_id(before);
        self.left = None;
    }

    /// Its id changed, as only the registry tells: no hook has reported.
    pub(crate) fn follow_registry(&mut self, session_id: &str) {
        if self.session_id != session_id {
            self.previous_ids.retain(|id| id != session_id);
            self.follow(session_id);
        }
    }

    /// Notes an id that this record had before.
    pub(crate) fn remember_id(&mut self, id: String) {
        if !self.previous_ids.contains(&id) {
            self.previous_ids.push(id);
            if FORMER_MAX < self.previous_ids.len() {
                self.previous_ids.remove(0);
            }
        }
    }

    /// A new boot: its pane is another one, and what was counted on the old boot's clock begins anew (H-32).
    pub(crate) fn begin_boot(&mut self) {
        self.old_pane = self.proved_pane().map(|(pane, _)| pane);
        self.pane = PaneFact::Unknown;
        if let Some(launch) = &mut self.launch {
            launch.cwd.device = 0;
        }
        if let RegistryFact::Present { seen_changing, .. } = &mut self.registry {
            *seen_changing = None;
        }
        self.over.clear();
        (self.stall, self.quota, self.reminded_at) = (None, None, None);
    }

    /// Whether it has this id, or had it before.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.session_id == id || self.previous_ids.iter().any(|former| former == id)
    }

    /// Whether a client may take it from the process that has it (H-46).
    pub(crate) fn makes_way(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.proof == OwnerProof::Registered)
    }

    /// Whether its conversation went on in another record after its harness had died.
    pub(crate) fn is_passed_on(&self) -> bool {
        let process = self.owner.as_ref().map(|owner| owner.id.process);
        process.is_some() && self.recovery.passed_on == process && !self.may_live()
    }

    /// Whether a signature was seen on it that was not content of its conversation (H-07).
    pub(crate) fn has_own_signature(&self) -> bool {
        self.signatures().any(|signature| signature.is_content == Some(false))
    }
}

clocks!(struct Session {
    key, session_id, previous_ids, host, config_dir, kind, owner, former_owners, two_owners, forked_from, tmux, pane,
    look, signature, old_signatures, presence, left, turn, turn_id, waits, under_way, stall, quota, rest, task, reminded_at, over,
    background, failure, cwd, transcript_path, permission_mode, boot, edge, edge_at, contested, last, sign, registry,
    is_foreign, old_pane, launch, marks, wakes, starter, inbox, held, recovery, counts, shown,
} until {});

clocks!(struct LastEvent { name, stamp, verified, via } until {});

clocks!(struct EarlyEnd { session_id, owner, reason, last, at } until {});

clocks!(enum Presence {
    Alive {} until {}
    Dying { since: since, asks_pane: asks, is_fresh: fresh } until {}
    Ended { reason: reason, at: at } until {}
    Interrupted { by: by, at: at } until {}
    Crashed { at: at } until {}
    Gone { at: at } until {}
});

clocks!(enum Turn {
    None {} until {}
    Open { since: since, queued: queued } until {}
    Closed { at: at } until {}
    Interrupted { at: at, by: by } until {}
});

clocks!(none in Stamp, Counts, Starter);

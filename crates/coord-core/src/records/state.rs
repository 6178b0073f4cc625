//! The state: all records, with indexes that keep the cost of a step independent of their number. Indexes and
//! deadlines are derived from the records and never stored.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use serde::{Deserialize, Serialize};

use coord_model::{
    Awake, Domain, EventId, Host, MessageId, Moment, Now, ProcessRef, SessionKey, Settings,
};

use super::clocks::{Clocks, clocks};
use super::elsewhere::NoticesElsewhere;
use super::hold::Hold;
use super::host_event::DeadServer;
use super::machine::Machine;
use super::messages::{Messages, QueueHead};
use super::notice::Notices;
use super::owner::OwnerId;
use super::protected::Protected;
use super::remote::FromMachines;
use super::seen::SeenIds;
use super::session::{EarlyEnd, Session};
use super::support::Support;
use super::usage::Account;

/// Maximum number of remembered configuration directories. A user has a handful.
const CONFIG_DIRS_MAX: usize = 64;

/// Counts over all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Hook events applied.
    pub events: u64,
    /// Events that had taken effect before (G2).
    pub duplicates: u64,
    /// Events that came too late to change anything.
    pub late: u64,
    /// Events that were only counted (H-29).
    pub folded: u64,
    /// Arrivals that are not valid events.
    pub malformed: u64,
    /// SessionEnd events with an id that no session had.
    pub phantom_ends: u64,
    /// Harnesses that were found dead, without a report of their death (S0-38).
    #[serde(default)]
    pub found_dead: u64,
    /// Records of unverified sessions that were dropped because there were too many (H-49).
    #[serde(default)]
    pub dropped: u64,
}

/// Everything in the state but the records and the remembered ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Header {
    /// Where the coordinator runs; none before its first start.
    pub host: Option<Host>,
    /// The durations in force.
    pub settings: Settings,
    /// Number of the next record.
    pub next_key: u64,
    /// The newest time seen.
    pub last: Option<Now>,
    /// Nanoseconds of this boot during which the loop did not turn (H-32).
    pub paused_ns: u64,
    /// While this lasts, nothing is concluded from silence (H-32).
    pub settling: Option<Hold>,
    /// Counts.
    pub counters: Counters,
    /// Configuration directories seen, and whether this coordinator holds their lock (H-14).
    pub config_dirs: BTreeMap<String, bool>,
    /// Interactive sessions that were lately seen to end without a reason (H-10).
    pub recent_ends: Vec<(Moment, SessionKey)>,
    /// A few SessionEnd events that came before their sessions.
    pub early_ends: Vec<EarlyEnd>,
    /// Tmux servers that died lately (H-10).
    pub dead_servers: Vec<DeadServer>,
    /// Since when the machine is being shut down (H-10).
    #[serde(default)]
    pub shutdown: Option<Moment>,
    /// Wall time of the last record before this coordinator started, milliseconds since 1970. Nobody watched
    /// between then and the start.
    #[serde(default)]
    pub unseen_since_ms: u64,
    /// When this coordinator started, and the one before it.
    #[serde(default)]
    pub started_at: [Awake; 2],
    /// When the wall clock was last found to be set. Times before it do not compare with times after it (H-32).
    #[serde(default)]
    pub clock_set_at: Option<Awake>,
    /// What all recoveries of the machine share (H-11).
    #[serde(default)]
    pub machine: Machine,
    /// What is kept beside the messages.
    #[serde(default)]
    pub queue: QueueHead,
    /// What the accounts have left, by configuration directory.
    #[serde(default = "Protected::initial")]
    pub accounts: Protected<BTreeMap<String, Account>>,
    /// What people were told (N-01).
    #[serde(default)]
    pub notices: Notices,
    /// What came from other machines (F-05).
    #[serde(default = "Protected::initial")]
    pub from_machines: Protected<FromMachines>,
    /// Needs of other machines that are told here, and who tells of this machine's (F-02).
    #[serde(default = "Protected::initial")]
    pub elsewhere: Protected<NoticesElsewhere>,
}

/// The whole state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    pub(crate) header: Header,
    pub(crate) seen: SeenIds,
    pub(crate) messages: Messages,
    records: BTreeMap<SessionKey, Record>,
    /// Keys ascend, so that equal states give equal answers however they were built.
    by_id: BTreeMap<String, Vec<SessionKey>>,
    by_owner: BTreeSet<(OwnerSlot, SessionKey)>,
    by_deadline: BTreeSet<(Awake, SessionKey)>,
    /// Records that changed since their deadlines were derived.
    stale: BTreeSet<SessionKey>,
    /// Records that no verified event supports, in the order in which they are dropped.
    unverified: BTreeSet<(Support, SessionKey)>,
}

/// What usually tells owners apart. The record says whether machine and boot are the same too.
type OwnerSlot = (ProcessRef, u64);

/// A record, with the deadline under which it is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    /// Boxed: a record is large, and the map moves its neighbours when one is taken out.
    session: Box<Session>,
    deadline: Option<Awake>,
}

/// A record that was taken out to be changed. The indexes still hold its old values, so that putting it back costs
/// no more than what changed.
#[derive(Debug)]
pub(crate) struct Taken {
    session: Box<Session>,
    indexed: Indexed,
}

/// What the indexes hold of a record.
#[derive(Debug, Default)]
struct Indexed {
    session_id: Option<String>,
    previous_ids: Vec<String>,
    owner: Option<OwnerSlot>,
    deadline: Option<Awake>,
    support: Option<Support>,
}

impl From<Session> for Taken {
    /// A record that is in no index yet.
    fn from(session: Session) -> Self {
        Self { session: Box::new(session), indexed: Indexed::default() }
    }
}

impl Deref for Taken {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl State {
    /// A stored state, before its records are added.
    pub(crate) fn without_records(header: Header, seen: SeenIds) -> Self {
        Self { header, seen, ..Self::default() }
    }

    /// Everything but the records and the remembered ids.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The remembered ids.
    pub fn seen(&self) -> &SeenIds {
        &self.seen
    }

    /// Whether the event took effect before (G2).
    pub fn has_seen(&self, id: EventId) -> bool {
        self.seen.contains(id)
    }

    /// All records, by number.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &Session> {
        self.records.values().map(|record| &*record.session)
    }

    /// The records whose current or previous id is `id`.
    pub fn sessions_with_id(&self, id: &str) -> impl Iterator<Item = &Session> {
        self.keys_of_id(id).iter().filter_map(|key| self.get(*key))
    }

    /// The records with a current or previous id that begins with `prefix`, each once.
    pub fn sessions_with_prefix(&self, prefix: &str) -> Vec<&Session> {
        let keys: BTreeSet<SessionKey> = self
            .by_id
            .range::<str, _>((core::ops::Bound::Included(prefix), core::ops::Bound::Unbounded))
            .take_while(|(id, _)| id.starts_with(prefix))
            .flat_map(|(_, keys)| keys.iter().copied())
            .collect();
        keys.iter().filter_map(|key| self.get(*key)).collect()
    }

    /// The record with this number.
    pub fn session(&self, key: SessionKey) -> Option<&Session> {
        self.get(key)
    }

    /// The record that a process of this machine holds.
    pub fn session_of(&self, process: ProcessRef) -> Option<&Session> {
        self.get(self.key_of_owner(&self.local_owner(process)?)?)
    }

    /// The identity of a process that this coordinator can see, on this boot.
    pub(crate) fn local_owner(&self, process: ProcessRef) -> Option<OwnerId> {
        self.header.host.as_ref().map(|host| OwnerId {
            machine: host.machine.clone(),
            boot: host.boot.clone(),
            pid_ns: host.pid_ns,
            process,
        })
    }

    /// The identity of a process in `domain`, or in this coordinator's own domain if there is none. The boot is
    /// known only for this machine.
    pub(crate) fn owner_in(&self, domain: Option<&Domain>, process: ProcessRef) -> Option<OwnerId> {
        let local = self.local_owner(process)?;
        let Some(Domain { machine, pid_ns }) = domain else { return Some(local) };
        let boot = if *machine == local.machine { local.boot } else { String::new() };
        Some(OwnerId { machine: machine.clone(), boot, pid_ns: *pid_ns, process })
    }

    /// Whether the owner is a process that this coordinator can see.
    pub(crate) fn is_local(&self, session: &Session) -> bool {
        match (&self.header.host, &*session.owner) {
            (Some(host), Some(owner)) => {
                owner.id.machine == host.machine && owner.id.pid_ns == host.pid_ns
            }
            (Some(_) | None, _) => false,
        }
    }

    /// Whether the limit of configuration directories is reached, so that coord acts in no other one.
    pub(crate) fn has_all_dirs(&self) -> bool {
        CONFIG_DIRS_MAX <= self.header.config_dirs.len()
    }

    /// The time on the clock that the rules use: gaps of the event loop do not count.
    pub fn moment(&self, now: Now) -> Moment {
        let awake = Awake(now.mono_ns.saturating_sub(self.header.paused_ns));
        Moment { awake, wall_ms: now.wall_ms }
    }

    pub(crate) fn keys_of_id(&self, id: &str) -> &[SessionKey] {
        self.by_id.get(id).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn key_of_owner(&self, owner: &OwnerId) -> Option<SessionKey> {
        let slot = owner_slot(owner);
        let keys = self.by_owner.range((slot, SessionKey(0))..=(slot, SessionKey(u64::MAX)));
        let mut keys = keys.map(|(_, key)| *key).rev();
        keys.find(|key| self.get(*key).is_some_and(|session| session.is_owned_by(owner)))
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session> {
        self.records.get(&key).map(|record| &*record.session)
    }

    pub(crate) fn keys(&self) -> Vec<SessionKey> {
        self.records.keys().copied().collect()
    }

    /// The keys of the records for which `is_one` holds.
    pub(crate) fn keys_of(&self, is_one: impl Fn(&Session) -> bool) -> Vec<SessionKey> {
        self.sessions().filter(|session| is_one(session)).map(|session| session.key).collect()
    }

    /// Applies `change` to everything that stores a time.
    pub(crate) fn each_stored(&mut self, mut change: impl FnMut(&mut dyn Clocks)) {
        change(&mut self.header);
        for key in self.keys() {
            if let Some(mut session) = self.take(key) {
                change(&mut *session);
                self.put(session);
            }
        }
        let ids: Vec<MessageId> = self.messages.all().map(|message| message.id).collect();
        for id in ids {
            self.messages.change(id, |message| change(message));
        }
    }

    /// A number for a new record.
    pub(crate) fn new_key(&mut self) -> SessionKey {
        self.header.next_key = self.header.next_key.saturating_add(1);
        SessionKey(self.header.next_key)
    }

    /// Takes a record out to change it. [`Self::put`] puts it back.
    pub(crate) fn take(&mut self, key: SessionKey) -> Option<Taken> {
        let Record { session, deadline } = self.records.remove(&key)?;
        let indexed = Indexed {
            session_id: Some(session.session_id.clone()),
            previous_ids: session.previous_ids.to_vec(),
            owner: session.owner.as_ref().map(|owner| owner_slot(&owner.id)),
            deadline,
            support: session.unverified_support(),
        };
        Some(Taken { session, indexed })
    }

    /// Puts a record in. Its deadline is derived again before anything that is due is served.
    pub(crate) fn put(&mut self, taken: Taken) {
        let Taken { session, indexed } = taken;
        let key = session.key;
        if indexed.session_id.as_ref() != Some(&session.session_id)
            || session.previous_ids != indexed.previous_ids
        {
            self.forget_ids(key, indexed.previous_ids.iter().chain(&indexed.session_id));
            for id in session.previous_ids.iter().chain([&session.session_id]) {
                let keys = self.by_id.entry(id.clone()).or_default();
                if let Err(at) = keys.binary_search(&key) {
                    keys.insert(at, key);
                }
            }
        }
        let owner = session.owner.as_ref().map(|owner| owner_slot(&owner.id));
        reindex(&mut self.by_owner, key, indexed.owner, owner);
        self.stale.insert(key);
        let support = session.unverified_support();
        reindex(&mut self.unverified, key, indexed.support, support);
        self.records.insert(key, Record { session, deadline: indexed.deadline });
    }

    /// Drops a record.
    pub(crate) fn remove(&mut self, key: SessionKey) {
        let Some(Taken { indexed, .. }) = self.take(key) else { return };
        self.forget_ids(key, indexed.previous_ids.iter().chain(&indexed.session_id));
        self.stale.remove(&key);
        reindex(&mut self.by_owner, key, indexed.owner, None);
        reindex(&mut self.by_deadline, key, indexed.deadline, None);
        reindex(&mut self.unverified, key, indexed.support, None);
    }

    /// Number of records that no verified event supports.
    pub fn n_unverified(&self) -> usize {
        self.unverified.len()
    }

    /// The records that no verified event supports, in the order in which they are dropped.
    pub(crate) fn unverified(&self) -> impl Iterator<Item = SessionKey> {
        self.unverified.iter().map(|(_, key)| *key)
    }

    fn forget_ids<'a>(&mut self, key: SessionKey, ids: impl Iterator<Item = &'a String>) {
        for id in ids {
            if let Some(keys) = self.by_id.get_mut(id) {
                keys.retain(|other| *other != key);
                if keys.is_empty() {
                    self.by_id.remove(id);
                }
            }
        }
    }

    /// Notes records whose deadlines have to be derived again. A change that concerns all of them, such as a hold
    /// or a lock, moves deadlines of records that did not change themselves.
    pub(crate) fn note_stale(&mut self, keys: &[SessionKey]) {
        self.stale.extend(keys.iter().filter(|key| self.records.contains_key(key)));
    }

    /// Takes the records whose deadlines have to be derived again, each once.
    pub(crate) fn take_stale(&mut self) -> BTreeSet<SessionKey> {
        core::mem::take(&mut self.stale)
    }

    /// Indexes a record under its deadline.
    pub(crate) fn set_deadline(&mut self, key: SessionKey, deadline: Option<Awake>) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let before = core::mem::replace(&mut record.deadline, deadline);
        reindex(&mut self.by_deadline, key, before, deadline);
    }

    /// The earliest deadline of any record.
    pub(crate) fn first_deadline(&self) -> Option<Awake> {
        self.by_deadline.first().map(|(awake, _)| *awake)
    }

    /// The records whose deadline has come.
    pub(crate) fn behind_deadline(&self, awake: Awake) -> impl Iterator<Item = &Session> {
        let due = self.by_deadline.iter().take_while(move |(deadline, _)| *deadline <= awake);
        due.filter_map(|(_, key)| self.get(*key))
    }
}

fn owner_slot(owner: &OwnerId) -> OwnerSlot {
    (owner.process, owner.pid_ns)
}

/// Moves a record within an index.
fn reindex<T: Ord>(
    index: &mut BTreeSet<(T, SessionKey)>,
    key: SessionKey,
    from: Option<T>,
    to: Option<T>,
) {
    if from == to {
        return;
    }
    if let Some(from) = from {
        index.remove(&(from, key));
    }
    if let Some(to) = to {
        index.insert((to, key));
    }
}

clocks!(struct Header {
    host, settings, next_key, last, paused_ns, settling, counters, config_dirs, recent_ends, early_ends, dead_servers,
    shutdown, unseen_since_ms, started_at, clock_set_at, machine, queue, accounts, notices,
    from_machines, elsewhere,
} until {});

clocks!(none in Counters);

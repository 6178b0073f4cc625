//! A small world for the core's tests: builds events, keeps the clock, reads the words.
#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

mod need_log;
mod stored_times;

use std::collections::BTreeMap;

use coord_core::{Presence, Session, State, Turn, step};
use coord_model::{
    Action, Awake, Background, Command, Decision, Effect, EndReason, EnvelopeText, Event, Harness,
    HookEvent, HookKind, Host, Kind, Now, PaneFound, PaneProof, PaneSeen, ProcessRef, ProcessSeen,
    Provenance, QueueEvent, Registry, RegistryEntry, RegistryStatus, Screen, SessionState,
    Settings, StartSource, Started, TmuxPane, ToolPhase, Via,
};

use need_log::NeedLog;
use stored_times::{StoredTime, stored_times};

pub(crate) const MACHINE: &str = "machine-1";
pub(crate) const NS: u64 = 4_026_531_836;
const BOOT_AT_MS: u64 = 1_800_000_000_000;

/// Nothing is concluded from silence for so long after a start.
const SETTLE_NS: u64 = 30_000_000_000;
/// The longest wait before a message is tried again.
const RETRY_NS: u64 = 300_000_000_000;
/// How long a message that failed is kept.
const FAILED_KEPT_NS: u64 = 30 * 24 * 3_600_000_000_000;

/// The core with a clock. Every event happens at the world's time.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) seconds: f64,
    pub(crate) boot: String,
    boots: u64,
    /// By how much somebody set the wall clock, milliseconds.
    pub(crate) clock_ms: i64,
    ids: u128,
    /// Effects asked for since the last look.
    pub(crate) effects: Vec<Effect>,
    /// All decisions, but those about needs.
    pub(crate) decisions: Vec<Decision>,
    /// What the steps said of needs.
    pub(crate) needs: NeedLog,
}

impl World {
    /// A coordinator that just started.
    pub(crate) fn new() -> Self {
        let mut world = Self {
            state: State::default(),
            seconds: 100.0,
            boot: "boot-1".into(),
            boots: 0,
            clock_ms: 0,
            ids: 0,
            effects: Vec::new(),
            decisions: Vec::new(),
            needs: NeedLog::default(),
        };
        world.start_coordinator();
        world
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_ns: self.mono_ns(0.0), wall_ms: self.wall_ms(0.0) }
    }

    /// CLOCK_MONOTONIC so many seconds ago.
    pub(crate) fn mono_ns(&self, ago: f64) -> u64 {
        nanoseconds(self.seconds - ago)
    }

    fn wall_ms(&self, ago: f64) -> u64 {
        let passed_ms = nanoseconds(self.seconds - ago) / 1_000_000;
        (BOOT_AT_MS + self.boots * 1_000_000_000 + passed_ms).saturating_add_signed(self.clock_ms)
    }

    pub(crate) fn take(&mut self, event: &Event) {
        let now = self.now();
        let is_start = matches!(event, Event::Started(..));
        let waits = if is_start { self.waits_left() } else { BTreeMap::new() };
        let fx = step(&mut self.state, event, now);
        if is_start {
            self.no_time_is_of_an_older_clock(&waits);
        }
        for effect in &fx.effects {
            acts_only_where_it_may(&self.state, effect, self.state.moment(now).awake);
        }
        self.effects.extend(fx.effects);
        self.decisions.extend(self.needs.take(fx.decisions, &self.state));
        assert_eq!(self.state.violations(now), 0, "after {event:?}");
        self.nothing_is_over_while_it_is_judged();
        // The indexes say what they would say had they been made from the records alone.
        let sessions = self.state.sessions().cloned().collect();
        let messages = self.state.messages().cloned().collect();
        let (header, seen) = (self.state.header().clone(), self.state.seen().clone());
        assert_eq!(self.state, State::from_parts(header, sessions, messages, seen));
    }

    /// U-01, U-02: a session that crashed or was interrupted, and could be resumed, is being recovered or needs its person:
    /// nothing of it is listed as over.
    fn nothing_is_over_while_it_is_judged(&self) {
        let is_down = |one: &&Session| {
            matches!(one.shown.state, SessionState::Crashed | SessionState::Interrupted)
        };
        for one in self.state.sessions().filter(is_down) {
            let could_resume = one.is_resumable() && !one.is_passed_on();
            let is_open = one.recovery.pending.is_some() || !one.needs.is_empty();
            assert!(is_open || !could_resume || one.kind == Some(Kind::Headless), "{one:#?}");
        }
    }

    /// What is left of each wait, nanoseconds, by the name of its field: the longest of each name.
    fn waits_left(&self) -> BTreeMap<String, u64> {
        let last = self.state.header().last.unwrap_or_else(|| self.now());
        let last_ns = self.state.moment(last).awake.0;
        let mut left = BTreeMap::new();
        for time in self.stored_times().into_iter().filter(StoredTime::is_wait) {
            let longest = left.entry(time.path).or_insert(0);
            *longest = time.awake_ns.saturating_sub(last_ns).max(*longest);
        }
        left
    }

    /// H-32: after any start of the coordinator no stored time is ahead of now, and no wait is longer than
    /// what was left of it.
    fn no_time_is_of_an_older_clock(&self, waits: &BTreeMap<String, u64>) {
        let now_ns = self.state.moment(self.now()).awake.0;
        for time in self.stored_times() {
            if time.is_wait() {
                // A message that was worked on is tried again, and one whose time is over is kept for a while.
                let begins = match &*time.path {
                    ".state.until" => FAILED_KEPT_NS,
                    ".state.not_before" => RETRY_NS,
                    _ => SETTLE_NS,
                };
                let left = waits.get(&time.path).copied().unwrap_or(0).max(begins);
                assert!(time.awake_ns.saturating_sub(now_ns) <= left, "{time:?} at {now_ns}");
            } else if !time.is_deadline() {
                assert!(time.awake_ns <= now_ns, "{time:?} at {now_ns}");
            }
        }
    }

    fn stored_times(&self) -> Vec<StoredTime> {
        let mut times = stored_times(self.state.header());
        times.extend(self.state.sessions().flat_map(stored_times));
        times.extend(self.state.messages().flat_map(stored_times));
        times
    }

    /// Lets time pass, serving each deadline when it is due, as the loop does.
    pub(crate) fn pass(&mut self, seconds: f64) {
        let end = self.seconds + seconds;
        while let Some(at_ns) = self.state.next_deadline().filter(|at| *at <= nanoseconds(end)) {
            self.seconds = self.seconds.max(std::time::Duration::from_nanos(at_ns).as_secs_f64());
            let is_due = self.state.is_due(self.now());
            self.take(if is_due { &Event::Due } else { &Event::Tick });
            assert_ne!(self.state.next_deadline(), Some(at_ns), "a deadline stays due for ever");
        }
        self.seconds = end;
    }

    pub(crate) fn start_coordinator(&mut self) {
        let host = Host {
            machine: MACHINE.into(),
            boot: self.boot.clone(),
            boot_at_ms: BOOT_AT_MS + self.boots * 1_000_000_000,
            pid_ns: NS,
        };
        self.take(&start_of(host, Settings::default()));
    }

    /// The machine restarts, and the coordinator with it.
    pub(crate) fn reboot(&mut self) {
        self.boots += 1;
        self.boot = format!("boot-{}", self.boots + 1);
        self.seconds = 60.0;
        self.start_coordinator();
    }

    /// An event of session `id` from process `pid`, emitted `ago` seconds ago.
    pub(crate) fn event(&mut self, id: &str, pid: u32, kind: HookKind, ago: f64) -> HookEvent {
        self.ids += 1;
        HookEvent {
            id: (u128::from(self.wall_ms(ago)) << 80) | self.ids,
            kind,
            session_id: id.into(),
            boot: self.boot.clone(),
            mono_ns: self.mono_ns(ago),
            wall_ms: self.wall_ms(ago),
            machine: MACHINE.into(),
            host: "host".into(),
            harness: Some(harness(pid, None)),
            tmux: None,
            cwd: "/home/dev/project".into(),
            transcript_path: format!("/t/{id}.jsonl"),
            permission_mode: None,
            config_dir: "/home/dev/.claude".into(),
            agent: None,
            agent_kind: None,
            prompt_id: None,
            tool: None,
            digest: None,
            call: None,
            stop_hook_active: false,
            provenance: Provenance::Verified,
            via: Via::Socket,
            text: EnvelopeText::default(),
        }
    }

    pub(crate) fn send(&mut self, event: HookEvent) {
        self.take(&Event::Hook(Box::new(event)));
    }

    pub(crate) fn hook(&mut self, id: &str, pid: u32, kind: HookKind) {
        self.late_hook(id, pid, kind, 0.0);
    }

    pub(crate) fn late_hook(&mut self, id: &str, pid: u32, kind: HookKind, ago: f64) {
        let event = self.event(id, pid, kind, ago);
        self.send(event);
        self.seconds += 0.001;
    }

    /// A session of `kind`, alive and at its prompt.
    pub(crate) fn open(&mut self, id: &str, pid: u32, kind: Kind) {
        self.open_in(id, pid, kind, None);
    }

    pub(crate) fn open_in(&mut self, id: &str, pid: u32, kind: Kind, tmux: Option<TmuxPane>) {
        let mut event = self.event(id, pid, START, 0.0);
        event.harness.as_mut().unwrap().kind = Some(kind);
        event.tmux = tmux;
        self.send(event);
        self.seen_alive(pid);
        self.seconds += 0.001;
    }

    pub(crate) fn seen_alive(&mut self, pid: u32) {
        self.take(&Event::ProcessSeen(ProcessSeen {
            process: process(pid),
            alive: true,
            kind: None,
            is_stopped: false,
            forked_from: None,
            launch: None,
        }));
    }

    /// The process is looked at, and is gone.
    pub(crate) fn seen_dead(&mut self, pid: u32) {
        self.take(&Event::ProcessSeen(ProcessSeen {
            process: process(pid),
            alive: false,
            kind: None,
            is_stopped: false,
            forked_from: None,
            launch: None,
        }));
    }

    pub(crate) fn registry(&mut self, pid: u32, found: Registry, after_death: bool) {
        let process = process(pid);
        self.take(&Event::RegistryRead { process, found, after_death, domain: None });
    }

    /// The pane of process `pid` is looked at and shows `screen`.
    pub(crate) fn screen(&mut self, pid: u32, screen: Screen) {
        self.seen_on_pane(pid, its(PaneSeen { screen: Some(screen), ..blank() }), false);
    }

    pub(crate) fn seen_on_pane(&mut self, pid: u32, found: PaneFound, after_death: bool) {
        let (process, looked_ns) = (process(pid), self.mono_ns(0.0));
        self.take(&Event::PaneSeen { process, found, looked_ns, after_death });
    }

    /// The transcript of process `pid` ends with an interrupt written now.
    pub(crate) fn interrupted(&mut self, pid: u32) {
        let interrupted_ms = Some(self.wall_ms(0.0));
        let process = process(pid);
        self.take(&Event::TranscriptRead {
            process,
            interrupted_ms,
            has_signature: None,
            failure: None,
        });
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.take(&Event::ProcessExited { process: process(pid) });
    }

    /// The process dies, and its registry entry is found like this.
    pub(crate) fn die(&mut self, pid: u32, found: Registry) {
        self.exit(pid);
        self.registry(pid, found, true);
    }

    pub(crate) fn state_of(&self, id: &str) -> SessionState {
        self.session(id).shown.state
    }

    /// The only record with this id.
    #[track_caller]
    pub(crate) fn session(&self, id: &str) -> &Session {
        let mut found = self.state.sessions_with_id(id);
        let session = found.next().unwrap_or_else(|| panic!("no session {id}"));
        assert!(found.next().is_none(), "several records of {id}");
        session
    }
}

/// G4, G6, H-01, H-13: whatever happened, an act meets only a session that it may meet.
fn acts_only_where_it_may(state: &State, effect: &Effect, awake: Awake) {
    let Effect::Act(action) = effect else { return };
    let (intent, lives) = match &**action {
        Action::End { intent, .. } => (intent, true),
        Action::TypeResume { intent, .. }
        | Action::RespawnPane { intent, .. }
        | Action::NewWindow { intent, .. } => (intent, false),
        Action::Prove { .. }
        | Action::Wake { .. }
        | Action::Release { .. }
        | Action::WriteStop { .. }
        | Action::RemoveStop { .. }
        | Action::Notify { .. } => {
            return;
        }
    };
    let session = state.session(intent.session).unwrap();
    let ours = session.recovery.pending.is_none();
    assert_eq!(session.may_live(), lives, "{action:?} on {session:?}");
    let is_held = session.held.as_ref().is_some_and(|hold| hold.lasts(awake));
    assert!(!session.is_foreign && !is_held, "{action:?}");
    if lives {
        // H-07: in a turn only one whose main thread stood still for a minute.
        let still = session.recovery.pending.as_ref().and_then(|pending| pending.still.as_ref());
        let is_hung = still.is_some_and(|still| 60_000 <= awake.ms_since(still.since));
        let in_a_turn = matches!(*session.turn, Turn::Open { .. });
        assert!(is_hung || !in_a_turn, "{action:?} in a turn");
        assert!(session.waits.is_empty() && !session.background.is_any(), "{action:?}");
    } else {
        let is_users = matches!(
            *session.presence,
            Presence::Ended { reason: Some(EndReason::PromptInputExit | EndReason::Logout), .. }
        );
        assert!(!is_users && session.left.is_none() && !session.two_owners, "{action:?}");
        assert!(!ours && session.recovery.needs_operator.is_none(), "{action:?}");
        assert!(state.header().machine.under_way.contains(&session.key));
        let limits = (&state.header().settings, session.recovery.budget.used());
        assert!(limits.1.1 <= limits.0.recoveries_total, "G5");
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(std::time::Duration::from_secs_f64(seconds).as_nanos()).unwrap()
}

pub(crate) fn harness(pid: u32, kind: Option<Kind>) -> Harness {
    let ProcessRef { pid, start_time } = process(pid);
    Harness { pid, start_time, pid_ns: NS, tty: 34_816, kind }
}

pub(crate) fn process(pid: u32) -> ProcessRef {
    ProcessRef { pid, start_time: u64::from(pid) * 10 }
}

/// A coordinator starts.
pub(crate) fn start_of(host: Host, settings: Settings) -> Event {
    Event::Started(Box::new(Started { version: "0".into(), host, settings }))
}

/// The configuration was changed.
pub(crate) fn settings(settings: Settings) -> Event {
    Event::ConfigChanged { settings: Box::new(settings), changes: Vec::new() }
}

/// Something happens to a message.
pub(crate) fn queue_event(event: QueueEvent) -> Event {
    Event::Message { id: String::new(), what: String::new(), event }
}

/// A person orders something.
pub(crate) fn order(command: Command) -> Event {
    Event::Operator { session_id: None, what: String::new(), command }
}

/// There is no registry.
pub(crate) fn no_registry() -> Registry {
    Registry::Unreadable { why: "not there".into() }
}

pub(crate) fn present(id: &str) -> Registry {
    entry(id, None, 0)
}

/// An entry of session `id` whose status changed at `changed_ms`.
pub(crate) fn entry(id: &str, status: Option<RegistryStatus>, changed_ms: u64) -> Registry {
    let (status, waiting_for) = words(status);
    Registry::Present(RegistryEntry {
        session_id: id.into(),
        status,
        waiting_for,
        changed_ms,
        cwd: "/home/dev/project".into(),
        config_dir: "/home/dev/.claude".into(),
        ..RegistryEntry::default()
    })
}

/// The client's words for a status, and for what it waits for.
pub(crate) fn words(status: Option<RegistryStatus>) -> (Option<String>, Option<String>) {
    let (status, waiting_for) = match status {
        None => (None, None),
        Some(RegistryStatus::Idle) => (Some("idle"), None),
        Some(RegistryStatus::Busy) => (Some("busy"), None),
        Some(RegistryStatus::Shell) => (Some("shell"), None),
        Some(RegistryStatus::WaitingPermission) => (Some("waiting"), Some("permission prompt")),
        Some(RegistryStatus::WaitingInput) => (Some("waiting"), Some("input needed")),
    };
    (status.map(Into::into), waiting_for.map(Into::into))
}

pub(crate) fn pane(server: u32) -> TmuxPane {
    TmuxPane { socket: "/tmp/t/default".into(), server: process(server), pane: "%1".into() }
}

/// A proved pane with a screen that fits no class.
pub(crate) fn blank() -> PaneSeen {
    let proof = PaneProof { pane_pid: 50, tty: 34_816 };
    PaneSeen {
        pane: pane(7),
        proof,
        screen: None,
        farewell: None,
        signature: None,
        digest: None,
        place: None,
    }
}

pub(crate) fn its(seen: PaneSeen) -> PaneFound {
    PaneFound::Found(seen)
}

pub(crate) const START: HookKind = HookKind::SessionStart(StartSource::Startup);
pub(crate) const RESUME: HookKind = HookKind::SessionStart(StartSource::Resume);
pub(crate) const PROMPT: HookKind = HookKind::UserPromptSubmit;
pub(crate) const TOOL: HookKind = HookKind::Tool(ToolPhase::After);
pub(crate) const STOP: HookKind = HookKind::Stop(Background { tasks: 0, subagents: 0, crons: 0 });
pub(crate) const END: HookKind = HookKind::SessionEnd(EndReason::Other);
pub(crate) const EXIT: HookKind = HookKind::SessionEnd(EndReason::PromptInputExit);

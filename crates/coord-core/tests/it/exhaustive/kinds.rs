//! The event kinds: everything that can happen to session `s1` of process 100, by name.

use coord_model::{
    Address, Background, Decision, Domain, EndReason, Event, EventId, Failure, Farewell,
    FleetEvent, HookEvent, HookKind, Host, Kind, MachineId, MessageId, NamedMachine, NewMessage,
    PaneFound, PaneSeen, ProcessRef, ProcessSeen, QueueEvent, Registry, RegistryEntry,
    RegistryStatus, RequestId, Same, Screen, Sender, SessionKey, Settings, StartSource, TaskFound,
    ToolPhase, Via, Work,
};

use crate::world::{
    MACHINE, NS, PROMPT, RESUME, START, STOP, TOOL, World, blank, entry, its, no_registry, process,
    queue_event, settings, start_of,
};

/// Makes events as they are at the world's time.
type Make = dyn Fn(&mut World) -> Vec<Event> + Sync;

/// What can happen, by the name it has in the table. Usually one event; a few are a look repeated
/// 1.1 s later, for what a screen shows counts from the second look on.
pub(crate) struct Symbol {
    pub(crate) name: String,
    make: Box<Make>,
}

impl Symbol {
    pub(crate) fn new(
        name: impl Into<String>,
        make: impl Fn(&mut World) -> Vec<Event> + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), make: Box::new(make) }
    }

    /// The events, as they are at the world's time.
    pub(crate) fn events(&self, world: &mut World) -> Vec<Event> {
        (self.make)(world)
    }
}

/// A hook event of `s1` from process 100, changed by `change`.
pub(crate) fn hook(
    name: impl Into<String>,
    kind: HookKind,
    change: impl Fn(&mut HookEvent) + Sync + 'static,
) -> Symbol {
    hook_of(name, ("s1", 100), kind, 0.0, change)
}

/// The same, emitted before anything that its session reported.
pub(crate) fn late(name: &str, kind: HookKind) -> Symbol {
    hook_of(format!("{name}, late"), ("s1", 100), kind, 50.0, |_| ())
}

/// A hook event of another id or process.
pub(crate) fn hook_by(name: &str, id: &'static str, pid: u32, kind: HookKind) -> Symbol {
    hook_of(name, (id, pid), kind, 0.0, |_| ())
}

fn hook_of(
    name: impl Into<String>,
    (id, pid): (&'static str, u32),
    kind: HookKind,
    ago: f64,
    change: impl Fn(&mut HookEvent) + Sync + 'static,
) -> Symbol {
    Symbol::new(name, move |world| {
        let mut event = world.event(id, pid, kind.clone(), ago);
        change(&mut event);
        vec![Event::Hook(Box::new(event))]
    })
}

/// An event of a call of `tool` with input 1, in the main thread or a subagent.
pub(crate) fn call(
    name: &str,
    kind: HookKind,
    tool: &'static str,
    agent: Option<&'static str>,
) -> Symbol {
    hook(name, kind, move |event| {
        event.tool = Some(tool.into());
        event.digest = Some(1);
        event.agent = agent.map(Into::into);
    })
}

pub(crate) fn in_subagent(event: &mut HookEvent) {
    event.agent = Some("a1".into());
}

/// An event that names the prompt it belongs to.
pub(crate) fn of_prompt(name: &str, kind: HookKind, prompt: &'static str) -> Symbol {
    hook(name, kind, move |event| event.prompt_id = Some(prompt.into()))
}

/// Another pid namespace of this machine.
pub(crate) fn elsewhere() -> Domain {
    Domain { machine: MACHINE.into(), pid_ns: 1 }
}

/// The registry's entry of process 100 says this since now.
pub(crate) fn says(name: &str, status: Option<RegistryStatus>) -> Symbol {
    Symbol::new(name, move |world| vec![read(100, entry("s1", status, world.now().wall_ms), false)])
}

/// A look at the registry entry of a process.
pub(crate) fn registry(name: &str, pid: u32, found: Registry, after_death: bool) -> Symbol {
    Symbol::new(name, move |_| vec![read(pid, found.clone(), after_death)])
}

fn read(pid: u32, found: Registry, after_death: bool) -> Event {
    Event::RegistryRead { process: process(pid), found, after_death, domain: None }
}

/// A look at the pane of process 100, or two.
pub(crate) fn pane(name: impl Into<String>, found: PaneFound, after_death: bool) -> Symbol {
    Symbol::new(name, move |world| vec![look(world, &found, after_death)])
}

pub(crate) fn look(world: &World, found: &PaneFound, after_death: bool) -> Event {
    let looked_ns = world.mono_ns(0.0);
    Event::PaneSeen { process: process(100), found: found.clone(), looked_ns, after_death }
}

pub(crate) fn shows(screen: Screen) -> PaneFound {
    its(PaneSeen { screen: Some(screen), ..blank() })
}

pub(crate) fn farewell(id: &str) -> PaneFound {
    its(PaneSeen { farewell: Some(Farewell::Last(id.into())), ..blank() })
}

fn unreadable() -> PaneFound {
    PaneFound::Unreadable { why: "no answer".into() }
}

/// Process 100 is seen alive.
pub(crate) fn seen(name: &str, change: impl Fn(&mut Seen) + Sync + 'static) -> Symbol {
    Symbol::new(name, move |_| {
        let mut seen = Seen { process: process(100), ..Seen::default() };
        change(&mut seen);
        let Seen { process, dead, kind, is_stopped, forked_from } = seen;
        let (alive, launch) = (!dead, None);
        vec![Event::ProcessSeen(ProcessSeen {
            process,
            alive,
            kind,
            is_stopped,
            forked_from,
            launch,
        })]
    })
}

/// What a look at a process found.
pub(crate) struct Seen {
    process: ProcessRef,
    dead: bool,
    kind: Option<Kind>,
    is_stopped: bool,
    forked_from: Option<String>,
}

impl Default for Seen {
    fn default() -> Self {
        let process = process(100);
        Self { process, dead: false, kind: None, is_stopped: false, forked_from: None }
    }
}

pub(crate) fn exit(name: &str, pid: u32) -> Symbol {
    Symbol::new(name, move |_| vec![Event::ProcessExited { process: process(pid) }])
}

pub(crate) fn one(name: &str, event: Event) -> Symbol {
    Symbol::new(name, move |_| vec![event.clone()])
}

/// A coordinator starts: on this boot, or on the next one.
pub(crate) fn started(name: &str, is_new_boot: bool) -> Symbol {
    Symbol::new(name, move |world| {
        let host = world.state.header().host.as_ref();
        let boot = host.map_or_else(|| world.boot.clone(), |host| host.boot.clone());
        let boot = if is_new_boot { "boot-9".into() } else { boot };
        let boot_at_ms = world.now().wall_ms.saturating_sub(1_000);
        let host = Host { machine: MACHINE.into(), boot, boot_at_ms, pid_ns: NS };
        vec![start_of(host, Settings::default())]
    })
}

/// The newest id there is, under another meaning.
fn duplicate(world: &mut World) -> Vec<Event> {
    let ids = world.state.seen().to_bytes();
    let (chunks, _) = ids.as_chunks::<16>();
    let id = chunks.last().map(|id| EventId::from_be_bytes(*id));
    let kind = HookKind::SessionEnd(EndReason::PromptInputExit);
    let event = world.event("s1", 100, kind, 0.0);
    id.map(|id| Event::Hook(Box::new(HookEvent { id, ..event }))).into_iter().collect()
}

fn starts_and_ends() -> Vec<Symbol> {
    let source = HookKind::SessionStart;
    let reason = HookKind::SessionEnd;
    vec![
        hook("SessionStart startup", START, |_| ()),
        hook("SessionStart resume", RESUME, |_| ()),
        hook("SessionStart compact", source(StartSource::Compact), |_| ()),
        hook("SessionStart unknown", source(StartSource::Unknown), |_| ()),
        late("SessionStart startup", START),
        hook_by("SessionStart clear as s2", "s2", 100, source(StartSource::Clear)),
        hook_by("SessionStart fork as s2", "s2", 100, source(StartSource::Fork)),
        hook_by("SessionStart resume as s2", "s2", 100, RESUME),
        hook_by("SessionStart startup, process 200", "s1", 200, START),
        hook_by("SessionStart resume, process 200", "s1", 200, RESUME),
        hook("SessionEnd prompt_input_exit", reason(EndReason::PromptInputExit), |_| ()),
        hook("SessionEnd logout", reason(EndReason::Logout), |_| ()),
        hook("SessionEnd clear", reason(EndReason::Clear), |_| ()),
        hook("SessionEnd resume", reason(EndReason::Resume), |_| ()),
        hook("SessionEnd other", reason(EndReason::Other), |_| ()),
        late("SessionEnd other", reason(EndReason::Other)),
        hook("SessionEnd other, no process", reason(EndReason::Other), |event| {
            event.harness = None;
        }),
        hook_by("SessionEnd other, process 200", "s1", 200, reason(EndReason::Other)),
        hook_by("SessionEnd other as s9", "s9", 100, reason(EndReason::Other)),
        hook_by("SessionEnd other as s9, process 900", "s9", 900, reason(EndReason::Other)),
    ]
}

fn turn_edges() -> Vec<Symbol> {
    let with = |tasks, subagents, crons| HookKind::Stop(Background { tasks, subagents, crons });
    let failure = |error: &str| HookKind::StopFailure(error.into());
    vec![
        hook("UserPromptSubmit", PROMPT, |_| ()),
        of_prompt("UserPromptSubmit of prompt p1", PROMPT, "p1"),
        of_prompt("UserPromptSubmit of prompt p2", PROMPT, "p2"),
        hook("UserPromptSubmit in a subagent", PROMPT, in_subagent),
        late("UserPromptSubmit", PROMPT),
        hook("UserPromptSubmit, no process", PROMPT, |event| event.harness = None),
        hook_by("UserPromptSubmit, process 200", "s1", 200, PROMPT),
        hook_by("UserPromptSubmit as s2", "s2", 100, PROMPT),
        hook("UserPromptSubmit, 8 days in the spool", PROMPT, |event| {
            event.via = Via::Spool;
            event.wall_ms -= 8 * 24 * 3_600_000;
        }),
        hook("Stop", STOP, |_| ()),
        of_prompt("Stop of prompt p1", STOP, "p1"),
        of_prompt("Stop of prompt p2", STOP, "p2"),
        hook("Stop, a task in the background", with(1, 0, 0), |_| ()),
        hook("Stop, a subagent in the background", with(0, 1, 0), |_| ()),
        hook("Stop, a wake-up to come", with(0, 0, 1), |_| ()),
        hook("Stop in a subagent", STOP, in_subagent),
        late("Stop", STOP),
        hook_by("Stop, process 200", "s1", 200, STOP),
        hook("StopFailure rate_limit", failure("rate_limit"), |_| ()),
        hook("StopFailure authentication_failed", failure("authentication_failed"), |_| ()),
        hook("StopFailure billing_error", failure("billing_error"), |_| ()),
        hook("StopFailure server_error", failure("server_error"), |_| ()),
        hook("StopFailure in a subagent", failure("rate_limit"), in_subagent),
        late("StopFailure rate_limit", failure("rate_limit")),
    ]
}

fn tools_and_prompts() -> Vec<Symbol> {
    let tool = HookKind::Tool;
    let note = |kind: &str| HookKind::Notification(kind.into());
    let (ask, denied) = (HookKind::PermissionRequest, HookKind::PermissionDenied);
    vec![
        call("PreToolUse", tool(ToolPhase::Before), "Bash", None),
        call("PostToolUse", TOOL, "Bash", None),
        call("PostToolUse of another tool", TOOL, "Read", None),
        call("PostToolUse of a question", TOOL, "AskUserQuestion", None),
        call("PostToolUse in a subagent", TOOL, "Bash", Some("a1")),
        call("PostToolUseFailure", tool(ToolPhase::Failed), "Bash", None),
        late("PostToolUse", TOOL),
        hook_by("PostToolUse, process 200", "s1", 200, TOOL),
        call("PermissionRequest", ask.clone(), "Bash", None),
        call("PermissionRequest of a question", ask.clone(), "AskUserQuestion", None),
        call("PermissionRequest of a plan", ask.clone(), "ExitPlanMode", None),
        call("PermissionRequest in a subagent", ask.clone(), "Bash", Some("a1")),
        late("PermissionRequest", ask),
        call("PermissionDenied", denied, "Bash", None),
        hook("Notification permission_prompt", note("permission_prompt"), |_| ()),
        hook("Notification agent_needs_input", note("agent_needs_input"), |_| ()),
        hook("Notification idle_prompt", note("idle_prompt"), |_| ()),
        hook("SubagentStop", HookKind::SubagentStop, in_subagent),
        hook("SubagentStop of a compaction", HookKind::SubagentStop, |_| ()),
        hook("StatusLine", HookKind::StatusLine(Box::default()), |_| ()),
        hook("PreCompact", HookKind::Other("PreCompact".into()), |_| ()),
        hook("SubagentStart", HookKind::Other("SubagentStart".into()), in_subagent),
        Symbol::new("a duplicate", duplicate),
        Symbol::new("Folded", |world| {
            let id = world.event("s1", 100, PROMPT, 0.0).id;
            vec![Event::Folded { id, event: "PreToolUse".into(), session_id: "s1".into() }]
        }),
        one("SpoolFolded", Event::SpoolFolded { events: 3 }),
        one("Malformed", Event::Malformed { via: Via::Spool, why: String::new() }),
    ]
}

fn processes() -> Vec<Symbol> {
    vec![
        seen("process alive", |_| ()),
        seen("process alive, headless", |seen| seen.kind = Some(Kind::Headless)),
        seen("process alive, stopped", |seen| seen.is_stopped = true),
        seen("process alive, forks s0", |seen| seen.forked_from = Some("s0".into())),
        seen("process seen dead", |seen| seen.dead = true),
        seen("process 200 alive", |seen| seen.process = process(200)),
        exit("process exited", 100),
        exit("process 200 exited", 200),
        exit("tmux server exited", 7),
    ]
}

fn registries() -> Vec<Symbol> {
    let foreign = RegistryEntry {
        session_id: "s1".into(),
        status: Some("busy".into()),
        is_foreign: true,
        ..RegistryEntry::default()
    };
    let busy = |id| entry(id, Some(RegistryStatus::Busy), 0);
    vec![
        says("registry idle", Some(RegistryStatus::Idle)),
        says("registry busy", Some(RegistryStatus::Busy)),
        says("registry shell", Some(RegistryStatus::Shell)),
        says("registry waiting: permission", Some(RegistryStatus::WaitingPermission)),
        says("registry waiting: input", Some(RegistryStatus::WaitingInput)),
        says("registry, no known status", None),
        registry(
            "registry idle since long ago",
            100,
            entry("s1", Some(RegistryStatus::Idle), 1),
            false,
        ),
        registry("registry busy since long ago", 100, busy("s1"), false),
        registry("registry busy as s2", 100, busy("s2"), false),
        registry("registry, foreign", 100, Registry::Present(foreign), false),
        registry("registry busy, process 200", 200, busy("s1"), false),
        registry("registry absent", 100, Registry::Absent, false),
        registry("registry unreadable", 100, no_registry(), false),
        registry("registry entry after death", 100, busy("s1"), true),
        registry("registry absent after death", 100, Registry::Absent, true),
        registry("registry unreadable after death", 100, no_registry(), true),
        Symbol::new("registry busy, elsewhere", move |world| {
            let found = entry("s1", Some(RegistryStatus::Busy), world.now().wall_ms);
            let process = process(100);
            vec![Event::RegistryRead {
                process,
                found,
                after_death: false,
                domain: Some(elsewhere()),
            }]
        }),
        Symbol::new("registry absent, elsewhere", move |_| {
            let (process, found) = (process(100), Registry::Absent);
            vec![Event::RegistryRead {
                process,
                found,
                after_death: false,
                domain: Some(elsewhere()),
            }]
        }),
    ]
}

fn panes() -> Vec<Symbol> {
    let signed = PaneSeen { signature: Some("stack-overflow".into()), ..blank() };
    let mut panes: Vec<Symbol> = Screen::ALL
        .into_iter()
        .map(|screen| pane(format!("screen {}", screen.word()), shows(screen), false))
        .collect();
    for screen in Screen::ALL {
        panes.push(Symbol::new(format!("screen {}, twice later", screen.word()), move |world| {
            let mut later = world.clone();
            later.seconds += 1.1;
            let looks = [look(&later, &shows(screen), false), look(&later, &shows(screen), false)];
            looks.into()
        }));
    }
    panes.extend([
        pane("screen of no class", its(blank()), false),
        pane("screen with a signature", its(signed), false),
        pane("pane not there", PaneFound::NotThere, false),
        pane("pane unreadable", unreadable(), false),
        pane("farewell after death", farewell("s1"), true),
        pane("farewell of s9 after death", farewell("s9"), true),
        pane("no farewell after death", its(blank()), true),
        pane("pane not there after death", PaneFound::NotThere, true),
        pane("pane unreadable after death", unreadable(), true),
    ]);
    panes
}

/// The transcript of process 100 ends with an interrupt written `ago` seconds ago.
pub(crate) fn transcript(name: &str, ago: Option<u64>, has_signature: Option<bool>) -> Symbol {
    Symbol::new(name, move |world| {
        let interrupted_ms = ago.map(|ago| world.now().wall_ms.saturating_sub(ago * 1_000));
        vec![Event::TranscriptRead {
            process: process(100),
            interrupted_ms,
            has_signature,
            failure: None,
        }]
    })
}

/// The transcript of process 100 ends with a usage limit that ends so much later.
fn limit(name: &str, left_ms: u64) -> Symbol {
    Symbol::new(name, move |world| {
        let error = "rate_limit".into();
        let written_ms = world.now().wall_ms;
        let failure = Failure { error, written_ms, resets_ms: Some(written_ms + left_ms) };
        vec![Event::TranscriptRead {
            process: process(100),
            interrupted_ms: None,
            has_signature: None,
            failure: Some(failure),
        }]
    })
}

/// What is in the directory of the task that "idle with a task" has.
fn task(name: &str, signal: Option<u64>, stop: Option<&str>) -> Symbol {
    let found = TaskFound { signal, stop: stop.map(Into::into) };
    one(name, Event::TaskRead { dir: "/task".into(), found })
}

fn message() -> Symbol {
    let to = Address::Queue("builds".into());
    let (id, from, same) = (MessageId::from_random(1), Sender::Operator, Same::Text(1));
    let new = NewMessage { id, to, from, is_urgent: false, depth: 0, same, bytes: 1, ttl_ms: None };
    one("message sent to a program", queue_event(QueueEvent::Sent(new)))
}

/// The repository of a session is looked at: of one that waits for it, if there is one.
fn work() -> Symbol {
    Symbol::new("work looked at", |world| {
        let sessions = || world.state.sessions();
        let of = sessions().find(|one| one.work.is_some()).or_else(|| sessions().next());
        let session = of.map_or(SessionKey(1), |one| one.key);
        let (session_id, work) = ("s1".into(), Box::new(Work::NotOurs));
        vec![Event::WorkSeen { session_id, session, work }]
    })
}

fn fleet() -> Event {
    let of = NamedMachine { machine: MachineId(1), name: "desk".to_owned() };
    Event::Fleet(FleetEvent::Needs { of, needs: Vec::new() })
}

fn coordinator() -> Vec<Symbol> {
    let lock = |held| Event::ConfigDirLock { config_dir: "/home/dev/.claude".into(), held };
    vec![
        transcript("transcript interrupted", Some(0), None),
        transcript("transcript interrupted long ago", Some(1_000), None),
        transcript("transcript holds the signature", None, Some(true)),
        limit("transcript ends at a limit of an hour", 3_600_000),
        limit("transcript ends at a limit of a year", 365 * 86_400_000),
        work(),
        task("task signalled", Some(7), None),
        task("task stopped", None, Some("lunch")),
        task("task neither signalled nor stopped", None, None),
        message(),
        one("config dir locked", lock(true)),
        one("config dir locked by another", lock(false)),
        started("coordinator started, same boot", false),
        started("coordinator started, new boot", true),
        one("shutdown begins", Event::Shutdown { under_way: true }),
        one("shutdown called off", Event::Shutdown { under_way: false }),
        one("gap of 60 s", Event::Gap { ns: 60_000_000_000 }),
        one("settings changed", settings(Settings::default())),
        one("due", Event::Due),
        one("tick", Event::Tick),
        one(
            "notice sent",
            Event::NoticeSent {
                channel: "phone".into(),
                number: 1,
                answer: coord_model::SendAnswer {
                    is_sent: true,
                    handle: None,
                    saying: String::new(),
                    tries: 1,
                    is_refused: false,
                    is_nobody_there: false,
                    retry_after_ms: None,
                },
                what: String::new(),
                needs: Vec::new(),
            },
        ),
        one(
            "presence",
            Event::PresenceSeen {
                need: coord_model::NeedId { session: SessionKey(1), number: 1 },
                is_present: true,
            },
        ),
        one(
            "reply seen",
            Event::ReplySeen {
                session_id: "s".to_owned(),
                session: SessionKey(1),
                request: RequestId(1),
                decided: None,
            },
        ),
        one(
            "request hook ended",
            Event::RequestHookEnded {
                session_id: "s".to_owned(),
                session: SessionKey(1),
                request: RequestId(1),
            },
        ),
        one("local clock", Event::LocalClock { offsets: Vec::new() }),
        one("fleet", fleet()),
        one("journal reopened", Event::JournalReopened { why: String::new(), after_ms: 1 }),
        one("decision", Event::Decision(decision())),
    ]
}

/// Everything that stands in the table, in its order.
pub(crate) fn all() -> Vec<Symbol> {
    [
        starts_and_ends(),
        turn_edges(),
        tools_and_prompts(),
        processes(),
        registries(),
        panes(),
        coordinator(),
        super::recoveries::symbols(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn decision() -> Decision {
    let (saw, did) = (String::new(), String::new());
    Decision { session_id: "s1".into(), rule: "R-01".into(), saw, did, need: None, notice: None }
}

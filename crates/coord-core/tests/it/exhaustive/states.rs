//! The reduced states: every kind of session that the rules tell apart, and how it comes about.

use coord_model::{
    Background, Command, EndReason, Event, Farewell, HookKind, Kind, MarkChange, PaneFound,
    PaneSeen, ProcessSeen, Registry, RegistryEntry, RegistryStatus, Screen, StartSource, ToolPhase,
    Whom,
};

use crate::world::{
    END, EXIT, PROMPT, RESUME, START, STOP, World, blank, entry, its, no_registry, order, pane,
    present, process,
};

/// The session of every state is `s1` in process 100 and in a pane of server 7.
pub(crate) struct Reached {
    pub(crate) name: &'static str,
    pub(crate) build: fn() -> World,
}

const BUSY: RegistryStatus = RegistryStatus::Busy;
const IDLE: RegistryStatus = RegistryStatus::Idle;

const PLAIN: &[Reached] = &[
    Reached { name: "none", build: World::new },
    Reached { name: "starting (headless)", build: starting },
    Reached { name: "at its first prompt", build: open },
    Reached { name: "at its first prompt, registry idle", build: || registered(open(), IDLE) },
    Reached { name: "running, headless", build: headless_turn },
    Reached { name: "running", build: turn },
    Reached { name: "running, registry busy", build: || registered(turn(), BUSY) },
    Reached { name: "running, registry behind", build: contested },
    Reached { name: "running, screen contradicts once", build: unclear },
    Reached { name: "running, queued prompt", build: queued },
    Reached { name: "running, queued prompt, registry busy", build: || registered(queued(), BUSY) },
    Reached { name: "running, between two turns", build: between },
    Reached { name: "running, signature seen", build: signature },
    Reached { name: "stalled", build: stalled },
    Reached { name: "idle with a task, unattended and still", build: still_at_rest },
    Reached { name: "at its usage limit, unattended", build: at_its_limit },
    Reached { name: "idle", build: || then(turn(), STOP) },
    Reached {
        name: "idle, registry idle",
        build: || registered(then(registered(turn(), BUSY), STOP), IDLE),
    },
    Reached { name: "interrupted turn, by registry", build: by_registry },
    Reached { name: "interrupted turn, by pane", build: by_pane },
    Reached { name: "interrupted turn, by transcript", build: by_transcript },
    Reached { name: "background subagent", build: || then(turn(), stop_with(0, 1, 0)) },
    Reached {
        name: "background task and wake-up, registry busy",
        build: || registered(then(turn(), stop_with(1, 0, 1)), BUSY),
    },
    Reached {
        name: "background shell, by registry",
        build: || registered(then(turn(), STOP), RegistryStatus::Shell),
    },
    Reached { name: "waiting for permission", build: || ask(turn(), None, "Bash") },
    Reached {
        name: "waiting for permission, registry waiting",
        build: || registered(ask(turn(), None, "Bash"), RegistryStatus::WaitingPermission),
    },
    Reached {
        name: "waiting for permission, a subagent's",
        build: || ask(turn(), Some("a1"), "Bash"),
    },
    Reached { name: "waiting for an answer", build: || ask(turn(), None, "AskUserQuestion") },
    Reached {
        name: "waiting in a dialog, by registry",
        build: || registered(open(), RegistryStatus::WaitingInput),
    },
    Reached { name: "failed: rate_limit", build: || failed("rate_limit") },
    Reached { name: "failed: authentication_failed", build: || failed("authentication_failed") },
    Reached { name: "failed: billing_error", build: || failed("billing_error") },
    Reached { name: "failed: server_error", build: || failed("server_error") },
    Reached { name: "suspended in a turn", build: suspended },
    Reached { name: "foreign", build: foreign },
    Reached { name: "elsewhere", build: elsewhere },
    Reached { name: "elsewhere, entry removed", build: elsewhere_removed },
    Reached { name: "two owners", build: two_owners },
    Reached { name: "resumed after a crash", build: || then_by(crashed(), 200, RESUME) },
    Reached { name: "cleared", build: cleared },
    Reached { name: "unknown by silence", build: silent },
    Reached { name: "dying", build: || dead(turn()) },
    Reached { name: "dying, registry busy", build: || dead(registered(turn(), BUSY)) },
    Reached { name: "dying, pane asked", build: asks_pane },
    Reached { name: "dying at rest, pane asked", build: asks_pane_at_rest },
    Reached { name: "found dead, pane asked", build: found_dead },
    Reached { name: "ended: prompt_input_exit", build: || ended(EndReason::PromptInputExit) },
    Reached { name: "ended: prompt_input_exit, process gone", build: || dead(then(turn(), EXIT)) },
    Reached { name: "ended: logout", build: || ended(EndReason::Logout) },
    Reached { name: "ended: other", build: || ended(EndReason::Other) },
    Reached { name: "ended: other, process gone", build: || dead(then(turn(), END)) },
    Reached { name: "cleared, process gone, not judged", build: || dead(cleared()) },
    Reached { name: "ended: clear, process gone", build: ended_cleared },
    Reached { name: "ended: its process went over", build: went_over },
    Reached { name: "ended: registry entry removed", build: removed },
    Reached { name: "ended: farewell on the pane", build: farewell },
    Reached { name: "crashed, entry left behind", build: crashed },
    Reached { name: "crashed, by its pane", build: crashed_by_pane },
    Reached { name: "gone", build: gone },
    Reached { name: "interrupted: new boot", build: new_boot },
    Reached { name: "interrupted: tmux server", build: server_died },
    Reached { name: "interrupted: many ends", build: many_ends },
    Reached { name: "interrupted: shutdown", build: shut_down },
];

/// All of them.
pub(crate) fn states() -> impl Iterator<Item = &'static Reached> {
    PLAIN.iter().chain(super::recoveries::STATES)
}

fn open() -> World {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane(7)));
    world
}

fn starting() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Headless);
    world
}

fn headless_turn() -> World {
    then(starting(), PROMPT)
}

fn then(world: World, kind: HookKind) -> World {
    then_by(world, 100, kind)
}

fn then_by(mut world: World, pid: u32, kind: HookKind) -> World {
    world.hook("s1", pid, kind);
    world
}

fn with_prompt_id(mut world: World, kind: HookKind) -> World {
    let mut event = world.event("s1", 100, kind, 0.0);
    event.prompt_id = Some("p1".into());
    world.send(event);
    world.seconds += 0.001;
    world
}

fn turn() -> World {
    with_prompt_id(open(), PROMPT)
}

fn queued() -> World {
    with_prompt_id(turn(), PROMPT)
}

fn between() -> World {
    with_prompt_id(queued(), STOP)
}

fn registered(mut world: World, status: RegistryStatus) -> World {
    let changed_ms = world.now().wall_ms;
    world.registry(100, entry("s1", Some(status), changed_ms), false);
    world.seconds += 0.001;
    world
}

fn contested() -> World {
    let mut world = registered(open(), IDLE);
    world.pass(1.0);
    let mut world = then(world, PROMPT);
    world.pass(2.1);
    world
}

fn unclear() -> World {
    let mut world = turn();
    world.pass(1.5);
    world.screen(100, Screen::Prompt);
    world
}

fn signature() -> World {
    let mut world = turn();
    let seen = PaneSeen { signature: Some("stack-overflow".into()), ..blank() };
    world.seen_on_pane(100, its(seen), false);
    world
}

/// Nobody watches it, and its screen has been the same for eleven minutes.
fn stalled() -> World {
    let mut world = registered(turn(), BUSY);
    let whom = Whom::Session(world.session("s1").key);
    let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
    world.take(&order(Command::Attend { whom, marks }));
    let still = || PaneSeen { screen: Some(Screen::Working), digest: Some(1), ..blank() };
    world.seen_on_pane(100, its(still()), false);
    world.pass(660.0);
    world.seen_on_pane(100, its(still()), false);
    world
}

fn unattended(mut world: World) -> World {
    let whom = Whom::Session(world.session("s1").key);
    let task_dir = Some("/task".into());
    let marks = MarkChange { unattended: Some(true), task_dir, ..MarkChange::default() };
    world.take(&order(Command::Attend { whom, marks }));
    world
}

/// It has been at its prompt for four minutes, and is being looked at for that.
fn still_at_rest() -> World {
    let mut world = unattended(registered(then(registered(turn(), BUSY), STOP), IDLE));
    let still = || PaneSeen { screen: Some(Screen::Prompt), digest: Some(1), ..blank() };
    world.seen_on_pane(100, its(still()), false);
    world.pass(240.0);
    world.seen_on_pane(100, its(still()), false);
    world
}

fn at_its_limit() -> World {
    let failed = HookKind::StopFailure("rate_limit".into());
    unattended(registered(then(registered(turn(), BUSY), failed), IDLE))
}

fn by_registry() -> World {
    let mut world = registered(turn(), BUSY);
    world.pass(3.0);
    registered(world, IDLE)
}

fn by_pane() -> World {
    let mut world = unclear();
    world.pass(0.5);
    world.screen(100, Screen::Prompt);
    world
}

fn by_transcript() -> World {
    let mut world = turn();
    world.interrupted(100);
    world
}

fn stop_with(tasks: u32, subagents: u32, crons: u32) -> HookKind {
    HookKind::Stop(Background { tasks, subagents, crons })
}

/// A call of `tool` with input 1 asks.
fn ask(mut world: World, agent: Option<&str>, tool: &str) -> World {
    for kind in [HookKind::Tool(ToolPhase::Before), HookKind::PermissionRequest] {
        let mut event = world.event("s1", 100, kind, 0.0);
        event.agent = agent.map(Into::into);
        event.tool = Some(tool.into());
        event.digest = Some(1);
        world.send(event);
        world.seconds += 0.001;
    }
    world
}

fn failed(error: &str) -> World {
    then(turn(), HookKind::StopFailure(error.into()))
}

fn suspended() -> World {
    let mut world = turn();
    world.take(&Event::ProcessSeen(ProcessSeen {
        process: process(100),
        alive: true,
        kind: None,
        is_stopped: true,
        forked_from: None,
        launch: None,
    }));
    world
}

fn foreign() -> World {
    let mut world = World::new();
    let entry = RegistryEntry {
        session_id: "s1".into(),
        status: Some("busy".into()),
        changed_ms: world.now().wall_ms,
        is_foreign: true,
        ..RegistryEntry::default()
    };
    world.registry(100, Registry::Present(entry), false);
    world
}

/// In another pid namespace, where its pid is the same.
fn elsewhere() -> World {
    let mut world = World::new();
    let mut event = world.event("s1", 100, START, 0.0);
    if let Some(harness) = &mut event.harness {
        harness.pid_ns = 1;
    }
    world.send(event);
    world.seconds += 0.001;
    world
}

fn elsewhere_removed() -> World {
    let mut world = elsewhere();
    let changed_ms = world.now().wall_ms;
    for found in [entry("s1", Some(BUSY), changed_ms), Registry::Absent] {
        let domain = Some(super::kinds::elsewhere());
        let process = process(100);
        world.take(&Event::RegistryRead { process, found, after_death: false, domain });
        world.seconds += 0.001;
    }
    world
}

fn two_owners() -> World {
    then_by(turn(), 200, RESUME)
}

fn ended_cleared() -> World {
    let mut world = cleared();
    world.die(100, present("s1"));
    world
}

fn cleared() -> World {
    then(then(turn(), STOP), HookKind::SessionEnd(EndReason::Clear))
}

fn silent() -> World {
    let mut world = World::new();
    world.hook("s1", 100, START);
    world.hook("s1", 100, PROMPT);
    world.pass(1_000.0);
    world
}

fn dead(mut world: World) -> World {
    world.exit(100);
    world
}

fn in_its_pane(mut world: World) -> World {
    world.seen_on_pane(100, its(blank()), false);
    world
}

fn asks_pane() -> World {
    let mut world = dead(in_its_pane(turn()));
    world.registry(100, no_registry(), true);
    world.pass(1.0);
    world
}

fn found_dead() -> World {
    let mut world = in_its_pane(turn());
    world.seen_dead(100);
    world.registry(100, no_registry(), true);
    world.pass(1.0);
    world
}

fn asks_pane_at_rest() -> World {
    let mut world = dead(in_its_pane(open()));
    world.registry(100, no_registry(), true);
    world.pass(1.0);
    world
}

fn ended(reason: EndReason) -> World {
    then(turn(), HookKind::SessionEnd(reason))
}

fn went_over() -> World {
    let mut world = turn();
    world.hook("s2", 100, HookKind::SessionStart(StartSource::Resume));
    world
}

fn removed() -> World {
    let mut world = registered(turn(), BUSY);
    world.die(100, Registry::Absent);
    world
}

fn crashed() -> World {
    let mut world = turn();
    world.die(100, present("s1"));
    world
}

fn farewell() -> World {
    let mut world = asks_pane();
    let seen = PaneSeen { farewell: Some(Farewell::Last("s1".into())), ..blank() };
    world.seen_on_pane(100, its(seen), true);
    world
}

fn crashed_by_pane() -> World {
    let mut world = asks_pane();
    world.seen_on_pane(100, its(blank()), true);
    world
}

fn gone() -> World {
    let mut world = asks_pane();
    world.seen_on_pane(100, PaneFound::NotThere, true);
    world
}

fn new_boot() -> World {
    let mut world = turn();
    world.reboot();
    world
}

fn server_died() -> World {
    let mut world = then(turn(), END);
    world.exit(7);
    world
}

fn shut_down() -> World {
    let mut world = turn();
    world.take(&Event::Shutdown { under_way: true });
    then(world, END)
}

fn many_ends() -> World {
    let mut world = turn();
    for (id, pid) in [("s3", 300), ("s4", 400)] {
        world.open(id, pid, Kind::Interactive);
        world.hook(id, pid, END);
    }
    then(world, END)
}

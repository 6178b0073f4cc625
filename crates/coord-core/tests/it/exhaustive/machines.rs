//! Every sequence of up to five symbols over a few alphabets, each made so that five symbols tell one
//! part of the core apart. A symbol happens 10 ms after the one before, and deadlines that come in
//! between are served, as the loop does it. After each step the rules of `rules` hold; those that
//! take a step more to see (a duplicate, a tick) are seen after sequences of up to four.

use coord_core::{Header, SeenIds, Session, State};
use coord_model::{
    Background, EndReason, Event, HookKind, Kind, PaneFound, Registry, RegistryStatus, Screen,
    StartSource, Via,
};

use super::kinds::{
    Symbol, call, exit, farewell, hook, hook_by, in_subagent, late, of_prompt, one, pane, registry,
    says, shows, started,
};
use super::rules::{Known, Step};
use crate::world::{
    END, EXIT, PROMPT, RESUME, START, STOP, TOOL, World, blank, entry, its, no_registry,
    pane as pane_of, present,
};

const LENGTH: usize = 5;

/// What a sequence is made of.
enum Move {
    /// Something happens.
    Happens(Symbol),
    /// So many seconds pass.
    Passes(f64),
}

impl From<Symbol> for Move {
    fn from(symbol: Symbol) -> Self {
        Self::Happens(symbol)
    }
}

impl Move {
    fn name(&self) -> &str {
        match self {
            Self::Happens(symbol) => &symbol.name,
            Self::Passes(_) => "time passes",
        }
    }
}

/// The sequence under way, named when a rule breaks.
struct Path<'a> {
    machine: &'a str,
    names: Vec<&'a str>,
}

impl Drop for Path<'_> {
    #[expect(clippy::print_stdout, reason = "the failing sequence belongs to the test's output")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}: {}", self.machine, self.names.join(" -> "));
        }
    }
}

/// Sequences and steps that were run.
#[derive(Default)]
struct Ran {
    sequences: u64,
    steps: u64,
}

#[expect(clippy::print_stdout, reason = "how much was run belongs to the test's output")]
/// Runs every sequence, the first symbols parted among the processors.
fn run(machine: &'static str, begin: fn() -> World, moves: fn() -> Vec<Move>) {
    let count = moves().len();
    let ran = std::thread::scope(|scope| {
        let halves: Vec<_> = (0..2)
            .map(|half| {
                scope.spawn(move || {
                    let moves = moves();
                    let mut path = Path { machine, names: Vec::new() };
                    let mut ran = Ran::default();
                    let (begin, known) = (begin(), Known::default());
                    for (_, first) in moves.iter().enumerate().filter(|(at, _)| at % 2 == half) {
                        walk(&begin, &known, first, &moves, &mut path, &mut ran);
                    }
                    ran
                })
            })
            .collect();
        halves.into_iter().fold(Ran::default(), |sum, half| {
            let ran = half.join().unwrap_or_else(|broken| std::panic::resume_unwind(broken));
            Ran { sequences: sum.sequences + ran.sequences, steps: sum.steps + ran.steps }
        })
    });
    println!("{machine}: {count} symbols, {} sequences, {} steps", ran.sequences, ran.steps);
}

/// Takes one move after a sequence, and then every move after it.
fn walk<'a>(
    before: &World,
    known: &Known,
    next: &'a Move,
    moves: &'a [Move],
    path: &mut Path<'a>,
    ran: &mut Ran,
) {
    path.names.push(next.name());
    ran.sequences += 1;
    let mut world = before.clone();
    world.effects.clear();
    world.decisions.clear();
    let mut known = known.clone();
    let mut is_idle = false;
    match next {
        Move::Passes(seconds) => {
            world.pass(*seconds);
            ran.steps += 1;
        }
        Move::Happens(symbol) => {
            world.pass(0.01);
            for event in symbol.events(&mut world) {
                let before = world.state.clone();
                world.take(&event);
                is_idle = changes_nothing(&before, &world.state);
                ran.steps += 1;
                let step = Step { before: &before, event: &event, after: &world };
                step.check(&mut known);
                if path.names.len() < LENGTH {
                    step.check_what_follows();
                }
            }
        }
    }
    known.check(&world);
    if path.names.len() < LENGTH && !is_idle {
        for next in moves {
            walk(&world, &known, next, moves, path, ran);
        }
    }
    path.names.pop();
}

/// Whether a step left everything as it was: what follows it is then what follows the shorter
/// sequence without it, and is not run again.
fn changes_nothing(before: &State, after: &State) -> bool {
    before.sessions().eq(after.sessions()) && {
        let header = Header { last: after.header().last, ..before.header().clone() };
        before.seen() == after.seen() && header == *after.header()
    }
}

fn at_its_prompt() -> World {
    let mut world = World::new();
    world.open("s1", 100, Kind::Interactive);
    world
}

fn in_a_turn() -> World {
    let mut world = at_its_prompt();
    world.hook("s1", 100, PROMPT);
    world
}

const IDLE: Option<RegistryStatus> = Some(RegistryStatus::Idle);
const BUSY: Option<RegistryStatus> = Some(RegistryStatus::Busy);
const WAITING: Option<RegistryStatus> = Some(RegistryStatus::WaitingPermission);

// G2, R-01 to, S0-18
#[test]
fn turn_and_registry() {
    run("turn and registry", at_its_prompt, || {
        let work = HookKind::Stop(Background { tasks: 0, subagents: 1, crons: 0 });
        vec![
            hook("prompt", PROMPT, |_| ()).into(),
            call("tool", TOOL, "Bash", None).into(),
            call("tool in a subagent", TOOL, "Bash", Some("a1")).into(),
            hook("stop", STOP, |_| ()).into(),
            hook("stop in a subagent", STOP, in_subagent).into(),
            hook("stop, subagent goes on", work, |_| ()).into(),
            hook("quota", HookKind::StopFailure("rate_limit".into()), |_| ()).into(),
            late("stop", STOP).into(),
            says("registry idle", IDLE).into(),
            says("registry busy", BUSY).into(),
            registry("registry absent", 100, Registry::Absent, false).into(),
            Move::Passes(3.0),
        ]
    });
}

// S0-17, S0-18
#[test]
fn permission_and_agent() {
    run("permission and agent", in_a_turn, || {
        let ask = || HookKind::PermissionRequest;
        vec![
            call("ask", ask(), "Bash", None).into(),
            call("ask in a subagent", ask(), "Bash", Some("a1")).into(),
            call("question", ask(), "AskUserQuestion", None).into(),
            call("result", TOOL, "Bash", None).into(),
            call("result in a subagent", TOOL, "Bash", Some("a1")).into(),
            hook("notified", HookKind::Notification("permission_prompt".into()), |_| ()).into(),
            hook("subagent ends", HookKind::SubagentStop, in_subagent).into(),
            hook("prompt", PROMPT, |_| ()).into(),
            hook("stop", STOP, |_| ()).into(),
            says("registry waiting", WAITING).into(),
            says("registry busy", BUSY).into(),
            Move::Passes(7.0),
        ]
    });
}

fn in_its_pane() -> World {
    let mut world = World::new();
    world.open_in("s1", 100, Kind::Interactive, Some(pane_of(7)));
    world.hook("s1", 100, PROMPT);
    world.seen_on_pane(100, its(blank()), false);
    world
}

// H-05, H-10, S0-02, S0-25f, S0-28a, R-10
#[test]
fn death_registry_and_pane() {
    run("death, registry and pane", in_its_pane, || {
        vec![
            hook("user leaves", EXIT, |_| ()).into(),
            hook("end", END, |_| ()).into(),
            hook("prompt", PROMPT, |_| ()).into(),
            hook("stop", STOP, |_| ()).into(),
            exit("process exits", 100).into(),
            exit("tmux server exits", 7).into(),
            says("registry busy", BUSY).into(),
            registry("entry left behind", 100, present("s1"), true).into(),
            registry("entry gone", 100, Registry::Absent, true).into(),
            pane("farewell", farewell("s1"), true).into(),
            pane("no farewell", its(blank()), true).into(),
            Move::Passes(1.1),
            Move::Passes(6.0),
        ]
    });
}

// H-42, H-36
#[test]
fn identity() {
    run("identity", at_its_prompt, || {
        let clear = || HookKind::SessionEnd(EndReason::Clear);
        let cleared = HookKind::SessionStart(StartSource::Clear);
        vec![
            hook_by("s1 in 100 prompt", "s1", 100, PROMPT).into(),
            hook_by("s1 in 200 resume", "s1", 200, RESUME).into(),
            hook_by("s2 in 200 start", "s2", 200, START).into(),
            hook_by("s2 in 100 resume", "s2", 100, RESUME).into(),
            hook_by("s1 in 100 clear", "s1", 100, clear()).into(),
            hook_by("s2 in 100 after clear", "s2", 100, cleared).into(),
            hook_by("s1 in 200 user leaves", "s1", 200, EXIT).into(),
            hook_by("s9 in 900 end", "s9", 900, END).into(),
            exit("100 exits", 100).into(),
            exit("200 exits", 200).into(),
            registry("registry s1 in 200", 200, entry("s1", IDLE, 1), false).into(),
            registry("registry s2 in 100", 100, entry("s2", IDLE, 1), false).into(),
        ]
    });
}

// G2
#[test]
fn queued_prompts() {
    run("queued prompts", at_its_prompt, || {
        vec![
            of_prompt("prompt a", PROMPT, "a").into(),
            of_prompt("prompt b", PROMPT, "b").into(),
            of_prompt("tool of a", TOOL, "a").into(),
            of_prompt("tool of b", TOOL, "b").into(),
            of_prompt("stop of a", STOP, "a").into(),
            of_prompt("stop of b", STOP, "b").into(),
            hook("prompt", PROMPT, |_| ()).into(),
            hook("stop", STOP, |_| ()).into(),
            late("stop", STOP).into(),
            says("registry idle", IDLE).into(),
            says("registry busy", BUSY).into(),
            Move::Passes(1.0),
        ]
    });
}

// H-31, H-32, G10, S0-25f
#[test]
fn silence_and_starts() {
    run("silence and starts", in_its_pane, || {
        vec![
            started("coordinator starts", false).into(),
            started("machine starts", true).into(),
            one("gap", Event::Gap { ns: 5_000_000 }).into(),
            hook("prompt", PROMPT, |_| ()).into(),
            hook("stop", STOP, |_| ()).into(),
            hook("end", END, |_| ()).into(),
            exit("process exits", 100).into(),
            says("registry busy", BUSY).into(),
            registry("registry unreadable", 100, no_registry(), false).into(),
            pane("screen prompt", shows(Screen::Prompt), false).into(),
            pane("pane not there", PaneFound::NotThere, false).into(),
            one("malformed", Event::Malformed { via: Via::Spool, why: String::new() }).into(),
        ]
    });
}

/// The records without what the order of arrival names.
/// A crash in a turn, seen from the look that follows: whatever comes, an act meets only what it may
/// (`World::take` holds that), and a recovery that is under way comes to an end.
#[test]
fn a_crash_on_its_way_back() {
    run(
        "a crash on its way back",
        || {
            let mut world = crate::crashes::in_a_turn();
            world.crash(crate::crashes::PID);
            world
        },
        || {
            let wanted = [
                "proved dead",
                "proved alive, at rest",
                "acted",
                "acted: changed",
                "resume claimed by process 200",
                "SessionStart resume, process 200",
                "process 200 exited",
                "SessionEnd prompt_input_exit",
                "hold",
            ];
            let named = super::kinds::all().into_iter();
            let symbols = named.filter(|symbol| wanted.contains(&symbol.name.as_str()));
            symbols.map(Move::from).chain([Move::Passes(3.0), Move::Passes(70.0)]).collect()
        },
    );
}

fn records(world: &World) -> Vec<Session> {
    world.state.sessions().cloned().collect()
}

// G2: events of two sessions do not disturb each other, whichever comes first.
#[test]
fn two_sessions_commute() {
    let of = |name: &'static str, id: &'static str, pid: u32| {
        [PROMPT, STOP, TOOL, HookKind::PermissionRequest, EXIT, END, RESUME]
            .map(|kind| hook_by(name, id, pid, kind))
            .into_iter()
            .chain([
                registry(name, pid, entry(id, IDLE, u64::MAX / 2), false),
                registry(name, pid, present(id), true),
                exit(name, pid),
            ])
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (of("s1", "s1", 100), of("s2", "s2", 200));
    let mut begin = at_its_prompt();
    begin.open("s2", 200, Kind::Interactive);
    let mut worlds = vec![begin];
    let mut pairs = 0;
    for _ in 0..3 {
        let mut next = Vec::new();
        for world in &worlds {
            for (one, other) in ours.iter().flat_map(|one| theirs.iter().map(move |two| (one, two)))
            {
                let mut world = world.clone();
                world.pass(0.01);
                let (one, other) = (one.events(&mut world), other.events(&mut world));
                let mut reversed = world.clone();
                one.iter().chain(&other).for_each(|event| world.take(event));
                other.iter().chain(&one).for_each(|event| reversed.take(event));
                assert_eq!(records(&world), records(&reversed), "{one:?} and {other:?}");
                assert_eq!(world.state.header().counters, reversed.state.header().counters);
                assert_eq!(world.state.next_deadline(), reversed.state.next_deadline());
                pairs += 1;
                next.push(world);
            }
        }
        // Some ways on are enough to reach each state of either session.
        worlds = next.into_iter().step_by(9).collect();
    }
    println!("two sessions: {pairs} pairs of events in both orders");
}

// G10: the same events at the same times give the same state from nothing, and so do the records as
// they are stored.
#[test]
fn a_replay_gives_the_same_state() {
    let symbols = super::kinds::all();
    let mut replayed = 0;
    for state in super::states::states() {
        let begin = (state.build)();
        for symbol in &symbols {
            let run = |begin: World| {
                let mut world = begin;
                world.pass(0.01);
                let mut states = Vec::new();
                for event in symbol.events(&mut world) {
                    world.take(&event);
                    states.push(world.state.clone());
                }
                states
            };
            let first = run(begin.clone());
            assert_eq!(first, run((state.build)()), "{} after {}", symbol.name, state.name);
            for state in first {
                let header = serde_json::to_string(state.header()).unwrap();
                let sessions: Vec<_> = state.sessions().cloned().collect();
                let sessions = serde_json::to_string(&sessions).unwrap();
                let seen = SeenIds::from_bytes(&state.seen().to_bytes());
                let again = State::from_parts(
                    serde_json::from_str(&header).unwrap(),
                    serde_json::from_str(&sessions).unwrap(),
                    state.messages().cloned().collect(),
                    seen,
                );
                assert_eq!(again, state, "stored");
                replayed += 1;
            }
        }
    }
    println!("replay: {replayed} states");
}

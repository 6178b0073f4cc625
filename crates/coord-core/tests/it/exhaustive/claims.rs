//! Unproved events against the states in which it matters who sent them, as `tests/claims.txt` (H-44 to H-47).

use coord_model::{
    EndReason, HookEvent, HookKind, Kind, Provenance, Registry, RegistryEntry, RegistryStatus,
    StartSource,
};

use super::kinds::Symbol;
use super::states::{Reached, states};
use super::table;
use crate::crashes::{self, NEXT, PID};
use crate::world::{EXIT, PROMPT, RESUME, START, STOP, World, entry, pane};

const HEAD: &str = "\
Events that are not proved to come from the client that they name, against the states of a session
in which that matters. It reads as transitions.txt does. `claimed`: nothing confirms the event;
`of a client`: the process that it names lives and is a client; `registered`: that process wrote a
registry entry that names the session, `of no client` where it is no client.

After a change of the rules: COORD_TEST_ACCEPT=1 cargo test -p coord-core --test it exhaustive, and
read the difference.
";

/// States of transitions.txt that are looked at here too.
const STATES: &[&str] = &[
    "none",
    "at its first prompt",
    "running",
    "elsewhere",
    "two owners",
    "resumed after a crash",
    "cleared",
    "ended: prompt_input_exit",
    "ended: its process went over",
    "crashed, entry left behind",
    "recovery: resume claimed",
    "recovery: started, not verified",
];

const CLAIMED: &[Reached] = &[
    Reached { name: "only claimed", build: || opened(&Provenance::Claimed) },
    Reached { name: "only claimed, of a client", build: || opened(&of_a_client(true)) },
    Reached { name: "only claimed, of no process", build: of_no_process },
    Reached { name: "only registered, of no client", build: registered_by_no_client },
    Reached { name: "taken over, not proved", build: taken_over },
    Reached { name: "its client resumed by coord and gone over", build: resumed_elsewhere },
];

fn of_a_client(is_client: bool) -> Provenance {
    Provenance::Corroborated { is_client, registry_dir: None }
}

fn registered(is_client: bool) -> Provenance {
    Provenance::Corroborated { is_client, registry_dir: Some("/home/dev/.claude".into()) }
}

fn opened(provenance: &Provenance) -> World {
    let mut world = World::new();
    for kind in [START, PROMPT] {
        let event = world.event("s1", 100, kind, 0.0);
        world.send(HookEvent { provenance: provenance.clone(), ..event });
        world.seconds += 0.01;
    }
    world
}

fn of_no_process() -> World {
    let mut world = World::new();
    let event = world.event("s1", 100, PROMPT, 0.0);
    world.send(HookEvent { harness: None, provenance: Provenance::Claimed, ..event });
    world
}

fn registered_by_no_client() -> World {
    let mut world = World::new();
    let Registry::Present(found) = entry("s1", Some(RegistryStatus::Idle), 1) else { return world };
    let found = Registry::Present(RegistryEntry { is_unrecognized: true, ..found });
    world.registry(100, found, false);
    world
}

fn taken_over() -> World {
    let mut world = World::new();
    world.open_in("s0", 100, Kind::Interactive, Some(pane(7)));
    world.hook("s1", 100, RESUME);
    world
}

fn resumed_elsewhere() -> World {
    let mut world = crashes::in_a_turn();
    world.crash(PID);
    world.resume_as(NEXT);
    world.hook("s2", NEXT, RESUME);
    world
}

fn claim(
    (how, provenance): (&str, Provenance),
    (id, pid): (&'static str, u32),
    (what, kind): (&str, HookKind),
) -> Symbol {
    let whose = match (id, pid) {
        ("s1", 100) => String::new(),
        ("s1", _) => format!(", process {pid}"),
        (_, 100) => format!(" as {id}"),
        _ => format!(" as {id}, process {pid}"),
    };
    Symbol::new(format!("{what}{whose}, {how}"), move |world| {
        let event = world.event(id, pid, kind.clone(), 0.0);
        let event = HookEvent { provenance: provenance.clone(), ..event };
        vec![coord_model::Event::Hook(Box::new(event))]
    })
}

fn symbols() -> Vec<Symbol> {
    let other = HookKind::SessionEnd(EndReason::Other);
    let fork = HookKind::SessionStart(StartSource::Fork);
    let hows = [
        ("claimed", Provenance::Claimed),
        ("of a client", of_a_client(true)),
        ("registered", registered(true)),
        ("registered, of no client", registered(false)),
    ];
    let mut all = Vec::new();
    for how in hows {
        let kinds = [
            ("SessionStart startup", START),
            ("SessionStart resume", RESUME),
            ("UserPromptSubmit", PROMPT),
            ("SessionEnd other", other.clone()),
            ("SessionEnd prompt_input_exit", EXIT),
        ];
        // The client of the state, and another one: where coord started one, that.
        for kind in kinds {
            all.push(claim(how.clone(), ("s1", PID), kind.clone()));
            all.push(claim(how.clone(), ("s1", NEXT), kind));
        }
        for kind in
            [("SessionStart resume", RESUME), ("SessionStart fork", fork.clone()), ("Stop", STOP)]
        {
            all.push(claim(how.clone(), ("s2", 100), kind));
        }
        let (word, provenance) = how;
        all.push(Symbol::new(
            format!("SessionEnd prompt_input_exit, elsewhere, {word}"),
            move |world| {
                let event = world.event("s1", NEXT, EXIT, 0.0);
                let (provenance, machine) = (provenance.clone(), "another".into());
                vec![coord_model::Event::Hook(Box::new(HookEvent { provenance, machine, ..event }))]
            },
        ));
    }
    for (what, kind) in [("UserPromptSubmit", PROMPT), ("SessionEnd prompt_input_exit", EXIT)] {
        all.push(Symbol::new(format!("{what}, no process, claimed"), move |world| {
            let event = world.event("s1", 100, kind.clone(), 0.0);
            let event = HookEvent { harness: None, provenance: Provenance::Claimed, ..event };
            vec![coord_model::Event::Hook(Box::new(event))]
        }));
    }
    all.push(super::kinds::hook("SessionStart resume", RESUME, |_| ()));
    all.push(super::kinds::hook_by("SessionStart resume, process 200", "s1", 200, RESUME));
    all.push(super::kinds::hook_by("SessionEnd prompt_input_exit, process 200", "s1", NEXT, EXIT));
    all
}

// G6, H-44, H-46, H-47: what an event that nobody proved changes, and what one that is proved changes behind it.
#[test]
fn every_claim_is_as_the_table_says() {
    let known: Vec<&Reached> = states().filter(|state| STATES.contains(&state.name)).collect();
    assert_eq!(known.len(), STATES.len());
    let blocks = known.into_iter().chain(CLAIMED).map(|state| (state.name, (state.build)()));
    table::check("claims.txt", HEAD, &blocks.collect::<Vec<_>>(), &symbols());
}

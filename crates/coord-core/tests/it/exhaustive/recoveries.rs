//! Crashed sessions on their way back: the states of a recovery, and what can happen to it.

use coord_core::Stage;
use coord_model::{Command, Event, Intent, MarkChange, Mode, Outcome, Proof, Whom};

use super::kinds::Symbol;
use super::states::Reached;
use crate::crashes::{self, NEXT, PID, dead, living};
use crate::world::{END, World, order, present, process};

pub(crate) const STATES: &[Reached] = &[
    Reached { name: "recovery: attended, looked at", build: || crashed(crashes::at_rest()) },
    Reached { name: "recovery: looked at", build: || crashed(crashes::in_a_turn()) },
    Reached { name: "recovery: held by a person", build: held },
    Reached { name: "recovery: resume typed", build: typed },
    Reached { name: "recovery: resume claimed", build: claimed },
    Reached { name: "recovery: started, not verified", build: started },
    Reached { name: "recovery: looked at for another owner", build: looked_at },
    Reached { name: "recovery: sole owner", build: sole },
    Reached { name: "recovery: claimed long ago", build: slow },
    Reached { name: "recovery: grace", build: grace },
    Reached { name: "recovery: brought back", build: brought_back },
    Reached { name: "recovery: a failed attempt", build: failed },
    Reached { name: "recovery: needs its operator", build: needs_operator },
    Reached { name: "recovery: signature in a turn", build: signature },
    Reached { name: "recovery: signature at rest, looked at", build: at_rest },
    Reached { name: "recovery: SIGTERM sent", build: ending },
    Reached { name: "recovery: ended for it, looked at", build: ended_for_it },
];

fn crashed(mut world: World) -> World {
    world.crash(PID);
    world
}

fn held() -> World {
    let mut world = crashes::in_a_turn();
    world.command(Command::Hold { session: Some(world.key()), for_ms: None });
    crashed(world)
}

fn typed() -> World {
    let mut world = crashed(crashes::in_a_turn());
    let proof = dead(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Done);
    world
}

fn claimed() -> World {
    let mut world = typed();
    world.claim(NEXT);
    world
}

fn started() -> World {
    let mut world = claimed();
    world.comes_up(NEXT);
    world
}

fn looked_at() -> World {
    let mut world = started();
    world.pass(3.5);
    world
}

fn sole() -> World {
    let mut world = looked_at();
    let proof = living(&world);
    world.prove(proof);
    world
}

fn slow() -> World {
    let mut world = claimed();
    world.pass(61.0);
    world
}

fn grace() -> World {
    let mut world = crashes::at_rest();
    world.set_mode(Mode::Act);
    world.crash(PID);
    let proof = dead(&world);
    world.prove(proof);
    world
}

fn brought_back() -> World {
    let mut world = crashed(crashes::in_a_turn());
    world.comes_back(NEXT);
    world
}

fn failed() -> World {
    let mut world = claimed();
    world.exit(NEXT);
    world
}

fn needs_operator() -> World {
    let mut world = crashed(crashes::in_a_turn());
    let proof = Proof { has_cwd: false, ..dead(&world) };
    world.prove(proof);
    world
}

fn signature() -> World {
    let mut world = crashes::in_a_turn();
    world.signature();
    world.is_content(false);
    world
}

fn at_rest() -> World {
    let mut world = crashes::unattended();
    world.signature();
    world.is_content(false);
    world
}

fn ending() -> World {
    let mut world = at_rest();
    let proof = living(&world);
    let (intent, _) = world.act(proof);
    world.acted(intent, Outcome::Done);
    world
}

fn ended_for_it() -> World {
    let mut world = ending();
    world.hook("s1", PID, END);
    world.die(PID, present("s1"));
    world
}

/// What can happen to the step under way of session `s1`; where there is none, to one long over.
pub(crate) fn symbols() -> Vec<Symbol> {
    let acted = |outcome: Outcome| {
        move |world: &mut World| {
            vec![Event::Acted {
                session_id: String::new(),
                intent: step_of(world),
                outcome: outcome.clone(),
            }]
        }
    };
    let command = |make: fn(&World) -> Command| move |world: &mut World| vec![order(make(world))];
    let marks = |unattended| MarkChange { unattended: Some(unattended), ..MarkChange::default() };
    vec![
        Symbol::new("proved dead", |world| proved(world, dead(world))),
        Symbol::new("proved alive, at rest", |world| proved(world, living(world))),
        Symbol::new("proved, another owner", |world| {
            let proof = if is_there(world) { living(world) } else { dead(world) };
            proved(world, Proof { owners: vec![process(900)], ..proof })
        }),
        Symbol::new("acted", acted(Outcome::Done)),
        Symbol::new("acted: changed", acted(Outcome::Changed { what: "the pane changed".into() })),
        Symbol::new("acted: failed", acted(Outcome::Failed { why: "tmux".into() })),
        Symbol::new("acted: observing", acted(Outcome::Observed)),
        Symbol::new("resume claimed by process 200", |world| {
            let session = key_of(world);
            let nonce = match stage_of(world) {
                Some(Stage::Placing { nonce, .. }) => nonce,
                _ => "void".to_owned(),
            };
            vec![Event::ResumeClaimed {
                session_id: String::new(),
                session,
                nonce,
                process: process(NEXT),
            }]
        }),
        Symbol::new("resume failed", |world| {
            vec![Event::ResumeFailed {
                session_id: String::new(),
                session: key_of(world),
                why: "no directory".into(),
            }]
        }),
        Symbol::new(
            "hold",
            command(|world| Command::Hold { session: Some(key_of(world)), for_ms: Some(60_000) }),
        ),
        Symbol::new("hold all", command(|_| Command::Hold { session: None, for_ms: None })),
        Symbol::new("release", command(|world| Command::Release { session: Some(key_of(world)) })),
        Symbol::new(
            "recover",
            command(|world| Command::Recover {
                session: key_of(world),
                restart: true,
                when_idle: true,
            }),
        ),
        Symbol::new("restore", command(|world| Command::Restore { sessions: vec![key_of(world)] })),
        Symbol::new(
            "reset failed",
            command(|world| Command::ResetFailed { session: Some(key_of(world)) }),
        ),
        Symbol::new("attend: unattended", move |world| {
            let whom = Whom::Session(key_of(world));
            vec![order(Command::Attend { whom, marks: marks(true) })]
        }),
    ]
}

fn key_of(world: &World) -> coord_model::SessionKey {
    let first = world.state.sessions_with_id("s1").next();
    first.map_or(coord_model::SessionKey(0), |session| session.key)
}

fn is_there(world: &World) -> bool {
    world.state.sessions_with_id("s1").any(coord_core::Session::may_live)
}

fn stage_of(world: &World) -> Option<Stage> {
    let session = world.state.sessions_with_id("s1").next()?;
    session.recovery.pending.as_ref().map(|pending| pending.stage.clone())
}

fn step_of(world: &World) -> Intent {
    let number = match stage_of(world) {
        Some(
            Stage::Proving { number, .. }
            | Stage::Ending { number, .. }
            | Stage::Placing { number, .. }
            | Stage::Claimed { asked: Some(number), .. }
            | Stage::Started { asked: Some(number), .. },
        ) => number,
        _ => 0,
    };
    Intent { session: key_of(world), number }
}

fn proved(world: &World, proof: Proof) -> Vec<Event> {
    vec![Event::Proved {
        session_id: String::new(),
        intent: step_of(world),
        proof: Box::new(proof),
    }]
}

//! Pairs of a state and an event, as a table that is checked in: `tests/transitions.txt` holds every pair.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use coord_core::{OwnerProof, Session, Turn};
use coord_model::EndReason;

use super::kinds::{self, Symbol};
use super::labels;
use super::states::states;
use crate::world::World;

const HEAD: &str = "\
Every state of a session against everything that can happen to it.

A block is a state: its name, then session s1 as the state has it. A line is an event, emitted now by
session s1 in process 100 unless it says otherwise, and what the records are after it; records are
parted by ` | `. A record reads: word (rule), turn, then what else tells it apart: open waits,
`presence` where its process is not simply there, ids and process where they are not s1 and 100.
`+` marks an event that made a record, `-` one that lost one. An event that a block does not list
changed no word, turn, wait, presence, id or owner; facts, times and counts may have changed. Such
ones are listed under `late`, `duplicate` or `phantom end` where they were counted so.

After a change of the rules: COORD_TEST_ACCEPT=1 cargo test -p coord-core --test it exhaustive, and
read the difference.
";

const WIDTH: usize = 100;

/// A record as the table shows it.
fn view(session: &Session) -> String {
    let mut view = format!("{} ({})", labels::word(session.shown.state), session.shown.rule);
    match *session.turn {
        Turn::Open { queued: queued @ 1.., .. } => {
            let _ = write!(view, ", turn open + {queued}");
        }
        Turn::None => (),
        turn @ (Turn::Open { .. } | Turn::Closed { .. } | Turn::Interrupted { .. }) => {
            let _ = write!(view, ", turn {}", labels::turn(turn));
        }
    }
    for wait in &session.waits {
        let agent = wait.agent.as_ref().map_or("", |_| " of a subagent");
        let tool = if wait.tool.is_empty() { "a notification" } else { &wait.tool };
        let _ = write!(view, ", {tool} waits{agent}");
    }
    if let Some((source, _)) = *session.contested {
        let _ = write!(view, ", contested by {source:?}");
    }
    for (is_so, mark) in [
        (session.left == Some(EndReason::Clear), "cleared"),
        (session.left == Some(EndReason::Resume), "left for another"),
        (session.two_owners, "two owners"),
        (session.signature.is_some(), "signature"),
    ] {
        if is_so {
            let _ = write!(view, ", {mark}");
        }
    }
    if !matches!(*session.presence, coord_core::Presence::Alive) {
        let _ = write!(view, ", presence {}", labels::presence(&session.presence));
    }
    if session.session_id != "s1" {
        let _ = write!(view, ", as {}", session.session_id);
    }
    if let Some(pending) = &session.recovery.pending {
        let _ = write!(view, ", recovery {}", labels::stage(&pending.stage));
    }
    if session.recovery.needs_operator.is_some() {
        view.push_str(", needs its operator");
    }
    match session.owner.as_ref().map(|owner| owner.proof) {
        Some(OwnerProof::Proved) | None => (),
        Some(OwnerProof::TakenOver) => view.push_str(", taken over"),
        Some(OwnerProof::Registered) => view.push_str(", registered by no client"),
        Some(OwnerProof::Claimed) => view.push_str(", only claimed"),
    }
    match &*session.owner {
        Some(owner) if owner.id.process.pid != 100 => {
            let _ = write!(view, ", process {}", owner.id.process.pid);
        }
        Some(_) => (),
        None => view.push_str(", no process"),
    }
    view
}

/// The records that are not mere company (`s3` and `s4` end together with `s1`).
fn views(world: &World) -> Vec<String> {
    let is_company = |session: &&Session| matches!(session.session_id.as_str(), "s3" | "s4");
    world.state.sessions().filter(|session| !is_company(session)).map(view).collect()
}

/// The world after the symbol; none where it cannot happen.
fn after(world: &World, symbol: &Symbol) -> Option<World> {
    let mut world = world.clone();
    world.seconds += 0.01;
    if matches!(symbol.name.as_str(), "due" | "tick") {
        let due = world.state.next_deadline()?;
        let due = std::time::Duration::from_nanos(due).as_secs_f64() + 1e-6;
        world.seconds = world.seconds.max(due);
    }
    let events = symbol.events(&mut world);
    if events.is_empty() {
        return None;
    }
    for event in events {
        if let coord_model::Event::PaneSeen { looked_ns, .. } = &event {
            let looked = std::time::Duration::from_nanos(*looked_ns).as_secs_f64();
            world.seconds = world.seconds.max(looked);
        }
        if let coord_model::Event::Gap { ns } = &event {
            world.seconds += std::time::Duration::from_nanos(*ns).as_secs_f64();
        }
        world.take(&event);
    }
    Some(world)
}

fn block(text: &mut String, name: &str, before: &World, symbols: &[Symbol]) {
    let views_before = views(before);
    let _ = writeln!(text, "\n== {name}\n   {}\n", line_of(&views_before));
    let mut unchanged: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for symbol in symbols {
        let Some(after) = after(before, symbol) else {
            unchanged.entry("cannot happen").or_default().push(&symbol.name);
            continue;
        };
        let views_after = views(&after);
        if views_after != views_before {
            let mark = match views_before.len().cmp(&views_after.len()) {
                std::cmp::Ordering::Less => '+',
                std::cmp::Ordering::Equal => ' ',
                std::cmp::Ordering::Greater => '-',
            };
            let _ = writeln!(text, " {mark} {:<40} {}", symbol.name, line_of(&views_after));
            continue;
        }
        let (was, is) = (&before.state.header().counters, &after.state.header().counters);
        let counted = if was.duplicates < is.duplicates {
            "duplicate"
        } else if was.late < is.late {
            "late"
        } else if was.phantom_ends < is.phantom_ends {
            "phantom end"
        } else {
            continue;
        };
        unchanged.entry(counted).or_default().push(&symbol.name);
    }
    for (how, names) in unchanged {
        wrap(text, how, &names);
    }
}

fn line_of(views: &[String]) -> String {
    if views.is_empty() { "no session".into() } else { views.join(" | ") }
}

fn wrap(text: &mut String, how: &str, names: &[&str]) {
    let mut line = format!("   {how}:");
    for name in names {
        if WIDTH < line.len() + name.len() + 2 {
            let _ = writeln!(text, "{line}");
            line = "      ".into();
        }
        let _ = write!(line, " {name};");
    }
    let _ = writeln!(text, "{line}");
}

/// The lines that only one of the two has, with the state they belong to.
fn difference(old: &str, new: &str) -> String {
    let lines = |text: &str| -> Vec<(String, String)> {
        let mut state = String::new();
        text.lines()
            .map(|line| {
                if line.starts_with("==") {
                    state = line.into();
                }
                (state.clone(), line.to_owned())
            })
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    let (old_set, new_set): (std::collections::BTreeSet<_>, std::collections::BTreeSet<_>) =
        (old.iter().collect(), new.iter().collect());
    let removed = old.iter().filter(|line| !new_set.contains(line)).map(|line| ('-', line));
    let added = new.iter().filter(|line| !old_set.contains(line)).map(|line| ('+', line));
    let mut differing: Vec<_> = removed.chain(added).collect();
    differing.sort_by_key(|(sign, (state, _))| (state.clone(), *sign == '+'));
    differing.iter().fold(String::new(), |mut text, (sign, (state, line))| {
        let _ = writeln!(text, "{state}\n{sign}{line}");
        text
    })
}

// S0-00, S0-18, S0-25f, S0-28a, H-05, H-10, H-15, H-35, G2.
#[test]
fn every_state_and_event_is_as_the_table_says() {
    let symbols = kinds::all();
    labels::check_events(&symbols);
    let named: Vec<_> = states().map(|state| (state.name, (state.build)())).collect();
    labels::check_states(&named);
    check("transitions.txt", HEAD, &named, &symbols);
}

/// Holds the table of these states and events against the one of that name under `tests`.
pub(crate) fn check(file: &str, head: &str, states: &[(&str, World)], symbols: &[Symbol]) {
    let mut text = String::from(head);
    let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    text.push('\n');
    wrap(&mut text, "the events", &names);
    for (name, world) in states {
        block(&mut text, name, world, symbols);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    if checked_in == text {
        return;
    }
    if std::env::var_os("COORD_TEST_ACCEPT").is_some() {
        let written = std::fs::write(&path, &text);
        panic!(
            "wrote {} ({written:?}): read it, and run without COORD_TEST_ACCEPT",
            path.display()
        );
    }
    panic!(
        "the table is another one; to accept it run with COORD_TEST_ACCEPT=1\n{}",
        difference(&checked_in, &text)
    );
}

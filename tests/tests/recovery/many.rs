//! Many at once are one event (H-10, H-11): the breaker, and what a tmux server took along.

use coord_model::SessionState;
use coord_tests::coord::events;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, signal_process};
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use std::collections::BTreeSet;

/// So many sessions, at rest, each in a pane of its own: id and pid.
#[track_caller]
fn sessions(place: &mut Place, n: usize) -> Vec<(String, u32)> {
    place.nobody_watches();
    let panes: Vec<_> = (0..n).map(|_| place.terminal.pane()).collect();
    let started: Vec<_> = panes.into_iter().map(|pane| (pane.start(&MANUAL), pane)).collect();
    let at_rest = started.into_iter().map(|(pid, pane)| {
        place.look_at(pane, pid);
        (place.id.clone(), pid)
    });
    at_rest.collect()
}

/// How many recoveries were under way at most, by what the journal says of their begins and ends.
fn most_at_once(place: &Place) -> usize {
    let (mut under_way, mut most) = (BTreeSet::new(), 0);
    for event in events(&place.home, None).iter().filter(|event| event["name"] == "Decision") {
        let (id, detail) = (event["session_id"].to_string(), event["detail"].to_string());
        if detail.contains("S0-25e") {
            under_way.insert(id);
        } else if detail.contains("recovered and verified") {
            under_way.remove(&id);
        }
        most = most.max(under_way.len());
    }
    most
}

// H-11
pub(crate) fn five_at_once() {
    let mut place = Place::open("", [Turn::text("One.").lasting()]);
    let all = sessions(&mut place, 5);
    for (_, pid) in &all {
        signal_process(*pid, Signal::KILL);
    }
    // What had begun comes to its end, and then no more begins.
    let (back, left) = wait_until("the rest is left", || {
        let mut sorted = (Vec::new(), Vec::new());
        for (id, pid) in &all {
            place.id.clone_from(id);
            let session = place.when("it is known", |_| true);
            let outcome = session.recovery.last_outcome.as_deref() == Some("verified");
            let is_back = session.owner.as_ref().is_some_and(|owner| owner.pid != *pid);
            let reason = session.hold.as_ref().map(|hold| hold.reason.clone()).unwrap_or_default();
            if is_back && outcome {
                sorted.0.push(id.clone());
            } else if reason.contains("clients crashed within 60 s") {
                sorted.1.push(id.clone());
            }
        }
        if sorted.0.len() + sorted.1.len() == all.len() { Ok(sorted) } else { Err(sorted) }
    });
    assert!(back.len() <= 2 && 3 <= left.len(), "back: {back:?}, left: {left:?}");
    assert_eq!(place.clients().len(), back.len());
    let told = place.order(&["reset-failed", "--all"]);
    assert!(told.contains("code 0"), "{told}");
    for (id, pid) in &all {
        (place.id, place.pid) = (id.clone(), *pid);
        place.when_back();
        place.assert_done_only(1);
    }
    assert_eq!(place.clients().len(), all.len());
    assert!(most_at_once(&place) <= 2, "{}", most_at_once(&place));
}

// H-10, S0-25f
pub(crate) fn a_killed_tmux_server() {
    let mut place = Place::open("", [Turn::text("One.").lasting()]);
    let all = sessions(&mut place, 2);
    place.terminal.signal(Signal::KILL);
    for (id, _) in &all {
        place.id.clone_from(id);
        place.when("it is interrupted", |session| session.state == SessionState::Interrupted);
        place.assert_untouched();
    }
    place.when_clients(&[]);
    // Its person comes from another terminal.
    let elsewhere = place.terminal.start_elsewhere(&place.home, &place.api);
    place.sit_down_at(&elsewhere);
    let told = place.order(&["restore", "--dry-run"]);
    assert!(all.iter().all(|(id, _)| told.contains(&id[..8])), "{told}");
    assert!(told.contains("would be started again"), "{told}");
    place.when_clients(&[]);
    let told = place.order(&["restore", "--yes"]);
    assert!(told.contains("code 0"), "{told}");
    for (id, pid) in &all {
        (place.id, place.pid) = (id.clone(), *pid);
        place.when_back();
        place.assert_done_only(1);
    }
    assert_eq!(place.clients().len(), all.len());
}

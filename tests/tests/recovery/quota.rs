//! What waits for its quota where nobody watches (S1-21, S1-22, R-11): woken now and then, and given to a
//! person in the end.

use crate::place::{MANUAL, Place};
use coord_tests::fake_api::Turn;
use coord_wire::inspect::State;

const QUICK: &str = "[quota]\nprobe_after = '2s'\nprobe_delay_max = '3s'\nprobes = 2";

fn limit() -> Turn {
    Turn::error(429, "rate_limit_error", "This request would exceed your limit")
        .header("x-should-retry", "false")
}

fn at_its_limit(turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = Place::start(QUICK, turns, &MANUAL);
    place.attend();
    place.a_turn();
    place.prompt("Second prompt");
    let session = place.when("it is at its limit", |session| session.state == State::QuotaWait);
    let hold = session.hold.expect("it waits for something");
    assert!(hold.reason.starts_with("its quota"), "{}", hold.reason);
    assert_eq!(session.quota.map(|quota| quota.kind).as_deref(), Some("rate_limit"));
    place
}

// S1-21, S1-22
pub(crate) fn a_limit_that_ends() {
    let place =
        at_its_limit([Turn::text("One."), limit().once(), Turn::text("Went on.").lasting()]);
    place.api.wait_for("[coord]");
    place.pane.wait_screen("Went on.");
    let session = place.when("the wait is over", |session| session.quota.is_none());
    assert!(session.needs_operator.is_none());
    assert_eq!(session.recovery.total, 0);
    place.when_entry("Decision", "S1-21");
    place.assert_done_only(1);
    place.when_clients(&[place.pid]);
}

// S1-22, H-21
pub(crate) fn a_limit_that_stays() {
    let place = at_its_limit([Turn::text("One."), limit()]);
    let session = place.when_needed("its quota does not come back");
    assert_eq!(session.state, State::QuotaWait);
    place.assert_done_only(2);
    assert_eq!(place.n_continued(), 2);
    place.when_clients(&[place.pid]);
}

//! Turns that end with an error of the API where nobody watches: each is shown as what it is, and only
//! what time mends is tried again (S1-13, R-11, R-12).

use coord_model::SessionState;
use coord_model::stamp::parse_rfc3339;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_wire::inspect::Session;
use std::time::SystemTime;

/// Heartbeats that would make a stall, and probes that would be sent, many times over.
const QUICK: &str = "[quota]\nprobe_after = '1s'\nservice_after = '4s'\n\
                     [stall]\nheartbeat = '1s'\nthinking_after = '3s'";
const LONG_MS: u64 = 8_000;

/// After a turn, a prompt whose requests all fail so.
fn failing(turn: Turn) -> Place {
    let mut place = Place::start(QUICK, [Turn::text("One.")], &MANUAL);
    place.attend();
    place.a_turn();
    place.api.push(turn);
    place.prompt("Second prompt");
    place
}

/// It stays so for long, and nothing is done.
#[track_caller]
fn assert_stays(place: &Place, state: SessionState) -> Session {
    place.when("it is seen as what it is", |session| session.state == state);
    let session = place.when("it stays so for long", |session| {
        let since_ms = parse_rfc3339(&session.since).unwrap_or(u64::MAX);
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis());
        assert_eq!(session.state, state, "{session:#?}");
        since_ms.saturating_add(LONG_MS) < u64::try_from(now).unwrap_or(0)
    });
    assert!(session.quota.is_none() && session.hold.is_none(), "{session:#?}");
    place.assert_untouched();
    assert_eq!(place.n_continued(), 0);
    place.when_clients(&[place.pid]);
    session
}

// R-11, S1-13: only its user can sign in again.
pub(crate) fn a_refused_key() {
    let place = failing(Turn::error(401, "authentication_error", "invalid x-api-key"));
    let session = assert_stays(&place, SessionState::BlockedAuth);
    assert_eq!(session.stall_count, 0);
    assert!(session.because.contains("authentication_failed"), "{}", session.because);
}

// R-11, S1-13: only its user can pay.
pub(crate) fn a_spent_credit() {
    let words =
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.";
    let place = failing(Turn::error(400, "invalid_request_error", words));
    let session = assert_stays(&place, SessionState::BlockedBilling);
    assert_eq!(session.stall_count, 0);
    assert!(session.because.contains("billing_error"), "{}", session.because);
}

// S1-01, R-11: compacting is the client's own.
pub(crate) fn a_full_context() {
    let words = "prompt is too long: 250000 tokens > 200000 maximum";
    let place = failing(Turn::error(400, "invalid_request_error", words));
    let session = assert_stays(&place, SessionState::Idle);
    assert!(session.because.contains("invalid_request"), "{}", session.because);
}

// S1-22: while the client tries again its turn runs; then it is woken.
pub(crate) fn an_overloaded_api() {
    let mut place = Place::open(QUICK, [Turn::text("One.")]);
    place.pid = place.pane.start_with("CLAUDE_CODE_MAX_RETRIES=3", &MANUAL);
    place.learn_id();
    place.attend();
    place.a_turn();
    let overloaded =
        || Turn::error(529, "overloaded_error", "Overloaded").header("retry-after", "3").once();
    (0..4).for_each(|_| place.api.push(overloaded()));
    place.api.push(Turn::text("Went on.").lasting());
    place.prompt("Second prompt");
    place.pane.wait_screen("attempt 2/3");
    let session = place.when("the tries are over", |session| {
        assert!(
            matches!(session.state, SessionState::Running | SessionState::Idle),
            "{session:#?}"
        );
        session.state == SessionState::Idle
    });
    assert!(session.because.contains("server_error"), "{}", session.because);
    let hold = session.hold.expect("it waits for the API");
    assert!(hold.reason.starts_with("waits for the API to answer"), "{}", hold.reason);
    assert!(session.quota.is_none(), "no limit was told of");
    place.api.wait_for("[coord]");
    place.pane.wait_screen("Went on.");
    place.when_entry("Decision", "S1-21");
    place.assert_done_only(1);
    place.when_clients(&[place.pid]);
}

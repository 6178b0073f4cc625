//! What waits for its quota where nobody watches (S1-21, S1-22, R-11): woken now and then, and given to a
//! person in the end.

use coord_model::SessionState;
use coord_model::stamp::rfc3339;
use coord_tests::client::sign_in;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::CLIENT_CONTINUES_WITHIN;
use coord_wire::inspect::Session;
use std::time::SystemTime;

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
    let session =
        place.when("it is at its limit", |session| session.state == SessionState::QuotaWait);
    let hold = session.hold.expect("it waits for something");
    assert!(hold.reason.starts_with("waits for the usage limit"), "{}", hold.reason);
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
    let session = place.when_needed("the usage limit does not reset");
    assert_eq!(session.state, SessionState::QuotaWait);
    place.assert_done_only(2);
    assert_eq!(place.n_continued(), 2);
    place.when_clients(&[place.pid]);
}

/// A usage limit of a subscription that ends then, seconds since 1970.
fn limit_until(end: u64) -> Turn {
    limit()
        .once()
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &end.to_string())
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-overage-status", "rejected")
        .header("retry-after", "3600")
}

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

/// A client that is signed in to a subscription, and nobody watches.
fn of_a_subscription(quota: &str) -> Place {
    let turns = [Turn::text("One."), Turn::text("Went on.").only_for("[coord]").lasting()];
    let mut place = Place::open(&format!("[quota]\n{quota}"), turns);
    sign_in(&place.home);
    place.pid = place.pane.start_with("env -u ANTHROPIC_API_KEY", &MANUAL);
    place.learn_id();
    place.attend();
    place.a_turn();
    place
}

#[track_caller]
fn at_a_limit_until(place: &Place, end: u64) -> Session {
    place.api.push(limit_until(end));
    place.prompt("Second prompt");
    place.when("it is at its limit", |session| session.state == SessionState::QuotaWait)
}

// S1-22, R-11: its user had the client not go on by itself.
pub(crate) fn a_limit_whose_end_is_named() {
    let place = of_a_subscription("probe_after = '1s'\nreset_margin = '1s'");
    // Far enough for the key below to come before it on a busy machine.
    let end = now_s() + 45;
    at_a_limit_until(&place, end);
    let session = place.when("its end is known", |session| {
        session.quota.as_ref().is_some_and(|quota| quota.until.is_some())
    });
    let quota = session.quota.expect("it waits");
    assert_eq!((quota.kind.as_str(), quota.source.as_str()), ("rate_limit", "transcript"));
    assert_eq!(quota.until, Some(rfc3339(end * 1_000)));
    place.pane.wait_screen("Continuing automatically at");
    place.pane.keys(&["Escape"]);
    place.pane.wait_screen("Automatic continue cancelled");
    place.api.wait_for("[coord]");
    assert!(end <= now_s(), "woken before the limit's end");
    place.pane.wait_screen("Went on.");
    place.when("the wait is over", |session| session.state == SessionState::Idle);
    place.assert_done_only(1);
    assert_eq!(place.n_continued(), 1);
}

// S1-20, S1-21: a subscription's client goes on by itself, up to 90 s after the limit's end; that ends
// the wait, and nobody is woken.
pub(crate) fn a_client_that_goes_on_by_itself() {
    let place = of_a_subscription("probe_after = '1h'");
    let end = now_s() + 20;
    at_a_limit_until(&place, end);
    place.api.wait_for_nth_beyond(CLIENT_CONTINUES_WITHIN, "usage limit has reset", 1);
    place.when("the wait is over", |session| session.state == SessionState::Idle);
    place.when_entry("Decision", "S1-21");
    place.assert_untouched();
    place.when_clients(&[place.pid]);
}

// S1-22: what the API said is not believed, and the wait is one of the usual length.
pub(crate) fn a_limit_that_ended_long_ago() {
    let place = of_a_subscription("probe_after = '6s'");
    let at = now_s();
    at_a_limit_until(&place, at - 3_600);
    assert_not_believed(&place);
    place.api.wait_for("[coord]");
    assert!(at + 6 <= now_s(), "woken too soon");
    place.pane.wait_screen("Went on.");
    place.when("the wait is over", |session| session.state == SessionState::Idle);
    place.assert_done_only(1);
}

#[track_caller]
fn assert_not_believed(place: &Place) {
    place.when_entry("Decision", "an impossible reset time");
    let session = place.when("it is known", |_| true);
    if let Some(quota) = session.quota {
        assert_eq!((quota.until, quota.source.as_str()), (None, "hook"));
    }
}

// S1-22, S0-15: for a limit that lasts longer than a day the client opens a dialog, which is its user's.
pub(crate) fn a_limit_that_ends_in_a_year() {
    let place = of_a_subscription("probe_after = '2s'");
    place.api.push(limit_until(now_s() + 365 * 86_400));
    place.prompt("Second prompt");
    place.pane.wait_screen("Stop and wait for limit to reset");
    assert_not_believed(&place);
    place.when("its user is asked", |session| session.state == SessionState::AwaitingInput);
    let from = now_s();
    place.when("the time of a probe is over", |session| {
        assert_eq!(session.state, SessionState::AwaitingInput, "{session:#?}");
        from + 6 < now_s()
    });
    place.assert_untouched();
    place.pane.keys(&["Escape"]);
    place.api.wait_for("[coord]");
    place.pane.wait_screen("Went on.");
    place.when("the wait is over", |session| session.state == SessionState::Idle);
    place.assert_done_only(1);
}

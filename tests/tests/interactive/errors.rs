//! Turns that the API ends. Holds.

use crate::case::{Case, Config};
use coord_model::SessionState;
use coord_tests::fake_api::Turn;

/// An error for the prompt that is its tag, and no retries.
fn error(status: u16, kind: &str, message: &str, tag: &str) -> Turn {
    let error = Turn::error(status, kind, message).header("x-should-retry", "false");
    error.only_after(tag).behind(tag)
}

pub(crate) fn api_errors(config: Config) {
    //
    let turns = [
        error(529, "overloaded_error", "Overloaded", "TAG-OVERLOADED"),
        error(400, "invalid_request_error", "Your credit balance is too low", "TAG-CREDIT"),
        error(401, "authentication_error", "invalid x-api-key", "TAG-KEY"),
        error(429, "rate_limit_error", "This request would exceed your limit", "TAG-LIMIT"),
    ];
    let mut case = Case::start(config, turns, &[]);
    for (tag, state) in [
        ("TAG-LIMIT", SessionState::QuotaWait),
        ("TAG-KEY", SessionState::BlockedAuth),
        ("TAG-CREDIT", SessionState::BlockedBilling),
    ] {
        case.prompt(tag);
        // The registry may be back at its prompt before StopFailure has told why.
        case.step_through("refused", &[SessionState::Idle], state, |case| case.api.open(tag));
        case.clear();
    }
    case.prompt("TAG-OVERLOADED");
    case.step_killed("refused", &[], SessionState::Idle, |case| case.api.open("TAG-OVERLOADED"));
    case.finish();
}

/// errors that leave nothing to wait for.
pub(crate) fn other_api_errors(config: Config) {
    // The newest first: older clients send the prompts that failed along with the next one.
    let turns = [
        Turn::text("At last.").only_for("TAG-ANSWER").behind("TAG-ANSWER"),
        Turn::too_long("On and on").only_for("TAG-OUTPUT").behind("TAG-OUTPUT"),
        error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8", "TAG-LONG"),
        error(500, "api_error", "Internal server error", "TAG-SERVER"),
        error(404, "not_found_error", "model: claude-none", "TAG-MODEL"),
        error(400, "invalid_request_error", "tools: something is wrong", "TAG-INVALID"),
    ];
    let mut case = Case::start(config, turns, &[]);
    for tag in ["TAG-INVALID", "TAG-MODEL", "TAG-SERVER", "TAG-LONG"] {
        case.prompt(tag);
        case.step("refused", SessionState::Idle, |case| case.api.open(tag));
    }
    case.prompt("TAG-OUTPUT");
    case.step("cut off", SessionState::Idle, |case| case.api.open("TAG-OUTPUT"));
    case.prompt("TAG-ANSWER");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("TAG-ANSWER"));
    case.finish();
}

/// while the client tries again, its turn is open.
pub(crate) fn retries(config: Config) {
    let failed = || Turn::error(500, "api_error", "Internal server error").once();
    let turns = [failed(), failed(), failed(), Turn::text("At last.").behind("answer")];
    let mut case = Case::start_with(config, turns, "CLAUDE_CODE_MAX_RETRIES=5", &[]);
    case.prompt("Try");
    case.step("tried again", SessionState::Running, |case| {
        case.api.wait_for_nth("Try", 4);
    });
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("answer"));
    case.finish();
}

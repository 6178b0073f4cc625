//! The real client at a terminal, killed and brought back, or left alone. The rows are named at the
//! cases.

mod answers;
mod calm;
mod crashes;
mod ends;
mod fails;
mod failures;
mod forged;
mod hidden;
mod many;
mod notices;
mod opted_in;
mod panes;
mod questions;
mod quota;
mod request_ends;
mod request_forged;
mod request_page;
mod request_place;
mod request_races;
mod requests;
mod restarts;
mod signatures;
mod stalls;
mod taken_over;

use coord_tests::netns;
use libtest_mimic::Trial;
use std::process::ExitCode;

/// A client mostly waits; its start takes a second of one core.
const N_AT_ONCE: usize = 8;

const CASES: [(&str, fn()); 91] = [
    ("sigkill_in_a_turn", crashes::sigkill_in_a_turn),
    ("sigkill_where_somebody_watches", crashes::sigkill_where_somebody_watches),
    ("sigkill_at_rest", crashes::sigkill_at_rest),
    ("sigkill_at_a_permission_prompt", crashes::sigkill_at_a_permission_prompt),
    ("a_tool_that_lives_on", crashes::a_tool_that_lives_on),
    ("a_background_shell_that_lives_on", crashes::a_background_shell_that_lives_on),
    ("an_order_that_is_waited_for", crashes::an_order_that_is_waited_for),
    ("an_order_after_its_shell_was_used", crashes::an_order_after_its_shell_was_used),
    ("its_user_opted_in", opted_in::its_user_opted_in),
    ("mode_act", opted_in::mode_act),
    ("mode_observe", opted_in::mode_observe),
    ("a_key_in_the_grace", opted_in::a_key_in_the_grace),
    ("killed_again", opted_in::killed_again),
    ("ended_by_its_user", ends::ended_by_its_user),
    ("ended_by_a_signal", ends::ended_by_a_signal),
    ("a_closed_pane", ends::a_closed_pane),
    ("cleared_and_killed", ends::cleared_and_killed),
    ("a_cancelled_session_end", ends::a_cancelled_session_end),
    ("a_limit_that_ends", quota::a_limit_that_ends),
    ("a_limit_that_stays", quota::a_limit_that_stays),
    ("a_prompt_to_continue", answers::a_prompt_to_continue),
    ("a_question", answers::a_question),
    ("a_permission_dialog", answers::a_permission_dialog),
    ("a_prompt_is_told_and_taken_back", notices::a_prompt_is_told_and_taken_back),
    ("a_request_is_approved_from_elsewhere", requests::a_request_is_approved_from_elsewhere),
    ("a_request_is_approved_in_top", requests::a_request_is_approved_in_top),
    (
        "w_03_a_request_is_approved_on_the_page",
        request_page::w_03_a_request_is_approved_on_the_page,
    ),
    ("a_request_is_denied_with_a_message", requests::a_request_is_denied_with_a_message),
    ("a_request_is_answered_at_the_terminal", requests::a_request_is_answered_at_the_terminal),
    ("a_request_that_is_interrupted", requests::a_request_that_is_interrupted),
    ("a_request_whose_coordinator_is_killed", requests::a_request_whose_coordinator_is_killed),
    ("a_request_whose_questions_are_answered", questions::questions_are_answered_from_elsewhere),
    ("a_request_beside_another_question", questions::a_request_beside_another_question),
    ("a_request_whose_call_is_not_reported", questions::a_request_whose_call_is_not_reported),
    (
        "a_request_and_every_order_need_the_passphrase",
        requests::a_request_and_every_order_need_the_passphrase,
    ),
    ("a_request_of_a_headless_run", hidden::a_request_of_a_headless_run),
    ("a_request_of_a_background_session", hidden::a_request_of_a_background_session),
    ("a_request_of_a_subagent", hidden::a_request_of_a_subagent),
    ("a_request_whose_plan_is_approved", questions::a_plan_is_approved_with_its_mode),
    ("a_draft", answers::a_draft),
    ("the_limit_of_answers", answers::the_limit_of_answers),
    ("a_task_directory", answers::a_task_directory),
    ("a_task_of_another_session", answers::a_task_of_another_session),
    ("a_context_that_is_nearly_full", answers::a_context_that_is_nearly_full),
    ("a_limit_whose_end_is_named", quota::a_limit_whose_end_is_named),
    ("a_client_that_goes_on_by_itself", quota::a_client_that_goes_on_by_itself),
    ("a_limit_that_ended_long_ago", quota::a_limit_that_ended_long_ago),
    ("a_limit_that_ends_in_a_year", quota::a_limit_that_ends_in_a_year),
    ("a_refused_key", failures::a_refused_key),
    ("a_spent_credit", failures::a_spent_credit),
    ("a_full_context", failures::a_full_context),
    ("an_overloaded_api", failures::an_overloaded_api),
    ("resumed_in_its_own_shell", taken_over::resumed_in_its_own_shell),
    ("continued_in_another_pane", taken_over::continued_in_another_pane),
    ("resumed_elsewhere_in_the_grace", taken_over::resumed_elsewhere_in_the_grace),
    ("a_loop_in_a_shell", taken_over::a_loop_in_a_shell),
    ("a_loop_as_a_pane", taken_over::a_loop_as_a_pane),
    ("a_client_in_a_container", taken_over::a_client_in_a_container),
    ("synchronized_panes", panes::synchronized_panes),
    ("copy_mode", panes::copy_mode),
    ("a_stale_pane_variable", panes::a_stale_pane_variable),
    ("a_suspended_client", panes::a_suspended_client),
    ("a_pane_closed_after_the_death", panes::a_pane_closed_after_the_death),
    ("a_line_taken_elsewhere", panes::a_line_taken_elsewhere),
    ("a_dead_pane_that_is_kept", panes::a_dead_pane_that_is_kept),
    ("other_shells", panes::other_shells),
    ("a_half_typed_line", panes::a_half_typed_line),
    ("a_half_typed_line_of_a_person", panes::a_half_typed_line_of_a_person),
    ("a_key_after_the_death", panes::a_key_after_the_death),
    ("claims_where_no_mode_was_given", forged::claims_where_no_mode_was_given),
    ("claims_where_a_mode_was_given", forged::claims_where_a_mode_was_given),
    ("before_its_first_prompt", fails::before_its_first_prompt),
    ("its_transcript_is_gone", fails::its_transcript_is_gone),
    ("its_directory_was_moved", fails::its_directory_was_moved),
    ("its_program_is_gone", fails::its_program_is_gone),
    ("its_account_is_not_there", fails::its_account_is_not_there),
    ("a_trust_dialog", fails::a_trust_dialog),
    ("a_signature_on_the_screen_only", signatures::on_the_screen_only),
    ("a_signature_with_a_draft", signatures::with_a_draft),
    ("a_signature_with_a_permission_dialog", signatures::with_a_permission_dialog),
    ("a_signature_where_somebody_watches", signatures::where_somebody_watches),
    ("a_signature_printed_by_a_tool", signatures::printed_by_a_tool),
    ("restarted_in_the_grace", restarts::in_the_grace),
    ("restarted_after_the_death", restarts::after_the_death),
    ("restarted_after_the_act_was_decided", restarts::after_the_act_was_decided),
    ("restarted_after_the_line_was_typed", restarts::after_the_line_was_typed),
    ("restarted_after_the_claim", restarts::after_the_claim),
    ("restarted_before_it_is_verified", restarts::before_it_is_verified),
    ("restarted_after_the_end_was_decided", restarts::after_the_end_was_decided),
    ("five_at_once", many::five_at_once),
    ("a_killed_tmux_server", many::a_killed_tmux_server),
];

/// Prompts that are answered from elsewhere, where more than that happens.
const REQUESTS: [(&str, fn()); 12] = [
    ("a_request_that_is_answered_at_both", request_races::a_request_that_is_answered_at_both),
    (
        "a_request_of_five_whose_coordinator_is_killed",
        request_ends::a_request_of_five_whose_coordinator_is_killed,
    ),
    ("a_request_whose_client_ends", request_ends::a_request_whose_client_ends),
    ("a_request_whose_hook_is_killed", request_ends::a_request_whose_hook_is_killed),
    ("a_request_of_a_session_that_was_left", request_ends::a_request_of_a_session_that_was_left),
    ("a_request_like_the_one_before", request_ends::a_request_like_the_one_before),
    ("a_request_of_three_in_another_order", request_ends::a_request_of_three_in_another_order),
    ("a_request_while_the_settings_change", request_ends::a_request_while_the_settings_change),
    ("a_request_with_a_forged_decision", request_forged::a_request_with_a_forged_decision),
    ("a_request_leaves_no_words", request_forged::a_request_leaves_no_words),
    ("a_request_of_a_background_subagent", request_forged::a_request_of_a_background_subagent),
    (
        "a_request_that_is_refused_with_feedback",
        request_forged::a_request_that_is_refused_with_feedback,
    ),
];

/// A case that is told its name.
type Recorded = fn(&str);

/// What `cargo xtask truth` adds up: left alone, and shown as stalled or not.
const STALLS: [(&str, Recorded); 20] = [
    ("an_api_that_hangs", stalls::an_api_that_hangs),
    ("a_stream_that_falls_silent", stalls::a_stream_that_falls_silent),
    ("a_hang_behind_a_tool", stalls::a_hang_behind_a_tool),
    ("a_hang_with_a_prompt_behind_it", stalls::a_hang_with_a_prompt_behind_it),
    ("a_tool_that_hangs", stalls::a_tool_that_hangs),
    ("a_subagent_that_hangs", stalls::a_subagent_that_hangs),
    ("a_long_tool", calm::a_long_tool),
    ("an_attended_turn", calm::an_attended_turn),
    ("a_request_that_is_tried_again", calm::a_request_that_is_tried_again),
    ("a_wait_for_its_quota", calm::a_wait_for_its_quota),
    ("a_turn_that_failed", calm::a_turn_that_failed),
    ("a_session_at_rest", calm::a_session_at_rest),
    ("an_open_permission_dialog", calm::an_open_permission_dialog),
    ("an_answer_in_pieces", calm::an_answer_in_pieces),
    ("a_long_thought", calm::a_long_thought),
    ("a_tool_that_prints", calm::a_tool_that_prints),
    ("a_subagent_that_works", calm::a_subagent_that_works),
    ("a_subagent_in_the_background", calm::a_subagent_in_the_background),
    ("a_turn_of_many_steps", calm::a_turn_of_many_steps),
    ("a_background_shell", calm::a_background_shell),
];

fn main() -> ExitCode {
    let trials = CASES.into_iter().chain(REQUESTS).map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    let stalls = STALLS.into_iter().map(|(name, case)| {
        Trial::test(format!("stalls::{name}"), move || {
            case(name);
            Ok(())
        })
    });
    // The longest first, so that none of them is waited for alone at the end.
    netns::run_at_once(N_AT_ONCE, stalls.chain(trials).collect())
}

//! `coord run` as a user has it: a fake agent that does what no client should, and the real client
//! without a terminal. The rows are named at the cases.

mod case;
mod client;
mod ends;
mod outcomes;
mod record;
mod signals;
mod streams;
mod tree;

use coord_tests::netns;
use libtest_mimic::Trial;
use std::process::ExitCode;

/// Nearly all of it is waiting for short clocks.
const N_AT_ONCE: usize = 6;

const CASES: [(&str, fn()); 73] = [
    ("ends::it_closes_its_output_and_lives_on", ends::it_closes_its_output_and_lives_on),
    ("ends::it_ignores_sigterm", ends::it_ignores_sigterm),
    ("ends::it_ends_in_the_countdown", ends::it_ends_in_the_countdown),
    ("ends::a_pending_request_defers", ends::a_pending_request_defers),
    ("ends::a_request_that_stays_open", ends::a_request_that_stays_open),
    ("ends::a_limbo_behind_its_result", ends::a_limbo_behind_its_result),
    ("ends::nothing_is_cut_below_the_limbo", ends::nothing_is_cut_below_the_limbo),
    ("ends::a_scheduled_wakeup", ends::a_scheduled_wakeup),
    ("ends::it_is_warned_about", ends::it_is_warned_about),
    ("ends::it_gives_no_result", ends::it_gives_no_result),
    ("ends::a_tool_runs_for_long", ends::a_tool_runs_for_long),
    ("ends::it_takes_too_long", ends::it_takes_too_long),
    ("ends::background_work_that_is_busy", ends::background_work_that_is_busy),
    ("ends::background_work_that_is_quiet", ends::background_work_that_is_quiet),
    ("ends::background_work_that_ends", ends::background_work_that_ends),
    ("tree::a_child_with_a_group_of_its_own", tree::a_child_with_a_group_of_its_own),
    ("tree::a_child_with_a_session_of_its_own", tree::a_child_with_a_session_of_its_own),
    ("tree::an_orphan_of_the_run_s_group", tree::an_orphan_of_the_run_s_group),
    ("tree::a_child_that_ignores_sigterm", tree::a_child_that_ignores_sigterm),
    ("tree::a_daemon_is_left_and_listed", tree::a_daemon_is_left_and_listed),
    ("tree::a_daemon_is_ended_on_demand", tree::a_daemon_is_ended_on_demand),
    ("tree::a_daemon_that_holds_the_output", tree::a_daemon_that_holds_the_output),
    ("tree::an_end_by_itself_leaves_nothing", tree::an_end_by_itself_leaves_nothing),
    ("tree::in_a_pid_namespace_of_its_own", tree::in_a_pid_namespace_of_its_own),
    ("tree::a_harness_below_the_run_s_own", tree::a_harness_below_the_run_s_own),
    ("tree::a_tmux_server_lives_on", tree::a_tmux_server_lives_on),
    ("tree::a_coordinator_lives_on", tree::a_coordinator_lives_on),
    ("outcomes::its_exit_code_is_passed_on", outcomes::its_exit_code_is_passed_on),
    ("outcomes::it_dies_by_a_signal", outcomes::it_dies_by_a_signal),
    ("outcomes::it_prints_nothing", outcomes::it_prints_nothing),
    ("outcomes::it_is_judged_from_fields", outcomes::it_is_judged_from_fields),
    ("outcomes::wrong_arguments", outcomes::wrong_arguments),
    ("outcomes::a_named_error_and_a_hang", outcomes::a_named_error_and_a_hang),
    ("outcomes::a_named_error_beside_a_child", outcomes::a_named_error_beside_a_child),
    (
        "outcomes::a_named_error_that_needs_no_confirming",
        outcomes::a_named_error_that_needs_no_confirming,
    ),
    ("outcomes::a_named_error_behind_a_result", outcomes::a_named_error_behind_a_result),
    (
        "outcomes::no_confirming_is_refused_for_the_client",
        outcomes::no_confirming_is_refused_for_the_client,
    ),
    (
        "outcomes::a_wrong_configuration_starts_nothing",
        outcomes::a_wrong_configuration_starts_nothing,
    ),
    ("outcomes::it_floods_its_standard_error", outcomes::it_floods_its_standard_error),
    ("outcomes::it_cannot_be_started", outcomes::it_cannot_be_started),
    ("streams::every_byte_passes", streams::every_byte_passes),
    ("streams::every_byte_of_standard_error_passes", streams::every_byte_of_standard_error_passes),
    ("streams::standard_input_is_its_own", streams::standard_input_is_its_own),
    ("streams::a_reader_that_does_not_read", streams::a_reader_that_does_not_read),
    ("streams::a_reader_that_pauses", streams::a_reader_that_pauses),
    ("streams::a_reader_that_pauses_at_the_end", streams::a_reader_that_pauses_at_the_end),
    ("streams::the_end_of_its_output_passes", streams::the_end_of_its_output_passes),
    ("streams::a_reader_that_leaves", streams::a_reader_that_leaves),
    ("streams::a_reader_that_leaves_the_client", streams::a_reader_that_leaves_the_client),
    ("signals::sigterm_is_passed_on", signals::sigterm_is_passed_on),
    ("signals::sigint_and_sighup_are_passed_on", signals::sigint_and_sighup_are_passed_on),
    ("signals::a_signal_that_is_not_minded", signals::a_signal_that_is_not_minded),
    ("signals::ctrl_c_on_a_terminal", signals::ctrl_c_on_a_terminal),
    ("signals::ctrl_z_and_fg", signals::ctrl_z_and_fg),
    ("record::a_forced_end_is_written_first", record::a_forced_end_is_written_first),
    ("record::no_quarantine_without_a_result", record::no_quarantine_without_a_result),
    ("record::nothing_is_ended_without_its_file", record::nothing_is_ended_without_its_file),
    ("record::everybody_can_read_it", record::everybody_can_read_it),
    ("record::a_killed_coordinator", record::a_killed_coordinator),
    ("record::a_killed_supervisor", record::a_killed_supervisor),
    ("record::what_it_printed_stands_nowhere", record::what_it_printed_stands_nowhere),
    ("client::a_turn", client::a_turn),
    ("client::a_limit_of_requests", client::a_limit_of_requests),
    ("client::a_limit_of_a_subscription", client::a_limit_of_a_subscription),
    ("client::a_limit_in_text_mode", client::a_limit_in_text_mode),
    ("client::errors_of_its_account", client::errors_of_its_account),
    ("client::a_cut_stream", client::a_cut_stream),
    ("client::a_background_shell", client::a_background_shell),
    ("client::a_background_shell_that_hangs", client::a_background_shell_that_hangs),
    ("client::its_user_ends_it", client::its_user_ends_it),
    ("client::it_does_not_begin", client::it_does_not_begin),
    ("client::an_api_that_never_answers", client::an_api_that_never_answers),
    ("client::a_long_tool", client::a_long_tool),
];

fn main() -> ExitCode {
    let trials = CASES.into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    netns::run_at_once(N_AT_ONCE, trials.collect())
}

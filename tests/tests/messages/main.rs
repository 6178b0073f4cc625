//! Messages to the real client: when they reach its agent, in which words, and what is never touched on the way.
//! The rows are named at the cases.

mod agents;
mod case;
mod delivery_paths;
mod ends;

use coord_tests::netns;
use libtest_mimic::Trial;
use std::process::ExitCode;

/// A client mostly waits, but its start takes a second of one core.
const N_AT_ONCE: usize = 4;

const CASES: [(&str, fn()); 18] = [
    ("a_working_session_reads_it_at_its_stop", delivery_paths::a_working_session),
    ("an_urgent_one_comes_with_the_next_tool", delivery_paths::an_urgent_one),
    ("an_idle_session_reads_it_with_its_next_prompt", delivery_paths::with_the_next_prompt),
    ("an_idle_session_is_woken_and_its_draft_stays", delivery_paths::an_idle_session_with_a_draft),
    ("an_open_editor_keeps_its_text", delivery_paths::an_open_editor),
    ("a_permission_prompt_is_not_answered", delivery_paths::a_permission_prompt),
    ("a_cleared_session_reads_it_in_its_new_conversation", delivery_paths::a_cleared_session),
    ("a_headless_run_reads_it_at_its_next_start", delivery_paths::a_headless_run),
    ("lines_with_signs_stay_text", delivery_paths::lines_with_signs),
    ("a_long_one_says_where_its_rest_is", delivery_paths::a_long_one),
    ("what_an_interrupt_took_out_comes_again", delivery_paths::an_interrupt),
    ("a_subagent_never_reads_what_its_parent_was_sent", delivery_paths::a_subagent),
    ("what_a_hook_lost_behind_its_success_comes_again", delivery_paths::a_hook_that_fails),
    ("an_agent_is_named_as_one", agents::an_agent_writes),
    ("a_session_that_acts_unasked_hears_only_whom_it_may", agents::a_session_that_acts_unasked),
    ("a_crashed_session_reads_it_after_its_recovery", ends::a_crashed_session),
    ("a_parent_is_told_of_its_killed_child", ends::a_killed_child),
    ("a_sender_is_told_that_its_receiver_died", ends::a_receiver_that_died),
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

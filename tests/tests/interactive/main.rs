//! The real client at a terminal: what `coord inspect` says of it from moment to moment, judged
//! against what the script did. Each case runs with the client's registry to read and without, and
//! both again with a coordinator that is killed in the midst of it; some run with hooks alone.
//! The rows are named at the cases.

mod background;
mod case;
mod ends;
mod errors;
mod identity;
mod prompts;
mod status_line;
mod turns;

use case::{Config, DELAYS, Sources};
use coord_tests::netns::{self, test};
use libtest_mimic::Trial;
use std::process::ExitCode;

/// A client mostly waits, but its start takes a second of one core.
const N_AT_ONCE: usize = 6;

/// A case.
type Body = fn(Config);

/// The long ones first.
const CASES: [(&str, Body); 36] = [
    ("a_prompt_left_open", prompts::a_prompt_left_open),
    ("api_errors", errors::api_errors),
    ("other_api_errors", errors::other_api_errors),
    ("retries", errors::retries),
    ("permission_prompts", prompts::permission_prompts),
    ("two_prompts_of_one_answer", prompts::two_prompts_of_one_answer),
    ("a_question_and_a_plan", prompts::a_question_and_a_plan),
    ("a_subagent_that_needs_permission", prompts::a_subagent_that_needs_permission),
    ("a_text_turn", turns::a_text_turn),
    ("escape", turns::escape),
    ("a_queued_message", turns::a_queued_message),
    ("bash_mode", turns::bash_mode),
    ("compaction", turns::compaction),
    ("a_background_shell", background::a_background_shell),
    ("a_background_subagent", background::a_background_subagent),
    (
        "an_interrupt_beside_a_background_subagent",
        background::an_interrupt_beside_a_background_subagent,
    ),
    ("a_nested_headless_run", background::a_nested_headless_run),
    ("clear", identity::clear),
    ("a_resume_in_a_new_process", identity::a_resume_in_a_new_process),
    ("a_fork_is_another_session", identity::a_fork_is_another_session),
    ("one_session_resumed_twice", identity::one_session_resumed_twice),
    ("a_headless_resume_beside_it", identity::a_headless_resume_beside_it),
    ("what_is_no_session", identity::what_is_no_session),
    ("hooks_installed_later", identity::hooks_installed_later),
    ("a_stale_pane_variable", identity::a_stale_pane_variable),
    ("another_pid_namespace", identity::another_pid_namespace),
    ("two_config_directories", identity::two_config_directories),
    ("a_new_tmux_server", identity::a_new_tmux_server),
    ("ctrl_z", ends::ctrl_z),
    ("exit_in_a_turn", ends::exit_in_a_turn),
    ("sigkill", ends::sigkill),
    ("sigkill_at_the_prompt", ends::sigkill_at_the_prompt),
    ("sigkill_at_a_permission_prompt", ends::sigkill_at_a_permission_prompt),
    ("sigterm", ends::sigterm),
    ("a_closed_pane", ends::a_closed_pane),
    ("a_killed_tmux_server", ends::a_killed_tmux_server),
];

/// Those that tell most of what hooks alone can know.
const WITH_HOOKS_ONLY: [&str; 5] =
    ["permission_prompts", "a_question_and_a_plan", "escape", "a_queued_message", "sigkill"];

/// Of these the client itself cannot be asked whether it has done what a kill waits for.
const NEVER_KILLED: [&str; 1] = ["another_pid_namespace"];

fn main() -> ExitCode {
    let once = [
        test("a_status_line", status_line::a_status_line),
        test("the_limits_of_an_account", status_line::the_limits_of_an_account),
    ];
    let cases = CASES.into_iter().flat_map(variants).chain(once);
    let code = netns::run_at_once(N_AT_ONCE, cases.collect());
    report_delays();
    code
}

/// A case in all its variants.
fn variants((case, body): (&'static str, Body)) -> Vec<Trial> {
    let mut configs = Vec::new();
    for is_killed in
        [false, true].into_iter().take(if NEVER_KILLED.contains(&case) { 1 } else { 2 })
    {
        for sources in [Sources::All, Sources::NoRegistry] {
            configs.push(Config { case, sources, is_killed });
        }
    }
    if WITH_HOOKS_ONLY.contains(&case) {
        configs.push(Config { case, sources: Sources::HooksOnly, is_killed: false });
    }
    let trial = |config: Config| {
        Trial::test(config.name(), move || {
            body(config);
            Ok(())
        })
    };
    configs.into_iter().map(trial).collect()
}

#[expect(clippy::print_stderr, reason = "this is the test program's own report")]
fn report_delays() {
    let mut delays = DELAYS.lock().map(|delays| delays.clone()).unwrap_or_default();
    delays.sort_unstable();
    let at = |percent: usize| delays.get(delays.len() * percent / 100).copied().unwrap_or(0);
    if let Some(longest) = delays.last() {
        let [median, p99] = [at(50), at(99)];
        let n = delays.len();
        eprintln!("{n} states, delay median {median} ms, p99 {p99} ms, longest {longest} ms");
    }
}

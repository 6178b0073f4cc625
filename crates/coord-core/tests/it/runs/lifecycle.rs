//! The table of a run's states, whole, and its lines in the log.

use coord_core::{RunCause, RunEvent, RunState, StreamFact};

use super::watched::{Watched, a_shell, init, result};

const CAUSES: [RunCause; 10] = [
    RunCause::Output,
    RunCause::ToolBegan,
    RunCause::ToolsEnded,
    RunCause::Result,
    RunCause::Eof,
    RunCause::StillAlive,
    RunCause::NothingLeft,
    RunCause::Term,
    RunCause::Kill,
    RunCause::Exit,
];

/// A row per state, a column per cause; `.` stays where it is.
const TABLE: &str = "
state            output     tool_began   tools_ended  result            eof         still_alive   nothing_left  term          kill          exit
spawned          streaming  tool_active  .            idle_post_result  reader_eof  .             .             sigterm_sent  sigterm_sent  exited
streaming        .          tool_active  .            idle_post_result  reader_eof  .             .             sigterm_sent  sigterm_sent  exited
tool_active      .          .            streaming    idle_post_result  reader_eof  .             .             sigterm_sent  sigterm_sent  exited
idle_post_result streaming  tool_active  .            .                 reader_eof  .             limbo         sigterm_sent  sigterm_sent  exited
reader_eof       .          .            .            .                 .           subcountdown  .             sigterm_sent  sigterm_sent  exited
subcountdown     .          .            .            .                 .           .             limbo         sigterm_sent  sigterm_sent  exited
limbo            streaming  tool_active  .            idle_post_result  reader_eof  .             .             sigterm_sent  sigterm_sent  exited
sigterm_sent     .          .            .            .                 .           .             .             .             sigkill_sent  exited
sigkill_sent     .          .            .            .                 .           .             .             .             .             exited
exited           .          .            .            .                 .           .             .             .             .             .
";

fn state(word: &str) -> RunState {
    *RunState::ALL.iter().find(|state| state.word() == word).expect("a state's word")
}

// S3-15: one transition function, which has an answer to everything.
#[test]
fn every_state_answers_every_cause_as_the_table_says() {
    let mut rows = 0;
    for line in TABLE.trim().lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let before = state(words[0]);
        assert_eq!(words.len(), CAUSES.len() + 1, "{line}");
        for (cause, word) in CAUSES.into_iter().zip(&words[1..]) {
            let after = if *word == "." { before } else { state(word) };
            assert_eq!(before.after(cause), after, "{before:?} and {cause:?}");
        }
        rows += 1;
    }
    assert_eq!(rows, RunState::ALL.len(), "every state has a row");
}

// S3-15: idempotent, and behind a signal there is no way back.
#[test]
fn a_cause_told_twice_says_nothing_new_and_no_ended_run_comes_back() {
    let rank = |state: RunState| RunState::ALL.into_iter().position(|one| one == state);
    for before in RunState::ALL {
        for cause in CAUSES {
            let after = before.after(cause);
            // SIGKILL comes behind SIGTERM only: the first call of two sends that.
            let again = after.after(cause);
            if cause == RunCause::Kill {
                assert_eq!(again.after(cause), again, "{before:?} and {cause:?}");
            } else {
                assert_eq!(again, after, "{before:?} and {cause:?}");
            }
            if RunState::SigtermSent <= before {
                assert!(rank(before) <= rank(after), "{before:?} and {cause:?}");
            }
        }
    }
}

// S3-15, S3-01, S3-03, S3-09: the first life of the log, state by state.
#[test]
fn each_transition_is_one_line_and_one_entry_time() {
    let mut run = Watched::new();
    run.pass(2);
    run.says(init());
    run.says(StreamFact::Said);
    run.pass(1);
    run.says(StreamFact::ToolBegan { call: 1 });
    run.says(StreamFact::ToolBegan { call: 2 });
    run.says(StreamFact::ToolEnded { call: 1 });
    run.says(StreamFact::Said);
    assert_eq!(run.state(), RunState::ToolActive, "one is still open");
    run.says(StreamFact::ToolEnded { call: 2 });
    run.pass(1);
    run.says(result());
    run.pass(3);
    let since = run.now();
    run.take(RunEvent::Eof);
    run.take(RunEvent::Eof);
    assert_eq!(run.run.state(), (RunState::ReaderEof, since));
    run.pass(10);
    assert_eq!(run.noted("reader_done_but_alive"), [(8, false)]);
    run.pass(600);
    run.exits(0);
    let states = [
        "spawned",
        "streaming",
        "tool_active",
        "streaming",
        "idle_post_result",
        "reader_eof",
        "subcountdown",
        "limbo",
        "sigterm_sent",
        "sigkill_sent",
        "exited",
    ];
    assert_eq!(run.states(), states);
    let serialized: Vec<String> = RunState::ALL
        .into_iter()
        .map(|state| serde_json::to_value(state).unwrap().as_str().unwrap().to_owned())
        .collect();
    assert_eq!(serialized, RunState::ALL.map(RunState::word), "one name everywhere");
}

// S3-15: what the client lists or says behind its result opens no turn; a turn of its own does.
#[test]
fn a_word_behind_the_result_is_no_turn() {
    let mut run = Watched::with_result();
    for fact in
        [a_shell(), StreamFact::Said, StreamFact::RateLimit { is_rejected: false, resets_ms: None }]
    {
        run.says(fact);
        assert_eq!(run.state(), RunState::IdlePostResult);
    }
    run.take(RunEvent::Output);
    assert_eq!(run.state(), RunState::IdlePostResult);
    run.says(init());
    assert_eq!(run.state(), RunState::Streaming);
    run.says(result());
    assert_eq!(run.state(), RunState::IdlePostResult);
}

// S3-16: entry, a tick each half minute, and exit.
#[test]
fn the_watchdog_says_when_it_begins_ticks_and_ends() {
    let mut run = Watched::new();
    run.pass(100);
    run.exits(0);
    assert_eq!(run.noted("watchdog.entry"), [(0, false)]);
    assert_eq!(run.noted("watchdog.tick"), [(30, false), (60, false), (90, false)]);
    assert_eq!(run.noted("watchdog.exit"), [(100, false)]);
}

// S3-15: nothing moves a run that is over, and nothing is asked for it.
#[test]
fn nothing_happens_to_a_run_that_is_over() {
    let mut run = Watched::with_result();
    run.exits(0);
    let before = run.acts.len();
    for event in [
        RunEvent::Output,
        RunEvent::Stream(init()),
        RunEvent::Eof,
        RunEvent::Gap,
        RunEvent::Recorded,
        RunEvent::NotRecorded,
        RunEvent::Forwarded { signal: 2 },
        RunEvent::Exited(coord_core::ExitStatus::Signal(9)),
    ] {
        run.take(event);
    }
    run.pass(100_000);
    assert_eq!(run.acts.len(), before);
    assert_eq!(run.exit_reason(), Some(coord_core::ExitReason::ExitedAfterResult));
}

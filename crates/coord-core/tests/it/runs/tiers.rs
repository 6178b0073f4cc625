//! When a run that does not end is ended, and when it is not (S2-05, S2-20, S3).

use coord_core::{ErrorText, ExitReason, RunEvent, RunLimits, RunState, RunTasks, StreamFact};
use coord_model::Signal;

use super::watched::{Disk, Watched, a_shell, init, result};

// S3-19
#[test]
fn the_clocks_are_these_by_default() {
    let limits = RunLimits::default();
    let of = |ms: u64| ms / 1_000;
    assert_eq!(of(limits.post_result_ms), 600);
    assert_eq!(of(limits.limbo_ms), 660);
    assert_eq!(of(limits.limbo_warning_ms), 30);
    assert_eq!(of(limits.kill_grace_ms), 5);
    assert_eq!(of(limits.tick_ms), 30);
    assert_eq!(of(limits.timeout_ms), 10_800);
    assert_eq!(of(limits.first_result_ms), 3_600);
    assert_eq!((of(limits.confirm_before_result_ms), of(limits.confirm_ms)), (360, 20));
    assert_eq!((of(limits.quiet_ms), of(limits.unknown_ms), of(limits.busy_ms)), (60, 600, 1_800));
}

// S3-01, S3-03, S3-06, S3-07, S3-08, S3-09, S3-18: the first tier, to the second.
#[test]
fn a_run_that_lives_on_behind_its_output_is_ended_after_600_seconds() {
    let mut run = Watched::at_eof();
    run.pass(599);
    assert!(run.is_untouched(), "not a second too early");
    assert!(matches!(run.state(), RunState::Subcountdown | RunState::Limbo));
    run.pass(1);
    assert_eq!(run.signals(), [(600, Signal::Term)]);
    run.pass(4);
    assert_eq!(run.signals().len(), 1);
    run.pass(1);
    assert_eq!(run.signals(), [(600, Signal::Term), (605, Signal::Kill)]);
    assert_eq!(run.noted("sigterm_after_timeout"), [(600, true)]);
    assert_eq!(run.noted("sigkill_after_grace"), [(605, true)]);
    run.take(RunEvent::Exited(coord_core::ExitStatus::Signal(9)));
    assert_eq!(run.exit_reason(), Some(ExitReason::ReaderDoneButAlive));
    assert_eq!(run.exit_reason().unwrap().word(), "reader_done_but_alive_timeout");
}

// S3-04, S3-08: by itself, at any moment of the countdown.
#[test]
fn one_that_ends_during_the_countdown_is_not_signalled() {
    let mut run = Watched::at_eof();
    run.pass(1);
    run.exits(0);
    assert_eq!(run.exit_reason().unwrap().word(), "subprocess_exited_during_subcountdown");
    assert!(run.is_untouched());
    let mut run = Watched::at_eof();
    run.exits(0);
    assert_eq!(run.exit_reason(), Some(ExitReason::ExitedAfterResult), "with its output");
}

// S3-05: an open request defers, and from its answer the whole time runs anew.
#[test]
fn an_open_request_defers_and_re_arms() {
    for eof_first in [true, false] {
        let mut run = Watched::with_result();
        run.says(StreamFact::ControlOpened { request: 1, call: None });
        run.says(StreamFact::ControlOpened { request: 2, call: None });
        if eof_first {
            run.take(RunEvent::Eof);
        }
        run.until(5_000);
        assert!(run.is_untouched());
        assert_eq!(run.hold(), Some(("pending_request".into(), 5_800)));
        assert_eq!(run.noted("subcountdown_deferred").len(), 1, "said once");
        run.says(StreamFact::ControlClosed { request: 1 });
        run.until(5_700);
        assert!(run.is_untouched(), "the other one is open");
        run.says(StreamFact::ControlClosed { request: 2 });
        let after = run.until_signalled() - 5_700;
        assert_eq!(after, if eof_first { 600 } else { 660 });
    }
}

// S3-05: no line of the stream tells of an answer but the end of the call that was asked about.
#[test]
fn the_end_of_its_call_closes_a_request() {
    let mut run = Watched::with_result();
    run.says(StreamFact::ControlOpened { request: 1, call: Some(7) });
    run.says(StreamFact::ControlOpened { request: 2, call: None });
    run.until(1_000);
    run.says(StreamFact::ToolEnded { call: 8 });
    run.says(StreamFact::ControlClosed { request: 2 });
    run.until(2_000);
    assert_eq!(run.hold().unwrap().0, "pending_request");
    run.says(StreamFact::ToolEnded { call: 7 });
    assert_eq!(run.until_signalled(), 2_660);
}

// S3-05: a question that is about no call is over with its turn.
#[test]
fn a_result_closes_the_questions_of_its_turn() {
    for (call, ended_s) in [(None, 660), (Some(7), 10_800)] {
        let mut run = Watched::new();
        run.says(init());
        run.says(StreamFact::ControlOpened { request: 1, call });
        run.says(result());
        assert_eq!(run.until_signalled(), ended_s, "{call:?}");
    }
}

// S3-02, S3-05, G12: a request that nobody ever answers holds it no longer than any run lasts.
#[test]
fn an_open_request_holds_no_longer_than_the_run_may_take() {
    let mut run = Watched::at_eof();
    run.says(StreamFact::ControlOpened { request: 1, call: None });
    assert_eq!(run.until_signalled(), 10_800);
    assert_eq!(run.records()[0].0, ExitReason::Invocation);
}

// S3-10, S3-11, S3-13, S3-20: the second tier, in a run that never reached the first.
#[test]
fn a_result_with_nothing_to_wait_for_ends_660_seconds_later() {
    let mut run = Watched::with_result();
    run.until(659);
    assert!(run.is_untouched());
    assert_eq!(run.noted("post_result_limbo_detected"), []);
    assert_eq!(run.state(), RunState::IdlePostResult);
    run.until(660);
    assert_eq!(run.signals(), [(660, Signal::Term)]);
    assert_eq!(run.noted("post_result_limbo_detected"), [(660, true)]);
    assert!(run.noted("reader_done_but_alive").is_empty(), "the first tier never ran");
    assert_eq!(run.records(), [(ExitReason::PostResultLimbo, Some("s1".into()))]);
    assert_eq!(run.states()[3..], ["limbo", "sigterm_sent"]);
}

// S3-13: a decision that was withdrawn and made again is warned about once.
#[test]
fn limbo_is_warned_about_once() {
    let mut run = Watched::with_result();
    run.disk = Disk::Refuses;
    run.until(900);
    assert!(run.signals().is_empty());
    assert_eq!(run.noted("post_result_limbo_detected"), [(660, true)]);
    run.disk = Disk::Takes;
    run.until(910);
    assert_eq!(run.noted("post_result_limbo_detected").len(), 1);
    assert_eq!(run.signals().len(), 2);
}

// S3-11: whatever is said behind the result puts the second tier off.
#[test]
fn a_word_behind_the_result_restarts_the_660_seconds() {
    let mut run = Watched::with_result();
    run.until(600);
    run.take(RunEvent::Output);
    assert_eq!(run.until_signalled(), 1_260);
}

// S3-12, S3-02: the wake-up, what a result gets behind it, and its cap.
#[test]
fn a_scheduled_wake_up_is_waited_for() {
    for (after_s, ended_s) in [(120, 780), (1_000, 1_660), (3_600, 4_260), (100_000, 4_260)] {
        let mut run = Watched::new();
        run.says(init());
        run.says(StreamFact::Wakeup { after_ms: after_s * 1_000 });
        run.says(result());
        run.until(700.min(ended_s - 1));
        assert!(run.is_untouched());
        assert_eq!(run.hold().unwrap().0, "scheduled_wakeup");
        assert_eq!(run.until_signalled(), ended_s);
    }
    let mut run = Watched::with_result();
    run.says(StreamFact::Wakeup { after_ms: 100_000_000 });
    run.take(RunEvent::Eof);
    assert_eq!(run.until_signalled(), 600 + 3_600, "no longer than its cap behind the tier");
}

// S3-12: one that came is none any more.
#[test]
fn a_wake_up_that_came_is_waited_for_no_more() {
    let mut run = Watched::new();
    run.says(StreamFact::Wakeup { after_ms: 3_000_000 });
    run.says(result());
    run.pass(100);
    run.says(init());
    run.says(result());
    assert_eq!(run.until_signalled(), 760);
}

// S3-14: 30 s into the countdown, a warning with nothing pending and a line where work is evident.
#[test]
fn a_run_that_is_alive_30_seconds_into_the_countdown_is_told_of() {
    type Pending = fn(&mut Watched);
    let pending: [(&str, Pending); 6] = [
        ("a request", |run| run.says(StreamFact::ControlOpened { request: 1, call: None })),
        ("a wake-up", |run| run.says(StreamFact::Wakeup { after_ms: 600_000 })),
        ("a background shell", |run| run.says(a_shell())),
        ("a background subagent", |run| {
            run.says(StreamFact::Tasks(RunTasks { subagents: 1, ..RunTasks::default() }));
        }),
        ("a tool in its tree", |run| run.tools_in_tree(1)),
        ("a busy tree", |run| run.cpu_permille = 900),
    ];
    for (what, make) in pending {
        let mut run = Watched::with_result();
        run.until(31);
        make(&mut run);
        run.pass(40);
        run.take(RunEvent::Eof);
        run.pass(29);
        assert!(run.noted("runner.limbo_detected").is_empty());
        run.pass(400);
        assert_eq!(run.noted("runner.limbo_detected"), [(101, false)], "{what}");
        assert!(!run.states().contains(&"limbo".to_owned()), "{what}");
    }
    let mut run = Watched::at_eof();
    run.pass(29);
    assert!(run.noted("runner.limbo_detected").is_empty());
    run.pass(400);
    assert_eq!(run.noted("runner.limbo_detected"), [(30, true)]);
    assert_eq!(run.state(), RunState::Limbo);
}

// S3-21, S3-10: the one table, behind both tiers.
#[test]
fn live_work_extends_the_wait_as_one_table_says() {
    type Tree = fn(&mut Watched);
    let rows: [(&str, Tree, u64); 3] = [
        ("background_work_busy", |run| run.cpu_permille = 900, 1_800),
        ("background_work_unknown", Watched::hide_cpu, 600),
        ("background_work_quiet", |_| (), 60),
    ];
    for is_eof in [true, false] {
        let base = if is_eof { 600 } else { 660 };
        for (reason, make, longer_s) in rows {
            let mut run = Watched::new();
            run.says(init());
            run.says(a_shell());
            run.says(result());
            if is_eof {
                run.take(RunEvent::Eof);
            }
            make(&mut run);
            run.until(base - 1);
            assert!(run.is_untouched(), "{reason}");
            run.until(base + longer_s - 1);
            assert!(run.is_untouched(), "{reason}");
            assert_eq!(run.hold(), Some((reason.into(), 1)));
            run.pass(1);
            assert_eq!(run.signals().len(), 1, "{reason}");
        }
    }
}

// S3-21: work that falls quiet is waited for a minute more, work that can be told no longer ten
// minutes, and neither to beyond its cap.
#[test]
fn work_that_falls_quiet_or_can_no_longer_be_told_gets_its_time_from_then_on() {
    type Change = fn(&mut Watched);
    let quiet: Change = |run| run.cpu_permille = 0;
    let cases = [
        (quiet, 1_000, 1_080),
        (quiet, 2_390, 2_400),
        (Watched::hide_cpu, 1_000, 1_630),
        (Watched::hide_cpu, 2_000, 2_400),
    ];
    for (change, changed_s, ended_s) in cases {
        let mut run = Watched::at_eof();
        run.says(a_shell());
        run.cpu_permille = 900;
        run.until(changed_s);
        change(&mut run);
        let ended = run.until_signalled();
        assert!((ended_s - 30..=ended_s).contains(&ended), "{ended}");
    }
}

// S3-21: each kind of background work is live work, and so is a tool that only the tree shows.
#[test]
fn every_kind_of_background_work_is_live_work() {
    let tasks = [
        RunTasks { subagents: 1, ..RunTasks::default() },
        RunTasks { shells: 1, ..RunTasks::default() },
        RunTasks { others: 1, ..RunTasks::default() },
    ];
    for tasks in tasks {
        let mut run = Watched::with_result();
        run.says(StreamFact::Tasks(tasks));
        run.hide_cpu();
        assert_eq!(run.until_signalled(), 1_260, "{tasks:?}");
        let mut run = Watched::with_result();
        run.says(StreamFact::Tasks(tasks));
        run.hide_cpu();
        run.pass(100);
        run.says(StreamFact::Tasks(RunTasks::default()));
        assert_eq!(run.until_signalled(), 760, "none is listed any more");
    }
    let mut run = Watched::at_eof();
    run.tools_in_tree(2);
    run.hide_cpu();
    assert_eq!(run.until_signalled(), 1_200);
}

// S3-21: servers of MCP live as long as the client and do not make it work.
#[test]
fn servers_of_mcp_alone_are_no_work() {
    let mut run = Watched::with_result();
    run.tree.members = 5;
    run.hide_cpu();
    assert_eq!(run.until_signalled(), 660);
}

// S3-21: one process after another is work, however little processor time each of them takes.
#[test]
fn a_tree_in_which_processes_come_and_go_is_busy() {
    let mut run = Watched::at_eof();
    run.tools_in_tree(1);
    for _ in 0..200 {
        run.tree.who += 1;
        run.pass(20);
        if !run.is_untouched() {
            break;
        }
    }
    assert_eq!(run.seconds(), 2_400, "to the cap and no longer");
}

// S3-21: a client that waits is never quite still; a tool that is, is.
#[test]
fn the_clients_own_processor_time_has_a_limit_of_its_own() {
    for (permille, client_permille, ended_s) in
        [(0, 30, 1_320), (0, 99, 1_320), (0, 100, 3_060), (19, 30, 1_320), (20, 30, 3_060)]
    {
        let mut run = Watched::with_result();
        run.says(a_shell());
        run.cpu_permille = permille;
        run.client_permille = client_permille;
        run.pass(600);
        run.take(RunEvent::Output);
        assert_eq!(run.until_signalled(), ended_s, "{permille} and {client_permille}");
    }
}

// S3-22
#[test]
fn a_run_without_a_first_result_is_ended_after_3600_seconds() {
    let mut run = Watched::new();
    run.until(3_599);
    assert!(run.is_untouched());
    run.until(3_600);
    assert_eq!(run.records(), [(ExitReason::FirstResult, None)]);
    assert_eq!(run.signals(), [(3_600, Signal::Term)]);
    let mut run = Watched::new();
    run.pass(2_000);
    run.says(StreamFact::Said);
    assert_eq!(run.until_signalled(), 5_600, "silence is what ends it");
}

// S3-22: off while something is pending.
#[test]
fn a_tool_or_a_request_explains_its_silence() {
    let opened = StreamFact::ControlOpened { request: 7, call: None };
    for (began, over) in [
        (StreamFact::ToolBegan { call: 7 }, StreamFact::ToolEnded { call: 7 }),
        (opened, StreamFact::ControlClosed { request: 7 }),
    ] {
        let mut run = Watched::new();
        run.says(init());
        run.says(began);
        run.pass(9_000);
        assert!(run.is_untouched(), "{over:?}");
        run.says(over);
        assert_eq!(run.until_signalled(), 10_800);
        assert_eq!(run.records()[0].0, ExitReason::Invocation);
    }
    let mut run = Watched::new();
    run.says(init());
    run.says(StreamFact::Wakeup { after_ms: 60_000 });
    run.says(StreamFact::ToolBegan { call: 7 });
    run.until(10_799);
    assert!(run.is_untouched(), "a wake-up that never came changes nothing");
    let mut run = Watched::new();
    run.tools_in_tree(1);
    run.until(10_799);
    assert!(run.is_untouched(), "one without a stream shows its tools in its tree only");
}

// S2-03, S2-05, H-09: before a result the client's own tries may take 360 s.
#[test]
fn a_named_error_before_a_result_is_confirmed_by_360_seconds_of_silence() {
    for text in ErrorText::ALL {
        let mut run = Watched::new();
        run.says(init());
        run.pass(100);
        run.stderr_says(text);
        assert_eq!(run.noted("error_case_opened"), [(100, true)]);
        run.pass(359);
        assert!(run.is_untouched());
        run.pass(1);
        assert_eq!(run.records(), [(ExitReason::ErrorHang, None)]);
        assert_eq!(run.until_signalled(), 465);
        assert_eq!(run.signals(), [(460, Signal::Term), (465, Signal::Kill)]);
    }
}

// S2-05, H-09: behind a result, one with an error included, 20 s.
#[test]
fn a_named_error_behind_a_result_is_confirmed_by_20_seconds() {
    let failed = StreamFact::Result(coord_core::ResultSeen {
        is_error: true,
        ..coord_core::ResultSeen::default()
    });
    for result in [result(), failed] {
        let mut run = Watched::new();
        run.says(init());
        run.pass(70);
        run.stderr_says(ErrorText::ConnectionReset);
        run.says(result);
        run.pass(19);
        assert!(run.is_untouched());
        run.pass(1);
        assert_eq!(run.records(), [(ExitReason::ErrorHang, Some("s1".into()))]);
    }
}

// H-09, R-12: each try of the client begins the time anew.
#[test]
fn an_api_retry_restarts_the_confirming_time() {
    let mut run = Watched::new();
    run.says(init());
    run.stderr_says(ErrorText::TimedOut);
    for _ in 0..5 {
        run.pass(300);
        run.says(StreamFact::Retry { error: Some("overloaded".into()) });
    }
    assert_eq!(run.until_signalled(), 1_860);
    let mut run = Watched::with_result();
    run.stderr_says(ErrorText::TimedOut);
    run.pass(10);
    run.says(StreamFact::Retry { error: None });
    assert_eq!(run.until_signalled(), 370, "a try behind a result is a turn without one");
}

// S2-05: what speaks does not hang, whatever it said before.
#[test]
fn a_named_error_is_closed_by_what_goes_on() {
    for fact in [init(), StreamFact::Said, StreamFact::ToolBegan { call: 1 }] {
        let mut run = Watched::new();
        run.says(init());
        run.stderr_says(ErrorText::NoMessages);
        run.pass(2);
        run.says(fact.clone());
        run.says(StreamFact::ToolEnded { call: 1 });
        assert_eq!(run.until_signalled(), 3_602);
        // What comes within the same second may have been said before it: two streams have no order.
        let mut run = Watched::new();
        run.says(init());
        run.stderr_says(ErrorText::NoMessages);
        run.says(fact);
        run.says(StreamFact::ToolEnded { call: 1 });
        assert_eq!(run.until_signalled(), 360);
    }
}

// S2-05: the tree has to be idle, and a tool of the stream explains silence whatever the tree does.
#[test]
fn a_named_error_ends_nothing_that_works() {
    let mut run = Watched::new();
    run.says(init());
    run.stderr_says(ErrorText::TimedOut);
    run.cpu_permille = 500;
    run.pass(1_000);
    assert!(run.is_untouched(), "its tree is busy");
    assert_eq!(run.hold().unwrap().0, "background_work_busy");
    assert_eq!(run.until_signalled(), 360 + 1_800, "and not for ever");
    let mut run = Watched::new();
    run.says(init());
    run.says(StreamFact::ToolBegan { call: 1 });
    run.stderr_says(ErrorText::TimedOut);
    run.pass(10_000);
    assert!(run.is_untouched(), "a tool runs");
}

// S2-05: a tree of which nothing can be read is not proven idle.
#[test]
fn a_named_error_is_not_confirmed_by_a_tree_that_cannot_be_read() {
    let mut run = Watched::new();
    run.says(init());
    run.stderr_says(ErrorText::TimedOut);
    run.hide_cpu();
    run.pass(959);
    assert!(run.is_untouched());
    run.pass(1);
    assert_eq!(run.records(), [(ExitReason::ErrorHang, None)]);
}

// S2-05: `confirm = "0s"` ends it at once, without any other proof.
#[test]
fn no_time_to_confirm_means_at_once() {
    let limits = RunLimits { confirm_ms: 0, confirm_before_result_ms: 0, ..RunLimits::default() };
    let mut run = Watched::with(limits);
    run.take(RunEvent::Output);
    run.pass(10);
    run.stderr_says(ErrorText::NoMessages);
    assert_eq!(run.signals(), [(10, Signal::Term)]);
}

// S2-20
#[test]
fn no_run_lasts_longer_than_10800_seconds() {
    let mut run = Watched::new();
    run.cpu_permille = 900;
    run.says(init());
    for turn in 0..1_080 {
        run.says(StreamFact::ToolBegan { call: turn });
        run.pass(5);
        run.says(StreamFact::ToolEnded { call: turn });
        run.says(StreamFact::Said);
        assert!(run.is_untouched());
        run.pass(5);
    }
    assert_eq!(run.signals(), [(10_800, Signal::Term)]);
    assert_eq!(run.records(), [(ExitReason::Invocation, None)]);
}

// S1-19, S2-20: what it waited for its quota is added.
#[test]
fn time_spent_waiting_for_quota_does_not_count() {
    let mut run = Watched::new();
    let limited = || StreamFact::Retry { error: Some("rate_limit".into()) };
    run.says(init());
    run.says(limited());
    for _ in 0..20 {
        run.pass(100);
        run.says(limited());
    }
    run.says(StreamFact::Said);
    for _ in 0..107 {
        run.pass(100);
        run.says(StreamFact::Said);
    }
    run.pass(99);
    assert!(run.is_untouched());
    assert_eq!(run.until_signalled(), 12_800);
    let mut run = Watched::new();
    for _ in 0..110 {
        run.says(StreamFact::Retry { error: Some("overloaded".into()) });
        run.pass(100);
    }
    assert_eq!(run.signals()[0].0, 10_800, "other tries do count");
}

// S3-02, G12: of two waits the one that is over first is shown: then something is decided.
#[test]
fn the_hold_that_is_shown_is_the_first_to_end() {
    let mut run = Watched::with_result();
    run.pass(100);
    run.stderr_says(ErrorText::TimedOut);
    run.take(RunEvent::Eof);
    run.says(StreamFact::Wakeup { after_ms: 3_600_000 });
    let mut last = u64::MAX;
    while run.is_untouched() {
        run.pass(30);
        let rest = run.hold().map_or(0, |(_, rest)| rest);
        assert!(rest < last);
        last = rest;
    }
    assert_eq!(run.records()[0].0, ExitReason::ErrorHang);
}

// S3-02, G12: whatever holds it has a reason, a start, and an end that comes nearer.
#[test]
fn every_hold_has_a_rest_that_grows_less() {
    type Make = fn(&mut Watched);
    let holds: [(&str, Make); 4] = [
        ("pending_request", |run| run.says(StreamFact::ControlOpened { request: 1, call: None })),
        ("scheduled_wakeup", |run| run.says(StreamFact::Wakeup { after_ms: 3_600_000 })),
        ("background_work_busy", |run| run.cpu_permille = 900),
        ("background_work_unknown", |run| {
            run.tools_in_tree(1);
            run.hide_cpu();
        }),
    ];
    for (reason, make) in holds {
        let mut run = Watched::at_eof();
        make(&mut run);
        run.until(601);
        let (held_by, mut rest) = run.hold().unwrap();
        assert_eq!(held_by, reason);
        let since = run.run.hold().unwrap().since;
        while run.is_untouched() {
            run.pass(7);
            let Some((now_by, now)) = run.hold() else { break };
            assert_eq!((now_by, run.run.hold().unwrap().since), (reason.to_owned(), since));
            assert!(now < rest, "{reason}");
            rest = now;
        }
        assert!(rest <= 7, "{reason} ended with {rest} s left");
    }
}

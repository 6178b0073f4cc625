//! How a forced end is made, withdrawn and put off, and every way out of a run (S3-06 to S3-09, S3-23).

use coord_core::{ErrorText, ExitReason, ExitStatus, RunAct, RunEvent, RunState, StreamFact};
use coord_model::Signal;

use super::watched::{Disk, Watched, a_shell, init, result};

fn forwarded() -> Watched {
    let mut run = Watched::new();
    run.take(RunEvent::Forwarded { signal: 15 });
    assert_eq!(run.noted("signal_forwarded"), [(0, false)]);
    run
}

// S3-08
#[test]
fn every_exit_reason_can_be_reached_and_has_its_own_word() {
    type Life = fn() -> Watched;
    let ended = |mut run: Watched| {
        run.until_signalled();
        run.exits(143);
        run
    };
    let lives: [(ExitReason, Life); 11] = [
        (ExitReason::Exited, Watched::new),
        (ExitReason::ExitedAfterResult, Watched::with_result),
        (ExitReason::ExitedDuringSubcountdown, || {
            let mut run = Watched::at_eof();
            run.pass(200);
            run
        }),
        (ExitReason::ForwardedSignal, forwarded),
        (ExitReason::KilledBySignal, || {
            let mut run = Watched::new();
            run.take(RunEvent::Exited(ExitStatus::Signal(9)));
            run
        }),
        (ExitReason::ReaderDoneButAlive, Watched::at_eof),
        (ExitReason::PostResultLimbo, Watched::with_result),
        (ExitReason::FirstResult, Watched::new),
        (ExitReason::ErrorHang, || {
            let mut run = Watched::new();
            run.stderr_says(ErrorText::NoMessages);
            run
        }),
        (ExitReason::Invocation, || {
            let mut run = Watched::new();
            run.says(StreamFact::ToolBegan { call: 1 });
            run
        }),
        (ExitReason::Unkillable, || {
            let mut run = Watched::at_eof();
            run.pass(1_000);
            run
        }),
    ];
    let words: std::collections::BTreeSet<_> =
        ExitReason::ALL.into_iter().map(ExitReason::word).collect();
    assert_eq!(words.len(), ExitReason::ALL.len());
    // One that cannot be started has no life.
    let reasons = ExitReason::ALL.into_iter().filter(|one| *one != ExitReason::NotStarted);
    assert!(reasons.eq(lives.iter().map(|(reason, _)| *reason)), "one life for each");
    for (reason, life) in lives {
        let run = match reason {
            ExitReason::ReaderDoneButAlive
            | ExitReason::PostResultLimbo
            | ExitReason::FirstResult
            | ExitReason::ErrorHang
            | ExitReason::Invocation => ended(life()),
            ExitReason::Exited
            | ExitReason::ExitedAfterResult
            | ExitReason::ExitedDuringSubcountdown
            | ExitReason::ForwardedSignal
            | ExitReason::KilledBySignal
            | ExitReason::Unkillable
            | ExitReason::NotStarted => {
                let mut run = life();
                run.exits(0);
                run
            }
        };
        assert_eq!(run.exit_reason(), Some(reason));
        assert_eq!(run.states().last().unwrap(), "exited");
        assert_eq!(run.noted("watchdog.exit").len(), 1);
        assert!(run.hold().is_none());
    }
}

// S3-23: the record first, with the conversation where it gave a result; only then the signal.
#[test]
fn a_forced_end_is_recorded_before_its_signal() {
    let mut run = Watched::with_result();
    run.disk = Disk::Hangs;
    run.until(800);
    assert_eq!(run.records(), [(ExitReason::PostResultLimbo, Some("s1".into()))]);
    assert!(run.signals().is_empty(), "not before it is on the disk");
    assert_eq!(run.state(), RunState::Limbo);
    run.take(RunEvent::Recorded);
    assert_eq!(run.signals(), [(800, Signal::Term)]);
    run.take(RunEvent::Recorded);
    assert_eq!(run.signals().len(), 1, "an answer told twice");
    run.pass(5);
    assert_eq!(run.signals().last(), Some(&(805, Signal::Kill)));
    let mut run = Watched::new();
    run.says(init());
    run.until_signalled();
    assert_eq!(run.records(), [(ExitReason::FirstResult, None)], "no result, no quarantine");
}

// S3-23: what cannot be written down is not done, and is tried again.
#[test]
fn a_forced_end_that_cannot_be_recorded_is_not_made() {
    let mut run = Watched::at_eof();
    run.disk = Disk::Refuses;
    run.until(1_000);
    assert!(run.signals().is_empty());
    assert_eq!(run.noted("end_not_recorded").first(), Some(&(600, true)));
    assert_eq!(run.records().len(), 81, "each five seconds");
    run.disk = Disk::Takes;
    assert_eq!(run.until_signalled(), 1_005);
    let mut run = Watched::at_eof();
    run.disk = Disk::Refuses;
    run.until(700);
    run.exits(0);
    assert_eq!(run.exit_reason(), Some(ExitReason::ExitedDuringSubcountdown), "nobody ended it");
}

// S3-23, S3-21: by the time the disk takes it again it may be at work.
#[test]
fn a_decision_that_was_not_recorded_is_made_anew() {
    let mut run = Watched::with_result();
    run.disk = Disk::Refuses;
    run.until(700);
    run.disk = Disk::Takes;
    run.says(init());
    run.says(result());
    assert_eq!(run.until_signalled(), 1_360);
}

// G4: it spoke while its end was written down.
#[test]
fn an_end_is_withdrawn_if_the_run_speaks_meanwhile() {
    for event in [RunEvent::Output, RunEvent::Stream(StreamFact::Said), RunEvent::Stream(init())] {
        let mut run = Watched::with_result();
        run.disk = Disk::Hangs;
        run.until(661);
        run.take(event);
        run.take(RunEvent::Recorded);
        assert!(run.signals().is_empty());
        assert_eq!(run.noted("end_withdrawn"), [(661, true)]);
        run.disk = Disk::Takes;
        run.pass(650);
        assert!(run.signals().is_empty());
        run.exits(0);
        assert_eq!(run.exit_reason(), Some(ExitReason::ExitedAfterResult));
    }
}

// S2-20: the one end that speaking does not put off.
#[test]
fn the_time_limit_is_not_put_off_by_words() {
    let mut run = Watched::new();
    run.disk = Disk::Hangs;
    for _ in 0..109 {
        run.pass(100);
        run.says(StreamFact::Said);
    }
    run.take(RunEvent::Recorded);
    assert_eq!(run.signals(), [(10_900, Signal::Term)]);
}

// S3-07: one that ends within its grace is not killed.
#[test]
fn one_that_heeds_sigterm_is_not_killed() {
    let mut run = Watched::at_eof();
    run.until(603);
    run.exits(143);
    run.pass(1_000);
    assert_eq!(run.signals(), [(600, Signal::Term)]);
    assert_eq!(run.exit_reason(), Some(ExitReason::ReaderDoneButAlive));
}

// S3-15: what it says behind its SIGTERM changes nothing any more.
#[test]
fn a_word_behind_sigterm_does_not_bring_it_back() {
    let mut run = Watched::with_result();
    run.until(660);
    for fact in [init(), StreamFact::ToolBegan { call: 1 }, result()] {
        run.says(fact);
        assert_eq!(run.state(), RunState::SigtermSent);
    }
    run.pass(5);
    assert_eq!(run.state(), RunState::SigkillSent);
}

// S3-08: a process that outlives SIGKILL is given up, and named.
#[test]
fn one_that_outlives_sigkill_is_given_up() {
    let mut run = Watched::at_eof();
    run.until(664);
    assert_eq!(run.exit_reason(), None);
    run.until(665);
    assert_eq!(run.exit_reason(), Some(ExitReason::Unkillable));
    assert!(run.acts.iter().any(|(_, act)| *act == RunAct::GiveUp));
    assert_eq!(run.state(), RunState::Exited);
    assert_eq!(run.run.next_deadline(), None);
}

// H-32: behind a gap nothing is done for 30 s, and what was seen before it counts no more.
#[test]
fn nothing_is_done_for_30_seconds_behind_a_gap() {
    let mut run = Watched::at_eof();
    run.until(590);
    run.take(RunEvent::Gap);
    assert_eq!(run.noted("gap"), [(590, false)]);
    run.until(619);
    assert!(run.is_untouched());
    assert_eq!(run.hold(), Some(("settling".into(), 1)));
    run.until(620);
    assert_eq!(run.signals(), [(620, Signal::Term)]);
}

// H-32: a tree that was busy before a gap, or quiet, has to show it once more.
#[test]
fn what_was_seen_before_a_gap_is_seen_anew() {
    let mut run = Watched::with_result();
    run.tools_in_tree(1);
    run.until(659);
    run.take(RunEvent::Gap);
    run.cpu_permille = 900;
    run.until(800);
    assert!(run.is_untouched(), "its quiet before the gap ends nothing");
    assert_eq!(run.hold().unwrap().0, "background_work_busy");
}

// H-32: two looks on the two sides of a gap prove no quiet.
#[test]
fn a_tree_is_not_proven_quiet_across_a_gap() {
    let mut run = Watched::at_eof();
    run.says(a_shell());
    run.until(600);
    run.take(RunEvent::Gap);
    run.until(631);
    assert_eq!(run.hold().unwrap().0, "background_work_unknown");
    assert_eq!(run.until_signalled(), 690, "a minute from the first look behind it");
}

// H-32, G4: an end that was decided before a gap is decided again behind it.
#[test]
fn an_end_is_not_made_right_behind_a_gap() {
    let mut run = Watched::with_result();
    run.disk = Disk::Hangs;
    run.until(661);
    run.take(RunEvent::Gap);
    run.take(RunEvent::Recorded);
    assert!(run.signals().is_empty());
    assert_eq!(run.noted("end_withdrawn"), [(661, true)]);
    run.disk = Disk::Takes;
    assert_eq!(run.until_signalled(), 691);
    run.pass(2);
    run.take(RunEvent::Gap);
    run.pass(29);
    assert_eq!(run.signals().len(), 1, "it had no time to clean up");
    run.pass(1);
    assert_eq!(run.signals().last(), Some(&(723, Signal::Kill)));
}

// G9: what was decided is in its log with what was seen.
#[test]
fn a_forced_end_says_what_it_was_decided_on() {
    let mut run = Watched::with_result();
    run.until(660);
    let decided = run.notes().filter(|(_, note)| note.name == "end_decided");
    let because: Vec<_> = decided.map(|(_, note)| note.because.as_str()).collect();
    let expected = "post_result_limbo_timeout: silent for 660 s, no live work, process tree quiet";
    assert_eq!(because, [expected]);
}

// S2-05: a tool that began within that second, and was heard to end later, proves that it goes on.
#[test]
fn a_named_error_is_closed_by_a_later_end_of_a_tool_or_question() {
    let end = StreamFact::ToolEnded { call: 1 };
    for later in [end, StreamFact::ControlOpened { request: 5, call: Some(1) }] {
        let mut run = Watched::new();
        run.says(init());
        run.stderr_says(ErrorText::NoMessages);
        run.says(StreamFact::ToolBegan { call: 1 });
        run.pass(100);
        run.says(later);
        run.says(StreamFact::ToolEnded { call: 1 });
        run.says(result());
        run.pass(659);
        assert!(run.is_untouched());
    }
}

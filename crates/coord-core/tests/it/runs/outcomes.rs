//! What a run came to, from its fields, in the order of S2-18.

use coord_core::{
    Complaint, Ended, ErrorText, ExitReason, ExitStatus, Provider, ResultSeen, Run, RunEvent,
    RunLimits, RunOutcome, StreamFact, judge,
};
use coord_model::{Awake, Moment};

use ExitStatus::{Code, Signal};
use RunOutcome::{
    Authentication, Billing, Cancelled, Crash, Done, Exhausted, NoResult, PoisonedResume, Usage,
};

/// A run that said this.
fn run(facts: &[StreamFact]) -> Run {
    let (mut run, _) = Run::begin(RunLimits::default(), Moment::default());
    for (ms, fact) in (1..).zip(facts) {
        let now = Moment { awake: Awake::default().plus_ms(ms), wall_ms: ms };
        run.step(&RunEvent::Stream(fact.clone()), now);
    }
    run
}

fn ended(status: ExitStatus) -> Ended {
    Ended {
        exit: (status, ExitReason::Exited),
        provider: Provider::Claude,
        is_resume: false,
        stdout_bytes: 100,
        complaint: None,
        is_limit_line: false,
    }
}

fn silent(status: ExitStatus) -> Ended {
    Ended { stdout_bytes: 0, ..ended(status) }
}

fn init() -> StreamFact {
    StreamFact::Init { session_id: "s1".into() }
}

fn failed(error: &str) -> StreamFact {
    StreamFact::Failed { error: error.into() }
}

/// A result line: `is_error`, `subtype`, `terminal_reason`, `api_error_status`.
fn line(is_error: bool, subtype: &str, reason: &str, status: Option<u16>) -> StreamFact {
    StreamFact::Result(ResultSeen {
        is_error,
        subtype: subtype.into(),
        terminal_reason: reason.into(),
        api_error_status: status,
        turns: 1,
        ..ResultSeen::default()
    })
}

fn completed() -> StreamFact {
    line(false, "success", "completed", None)
}

fn api_error(status: u16) -> StreamFact {
    line(true, "success", "api_error", Some(status))
}

#[track_caller]
fn outcome(facts: &[StreamFact], ended: &Ended) -> RunOutcome {
    let judged = judge(&run(facts), ended);
    assert!(!judged.because.is_empty());
    judged.outcome
}

// R-14, S2-01, S2-15: the lines that the client really printed, with the code it ended with.
#[test]
fn the_clients_own_results_are_judged_by_their_fields() {
    let rows: [(&str, &[StreamFact], i32, RunOutcome); 15] = [
        ("success", &[init(), completed()], 0, Done),
        ("400", &[init(), failed("unknown"), api_error(400)], 1, Crash),
        ("401", &[init(), failed("authentication_failed"), api_error(401)], 1, Authentication),
        ("429", &[init(), failed("rate_limit"), api_error(429)], 1, Exhausted),
        ("500", &[init(), failed("server_error"), api_error(500)], 1, Crash),
        ("529", &[init(), failed("server_error"), api_error(529)], 1, Crash),
        ("credit", &[init(), failed("billing_error"), api_error(400)], 1, Billing),
        ("hook", &[init(), line(false, "success", "hook_stopped", None)], 0, Done),
        (
            "length",
            &[init(), failed("max_output_tokens"), line(true, "success", "api_error", None)],
            1,
            Crash,
        ),
        ("turns", &[init(), line(true, "error_max_turns", "max_turns", None)], 1, Done),
        (
            "prompt too long",
            &[
                init(),
                failed("invalid_request"),
                line(true, "success", "prompt_too_long", Some(400)),
            ],
            1,
            Crash,
        ),
        (
            "interrupt",
            &[init(), line(true, "error_during_execution", "aborted_tools", None)],
            0,
            Cancelled,
        ),
        (
            "interrupt in the stream",
            &[init(), line(true, "error_during_execution", "aborted_streaming", None)],
            1,
            Cancelled,
        ),
        ("two results", &[init(), completed(), init(), completed()], 0, Done),
        ("its second is an error", &[init(), completed(), init(), api_error(500)], 1, Crash),
    ];
    for (name, facts, code, expected) in rows {
        assert_eq!(outcome(facts, &ended(Code(code))), expected, "{name}");
    }
}

// S2-01: wrong arguments, which only a run that never began has.
#[test]
fn wrong_arguments_are_told_from_a_crash() {
    let complained = Ended { complaint: Some(Complaint::Arguments), ..silent(Code(1)) };
    assert_eq!(outcome(&[], &complained), Usage);
    assert_eq!(outcome(&[], &silent(Code(1))), Crash, "it says nothing of arguments");
    assert_eq!(outcome(&[init()], &complained), Crash, "it took its arguments");
    let answered = Ended { stdout_bytes: 200, ..complained.clone() };
    let unknown = line(true, "error_during_execution", "", None);
    assert_eq!(outcome(&[unknown], &answered), Usage, "a resume of no id is answered by a result");
    let spoke = Ended { provider: Provider::Other, ..ended(Code(2)) };
    assert_eq!(outcome(&[], &spoke), Crash, "it spoke");
    let not_started = Ended { exit: (Code(127), ExitReason::NotStarted), ..silent(Code(127)) };
    assert_eq!(outcome(&[], &not_started), Usage);
    for (code, claude, other) in
        [(2, Crash, Usage), (64, Crash, Usage), (126, Usage, Usage), (127, Usage, Usage)]
    {
        assert_eq!(outcome(&[], &silent(Code(code))), claude, "{code}");
        let ended = Ended { provider: Provider::Other, ..silent(Code(code)) };
        assert_eq!(outcome(&[], &ended), other, "{code}");
    }
}

// S2-18: whoever has several reasons gets the first of the order.
#[test]
fn the_order_of_judgement_is_kept() {
    // Each has what all rows below it have, too.
    let everything =
        [init(), failed("rate_limit"), line(true, "success", "aborted_tools", Some(401))];
    let resumed = |status| Ended {
        is_resume: true,
        complaint: Some(Complaint::NoConversation),
        ..ended(status)
    };
    let usage =
        Ended { complaint: Some(Complaint::Arguments), is_resume: true, ..silent(Code(127)) };
    assert_eq!(outcome(&[], &usage), Usage, "before everything");
    assert_eq!(outcome(&everything, &resumed(Code(130))), Exhausted, "the limit before a login");
    let login = [init(), line(true, "success", "aborted_tools", Some(401))];
    assert_eq!(outcome(&login, &resumed(Code(130))), Authentication, "a login before a cancel");
    let cancel = [init(), line(true, "success", "aborted_tools", Some(400))];
    assert_eq!(outcome(&cancel, &resumed(Code(130))), Cancelled, "a cancel before a resume");
    let resume = [init(), line(true, "success", "api_error", Some(400))];
    assert_eq!(outcome(&resume, &resumed(Code(1))), PoisonedResume, "a resume before a result");
    assert_eq!(outcome(&resume, &ended(Code(1))), Crash);
    assert_eq!(outcome(&[init(), completed()], &ended(Code(1))), Done, "a result before a crash");
}

// S2-15, S2-18: a used-up limit is no crash, and says when it ends.
#[test]
fn a_used_up_limit_is_found_and_its_end_is_kept() {
    let resets_ms = Some(1_800_000_123_000);
    let rejected = StreamFact::RateLimit { is_rejected: true, resets_ms };
    let allowed = StreamFact::RateLimit { is_rejected: false, resets_ms };
    let limited = [init(), rejected.clone(), failed("rate_limit"), api_error(429)];
    let judged = judge(&run(&limited), &ended(Code(1)));
    assert_eq!((judged.outcome, judged.resets_ms), (Exhausted, resets_ms));
    let judged = judge(&run(&[init(), rejected.clone()]), &ended(Code(1)));
    assert_eq!((judged.outcome, judged.resets_ms), (Exhausted, resets_ms), "without a result");
    let judged = judge(&run(&[init(), rejected.clone(), allowed.clone()]), &ended(Code(1)));
    assert_eq!((judged.outcome, judged.resets_ms), (Crash, None), "it is allowed again");
    let judged = judge(&run(&[init(), rejected, completed()]), &ended(Code(0)));
    assert_eq!((judged.outcome, judged.resets_ms), (Done, None), "it did its turn");
    let judged = judge(&run(&[init(), allowed, api_error(500)]), &ended(Code(1)));
    assert_eq!((judged.outcome, judged.resets_ms), (Crash, None));
    let configured = Ended { complaint: Some(Complaint::Limit), ..ended(Code(3)) };
    assert_eq!(outcome(&[], &configured), Exhausted, "the text that its agent's settings name");
    let configured = Ended { complaint: Some(Complaint::Limit), ..ended(Code(0)) };
    assert_eq!(outcome(&[], &configured), Done, "and it ended well");
}

// R-14, S2-15: in text mode one line is all that tells of a limit. Its agent can write it too, but not end the
// client with 1.
#[test]
fn a_limit_in_text_mode_is_told_by_the_line_and_the_end_together() {
    let limit = Ended { is_limit_line: true, ..ended(Code(1)) };
    let judged = judge(&run(&[]), &limit);
    assert_eq!((judged.outcome, judged.resets_ms), (Exhausted, None));
    for (why, other) in [
        ("its agent answered", Ended { exit: (Code(0), ExitReason::Exited), ..limit.clone() }),
        ("another code", Ended { exit: (Code(2), ExitReason::Exited), ..limit.clone() }),
        ("a signal", Ended { exit: (Signal(9), ExitReason::Exited), ..limit.clone() }),
        ("its user", Ended { exit: (Code(1), ExitReason::ForwardedSignal), ..limit.clone() }),
        ("coord", Ended { exit: (Code(1), ExitReason::Invocation), ..limit.clone() }),
        ("another client", Ended { provider: Provider::Other, ..limit.clone() }),
        ("another line", Ended { is_limit_line: false, ..limit.clone() }),
    ] {
        assert_ne!(outcome(&[], &other), Exhausted, "{why}");
    }
    assert_eq!(outcome(&[init()], &limit), Crash, "a stream has fields for it");
}

// S2-15: the typed errors and the codes of the API, each alone.
#[test]
fn errors_of_login_and_account_are_no_crashes() {
    for (name, expected) in [
        ("rate_limit", Exhausted),
        ("billing_error", Billing),
        ("authentication_failed", Authentication),
        ("oauth_org_not_allowed", Authentication),
        ("server_error", Crash),
        ("max_output_tokens", Crash),
        ("a name of tomorrow", Crash),
    ] {
        let facts = [init(), failed(name)];
        assert_eq!(outcome(&facts, &ended(Code(1))), expected, "{name}");
        let facts = [init(), failed(name), StreamFact::Said];
        assert_eq!(outcome(&facts, &ended(Code(1))), expected, "{name}, and a line about it");
        let facts = [init(), failed(name), StreamFact::ToolBegan { call: 1 }];
        assert_eq!(outcome(&facts, &ended(Code(1))), Crash, "{name}, and it went on");
    }
    for (status, expected) in
        [(429, Exhausted), (402, Billing), (401, Authentication), (400, Crash), (500, Crash)]
    {
        assert_eq!(outcome(&[init(), api_error(status)], &ended(Code(1))), expected, "{status}");
    }
}

// S2-02, S2-13: exit 0.
#[test]
fn exit_0_is_judged_by_its_output() {
    assert_eq!(outcome(&[], &silent(Code(0))), NoResult, "nothing at all");
    assert_eq!(outcome(&[], &ended(Code(0))), Done, "text");
    assert_eq!(outcome(&[init(), StreamFact::Said], &ended(Code(0))), NoResult, "a cut stream");
    let (mut complained, _) = Run::begin(RunLimits::default(), Moment::default());
    complained.step(&RunEvent::ErrorText(ErrorText::ConnectionReset), Moment::default());
    assert_eq!(judge(&complained, &ended(Code(0))).outcome, Done, "whatever stderr said");
    assert_eq!(judge(&complained, &silent(Code(0))).outcome, NoResult);
}

// S2-14: a result of a kind that no version knew.
#[test]
fn an_unknown_status_is_no_crash() {
    let facts = [init(), line(false, "tomorrow", "something_new", None)];
    assert_eq!(outcome(&facts, &ended(Code(0))), Done);
    assert_eq!(outcome(&facts, &ended(Code(7))), Done);
}

// S2-01: everything else that is not 0.
#[test]
fn a_non_zero_exit_without_a_result_is_a_crash() {
    for status in [Code(1), Code(3), Code(137), Signal(9), Signal(11)] {
        assert_eq!(outcome(&[], &ended(status)), Crash, "{status:?}");
        assert_eq!(outcome(&[], &silent(status)), Crash, "{status:?}");
        assert_eq!(outcome(&[init(), StreamFact::Said], &ended(status)), Crash, "{status:?}");
    }
    assert_eq!(
        outcome(&[init(), completed(), init()], &ended(Signal(9))),
        Done,
        "its result stands"
    );
}

// its user's own cancel, with and without a result line (it gives one in some runs only).
#[test]
fn an_interrupt_is_a_cancel_and_no_success() {
    let forwarded = |status| Ended { exit: (status, ExitReason::ForwardedSignal), ..ended(status) };
    assert_eq!(outcome(&[init()], &forwarded(Code(0))), Cancelled, "SIGINT ends it with 0");
    assert_eq!(outcome(&[init()], &forwarded(Code(143))), Cancelled);
    assert_eq!(outcome(&[init()], &forwarded(Signal(15))), Cancelled);
    assert_eq!(outcome(&[init(), completed()], &forwarded(Code(0))), Done, "it was done by then");
    assert_eq!(outcome(&[init()], &ended(Code(130))), Cancelled);
    assert_eq!(outcome(&[init()], &ended(Signal(2))), Cancelled);
    assert_eq!(outcome(&[init()], &ended(Code(143))), Crash, "by nobody that is known");
    let aborted = line(true, "error_during_execution", "aborted_tools", None);
    assert_eq!(outcome(&[init(), aborted], &ended(Code(0))), Cancelled);
}

// S3-24: what coord ended is judged by its result, and is no crash without one.
#[test]
fn our_own_signals_are_no_crashes() {
    let ours = [
        ExitReason::ReaderDoneButAlive,
        ExitReason::PostResultLimbo,
        ExitReason::FirstResult,
        ExitReason::ErrorHang,
        ExitReason::Invocation,
        ExitReason::Unkillable,
    ];
    for reason in ours {
        for status in [Code(143), Signal(15), Signal(9), Code(1), Code(0)] {
            let ended = Ended { exit: (status, reason), ..ended(status) };
            assert_eq!(outcome(&[init()], &ended), NoResult, "{reason:?} {status:?}");
            assert_eq!(outcome(&[init(), completed()], &ended), Done, "{reason:?} {status:?}");
        }
    }
    for reason in ExitReason::ALL.into_iter().filter(|reason| !ours.contains(reason)) {
        if !matches!(reason, ExitReason::ForwardedSignal | ExitReason::NotStarted) {
            let ended = Ended { exit: (Signal(15), reason), ..ended(Signal(15)) };
            assert_eq!(outcome(&[init()], &ended), Crash, "{reason:?}");
        }
    }
}

// S3-23, S2-18: a conversation that cannot be gone on with.
#[test]
fn a_resume_that_cannot_be_is_told_from_a_crash() {
    let resumed = |reason, complaint| Ended {
        exit: (Code(1), reason),
        is_resume: true,
        complaint,
        ..ended(Code(1))
    };
    let lost = resumed(ExitReason::Exited, Some(Complaint::NoConversation));
    let unknown = line(true, "error_during_execution", "", None);
    assert_eq!(outcome(std::slice::from_ref(&unknown), &lost), PoisonedResume);
    assert_eq!(outcome(&[unknown], &Ended { is_resume: false, ..lost }), Crash);
    let plain = resumed(ExitReason::Exited, None);
    assert_eq!(outcome(&[init(), failed("invalid_request")], &plain), PoisonedResume);
    assert_eq!(outcome(&[init(), api_error(500)], &plain), Crash, "nobody's conversation");
    let never = resumed(ExitReason::FirstResult, None);
    assert_eq!(outcome(&[init()], &never), PoisonedResume);
    assert_eq!(outcome(&[init()], &Ended { is_resume: false, ..never.clone() }), NoResult);
    assert_eq!(outcome(&[init(), completed(), init()], &never), Done, "it answered once");
}

// no word of a result's text is a field, and each outcome has one word.
#[test]
fn outcomes_have_words_of_their_own() {
    let words: std::collections::BTreeSet<_> =
        RunOutcome::ALL.into_iter().map(RunOutcome::word).collect();
    assert_eq!(words.len(), RunOutcome::ALL.len());
}

//! What a session is told that came to rest where nobody watches (S1-07 to S1-11, S1-13 to S1-16, S1-23,
//! H-21, H-40).

use std::borrow::Cow;

use crate::crashes::{EMPTY, PID, at_rest, dead, intent_of, living, unattended};
use crate::quota::another_fails;
use crate::world::{PROMPT, STOP, World, blank, its, process};
use coord_core::Starter;
use coord_model::{
    Action, Command, Event, Failure, HookKind, Input, Intent, LastWords, MarkChange, Outcome,
    PaneSeen, PaneState, Proof, Question, RegistryStatus, RestLimits, Screen, SessionState,
    Settings, StartSource, Whom,
};

const DRAFT: PaneState =
    PaneState::Client { screen: Some(Screen::Prompt), input: Input::Draft, signature: None };

/// What is other in a proof.
type Change = fn(&mut Proof, PaneState);
/// What happens to a session first.
type Make = fn(&mut World);

/// A session that nobody watches, where answers are allowed.
fn answering() -> World {
    let mut world = unattended();
    allow(&mut world, RestLimits { answers: true, ..RestLimits::default() });
    world
}

fn allow(world: &mut World, rest: RestLimits) {
    world.configure(Settings { rest, ..Settings::default() });
    world.says("s1", PID, RegistryStatus::Idle);
}

fn mark(world: &mut World, marks: MarkChange) {
    let whom = Whom::Session(world.key());
    world.command(Command::Attend { whom, marks });
}

/// A turn that ends well, by whoever prompted it.
pub(crate) fn a_turn(world: &mut World) {
    world.hook("s1", PID, PROMPT);
    world.says("s1", PID, RegistryStatus::Busy);
    world.pass(2.0);
    world.hook("s1", PID, STOP);
    world.says("s1", PID, RegistryStatus::Idle);
    world.pass(1.0);
}

/// Its screen shows the same prompt for so many heartbeats. What was asked for meanwhile.
fn rests(world: &mut World, minutes: u32) -> Vec<Action> {
    for _ in 0..=minutes {
        let screen = PaneSeen { screen: Some(Screen::Prompt), digest: Some(1), ..blank() };
        world.seen_on_pane(PID, its(screen), false);
        world.pass(60.0);
    }
    world.actions()
}

fn looks(actions: &[Action]) -> Vec<Intent> {
    let of_words = |action: &&Action| matches!(action, Action::Prove { subject, .. } if subject.reads_last_words);
    actions.iter().filter(of_words).map(intent_of).collect()
}

/// The look of a session that came to rest.
#[track_caller]
fn asked(world: &mut World) -> Intent {
    let actions = rests(world, 4);
    match looks(&actions)[..] {
        [one] => one,
        _ => panic!("not one look: {actions:?}"),
    }
}

fn proof(world: &World, words: LastWords) -> Proof {
    let written_ms = words.written_ms.or(Some(world.now().wall_ms));
    Proof { last_words: Some(LastWords { written_ms, ..words }), ..living(world) }
}

fn asks(question: Question) -> LastWords {
    LastWords { question: Some(question), ..LastWords::default() }
}

/// The wakes that follow from this proof, and the rule that decided.
#[track_caller]
fn told(world: &mut World, proof: Proof) -> (Vec<(Intent, String)>, &'static str) {
    let intent = asked(world);
    world.take(&Event::Proved { session_id: String::new(), intent, proof: Box::new(proof) });
    let Some(Cow::Borrowed(rule)) = world.decisions.last().map(|last| last.rule.clone()) else {
        panic!("no decision");
    };
    let wakes = world.actions().into_iter().filter_map(|action| {
        if let Action::Wake { intent, text } = action { Some((intent, text)) } else { None }
    });
    (wakes.collect(), rule)
}

#[track_caller]
pub(crate) fn told_words(
    world: &mut World,
    words: LastWords,
) -> (Vec<(Intent, String)>, &'static str) {
    let proof = proof(world, words);
    told(world, proof)
}

// the transcript lags: a question that is older than the last turn was not asked in it.
#[test]
fn r_19_a_question_of_an_earlier_turn_is_not_answered() {
    for (age_ms, rule) in [(None, "R-19"), (Some(3_600_000), "R-19"), (Some(0), "S1-09")] {
        let mut world = answering();
        a_turn(&mut world);
        let intent = asked(&mut world);
        let prompted_ms = world.session("s1").rest.prompted_ms;
        let written_ms = age_ms.map(|age| prompted_ms - age);
        let words = LastWords { written_ms, ..asks(Question::Continue) };
        let proof = Proof { last_words: Some(words), ..living(&world) };
        world.take(&Event::Proved { session_id: String::new(), intent, proof: Box::new(proof) });
        assert_eq!(world.decisions.last().unwrap().rule, rule, "{age_ms:?}");
    }
}

// R-07, H-40: both clients write to one transcript. What the agent of the one asks is not answered in the other.
#[test]
fn r_07_a_question_in_another_client_is_not_answered() {
    let mut world = answering();
    a_turn(&mut world);
    let intent = asked(&mut world);
    let proof = proof(&world, asks(Question::Continue));
    another_fails(&mut world);
    world.take(&Event::Proved { session_id: String::new(), intent, proof: Box::new(proof) });
    assert_eq!(world.decisions.last().unwrap().rule, "R-07");
}

// what is not in the transcript yet is read again, and a client that never writes it is left alone in the end.
#[test]
fn r_19_a_transcript_that_is_behind_is_read_again() {
    let behind = |world: &World| Proof { last_words: Some(LastWords::default()), ..living(world) };
    let mut world = answering();
    a_turn(&mut world);
    let late = behind(&world);
    assert_eq!(told(&mut world, late), (vec![], "R-19"));
    let (wakes, rule) = told_words(&mut world, asks(Question::Continue));
    assert_eq!((wakes.len(), rule), (1, "S1-09"));

    let mut world = answering();
    a_turn(&mut world);
    for _ in 0..6 {
        let late = behind(&world);
        assert_eq!(told(&mut world, late), (vec![], "R-19"));
    }
    assert_eq!(looks(&rests(&mut world, 4)), []);
    a_turn(&mut world);
    asked(&mut world);
}

// S0-06: a crash outranks what else stands on the same screen; the words as content do not.
#[test]
fn s0_06_a_crash_signature_ends_the_reading_of_its_screen() {
    for (is_content, rule) in [(false, "S0-06"), (true, "S1-09")] {
        let mut world = answering();
        if is_content {
            world.signature();
            world.is_content(true);
        }
        a_turn(&mut world);
        let mut proof = proof(&world, asks(Question::Continue));
        let PaneState::Client { signature, .. } = &mut proof.pane else { panic!("{proof:?}") };
        *signature = Some("RangeError: Maximum call stack size exceeded".into());
        assert_eq!(told(&mut world, proof).1, rule, "content: {is_content}");
    }
}

// S1-09, H-40: once, and in a frame that gives no consent.
#[test]
fn a_prompt_to_continue_is_answered_once() {
    let mut world = answering();
    a_turn(&mut world);
    let (wakes, rule) = told_words(&mut world, asks(Question::Continue));
    let [(intent, text)] = &wakes[..] else { panic!("{wakes:?}") };
    assert_eq!(rule, "S1-09");
    assert!(text.contains("approves nothing") && text.contains("continue"), "{text}");
    world.acted(*intent, Outcome::Done);
    assert_eq!(looks(&rests(&mut world, 30)), [], "it is looked at once for each turn");
    assert_eq!(world.session("s1").rest.answers.used(), (1, 1));
}

// S1-09: off by default, and only where nobody watches.
#[test]
fn nothing_is_answered_by_default_or_where_somebody_watches() {
    let mut world = unattended();
    a_turn(&mut world);
    let (wakes, _) = told_words(&mut world, asks(Question::Continue));
    assert_eq!(wakes, []);
    let mut world = at_rest();
    allow(&mut world, RestLimits { answers: true, ..RestLimits::default() });
    a_turn(&mut world);
    assert_eq!(looks(&rests(&mut world, 10)), []);
}

// S1-10, S1-11, H-40: what reads as consent only where the operator named the session.
#[test]
fn questions_are_answered_only_where_the_operator_said_so() {
    for (question, rule, answer) in
        [(Question::YesNo, "S1-10", "is: y."), (Question::Proceed, "S1-11", "is: yes.")]
    {
        let mut world = answering();
        a_turn(&mut world);
        assert_eq!(told_words(&mut world, asks(question)), (vec![], "H-40"));
        mark(&mut world, MarkChange { answers: Some(true), ..MarkChange::default() });
        a_turn(&mut world);
        let (wakes, by) = told_words(&mut world, asks(question));
        assert_eq!((wakes.len(), by), (1, rule));
        assert!(wakes[0].1.contains(answer), "{}", wakes[0].1);
    }
}

// S1-13: words of a limit are judged before every other row.
#[test]
fn a_message_that_speaks_of_a_limit_is_not_answered() {
    let mut world = answering();
    mark(&mut world, MarkChange { answers: Some(true), ..MarkChange::default() });
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, asks(Question::Limit)), (vec![], "S1-13"));
}

// S1-13: words of a limit are no stall: nothing is counted until the next turn.
#[test]
fn a_message_that_speaks_of_a_limit_ends_the_count() {
    let mut world = answering();
    a_turn(&mut world);
    told_words(&mut world, asks(Question::Limit));
    assert_eq!(world.session("s1").stall, None);
    rests(&mut world, 5);
    assert_eq!(world.session("s1").stall, None, "while it waits");
    a_turn(&mut world);
    rests(&mut world, 5);
    assert!(world.session("s1").stall.is_some_and(|stall| 3 <= stall.count));
}

// S1-13, R-11: the hook of the error was lost; the transcript tells.
#[test]
fn an_error_that_no_hook_told_of_is_taken_from_the_transcript() {
    for (error, word) in [
        ("rate_limit", SessionState::QuotaWait),
        ("authentication_failed", SessionState::BlockedAuth),
        ("billing_error", SessionState::BlockedBilling),
    ] {
        let mut world = answering();
        a_turn(&mut world);
        let written_ms = world.now().wall_ms;
        let failure = Some(Failure { error: error.into(), written_ms, resets_ms: None });
        let words = LastWords { failure, ..LastWords::default() };
        let (wakes, rule) = told_words(&mut world, words);
        assert_eq!((wakes, rule), (vec![], "S1-13"));
        assert_eq!(world.state_of("s1"), word);
        assert_eq!(world.session("s1").quota.is_some(), word == SessionState::QuotaWait);
    }
}

// S1-14
#[test]
fn what_is_not_recognised_is_left_alone() {
    let mut world = answering();
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, LastWords::default()), (vec![], "S1-14"));
    assert_eq!(world.state_of("s1"), SessionState::Idle);
}

// S1-06: below three captures nothing is looked at.
#[test]
fn a_short_rest_is_not_looked_at() {
    let mut world = answering();
    a_turn(&mut world);
    assert_eq!(looks(&rests(&mut world, 2)), []);
}

// S1-07, S1-08, H-40, H-13, S1-15: each thing that is other than it should be forbids it.
#[test]
fn a_proof_that_is_not_clear_forbids_an_answer() {
    let open =
        |screen| PaneState::Client { screen: Some(screen), input: Input::Empty, signature: None };
    let changes: [(&str, Change, PaneState); 13] = [
        ("dead", |proof, _| proof.is_alive = false, EMPTY),
        ("another owner", |proof, _| proof.owners = vec![process(900)], EMPTY),
        ("a child in front", |proof, _| proof.children = vec![process(901)], EMPTY),
        ("registry not idle", |proof, _| proof.idle_since_ms = None, EMPTY),
        ("task stopped", |proof, _| proof.is_task_stopped = true, EMPTY),
        ("no words", |proof, _| proof.last_words = None, EMPTY),
        ("permission", |proof, pane| proof.pane = pane, open(Screen::Permission)),
        ("question", |proof, pane| proof.pane = pane, open(Screen::Question)),
        ("plan", |proof, pane| proof.pane = pane, open(Screen::Plan)),
        ("working", |proof, pane| proof.pane = pane, open(Screen::Working)),
        ("draft", |proof, pane| proof.pane = pane, DRAFT),
        ("something else in front", |proof, pane| proof.pane = pane, PaneState::Other),
        ("no pane", |proof, pane| proof.pane = pane, PaneState::None),
    ];
    for (name, change, pane) in changes {
        let mut world = answering();
        a_turn(&mut world);
        let mut proof = proof(&world, asks(Question::Continue));
        change(&mut proof, pane);
        let (wakes, rule) = told(&mut world, proof);
        assert_eq!(wakes, [], "{name}");
        assert!(matches!(rule, "S1-07" | "H-40"), "{name}: {rule}");
    }
}

// R-01, H-40: after an interrupt, in an open dialog, held, stopped or not ours nobody is told anything.
#[test]
fn what_is_not_plainly_at_rest_is_not_looked_at() {
    let cases: [(&str, Make); 4] = [
        ("interrupted", |world| {
            world.hook("s1", PID, PROMPT);
            world.says("s1", PID, RegistryStatus::Busy);
            world.pass(5.0);
            world.says("s1", PID, RegistryStatus::Idle);
            world.pass(5.0);
        }),
        ("held", |world| {
            let session = Some(world.key());
            world.command(Command::Hold { session, for_ms: None });
        }),
        ("not ours", |world| {
            world.take(&Event::ConfigDirLock {
                config_dir: "/home/dev/.claude".into(),
                held: false,
            });
        }),
        ("a dialog is open", |world| world.hook("s1", PID, HookKind::PermissionRequest)),
    ];
    for (name, make) in cases {
        let mut world = answering();
        a_turn(&mut world);
        make(&mut world);
        assert_eq!(looks(&rests(&mut world, 8)), [], "{name}");
    }
}

/// Answered, and the turn that the answer began ends with the same question.
fn answered(world: &mut World) {
    let (wakes, _) = told_words(world, asks(Question::Continue));
    let [(intent, _)] = &wakes[..] else { panic!("not answered: {:?}", world.decisions.last()) };
    world.acted(*intent, Outcome::Done);
    a_turn(world);
}

// S1-15, S1-17: three in an iteration; then a person is asked, and the turns that coord began itself do
// not begin another one.
#[test]
fn after_three_answers_a_person_is_asked() {
    let mut world = answering();
    a_turn(&mut world);
    (0..3).for_each(|_| answered(&mut world));
    assert_eq!(told_words(&mut world, asks(Question::Continue)), (vec![], "S1-15"));
    let flag = world.session("s1").recovery.needs_operator.clone().unwrap();
    assert_eq!(flag.reason, "answered 3 times in this iteration");
    a_turn(&mut world);
    assert_eq!(world.session("s1").recovery.needs_operator, None, "its user works in it again");
    answered(&mut world);
}

// S1-15, S1-16: ten in all, however many iterations; only a person begins that anew.
#[test]
fn after_ten_answers_in_all_a_person_is_asked() {
    let mut world = answering();
    for _ in 0..10 {
        a_turn(&mut world);
        answered(&mut world);
    }
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, asks(Question::Continue)), (vec![], "S1-15"));
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, asks(Question::Continue)), (vec![], "S1-15"));
    world.command(Command::ResetFailed { session: None });
    a_turn(&mut world);
    answered(&mut world);
}

// S1-15: an answer that reached nobody is no answer.
#[test]
fn what_reached_nobody_is_not_counted() {
    let mut world = answering();
    a_turn(&mut world);
    let (wakes, _) = told_words(&mut world, asks(Question::Continue));
    world.acted(wakes[0].0, Outcome::Failed { why: "no wake hook waits in it".into() });
    assert_eq!(world.session("s1").rest.answers.used(), (0, 0));
    assert_eq!(world.decisions.last().unwrap().rule, "H-02");
    assert_eq!(world.session("s1").starter, Starter::User);
}

// H-21: the budget of wakes is the same for all that coord says.
#[test]
fn answers_are_charged_as_wakes() {
    let mut world = unattended();
    allow(
        &mut world,
        RestLimits { answers: true, per_iteration: 99, total: 99, ..RestLimits::default() },
    );
    a_turn(&mut world);
    for _ in 0..60 {
        answered(&mut world);
    }
    assert_eq!(told_words(&mut world, asks(Question::Continue)), (vec![], "H-21"));
}

pub(crate) fn full(tokens: u64) -> LastWords {
    LastWords { context_tokens: Some(tokens), ..LastWords::default() }
}

// S1-23: once, from 70 % on; again after the conversation was compacted.
#[test]
fn a_full_context_is_asked_for_a_summary_once() {
    let mut world = unattended();
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, full(139_999)).0, []);
    a_turn(&mut world);
    let (wakes, rule) = told_words(&mut world, full(140_000));
    assert_eq!((wakes.len(), rule), (1, "S1-23"));
    assert!(wakes[0].1.contains("70 %"), "{}", wakes[0].1);
    a_turn(&mut world);
    assert_eq!(looks(&rests(&mut world, 10)), [], "it was asked");
    world.hook("s1", PID, HookKind::SessionStart(StartSource::Compact));
    world.says("s1", PID, RegistryStatus::Idle);
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, full(190_000)).0.len(), 1);
}

// G10: looks are not recorded, and what follows from what is must not hang on them: a replay would number
// the steps of its recoveries otherwise.
#[test]
fn the_end_of_a_hold_on_all_is_the_same_with_looks_and_without() {
    let asked = |with_looks: bool| {
        let mut world = answering();
        world.command(Command::Hold { session: None, for_ms: None });
        a_turn(&mut world);
        rests(&mut world, 4);
        if with_looks {
            world.pass(7.0);
        } else {
            world.seconds += 7.0;
        }
        world.command(Command::Release { session: None });
        world.session("s1").rest.asked
    };
    assert!(asked(true).is_some());
    assert_eq!(asked(true), asked(false));
}

// S1-23: a question is answered first; a summary can wait.
#[test]
fn a_question_goes_before_a_summary() {
    let mut world = answering();
    a_turn(&mut world);
    let words = LastWords { question: Some(Question::Continue), ..full(190_000) };
    assert_eq!(told_words(&mut world, words).1, "S1-09");
    a_turn(&mut world);
    assert_eq!(told_words(&mut world, full(190_000)).1, "S1-23");
}

// G10, H-32: a look that a restart cut off is made anew.
#[test]
fn a_look_that_was_cut_off_is_made_again() {
    let mut world = answering();
    a_turn(&mut world);
    let first = asked(&mut world);
    allow(&mut world, RestLimits { answers: true, ..RestLimits::default() });
    let second = asked(&mut world);
    assert_ne!(first, second);
    let late = Proof { last_words: Some(asks(Question::Continue)), ..dead(&world) };
    world.take(&Event::Proved { session_id: String::new(), intent: first, proof: Box::new(late) });
    assert_eq!(world.session("s1").rest.asked, Some(second.number));
}

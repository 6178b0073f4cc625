//! What becomes of a resume that was started, and where another one may be put (S0-25b, S0-25e, H-08, H-13, H-16,
//! H-18, H-33, H-34, H-45, H-54).

use crate::crashes::{
    NEXT, PID, SHELL_PROMPT, at_rest, dead, in_a_turn, is_act, launch, living, opted_in,
};
use crate::world::{END, EXIT, PROMPT, STOP, TOOL, World, pane, process};

use coord_model::{
    Action, Command, Effect, Event, HookKind, Input, Kind, NoticeChannel, NoticeKind,
    NoticeSettings, PaneState, Parent, ParentKind, ProcessSeen, Proof, RegistryStatus, Screen,
    SessionState, Settings, TellAct, TmuxPane,
};

fn crashed() -> World {
    let mut world = in_a_turn();
    world.crash(PID);
    world
}

/// Its resumed client came up, and has been found to be the only one.
fn sole() -> World {
    let mut world = crashed();
    world.resume_as(NEXT);
    world.comes_up(NEXT);
    world.pass(3.5);
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    world
}

fn recover(world: &mut World) {
    let session = world.key();
    world.command(Command::Recover { session, restart: true, when_idle: true });
}

/// Somebody sets the wall clock, and the coordinator notices it.
fn set_clock(world: &mut World, by_ms: i64) {
    world.clock_ms += by_ms;
    world.take(&Event::Gap { ns: 0 });
}

/// Time passes until the next look is asked for.
fn until_asked(world: &mut World) {
    for _ in 0..1_000 {
        let is_look = |effect: &Effect| matches!(effect, Effect::Act(action) if matches!(**action, Action::Prove { .. }));
        if world.effects.iter().any(is_look) {
            return;
        }
        world.pass(1.0);
    }
    panic!("no look is asked for: {:?}", world.pending());
}

fn flag(world: &World) -> Option<&str> {
    world.session("s1").recovery.needs_operator.as_ref().map(|flag| flag.reason.as_str())
}

// S0-25a, G3: a nonce stands for one resume, which only the process that claimed it becomes.
#[test]
fn a_resume_is_found_by_its_nonce_and_by_who_claimed_it() {
    let mut world = crashed();
    let proof = dead(&world);
    let nonce = proof.nonce.clone();
    let (intent, _) = world.act(proof);
    world.acted(intent, coord_model::Outcome::Done);
    assert!(world.state.resume_placed("another").is_none());
    let placed = world.state.resume_placed(&nonce).unwrap();
    assert!(!placed.any_server, "the server that its pane was on runs the line");
    assert!(world.state.resume_claimed_by(NEXT).is_none());
    world.claim(NEXT);
    let claimed = world.state.resume_claimed_by(NEXT).unwrap();
    assert_eq!(claimed.session_id, "s1");
    assert!(world.state.resume_claimed_by(PID).is_none());
}

// S0-25f: the server that ran it is gone with the machine; whichever is there now runs the line.
#[test]
fn what_a_restart_interrupted_is_resumed_on_any_server() {
    let mut world = in_a_turn();
    world.reboot();
    let config_dir = "/home/dev/.claude".into();
    world.take(&Event::ConfigDirLock { config_dir, held: true });
    world.pass(31.0);
    world.command(Command::Restore { sessions: vec![world.key()] });
    let proof = Proof { pane: PaneState::NoServer, ..dead(&world) };
    let nonce = proof.nonce.clone();
    assert!(matches!(world.act(proof).1, Action::NewWindow { .. }));
    assert!(world.state.resume_placed(&nonce).unwrap().any_server);
}

// G6, H-33: whose user ends it at once is left alone; one that ends otherwise did not come up.
#[test]
fn a_resumed_client_that_ends_at_once_is_judged_by_its_reason() {
    for (end, is_failure) in [(EXIT, false), (END, true)] {
        let mut world = crashed();
        world.resume_as(NEXT);
        world.comes_up(NEXT);
        world.hook("s1", NEXT, end);
        assert_eq!(world.outcome(), Some("closed"), "nobody asked for it again");
        let has_failed = world.decisions.iter().any(|one| one.saw.contains("ended at once"));
        assert_eq!(has_failed, is_failure);
        let looks =
            world.actions().into_iter().any(|action| matches!(action, Action::Prove { .. }));
        assert!(!looks, "nobody is there to be looked at");
    }
}

// H-33: what does not stand at its prompt is not recovered, and nothing is said of one whose end is being read.
#[test]
fn a_resumed_client_is_verified_at_its_prompt_only() {
    let mut world = sole();
    world.take(&Event::ProcessSeen(ProcessSeen {
        process: process(NEXT),
        alive: true,
        kind: Some(Kind::Interactive),
        is_stopped: true,
        forked_from: None,
        launch: None,
    }));
    assert_eq!(world.state_of("s1"), SessionState::Suspended);
    world.pass(30.0);
    assert_eq!(world.outcome(), None);
    world.pass(60.0);
    assert_eq!(world.outcome(), Some("failed"));
    assert!(flag(&world).unwrap().contains("did not reach its prompt"));

    let mut world = sole();
    world.exit(NEXT);
    world.pass(0.5);
    assert_eq!(
        (world.outcome(), flag(&world)),
        (None, None),
        "coord is checking how the client ended"
    );
}

// N-01: who asked for it is told that a session is back.
#[test]
fn n_01_a_recovery_is_told_once_it_is_verified() {
    let mut world = sole();
    let name = "tmux".into();
    let class = coord_model::ChannelClass::Tmux;
    let channel = NoticeChannel { name, class, can_withdraw: false, kinds: None, per_hour: 60 };
    let kinds = vec![NoticeKind::Recovered];
    let notice = NoticeSettings { kinds, channels: vec![channel], ..NoticeSettings::default() };
    world.take(&crate::world::settings(Settings { notice, ..Settings::default() }));
    world.effects.clear();
    world.pass(2.0);
    assert_eq!(world.outcome(), Some("verified"));
    let is_told = |effect: &&Effect| {
        let Effect::Tell(tell) = effect else { return false };
        matches!(tell.act, TellAct::One { kind: NoticeKind::Recovered, .. })
    };
    assert_eq!(world.effects.iter().filter(is_told).count(), 1);
}

// H-33, H-21: an unattended session whose work was cut off is told once to go on, if it stands at its prompt.
#[test]
fn only_work_that_was_cut_off_goes_on() {
    type Change = fn(&mut World);
    let changes: [(&str, Change, bool); 4] = [
        ("cut off", |_| (), true),
        ("its user works with it", |world| world.hook("s1", NEXT, PROMPT), false),
        (
            "it asks",
            |world| {
                let kind = HookKind::PermissionRequest;
                let mut event = world.event("s1", NEXT, kind, 0.0);
                event.tool = Some("Bash".into());
                world.send(event);
            },
            false,
        ),
        ("attended by now", |world| world.attend(false), false),
    ];
    for (name, change, goes_on) in changes {
        let mut world = sole();
        change(&mut world);
        world.pass(2.0);
        assert_eq!(world.outcome(), Some("verified"), "{name}");
        let woken =
            world.actions().into_iter().filter(|action| matches!(action, Action::Wake { .. }));
        assert_eq!(woken.count(), usize::from(goes_on), "{name}");
    }
    // It died at rest: there is nothing to go on with.
    let mut world = crate::crashes::unattended();
    world.signature();
    world.is_content(false);
    world.crash(PID);
    world.comes_back(NEXT);
    assert!(!world.actions().iter().any(|action| matches!(action, Action::Wake { .. })));
}

// H-45: a mode that its command line does not give is not set again, and both its user and its agent are told.
#[test]
fn a_mode_that_was_switched_on_later_is_named() {
    // A narrower mode is set again, and the default is what a start without a mode gives.
    for (mode, is_told) in [
        (Some("acceptEdits"), true),
        (Some("plan"), false),
        (Some("default"), false),
        (None, false),
    ] {
        let mut world = in_a_turn();
        let mut event = world.event("s1", PID, HookKind::Other("PreCompact".into()), 0.0);
        event.permission_mode = mode.map(Into::into);
        world.send(event);
        world.crash(PID);
        world.resume_as(NEXT);
        world.comes_up(NEXT);
        world.screen(NEXT, Screen::Prompt);
        world.pass(3.5);
        let proof = living(&world);
        assert_eq!(world.prove(proof), []);
        world.pass(2.0);
        assert_eq!(world.outcome(), Some("verified"));
        let actions = world.actions();
        let text_of = |action: &Action| {
            let (Action::Notify { text, .. } | Action::Wake { text, .. }) = action else {
                return None;
            };
            Some(text.clone())
        };
        let texts: Vec<String> = actions.iter().filter_map(text_of).collect();
        let named = texts.iter().filter(|text| text.contains("permission mode")).count();
        assert_eq!(named, if is_told { 2 } else { 0 }, "{mode:?}: {texts:?}");
    }
}

// H-32, H-08: what lies ahead of a clock that was set back is old; without that it is as young as can be.
#[test]
fn a_time_ahead_of_the_clock_is_old_only_where_the_clock_was_set() {
    for was_set in [false, true] {
        let mut world = crate::crashes::unattended();
        world.signature();
        world.is_content(false);
        let idle_since_ms = Some(world.now().wall_ms + 500_000);
        if was_set {
            set_clock(&mut world, -1_000_000);
            world.pass(150.0);
            world.actions();
            until_asked(&mut world);
        }
        let proof = Proof { idle_since_ms, ..living(&world) };
        let acts = world.prove(proof);
        assert_eq!(acts.len(), usize::from(was_set), "{acts:?}, {:?}", world.pending());
    }
}

// H-08, H-32: keys of before the clock was set cannot be told from later ones.
#[test]
fn a_clock_that_was_set_a_moment_ago_keeps_every_living_client() {
    let mut world = crate::crashes::unattended();
    world.signature();
    world.is_content(false);
    set_clock(&mut world, 1_000_000);
    world.pass(31.0);
    world.actions();
    until_asked(&mut world);
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    assert!(world.waits_for().contains("the clock was set"), "{}", world.waits_for());
    until_asked(&mut world);
    assert!(world.seconds > 420.0, "keys count for two minutes");
    let proof = living(&world);
    assert!(matches!(world.act(proof).1, Action::End { .. }));
}

// H-53: without a registry it has to have been at its prompt for as long as with one.
#[test]
fn an_order_waits_until_its_client_has_rested() {
    let mut world = at_rest();
    world.hook("s1", PID, PROMPT);
    world.pass(1.0);
    world.hook("s1", PID, STOP);
    recover(&mut world);
    let proof = Proof { idle_since_ms: None, ..living(&world) };
    assert_eq!(world.prove(proof), []);
    assert!(world.waits_for().contains("not been idle for long enough"), "{}", world.waits_for());
    until_asked(&mut world);
    let proof = Proof { idle_since_ms: None, ..living(&world) };
    assert!(matches!(world.act(proof).1, Action::End { .. }));
}

// R-02, H-53: the registry of a client that hangs before the turn of its queued prompts says idle for as long as it hangs.
// Only the screen tells such a client from one at rest.
#[test]
fn an_idle_that_may_be_between_two_turns_needs_a_screen() {
    let prompt = |input| PaneState::Client { screen: Some(Screen::Prompt), input, signature: None };
    // What is told after the two prompts: nothing, the end of their turn, or that and an event of the next turn.
    for (told, pane, ends) in [
        (1, PaneState::None, false),
        (1, PaneState::Unreadable { why: "no answer".into() }, false),
        (1, prompt(Input::Unreadable), false),
        (1, prompt(Input::Empty), true),
        (0, PaneState::None, false),
        (2, PaneState::None, true),
    ] {
        let mut world = at_rest();
        let of_turn = |world: &mut World, turn: &str, kind: HookKind| {
            let mut event = world.event("s1", PID, kind, 0.0);
            event.prompt_id = Some(turn.into());
            world.send(event);
            world.seconds += 0.01;
        };
        of_turn(&mut world, "a", PROMPT);
        of_turn(&mut world, "a", PROMPT);
        for (turn, kind) in [("a", STOP), ("b", TOOL)].into_iter().take(told) {
            of_turn(&mut world, turn, kind);
        }
        world.says("s1", PID, RegistryStatus::Idle);
        world.pass(40.0);
        assert_eq!(world.state_of("s1"), SessionState::Idle);
        recover(&mut world);
        let proof = Proof { pane: pane.clone(), ..living(&world) };
        let acts = world.prove(proof);
        let is_ended = matches!(&*acts, [Action::End { .. }]);
        assert_eq!(is_ended, ends, "{pane:?}, told: {told}: {acts:?}");
    }
}

// H-54: a key in the second in which its person was told cancels, an older one does not.
#[test]
fn a_key_since_its_person_was_told_cancels_the_end() {
    for (before_ms, cancels) in [(0, true), (5_000, false)] {
        let mut world = opted_in();
        world.signature();
        world.is_content(false);
        let (told_ms, proof) = (world.now().wall_ms, living(&world));
        assert_eq!(world.prove(proof), []);
        until_asked(&mut world);
        let any_key_ms = Some((told_ms - before_ms) / 1_000 * 1_000);
        let proof = Proof { any_key_ms, ..living(&world) };
        let acts = world.prove(proof);
        assert_eq!(world.outcome() == Some("closed"), cancels, "{:?}", world.pending());
        assert!(cancels || world.pending().is_some(), "{acts:?}");
    }
}

// H-54, H-32: whether a key came since it was told cannot be seen across a clock that was set: it is told again.
#[test]
fn what_was_told_before_the_clock_was_set_is_told_again() {
    let mut world = opted_in();
    world.configure(Settings { keys_quiet_ms: 1_000, settle_ms: 1_000, ..Settings::default() });
    world.says("s1", PID, RegistryStatus::Idle);
    world.signature();
    world.is_content(false);
    world.actions();
    until_asked(&mut world);
    let proof = living(&world);
    assert_eq!(world.prove(proof), []);
    assert!(matches!(world.pending().unwrap().stage, coord_core::Stage::Grace { .. }));
    set_clock(&mut world, 3_000);
    for _ in 0..20 {
        until_asked(&mut world);
        let proof = living(&world);
        assert_eq!(world.prove(proof), [], "it was not told since");
        if matches!(world.pending().unwrap().stage, coord_core::Stage::Grace { .. }) {
            return;
        }
    }
    panic!("it is never told again: {:?}", world.pending());
}

/// Another session, in process 300, started by `shell` in this pane.
fn another(world: &mut World, shell: u32, pane: TmuxPane) {
    world.open_in("s2", 300, Kind::Interactive, Some(pane));
    let parent = Parent { process: process(shell), kind: ParentKind::Shell };
    world.launched(300, coord_model::Launch { parent, ..launch() });
    world.says("s2", 300, RegistryStatus::Idle);
}

// H-16: a pane in which another session's client may be stopped is not typed into.
#[test]
fn no_line_is_typed_into_the_pane_of_another_client() {
    let its_own = || pane(7);
    let other_id = || TmuxPane { pane: "%9".into(), ..pane(7) };
    let other_socket = || TmuxPane { socket: "/tmp/t/other".into(), ..pane(7) };
    for (name, shell, pane, lives, is_typed) in [
        ("its shell", 50, other_id(), true, false),
        ("its shell, and gone", 50, other_id(), false, true),
        ("its pane", 51, its_own(), true, false),
        ("another pane", 51, other_id(), true, true),
        ("a pane of that id on another server", 51, other_socket(), true, true),
    ] {
        let mut world = in_a_turn();
        another(&mut world, shell, pane);
        if !lives {
            world.hook("s2", 300, EXIT);
            world.exit(300);
        }
        world.crash(PID);
        let proof = dead(&world);
        let action = world.act(proof).1;
        assert_eq!(matches!(action, Action::TypeResume { .. }), is_typed, "{name}: {action:?}");
        assert!(is_typed || matches!(action, Action::NewWindow { .. }), "{name}: {action:?}");
    }
}

// S0-25e: who watches a session is told that its pane is closed; nobody opens another one for it.
#[test]
fn a_watched_session_whose_pane_is_closed_needs_its_operator() {
    let mut world = opted_in();
    world.hook("s1", PID, PROMPT);
    world.crash(PID);
    let proof = Proof { pane: PaneState::Closed, ..dead(&world) };
    assert_eq!(world.prove(proof), []);
    assert_eq!(flag(&world), Some("its pane is closed"));
}

// H-34: a line that stands in the shell waits ten minutes for its person, and is never erased.
#[test]
fn a_line_that_stands_in_the_shell_is_left_to_its_person() {
    let mut world = crashed();
    let PaneState::Shell { prompt, signature, .. } = SHELL_PROMPT else { unreachable!() };
    let typed = PaneState::Shell { prompt, signature, has_typed: true };
    let from = world.seconds;
    for _ in 0..10 {
        let proof = Proof { pane: typed.clone(), ..dead(&world) };
        assert_eq!(world.prove(proof), []);
        if flag(&world).is_some() {
            break;
        }
        assert!(world.waits_for().contains("not sent"));
        until_asked(&mut world);
    }
    let waited = world.seconds - from;
    assert!((600.0..740.0).contains(&waited), "{waited}");
    world.pass(3_600.0);
    assert!(!world.actions().iter().any(is_act));
}

// H-06, H-07: a crash that was seen on its screen before it died wants a watched session back, after a grace.
#[test]
fn a_signature_of_its_own_counts_behind_the_death() {
    for is_content in [false, true] {
        let mut world = at_rest();
        world.signature();
        world.is_content(is_content);
        world.crash(PID);
        let proof = dead(&world);
        assert_eq!(world.prove(proof), []);
        assert_eq!(world.pending().is_some(), !is_content, "{:?}", world.outcome());
    }
}

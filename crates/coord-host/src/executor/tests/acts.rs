//! Tests what is done, and what is not done after any change.

use super::*;
use crate::executor::run::Words;
use coord_model::{Action, Intent, Outcome, SessionKey, Signal};

fn changed(what: &str) -> Outcome {
    Outcome::Changed { what: what.to_owned() }
}

/// Tries until a look was quick enough: on a machine under load, none may be.
fn end(world: &mut World, subject: &Subject, proof: &Proof) -> Outcome {
    until("a quick look", || {
        let outcome = world.tools.end(subject, proof, Signal::Term);
        (outcome != changed("the check took too long")).then_some(outcome)
    })
}

// S0-25, H-08
#[test]
fn a_client_at_rest_is_ended() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    let proof = world.look(&subject);
    assert_eq!(end(&mut world, &subject, &proof), Outcome::Done);
    until("its end", || (!is_alive(client)).then_some(()));
    assert_eq!(end(&mut world, &subject, &proof), changed("the client changed"));
}

// H-08: no signal after a change.
#[test]
fn a_client_is_not_ended_after_a_change() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    let proof = world.look(&subject);

    world.register(client, &world.session, "busy");
    assert_eq!(end(&mut world, &subject, &proof), changed("the client's registry entry changed"));
    world.register(client, &world.session, "idle");
    let owner = Other::start(&["claude", "-r", &world.session], &[]);
    assert_eq!(
        end(&mut world, &subject, &proof),
        changed("the processes that hold the session changed")
    );
    drop(owner);
    std::fs::write(world.path("draft"), "\u{1b}[5;3Hfix it\u{1b}[7m ").unwrap();
    let tty = world.ask("%0", "#{pane_tty}");
    std::fs::copy(world.path("draft"), tty).unwrap();
    until("the draft", || world.text("%0").contains("fix it").then_some(()));
    assert_eq!(end(&mut world, &subject, &proof), changed("the pane changed"));
    assert!(is_alive(client));
}

// H-08: any key of any client of the server counts.
#[test]
fn a_client_is_not_ended_after_a_key() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    let mut attached = world.attach();
    let first = world.look(&subject);
    until("a key", || {
        attached.press(" ");
        (first.any_key_ms < world.look(&subject).any_key_ms).then_some(())
    });
    let before = Proof { pane: world.look(&subject).pane, ..first };
    assert_eq!(end(&mut world, &subject, &before), changed("a key was pressed"));
    assert!(is_alive(client));
}

// H-08: a signal is not sent if it cannot follow at once.
#[test]
fn a_slow_look_is_no_licence() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    let proof = world.look(&subject);
    // A tmux that takes 30 ms longer.
    let slow = world.script("tmux", "sleep 0.03\nexec tmux \"$@\"");
    let readable = Readable::default();
    world.tools.asker = Asker::new(vec![slow], readable);
    world.tools.asker.answer_within = PATIENCE;
    let outcome = world.tools.end(&subject, &proof, Signal::Term);
    assert_eq!(outcome, changed("the check took too long"));
    assert!(is_alive(client));
    // A client that is proved to hang is not at rest: its signal does not wait for a quick look.
    world.register(client, &world.session, "busy");
    let hung = Proof { idle_since_ms: None, ..proof };
    assert_eq!(world.tools.end(&subject, &hung, Signal::Term), Outcome::Done);
    until("its end", || (!is_alive(client)).then_some(()));
}

// S0-25, H-07, R-09: SIGKILL requires the same process, and that it has not run since.
#[test]
fn kill_needs_the_same_process() {
    let mut world = World::new();
    let client = world.client();
    let mut subject = world.subject(client, true);
    let proof = world.look(&subject);
    subject.harness.start_time += 1;
    assert_eq!(world.tools.end(&subject, &proof, Signal::Kill), changed("the client changed"));
    assert!(is_alive(client));
    subject.harness = client;
    assert!(proof.ran_ns.is_some());
    let ran = Proof { ran_ns: Some(0), ..proof.clone() };
    let outcome = world.tools.end(&subject, &ran, Signal::Kill);
    assert_eq!(outcome, changed("the client's main thread ran"));
    assert!(is_alive(client));
    assert_eq!(world.tools.end(&subject, &proof, Signal::Kill), Outcome::Done);
    until("its end", || (!is_alive(client)).then_some(()));
}

// S0-25a, H-18
#[test]
fn the_line_is_typed_into_an_empty_shell() {
    let mut world = World::new();
    let subject = world.crashed();
    let proof = world.look(&subject);
    assert_eq!(world.tools.type_resume(&subject, &proof), Outcome::Done);
    assert_eq!(world.ran(), format!("resume-exec {}", proof.nonce));
    assert_eq!(world.tell(&["list-buffers"]), "");
    // The line runs: whatever is decided on the old proof, it is not typed again.
    assert_ne!(world.tools.type_resume(&subject, &proof), Outcome::Done);
    let line = format!("resume-exec{}", proof.nonce);
    let text: String = world.text("%0").split_whitespace().collect();
    assert_eq!(text.matches(&line).count(), 1);
}

/// Asserts that nothing is typed after `change`, and that the outcome names `what`.
#[track_caller]
fn not_typed(change: impl FnOnce(&mut World, &Subject), what: &str) {
    let mut world = World::new();
    let subject = world.crashed();
    let proof = world.look(&subject);
    assert!(prompt(&proof).is_some());
    change(&mut world, &subject);
    assert_eq!(world.tools.type_resume(&subject, &proof), changed(what));
    assert_eq!(world.tell(&["list-buffers"]), "");
    assert!(!world.text("%0").contains("resume-exec"));
}

// H-18
#[test]
fn nothing_is_typed_behind_half_a_line() {
    let half = |world: &mut World, _: &Subject| {
        world.type_keys("%0", &["rm -rf "]);
        until("the echo", || world.text("%0").contains("rm -rf").then_some(()));
    };
    not_typed(half, "the pane changed");
}

// H-18
#[test]
fn nothing_is_typed_at_another_prompt() {
    let other = |world: &mut World, _: &Subject| {
        world.type_keys("%0", &["PS1='user@h ~> '", "Enter"]);
        until("it", || world.text("%0").trim_end().ends_with("\nuser@h ~>").then_some(()));
    };
    not_typed(other, "the pane changed");
}

// H-18
#[test]
fn nothing_is_typed_into_another_program() {
    let program = |world: &mut World, subject: &Subject| {
        world.type_keys("%0", &["cat", "Enter"]);
        until("cat", || (world.look(subject).pane == PaneState::Other).then_some(()));
    };
    not_typed(program, "the pane changed");
}

// H-16, H-17
#[test]
fn nothing_is_typed_in_a_mode_of_tmux() {
    let copy_mode = |world: &mut World, _: &Subject| drop(world.tell(&["copy-mode", "-t", "%0"]));
    not_typed(copy_mode, "the pane's mode changed");
    let synchronized = |world: &mut World, _: &Subject| {
        world.tell(&["split-window", "-d", "-t", "%0", "cat"]);
        world.tell(&["set-option", "-w", "-t", "%0", "synchronize-panes", "on"]);
    };
    not_typed(synchronized, "the pane's mode changed");
}

// H-16: the pane was used again.
#[test]
fn nothing_is_typed_into_a_pane_that_was_used_again() {
    let again = |world: &mut World, _: &Subject| {
        let shell = world.shell();
        world.tell(&["respawn-pane", "-k", "-t", "%0", &shell]);
        world.wait_prompt("%0");
    };
    not_typed(again, "the pane changed");
}

// H-18: a key cancels the action, even if it has no visible effect.
#[test]
fn nothing_is_typed_after_a_key() {
    let mut world = World::new();
    let subject = world.crashed();
    let mut client = world.attach();
    let proof = until("its first sign", || {
        let proof = world.look(&subject);
        (proof.key_ms.is_some() && prompt(&proof).is_some()).then_some(proof)
    });
    until("a key", || {
        client.press("\u{c}");
        (proof.key_ms < world.look(&subject).key_ms).then_some(())
    });
    drop(client);
    until("its end", || world.tell(&["list-clients"]).is_empty().then_some(()));
    world.wait_prompt("%0");
    let before = Proof { pane: world.look(&subject).pane, ..proof };
    assert_eq!(world.tools.type_resume(&subject, &before), changed("a key was pressed"));
}

// H-13
#[test]
fn nothing_is_typed_if_the_session_has_an_owner() {
    let mut world = World::new();
    let subject = world.crashed();
    let proof = world.look(&subject);
    let _owner = Other::start(&["claude", "--resume", &world.session], &[]);
    let outcome = world.tools.type_resume(&subject, &proof);
    assert_eq!(outcome, changed("the processes that hold the session changed"));
}

// H-16: the server itself detects a change between the look and the keys.
#[test]
fn the_guard_is_in_the_command_that_types() {
    let mut world = World::new();
    let subject = world.crashed();
    let look = world.look_whole(&subject);
    let (spot, nonce) = (look.spot.unwrap(), look.proof.nonce.clone());
    let words = Words { line: world.tools.line(&nonce).unwrap(), nonce };
    let refused = |world: &mut World| {
        assert_eq!(world.tools.type_line(&subject, &spot, &words), changed("the pane changed"));
        assert_eq!(world.tell(&["list-buffers"]), "");
        assert!(!world.text("%0").contains("resume-exec"));
    };
    world.tell(&["copy-mode", "-t", "%0"]);
    refused(&mut world);
    world.tell(&["send-keys", "-t", "%0", "-X", "cancel"]);
    world.tell(&["set-option", "-w", "-t", "%0", "synchronize-panes", "on"]);
    refused(&mut world);
    world.tell(&["set-option", "-w", "-t", "%0", "synchronize-panes", "off"]);
    world.type_keys("%0", &["l"]);
    until("the echo", || (world.ask("%0", "#{cursor_x}") == "6").then_some(()));
    refused(&mut world);
    world.type_keys("%0", &["C-u"]);
    until("the prompt", || (world.ask("%0", "#{cursor_x}") == "5").then_some(()));
    let mut elsewhere = spot.clone();
    elsewhere.tty.push('0');
    assert_eq!(world.tools.type_line(&subject, &elsewhere, &words), changed("the pane changed"));
    let mut another = spot.clone();
    another.pid += 1;
    assert_eq!(world.tools.type_line(&subject, &another, &words), changed("the pane changed"));
    // The pane is as it was.
    assert_eq!(world.tools.type_line(&subject, &spot, &words), Outcome::Done);
    world.ran();
    let at_the_same_place = format!("printf '\\033[{};1Hdev$ '; exec cat", spot.cursor.1 + 1);
    world.tell(&["respawn-pane", "-k", "-t", "%0", &at_the_same_place]);
    until("it", || (world.ask("%0", "#{cursor_x}") == "5").then_some(()));
    refused(&mut world);
    world.tell(&["new-window", "-d", "cat"]);
    world.tell(&["kill-pane", "-t", "%0"]);
    assert_eq!(world.tools.type_line(&subject, &spot, &words), changed("the pane changed"));
    assert_eq!(world.tell(&["list-buffers"]), "");
}

// H-18
#[test]
fn a_path_that_is_not_plain_is_not_typed() {
    let mut world = World::new();
    let subject = world.crashed();
    let proof = world.look(&subject);
    world.tools.coordctl = world.path("co ord;ctl");
    let outcome = world.tools.type_resume(&subject, &proof);
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    let forged = Proof { nonce: "x; reboot".to_owned(), ..proof };
    world.tools.coordctl = world.path("coordctl");
    let outcome = world.tools.type_resume(&subject, &forged);
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
}

// S0-25e
#[test]
fn a_dead_pane_gets_a_new_first_process() {
    let mut world = World::new();
    let subject = world.crashed();
    world.tell(&["set-option", "-g", "remain-on-exit", "on"]);
    let alive = world.look(&subject);
    let outcome = world.tools.respawn_pane(&subject, &alive);
    assert_eq!(outcome, changed("the pane changed"), "its shell lives");
    world.type_keys("%0", &["exit", "Enter"]);
    until("a dead pane", || (world.look(&subject).pane == PaneState::Dead).then_some(()));
    let proof = world.look(&subject);
    assert_eq!(world.tools.type_resume(&subject, &proof), changed("the pane changed"));
    assert_eq!(world.tools.respawn_pane(&subject, &proof), Outcome::Done);
    assert_eq!(world.ran(), format!("resume-exec {}", proof.nonce));
    assert_eq!(world.ask("%0", "#{pane_current_path}"), world.path("work"));
    assert_eq!(world.tools.respawn_pane(&subject, &proof), changed("the pane changed"));
}

// S0-25e: a window of its own, in the background.
#[test]
fn a_closed_pane_gets_a_new_window() {
    let mut world = World::new();
    let mut subject = world.crashed();
    world.tell(&["new-window", "-d", "cat"]);
    world.tell(&["kill-pane", "-t", "%0"]);
    // A directory whose path cannot be part of a command is entered by the line itself.
    std::fs::create_dir(world.path("my work")).unwrap();
    let work = std::fs::metadata(world.path("my work")).unwrap();
    subject.cwd = Place { path: world.path("my work"), device: work.dev(), inode: work.ino() };
    let proof = world.look(&subject);
    assert_eq!(proof.pane, PaneState::Closed);
    let active = world.ask("", "#{window_id}");
    assert_eq!(world.tools.new_window(&subject, &proof), Outcome::Done);
    assert_eq!(world.ran(), format!("resume-exec {}", proof.nonce));
    assert_eq!(world.ask("", "#{window_id}"), active, "nobody is taken there");
    world.tell(&["kill-server"]);
    until("its end", || (world.look(&subject).pane == PaneState::NoServer).then_some(()));
    let proof = world.look(&subject);
    let outcome = world.tools.new_window(&subject, &proof);
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
}

// H-35: the notice is shown where the pane is displayed, word for word.
#[test]
fn who_looks_at_the_pane_is_told() {
    let mut world = World::new();
    let pane = world.subject(world.server, true).pane.unwrap().0;
    let text = "coord: #{pane_id} 100% \"quoted\" $HOME";
    let notify = Action::Notify { pane: pane.clone(), text: text.to_owned(), for_ms: 5_000 };
    assert_eq!(world.tools.do_action(notify.clone()), None, "nobody is there");
    let client = world.attach();
    until("the text", || {
        assert_eq!(world.tools.do_action(notify.clone()), None);
        client.shown().contains(text).then_some(())
    });
    world.tell(&["new-window", "cat"]);
    let elsewhere = Action::Notify { pane, text: "not here".to_owned(), for_ms: 5_000 };
    assert_eq!(world.tools.do_action(elsewhere), None);
    world.tell(&["new-window", "printf 'a later sign'; exec cat"]);
    until("a later sign", || client.shown().contains("a later sign").then_some(()));
    assert!(!client.shown().contains("not here"));
}

// G4: each action is answered once, in order, and the loop is woken.
#[test]
fn actions_are_answered_in_their_order() {
    use crate::executor::{Executor, Reply};
    use mio::{Events, Poll, Token, Waker};

    let mut world = World::new();
    let subject = world.crashed();
    let tools = Tools {
        root: None,
        asker: Asker::new(Vec::new(), Readable::default()),
        readable: Readable::default(),
        state_dir: world.dir.path().to_owned(),
        coordctl: world.tools.coordctl.clone(),
        transcripts: Transcripts::default(),
    };
    let proof = world.look(&subject);
    world.tools.transcripts.release(&subject.session_id);
    let intent = |number| Intent { session: SessionKey(1), number };
    let mut poll = Poll::new().unwrap();
    let waker = std::sync::Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let hand = Executor::start(tools, &crate::worker::Supervisor::new(waker)).unwrap();
    hand.act(Action::Prove { intent: intent(1), subject: subject.clone() });
    hand.act(Action::Release { session_id: world.session.clone() });
    hand.act(Action::End {
        intent: intent(2),
        subject: subject.clone(),
        proof,
        signal: Signal::Kill,
    });
    let mut events = Events::with_capacity(4);
    let mut next = || {
        loop {
            if let Some(reply) = hand.take() {
                return reply;
            }
            poll.poll(&mut events, None).unwrap();
        }
    };
    let Reply::Proved(number, proof) = next() else { panic!("a proof") };
    assert_eq!((number, proof.transcript), (intent(1), TranscriptState::Held));
    assert_eq!(next(), Reply::Acted(intent(2), changed("the client changed")));
    assert_eq!(hand.take(), None);
    assert_eq!(world.look(&subject).transcript, TranscriptState::Held, "it was given back");
}

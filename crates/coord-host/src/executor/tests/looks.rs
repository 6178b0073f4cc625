//! Tests what a look at a pane finds.

use super::*;

// H-08, H-16: a complete proof, as it is when an act is allowed.
#[test]
fn a_client_at_rest_is_seen_whole() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    let proof = world.look(&subject);
    assert_eq!(proof.pane, at_rest());
    assert!(proof.is_alive && proof.has_cwd && proof.has_program && proof.is_line_plain);
    assert!(!proof.is_in_mode && !proof.is_synchronized);
    assert_eq!(proof.idle_since_ms, Some(1_700_000_000_000));
    assert_eq!((proof.owners.as_slice(), proof.children.as_slice()), (&[][..], &[][..]));
    assert_eq!((proof.key_ms, proof.any_key_ms), (None, None), "no client ever could");
    assert_eq!(proof.transcript, TranscriptState::Held);
    assert_eq!(proof.nonce.len(), 32);
    let again = world.look(&subject);
    assert_eq!(coord_core::change_since(&again, &proof), None);
    assert_ne!(again.nonce, proof.nonce);
    assert!(proof.looked_ns < again.looked_ns);
}

// H-08: a draft is lost with its client.
#[test]
fn a_draft_is_seen() {
    let mut world = World::new();
    let client = world.client_with("%0", "fix it\u{1b}[7m ", "exec cat");
    let PaneState::Client { input, .. } = world.look(&world.subject(client, true)).pane else {
        panic!("a client");
    };
    assert_eq!(input, Input::Draft);
}

// a process with a reused pid is another process.
#[test]
fn another_process_with_the_pid_is_not_the_harness() {
    let mut world = World::new();
    let client = world.client();
    let reused = ProcessRef { start_time: client.start_time + 1, ..client };
    let proof = world.look(&world.subject(reused, true));
    assert!(!proof.is_alive);
    assert_eq!(proof.idle_since_ms, None);
    assert_eq!(proof.pane, PaneState::Other, "the shell is not in front");
}

// H-16
#[test]
fn a_pane_of_that_name_with_another_process_is_not_its_pane() {
    let mut world = World::new();
    let subject = world.crashed();
    assert!(matches!(world.look(&subject).pane, PaneState::Shell { .. }));
    let shell = world.shell();
    world.tell(&["respawn-pane", "-k", "-t", "%0", &shell]);
    let proof = world.look(&subject);
    assert_eq!(proof.pane, PaneState::Closed);

    // Another terminal for the same first process is impossible, and is refused nevertheless.
    let mut moved = world.subject(subject.harness, false);
    moved.pane.as_mut().unwrap().1.tty += 1;
    assert_eq!(world.look(&moved).pane, PaneState::Closed);
    let mut another = world.subject(subject.harness, false);
    another.pane.as_mut().unwrap().1.pane_pid += 1;
    assert_eq!(world.look(&another).pane, PaneState::Closed);
}

// H-16: a stale TMUX_PANE names another pane.
#[test]
fn a_harness_on_another_terminal_is_not_in_the_pane() {
    let mut world = World::new();
    let shell = world.shell();
    let other = world.tell(&["new-window", "-d", "-P", "-F", "#{pane_id}", &shell]);
    world.wait_prompt(&other);
    let client = world.client_with(&other, "\u{1b}[7m ", "exec cat");
    let subject = world.subject(client, true);
    let PaneState::Unreadable { why } = world.look(&subject).pane else { panic!("unreadable") };
    assert!(why.contains("another terminal"), "{why}");
    let right = world.subject_in(client, true, &other);
    assert_eq!(world.look(&right).pane, at_rest());
}

// H-18: what is a prompt, and what is not.
#[test]
fn a_prompt_is_read_and_what_is_typed_behind_it_seen() {
    let mut world = World::new();
    let subject = world.crashed();
    let empty = prompt(&world.look(&subject)).unwrap();
    assert_eq!(empty.column, 5);
    world.type_keys("%0", &["ls"]);
    until("the echo", || world.text("%0").contains("dev$ ls").then_some(()));
    assert_eq!(prompt(&world.look(&subject)), None, "half a line");
    // As in vi mode, or after Home.
    world.type_keys("%0", &["C-a"]);
    until("the cursor", || (world.ask("%0", "#{cursor_x}") == "5").then_some(()));
    assert_eq!(prompt(&world.look(&subject)), None, "text right of the cursor");
    world.type_keys("%0", &["C-k", "PS1='user@h ~> '", "Enter"]);
    until("a prompt", || world.text("%0").trim_end().ends_with("\nuser@h ~>").then_some(()));
    let fish = until("the shell", || {
        let PaneState::Shell { prompt, .. } = world.look(&subject).pane else { return None };
        prompt
    });
    assert_eq!(fish.column, 10);
    assert_ne!(fish.digest, empty.digest);
}

// H-18: the shell must be the pane's first process, and alone in the foreground.
#[test]
fn whoever_else_is_in_front_is_other() {
    let mut world = World::new();
    let subject = world.crashed();
    world.type_keys("%0", &["cat", "Enter"]);
    until("cat", || (world.look(&subject).pane == PaneState::Other).then_some(()));
    // The user will return to a stopped job.
    world.type_keys("%0", &["C-z"]);
    until("the job is stopped", || world.text("%0").contains("Stopped").then_some(()));
    world.wait_prompt("%0");
    assert_eq!(world.look(&subject).pane, PaneState::Other, "a suspended job");
    world.type_keys("%0", &["fg", "Enter"]);
    until("cat again", || (world.ask("%0", "#{pane_current_command}") == "cat").then_some(()));
    world.type_keys("%0", &["C-d"]);
    world.wait_prompt("%0");
    assert!(prompt(&world.look(&subject)).is_some());

    // A shell without job control leaves its programs in its own process group.
    let command = "printf 'dev$ '; cat; echo never";
    let pane = world.tell(&["new-window", "-d", "-P", "-F", "#{pane_id}", command]);
    let subject = world.subject_in(subject.harness, false, &pane);
    until("its program", || (world.look(&subject).pane == PaneState::Other).then_some(()));
}

// H-18: a stopped harness is alive, and its shell is in the foreground.
#[test]
fn a_stopped_client_is_not_in_front() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    world.type_keys("%0", &["C-z"]);
    until("the shell", || (world.look(&subject).pane == PaneState::Other).then_some(()));
    assert!(world.look(&subject).is_alive);
}

// H-34: a line that was typed earlier is found.
#[test]
fn a_line_typed_before_is_found() {
    let mut world = World::new();
    let mut subject = world.crashed();
    let nonce = "0123456789abcdef0123456789abcdef";
    let typed = |world: &mut World, subject: &Subject| {
        matches!(world.look(subject).pane, PaneState::Shell { has_typed: true, .. })
    };
    subject.typed = Some(nonce.to_owned());
    assert!(!typed(&mut world, &subject));
    // The line is longer than the pane is wide.
    let line = format!("/opt/{}/coordctl resume-exec {nonce}", "long".repeat(16));
    world.type_keys("%0", &[&line]);
    until("the echo", || typed(&mut world, &subject).then_some(()));
    subject.typed = Some(nonce.replace('0', "1"));
    assert!(!typed(&mut world, &subject));
}

// H-17
#[test]
fn modes_of_tmux_are_seen() {
    let mut world = World::new();
    let subject = world.crashed();
    world.tell(&["copy-mode", "-t", "%0"]);
    let proof = world.look(&subject);
    assert!(proof.is_in_mode && !proof.is_synchronized);
    world.tell(&["send-keys", "-t", "%0", "-X", "cancel"]);
    world.tell(&["set-option", "-w", "-t", "%0", "synchronize-panes", "on"]);
    let proof = world.look(&subject);
    assert!(!proof.is_in_mode && proof.is_synchronized);
}

// S0-25e: a dead pane, a closed pane, and a server that is gone.
#[test]
fn a_dead_pane_a_closed_one_and_a_server_that_is_gone() {
    let mut world = World::new();
    let subject = world.crashed();
    world.tell(&["set-option", "-g", "remain-on-exit", "on"]);
    world.tell(&["new-window", "-d", "cat"]);
    world.type_keys("%0", &["exit", "Enter"]);
    until("a dead pane", || (world.look(&subject).pane == PaneState::Dead).then_some(()));
    world.tell(&["kill-pane", "-t", "%0"]);
    assert_eq!(world.look(&subject).pane, PaneState::Closed);
    world.tell(&["kill-server"]);
    until("its end", || (world.look(&subject).pane == PaneState::NoServer).then_some(()));
    let none = Subject { pane: None, ..subject };
    assert_eq!(world.look(&none).pane, PaneState::None);
}

// H-16: a new server begins with the same ids.
#[test]
fn a_new_server_at_the_same_place_is_another() {
    let mut world = World::new();
    let mut subject = world.crashed();
    subject.pane.as_mut().unwrap().0.server.start_time += 1;
    assert_eq!(world.look(&subject).pane, PaneState::NoServer);
    subject.pane.as_mut().unwrap().0.server = process_of(std::process::id());
    let PaneState::Unreadable { why } = world.look(&subject).pane else { panic!("unreadable") };
    assert!(why.contains("another server"), "{why}");
}

// H-08: keys of clients count, and input typed by programs does not.
#[test]
fn a_key_of_a_client_is_seen_by_the_second() {
    let mut world = World::new();
    let subject = world.crashed();
    world.type_keys("%0", &["C-l"]);
    let proof = world.look(&subject);
    assert_eq!((proof.key_ms, proof.any_key_ms), (None, None));
    let mut client = world.attach();
    let attached = until("its first sign", || world.look(&subject).key_ms);
    until("a key", || {
        client.press("\u{c}");
        (Some(attached) < world.look(&subject).key_ms).then_some(())
    });
    drop(client);
    until("its end", || world.tell(&["list-clients"]).is_empty().then_some(()));
    let proof = world.look(&subject);
    assert!(Some(attached) < proof.key_ms, "a key is not forgotten with its client");
    assert_eq!(proof.any_key_ms, proof.key_ms);

    // Keys elsewhere on this server are keys too, but not for this pane.
    let shell = world.shell();
    world.tell(&["new-session", "-d", &shell]);
    let pane = world.tell(&["list-panes", "-a", "-F", "#{pane_id}"]);
    let other = world.subject_in(subject.harness, false, pane.lines().last().unwrap());
    let proof = world.look(&other);
    assert_eq!(proof.key_ms, None);
    assert!(Some(attached) < proof.any_key_ms);
}

// H-07: text that the agent itself printed is part of the conversation, wherever it is still displayed.
#[test]
fn words_of_a_crash_that_the_transcript_has_are_no_signature() {
    const NAME: &str = "RangeError: Maximum call stack size exceeded";
    let mut world = World::new();
    let subject = world.crashed();
    world.type_keys("%0", &[&format!("echo {NAME}"), "Enter"]);
    let signature = |world: &mut World| {
        let pane = world.look(&subject).pane;
        let PaneState::Shell { prompt: Some(_), signature, .. } = pane else { return None };
        Some(signature)
    };
    until("its prompt again", || {
        let is_shown = world.text("%0").lines().filter(|line| line.contains(NAME)).count() == 2;
        (is_shown && signature(&mut world).is_some()).then_some(())
    });
    assert_eq!(signature(&mut world), Some(Some(NAME.to_owned())));
    let turn = format!("{{\"type\":\"assistant\",\"message\":{{\"content\":\"{NAME}\"}}}}\n");
    let path = world.path("projects/p/s.jsonl");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &turn).unwrap();
    assert_eq!(signature(&mut world), Some(None));
}

// S0-25f, H-16: after its server is gone, any server that the person started there is accepted, and none
// of its panes is the session's.
#[test]
fn a_restored_session_has_no_pane_on_a_new_server() {
    let mut world = World::new();
    let mut subject = Subject { any_server: true, ..world.crashed() };
    subject.pane.as_mut().unwrap().0.server = process_of(std::process::id());
    let look = world.look_whole(&subject);
    assert_eq!(look.proof.pane, PaneState::Closed);
    assert!(look.session.is_some(), "where its window goes");
}

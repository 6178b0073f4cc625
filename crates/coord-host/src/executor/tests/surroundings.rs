//! Tests what a look at processes, registry and files finds.

use super::*;
use crate::executor::owners;

// H-08: an editor uses the client's terminal; a process that only inherited it does not.
#[test]
fn an_editor_below_a_client_is_a_child() {
    let mut world = World::new();
    let said = world.fifo("said");
    let editor = format!("sh -c 'echo $$ > {said}; exec cat'");
    let quiet = "cat < /dev/zero > /dev/null & helper=$!";
    let more = format!("{quiet}\n{editor}\nkill $helper");
    let client = world.client_with("%0", "\u{1b}[7m ", &more);
    let editor = process_of(line_of(&said).parse().unwrap());
    let proof = world.look(&world.subject(client, true));
    assert_eq!(proof.children, [editor]);
    assert_eq!(proof.pane, at_rest(), "its group is still in front");
    world.type_keys("%0", &["C-d"]);
    world.wait_prompt("%0");
}

// H-33: the tools of a dead harness are still alive.
#[test]
fn a_tool_that_outlived_its_harness_is_a_child() {
    let mut world = World::new();
    let subject = world.crashed();
    assert_eq!(world.look(&subject).children, []);
    let pid = subject.harness.pid.to_string();
    let session = world.session.clone();
    let id = ("CLAUDE_CODE_SESSION_ID", session.as_str());
    let tool = Other::start(&[], &[("A", "b"), id, ("CLAUDE_PID", &pid)]);
    let _of_another = Other::start(&[], &[id, ("CLAUDE_PID", "1")]);
    assert_eq!(world.look(&subject).children, [tool.process]);
    // The conversation was another one when the harness started it.
    let before_clear = Other::start(&[], &[("CLAUDE_CODE_SESSION_ID", "x"), ("CLAUDE_PID", &pid)]);
    let mut both = [tool.process, before_clear.process];
    both.sort();
    assert_eq!(world.look(&subject).children, both);
    // It began before this harness did, so one that had the pid earlier started it.
    let start_time = before_clear.process.start_time + 1;
    let harness = ProcessRef { start_time, ..subject.harness };
    let later = Subject { harness, ..subject.clone() };
    assert_eq!(world.look(&later).children, [tool.process]);
    // It began after another process had got the pid, so that one started it.
    let has_the_pid = Other::start(&[], &[]);
    let later = has_the_pid.process;
    let pid = later.pid.to_string();
    let _of_that = Other::start(&[], &[("CLAUDE_CODE_SESSION_ID", "x"), ("CLAUDE_PID", &pid)]);
    let harness = ProcessRef { start_time: later.start_time - 1, ..later };
    assert_eq!(world.look(&Subject { harness, ..subject }).children, []);
}

// H-13: owners are found by command line and by registry.
#[test]
fn other_owners_are_found() {
    let mut world = World::new();
    let subject = world.crashed();
    let by_command = Other::start(&["claude", "--resume", &world.session], &[]);
    let by_registry = Other::start(&[], &[]);
    world.register(by_registry.process, &world.session, "busy");
    let _forks = Other::start(&["claude", "--resume", &world.session, "--fork-session"], &[]);
    let _prompt = Other::start(&["claude", "--", "--resume", &world.session], &[]);
    let _ours = Other::start(&["coordctl", "resume-exec", "0123"], &[]);
    let mut expected = vec![by_command.process, by_registry.process];
    expected.sort();
    assert_eq!(world.look(&subject).owners, expected);

    // The client moved on to another session.
    world.register(by_command.process, "another", "idle");
    assert_eq!(world.look(&subject).owners, [by_registry.process]);
    // An entry that a dead process left.
    let gone = ProcessRef { start_time: 1, ..by_registry.process };
    world.register(gone, &world.session, "busy");
    assert_eq!(world.look(&subject).owners, []);

    // The harness itself is no other owner.
    let own = Subject { harness: by_command.process, ..subject };
    world.register(own.harness, &world.session, "idle");
    assert_eq!(world.look(&own).owners, []);
    let found = owners(&world.session, &own.config_dir, &Readable::default(), &[]);
    assert_eq!(found, [own.harness]);
}

// H-13: a client's child has the client's command line until it calls exec.
#[test]
fn a_child_that_has_not_called_exec_is_no_owner() {
    let mut world = World::new();
    let crashed = world.crashed();
    let program = format!("sh -c 'echo $$; read x' claude --resume {}", world.session);
    let script = format!("(echo; read x && exec {program}); true");
    let mut client = Other::running(&script, &["claude", "--resume", &world.session], &[]);
    let subject = Subject { harness: client.process, ..crashed };
    let before = world.look_whole(&subject);
    assert_eq!(before.proof.owners, []);

    // The program that it runs takes the session as well.
    client.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let another = process_of(client.line().trim_end().parse().unwrap());
    let after = world.tools.look_since(&subject, &before.table);
    assert_eq!(after.proof.owners, [another]);
}

// H-08, H-35: idle is what the registry says now about exactly this process and session.
#[test]
fn idle_is_what_the_registry_says() {
    let mut world = World::new();
    let client = world.client();
    let subject = world.subject(client, true);
    assert!(world.look(&subject).idle_since_ms.is_some());
    let own = world.session.clone();
    for (session, status) in [(own.as_str(), "busy"), (&own, "dozing"), ("another", "idle")] {
        world.register(client, session, status);
        assert_eq!(world.look(&subject).idle_since_ms, None, "{session} {status}");
    }
    std::fs::remove_file(world.path(&format!("sessions/{}.json", client.pid))).unwrap();
    assert_eq!(world.look(&subject).idle_since_ms, None);
}

// H-13, H-18: another directory with the same name, and another program.
#[test]
fn directory_and_program_are_there_or_not() {
    let mut world = World::new();
    let mut subject = world.subject(process_of(std::process::id()), true);
    subject.pane = None;
    let proof = world.look(&subject);
    assert!(proof.has_cwd && proof.has_program);
    subject.cwd.inode += 1;
    assert!(!world.look(&subject).has_cwd);
    set_permissions(&subject.program, Permissions::from_mode(0o600)).unwrap();
    assert!(!world.look(&subject).has_program);
    subject.program = "coordctl".to_owned();
    assert!(!world.look(&subject).has_program);
}

// H-18
#[test]
fn a_path_of_other_characters_makes_no_line() {
    let mut world = World::new();
    let subject = Subject { pane: None, ..world.subject(process_of(std::process::id()), true) };
    for path in ["/opt/my programs/coordctl", "coordctl", "", "/opt/$x/coordctl", "/opt/a;b"] {
        path.clone_into(&mut world.tools.coordctl);
        assert!(!world.look(&subject).is_line_plain, "{path}");
    }
}

// H-13: the lock is held from look to look, and then released.
#[test]
fn the_transcript_is_locked_until_its_release() {
    let mut world = World::new();
    let subject = Subject { pane: None, ..world.subject(process_of(std::process::id()), true) };
    let mut other = Transcripts::default();
    let readable = Readable::default();
    assert_eq!(world.look(&subject).transcript, TranscriptState::Held);
    assert_eq!(world.look(&subject).transcript, TranscriptState::Held);
    assert_eq!(other.look(&readable, &subject), TranscriptState::Locked);
    let release = coord_model::Action::Release { session_id: world.session.clone() };
    assert_eq!(world.tools.do_action(release), None);
    assert_eq!(other.look(&readable, &subject), TranscriptState::Held);
    assert_eq!(world.look(&subject).transcript, TranscriptState::Locked);
}

// H-13, H-40: a look at a session at rest leads to no act, and locks its transcript for nobody.
#[test]
fn a_look_at_a_session_at_rest_keeps_no_lock() {
    let mut world = World::new();
    let subject = Subject { pane: None, ..world.subject(process_of(std::process::id()), true) };
    let intent = coord_model::Intent { session: coord_model::SessionKey(1), number: 1 };
    for (reads_last_words, left) in
        [(true, TranscriptState::Held), (false, TranscriptState::Locked)]
    {
        let subject = Subject { reads_last_words, ..subject.clone() };
        let prove = coord_model::Action::Prove { intent, subject: subject.clone() };
        assert!(world.tools.do_action(prove).is_some());
        let mut other = Transcripts::default();
        assert_eq!(other.look(&Readable::default(), &subject), left);
    }
}

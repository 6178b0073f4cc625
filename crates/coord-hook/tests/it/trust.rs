//! Whom a hook believes: not the environment, not another user's files, not a stranger's socket.

use crate::world::{
    self, Answer, Ended, NO_CONTENT, SESSION_START, STOP, World, envelope, payload_of,
};
use coord_model::Kind;
use coord_wire::limits::MISS_MEMORY;
use std::io::IsTerminal as _;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a hook as the child of a harness that was started with `started_with`; `project` is what the
/// project's settings add to the environment of hooks.
fn under_harness(world: &World, started_with: &str, project: &str) -> Ended {
    let mut command = world.bare_command("/usr/bin/env");
    command.args(started_with.split_ascii_whitespace());
    let script = format!("{project} CLAUDE_PID=$$ CLAUDECODE=1 {STOP} --root \"$0\"; exit $?");
    command.args(["/bin/sh", "-c", &script]).arg(world.dir.path());
    world::run(&mut command, payload_of("Stop"))
}

// H-24
#[test]
fn a_project_cannot_switch_hooks_off() {
    let world = World::new();
    under_harness(&world, "", "COORD_DISABLE=1").assert_silent();
    assert_eq!(world.spooled().len(), 1);
    under_harness(&world, "COORD_DISABLE=0", "COORD_DISABLE=1").assert_silent();
    assert_eq!(world.spooled().len(), 2);
    under_harness(&world, "COORD_DISABLE=1", "").assert_silent();
    assert_eq!(world.spooled().len(), 2, "the user switched them off");
}

// H-24
#[test]
fn a_project_cannot_move_the_state_elsewhere() {
    let (installed, other) = (World::new(), World::new());
    let elsewhere = format!("COORD_HOME={}", other.dir.path().display());
    under_harness(&installed, "", &elsewhere).assert_silent();
    assert_eq!((installed.spooled().len(), other.spooled().len()), (1, 0));
    under_harness(&installed, &elsewhere, "").assert_silent();
    assert_eq!((installed.spooled().len(), other.spooled().len()), (1, 1));
}

// H-48: the directories of the arguments count, whatever the environment says; also that of the
// harness, which a shell or direnv may have set.
#[test]
fn no_variable_moves_the_state_elsewhere() {
    let (installed, other) = (World::new(), World::new());
    let _planted = UnixListener::bind(other.paths.socket()).unwrap();
    let elsewhere = other.dir.path().join("state");
    std::os::unix::fs::symlink(&other.paths.state_base, elsewhere.join("coord")).unwrap();
    let variables = [
        ("COORD_HOME", other.dir.path().to_owned()),
        ("HOME", other.dir.path().to_owned()),
        ("XDG_STATE_HOME", elsewhere.clone()),
        ("XDG_CONFIG_HOME", elsewhere.clone()),
        ("XDG_RUNTIME_DIR", other.dir.path().to_owned()),
    ];
    for with_root in [true, false] {
        let mut command = installed.bare_command(STOP);
        command.args(installed.arguments().iter().skip(if with_root { 0 } else { 2 }));
        command.envs(variables.clone());
        world::run(&mut command, payload_of("Stop")).assert_silent();
    }
    assert_eq!((installed.spooled().len(), other.spooled().len()), (2, 0));
    // Without the arguments these variables lead to the other place.
    let mut command = installed.bare_command(STOP);
    command.envs(variables.into_iter().filter(|(name, _)| name.starts_with("XDG")));
    world::run(&mut command, payload_of("Stop")).assert_silent();
    assert_eq!((installed.spooled().len(), other.spooled().len()), (2, 1));
}

// An event that a directory cannot take is lost, and that is said.
#[test]
fn a_state_directory_that_cannot_be_used_is_an_error() {
    let world = World::new();
    std::fs::remove_dir_all(&world.paths.state).unwrap();
    std::fs::write(&world.paths.state, "").unwrap();
    for hook in world::HOOKS {
        world.run(hook, payload_of("Stop")).assert_lost("the state directory cannot be used");
    }
    std::fs::remove_file(&world.paths.state).unwrap();
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert!(!world.paths.state.exists(), "a directory that is not there leaves the hook inert");

    let mut command = world.bare_command(STOP);
    command.args(["--config", "/c", "--state", "state"]);
    let ended = world::run(&mut command, payload_of("Stop"));
    ended.assert_lost("the state directory cannot be used");

    // Root enters every directory.
    std::fs::create_dir(&world.paths.state).unwrap();
    world::set_mode(&world.paths.state_base, 0o000);
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = world.bare_command("/usr/bin/setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--", STOP]);
        command
    } else {
        world.bare_command(STOP)
    };
    command.args(world.arguments());
    let ended = world::run(&mut command, payload_of("Stop"));
    world::set_mode(&world.paths.state_base, 0o700);
    ended.assert_lost("the state directory cannot be used");
}

// H-24: a client that names a process which is none of ours proves nothing.
#[test]
fn a_claimed_harness_must_be_an_ancestor() {
    let world = World::new();
    // It waits for its standard input to end; pid 1 would be an ancestor wherever the chain is short.
    let mut stranger = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
    let mut command = world.command(STOP);
    command.env("CLAUDE_PID", stranger.id().to_string()).env("COORD_DISABLE", "1");
    world::run(&mut command, payload_of("Stop")).assert_silent();
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
    assert_eq!(envelope(&world.spooled()).harness, None);
}

// By hand and in tests, where no client is involved, the variables count as they are.
#[test]
fn without_a_client_the_environment_counts() {
    let world = World::new();
    let mut command = world.bare_command(STOP);
    command.env("COORD_HOME", world.dir.path());
    world::run(&mut command, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
    command.env("COORD_DISABLE", "1");
    world::run(&mut command, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
    command.env("CLAUDE_CODE_ENTRYPOINT", "cli");
    command.arg("--root").arg(world.dir.path());
    world::run(&mut command, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 2);
}

// R-09, H-15, H-16
#[test]
fn the_harness_and_its_terminal_are_read_from_the_process_table() {
    let world = World::new();
    let me = std::process::id();
    let mut command = world.command(SESSION_START);
    command.env("CLAUDE_PID", me.to_string()).env("CLAUDE_CODE_SESSION_ATTENDED", "1");
    command.env("TMUX", format!("/tmp/tmux-0/default,{me},0")).env("TMUX_PANE", "%7");
    command.env("CLAUDE_CONFIG_DIR", "/c").env("CLAUDE_CODE_MESSAGING_TOKEN", "T0ken");
    world::run(&mut command, payload_of("SessionStart")).assert_silent();
    let spooled = world.spooled();
    //
    assert!(!String::from_utf8_lossy(&spooled[0]).contains("T0ken"));
    let envelope = envelope(&spooled);
    let harness = envelope.harness.unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let field = |n: usize| stat.rsplit(") ").next().unwrap().split(' ').nth(n - 3).unwrap();
    assert_eq!(harness.pid, me);
    assert_eq!(harness.start_time.to_string(), field(22));
    assert_eq!(harness.tty.to_string(), field(7));
    assert_eq!(Some(harness.pid_ns), coord_wire::exchange::pid_namespace());
    let is_seen = field(7) != "0" && std::io::stdout().is_terminal();
    let headless = !is_seen || std::env::args().any(|a| a == "-p" || a == "--print");
    let kind = if headless { Kind::Headless } else { Kind::Interactive };
    assert_eq!(harness.kind, Some(kind), "a variable does not decide it");
    let tmux = envelope.tmux.unwrap();
    assert_eq!((tmux.socket.as_str(), tmux.pane.as_str()), ("/tmp/tmux-0/default", "%7"));
    assert_eq!(tmux.server_start, harness.start_time);
    assert_eq!(envelope.config_dir, "/c");
    assert_eq!(envelope.machine, world.machine);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(envelope.boot, boot.trim());
}

// G7, H-29: not installed, or installed by another user.
#[test]
fn inert_where_coord_is_not_ours() {
    let nowhere = tempfile::tempdir().unwrap();
    let world = World::new();
    for root in [nowhere.path().as_os_str(), "relative".as_ref()] {
        let mut command = world.bare_command(STOP);
        command.arg("--root").arg(root);
        world::run(&mut command, payload_of("Stop")).assert_silent();
    }
    world::run(&mut world.bare_command(STOP), payload_of("Stop")).assert_silent();
    assert_eq!(std::fs::read_dir(nowhere.path()).unwrap().count(), 0);

    if rustix::process::geteuid().is_root() {
        chown(&world.paths.state, Some(12345), None).unwrap();
        world.run(STOP, payload_of("Stop")).assert_silent();
        assert!(world.spool_files().is_empty());
    }
}

// G11, H-27: a socket in a directory that others may write to could be anybody's.
#[test]
fn a_run_directory_of_others_is_not_used() {
    let world = World::new();
    let _listener = UnixListener::bind(world.paths.socket()).unwrap();
    world::set_mode(&world.paths.run, 0o777);
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
    assert!(!world.paths.miss().exists());
}

// H-15: a coordinator outside the hook's pid namespace is not used.
#[test]
fn a_coordinator_of_another_pid_namespace_is_not_used() {
    let world = World::new();
    let bodies = world.coordinator(Answer::Text(NO_CONTENT));
    let mut command = world.bare_command("unshare");
    let flags = if rustix::process::geteuid().is_root() { "-pf" } else { "-rpf" };
    command.args([flags, STOP, "--root"]).arg(world.dir.path());
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    world::run(&mut command, payload_of("Stop")).assert_silent();
    assert!(bodies.try_recv().is_err(), "it was not even told");
    assert_eq!(world.spooled().len(), 1);
    world.run(STOP, payload_of("Stop")).assert_silent();
    envelope(&[bodies.recv().unwrap()]);
}

// H-15: nor one that does not see the hook.
#[test]
fn a_coordinator_that_refuses_the_hook_does_not_have_the_event() {
    let world = World::new();
    let _bodies =
        world.coordinator(Answer::Text("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
}

// H-37: after a miss hooks do not even try, for a while.
#[test]
fn a_miss_is_remembered_and_forgotten() {
    let world = World::new();
    let bodies = world.coordinator(Answer::Text(NO_CONTENT));
    let note = std::fs::File::create(world.paths.miss()).unwrap();
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
    let old = note.metadata().unwrap().modified().unwrap() - MISS_MEMORY - Duration::from_secs(1);
    note.set_modified(old).unwrap();
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 1);
    envelope(&[bodies.recv().unwrap()]);
}

// H-31
#[test]
fn ids_are_ordered_by_time_and_unique() {
    let world = World::new();
    for _ in 0..20 {
        world.run(STOP, payload_of("Stop")).assert_silent();
    }
    let envelopes: Vec<_> =
        world.spooled().iter().map(|body| envelope(std::slice::from_ref(body))).collect();
    for pair in envelopes.windows(2) {
        assert!(pair[0].mono_ns < pair[1].mono_ns);
        assert_ne!(pair[0].id, pair[1].id);
        assert!(pair[0].id[..12] <= pair[1].id[..12]);
    }
}

// Names are never resolved: nothing that does is linked in.
#[test]
fn no_name_resolution_is_linked_in() {
    for hook in world::HOOKS {
        let program = std::fs::read(hook).unwrap();
        for trace in ["nsswitch.conf", "/etc/resolv.conf", "getaddrinfo", "getpwuid_r"] {
            let found = program.windows(trace.len()).any(|bytes| bytes == trace.as_bytes());
            assert!(!found, "{trace} in {hook}");
        }
    }
}

//! The spool under the hooks: many writers, stopped and killed ones, no room, no right.
#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{self, EVENT, SESSION_START, STOP, World, envelope, payload_of, records};
use coord_wire::frame;
use coord_wire::limits::{SPOOL_BYTES_MAX, SPOOL_SESSION_BYTES_MAX};
use coord_wire::spool::{
    CURRENT, FOLDED_AT, HEADER_BYTES, HEADER_MAGIC, RECORDS_AT, SOLO_PREFIX, share_at,
};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

fn current(world: &World) -> File {
    OpenOptions::new().read(true).write(true).open(world.paths.spool().join(CURRENT)).unwrap()
}

// G1: hooks that have `current` open and wait for its lock, while the coordinator takes it away.
#[test]
fn appends_around_a_rename_lose_nothing() {
    const HOOKS: usize = 4;
    const TURNS: usize = 10;
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let mut taken = Vec::new();
    for turn in 0..TURNS {
        let held = current(&world);
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let mut children: Vec<_> =
            (0..HOOKS).map(|_| world.command(STOP).spawn().unwrap()).collect();
        for (i, child) in children.iter_mut().enumerate() {
            let payload = format!(r#"{{"session_id":"s-{turn}-{i}","hook_event_name":"Stop"}}"#);
            child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
        }
        while !children
            .iter_mut()
            .any(|child| child.try_wait().unwrap().is_some() || has_open(child.id(), &world))
        {
            std::thread::yield_now();
        }
        // As the coordinator does it: away under the lock, taken in, removed.
        let drain = world.paths.spool().join(format!("drain-{turn}"));
        std::fs::rename(world.paths.spool().join(CURRENT), &drain).unwrap();
        taken.extend(records(&std::fs::read(&drain).unwrap(), HEADER_BYTES));
        std::fs::remove_file(drain).unwrap();
        drop(held);
        for child in children {
            world::ended(child).assert_silent();
        }
        // Where every hook lost patience there is no new file yet.
        world.run(STOP, payload_of("Stop")).assert_silent();
    }
    taken.extend(world.spooled());
    let ids: BTreeSet<_> =
        taken.iter().map(|body| envelope(std::slice::from_ref(body)).id).collect();
    let n = 1 + TURNS * (HOOKS + 1);
    assert_eq!((taken.len(), ids.len()), (n, n));
}

/// Whether the process has the spool's current file open.
fn has_open(pid: u32, world: &World) -> bool {
    let current = world.paths.spool().join(CURRENT);
    let Ok(mut open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.any(|fd| {
        fd.is_ok_and(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path == current))
    })
}

// H-37: a hook that was stopped in the middle keeps the lock; the others go on.
#[test]
fn a_lock_that_is_never_released_costs_nobody_an_event() {
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let held = current(&world);
    flock(&held, FlockOperation::LockExclusive).unwrap();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let files = world.spool_files();
    let solo: Vec<_> = files.iter().filter(|(name, _)| name.starts_with(SOLO_PREFIX)).collect();
    assert_eq!(solo.len(), 1);
    assert_eq!(world.spooled().len(), 2);
    let event = envelope(&records(&solo[0].1, 0));
    assert_eq!(solo[0].0, format!("{SOLO_PREFIX}{}", event.id));
    drop(held);
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.counter(RECORDS_AT), 2);
}

// H-29: files of their own have a limit too, and turn edges come last.
#[test]
fn solo_files_are_limited() {
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let held = current(&world);
    flock(&held, FlockOperation::LockExclusive).unwrap();
    for i in 0..1000 {
        std::fs::write(world.paths.spool().join(format!("{SOLO_PREFIX}{i}")), "").unwrap();
    }
    world.run(EVENT, payload_of("Notification")).assert_lost("the spool is full");
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 2);
}

// G1: what a killed writer leaves costs only its own record.
#[test]
fn a_torn_record_loses_only_itself() {
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let torn = frame::head(&[b'x'; 500]);
    OpenOptions::new()
        .append(true)
        .open(world.paths.spool().join(CURRENT))
        .unwrap()
        .write_all(&[&torn[..], b"{\"v\":1,\"id"].concat())
        .unwrap();
    world.run(EVENT, payload_of("SessionEnd")).assert_silent();
    let events: Vec<_> =
        world.spooled().iter().map(|body| envelope(std::slice::from_ref(body)).event).collect();
    assert_eq!(events, ["Stop", "SessionEnd"]);
}

// G1: killed between the creation of the file and the end of its header.
#[test]
fn half_a_header_is_made_whole() {
    let world = World::new();
    world.make_spool();
    for half in [&b""[..], b"CRD", &[&HEADER_MAGIC[..], &[0; 900]].concat()] {
        std::fs::write(world.paths.spool().join(CURRENT), half).unwrap();
        world.run(STOP, payload_of("Stop")).assert_silent();
        assert_eq!(world.spooled().len(), 1);
    }
}

#[test]
fn a_file_that_is_no_spool_is_left_alone() {
    let world = World::new();
    world.make_spool();
    let foreign = [b'x'; 2 * HEADER_BYTES];
    std::fs::write(world.paths.spool().join(CURRENT), foreign).unwrap();
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(std::fs::read(world.paths.spool().join(CURRENT)).unwrap(), foreign);
    assert_eq!(world.spooled().iter().filter(|r| r.starts_with(b"{\"v\"")).count(), 1);
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["000", "777"] {
        let world = World::new();
        let mut command = world.bare_command("/bin/sh");
        command.arg("-c").arg(format!("umask {umask}; exec {STOP} --root \"$0\""));
        command.arg(world.dir.path());
        world::run(&mut command, payload_of("Stop")).assert_silent();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(world.paths.spool()), 0o700);
        assert_eq!(mode(world.paths.spool().join(CURRENT)), 0o600);
    }
}

// H-29: a session has a share, and the number of records a limit.
#[test]
fn shares_and_records_are_limited() {
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let at = share_at("s-1");
    current(&world).write_all_at(&SPOOL_SESSION_BYTES_MAX.to_le_bytes(), at).unwrap();
    world.run(EVENT, payload_of("PreToolUse")).assert_silent();
    world.run(EVENT, payload_of("Notification")).assert_lost("the spool is full");
    world.run(EVENT, payload_of("SessionEnd")).assert_silent();
    let other = payload_of("Notification").replace("s-1", "s-2");
    world.run(EVENT, &other).assert_silent();
    current(&world).write_all_at(&100_000u64.to_le_bytes(), RECORDS_AT).unwrap();
    world.run(EVENT, other.replace("Notification", "PostToolUse")).assert_silent();
    world.run(EVENT, other).assert_lost("the spool is full");
    assert_eq!(world.counter(FOLDED_AT), 2);
    assert_eq!(world.spooled().len(), 3);

    current(&world).set_len(SPOOL_BYTES_MAX).unwrap();
    assert_eq!(world.run(STOP, payload_of("Stop")).code, Some(1));
}

// Exit 1: neither coordinator nor spool.
#[test]
fn an_unusable_spool_is_said() {
    let world = World::new();
    std::fs::write(world.paths.spool(), "in the way").unwrap();
    world.run(STOP, payload_of("Stop")).assert_lost("the spool cannot be written");

    let world = World::new();
    std::os::unix::fs::symlink("/tmp", world.paths.spool()).unwrap();
    world.run(STOP, payload_of("Stop")).assert_lost("the spool cannot be written");

    let world = World::new();
    world.make_spool();
    std::os::unix::fs::symlink("/tmp/x", world.paths.spool().join(CURRENT)).unwrap();
    world.run(STOP, payload_of("Stop")).assert_lost("the spool cannot be written");

    let world = World::new();
    world.make_spool();
    world::set_mode(&world.paths.spool(), 0o777);
    world.run(STOP, payload_of("Stop")).assert_lost("the spool cannot be written");
}

// H-27: a FIFO in the file's place neither blocks nor is written to.
#[test]
fn a_fifo_does_not_hold_a_hook_up() {
    let world = World::new();
    world.make_spool();
    let fifo = world.paths.spool().join(CURRENT);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    world.run(STOP, payload_of("Stop")).assert_lost("the spool cannot be written");
}

// A full disk: the file is as it was, and the loss is said once a minute per session.
#[test]
fn a_full_disk_leaves_the_spool_whole() {
    // A limit on the size of files stands in for the disk: the record does not fit.
    let world = World::new();
    world.run(STOP, payload_of("Stop")).assert_silent();
    let size = current(&world).metadata().unwrap().size();
    let run = |session: &str| {
        let mut command = world.bare_command("/bin/sh");
        let script = format!("ulimit -f 3; exec {SESSION_START} --root \"$0\"");
        command.arg("-c").arg(script).arg(world.dir.path());
        let long = format!(
            r#"{{"session_id":"{session}","hook_event_name":"SessionStart","cwd":"/{}"}}"#,
            "d".repeat(3000)
        );
        world::run(&mut command, long)
    };
    run("s-1").assert_lost("the spool cannot be written");
    let again = run("s-1");
    assert_eq!((again.code, again.stderr.as_str()), (Some(1), ""));
    assert_eq!(current(&world).metadata().unwrap().size(), size);
    world.run(STOP, payload_of("Stop")).assert_silent();
    assert_eq!(world.spooled().len(), 2);
}

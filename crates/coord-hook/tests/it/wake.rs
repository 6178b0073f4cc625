//! The wake hook beside a harness of a few lines of shell, on a terminal of its own (H-02).

#![expect(clippy::unwrap_used, reason = "a test fails where its ground is missing")]

use crate::world::{self, Ended, World, payload_of, request_body};
use coord_wire::limits::WAKE_BYTES_MAX;
use std::fs::read_to_string;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WAKE: &str = env!("CARGO_BIN_EXE_coord-hook-wake");

/// How the harness runs the hook: the hook is its child. Some shells turn their own output aside for a
/// command that they wait for at once.
const AS_CHILD: &str = "$HOOK <payload >out 2>err & wait $!; echo $? >code";

/// A harness.
struct Harness<'a> {
    world: &'a World,
    /// What its own arguments and environment are.
    arguments: &'a str,
    environment: &'a [(&'a str, &'a str)],
    /// Its script.
    script: &'a str,
    /// Where its output goes, if not to its terminal.
    output: &'a str,
}

impl<'a> Harness<'a> {
    fn new(world: &'a World) -> Self {
        Self { world, arguments: "", environment: &[], script: AS_CHILD, output: "" }
    }

    /// Runs it to its end.
    #[track_caller]
    fn run(&self) -> Ended {
        self.run_with("script", |path| {
            vec![
                "-qec".into(),
                format!("exec sh {path} {}{}", self.arguments, self.output),
                "/dev/null".into(),
            ]
        })
    }

    /// The same without a terminal.
    #[track_caller]
    fn run_without_terminal(&self) -> Ended {
        self.run_with("setsid", |path| {
            vec!["-w".into(), "sh".into(), "-c".into(), format!("exec sh {path}")]
        })
    }

    #[track_caller]
    fn run_with(&self, program: &str, arguments: impl FnOnce(&str) -> Vec<String>) -> Ended {
        let dir = self.world.dir.path();
        std::fs::write(dir.join("payload"), payload_of("Stop")).unwrap();
        let hook = format!("{WAKE} --root {}", dir.display());
        let script = format!(
            "cd {}\nexport CLAUDE_PID=$$ CLAUDECODE=1\nHOOK='{hook}'\n{}\n",
            dir.display(),
            self.script
        );
        std::fs::write(dir.join("harness"), script).unwrap();
        let mut command = Command::new(program);
        command.args(arguments(dir.join("harness").to_str().unwrap()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("SHELL", "/bin/sh").env("HOME", dir).envs(self.environment.iter().copied());
        assert!(command.status().unwrap().success());
        let read = |name: &str| read_to_string(dir.join(name)).unwrap();
        Ended { code: read("code").trim().parse().ok(), stdout: read("out"), stderr: read("err") }
    }
}

/// A coordinator that does `answer` with each waiter; how many there were is told at its end.
fn coordinator(world: &World, answer: impl Fn(&str, &mut UnixStream) + Send + 'static) -> Asked {
    let socket = world.paths.socket();
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(body) = request_body(&mut stream) else { return asked };
            let body = String::from_utf8(body).unwrap();
            answer(&body, &mut stream);
            asked.push(body);
        }
        asked
    });
    Asked { socket, thread }
}

struct Asked {
    socket: PathBuf,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Asked {
    fn all(self) -> Vec<String> {
        // A connection without a request ends it.
        drop(UnixStream::connect(self.socket).unwrap());
        self.thread.join().unwrap()
    }
}

fn tell(stream: &mut UnixStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    // Who ended early is seen elsewhere.
    let _ended = stream.write_all(&[head.as_bytes(), body].concat());
}

/// The fields of `/proc/PID/stat` behind the name: state, parent, group, session, terminal.
fn stat(pid: u64) -> Vec<String> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_whitespace().map(str::to_owned).collect()
}

// H-02: the message, whole, on standard error, and 2.
#[test]
fn a_message_goes_to_standard_error_with_exit_2() {
    for text in ["[coord] Go on.\nSecond line \u{2744}".to_owned(), "x".repeat(WAKE_BYTES_MAX)] {
        let world = World::new();
        let message = text.clone();
        let asked =
            coordinator(&world, move |_, stream| tell(stream, "200 OK", message.as_bytes()));
        let ended = Harness::new(&world).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        assert!(ended.stderr == text, "{} bytes of {}", ended.stderr.len(), text.len());
        assert_eq!(asked.all().len(), 1);
    }
}

// H-02, H-25: what it says of itself can be checked; H-08: while it waits it has no terminal, and
// holds no directory.
#[test]
fn a_waiter_is_a_child_without_a_terminal() {
    let world = World::new();
    let asked = coordinator(&world, |body, stream| {
        let ask: serde_json::Value = serde_json::from_str(body).unwrap();
        let (pid, harness) =
            (ask["pid"].as_u64().unwrap(), ask["harness"]["pid"].as_u64().unwrap());
        let (own, parent) = (stat(pid), stat(harness));
        assert_eq!(own[1], harness.to_string());
        assert_eq!(ask["harness"]["start_time"], parent[19]);
        assert_eq!((own[3].as_str(), own[4].as_str()), (pid.to_string().as_str(), "0"));
        assert_ne!(parent[4], "0", "the harness has one");
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), PathBuf::from("/"));
        tell(stream, "204 No Content", b"");
    });
    Harness::new(&world).run().assert_silent();
    let session = serde_json::from_str::<serde_json::Value>(&asked.all()[0]).unwrap();
    let payload: serde_json::Value = serde_json::from_slice(payload_of("Stop").as_ref()).unwrap();
    assert_eq!(session["session_id"], payload["session_id"]);
}

// H-02: whatever else the coordinator does ends the wait, without a word.
#[test]
fn all_other_answers_end_it_silently() {
    let too_long = vec![b'x'; WAKE_BYTES_MAX + 1];
    for (status, body) in [
        ("204 No Content", &b""[..]),
        ("200 OK", b""),
        ("403 Forbidden", b"{\"error\": {}}"),
        ("503 Service Unavailable", b"later"),
        ("200 OK", &too_long),
    ] {
        let world = World::new();
        let body = body.to_owned();
        let asked = coordinator(&world, move |_, stream| tell(stream, status, &body));
        Harness::new(&world).run().assert_silent();
        assert_eq!(asked.all().len(), 1, "{status}");
    }
    for half in ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "noise\r\n\r\n"] {
        let world = World::new();
        let asked =
            coordinator(&world, move |_, stream| stream.write_all(half.as_bytes()).unwrap());
        Harness::new(&world).run().assert_silent();
        assert_eq!(asked.all().len(), 1, "{half}");
    }
}

#[track_caller]
fn assert_nobody_asks(run: impl FnOnce(&World) -> Ended) {
    let world = World::new();
    let asked = coordinator(&world, |_, stream| tell(stream, "200 OK", b"wake up"));
    run(&world).assert_silent();
    assert_eq!(asked.all(), Vec::<String>::new());
    assert!(world.spool_files().is_empty());
}

// H-02: only beside a person, judged from the harness itself.
#[test]
fn a_run_without_a_person_is_left_alone() {
    for arguments in ["-p", "--model x --print hello"] {
        assert_nobody_asks(|world| Harness { arguments, ..Harness::new(world) }.run());
    }
    assert_nobody_asks(|world| Harness::new(world).run_without_terminal());
    // Its arguments do not say so, but a client without a screen is one of these.
    for output in [" | cat", " > /dev/null"] {
        assert_nobody_asks(|world| Harness { output, ..Harness::new(world) }.run());
    }
    // A prompt behind `--` is no option; the proof that somebody would ask.
    let world = World::new();
    let asked = coordinator(&world, |_, stream| tell(stream, "204 No Content", b""));
    let arguments = "--model x -- -p";
    Harness { arguments, ..Harness::new(&world) }.run().assert_silent();
    assert_eq!(asked.all().len(), 1);
}

// H-25: the coordinator believes a child only, and only a child's exit code reaches the client.
#[test]
fn it_waits_beside_its_parent_only() {
    let script = "sh -c \"$HOOK <payload >out 2>err & wait \\$!; echo \\$? >code\" & wait";
    assert_nobody_asks(|world| Harness { script, ..Harness::new(world) }.run());
    let script = "unset CLAUDE_PID\n$HOOK <payload >out 2>err & wait $!; echo $? >code";
    assert_nobody_asks(|world| Harness { script, ..Harness::new(world) }.run());
}

// H-24, G7: switched off, with other input than a payload, and where nothing is installed.
#[test]
fn where_it_has_no_business_it_is_inert() {
    let environment = [("COORD_DISABLE", "1")];
    assert_nobody_asks(|world| Harness { environment: &environment, ..Harness::new(world) }.run());
    let script =
        "echo '{\"session_id\": 7' >payload\n$HOOK <payload >out 2>err & wait $!; echo $? >code";
    assert_nobody_asks(|world| Harness { script, ..Harness::new(world) }.run());
    assert_nobody_asks(|world| {
        std::fs::remove_dir_all(&world.paths.state).unwrap();
        Harness::new(world).run()
    });
    // Of a socket in a directory that others may write to nobody knows whose it is.
    assert_nobody_asks(|world| {
        world::set_mode(&world.paths.run, 0o777);
        Harness::new(world).run()
    });
}

// U-08: a coordinator that ends without an answer is followed by another one, which is asked the same.
#[test]
fn the_next_coordinator_is_asked() {
    for is_there_at_once in [true, false] {
        let world = World::new();
        let (socket, moved) = (world.paths.socket(), world.paths.run.join("new"));
        let listener = UnixListener::bind(&socket).unwrap();
        let coordinators = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            let asked = request_body(&mut first).unwrap();
            let next = || {
                // As a coordinator does: it listens, and then takes the place of the socket.
                let next = UnixListener::bind(&moved).unwrap();
                std::fs::rename(&moved, &socket).unwrap();
                next
            };
            drop(listener);
            let listener = if is_there_at_once {
                let listener = next();
                drop(first);
                listener
            } else {
                std::fs::remove_file(&socket).unwrap();
                drop(first);
                next()
            };
            let (mut second, _) = listener.accept().unwrap();
            assert_eq!(request_body(&mut second).unwrap(), asked);
            tell(&mut second, "200 OK", b"hello");
        });
        let ended = Harness::new(&world).run();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), "hello"));
        coordinators.join().unwrap();
    }
}

// U-08: with its harness, or the directory of coordinators, the wait for another one ends.
#[test]
fn without_a_next_coordinator_it_ends_with_its_harness() {
    let world = World::new();
    let (socket, run) = (world.paths.socket(), world.paths.run.clone());
    let listener = UnixListener::bind(&socket).unwrap();
    let coordinator = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        request_body(&mut first).unwrap();
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
        drop(first);
        std::fs::remove_dir_all(&run).unwrap();
    });
    Harness::new(&world).run().assert_silent();
    coordinator.join().unwrap();
}

// H-02: without a coordinator it ends, keeps nothing and starts none.
#[test]
fn without_a_coordinator_it_ends() {
    let world = World::new();
    Harness::new(&world).run().assert_silent();
    std::fs::remove_dir_all(&world.paths.run).unwrap();
    Harness::new(&world).run().assert_silent();
    assert!(world.spool_files().is_empty());
}

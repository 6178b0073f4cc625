//! The channel `desktop`: the real `notify-send`, on a bus of the test's own, with dunst as the notification server
//! and a virtual screen for it.

use crate::command::script;
use crate::sender::{
    LINE, Sent, directory, notice, program, request, send, send_with, tell, text, withdrawal,
};
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use coord_wire::notice::{Channel, Notice, NoticeEvent};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A bus, a screen, and a notification server that prints what it shows. Each is killed when it is dropped.
struct Desktop {
    dunst: Running,
    bus: Running,
    _screen: Running,
    _directory: TempDir,
}

impl Desktop {
    #[track_caller]
    fn start() -> Self {
        let directory = directory();
        let start = |name: &str, arguments: &[&str], variables: &[(&str, &str)]| {
            let mut command = Command::new(program(name));
            command.env_clear().envs(variables.iter().copied()).env("HOME", directory.path());
            command.args(arguments).stdin(Stdio::null());
            Running::start(command, directory.path(), name)
        };
        let path = format!("--address=unix:path={}", text(&directory.path().join("bus")));
        let bus = start("dbus-daemon", &["--session", "--nofork", "--print-address=1", &path], &[]);
        let screen = ["-displayfd", "1", "-nolisten", "tcp", "-screen", "0", "640x480x24"];
        let screen = start("Xvfb", &screen, &[]);
        let address = first_line(&bus);
        let display = format!(":{}", first_line(&screen));
        std::fs::write(directory.path().join("dunstrc"), "[global]\n").unwrap();
        let config = text(&directory.path().join("dunstrc"));
        let variables = [("DBUS_SESSION_BUS_ADDRESS", address.as_str()), ("DISPLAY", &display)];
        let dunst = start("dunst", &["-conf", &config, "-print"], &variables);
        let desktop = Self { dunst, bus, _screen: screen, _directory: directory };
        wait_until("dunst is on the bus", || {
            let mut ask = Command::new(program("dbus-send"));
            ask.env_clear().env("DBUS_SESSION_BUS_ADDRESS", desktop.address());
            ask.args(["--session", "--print-reply", "--dest=org.freedesktop.DBus", "/"]);
            ask.arg("org.freedesktop.DBus.NameHasOwner")
                .arg("string:org.freedesktop.Notifications");
            let said = ask.output().unwrap();
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            if said.contains("boolean true") { Ok(()) } else { Err((said, desktop.dunst.output())) }
        });
        desktop
    }

    fn address(&self) -> String {
        first_line(&self.bus)
    }

    #[track_caller]
    fn tell(&self, notice: Notice, line: &str, handle: Option<&str>) -> Sent {
        let request = request(channel(&program("notify-send")), tell(notice, line, handle));
        send_with(&request, &[("DBUS_SESSION_BUS_ADDRESS", &self.address())])
    }

    /// What was shown so far: as many as `n`, each with its fields.
    #[track_caller]
    fn shown(&self, n: usize) -> Vec<String> {
        wait_until("dunst shows it", || {
            let [out, _] = self.dunst.output();
            let whole = out.rfind("\n}\n").map_or("", |end| &out[..end]);
            let shown: Vec<String> = whole.split("\n}\n").map(str::to_owned).collect();
            if !whole.is_empty() && shown.len() == n { Ok(shown) } else { Err(out) }
        })
    }
}

#[track_caller]
fn first_line(running: &Running) -> String {
    wait_until("it prints a line", || {
        let [out, error] = running.output();
        out.split_once('\n').map(|(line, _)| line.to_owned()).ok_or(error)
    })
}

fn channel(program: &str) -> Channel {
    Channel::Desktop { program: program.to_owned() }
}

// N-02
#[test]
fn a_notification_is_shown_replaced_and_withdrawn() {
    let desktop = Desktop::start();
    let answer = desktop.tell(notice(), LINE, None).sent();
    assert_eq!((answer.saying.as_str(), answer.tries), ("shown", 1));
    let id = answer.handle.unwrap();
    let repeat =
        desktop.tell(notice(), "coord: parser asks to run Bash (work:api.1, 10m)", Some(&id));
    assert_eq!(repeat.sent().handle.as_deref(), Some(id.as_str()), "the earlier one is replaced");
    let other = desktop.tell(Notice { event: NoticeEvent::Test, ..notice() }, "-x; y", None).sent();
    assert_ne!(other.handle.as_deref(), Some(id.as_str()));
    assert_eq!(desktop.tell(withdrawal(), LINE, Some(&id)).sent().saying, "withdrawn");
    let shown = desktop.shown(4);
    let has = |at: usize, field: &str| {
        assert!(shown[at].contains(field), "{field}: {}", shown[at]);
    };
    has(0, "appname: 'coord'");
    has(0, "summary: 'parser asks to run Bash'");
    has(0, "body: '~/src/parser · tmux work:api.1 · waits 20s'");
    has(0, "urgency: NORMAL");
    has(2, "summary: '-x'");
    has(3, "summary: 'parser: answered at the terminal'");
    has(3, "timeout: 2000");
    for at in [0, 1, 3] {
        has(at, &format!("\tid: {id}\n"));
    }
}

// H-26
#[test]
fn nothing_in_a_body_is_markup_or_an_escape() {
    let desktop = Desktop::start();
    let directory = "<b>x</b> & \\033[31m \\n \u{1b}[2J\u{202e}".to_owned();
    let hostile = Notice { directory: Some(directory), place: None, age_s: None, ..notice() };
    desktop.tell(hostile, "coord: <i>t</i> \\n\u{1b}", None).sent();
    let shown = desktop.shown(1).remove(0);
    let body = "body: '&lt;b&gt;x&lt;/b&gt; &amp; \\033[31m \\n \u{fffd}[2J'";
    assert!(shown.contains(body), "{shown}");
    assert!(shown.contains("summary: '<i>t</i> \\n\u{fffd}'"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn without_an_earlier_one_there_is_nothing_to_withdraw() {
    for handle in [None, Some(""), Some("-1"), Some("1 --x"), Some("99999999999")] {
        let act = tell(withdrawal(), LINE, handle);
        let answer = send(&request(channel("/nowhere/notify-send"), act)).sent();
        assert_eq!((answer.saying.as_str(), answer.tries), ("nothing to withdraw", 0));
    }
}

#[test]
fn without_a_desktop_the_reason_is_said() {
    let answer =
        send(&request(channel(&program("notify-send")), tell(notice(), LINE, None))).failed();
    assert!(answer.saying.starts_with("notify-send: ") && !answer.is_refused, "{answer:?}");
}

// H-24
#[test]
fn notify_send_has_the_variables_of_the_desktop_alone() {
    let dir = directory();
    let out = dir.path().join("out");
    let spy = script(
        dir.path(),
        "notify-send",
        &format!("cat /proc/self/environ > '{}'; echo 7", out.display()),
    );
    let names = ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];
    let mut variables: Vec<(&str, &str)> = names.map(|name| (name, "here")).to_vec();
    variables.extend([("HOME", "canary"), ("PATH", "canary"), ("LD_LIBRARY_PATH", "canary")]);
    let request = request(channel(&text(&spy)), tell(notice(), LINE, None));
    assert_eq!(send_with(&request, &variables).sent().handle.as_deref(), Some("7"));
    let environment = std::fs::read_to_string(out).unwrap();
    for name in names {
        assert!(environment.contains(&format!("{name}=here\0")), "{environment:?}");
    }
    assert!(!environment.contains("canary"), "{environment:?}");
}

//! What the program that sends a notice is given: an environment from a list (H-24), and the tmux servers that may be
//! used (H-14).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use coord_host::notices::{Programs, run};
use coord_host::registry::Readable;
use coord_wire::notice::{Channel, SendAct, SendRequest, TmuxState};

fn request(channel: Channel) -> SendRequest {
    SendRequest { channel, act: SendAct::ShowState(TmuxState::default()), within_ms: 10_000 }
}

#[test]
fn h_24_the_sender_gets_no_variable_that_is_not_on_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let sender = dir.path().join("sender");

    let script = format!(
        "#!/bin/sh\n/bin/cat > /dev/null\n/bin/tr '\\0' '\\n' < /proc/self/environ > '{}'\n\
         echo '{{\"is_sent\": true, \"saying\": \"\", \"tries\": 1}}'\n",
        seen.display()
    );
    fs::write(&sender, script).unwrap();
    fs::set_permissions(&sender, fs::Permissions::from_mode(0o700)).unwrap();
    // Cargo sets it for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let answer = run(Some(&sender), &request(Channel::Command { program: "/bin/true".into() }));
    assert!(answer.is_sent, "{answer:?}");
    let seen = fs::read_to_string(seen).unwrap();
    let of_the_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let of_the_list = [
        "HOME",
        "LANG",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
    ];
    for name in seen.lines().filter_map(|line| Some(line.split_once('=')?.0)) {
        assert!(of_the_shell.contains(&name) || of_the_list.contains(&name), "{seen}");
    }
    assert!(seen.contains("HOME="), "{seen}");
}

#[test]
fn h_14_a_notice_names_only_tmux_servers_that_may_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let socket = |at: &str, mode| {
        let parent = dir.path().join(at);
        fs::create_dir_all(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
        let file = parent.join("default");
        (UnixListener::bind(&file).unwrap(), file)
    };
    let (_ours, ours) = socket("root/tmux", 0o700);
    let (_open, open) = socket("root/open", 0o777);
    let (_outside, outside) = socket("elsewhere", 0o700);
    let (_named, named) = socket("named", 0o700);
    let programs = Programs {
        sender: None,
        tmux: Vec::new(),
        notify_send: None,
        readable: Readable { root: Some(dir.path().join("root")), named: vec![named.clone()] },
    };
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let sockets = [&ours, &open, &outside, &ours].map(text).to_vec();
    let channel = Channel::Tmux { program: String::new(), sockets, bell: false };
    let Channel::Tmux { sockets, .. } = programs.complete(request(channel)).channel else {
        panic!("it stays a tmux channel")
    };
    let mut expected = [&ours, &named].map(text);
    expected.sort();
    assert_eq!(sockets, expected);
}

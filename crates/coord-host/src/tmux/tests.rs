//! Tests the adapter against real tmux servers, each in a directory of its own and ended with its test.

use coord_model::{Farewell, Screen};
use std::fs::{File, Permissions, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::*;

/// A tmux server, and FIFOs through which its panes report that they are ready.
pub(super) struct Server {
    dir: TempDir,
    process: ProcessRef,
}

impl Server {
    /// Starts a server with one pane that runs `command`.
    pub(super) fn new(command: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let me = ProcessRef { pid: 0, start_time: 0 };
        let mut server = Self { dir, process: me };
        server.tell(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "10", command]);
        let pid = server.tell(&["display-message", "-p", "#{pid}"]).parse().unwrap();
        server.process = process_of(pid);
        server
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn tell(&self, words: &[&str]) -> String {
        let output = Command::new("/usr/bin/env")
            .args(["-i", "tmux", "-S"])
            .arg(self.socket())
            .args(words)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Opens a pane that runs `command`, and returns its id.
    fn pane(&self, command: &str) -> String {
        self.tell(&["new-window", "-d", "-P", "-F", "#{pane_id}", command])
    }

    /// The first process of a pane, once it has its terminal: tmux lists the process before.
    pub(super) fn first(&self, pane: &str) -> ProcessRef {
        let pid = self.tell(&["display-message", "-p", "-t", pane, "#{pane_pid}"]);
        let pid = pid.parse().unwrap();
        while process::stat(pid).unwrap().tty == 0 {
            std::thread::yield_now();
        }
        process_of(pid)
    }

    /// Stops the server until the guard is dropped: a stopped server could not be ended.
    pub(super) fn stop(&self) -> Stopped {
        send(self.process, Signal::STOP);
        Stopped(self.process)
    }

    fn fifo(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(super) fn wish(&self, process: ProcessRef, claimed: &str, look: Look) -> PaneWish {
        let server = ProcessRef { pid: self.process.pid, start_time: self.process.start_time };
        let socket = self.socket().to_str().unwrap().to_owned();
        let pane = TmuxPane { socket, server, pane: claimed.to_owned() };
        PaneWish { process, pane, proof: None, look }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

/// A stopped server that continues when this value is dropped.
pub(super) struct Stopped(ProcessRef);

impl Drop for Stopped {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}

fn process_of(pid: u32) -> ProcessRef {
    ProcessRef { pid, start_time: process::stat(pid).unwrap().start_time }
}

/// Waits until a process that starts now has a later start time than `process`.
fn outlive_tick_of(process: ProcessRef) {
    let starts_now = || {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let start_time = process_of(child.id()).start_time;
        child.wait().unwrap();
        start_time
    };
    while starts_now() <= process.start_time {}
}

fn kill(process: ProcessRef) {
    send(process, Signal::KILL);
}

fn send(process: ProcessRef, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits until somebody writes a line into the FIFO, and returns it.
fn line_of(fifo: &str) -> String {
    let mut line = String::new();
    BufReader::new(File::open(fifo).unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn read(text: &str) -> Reading {
    // Returns the text itself, which only a test may do.
    let farewell = Some(Farewell::Last(text.trim_end().to_owned()));
    Reading { screen: Some(Screen::Shell), farewell, ..Reading::default() }
}

fn session_of(farewell: Option<Farewell>) -> String {
    let Some(Farewell::Last(session)) = farewell else { panic!("{farewell:?}") };
    session
}

pub(super) fn tmux() -> Tmux {
    with_program(Vec::new())
}

/// An adapter with a long timeout: a slow machine is no tmux that hangs.
fn with_program(places: Vec<PathBuf>) -> Tmux {
    let mut tmux = Tmux::new(places, Readable::default(), read);
    tmux.asker.answer_within = Duration::from_secs(600);
    tmux
}

/// Captures once. Returns the pane's id, and its text.
fn text_of(tmux: &mut Tmux, wish: PaneWish) -> (String, String) {
    let seen = one(tmux, wish);
    let PaneFound::Found(PaneSeen { pane, farewell, .. }) = seen else { panic!("{seen:?}") };
    (pane.pane, session_of(farewell))
}

fn one(tmux: &mut Tmux, wish: PaneWish) -> PaneFound {
    let mut answers = tmux.look(vec![wish]);
    assert_eq!(answers.len(), 1);
    answers.remove(0).pane
}

fn why(pane: PaneFound) -> String {
    let PaneFound::Unreadable { why } = pane else { panic!("{pane:?}") };
    why
}

/// A command that prints `text`, reports that it did, and waits.
fn prints(text: &str, ready: &str) -> String {
    format!("printf '%s' '{text}'; echo > {ready}; exec cat")
}

/// Wraps the tmux program in a counter: each start writes a line.
fn counting(dir: &Path) -> (PathBuf, PathBuf) {
    let (program, count) = (dir.join("tmux"), dir.join("count"));
    script(&program, &format!("echo . >> {}\nexec /usr/bin/env tmux \"$@\"", count.display()));
    (program, count)
}

/// Writes a script with another process. A process that another test starts at the same time would hold the file open
/// for writing, and it could then not be executed.
pub(crate) fn script(path: &Path, text: &str) {
    let text = format!("#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n{text}\n");
    let written = Command::new("/usr/bin/env")
        .args(["-i", "PATH=/usr/local/bin:/usr/bin:/bin", "sh", "-c"])
        .args(["printf %s \"$2\" > \"$1\" && chmod 700 \"$1\"", "sh"])
        .arg(path)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
}

/// An adapter, and the file that has a line for each process which it started.
pub(super) fn counted(server: &Server) -> (Tmux, PathBuf) {
    let (program, count) = counting(server.dir.path());
    (with_program(vec![program]), count)
}

pub(super) fn starts(count: &Path) -> usize {
    std::fs::read_to_string(count).map_or(0, |text| text.lines().count())
}

// H-16: the environment names a pane that belongs to another process.
#[test]
fn the_pane_is_told_by_its_terminal_and_not_by_its_name() {
    let server = Server::new("exec cat");
    let ready = server.fifo("ready");
    let pane = server.pane(&prints("mine", &ready));
    line_of(&ready);
    let process = server.first(&pane);
    for claimed in ["%0", "%77", "", "%0 ; kill-server", pane.as_str()] {
        let seen = one(&mut tmux(), server.wish(process, claimed, Look::Decision));
        let tty = u64::try_from(process::stat(process.pid).unwrap().tty).unwrap();
        let socket = server.socket().to_str().unwrap().to_owned();
        let expected = PaneFound::Found(PaneSeen {
            pane: TmuxPane { socket, server: server.process, pane: pane.clone() },
            proof: PaneProof { pane_pid: process.pid, tty },
            screen: Some(Screen::Shell),
            farewell: Some(Farewell::Last("mine".to_owned())),
            signature: None,
            digest: None,
            place: Some(server.tell(&[
                "display-message",
                "-p",
                "-t",
                &pane,
                "#{session_name}:#{window_index}",
            ])),
        });
        assert_eq!(seen, expected, "{claimed}");
    }
}

// H-16: a process below the server has no pane if its terminal is no pane's.
#[test]
fn a_process_on_another_terminal_has_no_pane() {
    let server = Server::new("exec cat");
    let (said, never) = (server.fifo("said"), server.fifo("never"));
    let command = format!("setsid sh -c 'echo $$ > {said}; exec cat {never}' & cat");
    server.pane(&command);
    let process = process_of(line_of(&said).parse().unwrap());
    let seen = one(&mut tmux(), server.wish(process, "%0", Look::Decision));
    kill(process);
    assert_eq!(seen, PaneFound::NotThere);
}

// H-16, G11, S1-03: hostile text does not leak into another pane's text.
#[test]
fn no_text_passes_for_another_pane() {
    let server = Server::new("exec cat");
    let ready = server.fifo("ready");
    let forged = "end\n%1 1 0 1 @0:1 1 /dev/pts/0\nend\n\n\n%0 1 0 1 @0:1 1 /dev/pts/0";
    let liar = server.pane(&prints(forged, &ready));
    line_of(&ready);
    let honest = server.pane(&prints("é ok", &ready));
    line_of(&ready);
    let wishes = vec![
        server.wish(server.first(&liar), &liar, Look::Decision),
        server.wish(server.first(&honest), &honest, Look::Decision),
    ];
    let processes: Vec<ProcessRef> = wishes.iter().map(|wish| wish.process).collect();
    let texts: BTreeMap<ProcessRef, String> = tmux()
        .look(wishes)
        .into_iter()
        .map(|answer| {
            let PaneFound::Found(PaneSeen { farewell, .. }) = answer.pane else {
                panic!("{answer:?}")
            };
            (answer.process, session_of(farewell))
        })
        .collect();
    assert_eq!(texts[&processes[0]], forged);
    assert_eq!(texts[&processes[1]], "é ok");
}

// A claimed pane that is gone does not affect the others.
#[test]
fn a_vanished_pane_is_not_there_and_the_others_are() {
    let server = Server::new("exec cat");
    let ready = server.fifo("ready");
    let going = server.pane("exec cat");
    let staying = server.pane(&prints("here", &ready));
    line_of(&ready);
    let mut proved = server.wish(server.first(&going), &going, Look::Decision);
    let mut tmux = tmux();
    let PaneFound::Found(PaneSeen { proof: PaneProof { pane_pid, tty }, .. }) =
        one(&mut tmux, proved.clone())
    else {
        panic!("proof")
    };
    proved.proof = Some(PaneProof { pane_pid, tty });
    proved.look = Look::AfterDeath;
    server.tell(&["kill-pane", "-t", &going]);
    let stays = server.wish(server.first(&staying), &staying, Look::Decision);
    let answers = tmux.look(vec![proved.clone(), stays.clone()]);
    let of = |process| &answers.iter().find(|answer| answer.process == process).unwrap().pane;
    assert_eq!(*of(proved.process), PaneFound::NotThere);
    assert!(matches!(of(stays.process), PaneFound::Found(seen) if seen.pane.pane == staying));
}

// H-05: the pane of a dead harness is the one that was proved while the harness lived.
#[test]
fn after_a_death_the_proved_pane_is_read() {
    let server = Server::new("exec cat");
    let (said, ended) = (server.fifo("said"), server.fifo("ended"));
    let command = format!("sh -c 'echo $$ > {said}; exec cat'; echo bye; echo > {ended}; exec cat");
    let pane = server.pane(&command);
    let process = process_of(line_of(&said).parse().unwrap());
    let mut tmux = tmux();
    let mut wish = server.wish(process, &pane, Look::Decision);
    let PaneFound::Found(PaneSeen { proof: PaneProof { pane_pid, tty }, .. }) =
        one(&mut tmux, wish.clone())
    else {
        panic!("proof")
    };
    assert_ne!(pane_pid, process.pid);
    kill(process);
    line_of(&ended);

    wish.look = Look::AfterDeath;
    assert!(why(one(&mut tmux, wish.clone())).contains("no ancestor"), "never proved");
    wish.proof = Some(PaneProof { pane_pid, tty });
    let late = PaneWish { look: Look::Decision, ..wish.clone() };
    assert_eq!(why(one(&mut tmux, late)), "the process is gone");
    let (id, text) = text_of(&mut tmux, wish.clone());
    assert_eq!(id, pane);
    assert!(text.ends_with("bye"), "{text}");
    let other = PaneProof { pane_pid: pane_pid + 1, tty };
    let respawned = PaneWish { proof: Some(other), ..wish.clone() };
    assert_eq!(one(&mut tmux, respawned), PaneFound::NotThere);
    wish.pane.server.start_time += 1;
    assert!(why(one(&mut tmux, wish)).contains("no ancestor"), "another server");
}

// H-05: if another program is in the foreground, a missing farewell proves nothing.
#[test]
fn a_pane_that_another_program_took_is_not_read() {
    let server = Server::new("exec cat");
    let (said, taken) = (server.fifo("said"), server.fifo("taken"));
    let client = format!("sh -c 'echo $$ > {said}; exec cat'");
    let next = format!("sh -c 'echo > {taken}; exec cat'");
    let pane = server.pane(&format!("set -m; {client}; {next}; exit"));
    let process = process_of(line_of(&said).parse().unwrap());
    let mut tmux = tmux();
    tmux.read = |_| Reading::default();
    let mut wish = server.wish(process, &pane, Look::Decision);
    let PaneFound::Found(PaneSeen { proof: PaneProof { pane_pid, tty }, .. }) =
        one(&mut tmux, wish.clone())
    else {
        panic!("proof")
    };
    wish.proof = Some(PaneProof { pane_pid, tty });
    wish.look = Look::AfterDeath;
    assert!(matches!(one(&mut tmux, wish.clone()), PaneFound::Found(_)), "its own is no other's");
    outlive_tick_of(process);
    kill(process);
    line_of(&taken);
    assert_eq!(why(one(&mut tmux, wish.clone())), "another program has its terminal by now");
    tmux.read = |_| {
        let farewell = Some(Farewell::Above { session: "s1".to_owned() });
        Reading { farewell, ..Reading::default() }
    };
    assert_eq!(why(one(&mut tmux, wish.clone())), "another program has its terminal by now");
    tmux.read = read;
    assert!(matches!(one(&mut tmux, wish), PaneFound::Found(_)), "what it says goes on being said");
}

// H-05: a pane that is kept after its only process died still shows its last screen.
#[test]
fn a_dead_pane_is_read_too() {
    let server = Server::new("exec cat");
    server.tell(&["set-option", "-g", "remain-on-exit", "on"]);
    let ready = server.fifo("ready");
    let go = server.fifo("go");
    let pane = server.pane(&format!("echo; echo bye; echo > {ready}; read x < {go}"));
    line_of(&ready);
    let process = server.first(&pane);
    let mut tmux = tmux();
    let mut wish = server.wish(process, &pane, Look::Decision);
    let PaneFound::Found(PaneSeen { proof: PaneProof { pane_pid, tty }, .. }) =
        one(&mut tmux, wish.clone())
    else {
        panic!("proof")
    };
    std::fs::write(&go, "\n").unwrap();
    while server.tell(&["display-message", "-p", "-t", &pane, "#{pane_dead}"]) != "1" {}
    // The next pane gets the terminal that the dead one still names.
    let next = server.pane(&prints("next", &ready));
    line_of(&ready);
    wish.proof = Some(PaneProof { pane_pid, tty });
    wish.look = Look::AfterDeath;
    let (id, text) = text_of(&mut tmux, wish);
    assert_eq!(id, pane);
    assert!(text.starts_with("bye\n"), "{text}");
    let alive = server.wish(server.first(&next), &next, Look::Decision);
    assert_eq!(text_of(&mut tmux, alive), (next, "next".to_owned()));
}

#[test]
fn a_server_that_is_gone_is_unreadable() {
    let server = Server::new("exec cat");
    let wish = server.wish(server.first("%0"), "%0", Look::Decision);
    let mut tmux = tmux();
    assert!(matches!(one(&mut tmux, wish.clone()), PaneFound::Found(_)));
    server.tell(&["kill-server"]);
    assert!(!why(one(&mut tmux, wish)).is_empty());
}

// H-27: the listener at the named socket is queried only if the process runs below it.
#[test]
fn a_stranger_is_not_asked() {
    let server = Server::new("exec cat");
    let (program, count) = counting(server.dir.path());
    let mut tmux = with_program(vec![program]);
    let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
    let wish = server.wish(process_of(child.id()), "%0", Look::Decision);
    assert!(why(one(&mut tmux, wish)).contains("no ancestor"));
    assert_eq!(starts(&count), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

// One tmux process for all panes of a server, and none per pane.
#[test]
fn fifty_panes_cost_one_process() {
    let server = Server::new("exec cat");
    let (mut tmux, count) = counted(&server);
    let panes: Vec<String> = (0..49).map(|_| server.pane("exec cat")).collect();
    let wishes: Vec<PaneWish> = std::iter::once("%0")
        .chain(panes.iter().map(String::as_str))
        .map(|pane| server.wish(server.first(pane), pane, Look::Decision))
        .collect();
    let answers = tmux.look(wishes.clone());
    let found = answers.iter().filter(|answer| matches!(answer.pane, PaneFound::Found(_))).count();
    assert_eq!((answers.len(), found, starts(&count)), (50, 50, 1));
    // If all names are wrong, a second process corrects that.
    let strays = wishes
        .into_iter()
        .map(|wish| PaneWish { pane: TmuxPane { pane: "%0".to_owned(), ..wish.pane }, ..wish });
    let mut tmux = with_program(vec![server.dir.path().join("tmux")]);
    let answers = tmux.look(strays.collect());
    let found = answers.iter().filter(|answer| matches!(answer.pane, PaneFound::Found(_))).count();
    assert_eq!((found, starts(&count)), (50, 3));
}

// A sweep reads only panes with new output, and misses nothing.
#[test]
fn a_sweep_reads_what_changed() {
    let server = Server::new("exec cat");
    let ready = server.fifo("ready");
    let go = server.fifo("go");
    let command = "echo one; echo > READY; read x < GO; echo two; echo > READY; exec cat";
    let pane = server.pane(&command.replace("READY", &ready).replace("GO", &go));
    line_of(&ready);
    let mut tmux = tmux();
    let wish = server.wish(server.first(&pane), &pane, Look::Sweep);
    assert_eq!(text_of(&mut tmux, wish.clone()).1, "one");
    // As if the first capture had been long after the pane's last output.
    let known = tmux.known.get_mut(&wish.process).unwrap();
    known.may_have_more = false;
    let PaneFound::Found(PaneSeen { farewell, .. }) = &mut known.seen else { panic!("seen") };
    *farewell = Some(Farewell::Last("remembered".to_owned()));
    known.pane.happened = known.pane.happened.replace(':', ":x");
    assert_eq!(text_of(&mut tmux, wish.clone()).1, "one", "something happened: read anew");
    let known = tmux.known.get_mut(&wish.process).unwrap();
    known.may_have_more = false;
    let PaneFound::Found(PaneSeen { farewell, .. }) = &mut known.seen else { panic!("seen") };
    *farewell = Some(Farewell::Last("remembered".to_owned()));
    assert_eq!(text_of(&mut tmux, wish.clone()).1, "remembered", "nothing happened");
    let decision = PaneWish { look: Look::Decision, ..wish.clone() };
    assert_eq!(text_of(&mut tmux, decision).1, "one", "a decision is never made on memory");
    // Output within the same second as the last output is not missed.
    std::fs::write(&go, "\n").unwrap();
    line_of(&ready);
    assert_eq!(text_of(&mut tmux, wish).1, "one\ntwo");
}

// A pane that changes all the time costs one process for each sweep, as a quiet one does.
#[test]
fn a_sweep_expects_a_pane_that_changed_to_change_again() {
    let server = Server::new("exec cat");
    let (mut tmux, count) = counted(&server);
    let wish = server.wish(server.first("%0"), "%0", Look::Sweep);
    let mut processes_for = |has_output: bool| {
        // As if the capture before had been long after the pane's last output.
        if let Some(known) = tmux.known.get_mut(&wish.process) {
            known.may_have_more = false;
            if has_output {
                known.pane.happened.insert(0, 'x');
            }
        }
        let before = starts(&count);
        assert!(matches!(one(&mut tmux, wish.clone()), PaneFound::Found(_)));
        starts(&count) - before
    };
    assert_eq!(processes_for(false), 1);
    assert_eq!(processes_for(true), 2, "a quiet pane is captured once it has changed");
    assert_eq!(processes_for(true), 1);
    assert_eq!(processes_for(false), 1);
    assert_eq!(processes_for(true), 2, "it was quiet in between");
}

// A tmux that hangs, or prints without end, is killed.
#[test]
fn a_program_that_does_not_end_is_ended() {
    let server = Server::new("exec cat");
    let process = server.first("%0");
    let program = server.dir.path().join("tmux");
    for (text, said) in [
        (format!("exec cat {}", server.fifo("never")), "no answer within"),
        ("exec yes".to_owned(), "bytes"),
        ("exec 1>&- 2>&-; exec cat".to_owned(), "answer is cut"),
        ("echo 'lost server' >&2; exit 1".to_owned(), "lost server"),
    ] {
        script(&program, &text);
        let mut tmux = with_program(vec![program.clone()]);
        let is_hung = said == "no answer within";
        if is_hung {
            tmux.asker.answer_within = Duration::from_millis(50);
        }
        let wish = server.wish(process, "%0", Look::Decision);
        let why_not = why(one(&mut tmux, wish.clone()));
        assert!(why_not.contains(said), "{why_not}");
        // The server is not queried again at once, because others wait for the same asker.
        assert_eq!(why(one(&mut tmux, wish)).contains("asked again soon"), is_hung);
    }
}

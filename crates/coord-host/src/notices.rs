//! Tells people through channels, and looks whether a person is at a pane (N-03, N-04). Decides nothing.
//!
//! Each notice is sent by a process of its own, which ends within its time and is killed if it does not. No network
//! is used here. A channel or a tmux server that hangs holds up nobody: each request has a thread of its own, and the
//! looks at panes have one that gives up on a server that does not answer.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use coord_model::{NeedId, SendAnswer, TmuxPane};
use coord_wire::api::InstallRecord;
use coord_wire::notice::{Channel, SENDER, SendRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::registry::Readable;
use crate::tmux::{self, Asker, answer};
use crate::worker::{QueueWorker, Supervisor, Waiting};

/// What the sender gets of the coordinator's environment (H-24): where the user's files and desktop are.
const VARIABLES: [&str; 7] = [
    "HOME",
    "LANG",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];
/// How much longer than its own limit a sender may take before it is killed.
const LATER: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// A key this long ago is a sign that somebody is there, in seconds.
const KEY_S: u64 = 60;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A sender's answer to the request with this number.
    Answered {
        /// The channel.
        channel: String,
        /// The number; none for what no decision waits for.
        number: Option<u64>,
        /// The answer.
        answer: SendAnswer,
    },
    /// Whether somebody is at the pane of a need.
    Presence {
        /// The need.
        need: NeedId,
        /// Whether somebody is.
        is_present: bool,
    },
}

/// The senders, and the thread that looks at panes.
#[derive(Debug)]
pub struct Notices {
    sender: Option<PathBuf>,
    supervisor: Supervisor,
    looks: QueueWorker<Looks>,
    results: Sender<Told>,
    told: Receiver<Told>,
}

/// Looks that wait.
#[derive(Debug, Default)]
struct Looks(VecDeque<(NeedId, TmuxPane)>);

impl Waiting for Looks {
    type Task = (NeedId, TmuxPane);

    fn next(&mut self) -> Option<Self::Task> {
        self.0.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The programs that channels use, and the tmux servers that may be used.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program that sends; none if it is not installed.
    pub sender: Option<PathBuf>,
    /// Where tmux may be, before the usual places.
    pub tmux: Vec<PathBuf>,
    /// `notify-send`, as found at installation.
    pub notify_send: Option<PathBuf>,
    /// Which tmux servers may be used (H-14).
    pub readable: Readable,
}

impl Programs {
    /// The programs that belong to one of `coords`, the paths at which `coord` may stand, and those that its
    /// installation found. `tmux` are places in which tmux is looked for first.
    pub fn find(
        coords: impl IntoIterator<Item = PathBuf>,
        recorded: Option<InstallRecord>,
        tmux: &[PathBuf],
        readable: Readable,
    ) -> Self {
        let (found, notify_send) = recorded.map_or((None, None), |one| (one.tmux, one.notify_send));
        Self {
            sender: coords.into_iter().find_map(|coord| sender_of(&coord)),
            tmux: tmux.iter().cloned().chain(found.map(PathBuf::from)).collect(),
            notify_send: notify_send.map(PathBuf::from),
            readable,
        }
    }

    /// Names the programs of a request, and leaves out the servers that may not be used.
    pub fn complete(&self, mut request: SendRequest) -> SendRequest {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        match &mut request.channel {
            Channel::Tmux { program, sockets, .. } => {
                *program = tmux::find_program(&self.tmux).map(text).unwrap_or_default();
                sockets.extend(self.readable.named.iter().cloned().map(text));
                sockets.sort_unstable();
                sockets.dedup();
                sockets.retain(|one| tmux::check_socket(&self.readable, Path::new(one)).is_ok());
            }
            Channel::Desktop { program } if program.is_empty() => {
                *program = self.notify_send.clone().map(text).unwrap_or_default();
            }
            Channel::Desktop { .. } | Channel::Command { .. } | Channel::Webhook(_) => (),
        }
        request
    }
}

/// The sender's program: beside the hooks that belong to the program at `coord`, or beside that program itself.
fn sender_of(coord: &Path) -> Option<PathBuf> {
    let bin = coord.parent()?;
    let installed = bin.parent().map(|prefix| prefix.join("lib/coord").join(SENDER));
    let places = installed.into_iter().chain([bin.join(SENDER)]);
    places.into_iter().find(|file| file.is_file())
}

impl Notices {
    /// Starts the thread. `sender` is the program that sends; without one, every request fails.
    ///
    /// # Errors
    /// The system cannot create another thread.
    pub fn start(
        sender: Option<PathBuf>,
        mut asker: Asker,
        supervisor: &Supervisor,
    ) -> io::Result<Self> {
        let (results, told) = channel();
        let look = move |(need, pane): (NeedId, TmuxPane)| {
            Some(Told::Presence { need, is_present: is_present(&mut asker, &pane) })
        };
        let looks = QueueWorker::start(supervisor, "coord-presence", results.clone(), look)?;
        Ok(Self { sender, supervisor: supervisor.clone(), looks, results, told })
    }

    /// Sends a notice. [`Self::take`] returns the answer.
    pub fn send(&self, channel: String, number: Option<u64>, request: SendRequest) {
        let (results, supervisor, sender) =
            (self.results.clone(), self.supervisor.clone(), self.sender.clone());
        let send = move || {
            let answer = run(sender.as_deref(), &request);
            if results.send(Told::Answered { channel, number, answer }).is_ok() {
                supervisor.wake();
            }
        };
        let thread = std::thread::Builder::new().name("coord-notice".to_owned());
        if let Err(error) = thread.spawn(send) {
            tracing::error!(%error, "a notice could not be sent");
        }
    }

    /// Looks whether somebody is at a pane. [`Self::take`] returns the answer.
    pub fn look_for_presence(&self, need: NeedId, pane: TmuxPane) {
        self.looks.put(|looks| looks.0.push_back((need, pane)));
    }

    /// The next result, if there is one.
    pub fn take(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }
}

/// Runs the sender for one request. What went wrong with the sender itself is an answer too.
pub fn run(program: Option<&Path>, request: &SendRequest) -> SendAnswer {
    let Some(program) = program else {
        return SendAnswer::failed(format!("{SENDER} is not installed; run ./install.sh again"));
    };
    ask(program, request)
        .unwrap_or_else(|error| SendAnswer::failed(format!("{SENDER} did not answer: {error}")))
}

fn ask(program: &Path, request: &SendRequest) -> io::Result<SendAnswer> {
    let mut command = Command::new(program);
    command.env_clear();
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running(command.spawn()?);
    let until = Instant::now() + Duration::from_millis(request.within_ms) + LATER;
    let mut stdin = running.0.stdin.take().ok_or_else(no_pipe)?;
    // The sender reads all of it before it does anything.
    match stdin.write_all(&serde_json::to_vec(request)?) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        Ok(()) | Err(_) => drop(stdin),
    }
    let answer = read_until(&mut running.0, until)?;
    Ok(serde_json::from_slice(&answer)?)
}

fn no_pipe() -> io::Error {
    io::Error::other("no pipe")
}

/// Reads the output to its end.
fn read_until(child: &mut Child, until: Instant) -> io::Result<Vec<u8>> {
    let mut stdout = child.stdout.take().ok_or_else(no_pipe)?.take(ANSWER_BYTES_MAX);
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(stdout.get_ref(), PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => (),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdout.read(&mut piece)? {
            0 => return Ok(bytes),
            n => bytes.extend_from_slice(piece.get(..n).unwrap_or_default()),
        }
    }
}

/// A process that is killed with its group and reaped when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            // Its own group: it was started so, and has not been reaped.
            let _gone = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        }
        let _reaped = self.0.wait();
    }
}

/// Whether the pane is on a terminal on which a key was pressed lately. Nobody is there if that cannot be seen.
fn is_present(asker: &mut Asker, pane: &TmuxPane) -> bool {
    let Some(id) = answer::pane_id(&pane.pane) else { return false };
    // What a client shows: its window, and in it one pane or all of them.
    let script = format!(
        "display-message -p -t %{id} '#{{window_id}} #{{window_zoomed_flag}} #{{pane_active}}'\n\
         list-clients -F '#{{window_id}} #{{client_activity}}'\n"
    );
    let Ok((_, output)) = asker.ask(&pane.socket, |_| Ok(()), &script) else { return false };
    let now_s = coord_store::now().wall_ms / 1000;
    shows_to_somebody(&String::from_utf8_lossy(&output.stdout), now_s)
}

fn shows_to_somebody(answer: &str, now_s: u64) -> bool {
    let mut lines = answer.lines();
    let Some([window, zoomed, active]) = lines.next().and_then(fields) else { return false };
    let is_visible = zoomed == "0" || active == "1";
    let mut clients = lines.filter_map(fields);
    is_visible
        && clients.any(|[shown, key_s]: [&str; 2]| {
            let is_lately = |s: u64| now_s.saturating_sub(s) <= KEY_S;
            shown == window && key_s.parse().is_ok_and(is_lately)
        })
}

fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    line.split(' ').collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_there_who_sees_the_pane_and_pressed_a_key() {
        for (answer, is_there) in [
            ("@1 0 0\n@1 990\n", true),
            ("@1 0 0\n@2 990\n@1 941\n", true),
            ("@1 0 1\n@1 930\n", false),
            ("@1 0 1\n@2 990\n", false),
            ("@1 1 1\n@1 990\n", true),
            ("@1 1 0\n@1 990\n", false),
            ("@1 0 1\n", false),
            ("can't find pane: %7\n@1 990\n", false),
            ("", false),
        ] {
            assert_eq!(shows_to_somebody(answer, 1_000), is_there, "{answer}");
        }
    }
}

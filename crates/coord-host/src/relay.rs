//! Keeps the relay of a fleet running: a process of its own, since it speaks to a network (F-09). It is told to end by the
//! end of its standard input, so it outlives no coordinator, however that ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::worker::{Supervisor, Worker};

/// Wait before a relay that ended is started again; doubled after each one that did not live for long.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A relay that lived for longer did not end at its start.
const LIVED: Duration = Duration::from_secs(60);
/// What the relay gets of the environment.
const VARIABLES: [&str; 8] = [
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "COORD_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What the keeper hears.
enum News {
    /// Whether a relay is wanted.
    Wanted(bool),
    /// The relay of this number has ended.
    Ended(u64),
    /// The keeper ends.
    End,
}

/// The relay, kept running while it is wanted. Dropping this ends it.
#[derive(Debug)]
pub struct Relay {
    news: Sender<News>,
    worker: Worker,
}

impl Relay {
    /// Starts the keeper; no relay is wanted yet. `command` is the program and its arguments; without one, none can run.
    ///
    /// # Errors
    /// The system cannot create another thread.
    pub fn start(command: Option<Vec<OsString>>, supervisor: &Supervisor) -> io::Result<Self> {
        let (news, heard) = channel();
        let of_children = news.clone();
        let worker = supervisor.start("relay", move |_| {
            Keeper { command, news: of_children, number: 0, running: None }.run(&heard);
        })?;
        Ok(Self { news, worker })
    }

    /// Whether a relay is wanted from now on.
    pub fn keep(&mut self, is_wanted: bool) {
        let _ended = self.news.send(News::Wanted(is_wanted));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.worker.expect_end();
        let _ended = self.news.send(News::End);
    }
}

struct Keeper {
    command: Option<Vec<OsString>>,
    news: Sender<News>,
    /// The number of the last relay.
    number: u64,
    /// Its standard input, which ends it when it is closed, and when it started.
    running: Option<(ChildStdin, Instant)>,
}

impl Keeper {
    fn run(mut self, heard: &Receiver<News>) {
        let mut is_wanted = false;
        let mut pause = PAUSE;
        let mut next_at = None;
        loop {
            let left = next_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            let news = match left {
                Some(left) => heard.recv_timeout(left),
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match news {
                Ok(News::Wanted(wanted)) => {
                    is_wanted = wanted;
                    pause = PAUSE;
                    next_at = wanted.then(Instant::now).filter(|_| self.running.is_none());
                    if !wanted {
                        self.running = None;
                    }
                }
                Ok(News::Ended(number)) if number == self.number => {
                    let lived = self.running.take().map(|(_, since)| since.elapsed());
                    if lived.is_some_and(|lived| LIVED < lived) {
                        pause = PAUSE;
                    }
                    next_at = is_wanted.then(|| Instant::now() + pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Ok(News::Ended(_)) => (),
                Err(RecvTimeoutError::Timeout) => {
                    next_at = None;
                    if let Err(error) = self.start() {
                        tracing::warn!(%error, "the relay was not started");
                        next_at = Some(Instant::now() + pause);
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
                // Its standard input is closed with the keeper.
                Ok(News::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let words = self.command.as_ref().and_then(|words| words.split_first());
        let Some((program, arguments)) = words else {
            return Err(io::Error::other("the program is not known"));
        };
        let mut command = Command::new(PathBuf::from(program));
        command.args(arguments).env_clear().current_dir("/").process_group(0);
        command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        self.number = self.number.wrapping_add(1);
        self.running = Some((stdin, Instant::now()));
        let (news, number) = (self.news.clone(), self.number);
        let reaper = std::thread::Builder::new().name("relay-end".to_owned());
        reaper.spawn(move || reap(child, &news, number)).map(drop)
    }
}

/// Waits for the end of a relay.
fn reap(mut child: Child, news: &Sender<News>, number: u64) {
    let _reaped = child.wait();
    let _ended = news.send(News::Ended(number));
}

//! What wakes the program: keys, signals, changes, and the ends of jobs. Each comes from a thread that blocks, so
//! nothing wakes up while nothing happens.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

use ratatui_crossterm::crossterm::event::{self, Event};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::app::Purpose;
use crate::source::{Job, Look, Ran, Watch};

/// Something that happened.
#[derive(Debug)]
pub(crate) enum News {
    /// A key, or another size.
    Input(Event),
    /// A line of standard input; none at its end.
    Line(Option<String>),
    /// A signal.
    Signal(i32),
    /// The journal grew, or the coordinator ended.
    Changed,
    /// Nothing can be watched any more.
    Unwatched,
    /// A look ended.
    Looked(anyhow::Result<Look>),
    /// What the pane of a session shows, or why it cannot be read.
    Screen(Result<String, String>),
    /// A command ended.
    Ran(Purpose, Ran),
    /// A job panicked: where, and with what words.
    Panicked(String),
}

/// The name of a thread that runs a job.
const JOB: &str = "job";

thread_local! {
    /// The report of a job's panic.
    static REPORT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Has `leave` run before a panic is reported, so that the report is seen. The panic of a job is kept for
/// [`News::Panicked`]: only the main thread can leave the terminal for good.
pub(crate) fn report_panics(leave: fn()) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(JOB) {
            REPORT.set(info.to_string());
        } else {
            leave();
            report(info);
        }
    }));
}

/// The threads' end of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    news: Sender<News>,
    /// A command has the terminal: the keys that interrupt and stop are for it.
    is_lent: Arc<AtomicBool>,
}

impl Threads {
    /// Starts to listen for signals.
    pub(crate) fn start() -> io::Result<(Self, Receiver<News>)> {
        let (news, received) = channel();
        let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT])?;
        let sender = news.clone();
        let threads = Self { news, is_lent: Arc::default() };
        let is_lent = Arc::clone(&threads.is_lent);
        spawn("signals", move || {
            for signal in signals.forever() {
                match signal {
                    SIGINT if is_lent.load(Ordering::Relaxed) => (),
                    // It stops with the command; the shell continues both.
                    SIGTSTP if is_lent.load(Ordering::Relaxed) => {
                        drop(emulate_default_handler(SIGTSTP));
                    }
                    _ => {
                        if sender.send(News::Signal(signal)).is_err() {
                            return;
                        }
                    }
                }
            }
        })?;
        Ok((threads, received))
    }

    /// Runs `command` while the terminal is not ours.
    pub(crate) fn lend<T>(&self, command: impl FnOnce() -> T) -> T {
        self.is_lent.store(true, Ordering::Relaxed);
        let done = command();
        self.is_lent.store(false, Ordering::Relaxed);
        done
    }

    /// Reads keys from the terminal. After each it waits until `again` is told that it was taken: what the key
    /// started may read the terminal itself.
    pub(crate) fn read_keys(&self) -> io::Result<Sender<()>> {
        let news = self.news.clone();
        let (again, taken) = channel::<()>();
        spawn("keys", move || {
            while let Ok(event) = event::read() {
                if news.send(News::Input(event)).is_err() || taken.recv().is_err() {
                    return;
                }
            }
            // The terminal is gone.
            drop(news.send(News::Signal(SIGHUP)));
        })?;
        Ok(again)
    }

    /// Reads lines from standard input.
    pub(crate) fn read_lines(&self) -> io::Result<()> {
        let news = self.news.clone();
        spawn("lines", move || {
            for line in io::stdin().lines() {
                let Ok(line) = line else { break };
                if news.send(News::Line(Some(line))).is_err() {
                    return;
                }
            }
            drop(news.send(News::Line(None)));
        })
    }

    /// Waits for changes. After each it waits until `again` is told that they were looked at.
    pub(crate) fn watch(&self, mut watch: Box<dyn Watch>) -> io::Result<Sender<()>> {
        let news = self.news.clone();
        let (again, looked) = channel::<()>();
        spawn("changes", move || {
            while watch.wait().is_ok() {
                if news.send(News::Changed).is_err() || looked.recv().is_err() {
                    return;
                }
            }
            drop(news.send(News::Unwatched));
        })?;
        Ok(again)
    }

    /// Runs a job, and reports its end.
    pub(crate) fn run<T: 'static>(
        &self,
        job: Job<T>,
        news: impl FnOnce(T) -> News + Send + 'static,
    ) -> io::Result<()> {
        let sender = self.news.clone();
        spawn(JOB, move || {
            let done = panic::catch_unwind(AssertUnwindSafe(job));
            drop(sender.send(done.map_or_else(|_| News::Panicked(REPORT.take()), news)));
        })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

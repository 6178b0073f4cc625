//! `coord demo` (U-11): recorded sessions, played live into `coord top`. Their events pass the real core on a store in a
//! temporary directory, which is removed at the end. Nothing of the user's is read or changed.

mod client;
mod player;
mod published;
mod script;

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use coord_top::{Job, Look, Options, Ran, Source, Watch};
use coord_view::list::{Ended, List, Row, Seen};
use coord_wire::api::RECORDED_VARIABLES;
use coord_wire::inspect::{Inspect, Session};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::context::{Context, variable};
use crate::out::{Failure, has_colours};
use crate::verb::inspect::{clock_time, facts, home, is_utf8, needs, tilde};
use crate::verb::top::failure;
use player::Player;
use published::{Changes, Published};
use script::Clock;

/// What every key that would act is answered with.
const NOT_DONE: &str =
    "This is a demo: its sessions are recorded, and nothing was sent or changed.";
/// What stands at the bottom until the first key.
const NOTICE: &str =
    "Recorded sessions, played live. j k move, e explain, v events, ? keys, q quit";
/// What is said where the screen cannot be had.
const NO_TERMINAL: &str = "coord demo needs a terminal. → coord demo --plain";
/// What is printed at the end, before the next step.
const GOODBYE: &str = "Everything in the demo was recorded; nothing is left behind.";

/// Show recorded sessions in `coord top`, without Claude Code
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord demo            8 recorded sessions in 30 seconds: working, asking, crashing, coming back\n  coord demo --plain    the same, a line per change\n\nIt uses a temporary directory only, and removes it at the end. It needs no hooks and no coordinator."
)]
pub(crate) struct Args {
    /// Print one line per change, and end after the last one
    #[arg(long)]
    plain: bool,
    /// Only signs of ASCII
    #[arg(long)]
    ascii: bool,
    /// Play this many times as fast
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    speed: u32,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let can_move = variable("TERM").is_some_and(|term| term != "dumb");
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !(args.plain || (can_move && is_terminal)) {
        return Err(anyhow!(NO_TERMINAL).into());
    }
    let signal = early_signals()?;
    let mut demo = Demo::start(args, signal)?;
    let options = Options {
        name: "coord demo",
        notice: Some(NOTICE),
        // The keys of `coordctl top` are answered like all others that would act.
        acts: true,
        is_colourless: !has_colours(),
        is_ascii: args.ascii || !is_utf8(),
    };
    let ended =
        if args.plain { coord_top::print_to_end(&demo) } else { coord_top::run(&demo, options) };
    // Before anything is said or raised, nothing is left.
    let played = demo.end();
    ended.map_err(|why| failure(why, NO_TERMINAL))?;
    played?;
    let is_installed = context.paths.install_record().exists();
    let next = if is_installed { "coord inspect" } else { "coord install" };
    Ok(writeln!(std::io::stdout(), "{GOODBYE} → {next}")?)
}

/// Keeps signals from ending the program before the list takes them. Returns where the last one is noted; 0 for none.
fn early_signals() -> anyhow::Result<Arc<AtomicUsize>> {
    let came = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register_usize(signal, Arc::clone(&came), usize::try_from(signal)?)?;
    }
    Ok(came)
}

/// The demo while it plays. Its end removes all that it made.
#[derive(Debug)]
struct Demo {
    /// The temporary root; none once it is removed. A command that reads it holds the lock.
    root: Arc<Mutex<Option<TempDir>>>,
    context: Context,
    clock: Clock,
    published: Arc<Published>,
    /// A signal that came before the list took signals.
    early_signal: Arc<AtomicUsize>,
    /// Dropping it ends the player.
    stop: Option<Sender<()>>,
    player: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Demo {
    /// Makes the temporary root, starts the recorded clients, and begins to play.
    fn start(args: &Args, early_signal: Arc<AtomicUsize>) -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("coord-demo-").tempdir();
        let root = root.context("cannot make a temporary directory")?;
        let path = root.path().to_owned();
        let context = Context::from_environment(Some(path.clone()))?;
        let script = script::read()?;
        let clock = Clock::new(context.now, &script, args.speed);
        let published = Arc::new(Published::new(args.plain));
        let player = Player::new(&context, clock, &script, Arc::clone(&published))?;
        let (stop, stopped) = channel();
        let ends = End(Arc::clone(&published));
        let player = std::thread::Builder::new().name("player".to_owned()).spawn(move || {
            // However the player ends, the list learns that nothing changes any more.
            let ends = ends;
            let mut player = player;
            let result = player.play(&script, &stopped);
            drop(ends);
            // The clients live until the list is left.
            stopped.recv().ok();
            result
        })?;
        Ok(Self {
            root: Arc::new(Mutex::new(Some(root))),
            context,
            clock,
            published,
            early_signal,
            stop: Some(stop),
            player: Some(player),
        })
    }

    /// Ends the clients and removes the root. Returns whether everything was played.
    fn end(&mut self) -> anyhow::Result<()> {
        self.stop = None;
        let result = self.player.take().map(JoinHandle::join);
        if let Some(root) = lock(&self.root).take() {
            let path = root.path().display().to_string();
            root.close().with_context(|| format!("cannot remove {path}"))?;
        }
        match result {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the demo could not be played")),
            None => Ok(()),
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // After a panic there is nobody to tell.
        drop(self.end());
    }
}

/// Tells the list, when dropped, that nothing changes any more.
#[derive(Debug)]
struct End(Arc<Published>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn lock(root: &Mutex<Option<TempDir>>) -> MutexGuard<'_, Option<TempDir>> {
    root.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Demo {
    fn look(&self, _reads_files: bool) -> Job<anyhow::Result<Look>> {
        let early = self.early_signal.swap(0, Ordering::SeqCst);
        let published = Arc::clone(&self.published);
        Box::new(move || {
            if early != 0 {
                // The list takes signals by now.
                signal_hook::low_level::raise(i32::try_from(early)?)?;
            }
            let (answer, is_last) = published.next();
            Ok(Look { answer, is_live: true, is_last })
        })
    }

    fn watch(&self, _pid: u32) -> anyhow::Result<Box<dyn Watch>> {
        Ok(Box::new(Changes(Arc::clone(&self.published))))
    }

    fn list(&self, answer: &Inspect, now_ms: u64) -> List {
        let home = home();
        let server = client::server(self.context.root.as_deref().unwrap_or_else(|| "/".as_ref()));
        let (server, ended) = (Some(server.as_str()), Ended::Newest);
        List::of(answer, &Seen { now_ms, home: &home, server, clock: clock_time, ended })
    }

    fn details(&self, answer: &Inspect, row: &Row) -> Vec<(String, String)> {
        let mut context = self.context.clone();
        context.now = self.clock.now();
        let session = answer.sessions.iter().find(|one| one.session_id == row.id);
        let all = session.map(|session| {
            let all = needs(session, &context).into_iter().chain(facts(session, &context));
            all.map(|(name, words)| (name.to_owned(), words)).collect()
        });
        all.unwrap_or_default()
    }

    fn directory(&self, session: &Session) -> String {
        tilde(&session.cwd)
    }

    fn screen(&self, _session: &Session) -> Job<Result<String, String>> {
        Box::new(|| Err("recorded sessions have none.".to_owned()))
    }

    fn converse(&self, _: &[String]) -> std::io::Result<()> {
        Ok(())
    }

    fn command(&self, acts: bool, words: &[String]) -> Job<Ran> {
        let verb = words.first().map(String::as_str);
        if acts || !matches!(verb, Some("explain" | "events")) {
            return Box::new(|| Ok(not_done()));
        }
        let (root, words) = (Arc::clone(&self.root), words.to_vec());
        Box::new(move || {
            // The root stays while it is read.
            let root = lock(&root);
            match &*root {
                Some(root) => reads(root.path().to_owned(), &words).output(),
                None => Ok(not_done()),
            }
        })
    }

    fn nothing(&self) -> String {
        "The demo begins.".to_owned()
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().wall_ms
    }

    fn clock(&self, at_ms: u64) -> String {
        clock_time(at_ms)
    }
}

/// `coord` with these words, which reads the files below this root and nothing else of coord's.
fn reads(root: PathBuf, words: &[String]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "coord".into());
    let mut command = Command::new(program);
    command.arg("--root").arg(root).args(words).stdin(Stdio::null());
    command.env_remove("COORD_HOME");
    for name in RECORDED_VARIABLES.into_iter().filter(|name| *name != "HOME") {
        command.env_remove(name);
    }
    command
}

/// What is answered in place of a command that would act.
fn not_done() -> Output {
    Output {
        status: ExitStatus::from_raw(1 << 8),
        stdout: Vec::new(),
        stderr: NOT_DONE.as_bytes().to_vec(),
    }
}

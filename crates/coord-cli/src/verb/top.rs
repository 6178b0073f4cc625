//! `coord top` and `coordctl top` (U-05): what the live list shows, and what its keys do. Keys run the commands that
//! a person would type, so there is one way to each act.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::anyhow;
use coord_config::Config;
use coord_host::process;
use coord_host::registry::Readable;
use coord_host::tmux::{check_socket, find_program};
use coord_top::{Job, Look, Options, Ran, Source, Watch};
use coord_view::list::{Ended, List, Row, shown_name};
use coord_wire::inspect::{Inspect, Session, Tmux};
use coord_wire::run::Run;

use crate::context::{Context, variable};
use crate::control;
use crate::out::{Failure, age, has_colours};
use crate::verb::inspect::{age_s, clock_time, facts, is_utf8, list_of, needs, nothing, tilde};
use crate::verb::live::{Changes, newest};
use crate::verb::status::warn_elsewhere;

/// Show the list live, go to sessions, and see what they do
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord top            the list, updated as things happen; ? shows the keys\n  coord top --plain    a line per change, for screen readers and logs\n  coordctl top         the same, and keys that act on sessions"
)]
pub(crate) struct Args {
    /// Print one line per change, and take typed commands
    #[arg(long)]
    plain: bool,
    /// Only signs of ASCII
    #[arg(long)]
    ascii: bool,
}

/// `acts` is true for `coordctl top`.
pub(crate) fn run(args: &Args, acts: bool, context: &Context) -> Result<(), Failure> {
    warn_elsewhere(context);
    let source = Here { context: context.clone() };
    let options = Options {
        name: if acts { "coordctl top" } else { "coord top" },
        notice: None,
        acts,
        is_colourless: !has_colours(),
        is_ascii: args.ascii || !is_utf8(),
    };
    let can_move = variable("TERM").is_some_and(|term| term != "dumb");
    let ended = match (args.plain, can_move) {
        (true, _) => coord_top::run_plain(&source),
        (false, true) => coord_top::run(&source, options),
        (false, false) => Err(coord_top::Failure::NoTerminal),
    };
    ended.map_err(|why| failure(why, "coord top needs a terminal. → coord inspect --watch"))
}

/// How a command ends whose list ended so. A signal ends the program, so that whoever waits for it sees that.
pub(super) fn failure(why: coord_top::Failure, no_terminal: &'static str) -> Failure {
    match why {
        coord_top::Failure::NoTerminal => anyhow!(no_terminal).into(),
        coord_top::Failure::Terminal(error) => error.into(),
        coord_top::Failure::Signal(signal) => {
            match signal_hook::low_level::emulate_default_handler(signal) {
                Ok(()) => Failure::Told,
                Err(error) => error.into(),
            }
        }
        coord_top::Failure::Panicked(report) => {
            anyhow!("an error in coord itself: {report}").into()
        }
    }
}

/// This machine's coordinator, files and panes.
#[derive(Debug)]
struct Here {
    context: Context,
}

impl Source for Here {
    fn look(&self, reads_files: bool) -> Job<anyhow::Result<Look>> {
        let context = self.context.at_present();
        Box::new(move || {
            let (answer, is_live) = newest(reads_files, &context)?;
            Ok(Look { answer, is_live, is_last: false })
        })
    }

    fn watch(&self, pid: u32) -> anyhow::Result<Box<dyn Watch>> {
        Ok(Box::new(Changes::watch(pid, &self.context)?))
    }

    fn list(&self, answer: &Inspect, now_ms: u64) -> List {
        list_of(answer, now_ms, Ended::Newest)
    }

    fn details(&self, answer: &Inspect, row: &Row) -> Vec<(String, String)> {
        let context = self.context.at_present();
        if let Some(session) = answer.sessions.iter().find(|one| one.session_id == row.id) {
            let all = needs(session, &context).into_iter().chain(facts(session, &context));
            return all.map(|(name, words)| (name.to_owned(), words)).collect();
        }
        let run = answer.runs.iter().find(|run| run.begin.run_id == row.id);
        run.map(|run| of_run(run, &context)).unwrap_or_default()
    }

    fn directory(&self, session: &Session) -> String {
        tilde(&session.cwd)
    }

    fn screen(&self, session: &Session) -> Job<Result<String, String>> {
        let name = shown_name(session);
        let kind = session.place.as_ref().map_or("", |place| place.kind.as_str());
        let owner = session.owner.as_ref().filter(|owner| owner.alive == Some(true));
        let terminal = owner.and_then(|owner| process::stat(owner.pid)).map(|stat| stat.tty);
        let pane = session.tmux.clone().filter(|_| kind == "tmux");
        let is_headless = kind == "headless";
        let context = self.context.clone();
        if let Some(machine) = session.elsewhere.machine.map(|_| session.host.clone()) {
            return Box::new(move || Err(format!("{name} runs on {machine}.")));
        }
        Box::new(move || match (pane, terminal) {
            (Some(pane), Some(terminal)) => capture(&pane, terminal, &context),
            (Some(_), None) => Err(format!("the client of {name} is gone.")),
            (None, _) if is_headless => Err(format!("{name} is headless.")),
            (None, _) => Err(format!("{name} is in no tmux pane.")),
        })
    }

    fn command(&self, acts: bool, words: &[String]) -> Job<Ran> {
        let (words, root) = (words.to_vec(), self.context.root.clone());
        Box::new(move || {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg0(if acts { control::NAME } else { "coord" });
            if let Some(root) = root {
                command.arg("--root").arg(root);
            }
            command.args(words).stdin(Stdio::null()).output()
        })
    }

    fn converse(&self, words: &[String]) -> std::io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(control::NAME);
        if let Some(root) = &self.context.root {
            command.arg("--root").arg(root);
        }
        // What became of it, the command has said.
        command.args(words).status().map(drop)
    }

    fn nothing(&self) -> String {
        nothing(&self.context).to_owned()
    }

    fn now_ms(&self) -> u64 {
        coord_store::now().wall_ms
    }

    fn clock(&self, at_ms: u64) -> String {
        clock_time(at_ms)
    }
}

/// What a pane shows, if it still is the terminal of that client.
fn capture(pane: &Tmux, terminal: i64, context: &Context) -> Result<String, String> {
    let socket = Path::new(&pane.socket);
    let config = Config::load(&context.paths.config_file()).map_err(|error| error.to_string())?;
    let named = config.tracking.tmux_sockets.0;
    check_socket(&Readable { root: context.root.clone(), named }, socket)?;
    let program = find_program(&[])?;
    let ask = |words: &[&str]| -> Result<String, String> {
        let mut command = Command::new(&program);
        command.arg("-S").arg(socket).args(words).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("tmux: {error}"))?;
        if !output.status.success() {
            return Err("its pane is closed.".to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let tty = ask(&["display-message", "-p", "-t", &pane.pane, "#{pane_tty}"])?;
    let device = std::fs::symlink_metadata(tty.trim_end()).map(|tty| tty.rdev()).ok();
    if device.is_none() || device != u64::try_from(terminal).ok() {
        return Err("its pane now belongs to another program.".to_owned());
    }
    ask(&["capture-pane", "-p", "-t", &pane.pane])
}

pub(super) fn of_run(run: &Run, context: &Context) -> Vec<(String, String)> {
    let mut all = vec![
        ("directory", tilde(&run.begin.cwd)),
        ("begun", format!("{} ago", age(age_s(&run.begin.at, context)))),
    ];
    all.extend(run.shown.session_id.clone().map(|id| ("session", id)));
    all.extend(run.shown.hold.as_ref().map(|hold| ("hold", hold.reason.clone())));
    all.extend(run.exit.as_ref().map(|exit| ("outcome", exit.outcome.clone())));
    all.extend(run.exit.as_ref().map(|exit| ("ended", exit.reason.clone())));
    all.into_iter().map(|(name, words)| (name.to_owned(), words)).collect()
}

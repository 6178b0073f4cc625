//! `coord up`: starts the coordinator in the background, fully detached (R-16, H-41).
//!
//! The process gets working directory `/`, an environment built from an allow-list, and no stream of
//! ours; where the user's service manager answers it becomes a unit of its own, so that the end of a
//! session's control group does not take it along, or the service's own unit where that is installed.
//! A coordinator of another version, or whose program was replaced since, hands over between two
//! events: it ends after its turn of the loop, hooks spool, and the new one takes the spool in.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use coord_store::read_small_file;
use coord_store::{CoordinatorLock, LockError, RealDisk};
use coord_wire::api::{Health, InstallRecord};
use coord_wire::exchange::{Miss, mono_ns};
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::client;
use crate::context::{Context, variable};
use crate::out::Failure;
use crate::verb::{down, service};

/// How long a coordinator may take to take events.
const PATIENCE: Duration = Duration::from_secs(20);
/// Variables a coordinator may see. None of the client's is among them.
const ENVIRONMENT: [&str; 16] = [
    "COORD_LOG",
    "DBUS_SESSION_BUS_ADDRESS",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_TIME",
    "LOGNAME",
    "TMUX_TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// The coordinator's own search path.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// systemd's tool for a unit of one's own, by absolute path.
const SYSTEMD_RUN: &str = "/usr/bin/systemd-run";

/// Start the coordinator in the background
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord up\n\nHooks of interactive sessions start it too, unless `coord down` stopped it."
)]
pub(crate) struct Args {
    /// Called by a hook: respect `coord down` and the install record
    #[arg(long, hide = true)]
    from_hook: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if args.from_hook {
        check_install_record(context)?;
        if context.paths.down().exists() {
            return Err(anyhow!(
                "`coord down` stopped the coordinator; only `coord up` starts it again"
            )
            .into());
        }
    } else {
        lift_down(context)?;
    }
    match client::get::<Health>(context, "/healthz") {
        Ok(health) => {
            let health = health?;
            if health.version == coord_wire::VERSION && !is_replaced(health.pid) {
                writeln!(out, "coordinator already running (pid {})", health.pid)?;
                return Ok(());
            }
            writeln!(out, "replacing the coordinator of version {}", health.version)?;
            down::end(context)?;
        }
        Err(Miss::Absent) => (),
        Err(miss) => {
            let socket = context.paths.socket();
            return Err(anyhow!("{}: {miss}; try `coord down` first", socket.display()).into());
        }
    }
    start(context)?;
    let health: Health = client::get(context, "/healthz").map_err(|miss| anyhow!("{miss}"))??;
    writeln!(out, "coordinator started (pid {})", health.pid)?;
    Ok(())
}

/// From here on hooks start a coordinator again, and so does the service.
pub(crate) fn lift_down(context: &Context) -> anyhow::Result<()> {
    let mark = context.paths.down();
    match std::fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| mark.display().to_string())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// H-15, H-41: a hook starts a coordinator only where coord was installed.
fn check_install_record(context: &Context) -> anyhow::Result<()> {
    let path = context.paths.install_record();
    let text =
        read_small_file(&path, SMALL_FILE_BYTES_MAX).with_context(|| path.display().to_string())?;
    let record: InstallRecord =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    let here = &context.here;
    for (what, holds) in [
        ("machine", record.machine == here.machine),
        ("user", record.uid == here.uid),
        ("pid namespace", record.pid_ns == here.pid_ns),
    ] {
        if !holds {
            bail!("coord was installed for another {what}; run `coord install` here first");
        }
    }
    Ok(())
}

/// Whether the program that runs as `pid` is no longer what lies at its path: an upgrade keeps the
/// version where it is built from sources.
fn is_replaced(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|path| path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)"))
}

/// Starts a coordinator and waits until it takes events.
fn start(context: &Context) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    if has_user_manager() {
        let started = if service::is_installed(context) {
            service::systemctl(&["start", service::UNIT])
        } else {
            start_as_unit(&program, context)
        };
        match started {
            Ok(()) => return Ok(()),
            // No unit is better than no coordinator.
            Err(error) => drop(writeln!(std::io::stderr(), "coord: {error:#}; starting without")),
        }
    }
    let ready = SocketWatch::new(context)?;
    start_detached(&program, context).or_else(|error| {
        // A hook was faster: its coordinator has the lock and will answer.
        match CoordinatorLock::acquire(&RealDisk, &context.paths.coordinator_lock()) {
            Err(LockError::Held { .. }) => ready.wait(context),
            Ok(_) | Err(_) => Err(error),
        }
    })
}

fn arguments(context: &Context) -> Vec<OsString> {
    let mut arguments = vec!["serve".into()];
    if let Some(root) = &context.root {
        arguments.extend(["--root".into(), root.clone().into_os_string()]);
    }
    arguments
}

fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    let kept = ENVIRONMENT.iter().filter_map(|name| Some((*name, variable(name)?)));
    kept.chain([("PATH", PATH.into())])
}

/// Whether the user's service manager answers.
pub(crate) fn has_user_manager() -> bool {
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.is_some_and(|dir| dir.join("systemd/private").exists())
        && Path::new(SYSTEMD_RUN).exists()
}

fn start_as_unit(program: &Path, context: &Context) -> anyhow::Result<()> {
    let mut command = Command::new(SYSTEMD_RUN);
    command.args(["--user", "--quiet", "--collect", "--description=coord coordinator"]);
    for (name, value) in environment() {
        let mut pair = OsString::from(format!("--setenv={name}="));
        pair.push(value);
        command.arg(pair);
    }
    command.arg("--").arg(program).args(arguments(context));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ready = SocketWatch::new(context)?;
    let output = command.output().context(SYSTEMD_RUN)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("systemd-run: {}", why.lines().next().unwrap_or("failed"));
    }
    ready.wait(context)
}

fn start_detached(program: &Path, context: &Context) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments(context)).arg("--detached").env_clear().envs(environment());
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if !line.is_empty() {
        return Ok(());
    }
    let mut why = String::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(4096).read_to_string(&mut why)?;
    }
    child.wait()?;
    let why = why.lines().next().unwrap_or("it ended without a message");
    bail!("the coordinator did not start: {}", why.trim_start_matches("coord: "))
}

/// Waits for the socket to appear.
struct SocketWatch {
    fd: rustix::fd::OwnedFd,
}

impl SocketWatch {
    fn new(context: &Context) -> anyhow::Result<Self> {
        let run = &context.paths.run;
        std::fs::create_dir_all(run).with_context(|| {
            let name = run.display();
            format!(
                "cannot create {name}, the directory of the socket; `coord install` chooses another one"
            )
        })?;
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, run, inotify::WatchFlags::MOVED_TO)?;
        Ok(Self { fd })
    }

    fn wait(&self, context: &Context) -> anyhow::Result<()> {
        let deadline = mono_ns().saturating_add(u64::try_from(PATIENCE.as_nanos())?);
        loop {
            if client::get::<Health>(context, "/healthz").is_ok() {
                return Ok(());
            }
            let left = Duration::from_nanos(deadline.saturating_sub(mono_ns()));
            let timeout = Timespec::try_from(left)?;
            if poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout))? == 0 {
                bail!("the coordinator did not take events within {} s", PATIENCE.as_secs());
            }
            let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
            inotify::Reader::new(&self.fd, &mut buffer).next()?;
        }
    }
}

//! `coord serve`: takes the lock, opens the store, binds the socket, runs the event loop, and makes
//! everything durable before it exits.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use coord_config::{Config, Paths as ConfigPaths};
use coord_host::clients::Clients;
use coord_host::executor::{Tools, Transcripts};
use coord_host::here::Here;
use coord_host::notices::Programs;
use coord_host::observer::Sources;
use coord_host::registry::Readable;
use coord_host::tmux::{Asker, Tmux};
use coord_host::worker::Supervisor;
use coord_host::{process, state_dir};
use coord_store::lock::{Held, LockError};
use coord_store::{CoordinatorLock, Disk, RealDisk, now};
use coord_wire::api::InstallRecord;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use coord_wire::paths::Paths;
use mio::{Poll, Waker};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, inotify};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config_watch::ConfigWatch;
use crate::coordinator::{Coordinator, Parts};
use crate::engine::Engine;
use crate::log;
use crate::notify::Notifier;
use crate::real_world::RealWorld;
use crate::server::{Inputs, Server, WAKER};

/// Length of the socket's accept queue: enough for the hooks of every session at once.
const BACKLOG: i32 = 1024;
/// How long to wait for a lock whose holder has already exited.
const LOCK_WITHIN: Duration = Duration::from_secs(5);
/// Time between two attempts to take that lock.
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// What `serve` needs to start.
#[derive(Debug)]
pub struct Options {
    /// The locations of all files.
    pub paths: Paths,
    /// The root directory from `COORD_HOME` or `--root`.
    pub root: Option<PathBuf>,
    /// The log filter from `COORD_LOG`.
    pub log_filter: Option<String>,
    /// The address in `NOTIFY_SOCKET`, if a service manager started the process.
    pub notify_socket: Option<OsString>,
}

/// Runs a coordinator until it is asked to stop, and calls `ready` once it accepts events.
///
/// Once the log is set up, a panic on any thread aborts the process.
///
/// # Errors
/// The coordinator cannot start or cannot continue: another one is running, the store is damaged, or a
/// worker thread has ended.
pub fn serve(options: Options, ready: impl FnOnce()) -> anyhow::Result<()> {
    serve_on(&RealDisk, options, ready)
}

/// Runs a coordinator on `disk`, so that tests can inject disk failures.
///
/// # Errors
/// The same as for [`serve`].
pub fn serve_on<D: Disk>(disk: &D, options: Options, ready: impl FnOnce()) -> anyhow::Result<()> {
    let Options { paths, root, log_filter, notify_socket } = options;
    // G11: all files created from here on are private, whatever umask the caller has.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    raise_file_limit();
    let config_file = paths.config_file();
    let config = Config::load(&config_file).with_context(|| config_file.display().to_string())?;
    state_dir::prepare(&paths)?;
    RealDisk.create_dir(&paths.run).with_context(|| paths.run.display().to_string())?;
    let _lock = take_lock(&paths.coordinator_lock())?;
    log::abort_on_panic(paths.logs());
    log::start(&paths.logs(), log_filter.as_deref().unwrap_or(config.log.level.0))?;
    let (engine, findings) = Engine::open(disk, &paths.state, &paths.journal())?;
    for finding in &findings {
        tracing::warn!(finding, "store");
    }
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    coord_screen::add_signatures(config.recovery.signatures.0.clone());
    let started = now();
    let registries = known_config_dirs(root.is_none(), &config);
    let adapters = adapters(root.as_ref(), &config, &paths);
    let programs = programs(root.as_ref(), &config, &paths);
    let supervisor = Supervisor::new(Arc::clone(&waker));
    let config_watch = ConfigWatch::start(config_file, &supervisor)?;
    let clients = clients(&config, &paths);
    let registry = poll.registry().try_clone()?;
    let relay = relay_command(root.as_ref(), &paths);
    let world = RealWorld::start(registry, clients, adapters, programs, &paths, relay, supervisor)?;
    let here = Here::read(started.wall_ms);
    let parts = Parts { world, disk: disk.clone(), paths: paths.clone(), here, config, engine };
    let mut coordinator = Coordinator::start(parts, started)?;
    coordinator.conditions.found_at_start(findings);
    coordinator.keep_relay();
    for config_dir in &registries {
        coordinator.know_config_dir(&config_dir.to_string_lossy());
    }
    let inputs = Inputs {
        spool_watch: watch_spool(&paths)?,
        signals: end_signals()?,
        listener: bind(&paths)?,
        waker,
        notifier: Notifier::new(notify_socket.as_deref()).context("NOTIFY_SOCKET")?,
        config_watch,
    };
    let server = Server::new(poll, coordinator, inputs)?;
    tracing::info!(version = coord_wire::VERSION, "serving");
    ready();
    let coordinator = server.run()?;
    // Without the socket, hooks write to the spool. What was accepted before is made durable below.
    remove_if_there(&paths.socket())?;
    coordinator.finish(now())?;
    tracing::info!("ended");
    Ok(())
}

/// Takes the coordinator's lock.
///
/// If a coordinator is killed while it starts a process, that process holds the lock too until it
/// executes its program. A lock whose recorded holder is gone is therefore retried for [`LOCK_WITHIN`].
#[expect(clippy::disallowed_methods, reason = "a lock that becomes free tells nobody in time")]
fn take_lock(file: &Path) -> Result<Held<impl Sized + use<>>, LockError> {
    let until = Instant::now() + LOCK_WITHIN;
    loop {
        match CoordinatorLock::acquire(&RealDisk, file) {
            Err(LockError::Held { by, .. }) if is_gone(&by) && Instant::now() < until => {
                std::thread::sleep(LOCK_AGAIN);
            }
            result => return result,
        }
    }
}

/// Whether the process named in a lock file has exited.
fn is_gone(by: &str) -> bool {
    let pid = by.strip_prefix("pid ").and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid| process::stat(pid).is_none_or(|stat| stat.is_zombie))
}

fn install_record(paths: &Paths) -> Option<InstallRecord> {
    let text = coord_store::read_small_file(&paths.install_record(), SMALL_FILE_BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The programs that count as clients: the one that `coord install` recorded, and those in the
/// configuration.
fn clients(config: &Config, paths: &Paths) -> Clients {
    let recorded = install_record(paths).and_then(|record| record.client).map(PathBuf::from);
    Clients::new(config.tracking.clients.0.iter().cloned().chain(recorded))
}

/// The adapters that observe panes and transcripts, and the tools that act on them.
pub(crate) fn adapters(root: Option<&PathBuf>, config: &Config, paths: &Paths) -> (Sources, Tools) {
    let readable = |named: &ConfigPaths| Readable { root: root.cloned(), named: named.0.clone() };
    let tracking = &config.tracking;
    let recorded = install_record(paths);
    let (coord, tmux, git) =
        recorded.map_or((None, None, None), |one| (Some(one.coord), one.tmux, one.git));
    let places: Vec<PathBuf> =
        tracking.tmux.0.iter().cloned().chain(tmux.map(PathBuf::from)).collect();
    let tmux = Tmux::new(places.clone(), readable(&tracking.tmux_sockets), coord_screen::read);
    let tools = Tools {
        asker: Asker::new(places, readable(&tracking.tmux_sockets)),
        readable: readable(&tracking.config_dirs),
        state_dir: paths.state.clone(),
        coordctl: coordctl(coord.map(PathBuf::from)),
        root: root.map(|root| root.to_string_lossy().into_owned()),
        transcripts: Transcripts::default(),
    };
    let git = git.map(PathBuf::from).into_iter().collect();
    (Sources { tmux, readable: readable(&tracking.config_dirs), git }, tools)
}

/// The programs that notices are told with.
fn programs(root: Option<&PathBuf>, config: &Config, paths: &Paths) -> Programs {
    let recorded = install_record(paths);
    let coord = recorded.as_ref().map(|one| PathBuf::from(&one.coord));
    let coords = coord.into_iter().chain(std::env::current_exe().ok());
    let named = config.tracking.tmux_sockets.0.clone();
    let readable = Readable { root: root.cloned(), named };
    Programs::find(coords, recorded, &config.tracking.tmux.0, readable)
}

/// The command that runs the relay of a fleet (F-09).
fn relay_command(root: Option<&PathBuf>, paths: &Paths) -> Option<Vec<OsString>> {
    let installed = install_record(paths).map(|one| PathBuf::from(one.coord));
    let coord =
        installed.filter(|coord| coord.exists()).or_else(|| std::env::current_exe().ok())?;
    let root = root.map(|root| ["--root".into(), root.clone().into_os_string()]);
    let words = root.into_iter().flatten().chain(["fleet".into(), "relay".into()]);
    Some([coord.into_os_string()].into_iter().chain(words).collect())
}

/// The path of `coordctl`: beside the installed `coord`, or else beside this program.
///
/// Empty if the path is not valid UTF-8. No command line is then built from it (H-18).
fn coordctl(installed: Option<PathBuf>) -> String {
    let coord = installed.or_else(|| std::env::current_exe().ok()).unwrap_or_default();
    coord.with_file_name("coordctl").into_os_string().into_string().unwrap_or_default()
}

/// Raises the soft limit of open files to the hard limit.
///
/// Each connection and each watched process takes a descriptor, and the usual soft limit of 1024 is
/// meant for programs that use `select`. If the limit cannot be raised, the coordinator serves fewer
/// connections at once.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "limit of open files not raised");
    }
}

/// Configuration directories that are watched before any hook names them: those in the
/// configuration, and the client's default directory unless a root of our own is set.
fn known_config_dirs(has_default: bool, config: &Config) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").filter(|_| has_default).map(PathBuf::from);
    let default = home.filter(|home| home.is_absolute()).map(|home| home.join(".claude"));
    config.tracking.config_dirs.0.iter().cloned().chain(default).collect()
}

/// Binds the socket under a temporary name and renames it into place, so that hooks never find it
/// missing. The coordinator's lock guarantees that no other coordinator uses the socket.
fn bind(paths: &Paths) -> anyhow::Result<UnixListener> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
    };
    let (new, socket) = (paths.run.join("new.sock"), paths.socket());
    remove_if_there(&new)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&fd, &SocketAddrUnix::new(&new)?).with_context(|| format!("binding {}", new.display()))?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
    listen(&fd, BACKLOG)?;
    std::fs::rename(&new, &socket).with_context(|| socket.display().to_string())?;
    // Lets hooks retry at once if their last exchange failed.
    remove_if_there(&paths.miss())?;
    Ok(fd.into())
}

fn remove_if_there(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Watches the spool directory for writes. Other events are left out: the coordinator would wake itself
/// each time it opens a spool file.
fn watch_spool(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&fd, paths.spool(), inotify::WatchFlags::MODIFY)?;
    Ok(fd)
}

/// Returns a stream that becomes readable at SIGTERM, SIGINT or SIGHUP.
fn end_signals() -> anyhow::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    // G10: a coordinator that follows a killed one does not give up because the lock is held for a
    // moment longer.
    #[test]
    fn a_lock_that_outlives_its_holder_for_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lock");
        let mut gone = Command::new("/bin/true").spawn().unwrap();
        gone.wait().unwrap();
        std::fs::write(&file, format!("pid {}\n", gone.id())).unwrap();
        let mut holder = Command::new("flock");
        holder.arg(&file).args(["sh", "-c", "echo held; read line"]);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = [0; 5];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut told).unwrap();
        assert!(CoordinatorLock::acquire(&RealDisk, &file).is_err());
        let waiting = std::thread::spawn({
            let file = file.clone();
            move || take_lock(&file).map(drop)
        });
        holder.stdin.take().unwrap().write_all(b"\n").unwrap();
        waiting.join().unwrap().unwrap();
        holder.wait().unwrap();
        // A living holder is not waited for.
        let held = take_lock(&file).unwrap();
        let began = Instant::now();
        assert!(matches!(take_lock(&file), Err(LockError::Held { .. })));
        assert!(began.elapsed() < LOCK_WITHIN);
        drop(held);
    }
}

//! `coord serve`: takes the lock, opens the store, binds the socket, turns the loop, and leaves
//! everything durable behind.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use coord_store::{CoordinatorLock, Disk, RealDisk};
use coord_wire::api::InstallRecord;
use coord_wire::paths::Paths;
use mio::{Poll, Waker};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, inotify};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::background::Background;
use crate::config::Config;
use crate::coordinator::{Coordinator, Parts};
use crate::engine::{Engine, now};
use crate::host::Here;
use crate::looker::{Eyes, Looker};
use crate::notify::Notifier;
use crate::real_world::RealWorld;
use crate::registry::Readable;
use crate::server::{Doors, Server, WAKER};
use crate::tmux::Tmux;
use crate::{log, state_dir};

/// Connections that may wait to be accepted: every session's hooks at once.
const BACKLOG: i32 = 1024;

/// What `serve` is given.
#[derive(Debug)]
pub struct Options {
    /// Where the files lie.
    pub paths: Paths,
    /// COORD_HOME or `--root`.
    pub root: Option<PathBuf>,
    /// COORD_LOG.
    pub log_filter: Option<String>,
    /// NOTIFY_SOCKET, where a service manager started us.
    pub notify_socket: Option<OsString>,
}

/// Runs a coordinator until it is asked to end. `ready` is called once it takes events.
pub fn serve(options: Options, ready: impl FnOnce()) -> anyhow::Result<()> {
    let Options { paths, root, log_filter, notify_socket } = options;
    // G11: whatever is made from here on is private, whatever the caller's umask.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    raise_file_limit();
    let config_file = paths.config_file();
    let config = Config::load(&config_file).with_context(|| config_file.display().to_string())?;
    state_dir::prepare(&paths)?;
    RealDisk.create_dir(&paths.run).with_context(|| paths.run.display().to_string())?;
    let _lock = CoordinatorLock::acquire(&RealDisk, &paths.coordinator_lock())?;
    log::start(&paths.logs(), log_filter.as_deref().unwrap_or_else(|| config.word("log.level")))?;
    let (engine, findings) = Engine::open(&RealDisk, &paths.state, &paths.journal())?;
    for finding in &findings {
        tracing::warn!(finding, "store");
    }
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    let started = now();
    let registries = known_config_dirs(root.is_none(), &config);
    let eyes = eyes(root.as_ref(), &config, &paths);
    let world = RealWorld::new(
        poll.registry().try_clone()?,
        eyes.readable.clone(),
        Looker::start(eyes, Arc::clone(&waker))?,
        Background::start(Arc::clone(&waker))?,
    )?;
    let here = Here::read(started.wall_ms);
    let parts = Parts { world, disk: RealDisk, paths: paths.clone(), here, config, engine };
    let mut coordinator = Coordinator::start(parts, started)?;
    coordinator.problems.extend(findings);
    for config_dir in &registries {
        coordinator.watch_registry(&config_dir.to_string_lossy(), started);
    }
    let doors = Doors {
        spool_watch: watch_spool(&paths)?,
        signals: end_signals()?,
        listener: bind(&paths)?,
        waker,
        notifier: Notifier::new(notify_socket.as_deref()).context("NOTIFY_SOCKET")?,
    };
    let server = Server::new(poll, coordinator, doors)?;
    tracing::info!(version = coord_wire::VERSION, "serving");
    ready();
    let coordinator = server.run()?;
    // From here on hooks spool; what is accepted is made durable below.
    remove_if_there(&paths.socket())?;
    coordinator.finish(now())?;
    tracing::info!("ended");
    Ok(())
}

/// What panes and transcripts are looked at with.
fn eyes(root: Option<&PathBuf>, config: &Config, paths: &Paths) -> Eyes {
    let readable =
        |named: &str| Readable { root: root.cloned(), named: config.paths(named).to_vec() };
    let recorded = std::fs::read(paths.install_record()).ok();
    let recorded = recorded.and_then(|text| serde_json::from_slice::<InstallRecord>(&text).ok());
    let recorded = recorded.and_then(|record| record.tmux).map(PathBuf::from);
    let places = config.paths("tracking.tmux").iter().cloned().chain(recorded).collect();
    let tmux = Tmux::new(places, readable("tracking.tmux_sockets"), coord_screen::read);
    Eyes { tmux, readable: readable("tracking.config_dirs") }
}

/// Every connection and every watched process takes a descriptor; the usual soft limit of 1024 is
/// meant for programs that use `select`. Where it cannot be raised, less is served at once.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "limit of open files not raised");
    }
}

/// Configuration directories that are watched before any hook named them: the named ones, and
/// without a root of our own the client's default one.
fn known_config_dirs(has_default: bool, config: &Config) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").filter(|_| has_default).map(PathBuf::from);
    let default = home.filter(|home| home.is_absolute()).map(|home| home.join(".claude"));
    config.paths("tracking.config_dirs").iter().cloned().chain(default).collect()
}

/// Binds the socket beside its place and renames it there: hooks never meet a missing one, and the
/// lock says that no other coordinator has it.
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
    // Hooks that missed an exchange may try again at once.
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

/// Reports every write in the spool. Only writes: the coordinator's own opening of a file would
/// otherwise wake it again and again.
fn watch_spool(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&fd, paths.spool(), inotify::WatchFlags::MODIFY)?;
    Ok(fd)
}

/// A stream that becomes readable at SIGTERM, SIGINT or SIGHUP.
fn end_signals() -> anyhow::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

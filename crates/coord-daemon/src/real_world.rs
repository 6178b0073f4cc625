//! Implements [`World`] for this machine, with one adapter for each kind of observation and action.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use coord_fleet::{Allowed, Identity, IdentityError};
use coord_host::clients::Clients;
use coord_host::config_dirs::ConfigDirs;
use coord_host::executor::{Executor, Reply, Tools};
use coord_host::local_clock;
use coord_host::notices::{Notices, Programs, Told};
use coord_host::observer::{Observer, Seen, Sources};
use coord_host::passphrase::{FileError, HashError, Passphrase, PassphraseHash, Verifier};
use coord_host::registry::{Change, Found, Readable};
use coord_host::registry_reader::{RegistryReader, RegistryWish};
use coord_host::registry_watch::RegistryWatch;
use coord_host::relay::Relay;
use coord_host::shutdown::Root;
use coord_host::tmux::PaneWish;
use coord_host::transcript::{DecisionWish, MessageWish, TranscriptWish};
use coord_host::transcript_watch::TranscriptWatch;
use coord_host::watches::Watches;
use coord_host::worker::Supervisor;
use coord_host::{launch, process, registry};
use coord_model::{
    Action, LocalOffset, NeedId, ProcessRef, ProcessSeen, Registry, SessionKey, TmuxPane,
};
use coord_store::Disk;
use coord_wire::exchange::listener_pid;
use coord_wire::notice::SendRequest;
use coord_wire::paths::Paths;
use mio::Token;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::background::{Background, Done, Job};
use crate::world::{Membership, World};

/// The adapters to this machine.
pub(crate) struct RealWorld<D: Disk> {
    watches: Watches,
    clients: Clients,
    /// The loop's poll set.
    poll: mio::Registry,
    readable: Readable,
    config_dirs: ConfigDirs,
    pub(crate) registry_watch: RegistryWatch,
    registry_reader: RegistryReader,
    pub(crate) transcript_watch: TranscriptWatch,
    observer: Observer,
    executor: Executor,
    notices: Notices,
    programs: Programs,
    /// Where the hash of the passphrase is stored.
    passphrase_file: PathBuf,
    /// This machine's keys in a fleet, and whom it lets in.
    fleet_identity: PathBuf,
    fleet_allow: PathBuf,
    verifier: Verifier,
    background: Background<D>,
    relay: Relay,
    supervisor: Supervisor,
    root: Root,
}

impl<D: Disk> RealWorld<D> {
    /// Starts the workers and the adapters.
    pub(crate) fn start(
        poll: mio::Registry,
        clients: Clients,
        (sources, tools): (Sources, Tools),
        programs: Programs,
        paths: &Paths,
        relay: Option<Vec<OsString>>,
        supervisor: Supervisor,
    ) -> io::Result<Self> {
        let asker = tools.asker.another();
        let notices = Notices::start(programs.sender.clone(), asker, &supervisor)?;
        Ok(Self {
            watches: Watches::default(),
            clients,
            poll,
            readable: sources.readable.clone(),
            config_dirs: ConfigDirs::default(),
            registry_watch: RegistryWatch::new()?,
            registry_reader: RegistryReader::start(sources.readable.clone(), &supervisor)?,
            transcript_watch: TranscriptWatch::new()?,
            observer: Observer::start(sources, &supervisor)?,
            executor: Executor::start(tools, &supervisor)?,
            notices,
            programs,
            passphrase_file: paths.passphrase(),
            fleet_identity: paths.fleet_identity(),
            fleet_allow: paths.fleet_allow(),
            verifier: Verifier::start(&supervisor)?,
            background: Background::start(&supervisor)?,
            relay: Relay::start(relay, &supervisor)?,
            supervisor,
            root: Root::default(),
        })
    }

    /// The supervisor of the worker threads.
    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The watched process that has exited, by its token in the poll set.
    pub(crate) fn take_exit(&mut self, token: Token) -> Option<ProcessRef> {
        self.watches.take(&self.poll, token)
    }
}

impl<D: Disk> World for RealWorld<D> {
    type Disk = D;

    fn watch_process(&mut self, process: ProcessRef) -> io::Result<bool> {
        self.watches.add(&self.poll, process)
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        // A watched process is alive: its pidfd has not reported its exit.
        self.watches.has(process) || process::is_alive(process)
    }

    fn is_stopped(&self, process: ProcessRef) -> Option<bool> {
        let unwatched = || {
            let stat = process::stat(process.pid);
            stat.filter(|stat| stat.start_time == process.start_time).map(|stat| stat.is_stopped)
        };
        self.watches.is_stopped(process).or_else(unwatched)
    }

    fn recognize(&self, process: ProcessRef) -> Result<(), String> {
        // This runs for every tool call. A pidfd holds a watched process, so the start time needs no
        // check.
        if self.watches.has(process) {
            return self.clients.recognize_running(process.pid);
        }
        self.clients.recognize(process)
    }

    fn config_dir_of(&self, process: ProcessRef) -> Option<String> {
        launch::config_dir_of(process)
    }

    fn pane_server(&self, process: ProcessRef, socket: &str) -> Option<u32> {
        let stat = process::stat(process.pid)?;
        let is_it = stat.start_time == process.start_time && !stat.is_zombie;
        let leads = stat.session == process.pid && stat.tty != 0;
        let server = listener_pid(Path::new(socket)).ok()?;
        (is_it && leads && stat.ppid == server).then_some(server)
    }

    fn seen(&self, process: ProcessRef, alive: bool) -> ProcessSeen {
        process::seen(process, alive)
    }

    fn watch_registry(&mut self, config_dir: &str) -> Vec<Change> {
        self.registry_watch.add(&self.readable, config_dir)
    }

    fn retry_registries(&mut self) -> Vec<Change> {
        self.registry_watch.try_again(&self.readable)
    }

    fn missing_registries(&self) -> Vec<String> {
        self.registry_watch.missing()
    }

    fn registry_changes(&mut self) -> Vec<Change> {
        self.registry_watch.take()
    }

    fn read_registry(&mut self, wishes: Vec<RegistryWish>) {
        self.registry_reader.read(wishes);
    }

    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<Registry>> {
        registry::read_pid(&self.readable, Path::new(config_dir), pid)
    }

    fn lock_config_dir(&mut self, config_dir: &str) -> bool {
        self.config_dirs.lock(&self.readable, config_dir)
    }

    fn watch_transcript(&mut self, process: ProcessRef, path: &str) -> bool {
        self.transcript_watch.add(process, Path::new(path))
    }

    fn forget_transcript(&mut self, process: ProcessRef) {
        self.transcript_watch.remove(process);
    }

    fn transcript_changes(&mut self) -> Vec<ProcessRef> {
        self.transcript_watch.take()
    }

    fn look_at_panes(&mut self, wishes: Vec<PaneWish>) {
        self.observer.look_at_panes(wishes);
    }

    fn read_transcript(&mut self, wish: TranscriptWish) {
        self.observer.read_transcript(wish);
    }

    fn seek_messages(&mut self, wish: MessageWish) {
        self.observer.seek_messages(wish);
    }

    fn seek_decisions(&mut self, wish: DecisionWish) {
        self.observer.seek_decisions(wish);
    }

    fn look_at_work(&mut self, session: SessionKey, dir: String) {
        self.observer.look_at_work(session, dir);
    }

    fn read_task(&mut self, dir: String) {
        self.observer.read_task(dir);
    }

    fn is_shutting_down(&self, wall_ms: u64) -> bool {
        self.root.is_shutting_down(wall_ms)
    }

    fn random(&mut self) -> u64 {
        let mut bytes = [0; 8];
        // Without randomness, the time tells ids apart.
        bytes.copy_from_slice(&coord_store::now().mono_ns.to_le_bytes());
        let _fallback_stays = getrandom(&mut bytes, GetRandomFlags::empty());
        u64::from_le_bytes(bytes)
    }

    fn take_seen(&mut self) -> Option<Seen> {
        self.observer.take().or_else(|| self.registry_reader.take().map(Seen::Registry))
    }

    fn act(&mut self, action: Action) {
        self.executor.act(action);
    }

    fn take_reply(&mut self) -> Option<Reply> {
        self.executor.take()
    }

    fn send_notice(&mut self, channel: String, number: Option<u64>, request: SendRequest) {
        let request = self.programs.complete(request);
        self.notices.send(channel, number, request);
    }

    fn look_for_presence(&mut self, need: NeedId, pane: TmuxPane) {
        self.notices.look_for_presence(need, pane);
    }

    fn take_told(&mut self) -> Option<Told> {
        self.notices.take()
    }

    fn local_offsets(&self, wall_ms: u64) -> Vec<LocalOffset> {
        local_clock::offsets(wall_ms)
    }

    fn keep_relay(&mut self, is_wanted: bool) {
        self.relay.keep(is_wanted);
    }

    fn membership(&self) -> Result<Option<Membership>, String> {
        let identity = match Identity::read(&self.fleet_identity) {
            Ok(identity) => identity,
            Err(IdentityError::Missing) => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", self.fleet_identity.display())),
        };
        let allowed = Allowed::read(&self.fleet_allow)
            .map_err(|error| format!("{}: {error}", self.fleet_allow.display()))?;
        Ok(Some(Membership { machine: identity.keys.machine(), allowed }))
    }

    fn passphrase(&self) -> Result<Option<PassphraseHash>, FileError> {
        PassphraseHash::read(&self.passphrase_file)
    }

    fn verify_passphrase(&mut self, passphrase: Passphrase, hash: PassphraseHash) {
        self.verifier.verify(passphrase, hash);
    }

    fn take_verified(&mut self) -> Option<Result<bool, HashError>> {
        self.verifier.take()
    }

    fn give(&mut self, job: Job<D>) {
        self.background.give(job);
    }

    fn take_done(&mut self) -> Option<Done<D>> {
        self.background.take()
    }

    fn finish(&mut self) -> Vec<Done<D>> {
        self.background.finish()
    }
}

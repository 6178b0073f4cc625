//! The machine as the coordinator's [`World`]: it answers what it is asked, when its time has come.

use std::io;

use coord_daemon::background::{Done, Job, run};
use coord_daemon::world::{Membership, World};
use coord_host::executor::Reply;
use coord_host::notices::Told;
use coord_host::observer::Seen;
use coord_host::passphrase::{FileError, HashError, Passphrase, PassphraseHash};
use coord_host::registry::{Change, Found};
use coord_host::registry_reader::RegistryWish;
use coord_host::tmux::PaneWish;
use coord_host::transcript::{DecisionWish, MessageWish, TranscriptWish};
use coord_model::{
    Action, LocalOffset, NeedId, ProcessRef, ProcessSeen, Registry, SessionKey, TmuxPane,
};
use coord_testkit::FakeDisk;
use coord_wire::notice::SendRequest;

use super::{LookAt, SharedMachine, WORK_NS};

impl World for SharedMachine {
    type Disk = FakeDisk;

    fn watch_process(&mut self, process: ProcessRef) -> io::Result<bool> {
        let mut machine = self.get();
        if machine.unwatchable.contains(&process.pid) {
            return Err(io::Error::other("injected: out of descriptors"));
        }
        let is_alive = machine.is_alive(process);
        if is_alive {
            machine.pending.watched.insert(process);
        }
        Ok(is_alive)
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        self.get().is_alive(process)
    }

    fn is_stopped(&self, process: ProcessRef) -> Option<bool> {
        let machine = self.get();
        let found = machine.processes.get(&process.pid);
        found.filter(|one| one.start_time == process.start_time).map(|one| one.is_stopped)
    }

    fn recognize(&self, process: ProcessRef) -> Result<(), String> {
        let machine = self.get();
        let found = machine.processes.get(&process.pid);
        let is_client = found.is_some_and(|one| {
            one.start_time == process.start_time && one.is_client && one.tool_of.is_none()
        });
        if is_client { Ok(()) } else { Err("another program".to_owned()) }
    }

    fn config_dir_of(&self, process: ProcessRef) -> Option<String> {
        let machine = self.get();
        let found = machine.processes.get(&process.pid);
        found.filter(|one| one.start_time == process.start_time)?.config_dir.clone()
    }

    fn pane_server(&self, process: ProcessRef, socket: &str) -> Option<u32> {
        let machine = self.get();
        let found = machine.processes.get(&process.pid);
        let parent = found.filter(|one| one.start_time == process.start_time)?.parent;
        let server = machine.tmux.get(socket).map(|server| server.process.pid)?;
        (parent == server).then_some(server)
    }

    fn seen(&self, process: ProcessRef, alive: bool) -> ProcessSeen {
        let machine = self.get();
        let found = machine.processes.get(&process.pid).filter(|_| alive);
        let found = found.filter(|one| one.start_time == process.start_time);
        ProcessSeen {
            process,
            alive,
            kind: found.map(|one| one.kind),
            is_stopped: false,
            forked_from: found.and_then(|one| one.forked_from.clone()),
            launch: found.and_then(|one| one.launch.clone()).map(Box::new),
        }
    }

    fn watch_registry(&mut self, config_dir: &str) -> Vec<Change> {
        self.get().registries.entry(config_dir.to_owned()).or_default().is_wanted = true;
        self.retry_registries()
    }

    fn retry_registries(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (dir, registry) in &mut self.get().registries {
            if registry.is_there && registry.is_wanted && !registry.is_watched {
                registry.is_watched = true;
                changes.extend(registry.entries.keys().map(|pid| (dir.clone(), *pid)));
            }
        }
        changes
    }

    fn missing_registries(&self) -> Vec<String> {
        let machine = self.get();
        let missing = machine.registries.iter().filter(|(_, one)| one.is_wanted && !one.is_watched);
        missing.map(|(dir, _)| dir.clone()).collect()
    }

    fn registry_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.get().pending.registry_changes)
    }

    fn read_registry(&mut self, wishes: Vec<RegistryWish>) {
        let mut machine = self.get();
        let now = machine.now.mono_ns;
        machine.pending.looks.extend(wishes.into_iter().map(|wish| (now, LookAt::Registry(wish))));
    }

    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<Registry>> {
        self.get().registry_entry(config_dir, pid)
    }

    fn lock_config_dir(&mut self, config_dir: &str) -> bool {
        !self.get().locked.contains(config_dir)
    }

    fn watch_transcript(&mut self, process: ProcessRef, path: &str) -> bool {
        let mut machine = self.get();
        let is_there = machine.transcripts.contains_key(path);
        is_there && machine.pending.transcripts.insert(process, path.to_owned()).is_none()
    }

    fn forget_transcript(&mut self, process: ProcessRef) {
        self.get().pending.transcripts.remove(&process);
    }

    fn transcript_changes(&mut self) -> Vec<ProcessRef> {
        let mut changes = std::mem::take(&mut self.get().pending.transcript_changes);
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    fn is_shutting_down(&self, _: u64) -> bool {
        self.get().is_shutting_down
    }

    fn random(&mut self) -> u64 {
        self.get().random.next()
    }

    fn look_at_panes(&mut self, wishes: Vec<PaneWish>) {
        let mut machine = self.get();
        let (pace, looked_ns) = (machine.pace.look.clone(), machine.now.mono_ns);
        if let Some(asked) = &mut machine.asked {
            asked.extend(wishes.iter().cloned());
        }
        for wish in wishes {
            let due = machine.due(pace.clone());
            machine.pending.looks.push((due, LookAt::Pane(Box::new(wish), looked_ns)));
        }
    }

    fn read_transcript(&mut self, wish: TranscriptWish) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        machine.pending.looks.push((due, LookAt::Transcript(wish)));
    }

    fn seek_messages(&mut self, wish: MessageWish) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        machine.pending.looks.push((due, LookAt::Messages(wish)));
    }

    fn seek_decisions(&mut self, wish: DecisionWish) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        machine.pending.looks.push((due, LookAt::Decisions(wish)));
    }

    fn read_task(&mut self, dir: String) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        machine.pending.looks.push((due, LookAt::Task(dir)));
    }

    fn look_at_work(&mut self, session: SessionKey, _: String) {
        let mut machine = self.get();
        let due = machine.now.mono_ns.saturating_add(WORK_NS);
        machine.pending.looks.push((due, LookAt::Work(session)));
    }

    fn take_seen(&mut self) -> Option<Seen> {
        let mut machine = self.get();
        machine.serve_looks();
        machine.pending.seen.pop_front()
    }

    fn act(&mut self, action: Action) {
        let mut machine = self.get();
        let pace = machine.pace.look.clone();
        let due = machine.due(pace);
        // One after the other.
        let due = machine.pending.actions.back().map_or(due, |(before, _)| due.max(*before));
        machine.pending.actions.push_back((due, action));
    }

    fn take_reply(&mut self) -> Option<Reply> {
        let mut machine = self.get();
        machine.serve_actions();
        machine.pending.replies.pop_front()
    }

    fn send_notice(&mut self, channel: String, number: Option<u64>, request: SendRequest) {
        let mut machine = self.get();
        let now = machine.now.mono_ns;
        machine.channels.send(channel, number, request, now);
    }

    fn look_for_presence(&mut self, need: NeedId, _: TmuxPane) {
        self.get().channels.look(need);
    }

    fn take_told(&mut self) -> Option<Told> {
        let mut machine = self.get();
        let now = machine.now.mono_ns;
        machine.channels.serve(now);
        machine.channels.take()
    }

    fn local_offsets(&self, _: u64) -> Vec<LocalOffset> {
        Vec::new()
    }

    fn keep_relay(&mut self, _: bool) {}

    fn membership(&self) -> Result<Option<Membership>, String> {
        Ok(self.get().membership.clone())
    }

    fn passphrase(&self) -> Result<Option<PassphraseHash>, FileError> {
        Ok(self.get().passphrase.clone())
    }

    fn verify_passphrase(&mut self, _: Passphrase, _: PassphraseHash) {}

    fn take_verified(&mut self) -> Option<Result<bool, HashError>> {
        None
    }

    fn give(&mut self, job: Job<FakeDisk>) {
        let mut machine = self.get();
        let pace = machine.pace.disk.clone();
        let due = machine.due(pace);
        // One after the other.
        let due = machine.pending.jobs.back().map_or(due, |(before, _)| due.max(*before));
        machine.pending.jobs.push_back((due, job));
    }

    fn take_done(&mut self) -> Option<Done<FakeDisk>> {
        let mut machine = self.get();
        let now = machine.now.mono_ns;
        let is_over = machine.pending.jobs.front().is_some_and(|(due, _)| *due <= now);
        let (_, job) = if is_over { machine.pending.jobs.pop_front()? } else { return None };
        drop(machine);
        Some(run(job))
    }

    fn finish(&mut self) -> Vec<Done<FakeDisk>> {
        let jobs = std::mem::take(&mut self.get().pending.jobs);
        jobs.into_iter().map(|(_, job)| run(job)).collect()
    }
}

//! From journal entries to core events: the one place where wire types become core types, used by
//! the running coordinator and by replay alike.

use coord_model::{
    Background, EndReason, Event, Harness, HookEvent, HookKind, Host, Kind, Launch, PaneFound,
    PaneProof, PaneSeen, Parent, ParentKind, Place, ProcessRef, Provenance, Registry,
    RegistryStatus, Screen, SessionKey, Settings, StartSource, TmuxPane, ToolPhase, Via,
};
use coord_wire::envelope::{self, Envelope, PROBE};
use coord_wire::journal::{Corroborated, Domain, Entry, Pane, RegistryEntry, Started};
use coord_wire::{journal, stamp};

/// The core event of an entry; none for entries that only people read.
pub fn event(entry: &Entry) -> Option<Event> {
    Some(match entry {
        Entry::Started(started) => started_event(started),
        Entry::Due => Event::Due,
        Entry::Gap { ns } => Event::Gap { ns: *ns },
        Entry::Hook { via, verified, corroborated, envelope } => {
            // What stands in the journal was parsed before it was written.
            let envelope = Envelope::parse(envelope.get().as_bytes()).ok()?;
            let provenance = provenance(*verified, corroborated.clone());
            Event::Hook(Box::new(hook_event(envelope, *via, provenance)?))
        }
        Entry::Folded { session_id, id, .. } => {
            Event::Folded { id: u128::from_str_radix(id, 16).ok()?, session_id: session_id.clone() }
        }
        Entry::SpoolFolded { events } => Event::SpoolFolded { events: *events },
        Entry::Malformed { .. } => Event::Malformed,
        Entry::ProcessSeen(seen) => process_seen(seen),
        Entry::ProcessExited { process } => Event::ProcessExited { process: process_ref(*process) },
        Entry::RegistryRead { process, entry, after_death, domain } => Event::RegistryRead {
            process: process_ref(*process),
            found: registry(entry),
            after_death: *after_death,
            domain: domain.clone().map(domain_of),
        },
        Entry::PaneSeen { process, pane, looked_ns, after_death } => Event::PaneSeen {
            process: process_ref(*process),
            found: pane_found(pane),
            looked_ns: *looked_ns,
            after_death: *after_death,
        },
        Entry::TranscriptRead { process, interrupted_ms, has_signature, failure } => {
            Event::TranscriptRead {
                process: process_ref(*process),
                interrupted_ms: *interrupted_ms,
                has_signature: *has_signature,
                failure: failure.clone().map(failure_of),
            }
        }
        Entry::TaskRead { dir, signal, stop } => {
            let found = coord_model::TaskFound { signal: *signal, stop: stop.clone() };
            Event::TaskRead { dir: dir.clone(), found }
        }
        // What this version cannot read has no meaning for it: the step is looked for anew.
        Entry::Proved { intent, proof, .. } => Event::Proved {
            intent: serde_json::from_str(intent.get()).ok()?,
            proof: serde_json::from_str(proof.get()).ok()?,
        },
        Entry::Acted { intent, outcome, .. } => Event::Acted {
            intent: serde_json::from_str(intent.get()).ok()?,
            outcome: serde_json::from_str(outcome.get()).ok()?,
        },
        Entry::ResumeClaimed { session, nonce, process, .. } => Event::ResumeClaimed {
            session: SessionKey(*session),
            nonce: nonce.clone(),
            process: process_ref(*process),
        },
        Entry::ResumeFailed { session, why, .. } => {
            Event::ResumeFailed { session: SessionKey(*session), why: why.clone() }
        }
        // What stands in the journal was a command when it was written.
        Entry::Operator { command, .. } => {
            Event::Operator(serde_json::from_str(command.get()).ok()?)
        }
        // What stands in the journal was one when it was written.
        Entry::Message { event, .. } => Event::Queue(serde_json::from_str(event.get()).ok()?),
        Entry::Shutdown { under_way } => Event::Shutdown(*under_way),
        Entry::ConfigDirLock { config_dir, held } => {
            Event::ConfigDirLock { config_dir: config_dir.clone(), held: *held }
        }
        Entry::ConfigChanged { settings, .. } => {
            Event::Settings(Box::new(serde_json::from_str(settings.get()).ok()?))
        }
        Entry::JournalReopened { .. } | Entry::Decision(_) => return None,
    })
}

/// How far a recorded event is believed (H-44). Of an unverified one that was recorded before it was noted what
/// confirms it, nothing does.
fn provenance(verified: bool, corroborated: Option<Corroborated>) -> Provenance {
    match corroborated {
        _ if verified => Provenance::Verified,
        Some(Corroborated { client, registry }) => {
            Provenance::Corroborated { is_client: client, registry_dir: registry }
        }
        None => Provenance::Claimed,
    }
}

fn process_seen(seen: &journal::ProcessSeen) -> Event {
    Event::ProcessSeen {
        process: process_ref(seen.process),
        alive: seen.alive,
        kind: seen.kind.map(kind_of),
        is_stopped: seen.stopped,
        forked_from: seen.forked_from.clone(),
        launch: seen.launch.as_deref().map(launch).map(Box::new),
    }
}

fn domain_of(domain: Domain) -> coord_model::Domain {
    let Domain { machine, pid_ns } = domain;
    coord_model::Domain { machine, pid_ns }
}

fn failure_of(failure: journal::ApiFailure) -> coord_model::Failure {
    let journal::ApiFailure { error, written_ms, resets_ms } = failure;
    coord_model::Failure { error, written_ms, resets_ms }
}

fn started_event(started: &Started) -> Event {
    let settings: Settings = serde_json::from_str(started.settings.get()).unwrap_or_default();
    let host = Host {
        machine: started.machine.clone(),
        boot: started.boot.clone(),
        boot_at_ms: started.boot_at,
        pid_ns: started.pid_ns,
    };
    Event::Started(host, Box::new(settings))
}

/// The core's view of an envelope; none if its id or time is malformed, and of a probe, which only
/// has to be recorded.
pub fn hook_event(
    envelope: Envelope,
    via: journal::Via,
    provenance: Provenance,
) -> Option<HookEvent> {
    if envelope.event == PROBE {
        return None;
    }
    Some(HookEvent {
        id: envelope.event_id()?,
        wall_ms: envelope.wall_ms()?,
        kind: hook_kind(&envelope),
        harness: envelope.harness.as_ref().map(|harness| Harness {
            process: process_ref(harness.process()),
            pid_ns: harness.pid_ns,
            kind: harness.kind.map(kind_of),
        }),
        tmux: envelope.tmux.as_ref().map(|tmux| TmuxPane {
            socket: tmux.socket.clone(),
            server: ProcessRef { pid: tmux.server_pid, start_time: tmux.server_start },
            pane: tmux.pane.clone(),
        }),
        session_id: envelope.session_id,
        boot: envelope.boot,
        mono_ns: envelope.mono_ns,
        machine: envelope.machine,
        host: envelope.host,
        cwd: envelope.cwd,
        transcript_path: envelope.transcript_path,
        permission_mode: envelope.permission_mode,
        config_dir: envelope.config_dir,
        agent: envelope.agent_id,
        prompt_id: envelope.prompt_id,
        tool: envelope.tool_name,
        digest: envelope.tool_input_digest.and_then(|digest| u64::from_str_radix(&digest, 16).ok()),
        stop_hook_active: envelope.stop_hook_active == Some(true),
        provenance,
        via: match via {
            journal::Via::Socket => Via::Socket,
            journal::Via::Spool => Via::Spool,
        },
    })
}

fn hook_kind(envelope: &Envelope) -> HookKind {
    match envelope.event.as_str() {
        "SessionStart" => HookKind::SessionStart(match envelope.source.as_deref() {
            Some("startup") => StartSource::Startup,
            Some("resume") => StartSource::Resume,
            Some("clear") => StartSource::Clear,
            Some("compact") => StartSource::Compact,
            Some("fork") => StartSource::Fork,
            Some(_) | None => StartSource::Unknown,
        }),
        "SessionEnd" => HookKind::SessionEnd(match envelope.reason.as_deref() {
            Some("prompt_input_exit") => EndReason::PromptInputExit,
            Some("logout") => EndReason::Logout,
            Some("clear") => EndReason::Clear,
            Some("resume") => EndReason::Resume,
            Some(_) | None => EndReason::Other,
        }),
        "UserPromptSubmit" => HookKind::UserPromptSubmit,
        "PreToolUse" => HookKind::Tool(ToolPhase::Before),
        "PostToolUse" => HookKind::Tool(ToolPhase::After),
        "PostToolUseFailure" => HookKind::Tool(ToolPhase::Failed),
        "Stop" => HookKind::Stop(background(envelope)),
        "StopFailure" => {
            HookKind::StopFailure(envelope.error.clone().unwrap_or_else(|| "unknown".to_owned()))
        }
        "PermissionRequest" => HookKind::PermissionRequest,
        "PermissionDenied" => HookKind::PermissionDenied,
        "SubagentStop" => HookKind::SubagentStop,
        "Notification" => {
            HookKind::Notification(envelope.notification_type.clone().unwrap_or_default())
        }
        other => HookKind::Other(other.to_owned()),
    }
}

fn background(envelope: &Envelope) -> Background {
    let all = envelope.background_tasks.unwrap_or(0);
    let subagents = envelope.background_subagents.unwrap_or(0).min(all);
    let crons = envelope.session_crons.unwrap_or(0);
    Background { tasks: all.saturating_sub(subagents), subagents, crons }
}

pub(crate) fn registry(entry: &RegistryEntry) -> Registry {
    match entry {
        RegistryEntry::Present {
            session_id,
            status,
            waiting_for,
            changed_ms,
            foreign,
            unrecognized,
            cwd,
            config_dir,
        } => Registry::Present(coord_model::RegistryEntry {
            session_id: session_id.clone(),
            status: registry_status(status.as_deref(), waiting_for.as_deref()),
            changed_ms: *changed_ms,
            is_foreign: *foreign,
            is_unrecognized: *unrecognized,
            cwd: cwd.clone(),
            config_dir: config_dir.clone(),
        }),
        RegistryEntry::Absent => Registry::Absent,
        RegistryEntry::Unreadable { .. } | RegistryEntry::Strange { .. } => Registry::Unreadable,
    }
}

/// The table of the client's status words (measured); a word that is not in it is no source (H-35).
fn registry_status(status: Option<&str>, waiting_for: Option<&str>) -> Option<RegistryStatus> {
    match (status?, waiting_for) {
        ("idle", _) => Some(RegistryStatus::Idle),
        ("busy", _) => Some(RegistryStatus::Busy),
        ("shell", _) => Some(RegistryStatus::Shell),
        ("waiting", Some("permission prompt" | "sandbox request" | "worker request")) => {
            Some(RegistryStatus::WaitingPermission)
        }
        // `input needed`, `dialog open`, and whatever else it may wait for: a person is needed.
        ("waiting", _) => Some(RegistryStatus::WaitingInput),
        _ => None,
    }
}

/// What a look at a pane found, in the core's terms.
pub fn pane_found(pane: &Pane) -> PaneFound {
    match pane {
        Pane::Its { socket, server, pane, pane_pid, tty, screen, farewell, signature, digest } => {
            PaneFound::Its(PaneSeen {
                pane: TmuxPane {
                    socket: socket.clone(),
                    server: process_ref(*server),
                    pane: pane.clone(),
                },
                proof: PaneProof { pane_pid: *pane_pid, tty: *tty },
                screen: screen.as_deref().and_then(Screen::from_word),
                farewell: farewell.clone(),
                signature: signature.clone(),
                digest: *digest,
            })
        }
        Pane::NotThere => PaneFound::NotThere,
        Pane::Unreadable { why } => PaneFound::Unreadable { why: why.clone() },
    }
}

fn launch(launch: &journal::Launch) -> Launch {
    let kind = match &launch.parent_kind {
        journal::ParentKind::Shell => ParentKind::Shell,
        journal::ParentKind::Tmux => ParentKind::Tmux,
        journal::ParentKind::Other(name) => ParentKind::Other { name: name.clone() },
    };
    let journal::Place { path, device, inode } = launch.cwd.clone();
    Launch {
        parent: Parent { process: process_ref(launch.parent), kind },
        program: launch.program.clone(),
        flags: launch.flags.clone(),
        unfit: launch.unfit.clone(),
        cwd: Place { path, device, inode },
        variables: launch.variables.clone(),
        config_dir: launch.config_dir.clone(),
    }
}

fn kind_of(kind: envelope::Kind) -> Kind {
    match kind {
        envelope::Kind::Interactive => Kind::Interactive,
        envelope::Kind::Headless => Kind::Headless,
    }
}

/// The core's name of a process.
pub fn process_ref(process: stamp::ProcessRef) -> ProcessRef {
    ProcessRef { pid: process.pid, start_time: process.start_time }
}

/// The wire's name of a process.
pub fn wire_process(process: ProcessRef) -> stamp::ProcessRef {
    stamp::ProcessRef { pid: process.pid, start_time: process.start_time }
}

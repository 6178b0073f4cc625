//! Hook events: what a session reported, and how far it is believed.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::envelope::{Envelope, Harness, PROBE};
use crate::{ProcessRef, STATUS_LINE, TmuxPane, Usage};

/// Id of a hook's event: 128 bit, ordered by time of emission.
pub type EventId = u128;

/// Ids as 32 lower-case hex digits, as in envelopes.
pub(crate) mod id_digits {
    use alloc::borrow::Cow;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(id: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{id:032x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        let digits = <Cow<'de, str>>::deserialize(deserializer)?;
        u128::from_str_radix(&digits, 16).map_err(de::Error::custom)
    }
}

/// How a hook's event reached the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Over its socket.
    #[serde(alias = "Socket")]
    Socket,
    /// Through the spool.
    #[serde(alias = "Spool")]
    Spool,
}

/// One hook event: its envelope as parsed, and how far it is believed.
///
/// It is stored as `{"via", "verified", "corroborated", "envelope"}` with the envelope as it came, so that fields
/// unknown to this version are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Stored")]
pub struct HookEvent {
    /// Unique id.
    pub id: EventId,
    /// The event that the hook was called for.
    pub kind: HookKind,
    /// The session.
    pub session_id: String,
    /// Kernel boot id at emission.
    pub boot: String,
    /// CLOCK_MONOTONIC at emission, nanoseconds.
    pub mono_ns: u64,
    /// Wall time at emission, milliseconds since 1970.
    pub wall_ms: u64,
    /// Machine id.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// The client's process, if it could be determined.
    pub harness: Option<Harness>,
    /// What the environment says about tmux.
    pub tmux: Option<TmuxPane>,
    /// Working directory; empty if unknown.
    pub cwd: String,
    /// Path of the transcript; empty if unknown.
    pub transcript_path: String,
    /// Permission mode, if the event names it.
    pub permission_mode: Option<String>,
    /// The client's configuration directory; empty if unknown.
    pub config_dir: String,
    /// The subagent that it came from; none for the main thread.
    pub agent: Option<String>,
    /// The subagent's type.
    pub agent_kind: Option<String>,
    /// The prompt it belongs to.
    pub prompt_id: Option<String>,
    /// The tool, for tool and permission events.
    pub tool: Option<String>,
    /// The client's id of the call; a permission request has none (measured).
    pub call: Option<String>,
    /// Keyed digest of the tool's input.
    pub digest: Option<u64>,
    /// For Stop: whether a hook already made this turn continue.
    pub stop_hook_active: bool,
    /// How far it is believed.
    pub provenance: Provenance,
    /// How it arrived.
    pub via: Via,
    /// Its envelope as it came.
    pub text: EnvelopeText,
}

/// The JSON text of an envelope, unchanged.
#[derive(Debug, Clone)]
pub struct EnvelopeText(pub Box<RawValue>);

impl Default for EnvelopeText {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for EnvelopeText {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for EnvelopeText {}

impl HookEvent {
    /// The event of an envelope, with the envelope's text. Nothing confirms it yet.
    pub fn new(envelope: Envelope, text: Box<RawValue>, via: Via) -> Self {
        let kind = HookKind::of(&envelope);
        Self {
            id: envelope.event_id().unwrap_or_default(),
            wall_ms: envelope.wall_ms().unwrap_or_default(),
            kind,
            harness: envelope.harness,
            tmux: envelope.tmux.map(|tmux| TmuxPane {
                socket: tmux.socket,
                server: ProcessRef { pid: tmux.server_pid, start_time: tmux.server_start },
                pane: tmux.pane,
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
            agent_kind: envelope.agent_type,
            prompt_id: envelope.prompt_id,
            tool: envelope.tool_name,
            call: envelope.tool_use_id,
            digest: envelope
                .tool_input_digest
                .and_then(|digest| u64::from_str_radix(&digest, 16).ok()),
            stop_hook_active: envelope.stop_hook_active == Some(true),
            provenance: Provenance::Claimed,
            via,
            text: EnvelopeText(text),
        }
    }

    /// Whether it changes nothing: it only proves that events arrive, or this version cannot read it.
    pub fn is_void(&self) -> bool {
        matches!(self.kind.name(), PROBE | "")
    }

    /// Whether its sender was verified.
    pub fn is_verified(&self) -> bool {
        self.provenance == Provenance::Verified
    }

    /// Whether something other than the event itself shows that its harness holds its session.
    pub fn is_proved(&self) -> bool {
        match &self.provenance {
            Provenance::Verified => true,
            Provenance::Corroborated { registry_dir, .. } => registry_dir.is_some(),
            Provenance::Claimed => false,
        }
    }

    /// Whether its harness is a living client, although its session is only claimed.
    pub fn has_living_client(&self) -> bool {
        matches!(self.provenance, Provenance::Corroborated { is_client: true, .. })
    }
}

/// How far an event is believed (H-44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The socket's peer was a child of the client that it names (H-25).
    Verified,
    /// The sender is not verified, but something that it reports was confirmed.
    Corroborated {
        /// Whether the process that it names lives and is a recognized client.
        is_client: bool,
        /// The configuration directory in whose registry the entry of that process names this session.
        registry_dir: Option<String>,
    },
    /// Nothing confirms it.
    Claimed,
}

/// The hook events that the rules distinguish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookKind {
    /// A session begins or continues.
    SessionStart(StartSource),
    /// A session ends.
    SessionEnd(EndReason),
    /// A prompt was submitted.
    UserPromptSubmit,
    /// A tool is about to run, ran, or failed.
    Tool(ToolPhase),
    /// A turn ended.
    Stop(Background),
    /// A turn ended with an API error: its typed name.
    StopFailure(String),
    /// A permission, question or plan dialog is about to be shown (R-05).
    PermissionRequest,
    /// Auto mode refused a call.
    PermissionDenied,
    /// A notification: its type.
    Notification(String),
    /// A subagent ended.
    SubagentStop,
    /// The client's status line was drawn: the numbers that it shows (N-08). No sign of work, because the client
    /// draws it by a timer too (measured).
    StatusLine(Box<Usage>),
    /// Anything else: a sign of life, with its name.
    Other(String),
}

impl HookKind {
    fn of(envelope: &Envelope) -> Self {
        match envelope.event.as_str() {
            "SessionStart" => Self::SessionStart(StartSource::of(envelope.source.as_deref())),
            "SessionEnd" => Self::SessionEnd(EndReason::of(envelope.reason.as_deref())),
            "UserPromptSubmit" => Self::UserPromptSubmit,
            "PreToolUse" => Self::Tool(ToolPhase::Before),
            "PostToolUse" => Self::Tool(ToolPhase::After),
            "PostToolUseFailure" => Self::Tool(ToolPhase::Failed),
            "Stop" => Self::Stop(Background::of(envelope)),
            "StopFailure" => {
                Self::StopFailure(envelope.error.clone().unwrap_or_else(|| "unknown".into()))
            }
            "PermissionRequest" => Self::PermissionRequest,
            "PermissionDenied" => Self::PermissionDenied,
            "SubagentStop" => Self::SubagentStop,
            "Notification" => {
                Self::Notification(envelope.notification_type.clone().unwrap_or_default())
            }
            STATUS_LINE => Self::StatusLine(Box::new(envelope.usage.clone().unwrap_or_default())),
            other => Self::Other(other.into()),
        }
    }

    /// The client's own name of the event.
    pub fn name(&self) -> &str {
        match self {
            Self::SessionStart(_) => "SessionStart",
            Self::SessionEnd(_) => "SessionEnd",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Tool(ToolPhase::Before) => "PreToolUse",
            Self::Tool(ToolPhase::After) => "PostToolUse",
            Self::Tool(ToolPhase::Failed) => "PostToolUseFailure",
            Self::Stop(_) => "Stop",
            Self::StopFailure(_) => "StopFailure",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::Notification(_) => "Notification",
            Self::SubagentStop => "SubagentStop",
            Self::StatusLine(_) => STATUS_LINE,
            Self::Other(name) => name,
        }
    }
}

/// The phase of a tool event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPhase {
    /// PreToolUse.
    Before,
    /// PostToolUse.
    After,
    /// PostToolUseFailure.
    Failed,
}

/// The source of a SessionStart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartSource {
    /// A new conversation.
    Startup,
    /// An old conversation continues.
    Resume,
    /// The conversation was cleared: a new id in the same process.
    Clear,
    /// The conversation was compacted: same id, perhaps in the middle of a turn.
    Compact,
    /// A copy of a conversation under a new id.
    Fork,
    /// A source that this version does not know.
    Unknown,
}

/// The reason of a SessionEnd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// /exit, Ctrl-C twice, Ctrl-D twice.
    PromptInputExit,
    /// Logged out.
    Logout,
    /// Cleared; the same process continues under a new id.
    Clear,
    /// The process went over to another conversation.
    Resume,
    /// End of a `-p` run, SIGTERM, SIGHUP, a closed pane.
    Other,
}

/// Work that outlives its turn (R-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Background {
    /// Background tasks other than subagents.
    pub tasks: u32,
    /// Background subagents.
    pub subagents: u32,
    /// Scheduled wake-ups.
    pub crons: u32,
}

impl Background {
    fn of(envelope: &Envelope) -> Self {
        let all = envelope.background_tasks.unwrap_or(0);
        let subagents = envelope.background_subagents.unwrap_or(0).min(all);
        let crons = envelope.session_crons.unwrap_or(0);
        Self { tasks: all.saturating_sub(subagents), subagents, crons }
    }

    /// Whether there is any background work.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

impl StartSource {
    fn of(word: Option<&str>) -> Self {
        match word {
            Some("startup") => Self::Startup,
            Some("resume") => Self::Resume,
            Some("clear") => Self::Clear,
            Some("compact") => Self::Compact,
            Some("fork") => Self::Fork,
            Some(_) | None => Self::Unknown,
        }
    }
}

impl EndReason {
    fn of(word: Option<&str>) -> Self {
        match word {
            Some("prompt_input_exit") => Self::PromptInputExit,
            Some("logout") => Self::Logout,
            Some("clear") => Self::Clear,
            Some("resume") => Self::Resume,
            Some(_) | None => Self::Other,
        }
    }
}

/// A hook event as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<Text = Box<RawValue>> {
    via: Via,
    verified: bool,
    /// What the coordinator confirmed of an unverified event when it arrived (H-44). An event that was recorded
    /// before this field existed has nothing confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corroborated: Option<Corroborated>,
    envelope: Text,
}

#[derive(Serialize, Deserialize)]
struct Corroborated {
    #[serde(default)]
    client: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<String>,
}

impl Serialize for HookEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let corroborated = match &self.provenance {
            Provenance::Corroborated { is_client, registry_dir } => {
                Some(Corroborated { client: *is_client, registry: registry_dir.clone() })
            }
            Provenance::Verified | Provenance::Claimed => None,
        };
        let (verified, envelope) = (self.is_verified(), &*self.text.0);
        Stored { via: self.via, verified, corroborated, envelope }.serialize(serializer)
    }
}

impl From<Stored> for HookEvent {
    fn from(stored: Stored) -> Self {
        let Stored { via, verified, corroborated, envelope: text } = stored;
        // A recorded event must not keep the store from being opened (G1). An event that this version cannot read
        // has no meaning for it.
        let Ok(envelope) = Envelope::parse(text.get().as_bytes()) else {
            return Self::new(Envelope::default(), text, via);
        };
        let provenance = match corroborated {
            _ if verified => Provenance::Verified,
            Some(Corroborated { client, registry }) => {
                Provenance::Corroborated { is_client: client, registry_dir: registry }
            }
            None => Provenance::Claimed,
        };
        Self { provenance, ..Self::new(envelope, text, via) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // G1: an envelope of another version is kept in the journal, and means nothing to this version.
    #[test]
    fn a_stored_envelope_that_cannot_be_read_means_nothing_and_is_kept() {
        let stored = r#"{"via":"spool","verified":true,"envelope":{"v":9,"new":[1]}}"#;
        let event: HookEvent = serde_json::from_str(stored).unwrap();
        assert!(event.is_void() && !event.is_verified());
        assert!(serde_json::to_string(&event).unwrap().contains(r#"{"v":9,"new":[1]}"#));
    }
}

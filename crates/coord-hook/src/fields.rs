//! The few fields that are extracted from a payload, by name (G11).
//!
//! This module decides what leaves the payload: this list, and nothing else. Prompts and tool
//! inputs leave only as keyed digests. Messages and tool outputs have no name here, and so never
//! leave.

use crate::text::Copier;
use coord_model::STATUS_LINE;
use coord_wire::limits::FIELD_BYTES_MAX;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// A text field of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    SessionId,
    Event,
    TranscriptPath,
    Cwd,
    PermissionMode,
    PromptId,
    AgentId,
    AgentType,
    Source,
    Reason,
    ToolName,
    ToolUseId,
    NotificationType,
    Error,
}

/// The text fields with their names in the payload. Except for the event's, they are the envelope's
/// names too.
pub(crate) const TEXTS: [(Text, &str); 14] = [
    (Text::SessionId, "session_id"),
    (Text::Event, "hook_event_name"),
    (Text::TranscriptPath, "transcript_path"),
    (Text::Cwd, "cwd"),
    (Text::PermissionMode, "permission_mode"),
    (Text::PromptId, "prompt_id"),
    (Text::AgentId, "agent_id"),
    (Text::AgentType, "agent_type"),
    (Text::Source, "source"),
    (Text::Reason, "reason"),
    (Text::ToolName, "tool_name"),
    (Text::ToolUseId, "tool_use_id"),
    (Text::NotificationType, "notification_type"),
    (Text::Error, "error"),
];
/// Longest tool input that is kept, in bytes; nobody reads a longer one whole.
pub(crate) const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Longest total of all texts, in bytes; only a payload that repeats its fields reaches it.
const TEXTS_BYTES_MAX: usize = TEXTS.len() * FIELD_BYTES_MAX;

/// What to do with the value of a top-level field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Nothing,
    Text(Text),
    StopHookActive,
    IsInterrupt,
    DurationMs,
    Tasks,
    Crons,
    ToolInput,
    Prompt,
}

/// What to do with the value of the field `name`.
pub(crate) fn want(name: &[u8]) -> Want {
    match name {
        b"stop_hook_active" => Want::StopHookActive,
        b"is_interrupt" => Want::IsInterrupt,
        b"duration_ms" => Want::DurationMs,
        b"background_tasks" => Want::Tasks,
        b"session_crons" => Want::Crons,
        b"tool_input" => Want::ToolInput,
        b"prompt" => Want::Prompt,
        _ => TEXTS
            .iter()
            .find(|(_, text)| text.as_bytes() == name)
            .map_or(Want::Nothing, |(text, _)| Want::Text(*text)),
    }
}

/// The position of a text, and whether it is complete.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: usize,
    to: usize,
    cut: bool,
    seen: bool,
}

/// The fields of one payload. If a field is repeated, the last one counts, as in JavaScript.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The JSON-escaped texts, one after the other.
    bytes: Vec<u8>,
    spans: [Span; TEXTS.len()],
    pub(crate) stop_hook_active: Option<bool>,
    pub(crate) is_interrupt: Option<bool>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) tasks: Option<u32>,
    pub(crate) subagents: u32,
    pub(crate) crons: Option<u32>,
    pub(crate) tool_input: Option<u64>,
    pub(crate) prompt: Option<u64>,
    /// The key of the digests; without it there are none.
    key: Option<[u8; 16]>,
    /// The tool's input as it came, if it is kept; it never leaves in an envelope.
    input: Option<Vec<u8>>,
    /// The numbers of a status line, as a JSON object (N-08).
    pub(crate) usage: Option<Vec<u8>>,
}

impl Fields {
    /// Creates an empty set; `key` is the digest key.
    pub(crate) fn new(key: Option<[u8; 16]>) -> Self {
        Self {
            bytes: Vec::with_capacity(1024),
            spans: [Span::default(); TEXTS.len()],
            stop_hook_active: None,
            is_interrupt: None,
            duration_ms: None,
            tasks: None,
            subagents: 0,
            crons: None,
            tool_input: None,
            prompt: None,
            key,
            input: None,
            usage: None,
        }
    }

    /// Keeps the tool's input, up to [`INPUT_BYTES_MAX`].
    pub(crate) fn keeping_input(mut self) -> Self {
        self.input = Some(Vec::with_capacity(512));
        self
    }

    /// The tool's input, if it was kept whole.
    pub(crate) fn kept_input(&self) -> Option<&[u8]> {
        self.input.as_deref().filter(|input| (1..=INPUT_BYTES_MAX).contains(&input.len()))
    }

    /// The fields of a status line: of its payload only the session's id leaves as a text (N-08).
    pub(crate) fn of_status_line(session_id: &[u8], usage: Vec<u8>) -> Self {
        let mut fields = Self { usage: Some(usage), ..Self::new(None) };
        for (text, escaped) in
            [(Text::SessionId, session_id), (Text::Event, STATUS_LINE.as_bytes())]
        {
            let from = fields.bytes.len();
            fields.bytes.extend_from_slice(escaped);
            let to = fields.bytes.len();
            fields.spans[text as usize] = Span { from, to, cut: false, seen: true };
        }
        fields
    }

    /// The JSON-escaped text of a field.
    pub(crate) fn text(&self, text: Text) -> Option<&[u8]> {
        let span = self.spans[text as usize];
        if span.seen { self.bytes.get(span.from..span.to) } else { None }
    }

    /// Whether the text of a field was cut.
    pub(crate) fn is_cut(&self, text: Text) -> bool {
        self.spans[text as usize].cut
    }

    /// Discards an earlier value of a field, because another one begins.
    pub(crate) fn forget(&mut self, want: Want) {
        match want {
            Want::Nothing => (),
            Want::Text(text) => self.spans[text as usize] = Span::default(),
            Want::StopHookActive => self.stop_hook_active = None,
            Want::IsInterrupt => self.is_interrupt = None,
            Want::DurationMs => self.duration_ms = None,
            Want::Tasks => (self.tasks, self.subagents) = (None, 0),
            Want::Crons => self.crons = None,
            Want::ToolInput => {
                self.tool_input = None;
                if let Some(input) = &mut self.input {
                    input.clear();
                }
            }
            Want::Prompt => self.prompt = None,
        }
    }

    /// Keeps a boolean, if `want` asks for one.
    pub(crate) fn flag(&mut self, want: Want, value: bool) {
        if want == Want::StopHookActive {
            self.stop_hook_active = Some(value);
        } else if want == Want::IsInterrupt {
            self.is_interrupt = Some(value);
        }
    }

    /// Begins the copy of a text.
    pub(crate) fn begin_text(&mut self, text: Text) -> Copier {
        let from = self.bytes.len();
        self.spans[text as usize] = Span { from, ..Span::default() };
        let room = TEXTS_BYTES_MAX.saturating_sub(from);
        Copier::new(&self.bytes, FIELD_BYTES_MAX.min(room))
    }

    /// The buffer for copies.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the copy of a text.
    pub(crate) fn end_text(&mut self, text: Text, copier: &mut Copier) {
        let cut = copier.end(&mut self.bytes);
        let span = &mut self.spans[text as usize];
        (span.to, span.cut, span.seen) = (self.bytes.len(), cut, true);
    }

    /// Whether what was read is of the event that reports a question's answer.
    pub(crate) fn is_answered_question(&self) -> bool {
        self.text(Text::ToolName) == Some(b"AskUserQuestion")
            && self.text(Text::Event) == Some(b"PostToolUse")
    }

    /// Where the raw bytes of a value go, if it is wanted as a digest or kept.
    pub(crate) fn begin_value(&mut self, want: Want) -> Option<RawValue> {
        let is_wanted = want == Want::ToolInput || want == Want::Prompt;
        let hasher = self.key.as_ref().filter(|_| is_wanted).map(SipHasher24::new_with_key);
        let keeps = want == Want::ToolInput && self.input.is_some();
        (hasher.is_some() || keeps).then_some(RawValue { hasher, early: None, keeps })
    }

    /// Takes in raw bytes of a value.
    pub(crate) fn write_value(&mut self, value: &mut RawValue, bytes: &[u8]) {
        if let Some(hasher) = &mut value.hasher {
            hasher.write(bytes);
        }
        if let Some(input) = self.input.as_mut().filter(|_| value.keeps) {
            // One byte too many shows that it is not whole.
            let room = (INPUT_BYTES_MAX + 1).saturating_sub(input.len());
            input.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }

    /// Keeps a finished digest.
    pub(crate) fn end_value(&mut self, want: Want, value: &RawValue) {
        let digest = value.early.or_else(|| value.hasher.as_ref().map(SipHasher24::finish));
        if want == Want::Prompt {
            self.prompt = digest;
        } else {
            self.tool_input = digest;
        }
    }
}

/// A value whose raw bytes are taken in.
#[derive(Debug)]
pub(crate) struct RawValue {
    hasher: Option<SipHasher24>,
    /// The digest of an answered question, of its questions alone.
    early: Option<u64>,
    keeps: bool,
}

impl RawValue {
    /// Takes the digest as if the object ended here. The client appends an answer to a question's input (measured), which
    /// its request did not contain.
    pub(crate) fn close_early(&mut self) {
        self.early = self.hasher.map(|mut closed| {
            closed.write(b"}");
            closed.finish()
        });
    }
}

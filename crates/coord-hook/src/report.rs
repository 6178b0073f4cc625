//! Writes the event envelope.
//!
//! This module decides its fields: the allow-list of `coord_model::envelope::Envelope`, and which
//! of them an event may fill (G11). The buffer has room in front of the envelope, so that the
//! request's head or the spool's frame is sent in one piece with it.

use crate::fields::{Fields, TEXTS, Text};
use crate::files::read_system;
use crate::place::Place;
use crate::process::{self, Process};
use crate::text::{push_escaped, push_hex, push_number};
use coord_model::stamp::write_rfc3339;
use coord_wire::VERSION;
use coord_wire::exchange::mono_ns;
use coord_wire::limits::FIELD_BYTES_MAX;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use std::env::var_os;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Room in front of the envelope, in bytes.
const FRONT: usize = 112;
/// Longest host name, machine id and pane id, in bytes.
const SHORT_BYTES_MAX: usize = 256;

/// Fields that have fixed values in one event, and free text in others.
const ONLY_OF: [(Text, &[u8]); 3] =
    [(Text::Error, b"StopFailure"), (Text::Reason, b"SessionEnd"), (Text::Source, b"SessionStart")];

/// The time of the event, taken before anything else is done (H-31).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) wall_ms: u64,
    pub(crate) mono_ns: u64,
}

impl Stamp {
    pub(crate) fn now() -> Self {
        let wall = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(wall.tv_sec).unwrap_or(0);
        let ms = u64::try_from(wall.tv_nsec / 1_000_000).unwrap_or(0);
        Self { wall_ms: seconds.saturating_mul(1000).saturating_add(ms), mono_ns: mono_ns() }
    }
}

/// A finished envelope.
#[derive(Debug)]
pub(crate) struct Report {
    bytes: Vec<u8>,
    /// The event's id, 32 hex digits.
    pub(crate) id: String,
    /// Whether the harness is interactive; determined only for SessionStart.
    pub(crate) is_interactive: bool,
    /// Inode number of this process's pid namespace.
    pub(crate) pid_ns: u64,
}

impl Report {
    /// Writes the envelope of one event.
    pub(crate) fn new(place: &Place, stamp: Stamp, fields: &Fields, incomplete: bool) -> Self {
        let event = fields.text(Text::Event).unwrap_or_default();
        let id = event_id(stamp);
        let mut out = Vec::with_capacity(2048);
        out.resize(FRONT, 0);
        let mut writer = Writer { out, cut: Vec::new() };
        writer.stamp(&id, stamp);
        writer.short("host", &place.host);
        writer.short("machine", place.machine.as_bytes());
        let pid = u64::try_from(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or(0);
        writer.number("pid", pid);
        let pid_ns = process::pid_namespace().unwrap_or(0);
        let headless = if event == b"SessionStart" {
            place.harness.and_then(process::is_headless)
        } else {
            None
        };
        writer.harness(place.harness, pid_ns, headless);
        writer.tmux();
        writer.config_dir();
        writer.fields(fields, event);
        writer.end(incomplete);
        Self { bytes: writer.out, id, is_interactive: headless == Some(false), pid_ns }
    }

    /// The envelope.
    pub(crate) fn envelope(&self) -> &[u8] {
        self.bytes.get(FRONT..).unwrap_or_default()
    }

    /// The envelope, preceded by a head of at most [`FRONT`] bytes, in one piece.
    pub(crate) fn behind(&mut self, head: &[u8]) -> &[u8] {
        let from = FRONT.saturating_sub(head.len());
        if let Some(front) = self.bytes.get_mut(from..FRONT) {
            front.copy_from_slice(head);
        }
        self.bytes.get(from..).unwrap_or_default()
    }
}

/// The client's configuration directory, as its environment says.
pub(crate) fn config_directory() -> Option<OsString> {
    let set = |name| var_os(name).filter(|value| !value.is_empty());
    match (set("CLAUDE_CONFIG_DIR"), set("HOME")) {
        (Some(directory), _) => Some(directory),
        (None, Some(mut home)) => {
            home.push("/.claude");
            Some(home)
        }
        (None, None) => None,
    }
}

/// Creates an event id: 48 bits of wall time and 80 random bits, unique and ordered by time.
fn event_id(stamp: Stamp) -> String {
    let mut bytes = [0; 16];
    // Without a source of randomness, the pid and the clock have to tell events apart.
    bytes[8..].copy_from_slice(&stamp.mono_ns.to_be_bytes());
    bytes[6..8].copy_from_slice(&std::process::id().to_be_bytes()[2..]);
    let _fallback_stays = getrandom(&mut bytes[6..], GetRandomFlags::NONBLOCK);
    bytes[..6].copy_from_slice(&stamp.wall_ms.to_be_bytes()[2..]);
    let mut id = Vec::with_capacity(32);
    push_hex(&mut id, &bytes);
    String::from_utf8(id).unwrap_or_default()
}

/// Writes members of the envelope, without the formatting machinery.
struct Writer {
    out: Vec<u8>,
    cut: Vec<&'static str>,
}

impl Writer {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn name(&mut self, name: &str) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":");
    }

    fn quoted(&mut self, escaped: &[u8]) {
        self.raw("\"");
        self.out.extend_from_slice(escaped);
        self.raw("\"");
    }

    fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        push_number(&mut self.out, number);
    }

    /// Writes a text from the environment or the system. Returns true if it was cut.
    fn foreign(&mut self, name: &str, text: &[u8], bytes_max: usize) -> bool {
        self.name(name);
        self.raw("\"");
        let cut = push_escaped(&mut self.out, text, bytes_max);
        self.raw("\"");
        cut
    }

    fn short(&mut self, name: &str, text: &[u8]) {
        self.foreign(name, text, SHORT_BYTES_MAX);
    }

    fn stamp(&mut self, id: &str, stamp: Stamp) {
        self.raw("{\"v\":1,\"id\":");
        self.quoted(id.as_bytes());
        self.name("emitted_at");
        let mut text = [0; 24];
        write_rfc3339(&mut text, stamp.wall_ms);
        self.quoted(&text);
        self.number("mono_ns", stamp.mono_ns);
        let mut buffer = [0; 40];
        let boot = read_system("/proc/sys/kernel/random/boot_id", &mut buffer).trim_ascii();
        self.foreign("boot", boot, SHORT_BYTES_MAX);
    }

    fn harness(&mut self, harness: Option<Process>, pid_ns: u64, headless: Option<bool>) {
        let Some(harness) = harness else { return };
        self.raw(",\"harness\":{\"pid\":");
        push_number(&mut self.out, harness.pid.into());
        self.ticks("start_time", harness.start_time);
        self.number("pid_ns", pid_ns);
        self.number("tty", harness.tty);
        match headless {
            Some(true) => self.raw(",\"kind\":\"headless\""),
            Some(false) => self.raw(",\"kind\":\"interactive\""),
            None => (),
        }
        self.raw("}");
    }

    /// Writes a start time, which is a decimal string in every format of coord.
    fn ticks(&mut self, name: &str, ticks: u64) {
        self.name(name);
        self.raw("\"");
        push_number(&mut self.out, ticks);
        self.raw("\"");
    }

    fn tmux(&mut self) {
        let (Some(tmux), Some(pane)) = (var_os("TMUX"), var_os("TMUX_PANE")) else { return };
        let Some((socket, server)) = process::tmux_server(tmux.as_bytes()) else { return };
        self.raw(",\"tmux\":{\"server_pid\":");
        push_number(&mut self.out, server.into());
        self.ticks("server_start", Process::read(server).map_or(0, |server| server.start_time));
        if self.foreign("socket", socket, FIELD_BYTES_MAX) {
            self.cut.push("tmux");
        }
        self.short("pane", pane.as_bytes());
        self.raw("}");
    }

    fn config_dir(&mut self) {
        let Some(directory) = config_directory() else { return };
        if self.foreign("config_dir", directory.as_bytes(), FIELD_BYTES_MAX) {
            self.cut.push("config_dir");
        }
    }

    fn fields(&mut self, fields: &Fields, event: &[u8]) {
        for (text, name) in TEXTS {
            // In other events, these fields contain output or content.
            let only_of = ONLY_OF.iter().find(|(only, _)| *only == text);
            let may = only_of.is_none_or(|(_, only)| *only == event);
            let Some(value) = fields.text(text).filter(|_| may) else { continue };
            self.name(if text == Text::Event { "event" } else { name });
            self.quoted(value);
            if fields.is_cut(text) {
                self.cut.push(name);
            }
        }
        for (name, value) in
            [("stop_hook_active", fields.stop_hook_active), ("is_interrupt", fields.is_interrupt)]
        {
            if let Some(value) = value {
                self.name(name);
                self.raw(if value { "true" } else { "false" });
            }
        }
        for (name, value) in [
            ("duration_ms", fields.duration_ms),
            ("background_tasks", fields.tasks.map(u64::from)),
            ("background_subagents", fields.tasks.map(|_| u64::from(fields.subagents))),
            ("session_crons", fields.crons.map(u64::from)),
        ] {
            if let Some(value) = value {
                self.number(name, value);
            }
        }
        for (name, digest) in
            [("tool_input_digest", fields.tool_input), ("prompt_digest", fields.prompt)]
        {
            if let Some(digest) = digest {
                self.name(name);
                self.raw("\"");
                push_hex(&mut self.out, &digest.to_be_bytes());
                self.raw("\"");
            }
        }
        if let Some(usage) = &fields.usage {
            self.name("usage");
            self.out.extend_from_slice(usage);
        }
    }

    fn end(&mut self, incomplete: bool) {
        let cut = core::mem::take(&mut self.cut);
        for (i, name) in cut.iter().enumerate() {
            self.raw(if i == 0 { ",\"cut\":[" } else { "," });
            self.quoted(name.as_bytes());
        }
        if !cut.is_empty() {
            self.raw("]");
        }
        if incomplete {
            self.raw(",\"incomplete\":true");
        }
        self.name("hook");
        self.quoted(VERSION.as_bytes());
        self.raw("}");
    }
}

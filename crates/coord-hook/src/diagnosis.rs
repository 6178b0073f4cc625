//! Leaves a diagnosis for people when something is wrong with a hook or its input.
//!
//! This module decides that no content of a payload survives: of malformed payloads only the shape
//! and known names are kept (G11), and of panics only the location and fixed texts. Everything is
//! bounded, and a failing hook prints at most one line a minute per session (H-37). It holds S4-07.

use crate::fields::TEXTS;
use crate::files;
use crate::payload::{Ending, Payload};
use crate::place::Place;
use crate::scan::Fault;
use crate::spool::{Locked, framed};
use crate::system::{exit, ignore_write_signals};
use crate::text::{push_hex, push_number};
use coord_wire::VERSION;
use coord_wire::exchange::mono_ns;
use coord_wire::limits::{MALFORMED_BYTES_MAX, MALFORMED_RECORDS_MAX};
use coord_wire::spool::{CRASHES, MALFORMED};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags, statat};
use std::sync::OnceLock;

/// Exit code after a panic.
const PANICKED: i32 = 70;
/// Longest time, in nanoseconds, that a diagnosis waits for a lock; a quick exit matters more.
const LOCK_WAIT_NS: u64 = 20_000_000;
/// Number of notes that a line was printed; sessions share them by a hash of their id.
const SAID_NOTES: u32 = 64;
const SAID_AGAIN_MS: u64 = 60_000;
/// Names, besides those in [`TEXTS`], that a masked payload may keep.
const NAMES: [&str; 12] = [
    "background_tasks",
    "duration_ms",
    "effort",
    "is_interrupt",
    "last_assistant_message",
    "message",
    "prompt",
    "session_crons",
    "stop_hook_active",
    "tool_calls",
    "tool_input",
    "tool_response",
];

/// Appends a text to a file of the spool, if there is room and nobody holds its lock for long.
fn append(spool: &OwnedFd, uid: u32, name: &str, text: &[u8]) {
    let Ok(Some(mut file)) = Locked::open(spool, name, uid, mono_ns() + LOCK_WAIT_NS) else {
        return;
    };
    if file.n_records() < MALFORMED_RECORDS_MAX {
        let _diagnosis_is_lost = file.append(&framed(text), 0);
    }
}

/// Keeps a malformed payload, masked.
pub(crate) fn keep_malformed(place: &Place, payload: &Payload) {
    let Ok(spool) = place.spool() else { return };
    append(&spool, place.uid, MALFORMED, &masked(payload));
}

/// The reason why a payload is malformed, and its shape.
pub(crate) fn masked(payload: &Payload) -> Vec<u8> {
    let mut text = Vec::with_capacity(payload.start.len() + 128);
    match payload.ending {
        Ending::Malformed(at, fault) => {
            text.extend_from_slice(match fault {
                Fault::Syntax => b"not JSON at byte ",
                Fault::NoObject => b"not a JSON object at byte ",
                Fault::TooDeep => b"nested too deep at byte ",
            });
            push_number(&mut text, at);
        }
        Ending::Short => text.extend_from_slice(b"ended too early"),
        Ending::Unfinished => text.extend_from_slice(b"too long or too late"),
        Ending::Whole => text.extend_from_slice(b"session_id or hook_event_name is missing"),
    }
    text.extend_from_slice(b", bytes read ");
    push_number(&mut text, payload.n);
    text.push(b'\n');
    let room = MALFORMED_BYTES_MAX - text.len();
    mask(&mut text, payload.start.get(..room).unwrap_or(&payload.start));
    text
}

/// Copies the shape of a payload: structure and known names, with every other character masked.
fn mask(out: &mut Vec<u8>, payload: &[u8]) {
    let mut at = 0;
    while let Some(byte) = payload.get(at) {
        if let Some(name) = payload.get(at + 1..).filter(|_| *byte == b'"').and_then(known_name) {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            at += 1 + name.len();
            continue;
        }
        out.push(match byte {
            b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"' | b'\\' | b' ' | b'\n' | b'\r'
            | b'\t' => *byte,
            b'a'..=b'z' | b'A'..=b'Z' => b'x',
            b'0'..=b'9' => b'9',
            0x80.. => b'?',
            _ => b'.',
        });
        at += 1;
    }
}

/// The known name with which a text begins, up to its closing quote.
fn known_name(text: &[u8]) -> Option<&'static str> {
    TEXTS.iter().map(|(_, name)| *name).chain(NAMES).find(|name| {
        text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'"'))
    })
}

/// Prints one line on standard error, unless this session got one within the last minute.
pub(crate) fn say(place: &Place, wall_ms: u64, session_id: &[u8], line: &str) {
    let spool = place.spool().ok();
    if spool.is_some_and(|spool| !may_say(&spool, place.uid, wall_ms, session_id)) {
        return;
    }
    write_line(line);
}

/// Prints one line on standard error.
pub(crate) fn write_line(line: &str) {
    ignore_write_signals();
    let text = ["coord: ", line, "\n"].concat();
    let _nobody_reads_it = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

/// Checks the session's note and renews it. If notes cannot be created, every line may be printed.
fn may_say(spool: &OwnedFd, uid: u32, wall_ms: u64, session_id: &[u8]) -> bool {
    let bucket =
        u8::try_from(coord_wire::frame::crc32_plain(&[session_id]) % SAID_NOTES).unwrap_or(0);
    let mut name = b"said-".to_vec();
    push_hex(&mut name, &[bucket]);
    let name = String::from_utf8(name).unwrap_or_default();
    let recent = statat(spool, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|note| {
        let said_ms = u64::try_from(note.st_mtime).unwrap_or(0).saturating_mul(1000);
        wall_ms.abs_diff(said_ms) < SAID_AGAIN_MS
    });
    if recent {
        return false;
    }
    let _says_it_again = files::touch(spool, &name, uid);
    true
}

/// Where panics are recorded, once it is known.
static SPOOL: OnceLock<(std::path::PathBuf, u32)> = OnceLock::new();

/// Makes a panic end the process with [`PANICKED`] instead of unwinding.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Some((state, uid)) = SPOOL.get() {
            record_panic(state, *uid, panic);
        }
        exit(PANICKED)
    }));
}

/// Makes later panics leave a record in this spool.
pub(crate) fn record_panics_in(place: &Place) {
    let _set_only_once = SPOOL.set((place.paths.state.clone(), place.uid));
}

/// Records a panic as one line: the program's version, the location, and the message if it is a
/// literal of the program. A formatted message may contain a piece of the payload, and is left out
/// (G11).
fn record_panic(state: &std::path::Path, uid: u32, panic: &std::panic::PanicHookInfo<'_>) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(state) = rustix::fs::open(state, flags, rustix::fs::Mode::empty()) else { return };
    let Ok(spool) = files::directory(&state, "spool".as_ref(), uid) else { return };
    let mut text = Vec::with_capacity(256);
    text.extend_from_slice(b"hook ");
    text.extend_from_slice(VERSION.as_bytes());
    if let Some(location) = panic.location() {
        text.extend_from_slice(b" panicked at ");
        text.extend_from_slice(location.file().as_bytes());
        text.push(b':');
        push_number(&mut text, location.line().into());
    }
    if let Some(message) = panic.payload().downcast_ref::<&'static str>() {
        text.extend_from_slice(b": ");
        text.extend_from_slice(message.as_bytes());
    }
    append(&spool, uid, CRASHES, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_wire::frame::record_at;
    use coord_wire::spool::HEADER_BYTES;
    use std::process::Command;

    const STATE: &str = "COORD_TEST_PANIC_IN";

    /// Does nothing, unless the test below runs it in a process of its own.
    #[test]
    fn panics_when_told() {
        let Some(state) = std::env::var_os(STATE) else { return };
        catch_panics();
        SPOOL.set((state.into(), rustix::process::geteuid().as_raw())).unwrap();
        let payload = String::from("prompt text");
        // One message is formatted from the payload, and one is a literal of the program.
        assert!(payload.is_empty(), "cannot read {payload}");
    }

    // S4-07, G11: a panic gives exit code 70 and a line with its location, without any content.
    #[test]
    fn a_panic_leaves_a_record_and_exits_70() {
        let state = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "diagnosis::tests::panics_when_told", "--nocapture"])
            .env(STATE, state.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(PANICKED));
        assert!(output.stderr.is_empty());
        let file = std::fs::read(state.path().join("spool").join(CRASHES)).unwrap();
        let line = String::from_utf8(record_at(&file, HEADER_BYTES).unwrap().to_vec()).unwrap();
        assert!(line.starts_with("hook ") && line.contains("diagnosis.rs:"), "{line}");
        assert!(!line.contains("prompt text"), "{line}");
    }

    #[test]
    fn masks_keep_known_names_and_structure_only() {
        let mut out = Vec::new();
        mask(&mut out, br#"{"prompt": "Go to 10 Downing\" "secret": "prompt" caf\u00e9!"#);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"prompt": "xx xx 99 xxxxxxx\" "xxxxxx": "prompt" xxx\x99x9."#
        );
    }
}

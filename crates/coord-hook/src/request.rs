//! The hook of a permission request, after it has reported its event: waits for a person's reply from elsewhere (A-01),
//! while the dialog is on the screen and its terminal can answer at any moment.
//!
//! This module decides that a reply is printed only if the client still says that it waits (A-02), and that everything
//! else ends the hook without output, which leaves the prompt to its terminal: the end of the coordinator too, because
//! nothing else tells this process that its prompt was answered (measured). It keeps the input, which nobody stores, and
//! shows it to whoever decides through the coordinator. A decision counts only once this process has ended (measured), so
//! printing is its last act.

use crate::deliver::{self, nanoseconds};
use crate::fields::{Fields, Text};
use crate::files::read_system;
use crate::place::Place;
use crate::process::Process;
use crate::report::config_directory;
use crate::text::push_number;
use crate::waiting::{Harness, Wait, leave_terminal, wait};
use crate::{LOST, SAFE};
use coord_wire::exchange::{begin, mono_ns};
use coord_wire::limits::{EXCHANGE, WAKE_BYTES_MAX};
use std::path::Path;

/// Longest registry entry that is read, in bytes.
const ENTRY_BYTES_MAX: usize = 4096;

/// Waits for a reply to the request that was reported as the event `id`.
pub(crate) fn run(place: &Place, id: &str, fields: &Fields) -> i32 {
    let Some(harness) = place.harness.and_then(Harness::of_parent) else { return SAFE };
    // A headless run shows no dialog, nor does the client for a subagent while a hook waits (measured).
    let has_dialog = harness.is_at_terminal() && fields.text(Text::AgentId).is_none();
    let Some(request) = request(id, fields, (harness.process, has_dialog)) else { return SAFE };
    leave_terminal();
    if deliver::run_directory(place).is_err() {
        return SAFE;
    }
    let deadline_ns = mono_ns().saturating_add(nanoseconds(EXCHANGE));
    let Ok(coordinator) = begin(&place.paths.socket(), &request, deadline_ns) else { return SAFE };
    let answer = match wait(&coordinator, &harness, WAKE_BYTES_MAX) {
        Wait::Answered(answer) if answer.status == 200 => answer.body,
        Wait::Answered(_) | Wait::CoordinatorGone | Wait::Over => return SAFE,
    };
    // Of a prompt without a dialog the registry says nothing, and the coordinator has just looked at all else.
    if !deliver::is_one_object(&answer) || (has_dialog && !is_waiting(harness.process)) {
        return SAFE;
    }
    let end_ns = mono_ns().saturating_add(nanoseconds(EXCHANGE));
    if deliver::print(&answer, end_ns).is_ok() { SAFE } else { LOST }
}

fn request(id: &str, fields: &Fields, (harness, has_dialog): (Process, bool)) -> Option<Vec<u8>> {
    let own = Process::read(std::process::id())?;
    let mut body = Vec::with_capacity(1024);
    body.extend_from_slice(b"{\"request\":\"");
    body.extend_from_slice(id.as_bytes());
    body.extend_from_slice(b"\",\"session_id\":\"");
    // The session id is already escaped in the payload.
    body.extend_from_slice(fields.text(Text::SessionId)?);
    body.push(b'"');
    for (name, process) in [("harness", harness), ("hook", own)] {
        body.extend_from_slice(b",\"");
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\":{\"pid\":");
        push_number(&mut body, process.pid.into());
        body.extend_from_slice(b",\"start_time\":\"");
        push_number(&mut body, process.start_time);
        body.extend_from_slice(b"\"}");
    }
    body.extend_from_slice(b",\"has_dialog\":");
    body.extend_from_slice(if has_dialog { b"true" } else { b"false" });
    // It is whole JSON: the payload that it stands in was.
    if let Some(input) = fields.kept_input() {
        body.extend_from_slice(b",\"input\":");
        body.extend_from_slice(input);
    }
    body.push(b'}');
    let mut request = Vec::with_capacity(body.len().saturating_add(128));
    request.extend_from_slice(b"POST /v1/requests HTTP/1.1\r\nHost: coord\r\nContent-Length: ");
    push_number(&mut request, body.len() as u64);
    request.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    request.extend_from_slice(&body);
    Some(request)
}

/// Whether the client's own registry says now that it waits.
fn is_waiting(client: Process) -> bool {
    let Some(directory) = config_directory() else { return false };
    let mut name = Vec::new();
    push_number(&mut name, client.pid.into());
    name.extend_from_slice(b".json");
    let Ok(name) = core::str::from_utf8(&name) else { return false };
    let mut buffer = [0; ENTRY_BYTES_MAX];
    says_waiting(read_system(Path::new(&directory).join("sessions").join(name), &mut buffer))
}

fn says_waiting(entry: &[u8]) -> bool {
    const NAME: &[u8] = b"\"status\"";
    let at = entry.windows(NAME.len()).position(|part| part == NAME);
    let rest = at.and_then(|at| entry.get(at.saturating_add(NAME.len())..));
    let rest = rest.map(<[u8]>::trim_ascii_start).and_then(|rest| rest.strip_prefix(b":"));
    rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"waiting\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A-02
    #[test]
    fn an_entry_says_that_its_client_waits() {
        for (entry, expected) in [
            (r#"{"pid":7,"status":"waiting","waitingFor":"permission prompt"}"#, true),
            (r#"{ "status" : "waiting" }"#, true),
            (r#"{"pid":7,"status":"busy"}"#, false),
            (r#"{"pid":7,"waitingFor":"x"}"#, false),
            (r#"{"status""#, false),
            ("", false),
        ] {
            assert_eq!(says_waiting(entry.as_bytes()), expected, "{entry}");
        }
    }
}

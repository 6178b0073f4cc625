//! The hook executables: each reports one lifecycle event of Claude Code and exits.
//!
//! This crate decides the order of steps and the exit code (interfaces.md, Hook executables): first
//! the coordinator, then the spool; never exit code 2; at most a second in all. It does not decide
//! what an event means. It holds G1 (exit 0 only if the event is safe), G7, S4-06 and S4-08.
//!
//! The programs differ only in their names, and in whether they may start the coordinator. The
//! exceptions are the wake hook, which reports nothing and waits (H-02), and the program of the status
//! line, which runs the user's own command (N-08). Every tool call pays for a hook, so this crate
//! counts page faults: an ordinary event needs no runtime start-up, no serde, no formatting, and no
//! thread.

mod child;
mod deliver;
mod diagnosis;
mod fields;
mod files;
mod heap;
mod payload;
mod place;
mod process;
mod report;
mod request;
mod scan;
mod spool;
mod start;
mod statusline;
mod system;
mod text;
pub mod trial;
mod usage;
mod waiting;
mod wake;

pub use heap::Heap;
pub use start::{Context, start_coordinator};
pub use system::Args;

use coord_wire::VERSION;
use coord_wire::frame;
use coord_wire::limits::{HOOK_STDIN, HOOK_TOTAL, is_folded, is_reserved};
use deliver::{Delivery, nanoseconds};
use fields::{Fields, Text};
use payload::{Ending, Payload};
use place::{Given, Place, Unusable};
use report::{Report, Stamp};
use spool::{Record, SpoolError, Weight};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Exit code: the event is safe, or the hook is inert.
const SAFE: i32 = 0;
/// Exit code: the event is lost.
const LOST: i32 = 1;
/// Exit code: standard input was no hook payload.
const MALFORMED: i32 = 65;
/// Longest session id and event name, in bytes; the coordinator refuses longer ones.
const NAME_BYTES_MAX: usize = 256;
/// Time kept back at the end of [`HOOK_TOTAL`] for the last write and the exit.
const MARGIN: Duration = Duration::from_millis(100);

/// One of the executables that report an event.
#[derive(Debug)]
pub struct Program {
    /// The name of the executable.
    pub name: &'static str,
    /// How the executable starts the coordinator, if it may.
    pub start: Option<fn(&Context<'_>)>,
    /// Whether the executable waits for a person's reply after it has reported.
    pub waits_for_reply: bool,
}

/// Runs a hook that reports an event, from `main` to the exit.
pub fn enter(program: &Program, n: i32, vector: Args) -> i32 {
    live(program.name, n, vector, |given, stamp| run(program, given, stamp))
}

/// Runs the wake hook, from `main` to the exit.
pub fn enter_wake(n: i32, vector: Args) -> i32 {
    live("coord-hook-wake", n, vector, wake::run)
}

/// Runs the program of the status line, from `main` to the exit.
pub fn enter_status_line(n: i32, vector: Args) -> i32 {
    let command = system::command(n, vector);
    live("coord-hook-statusline", n, vector, |given, stamp| statusline::run(given, stamp, command))
}

fn live(name: &str, n: i32, vector: Args, run: impl FnOnce(&Given<'_>, Stamp) -> i32) -> i32 {
    let stamp = Stamp::now();
    diagnosis::catch_panics();
    let mut given = Given::default();
    let mut arguments = system::arguments(n, vector);
    while let Some(argument) = arguments.next() {
        let directory = match argument.to_bytes() {
            b"--root" => &mut given.root,
            b"--config" => &mut given.config,
            b"--state" => &mut given.state,
            b"--run" => &mut given.run,
            b"--version" => return print_version(name),
            // What follows is the user's own command.
            b"--" => break,
            // It keeps what `coord uninstall` restores.
            b"--former" => {
                arguments.next();
                continue;
            }
            // An argument of a newer installation is ignored.
            _ => continue,
        };
        *directory = arguments.next().map(|directory| OsStr::from_bytes(directory.to_bytes()));
    }
    let code = run(&given, stamp);
    system::exit(code)
}

fn print_version(name: &str) -> i32 {
    let line = [name, " ", VERSION, "\n"].concat();
    if deliver::print(line.as_bytes(), u64::MAX).is_ok() { SAFE } else { LOST }
}

fn run(program: &Program, given: &Given<'_>, stamp: Stamp) -> i32 {
    files::fill_standard_streams();
    let place = match Place::find(given) {
        Ok(Some(place)) => place,
        Ok(None) => return SAFE,
        Err(Unusable) => {
            diagnosis::write_line(
                "this event is lost: the state directory cannot be used; see `coord doctor`",
            );
            return LOST;
        }
    };
    diagnosis::record_panics_in(&place);
    let stdin_deadline_ns = stamp.mono_ns.saturating_add(nanoseconds(HOOK_STDIN));
    let fields = Fields::new(place.digest_key());
    let fields = if program.waits_for_reply { fields.keeping_input() } else { fields };
    let mut payload = payload::read(fields, stdin_deadline_ns);
    if !is_event(&payload) {
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        diagnosis::keep_malformed(&place, &payload);
        let line = "standard input was no hook payload; its shape is kept in spool/malformed";
        diagnosis::say(&place, stamp.wall_ms, b"", line);
        return MALFORMED;
    }
    // The text is no longer needed: its pages are reused for the envelope.
    payload.start = Vec::new();
    let incomplete = payload.ending == Ending::Unfinished;
    let mut report = Report::new(&place, stamp, &payload.fields, incomplete);
    let code = hand_in(program, (&place, &payload.fields), &mut report, stamp);
    if code == SAFE && program.waits_for_reply && !incomplete {
        return request::run(&place, &report.id, &payload.fields);
    }
    code
}

/// Makes the event safe: with the coordinator, or in the spool.
fn hand_in(
    program: &Program,
    (place, fields): (&Place, &Fields),
    report: &mut Report,
    stamp: Stamp,
) -> i32 {
    let end_ns = stamp.mono_ns.saturating_add(nanoseconds(HOOK_TOTAL.saturating_sub(MARGIN)));
    match deliver::deliver(place, report, stamp) {
        Delivery::Safe(None) => SAFE,
        Delivery::Safe(Some(answer)) => {
            if deliver::print(&answer, end_ns).is_ok() {
                return SAFE;
            }
            let line = "the coordinator's answer was cut off: nobody reads standard output";
            diagnosis::say(place, stamp.wall_ms, b"", line);
            LOST
        }
        Delivery::Refused => spool(place, report, fields, stamp, end_ns),
        Delivery::Absent => {
            let code = spool(place, report, fields, stamp, end_ns);
            if let Some(start) = program.start.filter(|_| report.is_interactive) {
                start(&Context(place, report.pid_ns));
            }
            code
        }
    }
}

/// Whether a payload names its event and its session.
fn is_event(payload: &Payload) -> bool {
    let is_named = |text| {
        payload.fields.text(text).is_some_and(|name| (1..=NAME_BYTES_MAX).contains(&name.len()))
    };
    matches!(payload.ending, Ending::Whole | Ending::Unfinished)
        && is_named(Text::SessionId)
        && is_named(Text::Event)
}

/// Spools the event, as the last resort before it is lost.
fn spool(place: &Place, report: &mut Report, fields: &Fields, stamp: Stamp, end_ns: u64) -> i32 {
    system::ignore_write_signals();
    // Modes are as given, whatever umask the client has.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let text = |text| core::str::from_utf8(fields.text(text).unwrap_or_default());
    let event = text(Text::Event).unwrap_or_default();
    let session_id = text(Text::SessionId).unwrap_or_default();
    let weight = if is_reserved(event) {
        Weight::Reserved
    } else if is_folded(event) {
        Weight::Folded
    } else {
        Weight::Ordinary
    };
    let id = report.id.clone();
    let head = frame::head_of_one(report.envelope());
    let record = Record { framed: report.behind(&head), weight, session_id, id: &id };
    let kept = place
        .spool()
        .map_err(SpoolError::System)
        .and_then(|spool| spool::append(&spool, place.uid, &record, end_ns));
    let why = match kept {
        Ok(()) => return SAFE,
        Err(SpoolError::Full) => "the spool is full",
        Err(SpoolError::System(rustix::io::Errno::NOSPC)) => "the disk is full",
        Err(SpoolError::System(_)) => "the spool cannot be written",
    };
    let line =
        ["this event is lost: no coordinator answers and ", why, "; see `coord status`"].concat();
    diagnosis::say(place, stamp.wall_ms, session_id.as_bytes(), &line);
    LOST
}

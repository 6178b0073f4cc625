//! Shows what a hook makes of an input, without a process, a coordinator or a spool, for tests that
//! try many inputs. It decides nothing: every step is the program's own. No hook executable
//! contains it.

use crate::diagnosis;
use crate::fields::Fields;
use crate::is_event;
use crate::payload::{Ending, Payload};
use crate::place::{Given, Place};
use crate::report::{Report, Stamp};
use crate::scan::{Progress, Scanner};
use coord_wire::limits::MALFORMED_BYTES_MAX;
use std::path::Path;

/// What would leave the hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// This envelope.
    Envelope(Vec<u8>),
    /// Only this diagnosis, to the spool.
    Malformed(Vec<u8>),
}

/// Passes the pieces to a hook with this root. Returns none if the hook is inert there.
pub fn trial(root: &Path, pieces: &[&[u8]]) -> Option<Trial> {
    let given = Given { root: Some(root.as_os_str()), ..Given::default() };
    let place = Place::find(&given).ok()??;
    let mut scanner = Scanner::new(Fields::new(place.digest_key()));
    let (mut start, mut n) = (Vec::new(), 0);
    let mut ending = Ending::Short;
    for piece in pieces {
        let taken = MALFORMED_BYTES_MAX.saturating_sub(start.len()).min(piece.len());
        start.extend_from_slice(piece.get(..taken).unwrap_or_default());
        let before = n;
        n += piece.len() as u64;
        match scanner.feed(piece) {
            Progress::More => continue,
            Progress::Done(_) => ending = Ending::Whole,
            Progress::Malformed(at, fault) => {
                ending = Ending::Malformed(before + at as u64, fault);
            }
        }
        break;
    }
    let payload = Payload { fields: scanner.fields, ending, start, n };
    if !is_event(&payload) {
        return Some(Trial::Malformed(diagnosis::masked(&payload)));
    }
    let report = Report::new(&place, Stamp::now(), &payload.fields, false);
    Some(Trial::Envelope(report.envelope().to_vec()))
}

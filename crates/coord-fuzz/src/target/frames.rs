//! Files of records: a plain reader to compare with, and checksums set right after a mutation.

use coord_wire::frame::{HEAD_BYTES, MAGIC, head, record_at};

/// Whole records from the first byte on, up to the first that is none; and where that is.
pub(super) fn before_damage(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let (mut payloads, mut at) = (Vec::new(), 0);
    while let Some(payload) = record_at(bytes, at) {
        payloads.push(payload);
        at += HEAD_BYTES + payload.len();
    }
    (payloads, at)
}

/// All whole records, tried at every byte.
pub(super) fn anywhere(bytes: &[u8], from: usize) -> Vec<&[u8]> {
    let (mut payloads, mut at) = (Vec::new(), from);
    while at < bytes.len() {
        match record_at(bytes, at) {
            Some(payload) => {
                payloads.push(payload);
                at += HEAD_BYTES + payload.len();
            }
            None => at += 1,
        }
    }
    payloads
}

/// Gives each record that has a head a fitting one: it ends where the next begins.
pub(super) fn repair(bytes: &mut [u8]) {
    let is_head = |at: &usize| bytes[*at..].starts_with(&MAGIC);
    let mut starts: Vec<usize> = (0..bytes.len()).filter(is_head).collect();
    starts.push(bytes.len());
    for pair in starts.windows(2) {
        let (Some(from), Some(to)) = (pair.first().copied(), pair.last().copied()) else {
            continue;
        };
        if from + HEAD_BYTES <= to {
            let fitting = head(&bytes[from + HEAD_BYTES..to]);
            bytes[from..from + HEAD_BYTES].copy_from_slice(&fitting);
        }
    }
}

//! One record framing for journal, snapshot and spool.
//!
//! ```text
//! offset  size  field
//!      0     4  magic  FF 'c' 'r' '1'
//!      4     4  length of the payload in bytes, little endian
//!      8     4  CRC-32 (IEEE) of bytes 4..8 and the payload, little endian
//!     12     n  payload
//! ```
//!
//! Payloads of the journal and the spool are UTF-8, in which the byte FF never occurs. The magic can
//! therefore not occur inside a complete payload, and after damage, a reader continues at the next magic
//! (resync). A killed writer leaves one of three things, which a reader can tell apart: nothing; a head
//! or payload that ends with the file ([`Frame::Torn`]); or the same followed by complete records, in a
//! spool to which another hook appended ([`Frame::Damaged`], then records).

/// The first bytes of each record. FF is no byte of UTF-8.
pub const MAGIC: [u8; 4] = [0xFF, b'c', b'r', b'1'];
/// Bytes of a record before its payload.
pub const HEAD_BYTES: usize = 12;
/// Longest payload in bytes; a longer length is damage, not a record.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Builds the head that precedes `payload`.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_BYTES_MAX`]; every caller bounds it far below.
pub fn head(payload: &[u8]) -> [u8; HEAD_BYTES] {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a record is bounded by its caller");
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&length);
    head[8..].copy_from_slice(&checksum(length, payload).to_le_bytes());
    head
}

/// Builds the same head as [`head`], without querying the processor's features.
///
/// In a virtual machine, the host answers each such query (CPUID), which costs more than a checksum of
/// some kilobytes. A process that frames a single record is faster without it.
///
/// # Panics
/// The same as for [`head`].
pub fn head_of_one(payload: &[u8]) -> [u8; HEAD_BYTES] {
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a record is bounded by its caller");
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&length);
    head[8..].copy_from_slice(&crc32_plain(&[&length, payload]).to_le_bytes());
    head
}

/// The CRC-32 (IEEE) of the concatenated parts, computed byte by byte; see [`head_of_one`].
pub fn crc32_plain(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc = crc >> 8 ^ CRC_TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Appends one record to `out`.
pub fn push(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&head(payload));
    out.extend_from_slice(payload);
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// What is at one position of a file of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A complete record.
    Record {
        /// Offset of the record's head.
        at: usize,
        /// The payload.
        payload: &'a [u8],
    },
    /// Bytes that are no record, followed by a record.
    Damaged {
        /// Offset of the first bad byte.
        at: usize,
        /// Number of bad bytes.
        bytes: usize,
    },
    /// Bytes up to the end that are no record, as a killed writer or a power loss leaves them.
    Torn {
        /// Offset of the first bad byte.
        at: usize,
        /// Number of bad bytes.
        bytes: usize,
    },
}

/// Reads the records in a file's bytes, one after the other.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// Creates a reader that begins at offset `at`.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
}

/// The payload of the complete record that begins at `at`, if there is one.
pub fn record_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at.checked_add(HEAD_BYTES)?)?;
    if head[..4] != MAGIC {
        return None;
    }
    let length: [u8; 4] = head[4..8].try_into().ok()?;
    let wanted: [u8; 4] = head[8..12].try_into().ok()?;
    let bytes_n = usize::try_from(u32::from_le_bytes(length)).ok()?;
    if PAYLOAD_BYTES_MAX < bytes_n {
        return None;
    }
    let from = at + HEAD_BYTES;
    let payload = bytes.get(from..from.checked_add(bytes_n)?)?;
    (checksum(length, payload) == u32::from_le_bytes(wanted)).then_some(payload)
}

/// The offset of the first complete record from `from` on.
fn next_record(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.windows(MAGIC.len()).position(|window| window == MAGIC)?;
        if record_at(bytes, at).is_some() {
            return Some(at);
        }
        at += 1;
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let at = self.at;
        if self.bytes.len() <= at {
            return None;
        }
        if let Some(payload) = record_at(self.bytes, at) {
            self.at = at + HEAD_BYTES + payload.len();
            return Some(Frame::Record { at, payload });
        }
        if let Some(next) = next_record(self.bytes, at + 1) {
            self.at = next;
            return Some(Frame::Damaged { at, bytes: next - at });
        }
        self.at = self.bytes.len();
        Some(Frame::Torn { at, bytes: self.bytes.len() - at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(payloads: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            push(&mut out, payload.as_bytes());
        }
        out
    }

    fn payloads(bytes: &[u8]) -> Vec<String> {
        Frames::new(bytes, 0)
            .filter_map(|frame| match frame {
                Frame::Record { payload, .. } => {
                    Some(String::from_utf8_lossy(payload).into_owned())
                }
                Frame::Damaged { .. } | Frame::Torn { .. } => None,
            })
            .collect()
    }

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        assert_eq!(payloads(&file(&["a", "", "ccc"])), ["a", "", "ccc"]);
    }

    #[test]
    fn a_torn_record_with_whole_ones_behind_it_loses_only_itself() {
        let mut bytes = file(&["first", "second"]);
        bytes.truncate(bytes.len() - 2);
        bytes.extend(file(&["third"]));
        assert_eq!(payloads(&bytes), ["first", "third"]);
    }

    proptest! {
        // G1: wherever a crash cuts the file, the complete records before the cut are read, and
        // nothing else.
        #[test]
        fn any_cut_keeps_every_whole_record(texts in prop::collection::vec("[ -~]{0,40}", 0..8), cut in 0usize..400) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut bytes = file(&texts);
            let cut = cut.min(bytes.len());
            bytes.truncate(cut);
            let mut whole = 0;
            let mut end = 0;
            for text in &texts {
                end += HEAD_BYTES + text.len();
                whole += usize::from(end <= cut);
            }
            prop_assert_eq!(payloads(&bytes), &texts[..whole]);
        }

        #[test]
        fn any_flipped_bit_loses_at_most_its_record(texts in prop::collection::vec("[ -~]{1,40}", 1..8), at in 0usize..400, bit in 0u8..8) {
            let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut bytes = file(&refs);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let read = payloads(&bytes);
            prop_assert_eq!(read.len(), texts.len() - 1);
            prop_assert!(read.iter().all(|text| texts.contains(text)));
        }

        #[test]
        fn both_ways_to_a_head_agree(payload in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(head_of_one(&payload), head(&payload));
        }

        #[test]
        fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let covered: usize = Frames::new(&bytes, 0).map(|frame| match frame {
                Frame::Record { payload, .. } => HEAD_BYTES + payload.len(),
                Frame::Damaged { bytes, .. } | Frame::Torn { bytes, .. } => bytes,
            }).sum();
            prop_assert_eq!(covered, bytes.len());
        }
    }
}

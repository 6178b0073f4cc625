//! Copies foreign text as the content of a JSON string, bounded and always valid.
//!
//! This module decides how strings from the payload and the environment appear in the envelope.
//! They are cut between two characters or escapes, invalid UTF-8 and lone surrogates become U+FFFD,
//! and control bytes are escaped (H-26).

const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
const HEX: [u8; 16] = *b"0123456789abcdef";

/// A copy in progress: text goes in byte by byte, and complete characters and escapes come out.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    /// The length that the output may not exceed.
    end_max: usize,
    /// The beginning of a UTF-8 sequence.
    sequence: [u8; 4],
    sequence_n: usize,
    /// The first half of a surrogate pair, which waits for the second.
    high: Option<u16>,
    /// Whether something did not fit; nothing more is copied then.
    full: bool,
}

impl Copier {
    /// Creates a copy that appends at most `bytes_max` bytes to `out`.
    pub(crate) fn new(out: &[u8], bytes_max: usize) -> Self {
        Self { end_max: out.len().saturating_add(bytes_max), ..Self::default() }
    }

    /// Copies a byte between the quotes that belongs to no escape.
    pub(crate) fn plain(&mut self, out: &mut Vec<u8>, byte: u8) {
        if self.sequence_n != 0 {
            if self.continues(byte) {
                return self.push_sequence(out, byte);
            }
            self.end_sequence(out);
        }
        match byte {
            0x00..0x20 => self.unit(out, &code_unit(u16::from(byte))),
            0x20..0x80 => self.unit(out, &[byte]),
            0xC2..=0xF4 => {
                self.sequence[0] = byte;
                self.sequence_n = 1;
            }
            _ => self.unit(out, REPLACEMENT),
        }
    }

    /// Copies the escape `\` + `byte`, for every byte but `u`.
    pub(crate) fn escape(&mut self, out: &mut Vec<u8>, byte: u8) {
        self.end_sequence(out);
        self.unit(out, &[b'\\', byte]);
    }

    /// Copies the escape `\uXXXX`.
    pub(crate) fn code(&mut self, out: &mut Vec<u8>, code: u16) {
        self.end_sequence(out);
        match (code, self.high) {
            (0xD800..0xDC00, _) => {
                self.end_high(out);
                self.high = Some(code);
            }
            (0xDC00..0xE000, Some(high)) => {
                self.high = None;
                let mut pair = [0; 12];
                pair[..6].copy_from_slice(&code_unit(high));
                pair[6..].copy_from_slice(&code_unit(code));
                self.unit(out, &pair);
            }
            (0xDC00..0xE000, None) => self.unit(out, REPLACEMENT),
            _ => self.unit(out, &code_unit(code)),
        }
    }

    /// Ends the copy. Returns true if something was cut off.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> bool {
        self.end_sequence(out);
        self.end_high(out);
        self.full
    }

    /// Whether the rest of the text can no longer change the copy.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    fn continues(&self, byte: u8) -> bool {
        let range = match (self.sequence_n, self.sequence[0]) {
            (1, 0xE0) => 0xA0..=0xBF,
            (1, 0xED) => 0x80..=0x9F,
            (1, 0xF0) => 0x90..=0xBF,
            (1, 0xF4) => 0x80..=0x8F,
            _ => 0x80..=0xBF,
        };
        range.contains(&byte)
    }

    fn push_sequence(&mut self, out: &mut Vec<u8>, byte: u8) {
        self.sequence[self.sequence_n] = byte;
        self.sequence_n += 1;
        let whole = match self.sequence[0] {
            0xC2..0xE0 => 2,
            0xE0..0xF0 => 3,
            _ => 4,
        };
        if self.sequence_n == whole {
            let sequence = self.sequence;
            self.sequence_n = 0;
            self.unit(out, &sequence[..whole]);
        }
    }

    /// Replaces an unfinished sequence by one replacement character.
    fn end_sequence(&mut self, out: &mut Vec<u8>) {
        if self.sequence_n != 0 {
            self.sequence_n = 0;
            self.unit(out, REPLACEMENT);
        }
    }

    fn end_high(&mut self, out: &mut Vec<u8>) {
        if self.high.take().is_some() {
            self.unit(out, REPLACEMENT);
        }
    }

    /// Appends one character or escape completely, or not at all.
    fn unit(&mut self, out: &mut Vec<u8>, unit: &[u8]) {
        self.end_high(out);
        if self.full || self.end_max < out.len() + unit.len() {
            self.full = true;
        } else {
            out.extend_from_slice(unit);
        }
    }
}

/// Appends `text` as the content of a JSON string, at most `bytes_max` bytes. Returns true if it
/// was cut.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &[u8], bytes_max: usize) -> bool {
    let mut copier = Copier::new(out, bytes_max);
    for byte in text {
        match byte {
            b'"' | b'\\' => copier.escape(out, *byte),
            _ => copier.plain(out, *byte),
        }
    }
    copier.end(out)
}

/// The escape `\uXXXX` of a code unit.
fn code_unit(code: u16) -> [u8; 6] {
    let digit = |shift: u16| HEX[usize::from(code >> shift & 15)];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

/// Appends bytes as lower-case hex digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Appends a number in decimal, without the formatting machinery of the standard library.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_back(escaped: &[u8]) -> String {
        let quoted = [b"\"", escaped, b"\""].concat();
        serde_json::from_slice(&quoted).unwrap()
    }

    proptest! {
        // H-26
        #[test]
        fn any_bytes_become_the_text_that_a_lossy_reading_gives(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            prop_assert!(!push_escaped(&mut out, &bytes, 1000));
            prop_assert_eq!(read_back(&out), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_cut_text_is_a_prefix(text in "[a-zé€😀\"\n]{0,30}", bytes_max in 0usize..60) {
            let mut out = Vec::new();
            let cut = push_escaped(&mut out, text.as_bytes(), bytes_max);
            prop_assert!(out.len() <= bytes_max);
            let back = read_back(&out);
            prop_assert!(text.starts_with(&back));
            prop_assert_eq!(cut, back != text);
        }

        #[test]
        fn numbers_look_as_they_do_elsewhere(number in any::<u64>()) {
            let mut out = Vec::new();
            push_number(&mut out, number);
            prop_assert_eq!(out, number.to_string().into_bytes());
        }
    }
}

//! Splits a stream into lines, in whatever pieces it arrives.
//!
//! Each byte is examined once and copied at most once; a line that arrives whole is not copied at all.

use memchr::memchr;

/// Longest line that is built, in bytes.
pub const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Memory kept for the next line that arrives in pieces, in bytes.
const KEPT_BYTES: usize = 1024 * 1024;

/// A line, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// The bytes of the line.
    Whole(&'a [u8]),
    /// The line is longer than the limit, and was dropped.
    TooLong,
}

/// Splits pieces into lines, and holds the part of an unfinished line.
#[derive(Debug)]
pub struct Lines {
    held: Vec<u8>,
    is_too_long: bool,
    bytes_max: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(LINE_BYTES_MAX)
    }
}

impl Lines {
    /// For lines of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { held: Vec::new(), is_too_long: false, bytes_max }
    }

    /// Reads the next piece, and passes each line that ends in it to `each`.
    pub fn feed(&mut self, piece: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        let mut rest = piece;
        while let Some((line, behind)) =
            memchr(b'\n', rest).and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?)))
        {
            if self.held.is_empty() && !self.is_too_long {
                each(if line.len() <= self.bytes_max { Line::Whole(line) } else { Line::TooLong });
            } else {
                self.hold(line);
                self.hand_on(each);
            }
            rest = behind;
        }
        self.hold(rest);
    }

    /// Handles the end of the stream: the rest is the last line, complete or not.
    pub fn end(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        if !self.held.is_empty() || self.is_too_long {
            self.hand_on(each);
        }
    }

    fn hold(&mut self, piece: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.held.len().saturating_add(piece.len()) <= self.bytes_max {
            self.held.extend_from_slice(piece);
        } else {
            self.is_too_long = true;
            self.held = Vec::new();
        }
    }

    fn hand_on(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        each(if self.is_too_long { Line::TooLong } else { Line::Whole(&self.held) });
        self.is_too_long = false;
        self.held.clear();
        self.held.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Line, Lines};

    fn lines_of(bytes: &[u8], step: usize, bytes_max: usize) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        let mut each = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            });
        };
        let mut lines = Lines::new(bytes_max);
        bytes.chunks(step).for_each(|piece| lines.feed(piece, &mut each));
        lines.end(&mut each);
        assert!(lines.held.capacity() <= bytes_max.max(super::KEPT_BYTES) * 2);
        found
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let text = b"one\n\ntwo\r\nthree is far too long\n\xff\0\nfour";
        let expected: Vec<Option<Vec<u8>>> =
            [Some(&b"one"[..]), Some(b""), Some(b"two\r"), None, Some(b"\xff\0"), Some(b"four")]
                .into_iter()
                .map(|line| line.map(<[u8]>::to_vec))
                .collect();
        for step in 1..=text.len() {
            assert_eq!(lines_of(text, step, 8), expected, "in pieces of {step}");
        }
    }

    #[test]
    fn a_line_of_exactly_the_bound_is_built_and_one_byte_more_is_not() {
        for step in [1, 3, 100] {
            assert_eq!(lines_of(b"12345678\n", step, 8), [Some(b"12345678".to_vec())]);
            assert_eq!(lines_of(b"123456789\n", step, 8), [None]);
            assert_eq!(lines_of(b"123456789", step, 8), [None], "at the end of the stream");
        }
    }

    #[test]
    fn a_line_without_end_is_not_held() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..64 {
            lines.feed(&piece, &mut |_| panic!("no line has ended"));
            assert!(lines.held.capacity() <= 2 * LINE_BYTES_MAX);
        }
        let mut found = Vec::new();
        lines.feed(b"\nnext\n", &mut |line| found.push(matches!(line, Line::TooLong)));
        assert_eq!(found, [true, false]);
    }
}

//! Recognizes a standard output that consists of the one line that the client writes at a used-up limit
//!

/// Longest line of the client's own, in bytes.
const BYTES_MAX: usize = 1024;
/// How such a line begins (measured: at a subscription's limit, and at a request limit).
const LIMITS: [&str; 2] = ["You've hit your ", "API Error: Request rejected (429)"];

/// Reads an output in pieces, and keeps no more of it than a line of the client's own has.
#[derive(Debug, Default)]
pub(crate) struct OnlyLine {
    bytes: Vec<u8>,
}

impl OnlyLine {
    /// Reads the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let room = (BYTES_MAX + 1).saturating_sub(self.bytes.len()).min(piece.len());
        self.bytes.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    /// Whether the whole output is one line that names a used-up limit.
    pub(crate) fn is_limit(&self) -> bool {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let is_line = text.len() <= BYTES_MAX && !text.contains(&b'\n');
        is_line && LIMITS.iter().any(|begin| text.starts_with(begin.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_limit(text: &[u8], step: usize) -> bool {
        let mut line = OnlyLine::default();
        text.chunks(step).for_each(|piece| line.take(piece));
        line.is_limit()
    }

    // the lines as the client writes them.
    #[test]
    fn the_client_s_lines_are_known_however_they_are_cut() {
        for text in [
            "You've hit your limit \u{b7} resets 12:18pm (UTC)\n",
            "You've hit your limit \u{b7} resets Nov 29, 10:55am (UTC)\n",
            "You've hit your limit\n",
            "API Error: Request rejected (429) \u{b7} This request would exceed your account's rate limit. Please try again later.\n",
        ] {
            for step in 1..=text.len() {
                assert!(is_limit(text.as_bytes(), step), "{text} in pieces of {step}");
            }
        }
    }

    //
    #[test]
    fn anything_beside_the_line_makes_it_another_output() {
        for text in [
            "",
            "\n",
            "I read: You've hit your limit\n",
            "\nYou've hit your limit\n",
            "You've hit your limit\n\n",
            "You've hit your limit\nThat is what it says.\n",
            "API Error: 529 Overloaded.\n",
            "Error: Reached max turns (1)",
        ] {
            assert!(!is_limit(text.as_bytes(), 3), "{text:?}");
        }
        let long = format!("You've hit your {}", "x".repeat(BYTES_MAX));
        assert!(!is_limit(long.as_bytes(), 100), "longer than any of the client's");
    }
}

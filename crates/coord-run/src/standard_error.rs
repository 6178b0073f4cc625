//! Observes a run's standard error: reports known error texts at once (S2-03, S2-04), and determines what the
//! client complains about (R-14, S2-17).
//!
//! A flood needs bounded memory: a line is held up to a bound, and only its beginning counts then.

use coord_core::{Complaint, ErrorText};
use memchr::{memchr, memmem};

/// Longest part of a line that is held, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes searched at once.
const BLOCK_BYTES: usize = 16 * 1024;
/// Longest first line for people, in characters.
const FIRST_LINE_CHARS_MAX: usize = 200;

/// How the client's messages about wrong arguments begin (measured).
const ARGUMENTS: [&str; 13] = [
    "error: unknown option",
    "error: unknown command",
    "error: option '",
    "error: required option",
    "error: missing required argument",
    "error: too many arguments",
    "error: command-argument value",
    "Error: Input must be provided",
    "Error: --",
    "Error: Invalid session ID",
    "Error: When using --print",
    "Error: Invalid MCP configuration",
    "MCP config file not found",
];
/// How the client's message about a missing conversation begins.
const NO_CONVERSATION: &str = "No conversation found";
/// How the client's warning about an open standard input begins, which comes before other messages.
const WARNING: &str = "Warning: ";

/// What a standard error contained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StderrSeen {
    /// The number of bytes.
    pub bytes: u64,
    /// The first line that is not empty, with bounded length and without control characters.
    pub first_line: Option<String>,
    /// What the client complains about, if that is known.
    pub complaint: Option<Complaint>,
}

/// Reads a standard error in pieces.
#[derive(Debug)]
pub struct StandardError {
    limit_texts: Vec<String>,
    prompt: Option<String>,
    seen: StderrSeen,
    /// The beginning of the unfinished line.
    line: Vec<u8>,
    /// The end of the output so far, in lower case: a text may continue in the next piece.
    tail: Vec<u8>,
    /// The error texts not found so far, in lower case.
    wanted: Vec<(ErrorText, String)>,
    has_spoken: bool,
}

impl StandardError {
    /// Creates a reader for a run with these texts for a used-up limit, and this prompt.
    pub fn new(limit_texts: Vec<String>, prompt: Option<String>) -> Self {
        let wanted = ErrorText::ALL.map(|text| (text, text.word().to_ascii_lowercase()));
        Self {
            limit_texts: limit_texts.into_iter().filter(|text| !text.is_empty()).collect(),
            prompt,
            seen: StderrSeen::default(),
            line: Vec::new(),
            tail: Vec::new(),
            wanted: wanted.into(),
            has_spoken: false,
        }
    }

    /// Reads the next piece. Returns the error texts that are new in it.
    pub fn take(&mut self, piece: &[u8]) -> Vec<ErrorText> {
        self.seen.bytes = self.seen.bytes.saturating_add(piece.len() as u64);
        let (mut found, mut rest) = (Vec::new(), piece);
        while let Some((line, behind)) =
            memchr(b'\n', rest).and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?)))
        {
            self.hold(line, &mut found);
            self.end_line();
            rest = behind;
        }
        self.hold(rest, &mut found);
        found
    }

    /// Handles the end of the stream, and returns what it contained.
    pub fn end(mut self) -> StderrSeen {
        self.end_line();
        self.seen
    }

    fn hold(&mut self, piece: &[u8], found: &mut Vec<ErrorText>) {
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
        for block in piece.chunks(BLOCK_BYTES) {
            self.search(block, found);
        }
    }

    fn search(&mut self, block: &[u8], found: &mut Vec<ErrorText>) {
        let Some(longest) = self.wanted.iter().map(|(_, text)| text.len()).max() else { return };
        self.tail.extend(block.iter().map(u8::to_ascii_lowercase));
        self.wanted.retain(|(text, word)| {
            let is_there = memmem::find(&self.tail, word.as_bytes()).is_some();
            if is_there {
                found.push(*text);
            }
            !is_there
        });
        self.tail.drain(..self.tail.len().saturating_sub(longest - 1));
    }

    fn end_line(&mut self) {
        self.tail.clear();
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if self.seen.first_line.is_none() {
            let shown = line.chars().filter(|one| !one.is_control());
            self.seen.first_line = Some(shown.take(FIRST_LINE_CHARS_MAX).collect());
        }
        if !self.has_spoken && !line.starts_with(WARNING) {
            self.has_spoken = true;
            self.seen.complaint = if line.starts_with(NO_CONVERSATION) {
                Some(Complaint::NoConversation)
            } else {
                let is_usage = ARGUMENTS.iter().any(|words| line.starts_with(words));
                is_usage.then_some(Complaint::Arguments)
            };
        }
        if self.seen.complaint.is_none() && self.is_limit(line) {
            self.seen.complaint = Some(Complaint::Limit);
        }
    }

    /// Whether a line says that a limit is used up. A line that only repeats the prompt does not count, be it
    /// a part of the prompt or one of its lines in any frame.
    fn is_limit(&self, line: &str) -> bool {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        self.limit_texts.iter().filter(|text| line.contains(*text)).any(|text| {
            let mut said = prompt.lines().map(str::trim).filter(|said| said.contains(text));
            !prompt.contains(line) && !said.any(|said| line.contains(said))
        })
    }
}

#[cfg(test)]
mod tests {
    use coord_core::{Complaint, ErrorText};

    use super::{LINE_BYTES_MAX, StandardError, StderrSeen};

    fn seen(text: &str, step: usize) -> (Vec<ErrorText>, StderrSeen) {
        let mut errors = StandardError::new(vec![String::from("usage limit")], None);
        let found = text.as_bytes().chunks(step).flat_map(|piece| errors.take(piece)).collect();
        (found, errors.end())
    }

    fn complaint(text: &str) -> Option<Complaint> {
        seen(text, text.len()).1.complaint
    }

    fn with_prompt(prompt: &str, text: &str) -> Option<Complaint> {
        let mut errors =
            StandardError::new(vec![String::from("usage limit")], Some(String::from(prompt)));
        errors.take(text.as_bytes());
        errors.end().complaint
    }

    // S2-03, S2-04
    #[test]
    fn a_known_error_text_is_found_in_any_case_and_wherever_the_stream_is_cut() {
        let text = "first\nread econnreset\nError: ETimedOut at NO MESSAGES RETURNED, ECONNRESET";
        let expected = [ErrorText::ConnectionReset, ErrorText::TimedOut, ErrorText::NoMessages];
        for step in 1..=text.len() {
            let (mut found, _) = seen(text, step);
            // Within one piece there is no order.
            found.sort_by_key(|one| expected.iter().position(|known| known == one));
            assert_eq!(found, expected, "in pieces of {step}");
        }
    }

    // S2-04
    #[test]
    fn a_known_error_text_is_told_before_its_line_ends() {
        let mut errors = StandardError::new(Vec::new(), None);
        assert!(errors.take(b"read ECONNR").is_empty());
        assert_eq!(errors.take(b"ESET"), [ErrorText::ConnectionReset]);
        assert!(errors.take(b" ECONNRESET\nECONNRESET\n").is_empty(), "once is enough");
    }

    #[test]
    fn a_text_over_two_lines_is_none() {
        assert!(seen("ECONN\nRESET", 3).0.is_empty());
        assert!(seen("ECONN RESET", 11).0.is_empty());
    }

    #[test]
    fn a_flood_without_a_newline_costs_bounded_memory_and_hides_nothing() {
        let mut errors = StandardError::new(Vec::new(), None);
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..32 {
            assert!(errors.take(&piece).is_empty());
        }
        assert!(errors.line.capacity() <= 2 * LINE_BYTES_MAX);
        assert!(errors.tail.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(errors.take(b" etimedout"), [ErrorText::TimedOut]);
        let seen = errors.end();
        assert_eq!(seen.bytes, 32 * 1024 * 1024 + 10);
        assert_eq!(seen.first_line.map(|line| line.len()), Some(200));
    }

    #[test]
    fn the_first_line_is_the_first_with_words_and_has_no_control_characters() {
        let (_, seen) = seen("\n  \r\n\u{1b}]0;title\u{7}\u{9b}31mbad\r\nnext\n", 5);
        assert_eq!(seen.first_line.as_deref(), Some("]0;title31mbad"));
        assert_eq!(seen.complaint, None);
    }

    #[test]
    fn invalid_text_is_read_all_the_same() {
        let mut errors = StandardError::new(Vec::new(), None);
        assert_eq!(errors.take(b"\xff\xfe\0ETIMEDOUT\0"), [ErrorText::TimedOut]);
        assert_eq!(errors.end().first_line.as_deref(), Some("\u{fffd}\u{fffd}ETIMEDOUT"));
    }

    // R-14, S2-01
    #[test]
    fn wrong_arguments_are_told_by_the_client_s_own_words_in_the_first_line() {
        for words in [
            "error: unknown option '--no-such-flag'\n",
            "error: option '--model <model>' argument missing",
            "error: option '--permission-mode <mode>' argument 'nope' is invalid. Allowed choices are",
            "Error: Input must be provided either through stdin or as a prompt argument when using --print",
            "Error: --resume requires a valid session ID or session title when used with --print.",
            "Error: Invalid session ID. Must be a valid UUID.",
            "Error: When using --print, --output-format=stream-json requires --verbose",
            "Error: Invalid MCP configuration:\nMCP config file not found: /nope.json",
            "Warning: no stdin data received in 3s, proceeding without it.\nError: Input must be provided",
        ] {
            assert_eq!(complaint(words), Some(Complaint::Arguments), "{words}");
        }
        assert_eq!(complaint("something\nerror: unknown option"), None, "not in the first line");
        assert_eq!(complaint("Error: the network is down"), None);
        assert_eq!(
            complaint("\nNo conversation found with session ID: 11111111\n"),
            Some(Complaint::NoConversation)
        );
    }

    // S2-17
    #[test]
    fn a_limit_is_told_by_the_configured_text_and_never_by_an_echo_of_the_prompt() {
        assert_eq!(complaint("a\nERR usage limit reached\nb"), Some(Complaint::Limit));
        let prompt = "Fix this:\n  what does usage limit mean here?\nthanks";
        for echo in [
            "what does usage limit mean here?",
            "   what does usage limit mean",
            "usage limit",
            "> what does usage limit mean here?",
            "user: Fix this: what does usage limit mean here? thanks",
        ] {
            assert_eq!(with_prompt(prompt, echo), None, "{echo}");
        }
        let real = "what does usage limit mean here?\nERROR: usage limit reached, try at 5pm";
        assert_eq!(with_prompt(prompt, real), Some(Complaint::Limit));
        assert_eq!(with_prompt("", "usage limit"), Some(Complaint::Limit));
    }

    // S2-17
    #[test]
    fn a_text_that_is_not_configured_says_nothing_of_a_limit() {
        let mut errors = StandardError::new(vec![String::new()], None);
        errors.take(b"usage limit\n");
        assert_eq!(errors.end().complaint, None);
    }
}

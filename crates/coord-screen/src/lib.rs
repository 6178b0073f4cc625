//! What a captured pane (`tmux capture-pane -p`) shows of a Claude Code client.
//!
//! Decides by text alone: which of a few classes the screen belongs to, which farewell of a client
//! stands on it, and whether words of a crash stand on it. It knows nothing of sessions, tmux or files. What it says is a hint: a killed client leaves its old screen
//! behind, and an agent can print anything; so only what the client itself draws at the bottom of
//! the screen decides, and what fits no class is unknown. Classes and signatures are data,
//! `screens.toml`; so are the shapes of a prompt that an agent's message may end with,
//! `questions.toml`. Holds S0-01 (signatures), and the screen's part in S0-18 and H-05.

mod cells;
mod digest;
mod farewell;
mod input;
mod layout;
mod question;
mod rules;
mod shell_prompt;

pub use cells::plain;
pub use coord_model::{Farewell, Question, Screen};
pub use input::input;
use layout::Layout;
pub use question::question_in;
pub use shell_prompt::{has_typed, prompt};

/// More than this of a screen is not read: only its end.
const SCREEN_BYTES_MAX: usize = 256 * 1024;

/// What was read from a screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// None: unknown.
    pub screen: Option<Screen>,
    /// The last farewell of a client ("Resume this session with") on the screen.
    pub farewell: Option<Farewell>,
    /// The crash signature that stands anywhere on the screen. Evidence and nothing more: these
    /// words are everyday output of an agent (H-07).
    pub signature: Option<String>,
    /// A digest of its words without what moves by itself (S1-04); none if there is no word.
    pub digest: Option<u64>,
}

/// Reads a screen, of a long one its end.
pub fn read(text: &str) -> Reading {
    let text = end_of(text);
    let layout = Layout::of(text);
    Reading {
        screen: rules::class_of(&layout),
        farewell: farewell::last_in(layout.lines()),
        signature: signature_in(text).map(str::to_owned),
        digest: digest::of_screen(&layout),
    }
}

/// Adds the user's own crash signatures to the known ones (S0-01), once for the program's life. True if
/// they were taken.
pub fn add_signatures(own: Vec<String>) -> bool {
    rules::add_signatures(own)
}

/// The crash signature that the text holds, however its lines are broken.
pub fn signature_in(text: &str) -> Option<&'static str> {
    rules::signature_in(text)
}

/// At most the last [`SCREEN_BYTES_MAX`], from the start of a line where there is one.
fn end_of(text: &str) -> &str {
    let Some(mut from) = text.len().checked_sub(SCREEN_BYTES_MAX).filter(|from| *from > 0) else {
        return text;
    };
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let end = &text[from..];
    end.split_once('\n').map_or(end, |(_, whole_lines)| whole_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_screen_the_end_is_read() {
        let long = "é\n".repeat(SCREEN_BYTES_MAX);
        assert!(end_of(&long).len() <= SCREEN_BYTES_MAX);
        assert_eq!(end_of("short"), "short");
        let one_line = format!("x{}", "é".repeat(SCREEN_BYTES_MAX));
        assert!(end_of(&one_line).len() <= SCREEN_BYTES_MAX);
    }
}

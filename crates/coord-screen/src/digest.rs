//! Digests of what stands on a screen: no text is kept.
//!
//! Decides what of a screen moves by itself and is left out when two captures are compared (S1-04):
//! the faces of spinners, clocks, and the footer with its hints.

use crate::layout::{Layout, Region};

/// FNV-1a, 64 bit: the same on every machine and in every version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The units of a clock: `1m 12s`, `300ms`, `2h`.
const UNITS: [&str; 4] = ["s", "m", "h", "ms"];

pub(crate) fn of_text(text: &str) -> u64 {
    more(FNV_OFFSET, text)
}

/// The words on a screen, without what moves by itself; none if there is none.
pub(crate) fn of_screen(layout: &Layout<'_>) -> Option<u64> {
    let lines = layout.lines();
    let above = &lines[..layout.input_row().unwrap_or(lines.len())];
    let input = layout.region(Region::Input).iter().map(String::as_str);
    let lines = above.iter().copied().chain(input);
    let mut words = lines
        .flat_map(|line| line.split(|one: char| !(one.is_alphanumeric() || one == '.')))
        .map(|word| word.trim_matches('.'))
        .filter(|word| !word.is_empty() && !is_clock(word))
        .peekable();
    words.peek()?;
    // A word ends where no character of a word stands.
    Some(words.fold(FNV_OFFSET, |hash, word| more(more(hash, word), " ")))
}

fn more(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

fn is_clock(word: &str) -> bool {
    let unit = word.trim_start_matches(|one: char| one.is_ascii_digit() || one == '.');
    unit.len() < word.len() && UNITS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(above: &str, draft: &str, footer: &str) -> Option<u64> {
        let rule = "─".repeat(40);
        of_screen(&Layout::of(&format!("{above}\n{rule}\n❯\u{a0}{draft}\n{rule}\n  {footer}\n")))
    }

    // S1-04
    #[test]
    fn what_moves_by_itself_is_left_out() {
        let one = of("● Bash(make)\n✻ Baking… (59s · ↓ 1.2k tokens)", "", "esc to interrupt");
        assert!(one.is_some());
        for same in [
            of("● Bash(make)\n✽ Baking… (1m 4s · ↓ 1.2k tokens)", "", "esc to interrupt"),
            of("  Bash(make)\n· Baking… (2.5s · ↓ 1.2k tokens)", "", "? for shortcuts"),
        ] {
            assert_eq!(same, one);
        }
        for other in [
            of("● Bash(make)\n✻ Baking… (59s · ↓ 1.3k tokens)", "", "esc to interrupt"),
            of("● Bash(make)\n  ⎿ 45%\n✻ Baking… (59s · ↓ 1.2k tokens)", "", "esc to interrupt"),
            of("● Bash(make)\n✻ Baking… (59s · ↓ 1.2k tokens)", "a draft", "esc to interrupt"),
        ] {
            assert_ne!(other, one);
        }
    }

    #[test]
    fn a_screen_without_a_word_has_none() {
        assert_eq!(of_screen(&Layout::of("")), None);
        assert_eq!(of_screen(&Layout::of("✻ (3s)\n")), None);
    }

    #[test]
    fn digests_of_text_are_stable() {
        assert_eq!(of_text(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of_text("a"), 0xaf63_dc4c_8601_ec8c);
    }
}

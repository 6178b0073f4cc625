//! Text from elsewhere, made safe for a terminal, and fitted into its columns (H-26, H-51).

use std::fmt::Display;

use coord_core::is_hidden;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text from elsewhere, safe for a terminal (H-26, H-51): control characters below the blank become
/// a visible mark, and what is not seen is left out.
pub fn escape(text: &str) -> String {
    let shown = text.chars().filter(|one| !is_hidden(*one));
    shown.map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}

/// A number as people write it: 65,536.
pub fn thousands(n: impl Display) -> String {
    let digits = n.to_string();
    let grouped = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    grouped.collect::<Vec<_>>().join(",")
}

/// The columns of a text.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The first `width` columns; what is cut is marked.
pub fn fit(text: &str, width: usize) -> String {
    fit_marked(text, width, "…")
}

/// The last `width` columns; what is cut is marked.
pub fn fit_end(text: &str, width: usize) -> String {
    fit_end_marked(text, width, "…")
}

/// The first `width` columns, with `mark` in place of what is cut.
pub fn fit_marked(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mark = taken(mark.chars(), width);
    taken(text.chars(), width - mark.width()) + &mark
}

/// The last `width` columns, with `mark` in place of what is cut.
pub fn fit_end_marked(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mark = taken(mark.chars(), width);
    let kept = taken(text.chars().rev(), width - mark.width());
    mark + &kept.chars().rev().collect::<String>()
}

/// As many characters as fit into `width` columns.
fn taken(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut left = width;
    chars
        .map_while(|c| {
            left = left.checked_sub(c.width().unwrap_or(0))?;
            Some(c)
        })
        .collect()
}

/// `text` with blanks up to `width` columns.
pub fn pad(text: &str, width: usize, to_the_right: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if to_the_right { blanks + text } else { text.to_owned() + &blanks }
}

/// Lines of at most `width` columns, broken at blanks; a word that is longer is not broken.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.width() + 1 + word.width() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-26, H-51
    #[test]
    fn nothing_foreign_can_steer_a_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\u{9b}c\u{202e}d\ne"), "a�[31mbcd�e");
        assert_eq!(escape("naïve ❯ ünï 漢字"), "naïve ❯ ünï 漢字");
        // Nor is there anything that is not seen.
        assert_eq!(escape("a\u{7f}\u{ad}\u{2066}\u{e0041}\u{e0100}\u{3164}b"), "ab");
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 65_536, 1_000_000].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "65,536", "1,000,000"]);
    }

    #[test]
    fn long_texts_are_cut_and_marked() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit_end("abcdef", 4), "…def");
        assert_eq!(fit("abcd", 4), "abcd");
        assert_eq!((fit("ab", 1), fit("ab", 0)), ("…".to_owned(), String::new()));
        // Some characters take two columns.
        assert_eq!(fit("漢字漢字", 6), "漢字…");
        assert_eq!(fit("漢字漢字", 7), "漢字漢…");
        assert_eq!(fit_end("漢字漢字", 6), "…漢字");
        assert_eq!(pad("漢", 4, false), "漢  ");
        assert_eq!(pad("5s", 5, true), "   5s");
    }
}

//! A shell's prompt with nothing typed behind it (H-18), and a line that was typed there (H-34).
//!
//! Decides only how it looks; that a shell stands there at all is told by the process table. No text
//! is kept: a prompt is its cursor's column and a digest.

use coord_model::Prompt;
use unicode_width::UnicodeWidthChar;

use crate::digest::of_text as digest;
use crate::rules;

/// No terminal is wider, in cells.
const COLUMNS_MAX: u32 = 10_000;

/// The lower border of a client's input box.
const BOX_RULE: char = '─';

/// The prompt that the cursor stands right behind, on a screen without escape sequences. The cursor
/// is counted in cells from 0. None if the line ends like no prompt, more than one blank stands
/// before the cursor, or anything behind it but blanks and the rule of a dead client's box.
pub fn prompt(screen: &str, cursor_x: u32, cursor_y: u32) -> Option<Prompt> {
    if COLUMNS_MAX < cursor_x {
        return None;
    }
    let line = screen.lines().nth(usize::try_from(cursor_y).ok()?).unwrap_or("");
    let (left, right) = split_at(line, usize::try_from(cursor_x).ok()?)?;
    let is_blank = |text: &str| text.chars().all(char::is_whitespace);
    let prompt = left.strip_suffix([' ', '\u{a0}']).unwrap_or(&left);
    // A client that was killed in the middle leaves its box, and its shell paints over that.
    let right = right.trim_end_matches(BOX_RULE);
    (is_blank(right) && rules::is_prompt(prompt))
        .then(|| Prompt { column: cursor_x, digest: digest(&left) })
}

/// What stands left of the cursor, with the blanks that a capture leaves out, and the rest; none if
/// the cursor stands within a character.
fn split_at(line: &str, column: usize) -> Option<(String, &str)> {
    let mut width = 0;
    for (at, one) in line.char_indices() {
        if column <= width {
            let is_between = column == width && one.width() != Some(0);
            if is_between || column == 0 {
                return Some((line[..at].to_owned(), &line[at..]));
            }
            if column < width {
                return None;
            }
        }
        width += one.width().unwrap_or(0);
    }
    let missing = column.checked_sub(width)?;
    Some((format!("{line}{}", " ".repeat(missing)), ""))
}

/// Whether `resume-exec NONCE` stands on the screen, however the terminal broke the line.
pub fn has_typed(screen: &str, nonce: &str) -> bool {
    let text: String = screen.split_whitespace().collect();
    !nonce.is_empty() && text.contains(&format!("resume-exec{nonce}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, column: u32) -> Option<Prompt> {
        prompt(&format!("first\n{line}\n\n"), column, 1)
    }

    /// With the cursor right behind it, and a blank.
    fn is_prompt(line: &str) -> bool {
        let column = line.chars().filter_map(UnicodeWidthChar::width).sum::<usize>() + 1;
        of(line, u32::try_from(column).unwrap()).is_some()
    }

    // H-18
    #[test]
    fn prompts_of_many_shells() {
        for line in [
            "$",
            "#",
            "dev$",
            "bash-5.2#",
            "[dev@host ~]$",
            "host%",
            "user@h ~>",
            "❯",
            "╰─❯",
            "(venv) ~/project ➜",
            "日本 λ",
            "»",
            "~/a › ",
        ] {
            assert!(is_prompt(line.trim_end()), "{line}");
        }
        assert!(of("dev$", 4).is_some(), "without a blank");
    }

    // H-18: half a line typed, another program's question, the rest of a command.
    #[test]
    fn what_is_no_empty_prompt() {
        for line in
            ["", "Password:", "dev$ ls", "dev$ cat >", "dev$ echo $", ">", "dquote>", "~", "(END)"]
        {
            assert!(!is_prompt(line), "{line}");
        }
        assert_eq!(of("dev$ ls", 5), None, "text behind the cursor");
        assert_eq!(of("dev$", 6), None, "two blanks");
        let over_a_dialog = "dev$  Yes, and always allow access";
        assert_eq!(of(over_a_dialog, 5), None);
        assert_eq!(of("dev$ ls───", 5), None);
        assert_eq!(of("dev$ echo $────", 11), None);
        assert_eq!(of("dev$", 3), None, "within the prompt");
        assert_eq!(of("dev$      12:00", 5), None, "text at the right border");
        assert_eq!(of("日$", 1), None, "within a character");
        assert_eq!(prompt("dev$", 5, 7), None, "below the screen");
        assert_eq!(of("$ ", u32::MAX), None);
    }

    // H-18: the shell of a client that was killed paints over its last screen (measured).
    #[test]
    fn a_prompt_over_a_dead_client_s_box() {
        let screen = "❯ Killed\ndev$ ──────────────────\n  ⏸ manual mode on · ← for agents\n";
        assert_eq!(prompt(screen, 5, 1).map(|prompt| prompt.digest), Some(digest("dev$ ")));
    }

    #[test]
    fn a_prompt_is_its_column_and_digest() {
        let one = of("a$", 3).unwrap();
        assert_eq!(one, Prompt { column: 3, digest: digest("a$ ") });
        assert_ne!(of("b$", 3).unwrap().digest, one.digest);
        assert_eq!(of("a$ ", 3), Some(one), "a blank that the capture kept");
    }

    // H-34
    #[test]
    fn a_typed_line_is_found_however_it_is_broken() {
        let nonce = "0123456789abcdef0123456789abcdef";
        for screen in [
            format!("dev$ /opt/coordctl resume-exec {nonce}"),
            "dev$ /opt/coordctl resu\nme-exec 0123456789abcdef\n0123456789abcdef  \n".to_owned(),
        ] {
            assert!(has_typed(&screen, nonce), "{screen}");
            assert!(!has_typed(&screen, "ffffffffffffffffffffffffffffffff"));
            assert!(!has_typed(&screen, ""));
        }
    }
}

//! The client's input line: empty, or with something in it that dies with the client (H-08, S0-25c).
//!
//! Decides by the cell in reverse video that the client paints as its cursor: the line is empty if
//! that cell follows the mark at once and nothing stands behind it but the client's own dim
//! suggestion. Whatever is not known for sure to be empty is not.

use coord_model::Input;

use crate::cells::{Row, rows};
use crate::layout::{Layout, Region};
use crate::{end_of, rules};

/// Before an empty or begun prompt.
const PROMPT_MARK: [char; 2] = ['❯', '\u{a0}'];
/// A narrower client cuts off what it says of a stashed draft.
const BOX_CHARS_MIN: usize = 24;

/// Reads the input line from a capture with escape sequences (`tmux capture-pane -p -e`).
pub fn input(capture: &str) -> Input {
    let rows = rows(end_of(capture));
    let text: String = rows.iter().map(|row| row.text() + "\n").collect();
    let layout = Layout::of(&text);
    let Some(first) = layout.input_row() else { return Input::Unreadable };
    let (Some(top), Some(row)) =
        (first.checked_sub(1).and_then(|at| rows.get(at)), rows.get(first))
    else {
        return Input::Unreadable;
    };
    if top.text().trim_end().chars().count() < BOX_CHARS_MIN {
        return Input::Unreadable;
    }
    let above = first.checked_sub(2).and_then(|at| rows.get(at)).map(Row::text);
    let below = layout.region(Region::Footer);
    if above.is_some_and(|line| rules::is_stash(&line))
        || below.iter().any(|one| rules::is_stash(one))
    {
        return Input::Draft;
    }
    let has_more = 1 < layout.region(Region::Input).len();
    match (content(row), has_more) {
        (Input::Empty, true) => Input::Draft,
        (content, _) => content,
    }
}

/// What stands behind the mark.
fn content(row: &Row) -> Input {
    let Some(cells) = row.cells.get(PROMPT_MARK.len()..) else { return Input::Unreadable };
    if row.cells.iter().map(|(one, _)| *one).take(PROMPT_MARK.len()).ne(PROMPT_MARK) {
        // The mark of the shell mode: it was typed.
        return Input::Draft;
    }
    let is_blank = |one: &char| one.is_whitespace();
    let Some(((cursor, style), behind)) = cells.split_first() else {
        return if row.rest.is_reverse { Input::Empty } else { Input::Unreadable };
    };
    if !style.is_reverse {
        let is_any = cells.iter().any(|(one, style)| !is_blank(one) || style.is_reverse);
        // Without a cursor anywhere it is not the line that was measured.
        return if is_any || row.rest.is_reverse { Input::Draft } else { Input::Unreadable };
    }
    let is_suggestion = behind.iter().all(|(one, style)| is_blank(one) || style.is_dim);
    let is_alone = behind.iter().all(|(one, _)| is_blank(one));
    // The cursor stands on the first character of a suggestion, or on that of a draft.
    if is_suggestion && (is_blank(cursor) || !is_alone) { Input::Empty } else { Input::Draft }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client whose input line is this.
    fn client(above: &str, line: &str) -> String {
        let rule = "─".repeat(40);
        format!("● Hi\n\n{above}\n{rule}\n{line}\n\u{1b}[0m{rule}\n  ⏸ manual mode on\n")
    }

    // H-08
    #[test]
    fn only_what_is_known_to_be_empty_is() {
        for (line, expected) in [
            ("❯\u{a0}\u{1b}[7m \u{1b}[0m", Input::Empty),
            ("❯\u{a0}\u{1b}[7m", Input::Empty),
            ("❯\u{a0}\u{1b}[7mT\u{1b}[0;2mry \"fix\"", Input::Empty),
            ("❯\u{a0}\u{1b}[7m \u{1b}[0;2mTry", Input::Empty),
            ("❯\u{a0}h\u{1b}[7m \u{1b}[0m", Input::Draft),
            ("❯\u{a0}h\u{1b}[7m", Input::Draft),
            ("❯\u{a0}\u{1b}[7mh\u{1b}[0mi", Input::Draft),
            ("❯\u{a0}\u{1b}[7mh\u{1b}[0m", Input::Draft),
            ("❯\u{a0}\u{1b}[7m \u{1b}[0mhi", Input::Draft),
            ("❯\u{a0}\u{1b}[7mh\u{1b}[0;2mi\u{1b}[0m!", Input::Draft),
            ("❯\u{a0}   \u{1b}[7m \u{1b}[0m", Input::Draft),
            ("❯\u{a0}\u{1b}[2mhi", Input::Draft),
            ("!\u{a0}\u{1b}[7m \u{1b}[0m", Input::Draft),
            ("❯\u{a0}\u{1b}[7m \u{1b}[0m\n  more", Input::Draft),
            ("❯\u{a0}\n  \u{1b}[7m ", Input::Unreadable),
            ("❯\u{a0}", Input::Unreadable),
            ("❯\u{a0}  ", Input::Unreadable),
            ("❯ \u{1b}[7m ", Input::Unreadable),
            ("", Input::Unreadable),
        ] {
            assert_eq!(input(&client("", line)), expected, "{line:?}");
        }
    }

    // H-08: a stashed draft dies with the client as well.
    #[test]
    fn a_stash_mark_is_a_draft() {
        let empty = "❯\u{a0}\u{1b}[7m \u{1b}[0m";
        for (above, expected) in [
            ("          ◐ medium · /effort · draft stashed", Input::Draft),
            ("          draft stashed", Input::Draft),
            ("          ◐ medium · /effort", Input::Empty),
        ] {
            assert_eq!(input(&client(above, empty)), expected, "{above:?}");
        }
        let below = client("", empty).replace("manual mode on", "manual mode on · draft stashed");
        assert_eq!(input(&below), Input::Draft);
    }

    #[test]
    fn what_is_too_narrow_for_a_stash_mark_is_not_read() {
        let narrow = client("", "❯\u{a0}\u{1b}[7m ").replace(&"─".repeat(40), &"─".repeat(20));
        assert_eq!(input(&narrow), Input::Unreadable);
        assert_eq!(input(""), Input::Unreadable);
    }
}

//! Takes a capture with its escape sequences (`tmux capture-pane -p -e`) apart into characters and
//! whether they stand in reverse video or are dim. All other attributes are left out.

/// Introduces a sequence.
const ESCAPE: char = '\u{1b}';
/// Ends an operating system command, as `ESC \` does.
const BELL: char = '\u{7}';

/// How characters are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) is_reverse: bool,
    pub(crate) is_dim: bool,
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<(char, Style)>,
    /// How the blanks are shown that tmux leaves out at its end.
    pub(crate) rest: Style,
}

impl Row {
    pub(crate) fn text(&self) -> String {
        self.cells.iter().map(|(one, _)| one).collect()
    }
}

/// The text alone, line by line.
pub fn plain(capture: &str) -> String {
    rows(capture).iter().map(|row| row.text() + "\n").collect()
}

/// The lines. An attribute holds until it is taken back, across lines too.
pub(crate) fn rows(capture: &str) -> Vec<Row> {
    let mut style = Style::default();
    let mut rows = Vec::new();
    for line in capture.lines() {
        let mut row = Row::default();
        let mut rest = line.chars();
        while let Some(one) = rest.next() {
            if one == ESCAPE {
                skip_sequence(&mut rest, &mut style);
            } else if !one.is_control() {
                row.cells.push((one, style));
            }
        }
        row.rest = style;
        rows.push(row);
    }
    rows
}

/// Goes behind a sequence, taking in what it says of the style.
fn skip_sequence(rest: &mut std::str::Chars<'_>, style: &mut Style) {
    match rest.next() {
        Some('[') => {
            let mut parameters = String::new();
            for one in rest.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&one) {
                    if one == 'm' {
                        *style = restyled(*style, &parameters);
                    }
                    return;
                }
                parameters.push(one);
            }
        }
        Some(']') => {
            let mut is_escaped = false;
            for one in rest.by_ref() {
                if one == BELL || (is_escaped && one == '\\') {
                    return;
                }
                is_escaped = one == ESCAPE;
            }
        }
        // The choice of a character set.
        Some('(' | ')') => drop(rest.next()),
        Some(_) | None => (),
    }
}

fn restyled(mut style: Style, parameters: &str) -> Style {
    let mut numbers = parameters.split(';');
    while let Some(number) = numbers.next() {
        match number {
            "" | "0" => style = Style::default(),
            "2" => style.is_dim = true,
            "7" => style.is_reverse = true,
            "22" => style.is_dim = false,
            "27" => style.is_reverse = false,
            // What follows is a colour.
            "38" | "48" | "58" => {
                let behind = if numbers.next() == Some("5") { 1 } else { 3 };
                numbers.by_ref().take(behind).for_each(drop);
            }
            _ => (),
        }
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVERSE: Style = Style { is_reverse: true, is_dim: false };
    const DIM: Style = Style { is_reverse: false, is_dim: true };

    #[test]
    fn attributes_hold_until_they_are_taken_back() {
        let rows = rows("a\u{1b}[7m\n\u{1b}[0;2mb\u{1b}[22;38;5;7mc\u{1b}[48;2;2;7;7md\u{1b}[m\n");
        assert_eq!(rows[0], Row { cells: vec![('a', Style::default())], rest: REVERSE });
        let plain = Style::default();
        assert_eq!(rows[1].cells, [('b', DIM), ('c', plain), ('d', plain)]);
    }

    #[test]
    fn sequences_leave_no_text() {
        for text in [
            "\u{1b}[1;31mx\u{1b}[39m",
            "\u{1b}]8;;http://a\u{1b}\\x\u{1b}]8;;\u{7}",
            "\u{e}x\u{f}\u{1b}(B",
            "x\u{1b}[",
            "x\u{1b}]never",
            "x\u{1b}",
        ] {
            assert_eq!(plain(text), "x\n", "{text:?}");
        }
    }
}

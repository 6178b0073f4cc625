//! What a notice says: its title and its details, for channels that show both.

use coord_wire::notice::{Notice, NoticeEvent};

/// Before every line, so that people see who speaks.
const MARK: &str = "coord: ";
/// The place of a session without a terminal.
const HEADLESS: &str = "headless";

/// The title: the line without coord's mark, up to what stands in it about the place.
pub(crate) fn title(line: &str) -> &str {
    let line = line.strip_prefix(MARK).unwrap_or(line);
    let end = [line.find(';'), line.find(" (")].into_iter().flatten().min();
    line.get(..end.unwrap_or(line.len())).unwrap_or(line).trim()
}

/// The title of a withdrawal: `parser: answered at the terminal`.
pub(crate) fn withdrawal(notice: &Notice) -> String {
    let session = notice.session.as_deref().unwrap_or("coord");
    format!("{session}: {}", notice.how.as_deref().unwrap_or("answered"))
}

/// What comes below the title: `~/src/parser · tmux work:api.1 · waits 20s`, or the lines of a digest.
pub(crate) fn details(notice: &Notice) -> String {
    if !notice.lines.is_empty() {
        let mut lines = notice.lines.clone();
        if 0 < notice.more {
            lines.push(format!("and {} more", notice.more));
        }
        return lines.join("\n");
    }
    let place = notice
        .place
        .as_deref()
        .map(|place| if place == HEADLESS { place.to_owned() } else { format!("tmux {place}") });
    let is_need = notice.event == NoticeEvent::Need;
    let age = notice.age_s.filter(|_| is_need).map(|age_s| format!("waits {}", age(age_s)));
    [notice.directory.clone(), place, notice.work.clone(), age]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" · ")
}

/// The same for readers elsewhere: with the machine.
pub(crate) fn details_and_host(notice: &Notice) -> String {
    let details = details(notice);
    let between = match (details.is_empty(), notice.lines.is_empty()) {
        (true, _) => "",
        (false, true) => " · ",
        (false, false) => "\n",
    };
    format!("{details}{between}on {}", notice.host)
}

/// What is told in one sentence, and whether it may have been told before.
pub(crate) fn sentence(notice: &Notice, is_repeat: bool) -> String {
    format!("{}{}", notice.text, if is_repeat { " (repeat)" } else { "" })
}

/// The whole as a message in a chat.
pub(crate) fn message(notice: &Notice, is_repeat: bool) -> String {
    format!("{MARK}{}\n{}", sentence(notice, is_repeat), details_and_host(notice))
}

/// An age: `20s`, `41m`, `3h`, `2d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_ends_before_the_place() {
        for (line, expected) in [
            ("coord: parser asks to run Bash (work:api.1, 20s)", "parser asks to run Bash"),
            ("coord: api must log in; type /login there (work:api.2)", "api must log in"),
            ("coord: nightly finished after 48m", "nightly finished after 48m"),
            ("é(x) y", "é(x) y"),
            ("", ""),
        ] {
            assert_eq!(title(line), expected, "{line}");
        }
    }

    #[test]
    fn ages_have_one_unit() {
        let shown = [0, 59, 60, 3599, 3600, 86399, 86400].map(age);
        assert_eq!(shown, ["0s", "59s", "1m", "59m", "1h", "23h", "1d"]);
    }
}

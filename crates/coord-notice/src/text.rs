//! Foreign text made safe for every channel (H-26), and durations as people write them.

use std::time::Duration;

use coord_core::is_hidden;
use coord_wire::notice::Notice;

/// Longest text of what is said about a channel, in characters.
pub(crate) const SAYING_CHARS_MAX: usize = 240;
/// Longest line that is shown, in characters. Status lines are one line.
pub(crate) const LINE_CHARS_MAX: usize = 200;
/// Longest field of a notice, in characters.
const FIELD_CHARS_MAX: usize = 300;
/// Most lines of a digest. The coordinator sends 8.
const LINES_MAX: usize = 20;

/// A text without characters that are not seen or that control a terminal, cut to `chars_max` characters.
/// Control characters below the blank become a visible mark.
pub(crate) fn clean(text: &str, chars_max: usize) -> String {
    let shown = text.chars().filter(|one| !is_hidden(*one));
    let mut shown = shown.map(|one| if one.is_control() { '\u{fffd}' } else { one });
    let mut cut: String = shown.by_ref().take(chars_max).collect();
    if shown.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

/// The same for every text of a notice.
pub(crate) fn clean_notice(mut notice: Notice) -> Notice {
    let optional = [
        &mut notice.session,
        &mut notice.session_id,
        &mut notice.directory,
        &mut notice.place,
        &mut notice.work,
        &mut notice.since,
        &mut notice.how,
    ];
    let texts = optional.into_iter().flatten().chain([&mut notice.text, &mut notice.host]);
    for text in texts.chain(&mut notice.lines) {
        *text = clean(text, FIELD_CHARS_MAX);
    }
    let dropped = notice.lines.len().saturating_sub(LINES_MAX);
    notice.lines.truncate(LINES_MAX);
    notice.more = notice.more.saturating_add(u32::try_from(dropped).unwrap_or(u32::MAX));
    notice
}

/// The first line of what a program said, safe and cut.
pub(crate) fn first_line(bytes: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    clean(text.lines().next().unwrap_or_default().trim(), chars_max)
}

/// A text in which nothing is markup (HTML's, and Slack's, which has the same three characters).
pub(crate) fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A duration as it stands in a message: `3 s`, `250 ms`.
pub(crate) fn duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    if ms < 1000 { format!("{ms} ms") } else { format!("{} s", (ms + 500) / 1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-26
    #[test]
    fn nothing_foreign_steers_a_terminal_or_turns_a_text() {
        assert_eq!(clean("a\u{1b}[31mb\u{9b}c\u{202e}d\ne\u{e0041}", 99), "a�[31mbcd�e");
        assert_eq!(clean("naïve ❯ 漢字", 99), "naïve ❯ 漢字");
        assert_eq!(clean("abcdef", 4), "abc…");
        assert_eq!(clean("abcd", 4), "abcd");
        assert_eq!(first_line(b" \x1b]0;x\x07first\xff\nsecond", 99), "�]0;x�first�");
    }

    #[test]
    fn durations_are_short() {
        let shown = [0, 250, 999, 1000, 1499, 1500, 3000].map(Duration::from_millis).map(duration);
        assert_eq!(shown, ["0 ms", "250 ms", "999 ms", "1 s", "1 s", "2 s", "3 s"]);
    }
}

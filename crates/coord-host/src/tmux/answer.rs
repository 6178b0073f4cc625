//! Builds the commands for a tmux server, and parses the answer.
//!
//! All commands of one query run in one turn of the server, so that the list and the captures show the same
//! moment. The text of panes is hostile, and no marker separates one pane's text from the next. Instead, each
//! listed pane contributes exactly as many lines as it is high, whatever its text, and a pane that is not
//! listed contributes none. An answer with another number of lines is rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

/// The format of one line for each pane. Only the last field, the names, can contain a space; the name of a session
/// contains no colon.
const FORMAT: &str = "#{pane_id} #{pane_pid} #{pane_dead} #{pane_height} \
                      #{window_id}:#{window_activity} #{pid} #{pane_tty} #{window_panes} \
                      #{pane_index} #{window_index} #{automatic-rename} \
                      #{session_name}:#{window_name}";
/// Ends the list; tmux itself writes everything before it.
const END: &str = "end";

/// Longest place in characters; longer ones are cut.
const PLACE_CHARS_MAX: usize = 128;

/// A pane as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The number of the pane, as in `%3`.
    pub id: u32,
    /// The first process of the pane.
    pub pid: u32,
    /// Whether that process has ended and the pane was kept.
    pub is_dead: bool,
    /// The window and the time of its last output; the same as long as there is no new output.
    pub happened: String,
    /// The time of the last output, in seconds since 1970.
    pub happened_s: u64,
    /// The terminal of the pane.
    pub tty: PathBuf,
    /// Where the pane is, for people (U-04).
    pub place: String,
    height: usize,
}

/// The state of one server at one moment.
#[derive(Debug)]
pub struct View {
    /// The pid of the server.
    pub server_pid: u32,
    /// All panes that the server listed.
    pub panes: BTreeMap<u32, Listed>,
    /// The texts of the captured panes that exist.
    pub texts: BTreeMap<u32, String>,
}

/// Parses a pane id such as `%3`. The id comes from an environment, and goes into a command.
pub fn pane_id(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('%')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The commands that list all panes and capture these.
pub fn script(captures: &BTreeSet<u32>) -> String {
    let mut script = format!("list-panes -a -F \"{FORMAT}\"\ndisplay-message -p {END}\n");
    for id in captures {
        // Each capture is on a line of its own: if it fails, the others still run.
        let _ = writeln!(script, "capture-pane -p -t %{id}");
    }
    script
}

/// Parses the answer to [`script`].
pub fn parse(stdout: &[u8], captures: &BTreeSet<u32>) -> Result<View, String> {
    let cut = || "the answer is cut".to_owned();
    let whole = stdout.strip_suffix(b"\n").ok_or_else(cut)?;
    let mut lines = whole.split(|byte| *byte == b'\n');
    let mut view = View { server_pid: 0, panes: BTreeMap::new(), texts: BTreeMap::new() };
    loop {
        let line = std::str::from_utf8(lines.next().ok_or_else(cut)?)
            .map_err(|_| "the list of panes is no text")?;
        if line == END {
            break;
        }
        // A window that is linked into several sessions is listed once for each.
        let (server_pid, pane) = listed(line).ok_or("the list of panes has an unknown shape")?;
        view.server_pid = server_pid;
        view.panes.insert(pane.id, pane);
    }
    for id in captures {
        let Some(pane) = view.panes.get(id) else { continue };
        let mut text = Vec::new();
        for _ in 0..pane.height {
            text.extend_from_slice(lines.next().ok_or_else(cut)?);
            text.push(b'\n');
        }
        view.texts.insert(*id, String::from_utf8_lossy(&text).into_owned());
    }
    match lines.next() {
        None => Ok(view),
        Some(_) => Err("the answer is longer than its panes".to_owned()),
    }
}

fn listed(line: &str) -> Option<(u32, Listed)> {
    let mut fields = line.splitn(12, ' ');
    let id = pane_id(fields.next()?)?;
    let pid = fields.next()?.parse().ok()?;
    let is_dead = fields.next()? == "1";
    let height = fields.next()?.parse().ok()?;
    let happened = fields.next()?.to_owned();
    let happened_s = happened.split_once(':')?.1.parse().ok()?;
    let server_pid = fields.next()?.parse().ok()?;
    let tty = PathBuf::from(fields.next()?);
    let is_among_several = fields.next()? != "1";
    let (pane_index, window_index) = (fields.next()?, fields.next()?);
    let is_automatic = fields.next()? == "1";
    let (session, window) = fields.next()?.split_once(':')?;
    let window = if is_automatic { window_index } else { window };
    let pane = if is_among_several { format!(".{pane_index}") } else { String::new() };
    let place = format!("{session}:{window}{pane}").chars().take(PLACE_CHARS_MAX).collect();
    Some((server_pid, Listed { id, pid, is_dead, happened, happened_s, tty, place, height }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "%0 11 0 2 @0:1700000000 9 /dev/pts/4 1 0 0 1 work:zsh\n%3 12 1 1 @1:1700000001 9 /dev/pts/5 2 1 3 0 my work:api: v2\nend\n";

    fn parsed(text: &str, captures: &[u32]) -> Result<View, String> {
        parse(format!("{LIST}{text}").as_bytes(), &captures.iter().copied().collect())
    }

    #[test]
    fn pane_ids_are_digits_behind_a_percent_sign() {
        assert_eq!(pane_id("%17"), Some(17));
        for bad in ["", "%", "17", "%1 ; kill-server", "%+1", "%-1", "%99999999999"] {
            assert_eq!(pane_id(bad), None, "{bad}");
        }
    }

    // H-16: the text of a pane stays separate, whatever it contains.
    #[test]
    fn each_pane_gives_as_many_lines_as_it_is_high() {
        let view = parsed("end\n%0 66 0 9 @0:1 9 /dev/pts/6\n\n", &[0, 2, 3]).unwrap();
        assert_eq!(view.server_pid, 9);
        assert_eq!(view.panes.len(), 2);
        assert_eq!(view.panes[&0].pid, 11);
        assert!(view.panes[&3].is_dead);
        assert_eq!(view.texts[&0], "end\n%0 66 0 9 @0:1 9 /dev/pts/6\n");
        assert_eq!(view.texts[&3], "\n");
        assert!(!view.texts.contains_key(&2), "what is not listed gives no line");
    }

    #[test]
    fn an_answer_that_does_not_add_up_is_none() {
        for (text, captures) in
            [("one\n", &[0][..]), ("one\ntwo", &[0]), ("one\ntwo\nthree\n", &[0]), ("one\n", &[])]
        {
            assert!(parsed(text, captures).is_err(), "{text:?}");
        }
        for text in ["", "end", "%0 11\nend\n", "\nend\n", "no server\n"] {
            assert!(parse(text.as_bytes(), &BTreeSet::new()).is_err(), "{text:?}");
        }
    }
}

//! The commands for a tmux server, and what it prints. Needs tmux 3.2.

use std::fmt::Write;

use coord_core::is_hidden;
use coord_wire::notice::{PaneState, TmuxState};

use super::server::Said;

/// Ends every answer.
pub(super) const END: &str = "end";
/// How long a message is shown, in milliseconds.
const SHOWN_MS: u32 = 5000;
/// Longest value of an option, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// Lists the attached clients.
pub(super) const LIST_CLIENTS: &str =
    "list-clients -F \"#{client_control_mode} #{client_tty} #{client_name}\"\n";
/// Lists the windows.
const LIST_WINDOWS: &str = "list-windows -a -F \"#{window_id}\"\n";

/// Of the panes of a window, the first state among those that need attention, else the first state.
const STATE: &str = "#{s/ .*//:#{P:#{?#{@coord_attention},#{@coord_state} ,}}\
                     #{P:#{?#{@coord_state},#{@coord_state} ,}}}";
/// Of the panes of a window, the first attention.
const ATTENTION: &str = "#{s/ .*//:#{P:#{?#{@coord_attention},#{@coord_attention} ,}}}";

/// An attached client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// Its name, by which tmux finds it.
    pub(super) name: String,
    /// Its terminal.
    pub(super) terminal: String,
}

/// The clients in the answer to [`LIST_CLIENTS`] that people look at: none in control mode, which shows no message.
pub(super) fn clients(said: &Said) -> Vec<Client> {
    let client = |line: &String| {
        let mut fields = line.splitn(3, ' ');
        let is_shown = fields.next()? != "1";
        let (terminal, name) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let is_whole = is_shown && is_plain(&name) && terminal.starts_with("/dev/");
        is_whole.then_some(Client { name, terminal })
    };
    said.lines.iter().filter_map(client).collect()
}

/// Shows a line on these clients.
pub(super) fn display(clients: &[Client], line: &str) -> String {
    let line = literal(line);
    let mut script = String::new();
    for client in clients {
        let _ = writeln!(script, "display-message -d {SHOWN_MS} -c {} {line}", client.name);
    }
    script
}

/// Sets the options of a server and of its panes, and lists the windows.
pub(super) fn set_state(state: &TmuxState, panes: &[&PaneState]) -> String {
    let mut script = String::new();
    let _ = writeln!(script, "set-option -g @coord_text {}", quoted(&value(&state.text)));
    let _ = writeln!(script, "set-option -g @coord_until {}", state.until_s);
    for pane in panes {
        if !is_id(&pane.pane, '%') {
            continue;
        }
        let attention = pane.attention.as_deref().filter(|_| pane.state.is_some());
        for (option, text) in
            [("@coord_state", pane.state.as_deref()), ("@coord_attention", attention)]
        {
            // A line for a pane that is gone fails, and the next ones are run all the same.
            let _ = match text.map(word).filter(|word| !word.is_empty()) {
                Some(word) => writeln!(script, "set-option -p -t {} {option} {word}", pane.pane),
                None => writeln!(script, "set-option -p -u -t {} {option}", pane.pane),
            };
        }
    }
    script + LIST_WINDOWS
}

/// The windows in the answer to [`set_state`].
pub(super) fn windows(said: &Said) -> Vec<String> {
    let mut windows: Vec<String> =
        said.lines.iter().filter(|line| is_id(line, '@')).cloned().collect();
    // A window that is linked into several sessions is listed once for each.
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// Sets the options of each window from those of its panes. A pane without an option has its window's, so that
/// the window's own are unset first. One whose panes have none keeps none.
pub(super) fn sum_up(windows: &[String]) -> String {
    let mut script = String::new();
    for window in windows {
        for option in ["@coord_state", "@coord_attention"] {
            let _ = writeln!(script, "set-option -w -u -t {window} {option}");
        }
        let has_state = "#{P:#{@coord_state}}";
        let set = |option: &str, format: &str| {
            format!("set-option -w -F -t {window} {option} '{format}'")
        };
        for (condition, option, format) in [
            (has_state, "@coord_state", STATE),
            ("#{P:#{@coord_attention}}", "@coord_attention", ATTENTION),
        ] {
            let _ = writeln!(
                script,
                "if-shell -F -t {window} \"{condition}\" \"{}\"",
                set(option, format)
            );
        }
    }
    script
}

/// Whether a text is an id of tmux: `%3`, `@1`.
fn is_id(text: &str, mark: char) -> bool {
    let digits = text.strip_prefix(mark).unwrap_or_default();
    (1..=10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name is one word of a command as it is.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
}

/// The name of a state or kind, as one word that means nothing in a status line.
fn word(text: &str) -> String {
    let is_part = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-');
    text.chars().filter(is_part).take(64).collect::<String>().trim_start_matches('-').to_owned()
}

/// A text for a status line. There `#` begins a style even if the text is an option's value.
fn value(text: &str) -> String {
    let is_shown = |one: &char| !(one.is_control() || is_hidden(*one) || *one == '#');
    text.chars().filter(is_shown).take(VALUE_CHARS_MAX).collect()
}

/// A text as one word that is shown as it is: formats, styles and times in it are not expanded. Doubling works in
/// every version; `display-message -l` is newer than 3.3.
fn literal(text: &str) -> String {
    quoted(&text.replace('#', "##").replace('%', "%%"))
}

/// A text as one word of a command.
fn quoted(text: &str) -> String {
    let mut word = String::from("\"");
    for one in text.chars().filter(|one| !one.is_control()) {
        if matches!(one, '"' | '\\' | '$' | '~') {
            word.push('\\');
        }
        word.push(one);
    }
    word.push('"');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_word_and_stays_as_it_is() {
        for (text, word) in [
            ("a b", r#""a b""#),
            ("#{pane_id} #(id) #[x] 100%H", r###""##{pane_id} ##(id) ##[x] 100%%H""###),
            ("\"; kill-server ; \\ $HOME ~", r#""\"; kill-server ; \\ \$HOME \~""#),
            ("a\nkill-server\u{1b}[2J", r#""akill-server[2J""#),
        ] {
            assert_eq!(literal(text), word, "{text:?}");
        }
    }

    #[test]
    fn a_client_with_an_odd_name_is_left_out() {
        let lines =
            ["0 /dev/pts/1 /dev/pts/1", "1 /dev/pts/2 /dev/pts/2", "0  x", "0 /dev/pts/3 a;b"];
        let said = Said { lines: lines.map(str::to_owned).to_vec(), ..Said::default() };
        let names: Vec<String> = clients(&said).into_iter().map(|client| client.name).collect();
        assert_eq!(names, ["/dev/pts/1"]);
    }

    #[test]
    fn what_is_no_id_gets_into_no_command() {
        let pane = |pane: &str| PaneState {
            socket: "/s".to_owned(),
            pane: pane.to_owned(),
            state: Some("-x; #{y}".to_owned()),
            attention: None,
        };
        for odd in ["", "%", "%1 ; kill-server", "@1", "1", "%12345678901"] {
            let script = set_state(&TmuxState::default(), &[&pane(odd)]);
            assert!(!script.contains("-p"), "{odd}: {script}");
        }
        let script = set_state(&TmuxState::default(), &[&pane("%1")]);
        assert!(script.contains("set-option -p -t %1 @coord_state xy\n"), "{script}");
        assert!(script.contains("set-option -p -u -t %1 @coord_attention\n"), "{script}");
    }
}

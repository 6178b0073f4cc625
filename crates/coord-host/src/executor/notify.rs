//! Shows a notice to those who look at a pane, in their tmux status line (H-35).

use std::fmt::Write;

use coord_model::TmuxPane;

use super::Tools;
use super::pane::{is_plain, is_server};
use crate::tmux::answer;

/// Longest text in characters; a status line is one line.
const TEXT_CHARS_MAX: usize = 200;
const CLIENTS: &str = "#{window_id} #{client_control_mode} #{client_name}";

impl Tools {
    /// Shows a text to each client that displays the pane's window, for `for_ms` milliseconds or until a key
    /// is pressed. Does nothing if there is no such client.
    pub(super) fn notify(
        &mut self,
        pane: &TmuxPane,
        text: &str,
        for_ms: u32,
    ) -> Result<(), String> {
        let id = answer::pane_id(&pane.pane).ok_or("no such pane id")?;
        let script =
            format!("display-message -p -t %{id} '#{{window_id}}'\nlist-clients -F '{CLIENTS}'\n");
        let (_, output) = self.asker.ask(
            &pane.socket,
            |server_socket| is_server(server_socket, pane),
            &script,
        )?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let mut lines = answer.lines();
        let window = lines.next().filter(|line| line.starts_with('@')).ok_or("the pane is gone")?;
        let clients = lines.filter_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let is_there = fields.next()? == window && fields.next()? != "1";
            fields.next().filter(|name| is_there && is_plain(name))
        });
        let text = quoted(text);
        let mut script = String::new();
        for name in clients {
            let _ = writeln!(script, "display-message -d {for_ms} -c {name} {text}");
        }
        if !script.is_empty() {
            self.asker.ask(
                &pane.socket,
                |server_socket| is_server(server_socket, pane),
                &script,
            )?;
        }
        Ok(())
    }
}

/// Quotes a text as one word of a tmux command that is shown literally: formats, times and variables in it
/// are not expanded.
fn quoted(text: &str) -> String {
    let mut word = String::from("\"");
    for one in text.chars().filter(|one| !one.is_control()).take(TEXT_CHARS_MAX) {
        match one {
            '#' | '%' => word.push(one),
            '"' | '\\' | '$' | '~' => word.push('\\'),
            _ => (),
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
            ("#{pane_id} #(id) 100%H", r###""##{pane_id} ##(id) 100%%H""###),
            ("\"; kill-server ; \\ $HOME", r#""\"; kill-server ; \\ \$HOME""#),
            ("a\nkill-server\u{1b}[2J", r#""akill-server[2J""#),
        ] {
            assert_eq!(quoted(text), word, "{text:?}");
        }
        assert!(quoted(&"é".repeat(999)).chars().count() <= TEXT_CHARS_MAX + 2);
    }
}

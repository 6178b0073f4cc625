//! Runs the resume line in a session's pane: typed into its shell, as the new first process of its dead pane,
//! or in a new window (S0-25a, S0-25e, H-16 to H-18).
//!
//! The check and the action are one command of the server, so that nothing that the server knows can change
//! between them. Only plain words are used: numbers and names from tmux itself, the path of `coordctl`, and
//! the nonce.

use coord_core::change_since;
use coord_model::{Outcome, PaneState, Proof, Subject};

use super::Tools;
use super::look::Look;
use super::pane::{Spot, is_plain, is_server};
use crate::tmux::ServerSocket;

/// Printed by tmux for the branch that was taken.
const DONE: &str = "coord-done";
const NOT: &str = "coord-not";

/// The line to run, and its nonce.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) line: String,
    pub(super) nonce: String,
}

impl Tools {
    /// Types the line and Enter into the session's shell, if the shell shows the same empty prompt.
    pub(super) fn type_resume(&mut self, subject: &Subject, before: &Proof) -> Outcome {
        let (look, words) = match self.look_again(subject, before) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let is_ready = matches!(look.proof.pane, PaneState::Shell { prompt: Some(_), .. })
            && !look.proof.is_in_mode
            && !look.proof.is_synchronized;
        let Some(spot) = look.spot.filter(|spot| is_ready && is_plain(&spot.tty)) else {
            return pane_changed();
        };
        self.type_line(subject, &spot, &words)
    }

    /// Types the line at exactly this place, or does nothing.
    pub(super) fn type_line(&mut self, subject: &Subject, spot: &Spot, words: &Words) -> Outcome {
        let Words { line, nonce } = words;
        let Spot { id, pid, cursor: (x, y), tty, .. } = spot;
        let buffer = format!("coord-{nonce}");
        let send = send_key(*pid);
        // Not as a bracketed paste: a killed client leaves that mode on.
        let script = format!(
            "set-buffer -b {buffer} -- '{line}'\n\
             if-shell -F -t %{id} '#{{==:#{{pane_pid}} #{{pane_dead}} #{{pane_in_mode}} \
             #{{pane_synchronized}} #{{cursor_x}} #{{cursor_y}} #{{pane_tty}},\
             {pid} 0 0 0 {x} {y} {tty}}}' \
             {{ paste-buffer -d -b {buffer} -t %{id} ; send-keys -t %{id} {send} ; \
             display-message -p {DONE} }} {{ display-message -p {NOT} }}\n\
             delete-buffer -b {buffer}\n"
        );
        self.tell(subject, &script)
    }

    /// Starts the line as the new first process of the session's dead pane.
    pub(super) fn respawn_pane(&mut self, subject: &Subject, before: &Proof) -> Outcome {
        let (look, words) = match self.look_again(subject, before) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let is_dead = look.proof.pane == PaneState::Dead;
        let Some(Spot { id, pid, .. }) = look.spot.filter(|spot| is_dead && spot.is_dead) else {
            return pane_changed();
        };
        let (place, line) = (place(subject), words.line);
        // Without -k, this fails if something runs in the pane again.
        let script = format!(
            "if-shell -F -t %{id} '#{{==:#{{pane_pid}} #{{pane_dead}},{pid} 1}}' \
             {{ respawn-pane -t %{id}{place} {line} ; display-message -p {DONE} }} \
             {{ display-message -p {NOT} }}\n"
        );
        self.tell(subject, &script)
    }

    /// Opens a window in the background, in the pane's session or else in the one used last.
    pub(super) fn new_window(&mut self, subject: &Subject, before: &Proof) -> Outcome {
        let (look, words) = match self.look_again(subject, before) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let failed = |why: &str| Outcome::Failed { why: why.to_owned() };
        match look.proof.pane {
            PaneState::None => return failed("the session had no pane"),
            PaneState::NoServer => return failed("its tmux server is gone"),
            PaneState::Unreadable { why } => return Outcome::Failed { why },
            PaneState::Closed
            | PaneState::Dead
            | PaneState::Client { .. }
            | PaneState::Shell { .. }
            | PaneState::Other => (),
        }
        let id = look.session.as_deref().and_then(|session| session.strip_prefix('$'));
        let Some(id) = id.filter(|id| is_plain(id)) else {
            return failed("its tmux server has no session");
        };
        let (place, line) = (place(subject), words.line);
        let script =
            format!("new-window -d -t '${id}:'{place} {line} ; display-message -p {DONE}\n");
        self.tell(subject, &script)
    }

    /// Looks a second time. Returns the line to run if nothing has changed.
    fn look_again(&mut self, subject: &Subject, before: &Proof) -> Result<(Look, Words), Outcome> {
        let Some(line) = self.line(&before.nonce) else {
            let why = format!("{}: not a path that can be typed", self.coordctl.escape_debug());
            return Err(Outcome::Failed { why });
        };
        let look = self.look(subject);
        match change_since(&look.proof, before) {
            Some(what) => Err(Outcome::Changed { what: what.to_owned() }),
            None => Ok((look, Words { line, nonce: before.nonce.clone() })),
        }
    }

    /// Runs the script on the session's server, and reads the marker that says what was done.
    fn tell(&mut self, subject: &Subject, script: &str) -> Outcome {
        let Some((pane, _)) = &subject.pane else {
            return Outcome::Failed { why: "the session had no pane".to_owned() };
        };
        let may_ask = |server_socket: &ServerSocket| {
            if subject.any_server { Ok(()) } else { is_server(server_socket, pane) }
        };
        match self.asker.ask(&pane.socket, may_ask, script) {
            Ok((_, output)) => match String::from_utf8_lossy(&output.stdout).trim_end() {
                DONE => Outcome::Done,
                NOT => pane_changed(),
                _ => {
                    let why = output.complaint().unwrap_or_else(|| "no answer".to_owned());
                    Outcome::Failed { why: format!("tmux: {why}") }
                }
            },
            Err(why) => Outcome::Failed { why },
        }
    }
}

/// The key that ends a line. A killed client leaves its terminal raw. A shell without its own line editor
/// then receives Enter as a carriage return, which does not end a line for it (measured).
fn send_key(shell: u32) -> &'static str {
    let name = std::fs::read_to_string(format!("/proc/{shell}/comm")).unwrap_or_default();
    if matches!(name.trim_end(), "dash" | "sh") { "C-j" } else { "Enter" }
}

fn pane_changed() -> Outcome {
    Outcome::Changed { what: "the pane changed".to_owned() }
}

/// The option for the working directory, if the path can be part of a command; `resume-exec` enters the
/// directory in any case.
fn place(subject: &Subject) -> String {
    let path = &subject.cwd.path;
    if is_plain(path) { format!(" -c {path}") } else { String::new() }
}

//! Decides who may be woken, how often, and with which words after a crash (H-02, H-21, H-33).
//!
//! A wake starts a turn that nobody at the session asked for, and the client has no limit of its own. This module
//! does not decide how a wake reaches the client.

use alloc::format;
use alloc::string::String;

use coord_model::{Action, Intent, Kind};

use crate::effects::Effects;
use crate::records::{Marks, Session, State};

/// Maximum length of a crash description, in characters.
const CRASH_CHARS_MAX: usize = 200;

/// Whether these marks make a session one that receives messages: it is unattended, or has a name or a parent. A
/// waiter is kept for such a session (H-02, `queue.wake = "auto"`).
pub fn is_armed(marks: &Marks) -> bool {
    marks.unattended == Some(true) || marks.name.is_some() || marks.parent.is_some()
}

impl State {
    /// Whether coord may wake the session by itself (H-14, H-15, H-25): it is unattended, its client has not gone over to
    /// another conversation, and nothing else prevents it.
    pub(crate) fn is_ours_to_wake(&self, session: &Session) -> bool {
        let is_ours = self.is_local(session)
            && session.kind == Some(Kind::Interactive)
            && session.owner.as_ref().is_some_and(|owner| owner.has_reported)
            && self.header.config_dirs.get(&session.config_dir) == Some(&true);
        let is_plain = session.contested.is_none()
            && !session.registry_names_another()
            && session.recovery.pending.is_none()
            && session.recovery.needs_operator.is_none();
        is_ours && is_plain && self.is_unattended(session)
    }

    /// Starts a turn in the session with this text. Returns the number of the step.
    pub(crate) fn wake(&mut self, session: &mut Session, text: String, fx: &mut Effects) -> u64 {
        let number = self.header.machine.next_number();
        session.starter.expect_ours();
        fx.act(Action::Wake { intent: Intent { session: session.key, number }, text });
        number
    }
}

/// The text that a session gets after it was brought back from a crash (H-33).
///
/// `crash` describes how its process ended. Only plain words of it are used, since part of it may come from a
/// screen. `children` is the number of processes of the dead harness that outlived it.
pub fn continuation(crash: &str, children: usize) -> String {
    let crash = plain_words(crash);
    let how = if crash.is_empty() { "for a reason that is not known" } else { &*crash };
    let left = match children {
        0 => String::new(),
        1 => {
            " One process that it had started outlived it; look at what that has done first.".into()
        }
        n => format!(
            " {n} processes that it had started outlived it; look at what they have done first."
        ),
    };
    framed(&format!(
        "The process of this session died ({how}); coord \
         resumed the conversation in a new one. A tool call that was under way may have been \
         cut off, or may have done its work without its result being recorded.{left} You may go on with \
         what you were doing."
    ))
}

/// A text in the frame for everything that a person did not write. The fixed beginning keeps the client from
/// taking it for a command (H-03), and the frame says that it is no consent (H-40).
pub(crate) fn framed(text: &str) -> String {
    format!(
        "[coord] This message comes from coord, the program that watches this session. It does not \
         come from the user and approves nothing. {text}"
    )
}

/// Keeps ASCII letters, digits and a few punctuation marks, with single spaces between them, and cuts at
/// [`CRASH_CHARS_MAX`].
fn plain_words(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | ':' | '-' | '_');
    let mut out = String::new();
    for word in text.split(|c| !is_plain(c)).filter(|word| !word.is_empty()) {
        let blank = usize::from(!out.is_empty());
        if CRASH_CHARS_MAX < out.len().saturating_add(blank).saturating_add(word.len()) {
            break;
        }
        if blank == 1 {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // H-02
    #[test]
    fn marks_that_call_for_messages_arm() {
        assert!(!is_armed(&Marks::default()));
        let recovered =
            Marks { recover: Some(true), task_dir: Some("/t".into()), ..Marks::default() };
        assert!(!is_armed(&recovered));
        assert!(!is_armed(&Marks { unattended: Some(false), ..Marks::default() }));
        assert!(is_armed(&Marks { unattended: Some(true), ..Marks::default() }));
        assert!(is_armed(&Marks { name: Some("a".into()), ..Marks::default() }));
        assert!(is_armed(&Marks { parent: Some("b".into()), ..Marks::default() }));
    }

    // H-33, H-04
    #[test]
    fn a_continuation_says_whose_words_it_holds() {
        let text = continuation("signal 9", 2);
        assert!(text.starts_with("[coord] "), "{text}");
        for words in
            ["not come from the user", "approves nothing", "(signal 9)", "2 processes", "go on"]
        {
            assert!(text.contains(words), "{words:?} in {text}");
        }
        assert!(continuation("", 0).contains("(for a reason that is not known)"));
        assert!(continuation("x", 1).contains("One process"));
        assert!(!continuation("x", 0).contains("outlived"));
    }

    proptest! {
        // H-33, H-03: nothing of a crash's words can break out of the sentence.
        #[test]
        fn foreign_words_stay_words(crash in "\\PC*|[\\x00-\\x1f\u{202e}!/#@&`\"')(<>A-z ]*") {
            let text = continuation(&crash, 0);
            let (front, back) = (continuation("x", 0), "); coord resumed");
            let from = front.find("(x)").unwrap() + 1;
            let inner = &text[from..from + text[from..].find(back).unwrap()];
            prop_assert!(inner.len() <= CRASH_CHARS_MAX);
            prop_assert!(inner.chars().all(|c| c.is_ascii_alphanumeric() || " .,:-_".contains(c)));
            prop_assert!(text.chars().all(|c| !c.is_control()));
        }
    }
}

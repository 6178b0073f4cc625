//! Decides who may be woken, how often, and with which words after a crash (H-02, H-21, H-33).
//!
//! A wake starts a turn that nobody at the session asked for, and the client knows no limit of its
//! own. Does not decide how a wake reaches the client.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Action, Awake, Intent, Kind, WakeLimits};

use crate::effects::Effects;
use crate::operator::Marks;
use crate::session::{Session, Starter};
use crate::state::State;

/// The shorter of the two windows, milliseconds (H-21).
const SHORT_MS: u64 = 10 * 60 * 1000;
/// The longer one, milliseconds (H-21).
const LONG_MS: u64 = 24 * 3600 * 1000;
/// The words of a crash are cut behind this many characters.
const CRASH_CHARS_MAX: usize = 200;

/// Whether these marks make a session one that is sent messages, so that a waiter is kept for it
/// (H-02, `queue.wake = "auto"`): nobody watches it, it has a name, or it has a parent.
pub fn is_armed(marks: &Marks) -> bool {
    marks.unattended == Some(true) || marks.name.is_some() || marks.parent.is_some()
}

/// Whether a turn may be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeDecision {
    /// It may, and is charged.
    Charged,
    /// Not before this: what was to start it is held until then, visibly, and never dropped.
    Held {
        /// When the next one may.
        until: Awake,
    },
}

/// The turns that coord started in one session, as far back as the limits look (H-21).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeBudget {
    /// When, oldest first; never more than the limit of a day.
    at: Vec<Awake>,
}

crate::clocks::clocks!(struct WakeBudget { at } until {});

impl WakeBudget {
    /// Charges one turn that begins at `now`, if it is within the budget. The windows slide on time
    /// that the machine was awake: a night's sleep frees nothing.
    pub fn charge(&mut self, limits: WakeLimits, now: Awake) -> WakeDecision {
        self.at.retain(|at| now.ms_since(*at) < LONG_MS);
        match self.held_until(limits, now) {
            Some(until) => WakeDecision::Held { until },
            None => {
                self.at.push(now);
                WakeDecision::Charged
            }
        }
    }

    /// Until when nothing may be charged; none if it may now.
    pub fn held_until(&self, limits: WakeLimits, now: Awake) -> Option<Awake> {
        let short = self.held_by(limits.per_10min, SHORT_MS, now);
        short.max(self.held_by(limits.per_day, LONG_MS, now))
    }

    /// Turns charged within the last 10 minutes and the last 24 hours.
    pub fn used(&self, now: Awake) -> (usize, usize) {
        let within = |window_ms| self.at.iter().filter(|at| now.ms_since(**at) < window_ms).count();
        (within(SHORT_MS), within(LONG_MS))
    }

    /// When a window has room again, if it has none now: as soon as the oldest of the last `limit`
    /// leaves it.
    fn held_by(&self, limit: u32, window_ms: u64, now: Awake) -> Option<Awake> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let oldest = self.at.len().checked_sub(limit).and_then(|at| self.at.get(at));
        let until = match oldest {
            Some(oldest) => oldest.plus_ms(window_ms),
            // Nothing at all is allowed.
            None if limit == 0 => now.plus_ms(window_ms),
            None => return None,
        };
        (now < until).then_some(until)
    }
}

impl State {
    /// Whether it is ours to wake by ourselves (H-14, H-15, H-25), nobody watches it, and nothing else is the
    /// matter with it.
    pub(crate) fn is_ours_to_wake(&self, session: &Session) -> bool {
        let is_ours = self.is_local(session)
            && session.kind == Some(Kind::Interactive)
            && session.owner.as_ref().is_some_and(|owner| owner.has_reported)
            && self.header.config_dirs.get(&session.config_dir) == Some(&true);
        let is_plain = session.contested.is_none()
            && session.recovery.pending.is_none()
            && session.recovery.needs_operator.is_none();
        is_ours && is_plain && self.is_unattended(session)
    }

    /// Starts a turn in it with this text. Returns the number of the step.
    pub(crate) fn wake(&mut self, session: &mut Session, text: String, fx: &mut Effects) -> u64 {
        let number = self.header.machine.next_number();
        session.starter = Starter::Awaited;
        fx.do_it(Action::Wake { intent: Intent { session: session.key, number }, text });
        number
    }
}

/// What a session is told when it was brought back after a crash (H-33), in words of coord's own.
///
/// `crash` says how its process ended; only plain words of it are taken over, since part of it may
/// have stood on a screen. `children` is how many processes of the dead one outlived it.
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

/// A text in the frame in which everything is told that a person did not write. Its fixed beginning keeps
/// the client from taking it for a command (H-03), and denies it the force of consent (H-40).
pub(crate) fn framed(text: &str) -> String {
    format!(
        "[coord] This message comes from coord, the program that watches this session. It does not \
         come from the user and approves nothing. {text}"
    )
}

/// Letters, digits and a few marks of ASCII, single blanks between them, cut at
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

    const MINUTE_MS: u64 = 60_000;
    const LIMITS: WakeLimits = WakeLimits { per_10min: 6, per_day: 60 };

    fn at(ms: u64) -> Awake {
        Awake::default().plus_ms(ms)
    }

    fn held(ms: u64) -> WakeDecision {
        WakeDecision::Held { until: at(ms) }
    }

    // H-21: six in ten minutes; the seventh waits for the first to leave the window.
    #[test]
    fn the_seventh_within_ten_minutes_waits() {
        let mut budget = WakeBudget::default();
        for n in 0..6 {
            assert_eq!(budget.charge(LIMITS, at(n * MINUTE_MS)), WakeDecision::Charged);
        }
        assert_eq!(budget.charge(LIMITS, at(6 * MINUTE_MS)), held(10 * MINUTE_MS));
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS - 1)), held(10 * MINUTE_MS));
        assert_eq!(budget.used(at(10 * MINUTE_MS - 1)), (6, 6));
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS)), WakeDecision::Charged);
        assert_eq!(budget.charge(LIMITS, at(10 * MINUTE_MS)), held(11 * MINUTE_MS));
    }

    // H-21: sixty a day, however they are spread, and the day slides too.
    #[test]
    fn the_sixty_first_of_a_day_waits() {
        let mut budget = WakeBudget::default();
        for n in 0..60 {
            assert_eq!(budget.charge(LIMITS, at(n * 2 * MINUTE_MS)), WakeDecision::Charged);
        }
        assert_eq!(budget.charge(LIMITS, at(130 * MINUTE_MS)), held(LONG_MS));
        assert_eq!(budget.charge(LIMITS, at(LONG_MS)), WakeDecision::Charged);
        assert_eq!(budget.charge(LIMITS, at(LONG_MS)), held(LONG_MS + 2 * MINUTE_MS));
    }

    // H-21: a limit of nothing holds, and does not fail.
    #[test]
    fn a_limit_of_nothing_holds() {
        let limits = WakeLimits { per_10min: 0, per_day: 60 };
        assert_eq!(WakeBudget::default().charge(limits, at(0)), held(10 * MINUTE_MS));
    }

    // H-21, H-32: neither a restart nor a new boot gives turns back.
    #[test]
    fn it_survives_a_restart_and_a_boot() {
        let mut budget = WakeBudget::default();
        for _ in 0..6 {
            budget.charge(LIMITS, at(90 * MINUTE_MS));
        }
        let stored = serde_json::to_string(&budget).unwrap();
        let mut budget: WakeBudget = serde_json::from_str(&stored).unwrap();
        assert_eq!(budget.charge(LIMITS, at(91 * MINUTE_MS)), held(100 * MINUTE_MS));
        crate::clocks::rebase(&mut budget, at(91 * MINUTE_MS), at(0));
        assert_eq!(budget.charge(LIMITS, at(MINUTE_MS)), held(10 * MINUTE_MS));
    }

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
        // H-21: whatever comes, no window ever holds more than its limit, and what is held may go
        // at the moment that was named.
        #[test]
        fn no_window_is_ever_exceeded(gaps in proptest::collection::vec(0..200_u64, 1..300)) {
            let limits = WakeLimits { per_10min: 3, per_day: 12 };
            let (mut budget, mut charged, mut minutes) = (WakeBudget::default(), Vec::new(), 0);
            for gap in gaps {
                minutes += gap;
                let now = at(minutes * MINUTE_MS);
                match budget.charge(limits, now) {
                    WakeDecision::Charged => charged.push(now),
                    WakeDecision::Held { until } => {
                        prop_assert!(now < until);
                        let later = budget.clone().charge(limits, until);
                        prop_assert_eq!(later, WakeDecision::Charged);
                    }
                }
            }
            for (limit, window_ms) in [(3, SHORT_MS), (12, LONG_MS)] {
                for pair in charged.windows(limit + 1) {
                    prop_assert!(window_ms <= pair[limit].ms_since(pair[0]));
                }
            }
        }

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

//! Decides when the state of a session is published (F-02): a change at once, each session at most once a second, and of
//! several changes within that second the last one alone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// A session's state is published this often at most.
const STATE_PAUSE: Duration = Duration::from_secs(1);
/// The sessions are read this often at most.
const READ_PAUSE: Duration = Duration::from_millis(200);
/// Of the time, work may take one part in so many.
const SHARE: u32 = 10;

/// What was published of this machine's sessions, and when.
#[derive(Debug, Default)]
pub(crate) struct StateSchedule {
    published: BTreeMap<String, Published>,
    /// When the first of the changes that were held back is due.
    next: Option<Instant>,
}

/// What was published of a session.
#[derive(Debug)]
struct Published {
    content: String,
    at: Instant,
}

impl StateSchedule {
    /// Begins a pass over all sessions: what was held back before is looked at again.
    pub(crate) fn begin(&mut self) {
        self.next = None;
    }

    /// Whether the content of a session is published now. A change that comes too soon is held back until it is due.
    pub(crate) fn is_due(&mut self, session: &str, content: &str, now: Instant) -> bool {
        let Some(before) = self.published.get(session) else { return true };
        if before.content == content {
            return false;
        }
        let due = before.at + STATE_PAUSE;
        if due <= now {
            return true;
        }
        self.next = Some(self.next.map_or(due, |next| next.min(due)));
        false
    }

    /// Notes that the engine has the content of a session.
    pub(crate) fn note(&mut self, session: String, content: String, at: Instant) {
        self.published.insert(session, Published { content, at });
    }

    /// Notes that the engine has nothing of a session any more.
    pub(crate) fn remove(&mut self, session: &str) {
        self.published.remove(session);
    }

    /// The sessions that were published.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &String> {
        self.published.keys()
    }

    /// When the first of the changes that were held back is due. Without one, only news are a reason to read the sessions.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }
}

/// What a session's state says, without what time alone changes. A text that is not understood is its own content.
pub(crate) fn content(state: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(state) else { return state.to_owned() };
    let evidence = value.get_mut("evidence").and_then(Value::as_array_mut);
    for fact in evidence.into_iter().flatten().filter_map(Value::as_object_mut) {
        // It follows from `at`.
        fact.remove("age_s");
    }
    value.to_string()
}

/// How long nothing is read after a pass in which reading and comparing took this long, and publishing that long. The
/// coordinator is kept busy for one part in ten of the time, and the engine for half of it, unless that takes longer than a
/// second.
pub(crate) fn pause_after(reading: Duration, publishing: Duration) -> Duration {
    share(reading).max(publishing).clamp(READ_PAUSE, STATE_PAUSE)
}

/// How long work rests so that it takes its share of the time and no more.
pub(crate) fn share(worked: Duration) -> Duration {
    worked.saturating_mul(SHARE.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn f_02_a_session_is_published_once_a_second_and_others_do_not_wait_for_it() {
        let begun = Instant::now();
        let mut schedule = StateSchedule::default();
        let mut at = |ms: u32, states: &[(&str, &str)]| {
            let now = begun + MS * ms;
            schedule.begin();
            let mut due = Vec::new();
            for (session, content) in states {
                if schedule.is_due(session, content, now) {
                    schedule.note((*session).to_owned(), (*content).to_owned(), now);
                    due.push(format!("{session}{content}"));
                }
            }
            (due.join(" "), schedule.next().map(|next| next.duration_since(begun).as_millis()))
        };
        // The first change of each session at once.
        assert_eq!(at(0, &[("a", "1")]), ("a1".to_owned(), None));
        assert_eq!(at(200, &[("a", "2"), ("b", "1")]), ("b1".to_owned(), Some(1_000)));
        // The first of those that are held back says when.
        assert_eq!(at(400, &[("a", "3"), ("b", "2")]), (String::new(), Some(1_000)));
        // Of three states the last one.
        assert_eq!(at(1_000, &[("a", "3"), ("b", "2")]), ("a3".to_owned(), Some(1_200)));
        assert_eq!(at(1_200, &[("a", "3"), ("b", "2")]), ("b2".to_owned(), None));
        // What came back to what was published needs nothing.
        assert_eq!(at(1_300, &[("a", "4"), ("b", "2")]), (String::new(), Some(2_000)));
        assert_eq!(at(1_400, &[("a", "3"), ("b", "2")]), (String::new(), None));
        // Whoever was quiet for long does not wait.
        assert_eq!(at(9_000, &[("a", "5"), ("b", "2")]), ("a5".to_owned(), None));
        schedule.remove("a");
        assert_eq!(schedule.sessions().collect::<Vec<_>>(), ["b"]);
        assert!(schedule.is_due("a", "5", begun));
    }

    #[test]
    fn f_02_what_time_alone_changes_is_not_published() {
        let state = |state: &str, age: u32| {
            format!(
                r#"{{"state":"{state}","evidence":[{{"fact":"pid 7","at":"t","age_s":{age}}}]}}"#
            )
        };
        assert_eq!(content(&state("idle", 1)), content(&state("idle", 900)));
        assert_ne!(content(&state("idle", 1)), content(&state("running", 1)));
        assert_ne!(content(r#"{"age_s":1}"#), content(r#"{"age_s":2}"#));
        assert_eq!(content("not JSON"), "not JSON");
    }

    #[test]
    fn reading_and_publishing_leave_time_to_others() {
        let pause = |reading, publishing| pause_after(MS * reading, MS * publishing).as_millis();
        assert_eq!(pause(1, 1), 200);
        assert_eq!(pause(40, 1), 360);
        assert_eq!(pause(1, 700), 700);
        assert_eq!(pause(400, 1), 1_000);
        assert_eq!(pause(1, 30_000), 1_000);
    }
}

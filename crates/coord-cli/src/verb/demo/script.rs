//! The recording: what happened, when, and in which session; and the clock that it is played by.

use std::time::Duration;

use coord_model::Now;
use coord_store::now;
use serde::Deserialize;
use serde_json::{Map, Value};

const RECORDING: &str = include_str!("recording.jsonl");

/// One recorded event.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Milliseconds from the beginning of the demo. What happened before it is known at once.
    pub(super) at: i64,
    /// The session's name, which is that of its directory.
    pub(super) session: String,
    /// What happened.
    pub(super) what: What,
}

/// What happened in a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Its client was started, in this pane.
    Start { id: String, pane: String, place: String },
    /// A hook reported: the event's name, and fields of its envelope.
    Hook {
        event: String,
        #[serde(flatten)]
        fields: Map<String, Value>,
    },
    /// The client wrote that the usage limit, at which its last turn ended, resets after this time.
    Limit { resets_in_ms: u64 },
    /// Its user left it unattended.
    Unattended,
    /// Its client was killed.
    Crash,
    /// Its client ended after its SessionEnd.
    Exit,
    /// The look that coord asked for was answered.
    Look,
    /// The resumed client was started by the line that coord typed.
    Resume,
}

/// Reads the recording.
pub(super) fn read() -> anyhow::Result<Vec<Step>> {
    Ok(RECORDING.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The time in the demo. It is the machine's, unless the demo is played faster: then it begins earlier, and is the
/// machine's from the last event on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The machine's time at the beginning.
    begun: Now,
    /// Length of the recording in milliseconds.
    length_ms: u64,
    speed: u32,
    /// How long before the beginning the first event was, as recorded, and as far back as this machine has been up.
    history_ms: u64,
    kept_ms: u64,
}

impl Clock {
    pub(super) fn new(begun: Now, script: &[Step], speed: u32) -> Self {
        let times = || script.iter().map(|step| step.at);
        let length_ms = times().max().unwrap_or(0).unsigned_abs();
        let history_ms = times().min().unwrap_or(0).min(0).unsigned_abs();
        let lead_ms = length_ms - length_ms / u64::from(speed);
        let up_ms = (begun.mono_ns / 1_000_000).saturating_sub(lead_ms);
        Self { begun, length_ms, speed, history_ms, kept_ms: history_ms.min(up_ms) }
    }

    /// The time in the demo of a recorded event.
    pub(super) fn at(&self, at: i64) -> Now {
        let start = self.before(self.lead_ms());
        match u64::try_from(at) {
            Ok(at_ms) => {
                Now { mono_ns: start.mono_ns + at_ms * 1_000_000, wall_ms: start.wall_ms + at_ms }
            }
            // Events keep their order where there is less time for them.
            Err(_) => {
                let ago_ms = at.unsigned_abs() * self.kept_ms / self.history_ms.max(1);
                self.before(self.lead_ms() + ago_ms)
            }
        }
    }

    /// The present time in the demo.
    pub(super) fn now(&self) -> Now {
        let now = now();
        let passed_ms = self.passed_ms(now) * u64::from(self.speed);
        match i64::try_from(passed_ms) {
            Ok(passed) if passed_ms < self.length_ms => self.at(passed),
            Ok(_) | Err(_) => now,
        }
    }

    /// How long to wait for a recorded event.
    pub(super) fn until(&self, at: i64) -> Duration {
        let due_ms = u64::try_from(at).unwrap_or(0) / u64::from(self.speed);
        Duration::from_millis(due_ms.saturating_sub(self.passed_ms(now())))
    }

    fn passed_ms(&self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.begun.mono_ns) / 1_000_000
    }

    /// How much earlier than the machine's time the demo begins.
    fn lead_ms(&self) -> u64 {
        self.length_ms - self.length_ms / u64::from(self.speed)
    }

    fn before(&self, ms: u64) -> Now {
        Now {
            mono_ns: self.begun.mono_ns.saturating_sub(ms * 1_000_000),
            wall_ms: self.begun.wall_ms.saturating_sub(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now_at(ms: u64) -> Now {
        Now { mono_ns: ms * 1_000_000, wall_ms: 1_700_000_000_000 + ms }
    }

    // U-11: it shows the product in 30 seconds.
    #[test]
    fn the_recording_is_in_order_and_lasts_30_seconds() {
        let script = read().unwrap();
        assert!(script.is_sorted_by_key(|step| step.at));
        assert_eq!(script.last().map(|step| step.at), Some(30_000));
    }

    #[test]
    fn events_keep_their_order_on_a_machine_that_was_just_started() {
        let script = read().unwrap();
        for (up_ms, speed) in [(40_000, 1), (40_000, 100), (9_000_000, 3)] {
            let clock = Clock::new(now_at(up_ms), &script, speed);
            let times: Vec<u64> = script.iter().map(|step| clock.at(step.at).mono_ns).collect();
            assert!(times.is_sorted() && times[0] < times[times.len() / 3], "{up_ms} {speed}");
            let end = clock.at(30_000).mono_ns / 1_000_000;
            assert_eq!(end, up_ms + 30_000 / u64::from(speed), "the end is at the machine's time");
        }
    }
}

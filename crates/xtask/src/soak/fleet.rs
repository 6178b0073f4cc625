//! The part that is the simulated fleet: machines that send messages to each other (F-04, F-05).

use super::ledger::{self, Seeds};
use super::program::lives;
use super::{Failure, Report};
use serde::Deserialize;

/// Lives of the fleet, from a fresh seed on.
pub(super) fn run(seeds: u64) -> anyhow::Result<Report> {
    let first = ledger::fresh("fleet", seeds)?;
    let words = format!("fleet --seeds {seeds} --from {first} --json");
    lives(first, &words, |seed| format!("fleet --seeds 1 --from {seed}"), Ran::report)
}

/// What `coord-sim fleet --json` prints, as far as it is recorded.
#[derive(Debug, Deserialize)]
struct Ran {
    seeds: u64,
    violation: Option<Violation>,
    messages: u64,
    read: u64,
    power_cuts: u64,
    kills: u64,
    batches: u64,
}

#[derive(Debug, Deserialize)]
struct Violation {
    seed: u64,
    rule: String,
    what: String,
}

impl Ran {
    fn report(self, first: u64) -> Report {
        let counts = [
            ("messages", self.messages),
            ("messages read", self.read),
            ("coordinators killed", self.kills),
            ("power cuts", self.power_cuts),
            ("batches", self.batches),
        ];
        let failures = self.violation.map(|Violation { seed, rule, what }| {
            // What is behind it is the whole record of a message.
            let what = what.split(" {").next().unwrap_or(&what);
            Failure { what: format!("{rule}: {what}"), seed: Some(seed), again: String::new() }
        });
        Report {
            seeds: Some(Seeds { first, n: self.seeds }),
            counts: counts.map(|(what, n)| (what.to_owned(), n)).into(),
            failures: failures.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_recorded_with_its_seed_and_what_ran_before() {
        let text = r#"{"seeds":3,"violation":{"seed":12,"rule":"F-05","what":"m1: Message { x }"},"messages":60,
            "processed":40,"read":41,"power_cuts":5,"kills":6,"batches":70}"#;
        let report = serde_json::from_str::<Ran>(text).unwrap().report(10);
        assert_eq!(report.seeds, Some(Seeds { first: 10, n: 3 }));
        let told = "60 messages, 6 coordinators killed, 70 batches, 41 messages read, 5 power cuts";
        assert_eq!(ledger::words(&report.counts), told);
        let failure = report.failures.first().unwrap();
        assert_eq!((failure.seed, failure.what.as_str()), (Some(12), "F-05: m1: Message"));
    }
}

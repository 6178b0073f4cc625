//! The parts that run tests again and again until their time is over.

use super::ledger::{self, Counts, Seeds};
use super::{Failure, LINES_SHOWN, Report, show_end};
use crate::{root, say};
use anyhow::Context;
use std::time::{Duration, Instant};

/// Cases of each property in one round.
const CASES: u64 = 5000;

/// Builds the programs, which the tests run from beside them; a report if that fails.
fn build() -> anyhow::Result<Option<Report>> {
    let built = crate::cargo()
        .args(["build", "--quiet", "--workspace"])
        .current_dir(root())
        .status()
        .context("cargo")?;
    Ok((!built.success()).then(|| Report::failed("it does not build", "cargo build --workspace")))
}

/// Permission prompts that two answer at once, so many of them. The table of what became of them is shown.
pub(super) fn races(n: u64) -> anyhow::Result<Report> {
    const NAME: &str = "a_request_that_is_answered_at_both";
    const WORDS: [&str; 4] = ["--package", "coord-tests", "--test", "recovery"];
    if let Some(report) = build()? {
        return Ok(report);
    }
    let mut command = crate::cargo();
    command.args(["test", "--quiet"]).args(WORDS).args(["--", "--exact", NAME, "--nocapture"]);
    command.env("COORD_TEST_RACES", n.to_string()).current_dir(root());
    let output = command.output().context("cargo")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if !output.status.success() {
        // Behind it stand the whole journal and the screen.
        let why = text.split_once("panicked at ").map_or(&*text, |(_, why)| why);
        why.lines().take(LINES_SHOWN).for_each(|line| say(&format!("    {line}")));
        let again = format!("COORD_TEST_RACES={n} cargo test {} -- {NAME}", WORDS.join(" "));
        return Ok(Report::failed("a race went wrong", again));
    }
    for row in text.lines().filter_map(|line| line.strip_prefix("races: ")) {
        say(&format!("    {row}"));
    }
    Ok(Report { counts: Counts::from([("races".to_owned(), n)]), ..Report::default() })
}

/// A machine of a fleet that publishes so many records while its coordinator, its relay and the server are killed.
pub(super) fn relay(records: u64) -> anyhow::Result<Report> {
    const NAME: &str = "contract::fleet::kills::f_04_what_is_killed_while_it_publishes_leaves_no_gap_and_nothing_twice";
    const WORDS: [&str; 4] = ["--package", "coord-cli", "--test", "it"];
    if let Some(report) = build()? {
        return Ok(report);
    }
    let seed = ledger::fresh("relay", 1)?;
    let mut command = crate::cargo();
    command.args(["test", "--quiet"]).args(WORDS).args(["--", "--exact", NAME, "--nocapture"]);
    let variables = [("COORD_TEST_RECORDS", records), ("COORD_TEST_SEED", seed)];
    command.envs(variables.map(|(name, n)| (name, n.to_string()))).current_dir(root());
    let output = command.output().context("cargo")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut report = Report { seeds: Some(Seeds { first: seed, n: 1 }), ..Report::default() };
    add(&mut report.counts, &text);
    // A test that has another name by now would run nothing, successfully.
    if !output.status.success() || report.counts.is_empty() {
        show_end(&text);
        let again = variables.map(|(name, n)| format!("{name}={n} ")).concat();
        let again = format!("{again}cargo test {} -- --exact {NAME}", WORDS.join(" "));
        let what = first_panic(&text).to_owned();
        report.failures.push(Failure { what, seed: Some(seed), again });
    }
    Ok(report)
}

/// Kills at random moments, each round with a fresh seed.
pub(super) fn kills(minutes: u64) -> anyhow::Result<Report> {
    if let Some(report) = build()? {
        return Ok(report);
    }
    let tests = ["--package", "coord-tests", "--test", "kills"];
    // No round takes less than a second.
    let first = ledger::fresh("kills", minutes.saturating_mul(60).saturating_add(1))?;
    let seed_of = |round: u64| first.saturating_add(round);
    let mut report = rounds(minutes, &tests, "COORD_TEST_SEED", seed_of)?;
    let n = report.counts.get("rounds").copied().unwrap_or_default();
    report.seeds = Some(Seeds { first, n });
    Ok(report)
}

/// The property tests with many cases.
pub(super) fn properties(minutes: u64) -> anyhow::Result<Report> {
    let tests = ["--package", "coord-wire", "--package", "coord-hook", "--package", "coord-cli"];
    let mut report = rounds(minutes, &tests, "PROPTEST_CASES", |_| CASES)?;
    let cases = report.counts.get("rounds").copied().unwrap_or_default().saturating_mul(CASES);
    report.counts.insert("cases of each property".to_owned(), cases);
    Ok(report)
}

/// Runs tests in rounds, each with the variable set to the round's value. Rounds are numbered from 0.
fn rounds(
    minutes: u64,
    tests: &[&str],
    variable: &str,
    value: impl Fn(u64) -> u64,
) -> anyhow::Result<Report> {
    let end = Duration::from_secs(minutes.saturating_mul(60));
    let begun = Instant::now();
    let mut report = Report::default();
    let mut n = 0;
    while n == 0 || begun.elapsed() < end {
        let value = value(n);
        n += 1;
        let mut command = crate::cargo();
        command.args(["test", "--quiet"]).args(tests).args(["--", "--nocapture"]);
        command.env(variable, value.to_string()).current_dir(root());
        let output = command.output().context("cargo")?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        add(&mut report.counts, &text);
        if !output.status.success() {
            show_end(&text);
            let again = format!("{variable}={value} cargo test {}", tests.join(" "));
            say(&format!("    failed: {again}"));
            let seed = (variable == "COORD_TEST_SEED").then_some(value);
            let what = format!("round {n} failed: {}", first_panic(&text));
            report.failures.push(Failure { what, seed, again });
        }
    }
    report.counts.insert("rounds".to_owned(), n);
    Ok(report)
}

/// What the first test that failed says.
fn first_panic(text: &str) -> &str {
    let mut lines = text.lines().skip_while(|line| !line.contains(" panicked at ")).skip(1);
    lines.next().unwrap_or("see above").trim()
}

/// Adds up what the tests say of themselves, in lines such as `kills: 300 hooks run, 99 hooks killed`.
fn add(sums: &mut Counts, text: &str) {
    for line in text.lines() {
        let Some((topic, counts)) = line.split_once(": ") else { continue };
        let counts: Option<Vec<(u64, &str)>> = counts.split(", ").map(count).collect();
        if topic.contains(' ') || counts.is_none() {
            continue;
        }
        for (n, of) in counts.unwrap_or_default() {
            *sums.entry(of.to_owned()).or_default() += n;
        }
    }
}

/// `99 hooks killed`.
fn count(text: &str) -> Option<(u64, &str)> {
    let (n, of) = text.split_once(' ')?;
    Some((n.parse().ok()?, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_says_what_failed() {
        let text = "running\nthread 'a' panicked at a.rs:1:2:\n  nothing was pruned\nthread 'b' panicked at b.rs:1:2:\nno";
        assert_eq!(first_panic(text), "nothing was pruned");
        assert_eq!(first_panic("error: could not compile"), "see above");
    }

    #[test]
    fn counts_of_all_rounds_are_summed() {
        let mut sums = Counts::new();
        add(&mut sums, "running 2 tests\nkills: 3 hooks run, 1 hooks killed\nnote: it is 3\n");
        add(&mut sums, "kills: 40 hooks run, 0 hooks killed\ntest result: ok. 2 passed; 0 failed");
        assert_eq!(ledger::words(&sums), "1 hooks killed, 43 hooks run");
    }
}

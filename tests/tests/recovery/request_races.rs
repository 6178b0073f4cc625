//! Prompts of the real client that are answered at its terminal and from elsewhere at almost the same moment (A-07,
//! each call is decided once, and the verb says by whom.

use coord_tests::coord::events;
use coord_tests::fake_api::Turn;
use coord_tests::place::Place;
use coord_tests::wait::wait_until;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::request_place::{Fate, asking, asks_for, fate, takes_keys, transcript};

/// Races in a test run. `COORD_TEST_RACES` asks for another number (`cargo xtask soak races`).
const RACES: usize = 50;
/// Races in one session.
const IN_A_SESSION: usize = 50;
/// How long before or after the decision the key comes at most, in milliseconds.
const REACH_MS: i64 = 200;
/// Width of the table's rows, in milliseconds.
const ROW_MS: i64 = 50;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What the verb said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Taken,
    TerminalFirst,
    /// Exit code 3: the prompt is over.
    Over,
    /// Exit code 1, before anything was sent.
    NotHere,
}

/// A race that is over.
struct Race {
    /// The request's id.
    request: String,
    /// When the key was to come, in milliseconds after the decision.
    planned_ms: i64,
    /// When it came, in milliseconds of the day.
    keyed_ms: i64,
    word: Word,
}

/// A session in which prompts are raced for.
struct Racing {
    place: Place,
    transcript: PathBuf,
    /// A pipe that starts the verb.
    go: PathBuf,
    /// From the start of the verb to its decision.
    lead: Duration,
}

//
pub(crate) fn a_request_that_is_answered_at_both() {
    let n = std::env::var("COORD_TEST_RACES").map_or(RACES, |n| n.parse().expect("a number"));
    let mut table: BTreeMap<i64, BTreeMap<Word, usize>> = BTreeMap::new();
    for first in (0..n).step_by(IN_A_SESSION) {
        let races = first..n.min(first + IN_A_SESSION);
        for (offset_ms, word) in in_one_session(&races, n) {
            let reach = (offset_ms.clamp(-REACH_MS - 1, REACH_MS)).div_euclid(ROW_MS) * ROW_MS;
            *table.entry(reach).or_default().entry(word).or_default() += 1;
        }
    }
    print(&text_of(&table));
    let n_of = |word| table.values().filter_map(|row| row.get(&word)).sum::<usize>();
    // Otherwise nothing was raced for.
    assert!(n < RACES || (0 < n_of(Word::Taken) && n_of(Word::Taken) < n), "{table:?}");
}

#[expect(clippy::print_stdout, reason = "the table is what `cargo xtask soak races` shows")]
fn print(table: &str) {
    println!("{table}");
}

/// The number of each outcome, by how long after the decision the key came.
fn text_of(table: &BTreeMap<i64, BTreeMap<Word, usize>>) -> String {
    let mut text = format!(
        "races: {:>14} {:>6} {:>15} {:>9} {:>9}\n",
        "key after", "taken", "terminal first", "over", "not here"
    );
    for (from_ms, row) in table {
        let span = match *from_ms {
            from if from < -REACH_MS => format!("< {} ms", -REACH_MS),
            from if REACH_MS <= from => format!(">= {REACH_MS} ms"),
            from => format!("{from}..{} ms", from + ROW_MS),
        };
        let n = |word| row.get(&word).copied().unwrap_or_default();
        let _ = writeln!(
            text,
            "races: {span:>14} {:>6} {:>15} {:>9} {:>9}",
            n(Word::Taken),
            n(Word::TerminalFirst),
            n(Word::Over),
            n(Word::NotHere)
        );
    }
    text
}

/// Runs these of `n` races, one prompt after the other in one turn. When each key came after the decision, in
/// milliseconds, and what the verb said.
fn in_one_session(races: &Range<usize>, n: usize) -> Vec<(i64, Word)> {
    let turns = races.clone().map(|race| Turn::bash(&command(race)).behind(&command(race)));
    let turns = [Turn::bash("touch never-made")].into_iter().chain(turns);
    let mut racing = Racing::start(turns.chain([Turn::text("All raced.").lasting()]));
    let over: Vec<Race> = races.clone().map(|race| racing.race(race, n)).collect();
    racing.place.pane.wait_screen("All raced.");
    // Nothing that came late was taken for a later prompt.
    for race in races.clone() {
        racing.check(race, fate(&racing.transcript, &command(race)).expect("its call has ended"));
    }
    let decided = racing.decided();
    let offset = |race: &Race| {
        let of = decided.get(&race.request);
        of.map_or(race.planned_ms, |decided_ms| {
            (race.keyed_ms - decided_ms + DAY_MS / 2).rem_euclid(DAY_MS) - DAY_MS / 2
        })
    };
    over.iter().map(|race| (offset(race), race.word)).collect()
}

fn command(race: usize) -> String {
    format!("echo race-{race}- >> ran")
}

/// Allow and deny take turns.
fn reply(race: usize) -> &'static str {
    if race.is_multiple_of(2) { "deny" } else { "approve" }
}

/// When the key is to come after the decision, in milliseconds: evenly over the whole reach, in mixed order.
fn planned_ms(race: usize, n: usize) -> i64 {
    let steps = i64::try_from(n.max(2) - 1).expect("a number of races");
    let step = i64::try_from((race * 7919) % n).expect("a number of races");
    2 * REACH_MS * step / steps - REACH_MS
}

impl Racing {
    /// Answers the first prompt from elsewhere alone, which tells how long the verb takes to its decision.
    fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let mut place = asking(turns);
        let transcript = transcript(&place);
        let go = place.home.tmp().join("go");
        let made = std::process::Command::new("mkfifo").arg(&go).status().expect("mkfifo");
        assert!(made.success(), "{made}");
        let request = asks_for(&mut place, "touch never-made");
        let mut racing = Self { place, transcript, go, lead: Duration::ZERO };
        let order = racing.order("deny", &request);
        let mut pipe = racing.pipe();
        let begun_ms = ms_of_day();
        pipe.write_all(b"go\n").expect("the shell reads");
        let said = racing.place.ends(&order);
        assert!(said.contains("Taken: the client denied Bash.\ncode 0"), "{said}");
        let took_ms = (racing.decided()[&request] - begun_ms).rem_euclid(DAY_MS);
        racing.lead = Duration::from_millis(took_ms.unsigned_abs());
        racing
    }

    /// Types the verb; the shell runs it once something is written to the pipe.
    fn order(&mut self, reply: &str, request: &str) -> coord_tests::place::Order {
        let waits = format!("read -r go < {}; ", self.go.display());
        self.place.begins(&waits, "coordctl", &[reply, request, "--yes", "--wait"])
    }

    /// The pipe, once the shell reads it.
    fn pipe(&self) -> std::fs::File {
        OpenOptions::new().write(true).open(&self.go).expect("open the pipe")
    }

    /// The prompt comes once both answers to the one before have arrived: the client takes a key for a dialog that
    /// was not there 40 ms ago (measured, 2.1.328).
    fn race(&mut self, race: usize, n: usize) -> Race {
        self.place.api.open(&command(race));
        let request = asks_for(&mut self.place, &command(race));
        takes_keys(&self.place);
        let order = self.order(reply(race), &request);
        let mut pipe = self.pipe();
        let planned_ms = planned_ms(race, n);
        let starts = Instant::now() + Duration::from_millis(REACH_MS.unsigned_abs());
        let ahead = Duration::from_millis((REACH_MS + planned_ms).unsigned_abs());
        let key = Instant::now() + self.lead + ahead;
        let keyed_ms = std::thread::scope(|scope| {
            let pane = &self.place.pane;
            let presses = scope.spawn(move || {
                wait_for(key);
                pane.keys(&["Enter"]);
                ms_of_day()
            });
            wait_for(starts);
            pipe.write_all(b"go\n").expect("the shell reads");
            presses.join().expect("the key was pressed")
        });
        let said = self.place.ends(&order);
        let fate = wait_until("the call's result", || {
            fate(&self.transcript, &command(race)).ok_or_else(|| said.clone())
        });
        let decided = self.check(race, fate);
        let word = word(race, &said);
        let is_right = match word {
            Word::Taken => decided.is_some(),
            Word::TerminalFirst | Word::Over | Word::NotHere => decided.is_none(),
        };
        assert!(is_right, "race {race}, key at {planned_ms} ms: {decided:?}, and the verb: {said}");
        Race { request, planned_ms, keyed_ms, word }
    }

    /// One of both decided, and only that happened.
    fn check(&self, race: usize, fate: Fate) -> Option<String> {
        let Fate { by_hook, is_error } = fate;
        let ran = self.n_ran(race);
        match by_hook.as_deref() {
            // Enter says Yes.
            None => assert!(ran == 1 && !is_error, "race {race}: ran {ran} times"),
            Some("allow") => {
                assert!(ran == 1 && !is_error && reply(race) == "approve", "race {race}: {ran}");
            }
            Some(_) => assert!(ran == 0 && is_error && reply(race) == "deny", "race {race}: {ran}"),
        }
        by_hook
    }

    fn n_ran(&self, race: usize) -> usize {
        let ran = std::fs::read_to_string(self.place.home.project().join("ran"));
        ran.unwrap_or_default().lines().filter(|line| *line == format!("race-{race}-")).count()
    }

    /// When each request was decided from elsewhere, in milliseconds of the day.
    fn decided(&self) -> BTreeMap<String, i64> {
        let all = events(&self.place.home, Some(&self.place.id));
        let decided =
            all.iter().filter(|event| event["source"] == "operator").filter_map(|event| {
                let words = event["detail"].as_str()?.split_whitespace();
                let request =
                    words.skip_while(|word| !matches!(*word, "approve" | "deny")).nth(1)?;
                Some((request.to_owned(), ms_of(event)?))
            });
        decided.collect()
    }
}

/// The time of an entry of the journal, `2026-01-31T12:34:56.789Z`, in milliseconds of the day.
fn ms_of(event: &Value) -> Option<i64> {
    let time = event["at"].as_str()?.split_once('T')?.1.strip_suffix('Z')?;
    let (seconds, ms) = time.split_once('.')?;
    let parts: Option<Vec<i64>> = seconds.split(':').map(|part| part.parse().ok()).collect();
    let seconds = parts?.into_iter().fold(0, |sum, part| 60 * sum + part);
    Some(1000 * seconds + ms.parse::<i64>().ok()?)
}

fn ms_of_day() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    i64::try_from(now).expect("a time") % DAY_MS
}

/// What the verb said. Any other words, or another exit code with them, are wrong.
fn word(race: usize, said: &str) -> Word {
    let did = if reply(race) == "deny" { "denied" } else { "allowed" };
    let code = said.trim_end().rsplit_once("code ").map_or("", |(_, code)| code);
    let has = |words: &str| said.contains(words);
    match code {
        "0" if has(&format!("Taken: the client {did} Bash.")) => Word::Taken,
        "7" if has("Answered at the terminal first.") => Word::TerminalFirst,
        "3" if has("Nothing was sent.") || has("No open request") => Word::Over,
        "1" if has("Not answerable here: ") => Word::NotHere,
        _ => panic!("race {race}: {said}"),
    }
}

/// Lets time pass until the moment at which something is to happen: how far apart both answers are is what differs
/// between the races.
fn wait_for(moment: Instant) {
    while let left = moment.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        std::thread::park_timeout(left);
    }
}

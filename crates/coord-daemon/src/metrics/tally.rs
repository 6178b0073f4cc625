//! Counts what the core decides while the coordinator runs: decisions by rule, crashes, and how recoveries ended.
//!
//! The state keeps none of these counts, so they begin at 0 with each start.

use std::collections::BTreeMap;

use coord_core::{Presence, Session, State};
use coord_model::{Decision, SessionKey};

/// The rules that decide, in order; a test compares them with the core. Decisions of another rule are counted
/// under [`OTHER_RULE`], so that a replayed or newer rule adds no series.
pub(crate) const RULES: [&str; 86] = [
    "A-04", "A-07", "F-05", "G10", "G4", "G5", "G6", "H-02", "H-05", "H-06", "H-07", "H-08",
    "H-10", "H-11", "H-13", "H-14", "H-15", "H-16", "H-17", "H-18", "H-19", "H-21", "H-24", "H-30",
    "H-32", "H-33", "H-34", "H-35", "H-36", "H-38", "H-40", "H-42", "H-43", "H-44", "H-45", "H-53",
    "H-54", "N-04", "R-01", "R-02", "R-03", "R-07", "R-10", "R-11", "R-19", "R-20", "R-21",
    "S0-01", "S0-06", "S0-08", "S0-09", "S0-11", "S0-14", "S0-15", "S0-18", "S0-20", "S0-21",
    "S0-23", "S0-25", "S0-25b", "S0-25d", "S0-25e", "S0-25f", "S0-25g", "S0-26", "S0-28a", "S0-29",
    "S1-06", "S1-07", "S1-09", "S1-10", "S1-11", "S1-13", "S1-14", "S1-15", "S1-16", "S1-21",
    "S1-22", "S1-23", "S1-24", "S4-01", "S4-09", "S4-19", "S4-23", "S4-24", "U-01",
];

/// What is counted for a rule that is not among [`RULES`].
pub(crate) const OTHER_RULE: &str = "other";

/// How a recovery may end, as [`coord_core::Ending::word`] names it.
const ENDINGS: [&str; 4] = ["verified", "closed", "failed", "observed"];

/// Fewer remembered sessions than this are never worth a cleanup.
const REMEMBERED_MIN: usize = 64;

/// The counts.
#[derive(Debug)]
pub(crate) struct Tally {
    rules: [u64; RULES.len()],
    other_rules: u64,
    crashes: u64,
    endings: [u64; ENDINGS.len()],
    /// What was counted last of each session.
    counted: BTreeMap<SessionKey, Counted>,
}

/// The last crash and the last end of a recovery of one session, each as wall time in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    crash: Option<u64>,
    ending: Option<u64>,
}

impl Counted {
    fn of(session: &Session) -> Self {
        let crash = match *session.presence {
            Presence::Crashed { at } => Some(at.wall_ms),
            Presence::Alive
            | Presence::Dying { .. }
            | Presence::Ended { .. }
            | Presence::Interrupted { .. }
            | Presence::Gone { .. } => None,
        };
        Self { crash, ending: session.recovery.last.as_ref().map(|last| last.at.wall_ms) }
    }
}

impl Tally {
    /// Nothing is counted of what happened before this state.
    pub(crate) fn since(state: &State) -> Self {
        let counted = state.sessions().map(|one| (one.key, Counted::of(one))).collect();
        Self { rules: [0; RULES.len()], other_rules: 0, crashes: 0, endings: [0; 4], counted }
    }

    /// Counts the decisions of a step, after which the state is this.
    ///
    /// Every crash and every end of a recovery is a decision about its session, so only those sessions are looked at.
    pub(crate) fn count(&mut self, decisions: &[Decision], state: &State) {
        for decision in decisions {
            let place = RULES.binary_search(&decision.rule.as_ref()).ok();
            let count = place.and_then(|at| self.rules.get_mut(at));
            add_one(count.unwrap_or(&mut self.other_rules));
            for session in state.sessions_with_id(&decision.session_id) {
                self.count_session(session);
            }
        }
        let n = state.sessions().len();
        if REMEMBERED_MIN.max(n.saturating_mul(2)) < self.counted.len() {
            self.counted.retain(|key, _| state.session(*key).is_some());
        }
    }

    fn count_session(&mut self, session: &Session) {
        let now = Counted::of(session);
        let before = self.counted.entry(session.key).or_default();
        if now.crash.is_some() && now.crash != before.crash {
            add_one(&mut self.crashes);
            before.crash = now.crash;
        }
        if now.ending.is_some() && now.ending != before.ending {
            before.ending = now.ending;
            let word = session.recovery.last.as_ref().map(|last| last.outcome.word());
            let place = ENDINGS.iter().position(|ending| Some(*ending) == word);
            if let Some(count) = place.and_then(|at| self.endings.get_mut(at)) {
                add_one(count);
            }
        }
    }

    /// Crashes of clients.
    pub(crate) fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Recoveries that ended, by how they did.
    pub(crate) fn endings(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ENDINGS.into_iter().zip(self.endings)
    }

    /// Decisions, by the rule that decided.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RULES.into_iter().zip(self.rules).chain([(OTHER_RULE, self.other_rules)])
    }
}

fn add_one(count: &mut u64) {
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_core::Ending;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|is| is == "rs") {
                found.push(path);
            }
        }
    }

    /// Whether a text has the form of a rule's id, such as `S0-25a`, `H-05` or `G6`.
    fn is_rule(text: &str) -> bool {
        let number = match (text.strip_prefix('G'), text.split_once('-')) {
            (Some(number), None) => number,
            (_, Some((row, number)))
                if matches!(row.as_bytes(), [b'A'..=b'Z'] | [b'A'..=b'Z', b'0'..=b'9']) =>
            {
                number
            }
            _ => return false,
        };
        let digits = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
        number.len() <= digits.len() + 1
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    #[test]
    fn every_rule_of_the_core_is_counted_by_its_name() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../coord-core/src"), &mut files);
        let mut rules = BTreeSet::new();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            rules.extend(text.split('"').filter(|part| is_rule(part)).map(ToOwned::to_owned));
        }
        let rules: Vec<String> = rules.into_iter().collect();
        assert_eq!(RULES.to_vec(), rules, "RULES must be:\n{rules:?}");
    }

    // A word that the core changes would be counted nowhere.
    #[test]
    fn every_ending_has_its_place() {
        let why = String::new();
        let endings = [
            Ending::Verified,
            Ending::Closed { why: why.clone() },
            Ending::Failed { why },
            Ending::Observed,
        ];
        assert_eq!(endings.map(|ending| ending.word()), ENDINGS);
    }
}

//! What is not as it should be, for `coord status`, `inspect` and `doctor`: each condition has one text at
//! a time and goes when it is over, so that the list is bounded and never stale.

use std::collections::BTreeMap;

/// What the opening of the store found is shown up to this number; all of it is in the log.
const FINDINGS_MAX: usize = 16;

/// Something that is wrong for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// The disk is full.
    DiskFull,
    /// The last record was refused by the disk.
    Append,
    /// The last snapshot could not be written.
    Snapshot,
    /// The spool cannot be read.
    Spool,
    /// The spool holds what a newer version wrote.
    NewerSpool,
    /// The ends of some processes cannot be watched.
    Unwatched,
    /// Texts of old messages could not be removed.
    OldTexts,
    /// The configuration is wrong, or its change could not be recorded.
    Config,
    /// Changed values wait for a restart.
    ConfigRestart,
    /// The last end of a session could not be told.
    EndNotice,
    /// The last change of a message could not be recorded.
    Message,
    /// Hooks came from a program that is not known to be a client.
    UnknownClient,
}

impl Condition {
    /// Its name in the metrics.
    fn name(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::Append => "record_refused",
            Self::Snapshot => "snapshot_failed",
            Self::Spool => "spool_unreadable",
            Self::NewerSpool => "spool_from_newer_version",
            Self::Unwatched => "clients_not_watched",
            Self::OldTexts => "old_texts_not_removed",
            Self::Config => "config_rejected",
            Self::ConfigRestart => "config_needs_restart",
            Self::EndNotice => "end_notice_failed",
            Self::Message => "message_not_recorded",
            Self::UnknownClient => "unknown_client",
        }
    }
}

/// The conditions that hold.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    texts: BTreeMap<Condition, String>,
    /// What the opening of the store found; it holds for this start.
    findings: Vec<String>,
}

impl Conditions {
    /// It holds, with this text in the place of an earlier one.
    pub(crate) fn raise(&mut self, condition: Condition, text: impl Into<String>) {
        self.texts.insert(condition, text.into());
    }

    /// It is over.
    pub(crate) fn clear(&mut self, condition: Condition) {
        self.texts.remove(&condition);
    }

    /// What the opening of the store found.
    pub(crate) fn found_at_start(&mut self, findings: Vec<String>) {
        self.findings = findings;
        let left_out = self.findings.len().saturating_sub(FINDINGS_MAX);
        if 0 < left_out {
            self.findings.truncate(FINDINGS_MAX);
            self.findings.push(format!("{left_out} more findings on the store are in the log"));
        }
    }

    /// All of them: the name in the metrics, and the words for people.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let conditions = self.texts.iter().map(|(condition, text)| (condition.name(), text));
        conditions.chain(self.findings.iter().map(|text| ("store_damaged", text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(conditions: &Conditions) -> Vec<&String> {
        conditions.named().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_condition_has_one_text_and_goes_when_it_is_over() {
        let mut conditions = Conditions::default();
        for n in 0..1000 {
            conditions.raise(Condition::Append, format!("refused {n} times"));
        }
        conditions.raise(Condition::Snapshot, "not written");
        assert_eq!(texts(&conditions), ["refused 999 times", "not written"]);
        conditions.clear(Condition::Append);
        assert_eq!(texts(&conditions), ["not written"]);
    }

    #[test]
    fn what_opening_the_store_found_is_bounded() {
        let mut conditions = Conditions::default();
        conditions.found_at_start((0..100).map(|n| format!("finding {n}")).collect());
        let texts = texts(&conditions);
        assert_eq!(texts.len(), FINDINGS_MAX + 1);
        assert_eq!(texts[FINDINGS_MAX], "84 more findings on the store are in the log");
    }
}

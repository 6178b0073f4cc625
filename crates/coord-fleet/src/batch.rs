//! A batch: the history of a range of the journal, as it is published. Ranges follow each other without gaps, so a
//! reader sees whether anything is missing.
//!
//! The text of a batch is a line of JSON, its [`Head`], and then the events of the range as `coord events --json` prints them, a line
//! each. Records that are of no interest elsewhere are left out, and the range covers them.

use serde::{Deserialize, Serialize};

use crate::keys::{Keys, PublicKey};
use crate::sealed::{self, Purpose, Unsealed};

/// A journal's id: 128 random bits, made when the machine first publishes it. Record numbers begin again in another
/// journal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub String);

/// Who writes batches: a journal, and the relay that publishes it. A clone has the same journal, and another relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The journal.
    pub incarnation: Incarnation,
    /// The relay's process, by a random id.
    pub relay: String,
}

/// The first line of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    writer: Writer,
    #[serde(default, skip_serializing_if = "is_zero")]
    edition: u64,
    /// First and last record that are covered.
    first: u64,
    last: u64,
    /// Whether these records were given up before they could be published (F-08).
    #[serde(default, skip_serializing_if = "is_false")]
    is_gap: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The history of a range of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Who wrote it.
    pub writer: Writer,
    /// How often the journal was published again before. A higher number supersedes all batches of the same journal with a lower
    /// one.
    pub edition: u64,
    /// The first record that it covers.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Whether these records were given up before they could be published: it has no lines.
    pub is_gap: bool,
    /// The events, a line of JSON each, each with its end of line.
    pub lines: String,
}

impl Batch {
    /// Seals it.
    pub fn seal(&self, keys: &Keys) -> Vec<u8> {
        let Self { writer, edition, first, last, is_gap, lines } = self;
        let (edition, first, last, is_gap) = (*edition, *first, *last, *is_gap);
        let head = Head { writer: writer.clone(), edition, first, last, is_gap };
        let head = serde_json::to_string(&head).unwrap_or_default();
        sealed::seal(Purpose::Journal, &format!("{head}\n{lines}"), keys)
    }

    /// Reads a sealed batch, and whose it is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open(bytes: &[u8]) -> Result<(PublicKey, Self), Unsealed> {
        let (key, text) = sealed::open(Purpose::Journal, bytes)?;
        let (head, lines) = text.split_once('\n').ok_or(Unsealed::NoSeal)?;
        let Head { writer, edition, first, last, is_gap } =
            serde_json::from_str(head).map_err(|_| Unsealed::NoSeal)?;
        Ok((key, Self { writer, edition, first, last, is_gap, lines: lines.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::keys;

    #[test]
    fn a_batch_is_sealed_and_opened() {
        let writer = Writer { incarnation: Incarnation("7".to_owned()), relay: "r".to_owned() };
        let lines = "{\"seq\":4}\n{\"seq\":6}\n".to_owned();
        for edition in [0, 3] {
            let (writer, lines) = (writer.clone(), lines.clone());
            let batch = Batch { writer, edition, first: 4, last: 7, is_gap: false, lines };
            let sealed = batch.seal(&keys(1));
            let has_edition = String::from_utf8_lossy(&sealed).contains("edition");
            assert_eq!(has_edition, 0 < edition, "what earlier versions wrote is what is written");
            assert_eq!(Batch::open(&sealed), Ok((keys(1).public(), batch)));
        }
        assert_eq!(Batch::open(b"{}\n"), Err(Unsealed::NoSeal));
    }
}

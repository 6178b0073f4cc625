//! The list of machines that a person has allowed, in the manner of authorized_keys (F-06). It is empty at first: who has
//! joined a fleet shows sessions, and lets nobody type.
//!
//! ```text
//! # key, name, and what the machine may do: send, notify, both or nothing
//! 4b1f…64 digits…c9 laptop send notify
//! ```

use core::fmt;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use coord_model::MachineId;

use crate::keys::PublicKey;

/// Largest list that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Longest name of a machine, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The machines on the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(BTreeMap<MachineId, AllowedMachine>);

/// A machine on the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedMachine {
    /// Its key.
    pub key: PublicKey,
    /// Its name here.
    pub name: String,
    /// Whether its messages are taken in.
    pub may_send: bool,
    /// Whether one of the two machines may tell people of the other's needs (F-02).
    pub may_notify: bool,
}

/// Why the list cannot be used. Nobody is allowed anything then.
#[derive(Debug)]
pub enum AllowedError {
    /// It could not be read.
    Io(io::Error),
    /// A line is wrong.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for AllowedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => fmt::Display::fmt(error, f),
            Self::Line { number, why } => write!(f, "line {number}: {why}"),
        }
    }
}

impl core::error::Error for AllowedError {}

impl Allowed {
    /// Reads the list. A missing file is an empty list.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn read(path: &Path) -> Result<Self, AllowedError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(AllowedError::Io(error)),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(AllowedError::Io)?;
        Self::parse(&text)
    }

    /// Reads the list's text.
    ///
    /// # Errors
    /// A line is wrong.
    pub fn parse(text: &str) -> Result<Self, AllowedError> {
        let mut all = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let wrong = |why| AllowedError::Line { number, why };
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (key, name, rights) = match &words[..] {
                [] => continue,
                [key, name, rights @ ..] => (*key, *name, rights),
                _ => return Err(wrong("a line is a key, a name, and what the machine may do")),
            };
            if rights.iter().any(|right| !matches!(*right, "send" | "notify")) {
                return Err(wrong("after key and name there is `send`, `notify`, both or nothing"));
            }
            let key = PublicKey::parse(key).map_err(|_| wrong("a key has 64 digits of 0-9a-f"))?;
            if !is_name(name) {
                return Err(wrong("a name has up to 64 letters, digits, `-`, `_` and `.`"));
            }
            let [may_send, may_notify] = ["send", "notify"].map(|right| rights.contains(&right));
            let machine = AllowedMachine { key, name: name.to_owned(), may_send, may_notify };
            if all.values().any(|other: &AllowedMachine| other.name == machine.name) {
                return Err(wrong("another line has the same name"));
            }
            if all.insert(key.machine(), machine).is_some() {
                return Err(wrong("another line has the same key"));
            }
        }
        Ok(Self(all))
    }

    /// The entry of a machine.
    pub fn get(&self, machine: MachineId) -> Option<&AllowedMachine> {
        self.0.get(&machine)
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = &AllowedMachine> {
        self.0.values()
    }
}

/// Whether a machine may have this name.
pub fn is_name(name: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::keys;

    #[test]
    fn f_06_a_list_is_read_and_a_wrong_line_is_named() {
        let [one, other] = [keys(1).public(), keys(2).public()];
        let text =
            format!("# who may\n\n{one} laptop notify send # mine\n{other}  build-1 notify\n");
        let allowed = Allowed::parse(&text).unwrap();
        let laptop = allowed.get(one.machine()).unwrap();
        assert_eq!((laptop.name.as_str(), laptop.may_send), ("laptop", true));
        let build = allowed.get(other.machine()).unwrap();
        assert!(laptop.may_notify && build.may_notify && !build.may_send);
        assert_eq!(allowed.get(keys(3).machine()), None);
        for (text, number) in [
            (format!("{one}\n"), 1),
            (format!("\n{one} laptop type\n"), 2),
            (format!("{one} lap/top send\n"), 1),
            (format!("{one} a\n{one} b\n"), 2),
            (format!("{one} a\n{other} a\n"), 2),
            ("00 a\n".to_owned(), 1),
        ] {
            let error = Allowed::parse(&text).unwrap_err();
            assert!(matches!(error, AllowedError::Line { number: n, .. } if n == number), "{text}");
        }
    }

    #[test]
    fn f_06_without_a_list_nobody_is_allowed_anything() {
        let dir = tempfile::tempdir().unwrap();
        let allowed = Allowed::read(&dir.path().join("none")).unwrap();
        assert_eq!(allowed.all().count(), 0);
    }
}

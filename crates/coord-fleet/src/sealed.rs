//! What goes over the network is sealed: a line with the sender's key and signature, then the text that it signed.
//!
//! ```text
//! coord1 KEY SIGNATURE\n
//! TEXT
//! ```
//!
//! The signature covers the purpose of the text beside the text itself, so nothing that was signed for one purpose
//! counts for another. A seal proves who wrote a text, not that it is welcome: whoever takes it decides that.

use core::fmt;

use data_encoding::HEXLOWER;

use crate::keys::{Keys, PublicKey};

/// The beginning of everything that is sealed. Its number is the version of the format.
const MARK: &str = "coord1";
/// Largest sealed text, in bytes. A server takes 1 MiB by default, seal and subject included.
pub const TEXT_BYTES_MAX: usize = 960 * 1024;

/// The purpose of a sealed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Records of a journal.
    Journal,
    /// That a machine is there, and how it is called.
    Beat,
    /// The state of a session.
    State,
    /// A message to a session.
    Message,
    /// What became of a message.
    Fate,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Beat => "beat",
            Self::State => "state",
            Self::Message => "message",
            Self::Fate => "fate",
        }
    }
}

/// Why a sealed text is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsealed {
    /// It has no seal, or one of another version.
    NoSeal,
    /// The text is longer than is taken.
    TooLong,
    /// The signature is not of this key, this text and this purpose.
    WrongSignature,
}

impl fmt::Display for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSeal => "it is not signed",
            Self::TooLong => "it is too long",
            Self::WrongSignature => "its signature is wrong",
        })
    }
}

impl core::error::Error for Unsealed {}

/// Seals a text.
pub fn seal(purpose: Purpose, text: &str, keys: &Keys) -> Vec<u8> {
    let signature = keys.sign(&signed(purpose, text));
    let signature = HEXLOWER.encode(signature.as_ref());
    format!("{MARK} {} {signature}\n{text}", keys.public()).into_bytes()
}

/// The key that sealed a text, and the text.
///
/// # Errors
/// Why it is not believed.
pub fn open(purpose: Purpose, bytes: &[u8]) -> Result<(PublicKey, &str), Unsealed> {
    let sealed = core::str::from_utf8(bytes).map_err(|_| Unsealed::NoSeal)?;
    let (line, text) = sealed.split_once('\n').ok_or(Unsealed::NoSeal)?;
    if TEXT_BYTES_MAX < text.len() {
        return Err(Unsealed::TooLong);
    }
    let mut words = line.split(' ');
    let [Some(MARK), Some(key), Some(signature), None] =
        [words.next(), words.next(), words.next(), words.next()]
    else {
        return Err(Unsealed::NoSeal);
    };
    let key = PublicKey::parse(key).map_err(|_| Unsealed::NoSeal)?;
    let signature = HEXLOWER.decode(signature.as_bytes()).map_err(|_| Unsealed::NoSeal)?;
    let is_right = key.has_signed(&signed(purpose, text), &signature);
    if is_right { Ok((key, text)) } else { Err(Unsealed::WrongSignature) }
}

/// What is signed.
fn signed(purpose: Purpose, text: &str) -> Vec<u8> {
    format!("{MARK} {}\n{text}", purpose.word()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::keys;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_believed_for_its_purpose_alone() {
        let keys = keys(1);
        let sealed = seal(Purpose::Message, "do it", &keys);
        assert_eq!(open(Purpose::Message, &sealed), Ok((keys.public(), "do it")));
        for other in [Purpose::Fate, Purpose::Journal, Purpose::Beat, Purpose::State] {
            assert_eq!(open(other, &sealed), Err(Unsealed::WrongSignature), "{other:?}");
        }
    }

    #[test]
    fn what_is_not_sealed_is_not_believed() {
        let own = String::from_utf8(seal(Purpose::Fate, "x", &keys(1))).unwrap();
        let foreign = own.replace(&keys(1).public().to_string(), &keys(2).public().to_string());
        let long = seal(Purpose::Fate, &"x".repeat(TEXT_BYTES_MAX + 1), &keys(1));
        for (bytes, why) in [
            (&b""[..], Unsealed::NoSeal),
            (b"do it", Unsealed::NoSeal),
            (b"coord1 00 00\ndo it", Unsealed::NoSeal),
            (own.replace("coord1", "coord2").as_bytes(), Unsealed::NoSeal),
            (foreign.as_bytes(), Unsealed::WrongSignature),
            (&long, Unsealed::TooLong),
        ] {
            assert_eq!(open(Purpose::Fate, bytes), Err(why));
        }
    }

    proptest! {
        #[test]
        fn no_changed_byte_is_believed(at in 0_usize..250, byte in any::<u8>()) {
            let keys = keys(1);
            let mut sealed = seal(Purpose::Message, "a text that is long enough for all of it", &keys);
            let at = at % sealed.len();
            prop_assume!(sealed[at] != byte);
            sealed[at] = byte;
            prop_assert!(open(Purpose::Message, &sealed).is_err());
        }
    }
}

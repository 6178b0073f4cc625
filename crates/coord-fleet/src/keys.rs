//! The key that a machine signs with. It is not the key with which it logs in to the engine: a login signs bytes that
//! the server chooses, so with one key for both a server could have a message signed.

use core::fmt;

use coord_model::MachineId;
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The public key of a machine, as people exchange it: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

/// The bytes are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a key")
    }
}

impl core::error::Error for KeyError {}

impl PublicKey {
    /// Parses a key as it is written for people.
    ///
    /// # Errors
    /// The text is no key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| KeyError)?;
        bytes.try_into().map(Self).map_err(|_| KeyError)
    }

    /// The machine whose key this is.
    pub fn machine(&self) -> MachineId {
        let digest = digest(&SHA256, &self.0);
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        MachineId(u128::from_be_bytes(first))
    }

    /// Whether the owner of this key signed the bytes.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The keys of this machine.
#[derive(Debug)]
pub struct Keys {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl Keys {
    /// The keys that follow from a seed.
    ///
    /// # Errors
    /// No key follows from these bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| KeyError)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError)?;
        Ok(Self { pair, public: PublicKey(public) })
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// This machine.
    pub fn machine(&self) -> MachineId {
        self.public.machine()
    }

    /// The signature of bytes.
    pub(crate) fn sign(&self, bytes: &[u8]) -> impl AsRef<[u8]> + use<> {
        self.pair.sign(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Keys that a number decides.
    pub(crate) fn keys(number: u8) -> Keys {
        Keys::from_seed(&[number; 32]).unwrap()
    }

    #[test]
    fn a_key_is_written_and_read_and_names_its_machine() {
        let [one, other] = [keys(1), keys(2)];
        assert_eq!(PublicKey::parse(&one.public().to_string()), Ok(one.public()));
        assert_eq!(one.machine(), one.public().machine());
        assert_ne!(one.machine(), other.machine());
        for odd in ["", "00", &"g".repeat(64), &one.public().to_string().to_uppercase()] {
            assert_eq!(PublicKey::parse(odd), Err(KeyError), "{odd}");
        }
    }
}

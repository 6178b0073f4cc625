//! The key that a machine logs in to the server with. The server keeps its public half alone.

use core::fmt;

use nkeys::{KeyPair, KeyPairType};

/// The text is not the seed of a user's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedError;

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the seed of a NATS user key (`SU…`)")
    }
}

impl core::error::Error for SeedError {}

/// A NATS user key.
pub struct Login {
    seed: String,
    public: String,
}

impl Login {
    /// Makes a new one.
    ///
    /// # Errors
    /// No key follows from the random bytes, which does not happen.
    pub fn new() -> Result<Self, SeedError> {
        Self::of(&KeyPair::new_user())
    }

    /// The key of a seed.
    ///
    /// # Errors
    /// It is not the seed of a user's key.
    pub fn from_seed(seed: &str) -> Result<Self, SeedError> {
        let pair = KeyPair::from_seed(seed).map_err(|_| SeedError)?;
        if pair.key_pair_type() == KeyPairType::User { Self::of(&pair) } else { Err(SeedError) }
    }

    fn of(pair: &KeyPair) -> Result<Self, SeedError> {
        let seed = pair.seed().map_err(|_| SeedError)?;
        Ok(Self { seed, public: pair.public_key() })
    }

    /// The seed (`SU…`), which is secret.
    pub fn seed(&self) -> &str {
        &self.seed
    }

    /// The public key (`U…`), which the server is told.
    pub fn public_key(&self) -> &str {
        &self.public
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_made_kept_and_read() {
        let made = Login::new().unwrap();
        assert!(made.seed().starts_with("SU") && made.public_key().starts_with('U'), "{made:?}");
        assert_eq!(Login::from_seed(made.seed()).unwrap().public_key(), made.public_key());
        assert!(!format!("{made:?}").contains(made.seed()));
        let account = KeyPair::new_account().seed().unwrap();
        for odd in ["", "SU", made.public_key(), &account] {
            assert_eq!(Login::from_seed(odd).err(), Some(SeedError), "{odd}");
        }
    }
}

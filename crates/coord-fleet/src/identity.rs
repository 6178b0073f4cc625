//! The file with this machine's keys: the seed of its signature and of its login, readable by its user alone.

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::keys::Keys;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// What a machine is known by.
#[derive(Debug)]
pub struct Identity {
    /// The keys that it signs with.
    pub keys: Keys,
    /// The seed of the key that it logs in to the engine with, as the engine's tools write it (`SU…`).
    pub login_seed: String,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    signing_seed: String,
    login_seed: String,
}

/// Why there is no identity.
#[derive(Debug)]
pub enum IdentityError {
    /// There is no file: the machine has joined no fleet.
    Missing,
    /// Others could read it, so the keys may be known to them.
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to another user.
    Foreign,
    /// It is damaged, or of another version.
    Damaged,
    /// It could not be read or written.
    Io(io::Error),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("this machine has joined no fleet"),
            Self::Open { mode } => write!(f, "others may read it (mode {mode:03o})"),
            Self::Foreign => f.write_str("it belongs to another user"),
            Self::Damaged => f.write_str("it is damaged, or of another version of coord"),
            Self::Io(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for IdentityError {}

impl From<io::Error> for IdentityError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Io(error) }
    }
}

impl Identity {
    /// Reads it.
    ///
    /// # Errors
    /// There is none, or it is not to be used.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.mode() & 0o077 != 0 {
            return Err(IdentityError::Open { mode: meta.mode() & 0o777 });
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(IdentityError::Foreign);
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        let stored: Stored = serde_json::from_str(&text).map_err(|_| IdentityError::Damaged)?;
        let seed = HEXLOWER.decode(stored.signing_seed.as_bytes()).ok();
        let seed: Option<[u8; 32]> = seed.and_then(|seed| seed.try_into().ok());
        let seed = seed.filter(|_| stored.version == 1).ok_or(IdentityError::Damaged)?;
        let keys = Keys::from_seed(&seed).map_err(|_| IdentityError::Damaged)?;
        Ok(Self { keys, login_seed: stored.login_seed })
    }

    /// Makes a new one from random bytes and a login's seed, durably. An existing file is left alone.
    ///
    /// # Errors
    /// There is one already, or it was not written.
    pub fn create(path: &Path, seed: &[u8; 32], login_seed: &str) -> Result<Self, IdentityError> {
        let keys = Keys::from_seed(seed).map_err(|_| IdentityError::Damaged)?;
        let stored = Stored {
            version: 1,
            signing_seed: HEXLOWER.encode(seed),
            login_seed: login_seed.to_owned(),
        };
        let text = serde_json::to_string(&stored).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok(Self { keys, login_seed: login_seed.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_identity_is_kept_and_refused_where_others_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        assert!(matches!(Identity::read(&path), Err(IdentityError::Missing)));
        let made = Identity::create(&path, &[7; 32], "SUx").unwrap();
        let read = Identity::read(&path).unwrap();
        assert_eq!((read.keys.public(), read.login_seed), (made.keys.public(), "SUx".to_owned()));
        assert!(matches!(Identity::create(&path, &[8; 32], "SUy"), Err(IdentityError::Io(_))));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Identity::read(&path), Err(IdentityError::Open { mode: 0o640 })));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for odd in ["", "{}", "{\"version\":2,\"signing_seed\":\"00\",\"login_seed\":\"\"}"] {
            fs::write(&path, odd).unwrap();
            assert!(matches!(Identity::read(&path), Err(IdentityError::Damaged)), "{odd}");
        }
    }
}

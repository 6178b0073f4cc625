//! The passphrase that guards decisions (H-22, A-08): its hash in a file, and the thread that verifies a
//! try. Decides nothing.
//!
//! The file holds one line, a PHC string of argon2id. The clear text is never written, logged, or passed in
//! an argument or the environment.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use argon2::{
    ARGON2ID_IDENT, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::worker::{QueueWorker, Supervisor, Waiting};

/// Fewest characters of a passphrase.
pub const CHARS_MIN: usize = 8;
/// Longest passphrase, in bytes.
pub const BYTES_MAX: usize = 1024;
/// Longest file; a PHC string of the default parameters has 97 bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// Most memory that a stored hash may ask for, in KiB, and most passes and lanes. The defaults are 19 MiB,
/// 2 and 1.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;

/// A passphrase in clear text. Cleared from memory when dropped; it cannot be printed.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes over the clear text.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The clear text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The hash of a passphrase, as a PHC string of argon2id.
#[derive(Clone, PartialEq, Eq)]
pub struct PassphraseHash(String);

/// Why a file holds no hash that can be used.
#[derive(Debug)]
pub enum FileError {
    /// It is a link, a directory or a device.
    NotAFile(PathBuf),
    /// It belongs to the user with this id.
    Foreign(PathBuf, u32),
    /// Others may read or write it: its mode.
    Open(PathBuf, u32),
    /// It holds something else than a hash, or a hash that takes too long.
    Malformed(PathBuf),
    /// It cannot be read.
    Io(PathBuf, io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ANEW: &str = "Remove it and run `coordctl passphrase` again.";
        match self {
            Self::NotAFile(path) => {
                write!(f, "{} is not a regular file. {ANEW}", path.display())
            }
            Self::Foreign(path, uid) => {
                write!(f, "{} belongs to another user (uid {uid}). {ANEW}", path.display())
            }
            Self::Open(path, mode) => {
                let path = path.display();
                write!(f, "{path} is open to other users (mode {mode:04o}). → chmod 600 {path}")
            }
            Self::Malformed(path) => {
                write!(f, "{} does not hold an argon2id hash. {ANEW}", path.display())
            }
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FileError {}

/// Why nothing was hashed or verified: too little memory, or no randomness.
#[derive(Debug)]
pub struct HashError(String);

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the passphrase could not be hashed: {}", self.0)
    }
}

impl std::error::Error for HashError {}

impl PassphraseHash {
    /// Hashes a passphrase with a new salt and argon2's default parameters. Takes about 0.1 s and 19 MiB.
    ///
    /// # Errors
    /// There is too little memory, or no randomness.
    pub fn of(passphrase: &Passphrase) -> Result<Self, HashError> {
        let hash = Argon2::default().hash_password(passphrase.as_str().as_bytes());
        hash.map(|hash| Self(hash.to_string())).map_err(|error| HashError(error.to_string()))
    }

    /// Whether the hash is of this passphrase. Takes as long as [`Self::of`].
    ///
    /// # Errors
    /// There is too little memory.
    pub fn verify(&self, passphrase: &Passphrase) -> Result<bool, HashError> {
        use argon2::password_hash::Error;
        let hash = PasswordHash::new(&self.0).map_err(|error| HashError(error.to_string()))?;
        let verified = Argon2::default().verify_password(passphrase.as_str().as_bytes(), &hash);
        match verified {
            Err(Error::PasswordInvalid) => Ok(false),
            verified => verified.map(|()| true).map_err(|error| HashError(error.to_string())),
        }
    }

    /// Reads the file; none if it does not exist.
    ///
    /// # Errors
    /// The file is not a regular one, belongs to another user, is accessible to others, or holds no hash.
    pub fn read(path: &Path) -> Result<Option<Self>, FileError> {
        // NONBLOCK: a FIFO in its place is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let failed = |error| FileError::Io(path.to_owned(), error);
        let file = match rustix::fs::open(path, flags | OFlags::NOCTTY, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) => return Err(FileError::NotAFile(path.to_owned())),
            Err(error) => return Err(failed(error.into())),
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        check_access(path, metadata.uid(), metadata.mode())?;
        let mut text = String::new();
        match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
            Ok(_) => {
                Self::parse(&text).map(Some).ok_or_else(|| FileError::Malformed(path.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(FileError::Malformed(path.to_owned()))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let hash = PasswordHash::new(text).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let is_bounded = params.m_cost() <= MEMORY_KIB_MAX
            && params.t_cost() <= PASSES_MAX
            && params.p_cost() <= LANES_MAX;
        let is_whole = hash.salt.is_some() && hash.hash.is_some();
        let is_it = hash.algorithm == ARGON2ID_IDENT && is_whole && is_bounded;
        is_it.then(|| Self(text.to_owned()))
    }

    /// Writes the file with mode 0600, in one step and durably, and creates its directory if it is missing.
    ///
    /// # Errors
    /// The file cannot be written; the old one then stays.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let no_name = || io::Error::from(io::ErrorKind::InvalidInput);
        let directory = path.parent().ok_or_else(no_name)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
        let new = directory.join(format!(".{name}.{:016x}", u64::from_le_bytes(random)));
        let renamed = self.write_new(&new).and_then(|()| fs::rename(&new, path));
        if let Err(error) = renamed {
            // What was written so far is no use to anybody.
            let _is_not_there = fs::remove_file(&new);
            return Err(error);
        }
        sync_directory(directory)
    }

    fn write_new(&self, new: &Path) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        file.write_all(format!("{}\n", self.0).as_bytes())?;
        file.sync_all()
    }
}

/// Removes the file durably.
///
/// # Errors
/// The file cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Refuses a file that somebody else may have written, or may read.
fn check_access(path: &Path, uid: u32, mode: u32) -> Result<(), FileError> {
    if uid != rustix::process::geteuid().as_raw() {
        return Err(FileError::Foreign(path.to_owned(), uid));
    }
    let (mode, of_others) = (mode & 0o7777, mode & 0o077);
    if of_others == 0 { Ok(()) } else { Err(FileError::Open(path.to_owned(), mode)) }
}

/// A try: what was given, and what it must match.
type Try = (Passphrase, PassphraseHash);

/// Tries that wait.
#[derive(Default)]
struct Tries(Vec<Try>);

impl Waiting for Tries {
    type Task = Try;

    fn next(&mut self) -> Option<Try> {
        self.0.pop()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The thread that verifies passphrases: that takes longer than the loop may.
pub struct Verifier {
    worker: QueueWorker<Tries>,
    verified: Receiver<Result<bool, HashError>>,
}

impl Verifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot create another thread.
    pub fn start(supervisor: &Supervisor) -> io::Result<Self> {
        let (results, verified) = channel();
        let verify = |(passphrase, hash): Try| Some(hash.verify(&passphrase));
        let worker = QueueWorker::start(supervisor, "coord-passphrase", results, verify)?;
        Ok(Self { worker, verified })
    }

    /// Verifies a try. [`Self::take`] returns the result.
    pub fn verify(&self, passphrase: Passphrase, hash: PassphraseHash) {
        self.worker.put(|tries| tries.0.push((passphrase, hash)));
    }

    /// The next result, if there is one.
    pub fn take(&self) -> Option<Result<bool, HashError>> {
        self.verified.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    #[track_caller]
    fn refused(path: &Path) -> String {
        PassphraseHash::read(path).err().unwrap().to_string()
    }

    // H-22: what is stored is a salted hash of argon2id.
    #[test]
    fn h_22_a_hash_is_of_its_passphrase_alone() {
        let right = passphrase("correct horse");
        let hash = PassphraseHash::of(&right).unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        assert!(hash.verify(&right).unwrap());
        for wrong in ["correct hors", "Correct horse", "correct horse ", ""] {
            assert!(!hash.verify(&passphrase(wrong)).unwrap(), "{wrong:?}");
        }
        assert!(PassphraseHash::of(&right).unwrap() != hash, "each has a salt of its own");
    }

    #[test]
    fn h_22_a_file_is_private_and_replaced_in_one_step() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("config/passphrase");
        assert!(PassphraseHash::read(&path).unwrap().is_none());
        for text in ["correct horse", "another one"] {
            let hash = PassphraseHash::of(&passphrase(text)).unwrap();
            hash.write(&path).unwrap();
            assert!(PassphraseHash::read(&path).unwrap() == Some(hash));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            assert!(!fs::read_to_string(&path).unwrap().contains(text));
        }
        let directory = path.parent().unwrap();
        assert_eq!(fs::metadata(directory).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1, "nothing is left behind");
        remove(&path).unwrap();
        assert!(PassphraseHash::read(&path).unwrap().is_none());
    }

    #[test]
    fn h_22_a_file_that_others_can_reach_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("passphrase");
        let hash = PassphraseHash::of(&passphrase("correct horse")).unwrap();
        hash.write(&path).unwrap();
        for mode in [0o644, 0o640, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let line = refused(&path);
            assert!(line.ends_with(&format!("→ chmod 600 {}", path.display())), "{line}");
            assert!(line.contains(&format!("mode {mode:04o}")), "{line}");
        }
        let other = rustix::process::geteuid().as_raw() + 1;
        let foreign = check_access(&path, other, 0o100_600).err().unwrap().to_string();
        assert!(foreign.contains("belongs to another user"), "{foreign}");
        let elsewhere = scratch.path().join("link");
        std::os::unix::fs::symlink(&path, &elsewhere).unwrap();
        for not_a_file in [elsewhere.as_path(), scratch.path()] {
            let line = refused(not_a_file);
            assert!(line.contains("is not a regular file. Remove it"), "{line}");
        }
    }

    #[test]
    fn a_hash_that_is_none_or_takes_too_long_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("passphrase");
        let sound = PassphraseHash::of(&passphrase("correct horse")).unwrap().0;
        for text in [
            String::new(),
            "correct horse\n".to_owned(),
            sound.replace("argon2id", "argon2i"),
            sound.replace("m=19456", "m=4194304"),
            sound.replace("t=2", "t=1000"),
            sound.rsplit_once('$').unwrap().0.to_owned(),
            "\u{e9}".repeat(5000),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let line = refused(&path);
            assert!(line.contains("does not hold an argon2id hash"), "{text:?}: {line}");
        }
    }
}

//! Reads what is in no argument list, journal or message: addresses and tokens.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coord_wire::notice::Secret;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::answer::Failure;
use crate::budget::Budget;
use crate::program::{self, Call, Surroundings};

/// Longest secret, in bytes.
const BYTES_MAX: usize = 4096;
/// How long a program may take to print one.
const PROGRAM_LIMIT: Duration = Duration::from_secs(2);
/// The permissions of others on a file.
const OTHERS: u32 = 0o077;

/// Reads a secret. The reason of a failure names the file or the program, and nothing that was read.
pub(crate) fn read(secret: &Secret, budget: Budget) -> Result<String, Failure> {
    match secret {
        Secret::Plain(text) => value(text.as_bytes())
            .ok_or_else(|| Failure::refused("an address or token is unusable")),
        Secret::File(path) => from_file(Path::new(path)),
        Secret::Command(words) => from_program(words, budget),
    }
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let name = short(path);
    let refused = |why: &str| Failure::refused(format!("{name}: {why}"));
    if !path.is_absolute() {
        return Err(refused("not an absolute path"));
    }
    // A FIFO must not hold this up, nor a terminal become the one of this process.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags | OFlags::NOCTTY, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => refused("is a symbolic link; name the file itself"),
        error => refused(&std::io::Error::from(error).kind().to_string()),
    })?;
    let stat = fstat(&file).map_err(|error| refused(&error.to_string()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused("is not a regular file"));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("belongs to another user"));
    }
    if stat.st_mode & OTHERS != 0 {
        let mode = stat.st_mode & 0o777;
        return Err(refused(&format!("readable by others (mode {mode:03o}); chmod 600 it")));
    }
    let mut bytes = Vec::new();
    let mut file = File::from(file).take(BYTES_MAX as u64 + 1);
    file.read_to_end(&mut bytes).map_err(|error| refused(&error.kind().to_string()))?;
    if BYTES_MAX < bytes.len() {
        return Err(refused("longer than 4 KiB"));
    }
    value(&bytes).ok_or_else(|| refused("its first line is empty or unusable"))
}

fn from_program(words: &[String], budget: Budget) -> Result<String, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::refused("no program is named for a secret"));
    };
    let call = Call {
        program,
        arguments: arguments.to_vec(),
        input: &[],
        surroundings: Surroundings::User,
        directory: None,
        output_bytes_max: BYTES_MAX,
    };
    let output = program::run(&call, budget.part(PROGRAM_LIMIT))?;
    if !output.status.success() {
        // What it complains about may hold a part of the secret.
        return Err(Failure::new(format!("{program}: {}", output.status)));
    }
    value(&output.stdout)
        .ok_or_else(|| Failure::new(format!("{program}: its first line is empty or unusable")))
}

/// The first line of what was read: text without control characters.
fn value(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let text = std::str::from_utf8(line).ok()?.trim();
    let is_usable = !text.is_empty() && !text.chars().any(char::is_control);
    is_usable.then(|| text.to_owned())
}

/// A path with `~` for the home.
fn short(path: &Path) -> String {
    let below = program::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
    below
        .map_or_else(|| path.to_owned(), |below| PathBuf::from("~").join(below))
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn read_file(path: &Path) -> Result<String, String> {
        let secret = Secret::File(path.to_str().unwrap().to_owned());
        read(&secret, Budget::new(Duration::from_secs(60))).map_err(|failure| {
            assert!(failure.is_refused, "{failure:?}");
            failure.why
        })
    }

    // N-02: a secret is read from a file that nobody else can read.
    #[test]
    fn a_file_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let write = |bytes: &[u8], mode| {
            std::fs::write(&file, bytes).unwrap();
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        };
        write(b"  tk_1\t\nsecond line", 0o600);
        assert_eq!(read_file(&file).unwrap(), "tk_1");
        write(b"tk_1", 0o400);
        assert_eq!(read_file(&file).unwrap(), "tk_1");
        for mode in [0o644, 0o640, 0o602, 0o610] {
            write(b"tk_1", mode);
            let why = read_file(&file).unwrap_err();
            let expected = format!("readable by others (mode {mode:03o}); chmod 600 it");
            assert!(why.ends_with(&expected) && !why.contains("tk_1"), "{why}");
        }
        write(&[b'x'; BYTES_MAX], 0o600);
        assert!(read_file(&file).is_ok());
        for bytes in [&b""[..], b"\ntk_1", b"a\x1bb", b"\xff", &[b'x'; BYTES_MAX + 1]] {
            write(bytes, 0o600);
            assert!(read_file(&file).is_err());
        }
    }

    // H-27
    #[test]
    fn what_is_no_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("token"), dir.path().join("link"));
        std::fs::write(&file, "tk_1").unwrap();
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert!(read_file(&link).unwrap_err().contains("symbolic link"));
        let fifo = dir.path().join("fifo");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        assert!(read_file(&fifo).unwrap_err().contains("is not a regular file"));
        assert!(read_file(dir.path()).unwrap_err().contains("is not a regular file"));
        assert!(read_file(&dir.path().join("none")).unwrap_err().contains("not found"));
        assert!(read_file(Path::new("token")).unwrap_err().contains("not an absolute path"));
    }

    #[test]
    fn a_program_prints_one_line() {
        let budget = Budget::new(Duration::from_secs(60));
        let print = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            read(&Secret::Command(words), budget).map_err(|failure| failure.why)
        };
        assert_eq!(print(&["/bin/echo", "tk_1"]).unwrap(), "tk_1");
        let fails = print(&["/bin/sh", "-c", "echo tk_1; echo tk_1 >&2; exit 3"]).unwrap_err();
        assert!(fails.contains("exit status: 3") && !fails.contains("tk_1"), "{fails}");
        assert!(print(&["/bin/sh", "-c", "yes"]).unwrap_err().contains("/bin/sh: "));
        assert!(print(&["/bin/true"]).unwrap_err().contains("empty"));
        assert!(print(&["echo", "tk_1"]).unwrap_err().contains("not an absolute path"));
        assert!(print(&["/nowhere/x"]).unwrap_err().contains("not found"));
        assert!(print(&[]).is_err());
    }
}

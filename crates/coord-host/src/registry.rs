//! Reads entries of the client's own session registry, `sessions/PID.json` (R-21).
//!
//! The file format is undocumented: anything unexpected is [`Registry::Strange`], never an error. A file is
//! opened without following links and without blocking. It must be a regular file of this user, and is read
//! up to a bound (H-27). The `.key` files beside the entries are never opened. With a root of its own
//! (COORD_HOME), the coordinator reads only below that root, or in directories that the configuration names
//! (H-14).

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use coord_model::{Domain, ProcessRef, Registry, RegistryEntry};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

/// A registry entry that may have changed: its configuration directory and pid.
pub type Change = (String, u32);

/// Longest part of an entry that is read, in bytes; real entries have about 600.
const ENTRY_BYTES_MAX: u64 = 64 * 1024;
/// Longest session id in bytes, as in an envelope; real ids have 36.
const SESSION_BYTES_MAX: usize = 256;
/// Longest text field in characters; longer ones are cut. No path is longer.
const TEXT_CHARS_MAX: usize = 4096;

/// Flags to open a file that another program names (H-27).
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The configuration directories that may be read.
#[derive(Debug, Clone, Default)]
pub struct Readable {
    /// The root from COORD_HOME; without it, every directory of this user may be read.
    pub root: Option<PathBuf>,
    /// The directories in `tracking.config_dirs`.
    pub named: Vec<PathBuf>,
}

impl Readable {
    /// Whether `config_dir` may be read.
    pub fn allows(&self, config_dir: &Path) -> bool {
        let below = |root: &PathBuf| config_dir.starts_with(root);
        // A `..` in the path could lead out of the root.
        let is_plain = !config_dir.components().any(|part| part == Component::ParentDir);
        config_dir.is_absolute()
            && is_plain
            && self.root.as_ref().is_none_or(|root| below(root) || self.named.iter().any(below))
    }
}

/// Opens a configuration directory, and checks that it is a directory of this user.
pub fn open_config_dir(config_dir: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = open(config_dir, flags, Mode::empty()).map_err(|error| error.to_string())?;
    owned(&dir, FileType::Directory)?;
    Ok(dir)
}

fn owned(fd: &OwnedFd, wanted: FileType) -> Result<(), String> {
    let stat = fstat(fd).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) != wanted {
        return Err("is of another kind than expected".to_owned());
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    Ok(())
}

/// Reads the entry of `process` below `config_dir`.
pub fn read(readable: &Readable, config_dir: &Path, process: ProcessRef) -> Registry {
    of_process(read_pid(readable, config_dir, process.pid), process)
}

/// Reduces an entry that was read by pid to what it says about exactly `process`.
pub fn of_process(found: Result<Found, Box<Registry>>, process: ProcessRef) -> Registry {
    match found {
        Ok(found) if found.process == process => found.entry,
        Ok(_) => {
            Registry::Strange { why: "the entry is of another process with that pid".to_owned() }
        }
        Err(entry) => *entry,
    }
}

/// A registry entry and the process that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The process that the entry names.
    pub process: ProcessRef,
    /// The machine and pid namespace of that process, if the entry names them.
    pub domain: Option<Domain>,
    /// The content of the entry.
    pub entry: Registry,
}

/// Reads the entry of whatever process has this pid; the error is what was found instead.
pub fn read_pid(readable: &Readable, config_dir: &Path, pid: u32) -> Result<Found, Box<Registry>> {
    read_entry(&open_sessions(readable, config_dir)?, config_dir, pid)
}

fn unreadable(why: String) -> Box<Registry> {
    Box::new(Registry::Unreadable { why })
}

/// Opens the registry below a configuration directory.
pub(crate) fn open_sessions(
    readable: &Readable,
    config_dir: &Path,
) -> Result<OwnedFd, Box<Registry>> {
    if !readable.allows(config_dir) {
        return Err(unreadable("the directory is outside COORD_HOME and not named".to_owned()));
    }
    let config = open_config_dir(config_dir).map_err(unreadable)?;
    let sessions = openat(&config, "sessions", FLAGS | OFlags::DIRECTORY, Mode::empty())
        .map_err(|error| unreadable(format!("sessions: {error}")))?;
    owned(&sessions, FileType::Directory).map_err(|why| unreadable(format!("sessions {why}")))?;
    Ok(sessions)
}

/// Reads the entry of whatever process has this pid in an open registry.
pub(crate) fn read_entry(
    sessions: &OwnedFd,
    config_dir: &Path,
    pid: u32,
) -> Result<Found, Box<Registry>> {
    let name = format!("{pid}.json");
    let file = match openat(sessions, name.as_str(), FLAGS, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(Box::new(Registry::Absent)),
        Err(error) => return Err(unreadable(format!("{name}: {error}"))),
    };
    owned(&file, FileType::RegularFile)
        .map_err(|why| Box::new(Registry::Strange { why: format!("{name} {why}") }))?;
    // Most entries are short: the first read returns all of it, the second one reports the end.
    let mut text = Vec::with_capacity(4096);
    match std::fs::File::from(file).take(ENTRY_BYTES_MAX).read_to_end(&mut text) {
        Ok(_) => parse(&text, pid, config_dir),
        Err(error) => Err(unreadable(format!("{name}: {error}"))),
    }
}

/// Parses the text of an entry that was found under the name of `pid`.
pub fn parse(text: &[u8], pid: u32, config_dir: &Path) -> Result<Found, Box<Registry>> {
    let strange = |why: &str| Box::new(Registry::Strange { why: why.to_owned() });
    let entry: serde_json::Value = serde_json::from_slice(text).map_err(|_| strange("not JSON"))?;
    // Both numbers and decimal strings are accepted: the format may change with any release.
    let number = |name: &str| {
        let value = entry.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    if number("pid") != Some(u64::from(pid)) {
        return Err(strange("the entry names another pid"));
    }
    let start_time = number("procStart").ok_or_else(|| strange("no procStart"))?;
    let text_of = |name: &str| {
        let text = entry.get(name)?.as_str()?;
        Some(text.chars().take(TEXT_CHARS_MAX).collect::<String>())
    };
    let session_id = text_of("sessionId")
        .filter(|id| (1..=SESSION_BYTES_MAX).contains(&id.len()))
        .ok_or_else(|| strange("the entry names no session"))?;
    let domain = text_of("pidDomain").and_then(|domain| domain_of(&domain));
    let entry = Registry::Present(RegistryEntry {
        session_id,
        status: text_of("status"),
        waiting_for: text_of("waitingFor"),
        changed_ms: number("statusUpdatedAt").unwrap_or(0),
        is_foreign: text_of("kind").is_some_and(|kind| kind != "interactive"),
        is_unrecognized: false,
        cwd: text_of("cwd").unwrap_or_default(),
        // A derived name is the directory's with two digits that are others in the next process.
        name: text_of("name")
            .filter(|name| !name.is_empty() && text_of("nameSource").as_deref() != Some("derived")),
        config_dir: config_dir.to_string_lossy().into_owned(),
    });
    Ok(Found { process: ProcessRef { pid, start_time }, domain, entry })
}

/// Parses `linux:MACHINE-ID:pid:[NAMESPACE]`, as the client writes it.
fn domain_of(text: &str) -> Option<Domain> {
    let rest = text.strip_prefix("linux:")?;
    let (machine, namespace) = rest.split_once(":pid:[")?;
    let pid_ns = namespace.strip_suffix(']')?.parse().ok()?;
    Some(Domain { machine: machine.to_owned(), pid_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const PROCESS: ProcessRef = ProcessRef { pid: 7, start_time: 4711 };

    fn home() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let sessions = dir.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        (dir, sessions)
    }

    fn look(dir: &Path) -> Registry {
        read(&Readable::default(), dir, PROCESS)
    }

    #[test]
    fn the_entry_of_exactly_this_process_counts() {
        let (dir, sessions) = home();
        assert_eq!(look(dir.path()), Registry::Absent);
        std::fs::write(
            sessions.join("7.json"),
            r#"{"pid":7,"procStart":"4711","sessionId":"s1","status":"idle","more":[1]}"#,
        )
        .unwrap();
        let Registry::Present(entry) = look(dir.path()) else { panic!("present") };
        assert_eq!((&*entry.session_id, entry.status.as_deref()), ("s1", Some("idle")));
        // U-03: a name that somebody gave counts, and not one that the client made up.
        for (source, name) in [("user", Some("parser-87")), ("derived", None)] {
            let text = format!(
                r#"{{"pid":7,"procStart":"4711","sessionId":"s1","name":"parser-87","nameSource":"{source}"}}"#
            );
            std::fs::write(sessions.join("7.json"), text).unwrap();
            let Registry::Present(entry) = look(dir.path()) else { panic!("present") };
            assert_eq!(entry.name.as_deref(), name, "{source}");
        }
        let reused = ProcessRef { start_time: 9, ..PROCESS };
        let other = read(&Readable::default(), dir.path(), reused);
        assert!(matches!(other, Registry::Strange { .. }), "{other:?}");
    }

    // H-15
    #[test]
    fn an_entry_says_where_its_process_lives() {
        let here = Domain { machine: "m1".to_owned(), pid_ns: 4_026_531_836 };
        assert_eq!(domain_of("linux:m1:pid:[4026531836]"), Some(here));
        for odd in ["", "linux:m1", "darwin:m1:pid:[7]", "linux:m1:pid:[x]", "linux:m1:pid:7"] {
            assert_eq!(domain_of(odd), None, "{odd}");
        }
    }

    // R-21: an entry of any shape is tolerated.
    #[test]
    fn odd_entries_are_strange_never_an_error() {
        let (dir, sessions) = home();
        let of = |id: &str| format!(r#"{{"pid":7,"procStart":4711,"sessionId":"{id}"}}"#);
        let (empty, endless) = (of(""), of(&"s".repeat(257)));
        for text in [
            "",
            "{",
            "[]",
            "7",
            r#"{"pid":"x"}"#,
            r#"{"pid":7,"procStart":4711}"#,
            empty.as_str(),
            endless.as_str(),
        ] {
            std::fs::write(sessions.join("7.json"), text).unwrap();
            assert!(matches!(look(dir.path()), Registry::Strange { .. }), "{text}");
        }
    }

    // H-27: a FIFO does not block, a link is not followed, and other kinds of files are not read.
    #[test]
    fn only_regular_files_of_ours_are_read() {
        let (dir, sessions) = home();
        let entry = sessions.join("7.json");
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            &entry,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        );
        fifo.unwrap();
        assert!(matches!(look(dir.path()), Registry::Strange { .. }));
        std::fs::remove_file(&entry).unwrap();
        symlink("/dev/zero", &entry).unwrap();
        assert!(matches!(look(dir.path()), Registry::Unreadable { .. }));
    }

    // H-14
    #[test]
    fn with_a_root_only_what_is_below_or_named_is_read() {
        let readable =
            Readable { root: Some("/r".into()), named: vec!["/home/dev/.claude".into()] };
        for (dir, allowed) in [
            ("/r/home/.claude", true),
            ("/home/dev/.claude", true),
            ("/home/dev", false),
            ("/rx", false),
            ("/r/../elsewhere", false),
            ("relative", false),
        ] {
            assert_eq!(readable.allows(Path::new(dir)), allowed, "{dir}");
        }
        assert!(Readable::default().allows(Path::new("/anywhere")));
    }
}

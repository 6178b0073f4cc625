//! Reads one entry of the client's own session registry, `sessions/PID.json` (R-21).
//!
//! The file is undocumented: anything unexpected is [`RegistryEntry::Strange`], never an error. It is
//! opened without following links or blocking, must be a regular file of ours, and is read up to a
//! bound (H-27). Its `.key` neighbours are never opened. With a root of its own (COORD_HOME), the
//! coordinator reads only below that root or what the configuration names (H-14).

use std::io::Read;
use std::path::{Path, PathBuf};

use coord_wire::journal::RegistryEntry;
use coord_wire::stamp::ProcessRef;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

/// An entry is read up to here, in bytes; real ones have about 600.
const ENTRY_BYTES_MAX: u64 = 64 * 1024;

/// Which configuration directories may be read.
#[derive(Debug, Clone, Default)]
pub struct Readable {
    /// COORD_HOME; without one every directory of ours may be read.
    pub root: Option<PathBuf>,
    /// `tracking.config_dirs`.
    pub named: Vec<PathBuf>,
}

impl Readable {
    /// Whether `config_dir` may be read.
    pub fn allows(&self, config_dir: &Path) -> bool {
        let below = |root: &PathBuf| config_dir.starts_with(root);
        config_dir.is_absolute()
            && self.root.as_ref().is_none_or(|root| below(root) || self.named.iter().any(below))
    }
}

/// Opens a configuration directory, checking that it is one and ours.
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

/// Looks for the entry of `process` below `config_dir`.
pub fn read(readable: &Readable, config_dir: &Path, process: ProcessRef) -> RegistryEntry {
    let unreadable = |why: String| RegistryEntry::Unreadable { why };
    if !readable.allows(config_dir) {
        return unreadable("the directory is outside COORD_HOME and not named".to_owned());
    }
    let config = match open_config_dir(config_dir) {
        Ok(config) => config,
        Err(why) => return unreadable(why),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let sessions = match openat(&config, "sessions", flags | OFlags::DIRECTORY, Mode::empty()) {
        Ok(sessions) => sessions,
        Err(error) => return unreadable(format!("sessions: {error}")),
    };
    if let Err(why) = owned(&sessions, FileType::Directory) {
        return unreadable(format!("sessions {why}"));
    }
    let name = format!("{}.json", process.pid);
    let file = match openat(&sessions, name.as_str(), flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return RegistryEntry::Absent,
        Err(error) => return unreadable(format!("{name}: {error}")),
    };
    if let Err(why) = owned(&file, FileType::RegularFile) {
        return RegistryEntry::Strange { why: format!("{name} {why}") };
    }
    let mut text = Vec::new();
    match std::fs::File::from(file).take(ENTRY_BYTES_MAX).read_to_end(&mut text) {
        Ok(_) => parse(&text, process),
        Err(error) => unreadable(format!("{name}: {error}")),
    }
}

fn parse(text: &[u8], process: ProcessRef) -> RegistryEntry {
    let strange = |why: &str| RegistryEntry::Strange { why: why.to_owned() };
    let Ok(entry) = serde_json::from_slice::<serde_json::Value>(text) else {
        return strange("not JSON");
    };
    // Numbers and decimal strings are both taken: the shape may change with any release.
    let number = |name: &str| {
        let value = entry.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    if number("pid") != Some(u64::from(process.pid)) {
        return strange("the entry names another pid");
    }
    if number("procStart") != Some(process.start_time) {
        return strange("the entry is of another process with that pid");
    }
    let text_of = |name: &str| Some(entry.get(name)?.as_str()?.chars().take(256).collect());
    match text_of("sessionId") {
        Some(session_id) => RegistryEntry::Present { session_id, status: text_of("status") },
        None => strange("the entry names no session"),
    }
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

    fn look(dir: &Path) -> RegistryEntry {
        read(&Readable::default(), dir, PROCESS)
    }

    #[test]
    fn the_entry_of_exactly_this_process_counts() {
        let (dir, sessions) = home();
        assert_eq!(look(dir.path()), RegistryEntry::Absent);
        std::fs::write(
            sessions.join("7.json"),
            r#"{"pid":7,"procStart":"4711","sessionId":"s1","status":"idle","more":[1]}"#,
        )
        .unwrap();
        let present =
            RegistryEntry::Present { session_id: "s1".into(), status: Some("idle".into()) };
        assert_eq!(look(dir.path()), present);
        let reused = ProcessRef { start_time: 9, ..PROCESS };
        let other = read(&Readable::default(), dir.path(), reused);
        assert!(matches!(other, RegistryEntry::Strange { .. }), "{other:?}");
    }

    // R-21: tolerated in any shape.
    #[test]
    fn odd_entries_are_strange_never_an_error() {
        let (dir, sessions) = home();
        for text in ["", "{", "[]", "7", r#"{"pid":"x"}"#, r#"{"pid":7,"procStart":4711}"#] {
            std::fs::write(sessions.join("7.json"), text).unwrap();
            assert!(matches!(look(dir.path()), RegistryEntry::Strange { .. }), "{text}");
        }
    }

    // H-27: a FIFO does not block, a link is not followed, another kind is not read.
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
        assert!(matches!(look(dir.path()), RegistryEntry::Strange { .. }));
        std::fs::remove_file(&entry).unwrap();
        symlink("/dev/zero", &entry).unwrap();
        assert!(matches!(look(dir.path()), RegistryEntry::Unreadable { .. }));
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
            ("relative", false),
        ] {
            assert_eq!(readable.allows(Path::new(dir)), allowed, "{dir}");
        }
        assert!(Readable::default().allows(Path::new("/anywhere")));
    }
}

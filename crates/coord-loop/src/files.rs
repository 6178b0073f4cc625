//! The files of a loop, in `.coord-loop/` of its task's directory (H-27).
//!
//! Agents work in that directory, and a repository may bring one of that name: everything is opened from the
//! directory's own descriptor, no link is followed, only regular files are read, a bounded piece of them,
//! and what is written goes into a new file that takes the old one's place.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use coord_core::StatusWord;
use coord_host::task_dir::open_dir;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The directory.
pub const DIR: &str = ".coord-loop";
/// What the agent says of its task.
pub const STATUS: &str = "status";
/// What the next agent has to know.
pub const HANDOFF: &str = "handoff.md";
/// One line per run.
pub const HISTORY: &str = "history.jsonl";
/// What the loop goes on from.
pub const STATE: &str = "state.json";

const LOCK: &str = "lock";
const IGNORE: &str = ".gitignore";
/// A status word with blanks around it.
const STATUS_BYTES_MAX: u64 = 64;
/// A state is some kilobytes.
const STATE_BYTES_MAX: u64 = 1024 * 1024;

/// The files of one loop, and the lock on them.
#[derive(Debug)]
pub struct Files {
    task: OwnedFd,
    dir: OwnedFd,
    path: PathBuf,
    /// Held for life.
    lock: File,
}

/// The directory of a task by its own name: absolute, and without links.
///
/// # Errors
/// It cannot be opened, or its name has a link in it.
pub fn task_dir(dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(dir).context("the directory")?;
    let plain = dir.canonicalize().with_context(|| dir.display().to_string())?;
    let mut named = PathBuf::new();
    for part in dir.components() {
        if part == Component::ParentDir {
            named.pop();
        } else {
            named.push(part);
        }
    }
    if named != plain {
        bail!(
            "{} has a link in its path; name the directory itself: {}",
            dir.display(),
            plain.display()
        );
    }
    if plain.to_str().is_none() {
        bail!("{}: its name is no UTF-8", plain.display());
    }
    Ok(plain)
}

/// The state in a task's directory, with no lock and nothing made.
///
/// # Errors
/// It cannot be read.
pub fn look(task: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let task = open_task(task)?;
    match open_loop_dir(&task) {
        Ok(dir) => Ok(read_end(&dir, STATE, STATE_BYTES_MAX)?),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error).context(DIR),
    }
}

impl Files {
    /// What the agent says of its task. A file that cannot be read says nothing.
    pub(super) fn status(&self) -> Option<StatusWord> {
        let bytes = self.read_end(STATUS, STATUS_BYTES_MAX + 1).ok().flatten()?;
        let is_short = u64::try_from(bytes.len()).is_ok_and(|length| length <= STATUS_BYTES_MAX);
        StatusWord::read(std::str::from_utf8(&bytes).ok().filter(|_| is_short)?)
    }

    /// Makes the directory if there is none, and locks it.
    ///
    /// # Errors
    /// It cannot be made or is not ours, or another loop has it.
    pub fn open(task: &Path) -> anyhow::Result<Self> {
        let path = task.join(DIR);
        let task = open_task(task)?;
        let dir = make(&task).with_context(|| path.display().to_string())?;
        let lock = lock(&dir, &path)?;
        Ok(Self { task, dir, path, lock })
    }

    /// Makes the directory again where an agent took it away.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn ensure(&mut self) -> anyhow::Result<()> {
        let is_there = fstat(&self.dir).is_ok_and(|stat| 0 < stat.st_nlink)
            && open_loop_dir(&self.task).is_ok_and(|now| is_same(&now, &self.dir));
        if !is_there {
            self.dir = make(&self.task).with_context(|| self.path.display().to_string())?;
            self.lock = lock(&self.dir, &self.path)?;
        }
        Ok(())
    }

    /// Where a file lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The state.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn state(&self) -> std::io::Result<Option<Vec<u8>>> {
        read_end(&self.dir, STATE, STATE_BYTES_MAX)
    }

    /// The last `max` bytes of a file; nothing if it is not there.
    ///
    /// # Errors
    /// It cannot be read, or is no regular file.
    pub fn read_end(&self, name: &str, max: u64) -> std::io::Result<Option<Vec<u8>>> {
        read_end(&self.dir, name, max)
    }

    /// Puts a new file in the place of the old one, on the disk.
    ///
    /// # Errors
    /// It cannot be written; the old one is still there.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.put(name, bytes).with_context(|| self.path(name).display().to_string())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let new = format!(".new-{name}");
        match unlinkat(&self.dir, &new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => (),
            Err(error) => return Err(error.into()),
        }
        let mut file = File::from(create(&self.dir, &new)?);
        file.write_all(bytes)?;
        file.sync_all()?;
        renameat(&self.dir, &new, &self.dir, name)?;
        Ok(fsync(&self.dir)?)
    }

    /// Appends one line, on the disk. A line that was cut off before it stays a line of its own.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append_line(&self, name: &str, line: &str) -> anyhow::Result<()> {
        self.add(name, line).with_context(|| self.path(name).display().to_string())
    }

    fn add(&self, name: &str, line: &str) -> std::io::Result<()> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | SAFE;
        let mut file = regular(openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?)?;
        let mut text = String::new();
        if 0 < file.metadata()?.len() {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            text.extend((last != *b"\n").then_some('\n'));
        }
        text.push_str(line);
        text.push('\n');
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

/// Never a link, never a wait.
const SAFE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn open_task(task: &Path) -> anyhow::Result<OwnedFd> {
    let name = task.to_str().context("the directory's name is no UTF-8")?;
    open_dir(name).with_context(|| task.display().to_string())
}

fn open_loop_dir(task: &OwnedFd) -> Result<OwnedFd, Errno> {
    openat(task, DIR, OFlags::RDONLY | OFlags::DIRECTORY | SAFE, Mode::empty())
}

fn make(task: &OwnedFd) -> anyhow::Result<OwnedFd> {
    match mkdirat(task, DIR, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => (),
        Err(error) => return Err(error.into()),
    }
    let dir = open_loop_dir(task)?;
    let stat = fstat(&dir)?;
    if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
        bail!("others than you may write here; remove it");
    }
    match create(&dir, IGNORE) {
        Ok(file) => File::from(file).write_all(b"*\n")?,
        Err(Errno::EXIST) => (),
        Err(error) => return Err(error.into()),
    }
    Ok(dir)
}

fn lock(dir: &OwnedFd, path: &Path) -> anyhow::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | SAFE;
    let file = openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(std::io::Error::from);
    let mut file = file.and_then(regular).with_context(|| path.join(LOCK).display().to_string())?;
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error).with_context(|| path.join(LOCK).display().to_string());
        }
        let mut holder = String::new();
        // Who holds it is for people: without its number the words still say what to do.
        drop((&file).take(16).read_to_string(&mut holder));
        let pid = holder.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (pid {pid})"));
        bail!(
            "a loop runs in this directory already{pid}; wait for its end, or end it with SIGTERM"
        );
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

fn create(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
}

fn regular(file: OwnedFd) -> std::io::Result<File> {
    let file = File::from(file);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::new(ErrorKind::InvalidInput, "no regular file; remove it"))
}

fn read_end(dir: &OwnedFd, name: &str, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = match openat(dir, name, OFlags::RDONLY | SAFE, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut file = regular(file)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(max)))?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn is_same(a: impl AsFd, b: impl AsFd) -> bool {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    fstat(a).is_ok_and(|a| fstat(b).is_ok_and(|b| place(a) == place(b)))
}

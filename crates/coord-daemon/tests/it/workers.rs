//! A whole coordinator, as a process of its own, whose disk fails under it. The disk is the test's; all
//! else is what `coord serve` runs.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_daemon::serve::{Options, serve_on};
use coord_model::stamp::WallMs;
use coord_store::RealDisk;
use coord_store::disk::{Disk, DiskFile};
use coord_wire::paths::Paths;
use serde_json::json;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the coordinator's files lie; set for the process that is one.
const ROOT: &str = "COORD_TEST_ROOT";
const SIGABRT: i32 = 6;

/// The real disk; while there is a file `panic` in the root, a sync panics.
#[derive(Debug, Clone)]
struct Breaking {
    root: PathBuf,
}

#[derive(Debug)]
struct BreakingFile {
    root: PathBuf,
    file: <RealDisk as Disk>::File,
}

impl Disk for Breaking {
    type File = BreakingFile;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir(dir)
    }
    fn open_append(&self, path: &Path) -> io::Result<BreakingFile> {
        Ok(BreakingFile { root: self.root.clone(), file: RealDisk.open_append(path)? })
    }
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        RealDisk.read(path, bytes_max)
    }
    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        RealDisk.read_at(path, offset, len)
    }
    fn len(&self, path: &Path) -> io::Result<u64> {
        RealDisk.len(path)
    }
    fn modified(&self, path: &Path) -> io::Result<WallMs> {
        RealDisk.modified(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn free(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free(dir)
    }
}

impl DiskFile for BreakingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn len(&self) -> io::Result<u64> {
        DiskFile::len(&self.file)
    }
    fn sync(&self) -> io::Result<()> {
        assert!(!self.root.join("panic").exists(), "the disk's driver is at its end");
        self.file.sync()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { root: self.root.clone(), file: self.file.try_clone()? })
    }
}

fn paths(root: &Path) -> Paths {
    Paths::resolve(Some(root), "m", 0, |_| None).unwrap()
}

/// The process that the test below starts; by itself it tests nothing.
#[test]
fn the_coordinator_itself() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let options = Options {
        paths: paths(&root),
        root: Some(root.clone()),
        log_filter: None,
        notify_socket: None,
    };
    let ready = || writeln!(io::stdout(), "\nserving").unwrap();
    serve_on(&Breaking { root }, options, ready).unwrap();
}

fn start(root: &Path) -> Child {
    let mut coordinator = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workers::the_coordinator_itself", "--nocapture"])
        .env(ROOT, root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(coordinator.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "serving"), "it does not start");
    coordinator
}

/// Reports an event, and asks that it be durable; the answer, empty if there is none.
fn report(root: &Path, n: u32) -> String {
    let event = json!({
        "v": 1, "id": format!("{:012x}{n:020x}", 1_700_000_000_000_u64), "session_id": "s",
        "event": "UserPromptSubmit", "emitted_at": "2023-11-14T22:13:20.000Z", "mono_ns": n,
        "boot": "boot", "machine": "machine", "pid": 1,
    });
    let event = event.to_string();
    let mut stream = UnixStream::connect(paths(root).socket()).unwrap();
    let n = event.len();
    let request = format!(
        "POST /v1/events?sync=1 HTTP/1.1\r\nContent-Length: {n}\r\nConnection: close\r\n\r\n{event}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A process that is gone resets the connection, or ends it.
    let _closed = stream.read_to_string(&mut answer);
    answer
}

// H-52
#[test]
fn a_panic_of_the_disk_thread_ends_the_coordinator_and_acknowledges_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut first = start(root.path());
    assert!(report(root.path(), 1).starts_with("HTTP/1.1 204"));
    std::fs::write(root.path().join("panic"), "").unwrap();
    assert_eq!(report(root.path(), 2), "", "what cannot be synced is not acknowledged");
    let ended = first.wait().unwrap();
    assert_eq!(ended.signal(), Some(SIGABRT), "{ended}");
    let log = std::fs::read_to_string(paths(root.path()).logs().join("coord.log")).unwrap();
    assert!(log.contains("thread coord-disk panicked at"), "{log}");
    // The next one serves as ever.
    std::fs::remove_file(root.path().join("panic")).unwrap();
    let mut second = start(root.path());
    assert!(report(root.path(), 3).starts_with("HTTP/1.1 204"));
    second.kill().unwrap();
    second.wait().unwrap();
}

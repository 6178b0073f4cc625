//! The coordinator's log: 5 files of 5 MiB, of which the oldest is deleted (interfaces.md, retention).
//! It contains no prompt, tool input or tool output, because none reaches the coordinator.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const FILE_BYTES_MAX: u64 = 5 * 1024 * 1024;
const FILES: u32 = 5;

/// Starts logging to `dir`. `filter` is the value of COORD_LOG, or else of `log.level`.
pub(crate) fn start(dir: &Path, filter: &str) -> anyhow::Result<()> {
    let file = Rotating::open(dir)?;
    let filter: Targets =
        filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(true)
        .with_timer(Clock)
        .with_writer(Mutex::new(file));
    // A second start in the same process, as in tests, keeps the first log.
    drop(tracing_subscriber::registry().with(lines).with(filter).try_init());
    Ok(())
}

/// Makes a panic on any thread end the process, after one line in the log and on standard error.
///
/// The panic message is left out unless it is a literal of the program: a formatted one may contain a
/// piece of the data that was being processed (G11).
pub(crate) fn abort_on_panic(logs: PathBuf) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
        let message = panic.payload().downcast_ref::<&'static str>();
        let message = message.map_or_else(String::new, |text| format!(": {text}"));
        let line = format!("thread {name} panicked{place}{message}; the coordinator ends");
        // The panicking thread may hold the lock of the log.
        append_line(&logs, &line);
        let _nobody_reads = writeln!(io::stderr(), "coord: {line}");
        std::process::abort();
    }));
}

/// Appends one line to the log in `dir`, bypassing the logger and its lock, for a process that ends
/// after a panic.
fn append_line(dir: &Path, line: &str) {
    let at = coord_model::stamp::rfc3339(coord_store::now().wall_ms);
    if let Ok(mut file) = open(&dir.join("coord.log")) {
        let _nowhere_to_say_so = file.write_all(format!("{at} ERROR coord: {line}\n").as_bytes());
    }
}

struct Clock;

impl tracing_subscriber::fmt::time::FormatTime for Clock {
    fn format_time(
        &self,
        writer: &mut tracing_subscriber::fmt::format::Writer<'_>,
    ) -> std::fmt::Result {
        writer.write_str(&coord_model::stamp::rfc3339(coord_store::now().wall_ms))
    }
}

/// A log file that is renamed when it is full.
struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Rotating {
    fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join("coord.log");
        let file = open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |n: u32| self.path.with_extension(format!("log.{n}"));
        for n in (1..FILES - 1).rev() {
            match std::fs::rename(numbered(n), numbered(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => (),
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        self.file = open(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for Rotating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if FILE_BYTES_MAX < self.bytes {
            self.rotate()?;
        }
        let n = self.file.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_rotated_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Rotating::open(dir.path()).unwrap();
        for n in 0..8u8 {
            log.bytes = FILE_BYTES_MAX + 1;
            log.write_all(&[b'0' + n]).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).ok();
        assert_eq!(read("coord.log").as_deref(), Some("7"));
        assert_eq!(read("coord.log.1").as_deref(), Some("6"));
        assert_eq!(read("coord.log.4").as_deref(), Some("3"));
        assert_eq!(read("coord.log.5"), None);
    }
}

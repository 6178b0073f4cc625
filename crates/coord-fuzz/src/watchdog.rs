//! Ends the program when one execution does not end: nothing else can stop a loop in a parser.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// One execution may take this long; a parser needs milliseconds, a loaded machine seconds.
const EXECUTION_MAX: Duration = Duration::from_secs(20);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    executions: Arc<AtomicU64>,
    _watch_ends_with_it: Sender<()>,
}

impl Watchdog {
    /// Watches executions of which each input stands in the file `current`.
    pub(crate) fn start(target: &'static str, current: &Path) -> Self {
        let executions = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = channel();
        let (seen, current) = (Arc::clone(&executions), current.to_path_buf());
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while receiver.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = seen.load(Ordering::Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if EXECUTION_MAX < since.elapsed() {
                    let line = format!(
                        "{target}: an execution does not end; its input is {}\n",
                        current.display()
                    );
                    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
                    std::process::abort();
                }
            }
        });
        Self { executions, _watch_ends_with_it: sender }
    }

    /// An execution begins.
    pub(crate) fn begin(&self) {
        self.executions.fetch_add(1, Ordering::Relaxed);
    }
}

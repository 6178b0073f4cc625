//! Waiting for what another process does, where no event can be waited for.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything here may take before a test fails. It only bounds a failure, so it is far above
/// what a loaded machine needs; no test may rely on anything taking less.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Before coord ends a living client, a look must be quick (H-08). On a busy machine few are: it looks for 2 s, then again
/// after 1, 2, 4, … 64 s. This is time for ten such tries.
pub const LOOKS_WITHIN: Duration = Duration::from_secs(340);

/// The client continues by itself up to 90 s after the reset of a usage limit (measured).
pub const CLIENT_CONTINUES_WITHIN: Duration = Duration::from_secs(90);

/// Between two looks at first; the longer it takes, the more of the machine is left to what is waited
/// for.
const PAUSE: Duration = Duration::from_millis(10);

/// Asks `look` until it finds what it looks for, at most for [`PATIENCE`]; a failure shows what
/// it saw last instead.
///
/// For facts that only show when asked for, such as the answer of `coord inspect`; everything else
/// has an event of its own.
#[track_caller]
pub fn wait_until<T, E: Debug>(what: &str, look: impl FnMut() -> Result<T, E>) -> T {
    wait_beyond(Duration::ZERO, what, look)
}

/// The same for what the client itself does only after `own` time of its own: [`PATIENCE`] comes on top.
#[track_caller]
pub fn wait_beyond<T, E: Debug>(
    own: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    let limit = own + PATIENCE;
    let begun = Instant::now();
    loop {
        let seen = match look() {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(
            begun.elapsed() < limit,
            "waited {limit:?} in vain for: {what}; last seen: {seen:#?}"
        );
        std::thread::park_timeout((begun.elapsed() / 8).clamp(PAUSE, 10 * PAUSE));
    }
}

/// Waits until `fd` is readable; false if that takes longer than `limit`.
pub fn readable(fd: impl AsFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a minute fits into a timespec");
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => (),
            other => return other.expect("poll on a descriptor that is open") == 1,
        }
    }
}

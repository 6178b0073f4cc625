//! Detects that the machine is being shut down (H-10), by the files that announce it. Decides nothing.
//!
//! - systemd and sysvinit forbid new logins in `/run/nologin`, from five minutes before a scheduled shutdown.
//!   The same file exists while the machine boots, and in some containers always; its text makes the
//!   difference.
//! - `systemd-logind` stores the time of a scheduled shutdown in `/run/systemd/shutdown/scheduled`.
//! - OpenRC marks a shutdown by `/run/openrc/rc.stopping`.
//!
//! If systemd shuts down at once, no file announces it before the sessions end; only D-Bus does. The death of
//! the tmux server, several ends at once, or the next boot then show what it was.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest part of these files that is read, in bytes.
const BYTES_MAX: u64 = 4_096;

/// The root directory of a machine's files.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl Root {
    /// Whether a shutdown is in progress; `wall_ms` is the present wall time in milliseconds since 1970.
    pub fn is_shutting_down(&self, wall_ms: u64) -> bool {
        let no_login = self.text("run/nologin").is_some_and(|text| is_going_down(&text));
        let scheduled = || self.text("run/systemd/shutdown/scheduled");
        no_login
            || scheduled().is_some_and(|text| is_due(&text, wall_ms))
            || self.0.join("run/openrc/rc.stopping").exists()
    }

    fn text(&self, path: &str) -> Option<String> {
        let mut text = Vec::new();
        File::open(self.0.join(path)).ok()?.take(BYTES_MAX).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl From<&Path> for Root {
    fn from(root: &Path) -> Self {
        Self(root.to_owned())
    }
}

/// Whether logins are forbidden because the machine is going down, rather than booting.
fn is_going_down(text: &str) -> bool {
    text.to_ascii_lowercase().contains("going down")
}

/// Whether the time of a scheduled shutdown has come. A dry run, which only warns, does not count.
fn is_due(text: &str, wall_ms: u64) -> bool {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let at_us: Option<u64> = value("USEC=").and_then(|us| us.trim().parse().ok());
    let is_rehearsal = value("MODE=").is_some_and(|mode| mode.starts_with("dry-"));
    at_us.is_some_and(|us| us / 1_000 <= wall_ms) && !is_rehearsal
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_767_225_600_000;
    /// The texts that systemd writes.
    const GOING_DOWN: &str = "System is going down. Unprivileged users are not permitted to log in anymore. For \
                              technical details, see pam_nologin(8).";
    const BOOTING: &str = "System is booting up. Unprivileged users are not permitted to log in yet. Please come \
                           back later. For technical details, see pam_nologin(8).";

    fn with(path: &str, text: &str) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        Root::from(dir.path()).is_shutting_down(NOW_MS)
    }

    fn scheduled(us: u64, mode: &str) -> bool {
        let text = format!("USEC={us}\nWARN_WALL=1\nMODE={mode}\nUID=0\nTTY=pts/0\n");
        with("run/systemd/shutdown/scheduled", &text)
    }

    // H-10
    #[test]
    fn h_10_a_shutdown_is_read_from_the_files_that_announce_it() {
        let empty = tempfile::tempdir().unwrap();
        assert!(!Root::from(empty.path()).is_shutting_down(NOW_MS));
        assert!(with("run/nologin", GOING_DOWN));
        assert!(with("run/nologin", "\r\nThe system is going DOWN for reboot NOW!\r\n"));
        assert!(with("run/openrc/rc.stopping", ""));
        assert!(scheduled(NOW_MS * 1_000, "poweroff"));
    }

    // H-10: a machine that boots, that is closed for logins, or that will be shut down later is not going
    // down.
    #[test]
    fn h_10_what_announces_no_shutdown_is_none() {
        assert!(!with("run/nologin", BOOTING));
        assert!(!with("run/nologin", ""));
        assert!(!with("run/nologin", "Closed for maintenance until Monday.\n"));
        assert!(!scheduled((NOW_MS + 1) * 1_000, "poweroff"));
        assert!(!scheduled(NOW_MS * 1_000, "dry-reboot"));
        assert!(!with("run/systemd/shutdown/scheduled", "USEC=soon\nMODE=reboot\n"));
        assert!(!with("run/systemd/shutdown/scheduled", ""));
    }
}

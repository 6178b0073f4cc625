//! Checks whether the machine has room for another start (H-11).

use std::path::Path;

use rustix::fs::statvfs;

/// Least available memory for a start, in MB; a client takes some hundred MB.
pub const MEMORY_MB_MIN: u64 = 256;
/// Least free disk space for a start, in MB: room for the journal and for the client's own files.
const DISK_MB_MIN: u64 = 64;

/// Describes the shortage, if memory or disk space in `dir` is too low. A value that cannot be read counts as
/// sufficient: a start without enough room fails by itself, and reports it.
pub fn want(dir: &Path, memory_mb_min: u64) -> Option<String> {
    let memory_mb = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let disk_mb =
        statvfs(dir).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) / (1024 * 1024));
    wanting(memory_mb, disk_mb, memory_mb_min)
}

fn wanting(memory_mb: Option<u64>, disk_mb: Option<u64>, memory_mb_min: u64) -> Option<String> {
    let is_wanting = memory_mb.is_some_and(|mb| mb < memory_mb_min)
        || disk_mb.is_some_and(|mb| mb < DISK_MB_MIN);
    let number = |mb: Option<u64>| mb.map_or("unknown".to_owned(), |mb| format!("{mb} MB"));
    is_wanting.then(|| {
        format!(
            "memory available {} (needed {memory_mb_min} MB), disk free {} (needed {DISK_MB_MIN} MB)",
            number(memory_mb),
            number(disk_mb)
        )
    })
}

/// MemAvailable in the text of `/proc/meminfo`, in MB.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-11
    #[test]
    fn too_little_memory_or_disk_is_told_with_both_numbers() {
        assert_eq!(wanting(Some(256), Some(64), 256), None);
        assert_eq!(wanting(None, None, 256), None);
        let said = "memory available 255 MB (needed 256 MB), disk free 64 MB (needed 64 MB)";
        assert_eq!(wanting(Some(255), Some(64), 256).as_deref(), Some(said));
        let said = "memory available unknown (needed 256 MB), disk free 63 MB (needed 64 MB)";
        assert_eq!(wanting(None, Some(63), 256).as_deref(), Some(said));
    }

    #[test]
    fn this_machine_is_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2));
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert!(available(&text).is_some());
        let want = want(Path::new("/nowhere"), 256);
        assert!(want.is_none_or(|want| want.contains("disk free unknown")));
    }
}

//! Processes of a run whose loop was killed: found by a variable that the run gave them.

use std::fs::File;
use std::io::Read;

const ENVIRONMENT_BYTES_MAX: u64 = 1024 * 1024;

/// The pids of processes of ours that have this variable with this value. Those that cannot be read are not
/// ours.
pub(super) fn survivors(variable: &str, value: &str) -> Vec<u32> {
    let sought = format!("{variable}={value}");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<u32> = processes
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && has(*pid, sought.as_bytes()))
        .collect();
    found.sort_unstable();
    found
}

fn has(pid: u32, sought: &[u8]) -> bool {
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut text = Vec::new();
    let read = file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut text);
    read.is_ok() && text.split(|byte| *byte == 0).any(|one| one == sought)
}

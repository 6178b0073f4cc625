//! Facts about the machine, the boot and this process, read once at start.

use std::path::Path;

use coord_model::Host;
use coord_wire::exchange::pid_namespace;
use coord_wire::paths::machine_id;
use rustix::system::uname;
use rustix::time::{ClockId, clock_gettime};

/// Who and where this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Machine id.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// Kernel boot id; empty where the kernel does not tell.
    pub boot: String,
    /// Wall time of the boot, milliseconds since 1970.
    pub boot_at_ms: u64,
    /// Inode of the pid namespace; 0 where it is not to be had.
    pub pid_ns: u64,
    /// Effective user id.
    pub uid: u32,
}

impl Here {
    /// Reads them; `wall_ms` is the wall time now.
    pub fn read(wall_ms: u64) -> Self {
        let host = uname().nodename().to_string_lossy().into_owned();
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
        let since_boot = clock_gettime(ClockId::Boottime);
        let since_boot_ms = u64::try_from(since_boot.tv_sec).unwrap_or(0).saturating_mul(1000);
        Self {
            machine: machine_id(read("/etc/machine-id").as_deref(), &host),
            boot: read("/proc/sys/kernel/random/boot_id")
                .map_or_else(String::new, |id| id.trim().to_owned()),
            boot_at_ms: wall_ms.saturating_sub(since_boot_ms),
            pid_ns: pid_namespace().unwrap_or(0),
            uid: rustix::process::geteuid().as_raw(),
            host,
        }
    }

    /// The part that the core judges by.
    pub fn for_core(&self) -> Host {
        Host {
            machine: self.machine.clone(),
            boot: self.boot.clone(),
            boot_at_ms: self.boot_at_ms,
            pid_ns: self.pid_ns,
        }
    }
}

//! Facts about the machine, the boot and this process, which are read once at start.

use std::path::Path;

use coord_model::Host;
use coord_wire::exchange::pid_namespace;
use coord_wire::paths::machine_id;
use rustix::system::uname;
use rustix::time::{ClockId, clock_gettime};

/// The machine, boot, namespace and user of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Machine id.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// Kernel boot id; empty if the kernel does not report one.
    pub boot: String,
    /// Wall time of the boot, in milliseconds since 1970.
    pub boot_at_ms: u64,
    /// Inode number of the pid namespace; 0 if it is unavailable.
    pub pid_ns: u64,
    /// Effective user id.
    pub uid: u32,
}

impl Here {
    /// Reads the facts; `wall_ms` is the present wall time in milliseconds since 1970.
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

    /// The facts on which the core bases its decisions.
    pub fn for_core(&self) -> Host {
        Host {
            machine: self.machine.clone(),
            boot: self.boot.clone(),
            boot_at_ms: self.boot_at_ms,
            pid_ns: self.pid_ns,
        }
    }
}

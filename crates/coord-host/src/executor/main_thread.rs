//! Reads how long the main thread of a process has run, which distinguishes a client that hangs from one that
//! waits (H-07).

use std::fs::read_to_string;
use std::path::Path;

use coord_model::ProcessRef;

use crate::process;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Total time for which the main thread has run, in nanoseconds. None if it is unknown, or if the process is
/// stopped: by Ctrl-Z, by a debugger, or through its control group.
pub(super) fn ran_ns(process: ProcessRef) -> Option<u64> {
    let pid = process.pid;
    // proc(5): time on the processor, time in the run queue and number of time slices, for the thread `pid`.
    let text = read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let ran_ns = text.split(' ').next()?.parse().ok()?;
    let groups = read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let stat = process::stat(pid).filter(|stat| stat.start_time == process.start_time)?;
    let is_stopped = stat.is_stopped || stat.is_zombie || is_frozen(Path::new(GROUPS), &groups);
    (!is_stopped).then_some(ran_ns)
}

/// Whether one of these groups, as listed in `/proc/PID/cgroup`, is frozen (cgroups(7)).
fn is_frozen(mount: &Path, groups: &str) -> bool {
    groups.lines().any(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return false };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            let events = read_to_string(mount.join(path).join("cgroup.events"));
            events.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
        } else if controllers.split(',').any(|one| one == "freezer") {
            let state = read_to_string(mount.join("freezer").join(path).join("freezer.state"));
            state.is_ok_and(|state| state.trim() != "THAWED")
        } else {
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use coord_model::ProcessRef;
    use rustix::process::{Pid, Signal, kill_process};

    use super::{is_frozen, ran_ns};
    use crate::process;

    // H-07: a waiting process that never wakes does not advance; a stopped one is not reported.
    #[test]
    fn what_runs_moves_what_waits_does_not_what_is_stopped_is_not_told() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let start_time = process::stat(pid).unwrap().start_time;
        let waiting = ProcessRef { pid, start_time };
        // Wait until the process waits.
        let still = std::iter::from_fn(|| Some((ran_ns(waiting), ran_ns(waiting))))
            .find(|(one, other)| one.is_some() && one == other);
        assert!(still.is_some());
        assert_eq!(ran_ns(ProcessRef { start_time: start_time + 1, ..waiting }), None);

        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        while !process::stat(pid).unwrap().is_stopped {
            std::thread::yield_now();
        }
        assert_eq!(ran_ns(waiting), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ran_ns(waiting), None);
    }

    // H-07: a process that its user has frozen does not hang.
    #[test]
    fn a_frozen_group_is_told_of() {
        let mount = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = mount.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("user.slice/cgroup.events", "populated 1\nfrozen 1\n");
        write("other/cgroup.events", "populated 1\nfrozen 0\n");
        write("freezer/box/freezer.state", "FROZEN\n");
        write("freezer/free/freezer.state", "THAWED\n");
        for (groups, frozen) in [
            ("0::/user.slice\n", true),
            ("0::/other\n", false),
            ("0::/none\n", false),
            ("4:memory:/box\n3:cpu,freezer:/box\n", true),
            ("3:freezer:/free\n4:memory:/box\n", false),
            ("odd\n", false),
        ] {
            assert_eq!(is_frozen(mount.path(), groups), frozen, "{groups}");
        }
    }
}

//! Reads how a living harness was started, so that its session can be resumed in the same way (S0-25d): the
//! program and options, the directory, the parent, and the names of the variables that choose the account.
//!
//! Only what is understood is kept (H-19). If anything is not, the launch is `unfit` and has no options at
//! all. The user's prompt is never kept (G11), and neither is any variable's value.

pub mod options;
mod parent;
pub mod variables;
mod words;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coord_model::{Launch, Place, ProcessRef};
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

use crate::process::{CMDLINE_BYTES_MAX, stat};

/// Longest environment that is read, in bytes; most have a few KiB.
const ENVIRON_BYTES_MAX: usize = 1024 * 1024;
/// Programs that run a client that is a script.
pub(crate) const INTERPRETERS: [&str; 6] = ["node", "nodejs", "bun", "sh", "bash", "dash"];
/// Suffix that the kernel appends to the path of an executable that was deleted.
pub(crate) const DELETED: &str = " (deleted)";

/// Reads how exactly this process was started; none if it is gone or unreadable.
pub fn of(process: ProcessRef) -> Option<Launch> {
    let own = stat(process.pid).filter(|stat| stat.start_time == process.start_time)?;
    let parent = parent::of(own)?;
    let cwd = place(process.pid)?;
    let told = told(process.pid, &cwd.path);
    // What was read by pid belongs to this process only if it still has the pid and the same parent.
    let again = stat(process.pid)?;
    if (again.start_time, again.ppid) != (own.start_time, own.ppid) {
        return None;
    }
    let (told, unfit) = match told {
        Ok(told) => (told, None),
        Err(why) => (Told::default(), Some(why)),
    };
    let Told { program, flags, variables } = told;
    let config_dir = config_dir_of(process);
    Some(Launch { parent, program, flags, unfit, cwd, variables, config_dir })
}

/// The configuration directory from the environment of exactly this process (H-45).
pub fn config_dir_of(process: ProcessRef) -> Option<String> {
    let environ = whole(process.pid, "environ", ENVIRON_BYTES_MAX).ok()?;
    stat(process.pid).filter(|stat| stat.start_time == process.start_time)?;
    variables::config_dir(&environ)
}

/// The parts of a launch that a resume can repeat.
#[derive(Debug, Default)]
struct Told {
    program: Vec<String>,
    flags: Vec<String>,
    variables: Vec<String>,
}

/// Reads the command line and the environment, or says why they cannot be repeated.
fn told(pid: u32, cwd: &str) -> Result<Told, String> {
    let executable = executable(pid)?;
    let cmdline = whole(pid, "cmdline", CMDLINE_BYTES_MAX)?;
    let (program, flags) = parted(&executable, split(&cmdline)?, cwd)?;
    let variables = variables::names(&whole(pid, "environ", ENVIRON_BYTES_MAX)?)?;
    Ok(Told { program, flags, variables })
}

/// Splits a command line into the program and the client's options that are kept.
fn parted(
    executable: &Path,
    words: Vec<String>,
    cwd: &str,
) -> Result<(Vec<String>, Vec<String>), String> {
    let mut words = words.into_iter().skip(1);
    let name = executable.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mut program = vec![text(executable.as_os_str())?];
    if INTERPRETERS.contains(&name) {
        let script = words.next().filter(|word| !word.is_empty() && !word.starts_with('-'));
        let script = script.ok_or_else(|| format!("{name} was given options of its own"))?;
        program.push(text(Path::new(cwd).join(script).as_os_str())?);
    }
    let words: Vec<String> = words.collect();
    Ok((program, words::kept(&words)?))
}

fn executable(pid: u32) -> Result<PathBuf, String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe"))
        .map_err(|_| "its executable cannot be read".to_owned())?;
    if path.as_os_str().as_bytes().ends_with(DELETED.as_bytes()) {
        return Err("its executable was deleted or replaced".to_owned());
    }
    Ok(path)
}

/// Reads a whole file of `/proc/PID`; an error if it is longer than `bytes_max`.
fn whole(pid: u32, name: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
    let unreadable = |_| format!("its {name} cannot be read");
    let file = File::open(format!("/proc/{pid}/{name}")).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes_max < bytes.len() {
        return Err(format!("its {name} is longer than {} KiB", bytes_max / 1024));
    }
    Ok(bytes)
}

/// Splits a command line into words, each of which ends with a zero byte.
fn split(cmdline: &[u8]) -> Result<Vec<String>, String> {
    let cmdline = cmdline.strip_suffix(b"\0").ok_or("its command line cannot be read")?;
    let words = cmdline.split(|byte| *byte == 0);
    words.map(|word| text(OsStr::from_bytes(word))).collect()
}

fn text(word: &OsStr) -> Result<String, String> {
    word.to_str().map(str::to_owned).ok_or_else(|| "its command line is no UTF-8".to_owned())
}

/// The working directory of a process. A network file system is not queried: what the kernel has cached is
/// enough.
fn place(pid: u32) -> Option<Place> {
    let link = format!("/proc/{pid}/cwd");
    let path = std::fs::read_link(&link).ok()?.into_os_string().into_string().ok()?;
    let seen = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    let device = makedev(seen.stx_dev_major, seen.stx_dev_minor);
    Some(Place { path, device, inode: seen.stx_ino })
}

#[cfg(test)]
mod tests;

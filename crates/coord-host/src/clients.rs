//! Recognizes clients by their executables (H-46): a process that only claims to be a client is none.
//!
//! The client's own program is known by the name or the location of its file. A client that runs under an
//! interpreter is known by its script. Other programs count if `coord install` recorded them or the
//! configuration names them.

use std::ffi::OsStr;
use std::fs::read_link;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use coord_model::ProcessRef;

use crate::launch::{DELETED, INTERPRETERS};
use crate::process::{stat, words};

/// File names of the client's executable.
const NAMES: [&str; 2] = ["claude", "claude.exe"];
/// The end of the directory path in which the client's own installer puts executables named by version.
const VERSIONS: [&str; 2] = ["claude", "versions"];
/// The package whose scripts are the client.
const PACKAGE: [&str; 2] = ["@anthropic-ai", "claude-code"];
/// Programs that run the client's script.
const ENGINES: [&str; 3] = ["node", "nodejs", "bun"];

/// The set of programs that count as clients.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    named: Vec<PathBuf>,
}

impl Clients {
    /// Creates the set of the known clients and those in `named`, which are absolute paths of executables and
    /// scripts.
    pub fn new(named: impl IntoIterator<Item = PathBuf>) -> Self {
        let resolved = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Self { named: named.into_iter().map(resolved).collect() }
    }

    /// Checks that exactly this process is a client.
    ///
    /// # Errors
    /// The process is no client: the path of its program, or an empty string if the path is unknown.
    pub fn recognize(&self, process: ProcessRef) -> Result<(), String> {
        let recognized = self.recognize_running(process.pid);
        let is_it = stat(process.pid).is_some_and(|stat| stat.start_time == process.start_time);
        if is_it { recognized } else { Err(recognized.err().unwrap_or_default()) }
    }

    /// Checks that the process with this pid is a client. For callers that hold a pidfd, so that the pid
    /// cannot be reused.
    ///
    /// # Errors
    /// The same as for [`Self::recognize`].
    pub fn recognize_running(&self, pid: u32) -> Result<(), String> {
        let Some(executable) = executable(pid) else { return Err(String::new()) };
        let script = script(pid, &executable);
        if self.is_client(&executable, script.as_deref()) {
            return Ok(());
        }
        Err(script.unwrap_or(executable).to_string_lossy().into_owned())
    }

    fn is_client(&self, executable: &Path, script: Option<&Path>) -> bool {
        let is_named = |path: &Path| self.named.iter().any(|named| named == path);
        let runs_client = || {
            let name = name(executable);
            let is_engine = ENGINES.iter().any(|engine| name == *engine);
            script
                .is_some_and(|script| is_named(script) || (is_engine && is_clients_script(script)))
        };
        NAMES.iter().any(|known| name(executable) == *known)
            || executable
                .parent()
                .is_some_and(|dir| dir.ends_with(VERSIONS.iter().collect::<PathBuf>()))
            || is_named(executable)
            || runs_client()
    }
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn is_clients_script(script: &Path) -> bool {
    let parts: Vec<&OsStr> = script.iter().collect();
    let is_in_package = parts.windows(2).any(|pair| pair == PACKAGE.map(OsStr::new));
    is_in_package || NAMES.iter().any(|known| name(script) == *known)
}

/// The path of a process's executable; if the file was replaced since the start, its path at that time.
fn executable(pid: u32) -> Option<PathBuf> {
    let path = read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_vec();
    let path = path.strip_suffix(DELETED.as_bytes()).map_or(path.clone(), <[u8]>::to_vec);
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

/// The script that an interpreter runs, if it is the first word after the interpreter on the command line.
fn script(pid: u32, executable: &Path) -> Option<PathBuf> {
    if !INTERPRETERS.iter().any(|known| name(executable) == *known) {
        return None;
    }
    let word = words(pid)?.into_iter().nth(1)?;
    let script = Path::new(OsStr::from_bytes(&word));
    if word.is_empty() || word.starts_with(b"-") {
        return None;
    }
    let script = read_link(format!("/proc/{pid}/cwd")).ok()?.join(script);
    Some(script.canonicalize().unwrap_or(script))
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-46: recognized by the executable, by a client's script, or because a person named it.
    #[test]
    fn a_client_is_known_by_its_executable_or_its_script() {
        let clients = Clients { named: vec!["/opt/own/cc".into(), "/opt/own/cc.sh".into()] };
        for (executable, script, is_client) in [
            ("/home/dev/.local/share/claude/versions/2.1.328", None, true),
            ("/lib/node_modules/@anthropic-ai/claude-code-linux-x64/claude", None, true),
            ("/usr/bin/node", Some("/lib/node_modules/@anthropic-ai/claude-code/cli.js"), true),
            ("/usr/bin/bun", Some("/home/dev/.bun/bin/claude"), true),
            ("/opt/own/cc", None, true),
            ("/usr/bin/dash", Some("/opt/own/cc.sh"), true),
            ("/usr/bin/dash", Some("/home/dev/bin/claude"), false),
            ("/usr/bin/node", Some("/home/dev/server.js"), false),
            ("/usr/bin/node", None, false),
            ("/usr/bin/python3.13", None, false),
            ("/usr/bin/sleep", None, false),
        ] {
            let script = script.map(Path::new);
            assert_eq!(clients.is_client(Path::new(executable), script), is_client, "{executable}");
        }
    }

    #[test]
    fn a_process_is_recognized_by_what_it_runs() {
        let pid = std::process::id();
        let process = ProcessRef { pid, start_time: stat(pid).unwrap().start_time };
        let own = std::env::current_exe().unwrap();
        assert!(Clients::new([own.clone()]).recognize(process).is_ok());
        let told = Clients::default().recognize(process).unwrap_err();
        assert_eq!(Path::new(&told), own.canonicalize().unwrap());
        let reused = ProcessRef { start_time: process.start_time + 1, ..process };
        assert!(Clients::new([own]).recognize(reused).is_err());
    }
}

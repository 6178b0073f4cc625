//! The locations of coord's files (interfaces.md, Files and environment).
//!
//! Hooks and programs must agree on these without reading a file, so everything follows from the root
//! (or the XDG directories), the machine id and the user id.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket, in bytes, without its final zero byte (`sun_path`).
const SOCKET_PATH_BYTES_MAX: usize = 103;

/// coord's directories for one user on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The directory of `config.toml`.
    pub config: PathBuf,
    /// The state of all machines that share this home, with one directory per machine.
    pub state_base: PathBuf,
    /// The state of this machine: journal, snapshot, spool, lock files, logs.
    pub state: PathBuf,
    /// The directory of the socket and of the note about a missed exchange; mode 0700.
    pub run: PathBuf,
}

/// Why the directories cannot be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathsError {
    /// Neither a root nor the XDG variables nor HOME is set to an absolute path.
    NoHome,
    /// The root is not an absolute path.
    RelativeRoot,
    /// A directory that a hook was given is not an absolute path.
    RelativeDirectory,
}

impl core::fmt::Display for PathsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoHome => "HOME is not set to an absolute path; set HOME or COORD_HOME",
            Self::RelativeRoot => "COORD_HOME and --root need an absolute path",
            Self::RelativeDirectory => "--config, --state and --run need an absolute path",
        })
    }
}

impl core::error::Error for PathsError {}

impl Paths {
    /// The directories under `root` (`--root` or `COORD_HOME`), or else the XDG directories.
    ///
    /// `env` looks up a variable; `machine` is the [`machine_id`]; `uid` is the effective user id.
    pub fn resolve(
        root: Option<&Path>,
        machine: &str,
        uid: u32,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PathsError> {
        let (config, state_base, run) = match root {
            Some(root) if root.is_absolute() => {
                (root.join("config"), root.join("state"), root.join("run"))
            }
            Some(_) => return Err(PathsError::RelativeRoot),
            None => {
                let absolute =
                    |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
                let home = absolute("HOME");
                let below = |variable, default: &str| {
                    absolute(variable)
                        .or_else(|| home.as_ref().map(|home| home.join(default)))
                        .map(|base| base.join("coord"))
                        .ok_or(PathsError::NoHome)
                };
                let state_base = below("XDG_STATE_HOME", ".local/state")?;
                let run = absolute("XDG_RUNTIME_DIR")
                    .map_or_else(|| state_base.join(machine).join("run"), |dir| dir.join("coord"));
                (below("XDG_CONFIG_HOME", ".config")?, state_base, run)
            }
        };
        let state = state_base.join(machine);
        Ok(Self { config, state_base, state, run: short_enough(run, uid) })
    }

    /// The directories that `coord install` wrote into the arguments of the hooks (H-48); nothing else
    /// decides them. Without `run`, the run directory is below the state of this machine.
    pub fn named(
        config: &Path,
        state_base: &Path,
        run: Option<&Path>,
        machine: &str,
        uid: u32,
    ) -> Result<Self, PathsError> {
        if ![Some(config), Some(state_base), run].into_iter().flatten().all(Path::is_absolute) {
            return Err(PathsError::RelativeDirectory);
        }
        let state = state_base.join(machine);
        let run = run.map_or_else(|| state.join("run"), Path::to_owned);
        let (config, state_base) = (config.to_owned(), state_base.to_owned());
        Ok(Self { config, state_base, state, run: short_enough(run, uid) })
    }

    /// The run directory, if it does not follow from the state directory. The state directory of another
    /// machine that shares this home has a different name.
    pub fn named_run(&self, uid: u32) -> Option<&Path> {
        let is_derived = self.run == short_enough(self.state.join("run"), uid);
        (!is_derived).then_some(&self.run)
    }

    /// The path of `config.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// The file with the hash of the passphrase (H-22).
    pub fn passphrase(&self) -> PathBuf {
        self.config.join("passphrase")
    }

    /// The list of other machines' keys, and what each may do (F-06).
    pub fn fleet_allow(&self) -> PathBuf {
        self.config.join("fleet-allow")
    }

    /// The directory of what this machine is and knows in a fleet.
    pub fn fleet(&self) -> PathBuf {
        self.state.join("fleet")
    }

    /// The file with this machine's keys in a fleet.
    pub fn fleet_identity(&self) -> PathBuf {
        self.fleet().join("identity")
    }

    /// The directory with a file for each machine of the fleet.
    pub fn fleet_machines(&self) -> PathBuf {
        self.fleet().join("machines")
    }

    /// What the relay says of its link.
    pub fn fleet_status(&self) -> PathBuf {
        self.fleet().join("status.json")
    }

    /// The file with the journal's name in a fleet. It goes where the journal goes.
    pub fn incarnation(&self) -> PathBuf {
        self.journal().join("incarnation")
    }

    /// The lock that the relay holds for life.
    pub fn fleet_lock(&self) -> PathBuf {
        self.fleet().join("relay.lock")
    }

    /// The coordinator's socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join("coord.sock")
    }

    /// The note about a missed exchange; its modification time counts (H-37).
    pub fn miss(&self) -> PathBuf {
        self.run.join("miss")
    }

    /// The directory of the spool.
    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    /// The directory of the journal's segments.
    pub fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// The lock that the coordinator holds for life; its text names the holder for people.
    pub fn coordinator_lock(&self) -> PathBuf {
        self.state.join("coordinator.lock")
    }

    /// The lock that readers share, and that is exclusive during the rotation of the snapshot.
    pub fn state_lock(&self) -> PathBuf {
        self.state.join("state.lock")
    }

    /// A file that exists after `coord down`: only `coord up` then starts the coordinator (R-16).
    pub fn down(&self) -> PathBuf {
        self.state.join("down")
    }

    /// The record, written by `coord install` and `coord up`, of who may start the coordinator (H-15).
    pub fn install_record(&self) -> PathBuf {
        self.state.join("install.json")
    }

    /// The key of digests of prompts and tool inputs: 16 random bytes.
    pub fn digest_key(&self) -> PathBuf {
        self.state.join("digest.key")
    }

    /// The directory of the texts of messages, with one file each.
    pub fn messages(&self) -> PathBuf {
        self.state.join("messages")
    }

    /// The directory of the headless runs' files.
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// The directory of the conversations whose next resume has to prove itself (S3-23).
    pub fn quarantine(&self) -> PathBuf {
        self.state.join("quarantine")
    }

    /// The directory of the coordinator's log files.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }
}

/// Replaces a run directory whose socket path would be too long by a short private one in `/tmp`.
fn short_enough(run: PathBuf, uid: u32) -> PathBuf {
    let bytes = run.as_os_str().as_bytes();
    if bytes.len() + "/coord.sock".len() <= SOCKET_PATH_BYTES_MAX {
        return run;
    }
    // FNV-1a: it only has to tell apart a few long paths of one user.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    PathBuf::from(format!("/tmp/coord-{uid}-{hash:016x}"))
}

/// Prefix of a machine id that was made from the host name, because the machine has none.
pub const MADE_UP_ID: &str = "host-";

/// The machine's id, from the text of `/etc/machine-id`, or else from the host name. The result is safe
/// as a file name.
pub fn machine_id(machine_id_file: Option<&str>, nodename: &str) -> String {
    let id = machine_id_file.map_or("", str::trim);
    if 8 <= id.len() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return id.to_owned();
    }
    let mut name = String::from(MADE_UP_ID);
    name.extend(nodename.chars().take(64).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xdg(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn a_root_moves_everything() {
        let paths = Paths::resolve(Some(Path::new("/x")), "m1234567", 5, xdg(&[("HOME", "/h")]));
        let paths = paths.unwrap();
        assert_eq!(paths.config_file(), Path::new("/x/config/config.toml"));
        assert_eq!(paths.state, Path::new("/x/state/m1234567"));
        assert_eq!(paths.socket(), Path::new("/x/run/coord.sock"));
    }

    #[test]
    fn without_a_runtime_directory_the_socket_lies_under_state() {
        let paths = Paths::resolve(None, "m1234567", 5, xdg(&[("HOME", "/h")])).unwrap();
        assert_eq!(paths.config_file(), Path::new("/h/.config/coord/config.toml"));
        assert_eq!(paths.socket(), Path::new("/h/.local/state/coord/m1234567/run/coord.sock"));
        let paths = Paths::resolve(None, "m", 5, xdg(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r")]));
        assert_eq!(paths.unwrap().socket(), Path::new("/r/coord/coord.sock"));
    }

    #[test]
    fn relative_directories_are_refused_or_ignored() {
        let relative = Paths::resolve(Some(Path::new("x")), "m", 5, xdg(&[]));
        assert_eq!(relative, Err(PathsError::RelativeRoot));
        assert_eq!(Paths::resolve(None, "m", 5, xdg(&[("HOME", "h")])), Err(PathsError::NoHome));
    }

    #[test]
    fn a_long_root_gets_a_short_socket() {
        let long = format!("/{}", "d".repeat(200));
        let paths = Paths::resolve(Some(Path::new(&long)), "m", 5, xdg(&[])).unwrap();
        assert!(paths.socket().starts_with("/tmp"), "{paths:?}");
        assert!(paths.socket().as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        let other = format!("/{}", "e".repeat(200));
        assert_ne!(
            paths.run,
            Paths::resolve(Some(Path::new(&other)), "m", 5, xdg(&[])).unwrap().run
        );
    }

    // H-48: a hook derives the same directories from its arguments as `coord install` did from
    // the environment.
    #[test]
    fn named_directories_are_those_that_were_resolved() {
        let long = format!("/{}", "d".repeat(200));
        let environments = [
            vec![("HOME", "/h")],
            vec![("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r")],
            vec![("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")],
            vec![("HOME", &*long)],
        ];
        for environment in environments {
            let env = |name: &str| {
                environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            };
            for root in [None, Some(Path::new("/x"))] {
                let paths = Paths::resolve(root, "m1234567", 5, env).unwrap();
                let run = paths.named_run(5);
                let named = Paths::named(&paths.config, &paths.state_base, run, "m1234567", 5);
                assert_eq!(named, Ok(paths.clone()));
            }
        }
        let (absolute, relative) = (Path::new("/a"), Path::new("a"));
        for (config, state, run) in [
            (relative, absolute, absolute),
            (absolute, relative, absolute),
            (absolute, absolute, relative),
        ] {
            let named = Paths::named(config, state, Some(run), "m1234567", 5);
            assert_eq!(named, Err(PathsError::RelativeDirectory));
        }
    }

    #[test]
    fn machine_ids_are_safe_file_names() {
        assert_eq!(machine_id(Some("3d1219c7c4c5404a\n"), "h"), "3d1219c7c4c5404a");
        assert_eq!(machine_id(Some("../../etc/x"), "a b/c"), "host-a-b-c");
        assert_eq!(machine_id(None, "vm"), "host-vm");
    }
}

//! What every verb starts from: where the files lie, who and where this process is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use coord_host::here::Here;
use coord_model::Now;
use coord_store::read_small_file;
use coord_wire::api::{InstallRecord, RECORDED_VARIABLES};
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use coord_wire::paths::Paths;

/// The environment of one call.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// `--root`, else COORD_HOME.
    pub(crate) root: Option<PathBuf>,
    /// Where the files lie.
    pub(crate) paths: Paths,
    /// What the last installation recorded in this state directory.
    recorded: Option<InstallRecord>,
    /// Facts about machine and process.
    pub(crate) here: Here,
    /// The time of the call.
    pub(crate) now: Now,
}

/// A variable of the environment; an empty one counts as not set.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl Context {
    /// The same at this moment.
    pub(crate) fn at_present(&self) -> Self {
        Self { now: coord_store::now(), ..self.clone() }
    }

    /// Reads the environment.
    pub(crate) fn from_environment(root: Option<PathBuf>) -> anyhow::Result<Self> {
        let now = coord_store::now();
        let here = Here::read(now.wall_ms);
        let root = match root {
            Some(root) => Some(std::path::absolute(&root).context("--root")?),
            None => variable("COORD_HOME").map(PathBuf::from),
        };
        let paths = Paths::resolve(root.as_deref(), &here.machine, here.uid, variable)?;
        let recorded = read_small_file(&paths.install_record(), SMALL_FILE_BYTES_MAX).ok();
        let recorded = recorded
            .and_then(|text| serde_json::from_slice::<InstallRecord>(&text).ok())
            .filter(|record| record.machine == here.machine && record.uid == here.uid);
        // The hooks use these whatever the environment says (H-48), and so does everything else of
        // this installation: in a shell without XDG_RUNTIME_DIR the socket is where it was.
        let in_force = recorded.as_ref().and_then(InstallRecord::paths);
        let in_force = in_force.filter(|in_force| in_force.state == paths.state);
        Ok(Self { root, paths: in_force.unwrap_or(paths), recorded, here, now })
    }

    /// Where git is looked for first (H-24).
    pub(crate) fn git_places(&self) -> Vec<PathBuf> {
        let recorded = self.recorded.as_ref().and_then(|record| record.git.as_ref());
        recorded.map(PathBuf::from).into_iter().collect()
    }

    /// The same with the directories that a new installation makes of the environment.
    pub(crate) fn for_install(&self) -> anyhow::Result<Self> {
        let Here { machine, uid, .. } = &self.here;
        let variable = |name: &str| self.variable(name);
        let paths = Paths::resolve(self.root.as_deref(), machine, *uid, variable)?;
        Ok(Self { paths, ..self.clone() })
    }

    /// [`RECORDED_VARIABLES`] as an installation records them.
    pub(crate) fn recorded_variables(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let set = RECORDED_VARIABLES.iter().filter_map(|name| Some((name, self.variable(name)?)));
        set.map(|(name, value)| {
            let value = value.into_string().ok();
            Ok(((*name).to_owned(), value.with_context(|| format!("{name} is not UTF-8"))?))
        })
        .collect()
    }

    /// A variable of the environment. The runtime directory of the login is that of the last
    /// installation where this shell has none, as after `su`.
    fn variable(&self, name: &str) -> Option<OsString> {
        let recorded = || {
            let recorded = self.recorded.as_ref().filter(|_| name == "XDG_RUNTIME_DIR")?;
            let directory = recorded.environment.get(name)?;
            Path::new(directory).is_dir().then(|| directory.into())
        };
        variable(name).or_else(recorded)
    }
}

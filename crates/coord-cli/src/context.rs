//! What every verb starts from: where the files lie, who and where this process is.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use coord_core::Now;
use coord_daemon::{engine, host::Here};
use coord_wire::paths::Paths;

/// The environment of one call.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// `--root`, else COORD_HOME.
    pub(crate) root: Option<PathBuf>,
    /// Where the files lie.
    pub(crate) paths: Paths,
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
        Self { now: engine::now(), ..self.clone() }
    }

    /// Reads the environment.
    pub(crate) fn from_environment(root: Option<PathBuf>) -> anyhow::Result<Self> {
        let now = engine::now();
        let here = Here::read(now.wall_ms);
        let root = match root {
            Some(root) => Some(std::path::absolute(&root).context("--root")?),
            None => variable("COORD_HOME").map(PathBuf::from),
        };
        let paths = Paths::resolve(root.as_deref(), &here.machine, here.uid, variable)?;
        Ok(Self { root, paths, here, now })
    }
}

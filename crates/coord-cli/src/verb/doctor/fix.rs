//! What `--fix` may do: only what a later `coord install` or `coord up` would do as well, or what
//! makes our own files private and executable again. Never touches a foreign file, never starts
//! what `coord down` ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{Permissions, metadata, remove_file, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use coord_store::{CoordinatorLock, RealDisk};
use serde::Serialize;

use super::finding::Finding;
use crate::context::Context;
use crate::verb::install::shown;

/// One repair. They are made in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fix {
    /// Gives a file or directory of ours its mode.
    Mode { path: PathBuf, mode: u32 },
    /// Removes what a coordinator left in the run directory.
    Remove { path: PathBuf },
    /// Runs a verb of this program: `install` or `up`.
    Run { arguments: Vec<OsString> },
}

/// What became of a repair.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    /// In words.
    pub(super) what: String,
    /// Whether it was made; false with `--dry-run`, too.
    pub(super) done: bool,
    /// Why not.
    pub(super) error: Option<String>,
}

/// The repairs of one run: each is tried once.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    tried: BTreeSet<Fix>,
    pub(super) done: Vec<Outcome>,
}

impl Repairs {
    /// Makes the repairs that the findings name. True if one was made.
    pub(super) fn apply(&mut self, findings: &[Finding], dry_run: bool, context: &Context) -> bool {
        let fixes: BTreeSet<Fix> =
            findings.iter().filter_map(|finding| finding.fix.clone()).collect();
        let mut any = false;
        for fix in fixes {
            if !self.tried.insert(fix.clone()) {
                continue;
            }
            let error = if dry_run { None } else { fix.make(context).err() };
            let done = !dry_run && error.is_none();
            any |= done;
            let error = error.map(|error| format!("{error:#}"));
            self.done.push(Outcome { what: fix.words(), done, error });
        }
        any
    }
}

impl Fix {
    /// `coord VERB ARGUMENTS`.
    pub(super) fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::Run { arguments: arguments.into_iter().map(Into::into).collect() }
    }

    fn words(&self) -> String {
        match self {
            Self::Mode { path, mode } => format!("chmod {mode:o} {}", shown(path)),
            Self::Remove { path } => format!("rm {}", shown(path)),
            Self::Run { arguments } => {
                let words = arguments.iter().map(|word| word.to_string_lossy());
                format!("coord {}", words.collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn make(&self, context: &Context) -> anyhow::Result<()> {
        match self {
            Self::Mode { path, mode } => {
                let standing = metadata(path).with_context(|| shown(path))?;
                if standing.uid() != context.here.uid {
                    bail!("{} belongs to user {}", shown(path), standing.uid());
                }
                set_permissions(path, Permissions::from_mode(*mode)).with_context(|| shown(path))
            }
            Self::Remove { path } => {
                // A coordinator that starts meanwhile would bind right here: its lock keeps it out.
                let _lock = CoordinatorLock::acquire(&RealDisk, &context.paths.coordinator_lock())?;
                remove_file(path).with_context(|| shown(path))
            }
            Self::Run { arguments } => run(arguments, context),
        }
    }
}

fn run(arguments: &[OsString], context: &Context) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(arguments).stdin(Stdio::null());
    if let Some(root) = &context.root {
        command.arg("--root").arg(root);
    }
    let output = command.output().context("running this program")?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    bail!("{}", why.lines().next().unwrap_or("failed").trim_start_matches("coord: "))
}

//! Decides what a .rpm says of itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::{machine, output};

/// Makes the package of what was staged. Its name.
pub(super) fn make(
    system: &Path,
    target: &str,
    version: &str,
    out: &Path,
    date: u64,
) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir()?;
    let spec = scratch.path().join("coord.spec");
    let text = include_str!("rpm/coord.spec")
        .replace("@VERSION@", version)
        .replace("@BEFORE_REMOVAL@", include_str!("before-removal"))
        .replace("@TREE@", &system.to_string_lossy());
    fs::write(&spec, text)?;
    let machine = machine(target);
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--nodeps", "--target", &format!("{machine}-linux")]);
    build.arg("--define").arg(format!("_topdir {}", scratch.path().display()));
    build.arg("--define").arg(format!("_rpmdir {}", out.display()));
    build.args(["--define", "_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm"]).arg(&spec);
    output(build.env("SOURCE_DATE_EPOCH", date.to_string())).context("making a .rpm")?;
    Ok(format!("coord-{version}-1.{machine}.rpm"))
}

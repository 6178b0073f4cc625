//! Decides what the formula for Homebrew on Linux says.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::{TARGETS, tarball};

/// Writes the formula. Its name.
pub(super) fn make(out: &Path, url: &str, sums: &str) -> anyhow::Result<String> {
    let [intel, arm] = TARGETS.map(|target| format!("{}.tar.gz", tarball::name(target)));
    let sum = |file: &str| {
        let line = sums.lines().find_map(|line| line.strip_suffix(file)?.split_whitespace().next());
        line.map(str::to_owned)
            .with_context(|| format!("the formula needs {file}, which was not made"))
    };
    let url = url.trim_end_matches('/');
    let text = include_str!("coord.rb")
        .replace("@VERSION@", coord_wire::VERSION)
        .replace("@INTEL_URL@", &format!("{url}/{intel}"))
        .replace("@INTEL_SUM@", &sum(&intel)?)
        .replace("@ARM_URL@", &format!("{url}/{arm}"))
        .replace("@ARM_SUM@", &sum(&arm)?);
    fs::write(out.join("coord.rb"), text)?;
    Ok("coord.rb".to_owned())
}

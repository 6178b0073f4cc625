//! Decides what the formula for Homebrew on Linux says.

use std::fs;
use std::path::Path;

use anyhow::ensure;

use super::{TARGETS, tarball};

/// Homebrew's words for the machines of [`TARGETS`].
const MACHINES: [&str; 2] = ["intel", "arm"];

/// Writes the formula for the tarballs in `sums`. Its name.
pub(super) fn make(out: &Path, url: &str, sums: &str) -> anyhow::Result<String> {
    let url = url.trim_end_matches('/');
    let block = |(machine, target): (&str, &str)| {
        let file = format!("{}.tar.gz", tarball::name(target));
        let line = sums.lines().find_map(|line| line.strip_suffix(&file))?;
        let sum = line.split_whitespace().next()?;
        Some(format!(
            "  on_{machine} do\n    url \"{url}/{file}\"\n    sha256 \"{sum}\"\n  end\n\n"
        ))
    };
    let blocks: Vec<String> = MACHINES.into_iter().zip(TARGETS).filter_map(block).collect();
    ensure!(!blocks.is_empty(), "the formula needs a tarball, and none was made");
    let text = include_str!("coord.rb")
        .replace("@VERSION@", coord_wire::VERSION)
        .replace("@TARBALLS@\n", &blocks.concat());
    fs::write(out.join("coord.rb"), text)?;
    Ok("coord.rb".to_owned())
}

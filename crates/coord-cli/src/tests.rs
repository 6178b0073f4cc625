//! The documentation against the command line: what the pages show exists, and what exists is on the pages.

mod commands;
mod contributing;
mod findings;
mod help;
mod interface;
mod reference;
mod states;

use std::path::{Path, PathBuf};

/// The repository's top.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file below the top.
#[track_caller]
fn read(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

//! Where the first inputs come from: fixtures of this repository, and inputs that once failed.

use std::path::{Path, PathBuf};

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below a directory of the repository.
pub(crate) fn files(below: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    gather(&top().join(below), &mut found);
    found
}

/// Inputs of a target that once failed.
pub(crate) fn kept(target: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    gather(&kept_dir(target), &mut found);
    found
}

/// Where they stand.
pub(crate) fn kept_dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

fn gather(dir: &Path, found: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // A directory's own order differs from machine to machine, and with it the run.
    paths.sort();
    for path in paths {
        if path.is_dir() {
            gather(&path, found);
        } else {
            found.extend(std::fs::read(&path));
        }
    }
}

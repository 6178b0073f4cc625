//! Decides what a tarball holds.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::{Build, NAMES, copy, copy_all, hooks, output};
use crate::root;
use anyhow::Context as _;
use coord_wire::notice::SENDER;

/// Taken from the repository's top as they are.
const FILES: [&str; 7] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "hooks.json",
    "install.sh",
];
/// The pages that README.md refers to.
const PAGES: &str = "docs";
/// Shells, and what each puts around a program's name in that of its file of completions.
const COMPLETIONS: [(&str, &str, &str); 3] =
    [("bash", "", ".bash"), ("zsh", "_", ""), ("fish", "", ".fish")];

/// What a tarball and the directory in it are called.
pub(super) fn name(target: &str) -> String {
    format!("coord-{}-{target}", coord_wire::VERSION)
}

/// Lays out one tarball's content in `to`.
pub(super) fn stage(build: &Build, target: &str, to: &Path) -> anyhow::Result<()> {
    let programs = build.built(target);
    for directory in ["share/man/man1", "share/completions"] {
        fs::create_dir_all(to.join(directory))?;
    }
    let [first, second] = NAMES.map(|name| to.join("bin").join(name));
    copy(&programs.join("release/coord"), &first)?;
    fs::hard_link(&first, &second).with_context(|| second.display().to_string())?;
    for hook in hooks()? {
        copy(&programs.join("hook").join(&hook), &to.join("lib/coord").join(&hook))?;
    }
    copy(&programs.join("release").join(SENDER), &to.join("lib/coord").join(SENDER))?;
    for name in FILES {
        copy(&root().join(name), &to.join(name))?;
    }
    copy_all(&root().join(PAGES), &to.join(PAGES))?;
    for name in NAMES {
        let program = || {
            let mut program = Command::new(build.built(&build.native).join("release/coord"));
            program.arg0(name);
            program
        };
        output(program().args(["man", "--dir"]).arg(to.join("share/man/man1")))?;
        for (shell, before, after) in COMPLETIONS {
            let script = output(program().args(["completions", shell]))?;
            let file = format!("{before}{name}{after}");
            fs::write(to.join("share/completions").join(file), script)?;
        }
    }
    Ok(())
}

/// Packs what was staged. The tarball's name.
pub(super) fn pack(tree: &Path, out: &Path, date: u64) -> anyhow::Result<String> {
    let name = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let tarball = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{date}")).args(["--mode=u=rwX,go=rX"]);
    // `cargo binstall` takes only regular files out of a tarball: each name of a program is packed as one.
    tar.arg("--hard-dereference");
    // `-n` leaves out name and time of what is packed.
    tar.args(["--use-compress-program=gzip -9n", "--create", "--file"]).arg(out.join(&tarball));
    output(tar.arg("--directory").arg(tree.with_file_name("")).arg(name))?;
    Ok(tarball)
}

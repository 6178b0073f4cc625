//! The programs under test, built as they are shipped, and the floor.

use crate::root;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where static programs come from.
#[cfg(target_arch = "x86_64")]
pub(super) const TARGET: &str = "x86_64-unknown-linux-musl";
#[cfg(target_arch = "aarch64")]
pub(super) const TARGET: &str = "aarch64-unknown-linux-musl";

/// The hook executables.
pub(super) const HOOKS: [&str; 5] = [
    "coord-hook-session-start",
    "coord-hook-post-tool-use",
    "coord-hook-stop",
    "coord-hook-event",
    STATUS_LINE,
];
/// The program of the status line.
pub(super) const STATUS_LINE: &str = "coord-hook-statusline";

/// Built programs.
#[derive(Debug)]
pub(super) struct Programs {
    /// Reads standard input to its end and ends; linked with the libc of the programs under test.
    pub(super) floor: PathBuf,
    /// The same, linked with the machine's own C library.
    pub(super) native_floor: PathBuf,
    /// `coord`.
    pub(super) coord: PathBuf,
    hooks: PathBuf,
    /// How they were built, for the report.
    pub(super) notes: Vec<String>,
}

impl Programs {
    /// Builds all of them; the floor goes to `scratch`.
    pub(super) fn build(scratch: &Path) -> anyhow::Result<Self> {
        cargo_build(&["--profile", "hook", "--package", "coord-hook"])?;
        cargo_build(&["--release", "--package", "coord-cli", "--package", "coord-notice"])?;
        let (floor, native_floor) = (build_floor(scratch)?, build_native_floor(scratch)?);
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from)
            .join(TARGET);
        let notes = vec![
            format!("programs under test: {TARGET}, static; hooks with --profile hook, coord with --release"),
            "floor: C, cc -O2, static, not position independent, with the musl that the Rust target brings; reads standard input to its end".to_owned(),
            "each call: posix_spawn to wait, environment and arguments as the client gives them, PostToolUse of 2 KB on a pipe that is filled and closed before".to_owned(),
        ];
        Ok(Self {
            floor,
            native_floor,
            coord: target.join("release/coord"),
            hooks: target.join("hook"),
            notes,
        })
    }

    /// A hook executable.
    pub(super) fn hook(&self, name: &str) -> PathBuf {
        self.hooks.join(name)
    }
}

fn cargo_build(arguments: &[&str]) -> anyhow::Result<()> {
    let status = crate::cargo()
        .args(["build", "--quiet", "--target", TARGET])
        .args(arguments)
        .current_dir(root())
        .status()
        .context("cargo")?;
    if !status.success() {
        bail!(
            "cargo build {} failed; is the target there? rustup target add {TARGET}",
            arguments.join(" ")
        );
    }
    Ok(())
}

/// Compiles the floor against the libc of the programs under test, which the Rust target brings
/// along; the machine's own C library starts several times slower and would flatter them.
fn build_floor(scratch: &Path) -> anyhow::Result<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc")?;
    let sysroot = String::from_utf8(sysroot.stdout).context("rustc --print sysroot")?;
    let musl =
        Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("lib/self-contained");
    let (object, floor) = (scratch.join("floor.o"), scratch.join("floor"));
    cc(Command::new("cc").args(["-O2", "-c", "-o"]).arg(&object).arg(source()))?;
    let mut link = Command::new("cc");
    link.args(["-static", "-no-pie", "-nostdlib", "-o"]).arg(&floor);
    link.args([musl.join("crt1.o"), musl.join("crti.o"), object]);
    link.args([musl.join("libc.a"), musl.join("crtn.o")]);
    cc(&mut link)?;
    Ok(floor)
}

/// The same with the machine's own C library, for comparison.
fn build_native_floor(scratch: &Path) -> anyhow::Result<PathBuf> {
    let floor = scratch.join("floor-native");
    cc(Command::new("cc").args(["-O2", "-static", "-o"]).arg(&floor).arg(source()))?;
    Ok(floor)
}

fn source() -> PathBuf {
    root().join("crates/xtask/floor.c")
}

fn cc(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.status().context("the floor needs a C compiler: install cc (Debian: gcc)")?;
    if !status.success() {
        bail!(
            "cc cannot build the floor: install the C library's headers and static part (Debian: libc6-dev)"
        );
    }
    Ok(())
}

//! `cargo xtask dist`: what others install from, one tarball per kind of machine, with checksums.
//!
//! Decides what a tarball holds and under which names. The same sources, toolchain and date give
//! the same bytes: entries are sorted, times are those of the last commit (or SOURCE_DATE_EPOCH),
//! and no path of the building machine is in a program.

use crate::{root, say};
use anyhow::{Context, bail};
use coord_wire::notice::SENDER;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Programs for these are made if nothing else is said.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
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
/// The command line, by both of its names: one program, which looks at how it was called.
const NAMES: [&str; 2] = ["coord", "coordctl"];
/// Shells, and what each puts around a program's name in that of its file of completions.
const COMPLETIONS: [(&str, &str, &str); 3] =
    [("bash", "", ".bash"), ("zsh", "_", ""), ("fish", "", ".fish")];

/// Make the tarballs that others install from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask dist\n  cargo xtask dist --target x86_64-unknown-linux-musl --out /tmp/coord"
)]
pub(crate) struct Args {
    /// Only for this machine; may be given several times [default: x86_64 and aarch64]
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// Where to put them [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let home = root().join("target/dist");
    let out = args.out.clone().unwrap_or_else(|| home.clone());
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = fs::canonicalize(out)?;
    let targets = match args.target.as_slice() {
        [] => TARGETS.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    };
    let build = Build { native: format!("{}-unknown-linux-musl", std::env::consts::ARCH), home };
    let date = date()?;
    let mut tarballs = Vec::new();
    for target in &targets {
        build.programs(target)?;
        // Pages and completions are the same for all; only a program of this machine can print them.
        build.command_line(&build.native)?;
        let name = format!("coord-{}-{target}", coord_wire::VERSION);
        let scratch = tempfile::tempdir()?;
        build.stage(target, &scratch.path().join(&name))?;
        let tarball = format!("{name}.tar.gz");
        pack(scratch.path(), &name, &out.join(&tarball), &date)?;
        say(&format!("made {}", out.join(&tarball).display()));
        tarballs.push(tarball);
    }
    tarballs.sort();
    let sums = output(Command::new("sha256sum").args(&tarballs).current_dir(&out))?;
    fs::write(out.join("SHA256SUMS"), sums)?;
    say(&format!("made {}", out.join("SHA256SUMS").display()));
    Ok(ExitCode::SUCCESS)
}

/// The date of every entry, in seconds since 1970.
fn date() -> anyhow::Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(date) => Ok(date),
        Err(_) => {
            let mut git = Command::new("git");
            Ok(output(git.args(["log", "-1", "--format=%ct"]).current_dir(root()))?
                .trim()
                .to_owned())
        }
    }
}

/// Builds programs, apart from those of everyday work, whose flags differ.
struct Build {
    /// The kind of machine this is.
    native: String,
    home: PathBuf,
}

impl Build {
    fn programs(&self, target: &str) -> anyhow::Result<()> {
        check_target(target)?;
        self.cargo(target, &["--profile", "hook", "--package", "coord-hook"])?;
        self.cargo(target, &["--release", "--package", "coord-notice"])?;
        self.command_line(target)
    }

    fn command_line(&self, target: &str) -> anyhow::Result<()> {
        self.cargo(target, &["--release", "--package", "coord-cli"])
    }

    fn cargo(&self, target: &str, what: &[&str]) -> anyhow::Result<()> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--quiet", "--target", target, "--target-dir"]);
        cargo.arg(self.directory()).args(what).current_dir(root());
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"] {
            cargo.env_remove(name);
        }
        // These come to those in .cargo/config.toml.
        let mut flags = vec![format!("--remap-path-prefix={}=/coord", root().display())];
        if let Some(cargo_home) = cargo_home() {
            flags.push(format!("--remap-path-prefix={}=/cargo", cargo_home.display()));
        }
        let flags = serde_json::to_string(&flags)?;
        cargo.arg("--config").arg(format!("target.{target}.rustflags={flags}"));
        if target != self.native {
            // Rust's own linker knows every machine, and the target brings its C library along.
            cargo.arg("--config").arg(format!("target.{target}.linker=\"rust-lld\""));
            // The parts of the sender that are in C need a compiler for that machine; its C library is not used.
            let compiler = format!("CC_{}", target.replace('-', "_"));
            if std::env::var_os(&compiler).is_none() {
                let machine = target.split('-').next().unwrap_or_default();
                cargo.env(compiler, format!("{machine}-linux-gnu-gcc"));
            }
        }
        if cargo.status().context("cargo")?.success() {
            return Ok(());
        }
        bail!("cargo build for {target} failed")
    }

    fn directory(&self) -> PathBuf {
        self.home.join("build")
    }

    /// Lays out one tarball's content in `to`.
    fn stage(&self, target: &str, to: &Path) -> anyhow::Result<()> {
        let built = self.directory().join(target);
        for directory in ["bin", "lib/coord", "share/man/man1", "share/completions", PAGES] {
            fs::create_dir_all(to.join(directory))?;
        }
        let [first, second] = NAMES.map(|name| to.join("bin").join(name));
        copy(&built.join("release/coord"), &first)?;
        fs::hard_link(&first, &second).with_context(|| second.display().to_string())?;
        for hook in hooks()? {
            copy(&built.join("hook").join(&hook), &to.join("lib/coord").join(&hook))?;
        }
        copy(&built.join("release").join(SENDER), &to.join("lib/coord").join(SENDER))?;
        for name in FILES {
            copy(&root().join(name), &to.join(name))?;
        }
        copy_all(&root().join(PAGES), &to.join(PAGES))?;
        for name in NAMES {
            let program = self.directory().join(&self.native).join("release").join(name);
            output(Command::new(&program).args(["man", "--dir"]).arg(to.join("share/man/man1")))?;
            for (shell, before, behind) in COMPLETIONS {
                let script = output(Command::new(&program).args(["completions", shell]))?;
                let file = format!("{before}{name}{behind}");
                fs::write(to.join("share/completions").join(file), script)?;
            }
        }
        Ok(())
    }
}

/// Copies a directory with all that is below it.
fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy_all(&path, &to)? } else { copy(&path, &to)? }
    }
    Ok(())
}

fn check_target(target: &str) -> anyhow::Result<()> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
        return Ok(());
    }
    bail!("no standard library for {target}: rustup target add {target}")
}

/// Where cargo keeps the sources of dependencies, whose paths stand in panic messages.
fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// The executables that hooks.json names.
fn hooks() -> anyhow::Result<BTreeSet<String>> {
    let list: Value = serde_json::from_slice(&fs::read(root().join("hooks.json"))?)?;
    let events = list["hooks"].as_object().context("hooks.json has no \"hooks\"")?;
    let groups = events.values().filter_map(Value::as_array).flatten();
    let entries = groups.filter_map(|group| group["hooks"].as_array()).flatten();
    let commands = entries.filter_map(|entry| entry["command"].as_str());
    Ok(commands.map(|command| command.replace("{{hooks}}/", "")).collect())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

fn pack(directory: &Path, name: &str, tarball: &Path, date: &str) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{date}")).args(["--mode=u=rwX,go=rX"]);
    // `-n` leaves out name and time of what is packed.
    tar.args(["--use-compress-program=gzip -9n", "--create", "--file"]).arg(tarball);
    output(tar.arg("--directory").arg(directory).arg(name))?;
    Ok(())
}

/// What a program prints; fails with what it complains about.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| name.clone())?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| name)
}

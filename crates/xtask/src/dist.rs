//! `cargo xtask dist`: what others install from. For each kind of machine a tarball, a .deb and a .rpm; for all of them
//! checksums, a list of what is built in (SBOM), and a formula for Homebrew.
//!
//! Decides what is made and under which names. The same sources, toolchain and date give the same bytes: entries are
//! sorted, times are those of the last commit (or SOURCE_DATE_EPOCH), and no path of the building machine is in a
//! program.

mod deb;
mod formula;
mod rpm;
mod sbom;
mod system;
mod tarball;

use crate::{root, say};
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Programs for these are made if nothing else is said.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
/// The command line, by both of its names: one program, which looks at how it was called.
const NAMES: [&str; 2] = ["coord", "coordctl"];

/// Make what others install from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask dist\n  cargo xtask dist --only tarball --target x86_64-unknown-linux-musl --out /tmp/coord\n  cargo xtask dist --url https://example.org/coord/v1.2.3\n\nA .deb needs dpkg-deb, a .rpm rpmbuild (Debian: rpm), and programs for another kind of machine a C compiler\nfor it (Debian: gcc-aarch64-linux-gnu)."
)]
pub(crate) struct Args {
    /// Only for this machine; may be given several times [default: x86_64 and aarch64]
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// Only packages of this kind; may be given several times [default: all]
    #[arg(long, value_name = "KIND", value_enum)]
    only: Vec<Kind>,
    /// Where the tarballs will be published; makes the formula for Homebrew, which names their addresses
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where to put them [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The version that a .deb and a .rpm have for the package manager, for tests of an upgrade; the programs say
    /// their own
    #[arg(long, value_name = "VERSION", hide = true, default_value = coord_wire::VERSION)]
    package_version: String,
}

/// A kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// With install.sh.
    Tarball,
    /// For Debian and its relatives.
    Deb,
    /// For Fedora and its relatives.
    Rpm,
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
    let makes = |kind: Kind| args.only.is_empty() || args.only.contains(&kind);
    let build = Build { native: format!("{}-unknown-linux-musl", std::env::consts::ARCH), home };
    let date = date()?;
    let mut made = Vec::new();
    for target in &targets {
        build.programs(target)?;
        // Pages and completions are the same for all; only a program of this machine can print them.
        build.command_line(&build.native)?;
        let scratch = tempfile::tempdir()?;
        let name = tarball::name(target);
        let tree = scratch.path().join(&name);
        tarball::stage(&build, target, &tree)?;
        if makes(Kind::Tarball) {
            made.push(tarball::pack(&tree, &out, date)?);
        }
        let system = scratch.path().join("system");
        system::stage(&tree, &system)?;
        if makes(Kind::Deb) {
            made.push(deb::make(&system, target, &args.package_version, &out, date)?);
        }
        if makes(Kind::Rpm) {
            made.push(rpm::make(&system, target, &args.package_version, &out, date)?);
        }
    }
    made.push(sbom::make(&out, date)?);
    made.sort();
    let sums = output(Command::new("sha256sum").args(&made).current_dir(&out))?;
    fs::write(out.join("SHA256SUMS"), &sums)?;
    made.push("SHA256SUMS".to_owned());
    if let Some(url) = &args.url {
        made.push(formula::make(&out, url, &sums)?);
    }
    for name in made {
        say(&format!("made {}", out.join(name).display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The date of every entry, in seconds since 1970.
fn date() -> anyhow::Result<u64> {
    let date = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(date) => date,
        Err(_) => {
            output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?
        }
    };
    date.trim().parse().with_context(|| format!("the date {date:?}"))
}

/// The kind of machine in a target, such as `x86_64`.
fn machine(target: &str) -> &str {
    target.split('-').next().unwrap_or_default()
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
        self.cargo(target, &["--release", "--package", "coord-cli", "--bin", NAMES[0]])
    }

    fn cargo(&self, target: &str, what: &[&str]) -> anyhow::Result<()> {
        let mut cargo = crate::cargo();
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
            let named = std::env::var(&compiler).ok();
            // The one in .cargo/config.toml, which `cargo xtask` hands on, is for a machine of that kind.
            if named.is_none_or(|named| named == "cc") {
                cargo.env(compiler, format!("{}-linux-gnu-gcc", machine(target)));
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

    /// Where the programs for this machine are.
    fn built(&self, target: &str) -> PathBuf {
        self.directory().join(target)
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

/// The executables that hooks.json names, and that of the status line.
fn hooks() -> anyhow::Result<BTreeSet<String>> {
    let list: Value = serde_json::from_slice(&fs::read(root().join("hooks.json"))?)?;
    let events = list["hooks"].as_object().context("hooks.json has no \"hooks\"")?;
    let groups = events.values().filter_map(Value::as_array).flatten();
    let entries = groups.filter_map(|group| group["hooks"].as_array()).flatten();
    let commands = entries.filter_map(|entry| entry["command"].as_str());
    let hooks = commands.map(|command| command.replace("{{hooks}}/", ""));
    Ok(hooks.chain(["coord-hook-statusline".to_owned()]).collect())
}

/// Copies a file into a directory that is made where it is missing.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to.with_file_name(""))?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
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

//! `cargo xtask`: what the repository needs beside its programs. One file per task.

mod bench;
mod book;
mod check;
mod client_check;
mod dist;
mod pictures;
mod soak;
mod tidy;
mod truth;

use clap::{Parser, Subcommand};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Tasks of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Measure what things cost, as ratios to a floor measured in the same run
    Bench(bench::Args),
    /// Make the book of docs/, with mdBook
    Book,
    /// Format, lints and tests of core, store and hooks: the loop beside an editor, within a minute
    Check,
    /// Try coord with a version of Claude Code
    ClientCheck(client_check::Args),
    /// Check what the compiler does not: lengths, words, purity of the core, proofs of requirements, links
    Tidy,
    /// Make the tarballs that others install from
    Dist(dist::Args),
    /// Make the pictures of the documentation
    Pictures(pictures::Args),
    /// Run the random tests for long, with fresh seeds
    Soak(soak::Args),
    /// Measure how true the states of real sessions are
    Truth(truth::Args),
}

fn main() -> ExitCode {
    if bench::client::is_called() {
        return bench::client::run();
    }
    let result = match Cli::parse().task {
        Task::Bench(args) => bench::run(&args),
        Task::Book => book::run(),
        Task::Check => check::run(),
        Task::ClientCheck(args) => client_check::run(&args),
        Task::Tidy => tidy::run(),
        Task::Dist(args) => dist::run(&args),
        Task::Pictures(args) => pictures::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Truth(args) => truth::run(&args),
    };
    result.unwrap_or_else(|error| {
        say_error(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// The repository's top.
fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest)
}

/// Cargo, as a person would call it. What `cargo run` tells this program of its own package would have build scripts
/// that look at it, such as ring's, run again: here, and the next time without it.
fn cargo() -> Command {
    // Not the cargo that built this: run without rustup, it lets a dependency's `rust-toolchain` file choose the compiler.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"CARGO_PKG_") || bytes.starts_with(b"CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// One line for the person who waits.
#[expect(clippy::print_stdout, reason = "a task's report goes to standard output")]
fn say(line: &str) {
    println!("{line}");
}

/// One line beside the report.
#[expect(clippy::print_stderr, reason = "progress and errors must not stand in a JSON report")]
fn say_error(line: &str) {
    eprintln!("xtask: {line}");
}

//! `coord-fuzz`: a target for as long as wanted, or all of them.

mod engine;

use anyhow::{Context, bail};
use coord_fuzz::{Counting, TARGETS, Target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Longest of the short inputs, in bytes.
const SHORT_BYTES: usize = 2048;
/// Stack of a run: what a thread of the coordinator has.
const STACK_BYTES: u64 = 2 * 1024 * 1024;

/// Run coord's parsers on hostile input
#[derive(Debug, clap::Parser)]
#[command(
    after_help = "Examples:\n  coord-fuzz --minutes 10\n  coord-fuzz settings --minutes 60\n  coord-fuzz settings -- target/fuzz/settings/crash-1f2e3d4c\n\nAn input that fails is written to DIR/TARGET. Copy it to crates/coord-fuzz/corpus/TARGET to keep it. If the program\ndies without a word, its last input is DIR/TARGET/current."
)]
struct Args {
    /// Parser to run [default: all, one after the other]
    target: Option<String>,
    /// Time limit, for all targets together [default: none]
    #[arg(long, required_unless_present = "target")]
    minutes: Option<f64>,
    /// Seed of the mutations; 0 draws one
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Directory for inputs; what was found there before is mutated further
    #[arg(long, default_value = "target/fuzz")]
    dir: PathBuf,
    /// Options of libFuzzer (-help=1 lists them), and files to run instead of mutated inputs
    #[arg(last = true)]
    libfuzzer: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let limit = getrlimit(Resource::Stack);
    if limit.current != Some(STACK_BYTES) {
        setrlimit(Resource::Stack, Rlimit { current: Some(STACK_BYTES), ..limit })?;
        // The main thread has its limit from the start of the program.
        let program = std::env::current_exe().context("the path of this program")?;
        return Err(Command::new(program).args(std::env::args_os().skip(1)).exec().into());
    }
    let args: Args = clap::Parser::parse();
    let Some(name) = &args.target else { return all(&args) };
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("no target {name}: there are {}", names.join(", "));
    };
    let mut options = vec![format!("-seed={}", args.seed)];
    // 0 would be no limit.
    let seconds = args.minutes.map(|minutes| (minutes * 60.0).ceil().max(1.0));
    options.extend(seconds.map(|seconds| format!("-max_total_time={seconds}")));
    options.extend(args.libfuzzer);
    let code = engine::fuzz(target, &args.dir, options)?;
    Ok(if code == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each target in processes of its own, since libFuzzer ends them: most of the time on short inputs, which are executed
/// several times as fast and reach most of the code, then on inputs of any length.
fn all(args: &Args) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("the path of this program")?;
    let minutes = args.minutes.unwrap_or_default() / f64::from(u32::try_from(TARGETS.len())?);
    let mut failed = Vec::new();
    for Target { name, .. } in &TARGETS {
        let short = format!("-max_len={SHORT_BYTES}");
        for (share, length) in [(0.75, Some(short)), (0.25, None)] {
            let mut command = Command::new(&program);
            let minutes = minutes * share;
            command.arg(name).arg(format!("--minutes={minutes}"));
            command.arg(format!("--seed={}", args.seed)).arg("--dir").arg(&args.dir);
            command.arg("--").args(length).args(&args.libfuzzer);
            if !command.status().context("this program")?.success() {
                failed.push(*name);
                break;
            }
        }
    }
    // As libFuzzer does, so that it stands behind what that says.
    let mut out = std::io::stderr();
    if failed.is_empty() {
        writeln!(out, "{} targets held", TARGETS.len())?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "FAILED: {}; inputs are in {}", failed.join(", "), args.dir.display())?;
    Ok(ExitCode::FAILURE)
}

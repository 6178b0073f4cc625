//! `coord-fuzz`: a target for as long as wanted, or all of them.

mod engine;

use anyhow::{Context, anyhow, bail};
use coord_fuzz::{Counting, TARGETS};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

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
    /// Parser to run [default: all, as many at once as there are processors]
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

/// Runs every target, as many at once as there are processors.
fn all(args: &Args) -> anyhow::Result<ExitCode> {
    let workers = available_parallelism().map_or(1, NonZero::get).min(TARGETS.len());
    let rounds = u32::try_from(TARGETS.len().div_ceil(workers))?;
    let minutes = args.minutes.unwrap_or_default() / f64::from(rounds);
    let next = Mutex::new(TARGETS.iter());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> anyhow::Result<Vec<&str>> {
        let mut failed = Vec::new();
        while let Some(target) = take() {
            if !held(args, target.name, minutes)? {
                failed.push(target.name);
            }
        }
        Ok(failed)
    };
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|one| one.join().map_err(|_| anyhow!("a panic"))?);
        ended.collect::<anyhow::Result<Vec<_>>>()
    })?
    .concat();
    // As libFuzzer does, so that it stands after what that says.
    let mut out = std::io::stderr();
    if failed.is_empty() {
        writeln!(out, "{} targets held", TARGETS.len())?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "FAILED: {}; inputs are in {}", failed.join(", "), args.dir.display())?;
    Ok(ExitCode::FAILURE)
}

/// Whether a target held, run in processes of its own, since libFuzzer ends them: most of the time on short inputs,
/// which are executed several times as fast and reach most of the code, then on inputs of any length.
fn held(args: &Args, name: &str, minutes: f64) -> anyhow::Result<bool> {
    writeln!(std::io::stderr(), "{name}, for {minutes:.1} minutes")?;
    let program = std::env::current_exe().context("the path of this program")?;
    let short = format!("-max_len={SHORT_BYTES}");
    for (share, length) in [(0.75, Some(short)), (0.25, None)] {
        let mut command = Command::new(&program);
        command.arg(name).arg(format!("--minutes={}", minutes * share));
        command.arg(format!("--seed={}", args.seed)).arg("--dir").arg(&args.dir);
        command.arg("--").args(length).args(&args.libfuzzer);
        let output = command.output().context("this program")?;
        // At once, since other targets write beside it.
        std::io::stderr().write_all(&[output.stdout, output.stderr].concat())?;
        if !output.status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

//! `coord-fuzz`: the targets for as long as wanted, or one input once more.

use anyhow::{Context, bail};
use coord_fuzz::{Budget, Counting, Report, TARGETS, Target, fuzz, replay};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Stack of a run: what a thread of the coordinator has.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Run coord's parsers on hostile input
#[derive(Debug, clap::Parser)]
#[command(
    after_help = "Examples:\n  coord-fuzz --minutes 10\n  coord-fuzz --target settings --minutes 60 --keep\n  coord-fuzz --target settings --replay crates/coord-fuzz/corpus/settings/1f2e3d4c\n\nIf the program itself dies, its last input is the file coord-fuzz-TARGET-*/current below the temporary directory."
)]
struct Args {
    /// Only this one: hook, envelope, http, journal, snapshot, spool, settings, registry, transcript,
    /// screen, tmux, config
    #[arg(long)]
    target: Option<String>,
    /// How long in all
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The same seed makes the same inputs [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    /// Run the target on this input once, and say what came out
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
    /// Put an input that fails into the corpus of this repository
    #[arg(long)]
    keep: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args: Args = clap::Parser::parse();
    let run = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&args))?;
    run.join().map_err(|_| anyhow::anyhow!("the run itself panicked"))?
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_wanted = |target: &&Target| args.target.as_ref().is_none_or(|name| name == target.name);
    let targets: Vec<&'static Target> = TARGETS.iter().filter(is_wanted).collect();
    let Some(first) = targets.first() else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("no such target; there are {}", names.join(", "));
    };
    let mut out = std::io::stdout();
    if let Some(file) = &args.replay {
        let input = std::fs::read(file).with_context(|| file.display().to_string())?;
        let result = replay(first, &input)?;
        let code = if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        let (Ok(said) | Err(said)) = result;
        writeln!(out, "{}: {said}", first.name)?;
        return Ok(code);
    }
    let seed = match args.seed {
        Some(seed) => seed,
        None => {
            let mut bytes = [0; 8];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            u64::from_le_bytes(bytes)
        }
    };
    writeln!(out, "seed {seed}")?;
    let all = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let each = all / u32::try_from(targets.len()).unwrap_or(1);
    let mut has_failed = false;
    for target in targets {
        let report = fuzz(target, seed, Budget::Until(Instant::now() + each), args.keep)?;
        has_failed |= report.failure.is_some();
        print(&mut out, target, &report)?;
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, target: &Target, report: &Report) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: {} executions, pool {}, {} outcomes",
        target.name,
        report.executions,
        report.pool,
        report.outcomes.len()
    )?;
    let mut outcomes: Vec<_> = report.outcomes.iter().collect();
    outcomes.sort_by_key(|(_, n)| core::cmp::Reverse(**n));
    for (outcome, n) in outcomes.iter().take(20) {
        writeln!(out, "  {n:>9}  {outcome:?}")?;
    }
    if let Some(failure) = &report.failure {
        writeln!(out, "  FAILED: {}\n  input: {}", failure.message, failure.input.display())?;
    }
    Ok(())
}

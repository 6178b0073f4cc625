//! Runs a target on input after input and keeps those that had a new outcome.
//!
//! Decides what a failure is: a panic, or memory without bound; [`crate::watchdog`] sees what does not
//! end. Before each execution its input is written to a file, so that it is there whatever ends the
//! program.

use crate::corpus::{kept, kept_dir};
use crate::memory::measured;
use crate::mutate::Mutator;
use crate::random::Random;
use crate::target::Target;
use crate::watchdog::Watchdog;
use anyhow::Context;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{File, create_dir_all};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Instant;

/// Executions that may be spent on making a failing input shorter.
const SHORTER_TRIES: usize = 2000;
/// More outcomes than this are told apart no longer.
const POOL_MAX: usize = 4000;

/// How long a run takes.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    /// So many executions, besides the first inputs.
    Executions(u64),
    /// Until then.
    Until(Instant),
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// Executions.
    pub executions: u64,
    /// Inputs in the pool at the end.
    pub pool: usize,
    /// How often each outcome was seen.
    pub outcomes: BTreeMap<String, u64>,
    /// The first failure; it ended the run.
    pub failure: Option<Failure>,
}

/// An input that the target could not take.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where it stands.
    pub input: PathBuf,
    /// What happened.
    pub message: String,
}

/// Runs a target. A failing input goes to the crate's corpus if it is to be kept, else below the
/// temporary directory.
pub fn fuzz(
    target: &'static Target,
    seed: u64,
    budget: Budget,
    keep: bool,
) -> anyhow::Result<Report> {
    let executor = Executor::new(target)?;
    let mut random =
        Random::new(seed ^ u64::from(coord_wire::frame::crc32_plain(&[target.name.as_bytes()])));
    let mut pool = (target.seeds)();
    pool.extend(kept(target.name));
    let mut report = Report { executions: 0, pool: 0, outcomes: BTreeMap::new(), failure: None };
    let first = pool.len() as u64;
    loop {
        let is_over = match budget {
            Budget::Executions(n) => first.saturating_add(n) <= report.executions,
            Budget::Until(end) => first <= report.executions && end <= Instant::now(),
        };
        if is_over {
            break;
        }
        let own = usize::try_from(report.executions).ok().filter(|_| report.executions < first);
        let input = match own.and_then(|at| pool.get(at)) {
            Some(input) => input.clone(),
            None => next_input(target, &pool, &mut random),
        };
        report.executions += 1;
        match executor.execute(&input)? {
            Ok(outcome) => {
                let is_new = !report.outcomes.contains_key(&outcome);
                if is_new && first < report.executions && pool.len() < POOL_MAX {
                    pool.push(input);
                }
                *report.outcomes.entry(outcome).or_default() += 1;
            }
            Err(_) => {
                let (input, message) = shortest(&executor, input)?;
                report.failure = Some(save(target, &input, message, keep)?);
                break;
            }
        }
    }
    report.pool = pool.len();
    Ok(report)
}

/// Runs a target on one input; its outcome, or how it failed.
pub fn replay(target: &'static Target, input: &[u8]) -> anyhow::Result<Result<String, String>> {
    Executor::new(target)?.execute(input)
}

fn next_input(target: &Target, pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mutator = Mutator { pool, dictionary: target.dictionary };
    let mut input = mutator.input(random);
    if let Some(repair) = target.repair.filter(|_| !random.one_in(3)) {
        repair(&mut input);
    }
    input
}

/// Runs inputs, each with its copy in a file.
struct Executor {
    target: &'static Target,
    _dir: tempfile::TempDir,
    current: File,
    watchdog: Watchdog,
}

impl Executor {
    fn new(target: &'static Target) -> anyhow::Result<Self> {
        note_panics();
        let dir = tempfile::Builder::new()
            .prefix(&format!("coord-fuzz-{}-", target.name))
            .tempdir()
            .context("a temporary directory")?;
        let path = dir.path().join("current");
        let current = File::create(&path).with_context(|| path.display().to_string())?;
        let watchdog = Watchdog::start(target.name, &path);
        Ok(Self { target, _dir: dir, current, watchdog })
    }

    fn execute(&self, input: &[u8]) -> anyhow::Result<Result<String, String>> {
        self.current.set_len(input.len() as u64)?;
        self.current.write_all_at(input, 0)?;
        self.watchdog.begin();
        EXECUTING.set(true);
        let (result, held) =
            measured(input.len(), || catch_unwind(AssertUnwindSafe(|| (self.target.run)(input))));
        EXECUTING.set(false);
        Ok(match (result, held) {
            (Err(_), _) => Err(PANIC.take()),
            (Ok(_), Some(held)) => Err(format!("held {held} bytes at once")),
            (Ok(outcome), None) => Ok(outcome),
        })
    }
}

thread_local! {
    static EXECUTING: Cell<bool> = const { Cell::new(false) };
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a panic says instead of printing it: a shorter input panics again and again.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if EXECUTING.get() {
                PANIC.replace(info.to_string());
            } else {
                before(info);
            }
        }));
    });
}

/// The input made shorter as long as it fails in any way, and how it fails.
fn shortest(executor: &Executor, input: Vec<u8>) -> anyhow::Result<(Vec<u8>, String)> {
    let mut best = input;
    let mut message = match executor.execute(&best)? {
        Err(message) => message,
        Ok(_) => "fails not every time".to_owned(),
    };
    let (mut piece, mut tries) = (best.len() / 2, 0);
    while 0 < piece && tries < SHORTER_TRIES {
        let mut at = 0;
        while at < best.len() && tries < SHORTER_TRIES {
            let mut shorter = best.clone();
            shorter.drain(at..best.len().min(at + piece));
            tries += 1;
            match executor.execute(&shorter)? {
                Err(how) => (best, message) = (shorter, how),
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    Ok((best, message))
}

fn save(target: &Target, input: &[u8], message: String, keep: bool) -> anyhow::Result<Failure> {
    let dir: PathBuf = if keep {
        kept_dir(target.name)
    } else {
        std::env::temp_dir().join("coord-fuzz").join(target.name)
    };
    create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let name = format!("{:08x}", coord_wire::frame::crc32_plain(&[input]));
    let path = dir.join(name);
    write(&path, input)?;
    Ok(Failure { input: path, message })
}

fn write(path: &Path, input: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, input).with_context(|| path.display().to_string())
}

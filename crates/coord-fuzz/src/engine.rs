//! libFuzzer, handed one target: it mutates inputs and keeps those that reach something new. Where a target
//! panics or does not end, it ends the program and leaves the input in a file.

#![expect(unsafe_code, reason = "libFuzzer is a C++ library")]

use anyhow::{Context, anyhow};
use coord_fuzz::Target;
use core::ffi::{c_char, c_int, c_uint};
use core::slice::{from_raw_parts, from_raw_parts_mut};
use core::sync::atomic::{AtomicU8, Ordering};
// Links the library.
use libfuzzer_sys as _;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// One execution may take this long, in seconds; a parser needs milliseconds, a loaded machine seconds.
const EXECUTION_MAX: &str = "-timeout=20";
/// No input is longer, in bytes.
const INPUT_MAX: &str = "-max_len=98304";

/// What libFuzzer takes for places in the code, beside those of an instrumented build: an outcome sets its
/// byte.
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static OUTCOMES: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];

static RUN: OnceLock<Run> = OnceLock::new();

struct Run {
    target: &'static Target,
    /// The input that is executed: there whatever ends the program. Of a stack that is too small for it
    /// libFuzzer says nothing.
    current: File,
    outcomes: Mutex<BTreeSet<String>>,
}

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        execute: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
    fn LLVMFuzzerMutate(data: *mut u8, size: usize, size_max: usize) -> usize;
}

/// Runs a target with options of libFuzzer; only on the input files among them, if there are any. What is written
/// stands in a directory of the target's name below `below`: `seeds`, which begin each run; `found`, with which a
/// further run goes on; inputs that fail. Mostly ends the program, else gives back its exit code.
pub(crate) fn fuzz(
    target: &'static Target,
    below: &Path,
    arguments: Vec<String>,
) -> anyhow::Result<i32> {
    let dir = below.join(target.name);
    let [seeds, found, words] = ["seeds", "found", "words"].map(|name| dir.join(name));
    for dir in [&seeds, &found] {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    for (n, input) in target.inputs().into_iter().enumerate() {
        fs::write(seeds.join(n.to_string()), input).context("a first input")?;
    }
    fs::write(&words, target.words()).context("the words")?;
    let has_inputs = arguments.iter().any(|argument| !argument.starts_with('-'));
    // The copy of an earlier run may be the very input that is to be run again.
    let copy = dir.join(if has_inputs { "replayed" } else { "current" });
    let current = File::create(copy).context("the input's copy")?;
    let run = Run { target, current, outcomes: Mutex::default() };
    RUN.set(run).map_err(|_| anyhow!("libFuzzer runs once in a process"))?;

    let program = std::env::current_exe().context("the path of this program")?;
    let mut words = vec![
        // libFuzzer makes shell commands of it, to minimize an input, to merge directories and for jobs.
        format!("{} {} --dir {} --", program.display(), target.name, below.display()),
        EXECUTION_MAX.to_owned(),
        INPUT_MAX.to_owned(),
        // Without instrumentation most of them reach nothing new.
        "-keep_seed=1".to_owned(),
        format!("-dict={}", words.display()),
        format!("-artifact_prefix={}/", dir.display()),
    ];
    words.extend(arguments);
    if !has_inputs {
        words.extend([found, seeds].map(|dir| dir.display().to_string()));
    }
    let mut pointers = Vec::new();
    for word in words {
        pointers.push(CString::new(word)?.into_raw());
    }
    let mut count = c_int::try_from(pointers.len())?;
    pointers.push(core::ptr::null_mut());
    let mut first = pointers.as_mut_ptr();
    // SAFETY: the strings are never freed, and a null follows the last of them, as in `main` of C.
    Ok(unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut first, execute) })
}

/// Executes one input. A panic cannot leave a function of C: it ends the program, which libFuzzer notes.
extern "C" fn execute(data: *const u8, size: usize) -> c_int {
    let Some(run) = RUN.get() else { return 0 };
    // SAFETY: libFuzzer's input has `size` bytes. One without bytes may be nowhere.
    let input = if size == 0 { &[][..] } else { unsafe { from_raw_parts(data, size) } };
    run.execute(input).expect("the input's copy and the outcome are written");
    0
}

impl Run {
    fn execute(&self, input: &[u8]) -> std::io::Result<()> {
        self.current.set_len(input.len() as u64)?;
        self.current.write_all_at(input, 0)?;
        let outcome = self.target.run(input);
        let place = coord_wire::frame::crc32_plain(&[outcome.as_bytes()]) as usize % OUTCOMES.len();
        OUTCOMES[place].store(1, Ordering::Relaxed);
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if !outcomes.contains(&outcome) {
            writeln!(std::io::stdout(), "outcome: {outcome:?}")?;
            outcomes.insert(outcome);
        }
        Ok(())
    }
}

/// Mutates an input in libFuzzer's own ways, and mostly repairs it then.
#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerCustomMutator(
    data: *mut u8,
    size: usize,
    size_max: usize,
    seed: c_uint,
) -> usize {
    // SAFETY: they are libFuzzer's own.
    let size = unsafe { LLVMFuzzerMutate(data, size, size_max) };
    let repair = RUN.get().and_then(|run| run.target.repair);
    let Some(repair) = repair.filter(|_| !seed.is_multiple_of(3)) else { return size };
    // SAFETY: libFuzzer's input has room for `size_max` bytes.
    let room = unsafe { from_raw_parts_mut(data, size_max) };
    let mut input = room[..size].to_vec();
    repair(&mut input);
    input.truncate(size_max);
    room[..input.len()].copy_from_slice(&input);
    input.len()
}

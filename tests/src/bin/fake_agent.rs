//! An agent that does what its arguments say, one step after the other: a headless client, or any
//! other program, as a test of a run needs it. Behind its last step it exits with 0.
//!
//! | step | what it does |
//! |---|---|
//! | `stream-json` | nothing: it says that what follows is the client's stream |
//! | `say LINE`, `part TEXT`, `stderr LINE` | writes it, to standard output if not said otherwise |
//! | `init`, `result`, `result-error STATUS`, `retry` | writes that line of the client's stream |
//! | `text TEXT`, `tool ID`, `tool-done ID`, `tasks N`, `control ID`, `control-done ID`, `wakeup S` | the same |
//! | `flood N`, `flood-stderr N` | writes N bytes in lines |
//! | `flood-told N FILE` | the same, and keeps in FILE how many were taken |
//! | `copy` | copies standard input to standard output |
//! | `close`, `close-stderr` | closes standard output or standard error |
//! | `trap SIGNAL FILE` | writes each such signal to FILE, and is not ended by it |
//! | `child KINDS FILE` | starts a child that hangs, and whose pid stands in FILE: [`Kinds`] |
//! | `write FILE`, `wait FILE` | makes a file, waits until there is one |
//! | `hang`, `burn` | does nothing, or a fifth of a core, until it is ended |
//! | `exit CODE`, `die SIGNAL` | ends |

use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use signal_hook::low_level::pipe;
use std::env::{args, current_exe};
use std::fs::{File, rename, write};
use std::io::{Error, Read, Write, copy, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio, exit};
use std::thread::{park_timeout, spawn};
use std::time::{Duration, Instant};

/// The conversation of its stream.
const SESSION: &str = "5f0c54e5-7f0b-4d3a-9c37-3f0c1e9c8d11";
/// Between two looks for a file.
const PAUSE: Duration = Duration::from_millis(5);
/// What it writes at once when it writes much.
const BLOCK_BYTES: usize = 64 * 1024;
/// How it ends when nobody reads it any more.
const BROKEN_PIPE: u8 = 5;
/// How it ends when it does not understand a step, or cannot do it.
const FAILED: u8 = 70;

type Done = Result<(), Error>;

fn main() -> ExitCode {
    let mut steps = args().skip(1);
    while let Some(step) = steps.next() {
        if let Err(error) = take(&step, &mut steps) {
            if error.kind() == std::io::ErrorKind::BrokenPipe {
                return ExitCode::from(BROKEN_PIPE);
            }
            let _ = writeln!(std::io::stderr(), "step {step}: {error}");
            return ExitCode::from(FAILED);
        }
    }
    ExitCode::SUCCESS
}

fn take(step: &str, more: &mut impl Iterator<Item = String>) -> Done {
    let mut word = || more.next().ok_or_else(|| Error::other("a word is missing"));
    match step {
        "stream-json" => Ok(()),
        "say" => say(&format!("{}\n", word()?)),
        "part" => say(&word()?),
        "stderr" => writeln!(std::io::stderr(), "{}", word()?),
        "flood" => flood(&mut stdout(), number(&word()?)?, |_| Ok(())),
        "flood-stderr" => flood(&mut std::io::stderr(), number(&word()?)?, |_| Ok(())),
        "flood-told" => {
            let (bytes, file) = (number(&word()?)?, word()?);
            flood(&mut stdout(), bytes, |n| put(&file, &n.to_string()))
        }
        "copy" => copy(&mut stdin(), &mut stdout()).and_then(|_| stdout().flush()),
        "close" => Ok(rustix::stdio::dup2_stdout(File::open("/dev/null")?)?),
        "close-stderr" => Ok(rustix::stdio::dup2_stderr(File::open("/dev/null")?)?),
        "trap" => trap(&word()?, word()?),
        "child" => {
            let (kinds, file) = (word()?, word()?);
            child(Kinds(&kinds), &file)
        }
        // The other side of a child: what it does once it is where it is to be.
        "be-child" => {
            let (kinds, file) = (word()?, word()?);
            be_child(Kinds(&kinds), &file)
        }
        "write" => put(&word()?, "there"),
        "wait" => {
            wait(Path::new(&word()?));
            Ok(())
        }
        "hang" => hang(),
        "burn" => burn(),
        "exit" => exit(i32::try_from(number(&word()?)?).map_err(Error::other)?),
        "die" => {
            let signal = named(&word()?)?;
            // The runtime has a handler of its own for some, which goes with the first.
            loop {
                kill_process(getpid(), signal)?;
                park_timeout(PAUSE);
            }
        }
        _ => stream(step, &mut word),
    }
}

/// Lines of the client's stream, as it was measured.
fn stream(step: &str, word: &mut impl FnMut() -> Result<String, Error>) -> Done {
    let line = match step {
        "init" => json!({"type": "system", "subtype": "init", "cwd": "/", "tools": ["Bash"]}),
        "result" => result("success", "completed", false),
        "result-error" => {
            let status = number(&word()?)?;
            let mut line = result("success", "api_error", true);
            line["api_error_status"] = json!(status);
            line
        }
        "retry" => {
            json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error": "server_error"})
        }
        "text" => message("assistant", &json!({"type": "text", "text": word()?})),
        "tool" => {
            let call = json!({"type": "tool_use", "id": word()?, "name": "Bash", "input": {}});
            message("assistant", &call)
        }
        "tool-done" => message("user", &tool_result(&word()?)),
        "tasks" => {
            let tasks = (0..number(&word()?)?)
                .map(|n| json!({"task_id": n.to_string(), "task_type": "local_bash"}));
            json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks.collect::<Vec<_>>()})
        }
        "control" => {
            let id = word()?;
            let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": format!("tool-of-{id}")});
            return say(&format!(
                "{}\n",
                json!({"type": "control_request", "request_id": id, "request": request})
            ));
        }
        "control-done" => {
            return say(&format!(
                "{}\n",
                json!({"type": "control_cancel_request", "request_id": word()?})
            ));
        }
        "wakeup" => return wakeup(number(&word()?)?),
        _ => return Err(Error::other("no such step")),
    };
    tell(line)
}

fn tell(mut line: Value) -> Done {
    line["session_id"] = json!(SESSION);
    line["uuid"] = json!("8c5c1c2a-63a5-4e32-8a51-8d2ff3f1d0aa");
    say(&format!("{line}\n"))
}

fn result(subtype: &str, terminal_reason: &str, is_error: bool) -> Value {
    json!({
        "type": "result", "subtype": subtype, "is_error": is_error, "num_turns": 1,
        "result": "Hello there.", "terminal_reason": terminal_reason,
    })
}

fn message(role: &str, block: &Value) -> Value {
    json!({"type": role, "parent_tool_use_id": null, "message": {"role": role, "content": [block]}})
}

fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

fn wakeup(seconds: u64) -> Done {
    let input = json!({"delaySeconds": seconds, "reason": "later", "prompt": "go on"});
    let call =
        json!({"type": "tool_use", "id": "wakeup", "name": "ScheduleWakeup", "input": input});
    tell(message("assistant", &call))?;
    let mut answer = message("user", &tool_result("wakeup"));
    let now = u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or_default();
    let at_ms = now.saturating_add(seconds).saturating_mul(1000);
    answer["tool_use_result"] =
        json!({"scheduledFor": at_ms, "clampedDelaySeconds": seconds, "wasClamped": false});
    tell(answer)
}

fn say(text: &str) -> Done {
    let mut stdout = stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn flood(to: &mut impl Write, bytes: u64, mut tell: impl FnMut(u64) -> Done) -> Done {
    let line = [&[b'x'; 127][..], b"\n"].concat();
    let block = line.repeat(BLOCK_BYTES / line.len());
    let mut written = 0;
    while written < bytes {
        let now =
            usize::try_from(bytes - written).map_or(block.len(), |left| left.min(block.len()));
        to.write_all(block.get(..now).unwrap_or_default())?;
        to.flush()?;
        written += now as u64;
        tell(written)?;
    }
    Ok(())
}

fn trap(signal: &str, file: String) -> Done {
    let (mut read, written) = UnixStream::pair()?;
    pipe::register(named(signal)?.as_raw(), written)?;
    let line = format!("{signal}\n");
    // It lives as long as the process.
    spawn(move || -> Done {
        let (mut byte, mut all) = ([0], String::new());
        loop {
            read.read_exact(&mut byte)?;
            all.push_str(&line);
            put(&file, &all)?;
        }
    });
    Ok(())
}

/// What a child is, comma-separated: `group` (leads a process group), `session` (leads a session),
/// `daemon` (its parent is gone as well), `output` (holds this process's standard output),
/// `stubborn` (SIGTERM does not end it), `burn` (uses a fifth of a core), `claude` (by its name).
#[derive(Clone, Copy)]
struct Kinds<'a>(&'a str);

impl Kinds<'_> {
    fn has(self, kind: &str) -> bool {
        self.0.split(',').any(|one| one == kind)
    }
}

fn child(kinds: Kinds<'_>, file: &str) -> Done {
    let mut command = Command::new(current_exe()?);
    command.args(["be-child", kinds.0, file]).stdin(Stdio::null()).stderr(Stdio::null());
    if !kinds.has("output") {
        command.stdout(Stdio::null());
    }
    if kinds.has("claude") {
        command.arg0("claude");
    }
    if kinds.has("group") {
        command.process_group(0);
    }
    let mut started = command.spawn()?;
    if kinds.has("daemon") {
        started.wait()?;
    }
    wait(Path::new(file));
    Ok(())
}

fn be_child(kinds: Kinds<'_>, file: &str) -> Done {
    if kinds.has("session") {
        rustix::process::setsid()?;
    }
    if kinds.has("daemon") {
        let left = kinds.0.split(',').filter(|kind| !matches!(*kind, "daemon" | "session"));
        let left = left.collect::<Vec<_>>().join(",");
        let mut command = Command::new(current_exe()?);
        if kinds.has("claude") {
            command.arg0("claude");
        }
        command.args(["be-child", &left, file]).spawn()?;
        return Ok(());
    }
    if kinds.has("stubborn") {
        trap("TERM", format!("{file}.signals"))?;
    }
    put(file, &std::process::id().to_string())?;
    if kinds.has("burn") { burn() } else { hang() }
}

/// Whole or not at all.
fn put(file: &str, text: &str) -> Done {
    let half = format!("{file}.{}", std::process::id());
    write(&half, text)?;
    rename(half, file)
}

fn wait(file: &Path) {
    while !file.exists() {
        park_timeout(PAUSE);
    }
}

fn hang() -> ! {
    loop {
        park_timeout(Duration::MAX);
    }
}

fn burn() -> ! {
    let pause = PAUSE.saturating_mul(4);
    loop {
        let begun = Instant::now();
        while begun.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        park_timeout(pause);
    }
}

fn number(word: &str) -> Result<u64, Error> {
    word.parse().map_err(|_| Error::other("that is no number"))
}

fn named(signal: &str) -> Result<Signal, Error> {
    let found = match signal {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "SEGV" => Signal::SEGV,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        _ => return Err(Error::other("no such signal")),
    };
    Ok(found)
}

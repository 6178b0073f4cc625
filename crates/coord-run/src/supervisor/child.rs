//! Starts the run's process, and the threads that pass its streams on.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::Context;
use coord_host::process;
use coord_model::ProcessRef;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fstat;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, set_child_subreaper};
use signal_hook::iterator::{Handle, Signals};

use super::streams::Waits;
use super::{Message, streams};
use crate::signals::TAKEN;
use crate::spec::{Passes, RunSpec, Stdin};

/// Size of the pipe for the run's output, in bytes: the most that an ordinary user may have.
const PIPE_BYTES: usize = 1024 * 1024;

/// The result of a start.
pub(super) enum Started {
    Running(Running),
    /// The program could not be started: the exit code that a shell would give, and why.
    Not {
        code: i32,
        why: String,
    },
}

pub(super) struct Running {
    pub(super) child: ProcessRef,
    pub(super) group: Pid,
    pub(super) pipes: Vec<u64>,
    pub(super) waits: Vec<Waits>,
    pub(super) messages: Receiver<Message>,
    pub(super) signals: Handle,
}

impl Started {
    pub(super) fn child(&self) -> Option<ProcessRef> {
        match self {
            Self::Running(running) => Some(running.child),
            Self::Not { .. } => None,
        }
    }
}

pub(super) fn start(spec: &RunSpec) -> anyhow::Result<Started> {
    let (to_us, messages) = channel();
    // Before the start, so that an exit right after it is not missed.
    let signals = take_signals(to_us.clone())?;
    set_child_subreaper(Some(rustix::process::getpid())).context("adopting orphans")?;
    let (output, output_in) = pipe_with(PipeFlags::CLOEXEC).context("a pipe")?;
    let (errors, errors_in) = pipe_with(PipeFlags::CLOEXEC).context("a pipe")?;
    // A smaller pipe is only slower.
    let _smaller_is_fine = fcntl_setpipe_size(&output, PIPE_BYTES);
    let pipes = vec![inode(&output)?, inode(&errors)?];
    // Everything that can fail comes before the start: after it, somebody has to watch the process.
    let passes = spec.passes != Passes::Nothing;
    let to = passes.then(|| std::io::stdout().as_fd().try_clone_to_owned());
    let to = to.transpose().context("standard output")?;
    let errors_to = if spec.passes_errors {
        std::io::stderr().as_fd().try_clone_to_owned().context("standard error")?
    } else {
        File::options().write(true).open("/dev/null").context("/dev/null")?.into()
    };
    let spawned = command(spec, output_in, errors_in).and_then(|mut command| command.spawn());
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            signals.close();
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            return Ok(Started::Not { code, why: error.to_string() });
        }
    };
    feed(spec, child.stdin.take());
    let group = Pid::from_child(&child);
    let pid = child.id();
    // The process is not reaped before its exit is handled, so its `/proc` entry exists.
    let start_time = process::stat(pid).map_or(0, |stat| stat.start_time);
    let output_waits = streams::output(spec, output, to, to_us.clone());
    let waits = vec![output_waits, streams::errors(spec, errors, errors_to, to_us)];
    let child = ProcessRef { pid, start_time };
    Ok(Started::Running(Running { child, group, pipes, waits, messages, signals }))
}

fn command(spec: &RunSpec, output: OwnedFd, errors: OwnedFd) -> std::io::Result<Command> {
    let no_program = || std::io::Error::new(ErrorKind::NotFound, "no program");
    let (program, arguments) = spec.command.split_first().ok_or_else(no_program)?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
    command.stdin(match &spec.stdin {
        Stdin::Inherited => Stdio::inherit(),
        Stdin::Null => Stdio::null(),
        Stdin::Bytes(_) => Stdio::piped(),
    });
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &spec.dir {
        command.current_dir(dir);
    }
    // A process group of its own, so that a signal reaches the run and nothing else of this job.
    command.process_group(0);
    Ok(command)
}

/// Writes the run's input. It is no error if the run does not read all of it.
fn feed(spec: &RunSpec, stdin: Option<std::process::ChildStdin>) {
    if let (Stdin::Bytes(bytes), Some(mut stdin)) = (&spec.stdin, stdin) {
        let bytes = bytes.clone();
        thread::spawn(move || {
            if let Err(error) = stdin.write_all(&bytes) {
                tracing::debug!(%error, "standard input was not read to its end");
            }
        });
    }
}

fn take_signals(to_us: Sender<Message>) -> anyhow::Result<Handle> {
    let mut signals = Signals::new(TAKEN).context("taking signals")?;
    let handle = signals.handle();
    thread::spawn(move || {
        for signal in signals.forever() {
            if to_us.send(Message::Signal(signal)).is_err() {
                break;
            }
        }
    });
    Ok(handle)
}

fn inode(pipe: &OwnedFd) -> anyhow::Result<u64> {
    Ok(fstat(pipe).context("a pipe")?.st_ino)
}

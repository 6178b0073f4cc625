//! One call of a program, timed from spawn to end, and several of them in rotated order.

use super::sample::Sample;
use anyhow::{Context, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Calls before anything is counted.
const WARM_UP: usize = 20;

/// A program, called the same way each time.
#[derive(Debug, Clone)]
pub(super) struct Call {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    input: Vec<u8>,
}

impl Call {
    /// The program with what a hook of a session finds: some variables of the client, which is
    /// this process, and `input` on standard input.
    pub(super) fn new(program: &Path, input: &[u8]) -> Self {
        let environment = vec![
            ("CLAUDECODE", "1".into()),
            ("CLAUDE_CODE_ENTRYPOINT", "cli".into()),
            ("CLAUDE_PID", std::process::id().to_string().into()),
            ("HOME", "/nonexistent".into()),
            ("LANG", "C.UTF-8".into()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("TERM", "xterm-256color".into()),
            ("USER", "dev".into()),
        ];
        let program = program.to_owned();
        Self { program, arguments: Vec::new(), environment, input: input.to_vec() }
    }

    /// Adds arguments.
    pub(super) fn with(mut self, arguments: &[OsString]) -> Self {
        self.arguments.extend_from_slice(arguments);
        self
    }

    /// Calls it once: the time from spawn to end.
    pub(super) fn time(&self) -> anyhow::Result<Duration> {
        let mut command = self.command()?;
        let begun = Instant::now();
        let mut child = command.spawn().with_context(|| self.program.display().to_string())?;
        let status = child.wait()?;
        let time = begun.elapsed();
        if !status.success() {
            bail!("{} ended with {status}", self.program.display());
        }
        Ok(time)
    }

    /// Calls it once: its page faults, as the kernel counts them from its exec on.
    pub(super) fn page_faults(&self) -> anyhow::Result<u64> {
        let mut child = self.command()?.spawn()?;
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()));
        let status = reap(&mut child)?;
        let stat = stat?;
        if !status.success() {
            bail!("{} ended with {status}", self.program.display());
        }
        // Behind the name come the fields from number 3 on; 10 and 12 are minor and major faults.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        number(7).zip(number(9)).map(|(minor, major)| minor + major).context("/proc/PID/stat")
    }

    fn command(&self) -> anyhow::Result<Command> {
        let (reader, mut writer) = std::io::pipe()?;
        // A pipe holds 64 KiB, so this does not wait for a reader.
        writer.write_all(&self.input)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }
}

fn reap(child: &mut Child) -> anyhow::Result<std::process::ExitStatus> {
    child.wait().context("waiting for a child")
}

/// Calls each `rounds` times, in an order that rotates, so that none is always behind the same one.
pub(super) fn rotate(calls: &[&Call], rounds: usize) -> anyhow::Result<Vec<Sample>> {
    let mut samples: Vec<Sample> = calls.iter().map(|_| Sample::default()).collect();
    for round in 0..WARM_UP + rounds {
        for turn in 0..calls.len() {
            let at = (round + turn) % calls.len();
            let (Some(call), Some(sample)) = (calls.get(at), samples.get_mut(at)) else { continue };
            let time = call.time()?;
            if WARM_UP <= round {
                sample.push(time);
            }
        }
    }
    Ok(samples)
}

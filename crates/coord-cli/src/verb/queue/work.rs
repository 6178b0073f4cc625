//! `coord queue work NAME -- CMD…`: takes one message after the other and runs a command for each.
//!
//! Each command is a supervised run, so one that hangs is ended with its tree (S4-17). What happens to one
//! message is that message's alone (S4-10); the command is started again for the next one, after failures in
//! a row ever later (S4-21).

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use coord_config::Config;
use coord_core::{Budget, BudgetDecision, ExitStatus, Limits, RunOutcome};
use coord_model::{Awake, Delay};
use coord_run::{
    EndSignals, Output, Passes, RunEnd, RunSpec, Stdin, output_of, provider_of, supervise,
};
use coord_wire::exchange::mono_ns;
use coord_wire::message::{Claim, Claimed, Settle};

use super::{answered, post};
use crate::client::{self, segment};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, complain, duration_ms};

/// What goes wrong for every message is not tried faster than this.
const BUDGET: Limits = Limits {
    per_turn: u32::MAX,
    total: u32::MAX,
    delay: Delay { first_ms: 1_000, max_ms: 60_000 },
};
/// A lease is this much longer than the command may take, so that its end can be told.
const LEASE_SPARE_MS: u64 = 60_000;
/// An end is told again for so long when nobody answers.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// Run a command for each message
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord queue work builds -- ./build.sh               the command reads the text on standard input\n  coord queue work tasks --timeout 1h -- claude -p --output-format stream-json --verbose\n  coord queue work builds --once -- ./build.sh        one message, or exit code 5\n\nIf the command exits 0, the message is done; otherwise it is retried up to 3 times.\nCOORD_MESSAGE, COORD_FROM and COORD_ATTEMPT describe the message to the command.\nCOORD_MAYBE_DUPLICATE=1 means that it was possibly done before."
)]
pub(crate) struct Args {
    /// Name of the queue
    queue: String,
    /// End a command that takes longer, with all processes that it started
    #[arg(long, value_name = "TIME", value_parser = duration_ms, default_value = "5m")]
    timeout: u64,
    /// Process one message, then exit
    #[arg(long)]
    once: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let config_file = context.paths.config_file();
    let config = Config::load(&config_file).with_context(|| config_file.display().to_string())?;
    let journal = JournalWatch::new(context)?;
    let signals = EndSignals::take().context("signals")?;
    let worker = Worker { args, context, config, journal, signals };
    let mut budget = Budget::default();
    loop {
        worker.wait_for(&budget);
        if worker.signals.wait(0) {
            return Err(Failure::Exit(ExitStatus::Code(INTERRUPTED)));
        }
        match worker.claim()? {
            Some(claimed) => {
                budget.charge(awake());
                let end = worker.work(&claimed)?;
                let is_done = worker.is_done(&end);
                if is_done {
                    budget.succeeded();
                } else {
                    budget.failed(awake());
                }
                worker.tell(&claimed, &end, is_done)?;
                if args.once {
                    return if is_done { Ok(()) } else { Err(Failure::Told) };
                }
            }
            None if args.once => {
                return Err(Failure::TimedOut(format!("nothing waits for {}", args.queue)));
            }
            None => worker.journal.pause_beside(&worker.signals, Duration::MAX)?,
        }
    }
}

/// As a shell has it for Ctrl-C.
const INTERRUPTED: i32 = 130;

fn awake() -> Awake {
    Awake(mono_ns())
}

struct Worker<'a> {
    args: &'a Args,
    context: &'a Context,
    config: Config,
    journal: JournalWatch,
    signals: EndSignals,
}

impl Worker<'_> {
    fn wait_for(&self, budget: &Budget) {
        while let BudgetDecision::Later(due) = budget.decide(BUDGET, awake())
            && !self.signals.wait(due.ms_since(awake()).saturating_add(1))
        {}
    }

    fn claim(&self) -> Result<Option<Claimed>, Failure> {
        let lease_ms = self.args.timeout.saturating_add(LEASE_SPARE_MS);
        let holder = format!("coord queue work (pid {})", std::process::id());
        let ask = Claim { holder, lease_ms: Some(lease_ms) };
        let path = format!("/v1/queues/{}/claim", segment(&self.args.queue));
        answered(client::take(self.context, &path, &ask), self.context)
    }

    fn work(&self, claimed: &Claimed) -> Result<RunEnd, Failure> {
        let message = &claimed.message;
        let program = self.args.command.first().context("no command")?;
        let limits = self.config.run_limits();
        let mut env: Vec<(OsString, OsString)> = Vec::new();
        for (name, value) in [
            ("COORD_MESSAGE", message.id.clone()),
            ("COORD_FROM", message.from.clone()),
            ("COORD_ATTEMPT", message.attempts.to_string()),
            ("COORD_MAYBE_DUPLICATE", u8::from(message.maybe_duplicate).to_string()),
        ] {
            env.push((name.into(), value.into()));
        }
        let spec = RunSpec {
            id: None,
            command: self.args.command.clone(),
            dir: None,
            env,
            stdin: Stdin::Bytes(claimed.text.clone().into_bytes()),
            passes: Passes::Bytes,
            passes_errors: true,
            output: self.output(),
            provider: provider_of(program),
            limits: coord_core::RunLimits {
                timeout_ms: self.args.timeout,
                first_result_ms: limits.first_result_ms.max(self.args.timeout),
                ..limits
            },
            ends_daemons: false,
            limit_texts: Vec::new(),
            prompt: Some(claimed.text.clone()),
            name: Some(format!("{} {}", self.args.queue, message.id)),
            paths: self.context.paths.clone(),
        };
        Ok(supervise(&spec).context("the run cannot be supervised")?)
    }

    fn output(&self) -> Output {
        output_of(&self.args.command)
    }

    fn is_done(&self, end: &RunEnd) -> bool {
        let is_fine = match self.output() {
            // Its own word counts, where it has one.
            Output::Stream => end.judged.outcome == RunOutcome::Done,
            Output::Text => true,
        };
        is_fine && end.status == ExitStatus::Code(0) && !end.reason.is_forced()
    }

    /// Says what became of a message. One whose lease is over by now is another's; the next one is taken.
    fn tell(&self, claimed: &Claimed, end: &RunEnd, is_done: bool) -> Result<(), Failure> {
        let (id, fence) = (&claimed.message.id, claimed.fence);
        let why = (!is_done).then(|| why(end));
        let verb = if is_done { "done" } else { "fail" };
        let shown = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        complain("coord queue work", &format!("{id} {verb}{shown}"));
        let settle = Settle { fence, why, ..Settle::default() };
        let began_ns = mono_ns();
        loop {
            match post(id, verb, &settle, self.context) {
                // It is being restarted, perhaps: what was done is not to be done twice for that.
                Err(Failure::NotReachable(_))
                    if Duration::from_nanos(mono_ns().saturating_sub(began_ns)) < TOLD_FOR =>
                {
                    self.journal.pause(Duration::from_secs(1))?;
                }
                Err(Failure::Failed(error)) => {
                    complain("coord queue work", &format!("{id}: {error:#}"));
                    return Ok(());
                }
                told => return told.map(|_| ()),
            }
        }
    }
}

/// Why a message is not done, in one line. What the command printed stands in no record (G11).
fn why(end: &RunEnd) -> String {
    let is_forced = end.reason.is_forced();
    let how = if is_forced { end.reason.word().to_owned() } else { end.status.words() };
    format!("{how}; coord explain {}", end.id)
}

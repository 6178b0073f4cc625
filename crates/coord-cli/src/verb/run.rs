//! `coord run -- CMD…`: one supervised headless run. Its streams and its exit are the command's own.

use std::ffi::OsString;

use anyhow::Context as _;
use coord_config::{Config, duration_ms};
use coord_core::{ExitReason, ExitStatus, Provider, RunLimits};
use coord_run::{Output, Passes, RunEnd, RunSpec, Stdin, output_of, provider_of, supervise};

use coord_wire::message::{Send, Sent};

use super::queue::answered;
use crate::client;
use crate::context::Context;
use crate::out::{Failure, complain};
use crate::verb::completions;

/// Its own usage errors (interfaces.md): the command's exit codes are the command's.
pub(crate) const USAGE: u8 = 64;

/// Run a command, and end it when it hangs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord run -- claude -p --output-format stream-json --verbose 'fix the tests' > out.jsonl\n  coord run --name nightly --timeout 1h -- claude -p 'look around'\n  coord run --parent 3f2a -- make release   send session 3f2a a message when it ends\n  coord inspect               list runs too, with what they wait for\n  coord explain run_0193      why coord ended a run\n\nStandard streams pass through unchanged; the exit code and signal are the command's. Other exit\ncodes: 64 wrong usage of `coord run`, 126 and 127 the command cannot be started. The table [run] of\nthe configuration has the time limits: `coord config show`."
)]
pub(crate) struct Args {
    /// Name of the run, shown to people
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Send this session's agent a message when the run ends: an id, the beginning of one, or a name
    #[arg(long, value_name = "SESSION", value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    parent: Option<String>,
    /// Which client the command is [default: derived from the program's name]
    #[arg(long, value_enum, value_name = "WHO")]
    provider: Option<Who>,
    /// Treat the output as Claude Code's stream-json, even if the arguments do not ask for it
    #[arg(long)]
    stream: bool,
    /// End the run after this time, such as 90m (run.timeout)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// End the run after this much silence following a known error on its standard error (run.confirm); 0s: at once
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    confirm: Option<u64>,
    /// When coord ends the run, also end daemons that left its session
    #[arg(long)]
    end_daemons: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Whose client a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Who {
    /// Claude Code
    Claude,
    /// Anything else
    Other,
}

fn parse_duration(text: &str) -> Result<u64, String> {
    duration_ms(text).ok_or_else(|| "takes a duration such as 0s, 30s, 5m or 2h".to_owned())
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let spec = spec(args, context)?;
    let end = supervise(&spec).context("the run cannot be supervised")?;
    report(&end);
    if let Some(parent) = &args.parent {
        tell_parent(parent, &end, args, context);
    }
    Err(Failure::Exit(end.status))
}

fn spec(args: &Args, context: &Context) -> Result<RunSpec, Failure> {
    let config_file = context.paths.config_file();
    // 1 would be the command's.
    let config = Config::load(&config_file)
        .map_err(|error| Failure::Usage(format!("{}: {error}", config_file.display())))?;
    let program = args.command.first().context("no command")?;
    let provider = match args.provider {
        Some(Who::Claude) => Provider::Claude,
        Some(Who::Other) => Provider::Other,
        None => provider_of(program),
    };
    Ok(RunSpec {
        id: None,
        limits: limits(args, provider, &config)?,
        provider,
        command: args.command.clone(),
        dir: None,
        env: Vec::new(),
        stdin: Stdin::Inherited,
        passes: Passes::ToItsEnd,
        output: if args.stream { Output::Stream } else { output_of(&args.command) },
        passes_errors: true,
        ends_daemons: args.end_daemons,
        limit_texts: Vec::new(),
        prompt: None,
        name: args.name.clone(),
        paths: context.paths.clone(),
    })
}

/// Shorter silence than the client's own tries proves nothing (H-09).
fn limits(args: &Args, provider: Provider, config: &Config) -> Result<RunLimits, Failure> {
    let limits = config.run_limits();
    let confirm = args.confirm;
    if provider == Provider::Claude && confirm.is_some_and(|ms| ms < limits.confirm_ms) {
        let text = format!(
            "--confirm: Claude Code is silent for longer than that while it retries: use {} s or more, or --provider other",
            limits.confirm_ms / 1000
        );
        return Err(Failure::Usage(text));
    }
    Ok(RunLimits {
        timeout_ms: args.timeout.filter(|ms| *ms > 0).unwrap_or(limits.timeout_ms),
        confirm_ms: confirm.unwrap_or(limits.confirm_ms),
        confirm_before_result_ms: match (provider, confirm) {
            (Provider::Other, Some(ms)) => ms,
            (Provider::Claude | Provider::Other, _) => limits.confirm_before_result_ms,
        },
        ..limits
    })
}

/// One line where coord did more than watch.
fn report(end: &RunEnd) {
    if let Some(error) = &end.no_record {
        let text = format!(
            "the record of this run could not be written, so coord would not have ended it: {error}"
        );
        complain("coord run", &text);
    }
    if end.reason == ExitReason::NotStarted {
        complain("coord run", &end.judged.because);
    } else if end.reason.is_forced() {
        let (reason, id) = (end.reason.word(), &end.id);
        complain("coord run", &format!("{reason}: `coord explain {id}` says why"));
    }
}

/// Sends a message about the end of the run to the parent session, from the sender that started the run
/// (S4-27, H-04). A message that cannot be sent does not change how the run ends.
fn tell_parent(parent: &str, end: &RunEnd, args: &Args, context: &Context) {
    let name = args.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let (id, outcome, because) = (&end.id, end.judged.outcome.word(), &end.judged.because);
    let ask = Send {
        session: Some(parent.to_owned()),
        text: format!(
            "The run {id}{name} has ended: {outcome}, {because}. `coord explain {id}` says why."
        ),
        key: Some(format!("end-{id}")),
        ..Send::default()
    };
    let sent: Result<Sent, Failure> =
        answered(client::post(context, "/v1/messages", &ask), context);
    if let Err(failure) = sent {
        let why = failure.into_error();
        complain(
            "coord run",
            &format!("{parent} got no message about the end of the run: {why:#}"),
        );
    }
}

/// Ends this process as the command ended: by the same code, or by the same signal.
pub(crate) fn end_as(status: ExitStatus) -> std::process::ExitCode {
    match status {
        ExitStatus::Code(code) => std::process::exit(code),
        ExitStatus::Signal(signal) => {
            // The command's own core is enough.
            let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
            let _a_second_core_is_no_harm =
                rustix::process::setrlimit(rustix::process::Resource::Core, none);
            let _only_fails_for_no_signal = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal)
        }
    }
}

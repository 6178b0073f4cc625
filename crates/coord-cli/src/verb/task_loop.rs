//! `coord loop`: keeps a task going over a pool of agents.

mod progress;

use std::fs::File;
use std::io::{IsTerminal, Read, Write, stderr, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use coord_config::{AgentConfig, Config};
use coord_core::{ExitStatus, LoopEnd, Next, Provider, RotationLimits};
use coord_loop::{DIR, LoopSpec, Machine, run_loop, task_dir};
use coord_model::Moment;
use coord_model::stamp::rfc3339;
use coord_run::{Output, Passes, RunSpec, Stdin, quarantine, supervise};
use progress::Progress;

use crate::context::Context;
use crate::out::{Failure, complain, escape};

const PROMPT_BYTES_MAX: u64 = 1024 * 1024;

/// Keep a task going over a pool of agents
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord loop --prompt task.md                 until an agent reports done\n  coord loop --prompt task.md --dry-run       print what would run first\n  coord loop --prompt task.md --agent claude --max-iterations 10 > out.jsonl\n\nThe agents are the [[loop.agent]] tables of config.toml, the limits are keys of [loop]:\n`coord config show`. An agent writes into the status file what comes next: continue, rotate, done or\nstuck. Hand-off, history and state are in .coord-loop in the task's directory. A loop that is\nstarted again resumes where it stopped.\n\nExit codes: 0 done, 1 error, 2 stuck, 3 iterations used up, 4 all agents at their limit, 64 usage,\n130 interrupted."
)]
pub(crate) struct Args {
    /// File with the task's description
    #[arg(long, value_name = "FILE")]
    prompt: PathBuf,
    /// Directory of the task [default: the current directory]
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// Use only this agent; may be given several times, in the order of rotation
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// End after N iterations (loop.max_iterations)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// End when all agents are at their limit, instead of waiting for the first reset
    #[arg(long)]
    no_wait: bool,
    /// Start over at iteration 1 with no crash counted; hand-off and history stay
    #[arg(long)]
    fresh: bool,
    /// Print what would run first, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let config_file = context.paths.config_file();
    let config = Config::load(&config_file).with_context(|| config_file.display().to_string())?;
    let spec = spec(args, &config, context)?;
    if args.dry_run {
        return dry_run(&spec, context);
    }
    let paths = context.paths.clone();
    let mut progress = Progress::start(spec.limits.max_iterations);
    let mut machine = Machine::new(
        spec.dir.clone(),
        paths.clone(),
        config.task_loop.min_free_memory_mb.0,
        supervise,
        |session: &str| quarantine::is_quarantined(&paths, session),
        |note| progress.note(note),
    )?;
    let ended = run_loop(&spec, &mut machine);
    drop(machine);
    progress.end();
    let (end, because) = ended?;
    complain("coord loop", &because);
    match end {
        LoopEnd::Done => Ok(()),
        LoopEnd::Error
        | LoopEnd::Stuck
        | LoopEnd::MaxIterations
        | LoopEnd::AllExhausted
        | LoopEnd::Interrupted => Err(Failure::Exit(ExitStatus::Code(end.exit_code().into()))),
    }
}

fn spec(args: &Args, config: &Config, context: &Context) -> Result<LoopSpec, Failure> {
    let dir = task_dir(&args.dir)?;
    let limits = config.rotation_limits();
    Ok(LoopSpec {
        prompt: prompt(&args.prompt)?,
        agents: pool(args, config, context)?,
        limits: RotationLimits {
            max_iterations: args.max_iterations.unwrap_or(limits.max_iterations),
            never_waits: args.no_wait,
            ..limits
        },
        run: RunSpec {
            id: None,
            command: Vec::new(),
            dir: Some(dir.clone()),
            env: Vec::new(),
            stdin: Stdin::Null,
            // What an agent prints is not for a terminal (H-26).
            passes: if stdout().is_terminal() { Passes::Nothing } else { Passes::Bytes },
            output: Output::Text,
            passes_errors: !stderr().is_terminal(),
            provider: Provider::Other,
            limits: config.run_limits(),
            ends_daemons: false,
            limit_texts: Vec::new(),
            prompt: None,
            name: None,
            paths: context.paths.clone(),
        },
        dir,
        is_fresh: args.fresh,
    })
}

fn prompt(path: &Path) -> Result<String, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("--prompt {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(PROMPT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(&error.to_string()))?;
    let is_long = u64::try_from(bytes.len()).is_ok_and(|length| PROMPT_BYTES_MAX < length);
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?;
    if is_long || text.contains('\0') || text.trim().is_empty() {
        return Err(wrong("it is empty, longer than 1 MiB, or no text"));
    }
    Ok(text)
}

fn pool(args: &Args, config: &Config, context: &Context) -> Result<Vec<AgentConfig>, Failure> {
    let all = config.agents();
    if all.is_empty() {
        return Err(anyhow!(
            "no agent is configured; for example, under [loop] in {}: agent = [{{ name = \"claude\", command = [\"claude\", \"-p\", \"--output-format\", \"stream-json\", \"--verbose\", \"{{prompt}}\"] }}]",
            context.paths.config_file().display()
        )
        .into());
    }
    if args.agent.is_empty() {
        return Ok(all.to_vec());
    }
    let mut pool: Vec<AgentConfig> = Vec::new();
    for name in &args.agent {
        let Some(agent) = all.iter().find(|agent| agent.name == *name) else {
            let names: Vec<_> = all.iter().map(|agent| agent.name.as_str()).collect();
            let text = format!("--agent {name}: no such agent; there are {}", names.join(", "));
            return Err(Failure::Usage(text));
        };
        if pool.iter().any(|one| one.name == *name) {
            return Err(Failure::Usage(format!("--agent {name}: given twice")));
        }
        pool.push(agent.clone());
    }
    Ok(pool)
}

fn dry_run(spec: &LoopSpec, context: &Context) -> Result<(), Failure> {
    let now = context.now;
    let now = Moment { awake: coord_model::Awake(now.mono_ns), wall_ms: now.wall_ms };
    let next = match spec.first(now)? {
        Next::Run { agent, iteration, resume } => {
            let resume = if resume.is_some() { ", going on with its conversation" } else { "" };
            format!("{agent}, iteration {iteration}{resume}")
        }
        Next::Wait(hold) => {
            let until = rfc3339(now.wall_ms.saturating_add(hold.remaining_ms(now.awake)));
            format!("a wait until {until}: {}", hold.reason)
        }
        Next::End { because, .. } => format!("nothing: {because}"),
    };
    let mut out = stdout().lock();
    writeln!(out, "directory  {}", escape(&spec.dir.join(DIR).display().to_string()))?;
    writeln!(out, "limits     {} iterations", spec.limits.max_iterations)?;
    for agent in &spec.agents {
        let command: Vec<_> = agent.command.iter().map(|word| quoted(word)).collect();
        writeln!(out, "agent      {}: {}", escape(&agent.name), escape(&command.join(" ")))?;
    }
    Ok(writeln!(out, "next       {}", escape(&next))?)
}

/// A word as a shell would take it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+{}".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(is_plain);
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

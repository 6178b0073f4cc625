//! `coord doctor`: checks every precondition and names the remedy of what does not hold.
//!
//! Decides which checks there are and how their findings are told; each topic judges in a file of
//! its own, and most judgements are functions of what was read, so that a set-up that cannot be made
//! is judged all the same. Without `--fix` nothing is changed; the probe adds one record to the
//! journal, of no session. Holds H-14, H-15, H-24, H-27, H-29 and H-39 where a set-up can break them.

mod approvals;
mod bundle;
mod child;
mod client;
mod coordinator;
mod finding;
mod fix;
mod fleet;
mod notices;
mod print;
mod probe;
mod programs;
mod sessions;
mod settings;
mod state;
mod store;

use std::path::PathBuf;

use coord_config::Config;
use coord_host::registry::Readable;
use coord_wire::api::Health;
use coord_wire::exchange::Miss;
use coord_wire::inspect::Session;
use finding::{Finding, Level};
use settings::SettingsFile;

use crate::client as socket;
use crate::context::Context;
use crate::out::Failure;
use crate::verb::inspect::look;
use crate::verb::install::{audit, default_hooks_dir};
pub(crate) use settings::note_elsewhere;

/// Check everything that coord needs; each finding names its remedy
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord doctor\n  coord doctor --fix --dry-run      print what could be repaired\n  coord doctor --bundle report.txt  write a report without prompts or secrets\n\nExit code 1: a finding is an error; it names its remedy."
)]
pub(crate) struct Args {
    /// Repair what can be repaired safely, and print what was done
    #[arg(long)]
    fix: bool,
    /// With --fix: print what would be done, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Also write a report to a new FILE, for others to read: no prompts, no secrets
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A configuration directory of Claude Code; may be given several times [default:
    /// `$CLAUDE_CONFIG_DIR` or ~/.claude]
    #[arg(long, value_name = "DIR")]
    config_dir: Vec<PathBuf>,
    /// Where the coord-hook executables should be [default: ../lib/coord beside this program]
    #[arg(long, value_name = "DIR")]
    hooks_dir: Option<PathBuf>,
}

/// What the checks look at.
struct Setup<'a> {
    context: &'a Context,
    /// The configuration, or the defaults and what is wrong with the file.
    config: Config,
    config_error: Option<String>,
    /// Where the hooks of this program should be.
    hooks_place: Option<PathBuf>,
    /// The same, if all of them are there.
    hooks_dir: Option<PathBuf>,
    settings: Vec<SettingsFile>,
    health: Result<Health, Miss>,
    sessions: Result<Vec<Session>, String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut findings = examine(args, context)?;
    let mut fixes = None;
    if args.fix {
        let mut repairs = fix::Repairs::default();
        // What is repaired may make another repair possible.
        while repairs.apply(&findings, args.dry_run, context) {
            findings = examine(args, &context.at_present())?;
        }
        fixes = Some(repairs.done);
    }
    if let Some(file) = &args.bundle {
        bundle::write(file, &findings, &Setup::look(args, context)?)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        print::json(&mut out, &findings, fixes.as_deref())?;
    } else {
        print::text(&mut out, &findings, fixes.as_deref(), args.dry_run)?;
    }
    if print::is_ok(&findings) { Ok(()) } else { Err(Failure::Told) }
}

fn examine(args: &Args, context: &Context) -> Result<Vec<Finding>, Failure> {
    let setup = Setup::look(args, context)?;
    let mut findings = Vec::new();
    findings.extend(client::check(&setup));
    findings.extend(settings::check(&setup));
    findings.extend(programs::check(&setup));
    findings.extend(state::check(&setup));
    findings.extend(store::check(&setup));
    findings.extend(coordinator::check(&setup));
    findings.extend(sessions::check(&setup));
    findings.extend(notices::check(&setup));
    findings.extend(approvals::check(&setup));
    findings.extend(fleet::check(&setup));
    findings.push(probe::check(&setup));
    Ok(findings)
}

impl<'a> Setup<'a> {
    fn look(args: &Args, context: &'a Context) -> Result<Self, Failure> {
        let file = context.paths.config_file();
        let (config, config_error) = match Config::load(&file) {
            Ok(config) => (config, None),
            Err(error) => (Config::default(), Some(error.to_string())),
        };
        let hooks_place = match &args.hooks_dir {
            Some(dir) => Some(std::path::absolute(dir)?),
            None => default_hooks_dir().ok(),
        };
        let hooks_dir = hooks_place.clone().filter(|dir| audit::has_programs(dir));
        // An answer that is an error is of a coordinator that cannot say how it is.
        let health = socket::get::<Health>(context, "/healthz")
            .and_then(|health| health.map_err(|_| Miss::Broken));
        let sessions = look(None, context).map(|looked| looked.answer.sessions);
        let sessions = sessions.map_err(|failure| {
            if let Failure::Failed(error) = &failure {
                format!("{error:#}")
            } else {
                format!("{failure:?}")
            }
        });
        let settings = settings::files(&args.config_dir)?;
        Ok(Self {
            context,
            config,
            config_error,
            hooks_place,
            hooks_dir,
            settings,
            health,
            sessions,
        })
    }

    /// Which directories of the client may be looked at (H-14).
    fn readable(&self) -> Readable {
        Readable {
            root: self.context.root.clone(),
            named: self.config.tracking.config_dirs.0.clone(),
        }
    }

    /// The sessions, as far as they could be read.
    fn sessions(&self) -> &[Session] {
        self.sessions.as_deref().unwrap_or_default()
    }

    /// Whether somebody has the journal open and may be writing to it.
    fn is_running(&self) -> bool {
        !matches!(self.health, Err(Miss::Absent))
    }
}

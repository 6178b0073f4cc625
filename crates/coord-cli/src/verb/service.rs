//! `coord service install|remove`: the coordinator as a service of the user's login.
//!
//! Nothing needs it: `coord up` and the hooks start a coordinator where there is none. A service
//! starts it at login already, restarts it when it dies, and ends one that no longer gets on with
//! its work. Decides what the unit says; `coord up` decides when it is used. Holds R-16 (it stays
//! down after `coord down`) and H-41 (a unit of its own: the end of a session or a terminal does
//! not take it along).

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};

use crate::context::{Context, variable};
use crate::out::Failure;
use crate::verb::{down, up};

/// systemd's tool, by absolute path.
const SYSTEMCTL: &str = "/usr/bin/systemctl";
/// The unit.
pub(crate) const UNIT: &str = "coord.service";
/// launchd's name of the agent.
const LABEL: &str = "dev.coord.coordinator";
/// What decides where coord's files and tmux's sockets lie; the manager may not know it.
const PLACES: [&str; 3] = ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMUX_TMPDIR"];

/// Run the coordinator as a service of your login
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord service install\n  coord service install --dry-run   print the unit and change nothing\n\ncoord does not need a service: `coord up` and the hooks start the coordinator without one. If your\nservices end when you log out, `loginctl enable-linger` keeps them running."
)]
pub(crate) struct Args {
    action: Action,
    /// Service manager [default: that of this system]
    #[arg(long, value_enum, default_value_t = Manager::native(), hide_default_value = true)]
    manager: Manager,
    /// Print the service's file and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Write the service's file, then enable and start the service
    Install,
    /// Stop and disable the service, and remove its file
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Manager {
    /// A user unit of systemd
    Systemd,
    /// An agent of launchd
    Launchd,
}

impl Manager {
    const fn native() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    fn file(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Systemd => unit_file(),
            Self::Launchd => {
                let home = variable("HOME").context("HOME is not set")?;
                Ok(PathBuf::from(home).join(format!("Library/LaunchAgents/{LABEL}.plist")))
            }
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if context.root.is_some() {
        let why = "a service uses your default directories: run this without --root and COORD_HOME";
        return Err(anyhow!(why).into());
    }
    let file = args.manager.file()?;
    let mut out = std::io::stdout();
    if args.dry_run {
        match args.action {
            Action::Install => write!(out, "{}", text(args.manager, context)?)?,
            Action::Remove => writeln!(out, "would remove {}", file.display())?,
        }
        return Ok(());
    }
    if args.manager != Manager::Systemd {
        return Err(anyhow!("this system has no launchd; --dry-run prints the file").into());
    }
    match args.action {
        Action::Install => install(&file, context)?,
        Action::Remove if file.exists() => remove(&file)?,
        Action::Remove => return Ok(writeln!(out, "no service is installed")?),
    }
    let done = match args.action {
        Action::Install => "installed and started",
        Action::Remove => "removed",
    };
    Ok(writeln!(out, "{done} {UNIT} ({})", file.display())?)
}

fn install(file: &Path, context: &Context) -> anyhow::Result<()> {
    if !up::has_user_manager() {
        bail!(
            "your systemd user manager does not answer (XDG_RUNTIME_DIR); `coord up` works without it"
        );
    }
    let text = text(Manager::Systemd, context)?;
    let dir = file.parent().context("a unit has a directory")?;
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file).with_context(|| file.display().to_string())?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--quiet", UNIT])?;
    // The lock has one holder: what runs without the service makes room for it.
    down::end(context)?;
    up::lift_down(context)?;
    systemctl(&["start", UNIT])
}

fn remove(file: &Path) -> anyhow::Result<()> {
    if up::has_user_manager() {
        systemctl(&["disable", "--quiet", "--now", UNIT])?;
    }
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| file.display().to_string());
        }
        Ok(()) | Err(_) => (),
    }
    if up::has_user_manager() { systemctl(&["daemon-reload"]) } else { Ok(()) }
}

/// Where the user's units lie.
fn unit_file() -> anyhow::Result<PathBuf> {
    let config = match variable("XDG_CONFIG_HOME").map(PathBuf::from) {
        Some(config) if config.is_absolute() => config,
        Some(_) | None => {
            PathBuf::from(variable("HOME").context("HOME is not set")?).join(".config")
        }
    };
    Ok(config.join("systemd/user").join(UNIT))
}

/// Whether `coord up` is to start the service instead of a process of its own.
pub(crate) fn is_installed(context: &Context) -> bool {
    context.root.is_none() && unit_file().is_ok_and(|file| file.exists())
}

/// Runs `systemctl --user`; for a start it returns when the coordinator takes events.
pub(crate) fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(SYSTEMCTL);
    command.arg("--user").args(arguments).stdin(Stdio::null());
    let output = command.output().context(SYSTEMCTL)?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    bail!("systemctl --user {}: {}", arguments.join(" "), why.lines().next().unwrap_or("failed"))
}

/// The service's file.
fn text(manager: Manager, context: &Context) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("finding this program")?;
    let program = one_line(program)?;
    let places = PLACES.iter().filter_map(|name| Some((*name, variable(name)?)));
    let places: Result<Vec<_>, _> = places
        .map(|(name, value)| Ok::<_, anyhow::Error>((name, one_line(value.into())?)))
        .collect();
    if manager == Manager::Systemd && program.contains(['"', '\'', '\\']) {
        bail!("systemd cannot run a program with quotes or backslashes in its path: {program}");
    }
    Ok(match manager {
        Manager::Systemd => unit(&program, &places?, &one_line(context.paths.down())?),
        Manager::Launchd => agent(&program, &places?),
    })
}

/// Neither kind of file can hold anything else in a path.
fn one_line(path: PathBuf) -> anyhow::Result<String> {
    match path.into_os_string().into_string() {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text),
        Ok(text) => bail!("{text:?} has control characters: use another path"),
        Err(path) => bail!("{} is not UTF-8: use another path", path.display()),
    }
}

/// * `KillMode=process`: nothing that the coordinator may have started dies with it.
/// * The condition holds R-16, at login and at a restart too.
/// * A start may replay a long journal; the watchdog is fed every 5 s by durable progress.
fn unit(program: &str, places: &[(&str, String)], down: &str) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|(name, value)| format!("Environment=\"{name}={}\"\n", quoted(value)))
        .collect();
    format!(
        "[Unit]\n\
         Description=coord, the coordinator of Claude Code sessions\n\
         ConditionPathExists=!{down}\n\
         StartLimitIntervalSec=600\n\
         StartLimitBurst=5\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart=\"{program}\" serve\n\
         {places}WorkingDirectory=/\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         TimeoutStartSec=300\n\
         WatchdogSec=60\n\
         KillMode=process\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        down = down.replace('%', "%%"),
        program = quoted(program),
        places = places.concat(),
    )
}

/// For between double quotes in a unit. A dollar sign stays: in the path of a program and in
/// `Environment=` nothing is put in its place.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
}

/// `SuccessfulExit` false: it comes back after a crash and stays down after `coord down`, until the
/// next login.
fn agent(program: &str, places: &[(&str, String)]) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|(name, value)| {
            format!("    <key>{name}</key>\n    <string>{}</string>\n", in_xml(value))
        })
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n  \
         <key>Label</key>\n  <string>{LABEL}</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n    <string>{program}</string>\n    <string>serve</string>\n  </array>\n  \
         <key>EnvironmentVariables</key>\n  <dict>\n{places}  </dict>\n  \
         <key>WorkingDirectory</key>\n  <string>/</string>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  \
         <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
         <key>ThrottleInterval</key>\n  <integer>10</integer>\n  \
         <key>AbandonProcessGroup</key>\n  <true/>\n  \
         <key>Umask</key>\n  <integer>63</integer>\n\
         </dict>\n\
         </plist>\n",
        program = in_xml(program),
        places = places.concat(),
    )
}

fn in_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_the_file_wants_them() {
        let place = [("TMUX_TMPDIR", "/t 50% \"é\"".to_owned())];
        let unit = unit("/a b/c%/coord", &place, "/s t/100%/down");
        assert!(unit.contains("ExecStart=\"/a b/c%%/coord\" serve\n"), "{unit}");
        assert!(unit.contains("Environment=\"TMUX_TMPDIR=/t 50%% \\\"é\\\"\"\n"), "{unit}");
        assert!(unit.contains("ConditionPathExists=!/s t/100%%/down\n"), "{unit}");
        let agent = agent("/a & b/<coord>", &place);
        assert!(agent.contains("<string>/a &amp; b/&lt;coord&gt;</string>"), "{agent}");
    }
}

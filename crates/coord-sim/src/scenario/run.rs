//! The steps of headless runs: one begins, prints, complains, closes its output, and has processes.

use anyhow::{Context, Result, bail};
use coord_core::{ExitStatus, Provider, Role};
use serde_json::Value;

use super::fields::Fields;

/// A run begins.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) run: String,
    pub(crate) pid: u32,
    pub(crate) provider: Provider,
    pub(crate) is_resume: bool,
    pub(crate) ends_daemons: bool,
}

/// Something happens to a run.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) run: String,
    pub(crate) what: RunDoing,
}

#[derive(Debug)]
pub(crate) enum RunDoing {
    /// A line on its standard output.
    Line(Vec<u8>),
    /// On its standard error.
    Complains(String),
    Eof,
    /// What lives beside its own process from now on.
    Tree(Vec<InTree>),
    /// A signal from outside was passed on to it.
    Forwarded(i32),
}

/// A process of a run.
#[derive(Debug, Clone)]
pub(crate) struct InTree {
    pub(crate) pid: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) session: Option<u32>,
    pub(crate) role: Role,
    pub(crate) holds_output: bool,
    /// Hundredths of a core that it uses; none where that cannot be read.
    pub(crate) cpu: Option<u64>,
}

const ROLES: [&str; 5] = ["plain", "harness", "mcp", "terminals", "coordinator"];
const SIGNALS: [(&str, i32); 5] = [("HUP", 1), ("INT", 2), ("KILL", 9), ("SEGV", 11), ("TERM", 15)];

impl Begin {
    pub(super) fn parse(value: &Value) -> Result<Self> {
        let known = ["run", "pid", "provider", "resume", "ends_daemons"];
        let run = Fields::of("run", value, &known)?;
        let is_claude =
            run.state_of("provider", &["claude", "other"])?.is_none_or(|is| is == "claude");
        Ok(Self {
            run: run.needed("run", run.text("run"))?.to_owned(),
            pid: run.needed("pid", run.pid("pid"))?,
            provider: if is_claude { Provider::Claude } else { Provider::Other },
            is_resume: run.flag("resume")?.unwrap_or(false),
            ends_daemons: run.flag("ends_daemons")?.unwrap_or(false),
        })
    }
}

impl RunStep {
    pub(super) fn parse(word: &str, value: &Value) -> Result<Self> {
        let known: &[&str] = match word {
            "stream" => &["run", "line"],
            "stderr" => &["run", "text"],
            "tree" => &["run", "processes"],
            "forward" => &["run", "signal"],
            _ => &["run"],
        };
        let fields = Fields::of(word, value, known)?;
        let run = fields.needed("run", fields.text("run"))?.to_owned();
        let what = match word {
            "stream" => RunDoing::Line(line(&fields)?),
            "stderr" => RunDoing::Complains(fields.needed("text", fields.text("text"))?.to_owned()),
            "tree" => {
                let list = fields.needed("processes", fields.list("processes"))?;
                RunDoing::Tree(list.iter().map(InTree::parse).collect::<Result<_>>()?)
            }
            "forward" => {
                let signal = fields.value("signal").context("forward: has no field \"signal\"")?;
                RunDoing::Forwarded(signal_of("forward.signal", signal)?)
            }
            _ => RunDoing::Eof,
        };
        Ok(Self { run, what })
    }
}

/// A line of JSON, or a text as it stands.
fn line(fields: &Fields<'_>) -> Result<Vec<u8>> {
    let line = fields.value("line").context("stream: has no field \"line\"")?;
    Ok(match line.as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => serde_json::to_vec(line)?,
    })
}

impl InTree {
    fn parse(value: &Value) -> Result<Self> {
        let known =
            ["pid", "parent", "group", "session", "role", "holds_output", "cpu", "unreadable"];
        let one = Fields::of("tree.processes", value, &known)?;
        let role = match one.state_of("role", &ROLES)? {
            Some("harness") => Role::Harness,
            Some("mcp") => Role::Mcp,
            Some("terminals") => Role::Terminals,
            Some("coordinator") => Role::Coordinator,
            Some(_) | None => Role::Plain,
        };
        let is_unreadable = one.flag("unreadable")?.unwrap_or(false);
        let cpu = one.value("cpu").map_or(Some(0), Value::as_u64);
        let cpu = cpu.context("tree.processes.cpu: takes hundredths of a core")?;
        Ok(Self {
            pid: one.needed("pid", one.pid("pid"))?,
            parent: one.pid("parent")?,
            group: one.pid("group")?,
            session: one.pid("session")?,
            role,
            holds_output: one.flag("holds_output")?.unwrap_or(false),
            cpu: (!is_unreadable).then_some(cpu),
        })
    }
}

/// How a process ends, from the fields of an `exit`.
pub(super) fn status(exit: &Fields<'_>) -> Result<ExitStatus> {
    if let Some(signal) = exit.value("signal") {
        return Ok(ExitStatus::Signal(signal_of("exit.signal", signal)?));
    }
    let code = exit.value("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    Ok(ExitStatus::Code(code.context("exit.code: takes a whole number")?))
}

fn signal_of(what: &str, value: &Value) -> Result<i32> {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    let named = || {
        let name = value.as_str()?;
        SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    };
    match number.or_else(named) {
        Some(signal) => Ok(signal),
        None => bail!("{what}: takes a number, or a name such as \"KILL\""),
    }
}

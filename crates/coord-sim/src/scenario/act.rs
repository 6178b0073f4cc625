//! What a step of a scenario does: the steps there are, their fields, and the words of the world.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use coord_core::ExitStatus;
use coord_model::NeedKind;
use coord_testkit::Fault;
use coord_wire::api::OperatorRequest;
use serde_json::{Map, Value};

use super::fields::{Fields, nearest};
use super::letter::{self, Letter};
use super::run::{self, Begin, RunStep};
use super::words::Words;
use super::{nanoseconds, order};

/// What a step does.
#[derive(Debug)]
pub(crate) enum Act {
    Start(Start),
    Hook(Hook),
    /// An entry, or with none its removal.
    Registry {
        pid: Option<u32>,
        entry: Option<Map<String, Value>>,
    },
    Pane(Box<PaneStep>),
    Transcript(Value),
    /// A file of a task directory, with its text; with none it is removed.
    File {
        path: String,
        text: Option<String>,
    },
    Exit {
        pid: u32,
        status: ExitStatus,
    },
    /// A headless run begins.
    Run(Begin),
    /// Something happens to one.
    InRun(RunStep),
    Coordinator(Switch),
    /// The configuration file is saved: as it was at the start, or with an error.
    ConfigFile {
        is_wrong: bool,
    },
    /// The wall clock is set, milliseconds.
    Clock {
        jump_ms: i64,
    },
    Boot {
        lost_power: bool,
    },
    /// The disk fails, or no longer does.
    Disk(Option<Fault>),
    /// So many bytes are left on the disk from now on; none for no limit.
    DiskRoom(Option<u64>),
    /// How long a job of the disk takes from now on, in milliseconds.
    DiskPace(Range<u64>),
    World(Box<Words>),
    Command(Box<OperatorRequest>),
    Send(Box<Letter>),
    Check(Check),
}

/// A harness appears, or a tool of one.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) session: String,
    pub(crate) pid: u32,
    pub(crate) pane: Option<String>,
    /// What TMUX_PANE says, where that is another pane.
    pub(crate) tmux_pane: Option<String>,
    pub(crate) argv: Vec<String>,
    /// Whether it is the client that fires our hooks (S0-05).
    pub(crate) is_claude: bool,
    pub(crate) is_unattended: bool,
    /// `shell`, `tmux`, or the name of what else started it.
    pub(crate) parent: Option<String>,
    /// Why its command line cannot be used again.
    pub(crate) unfit: Option<String>,
    /// Without a pane: it has a terminal all the same, outside tmux.
    pub(crate) has_terminal: bool,
    /// It is no harness but a tool of the one with this pid.
    pub(crate) tool_of: Option<u32>,
}

/// A hook fires.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) payload: Map<String, Value>,
    pub(crate) pid: Option<u32>,
    pub(crate) emitted_ns: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) is_forged: bool,
}

/// What is done to the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    Start,
    Stop,
    Kill,
}

/// What has a pane's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Harness,
    Shell,
    Child,
    Editor,
}

/// What happens to a pane, or to what stands in it.
#[derive(Debug, Default)]
pub(crate) struct PaneStep {
    pub(crate) pane: String,
    pub(crate) text: Option<String>,
    pub(crate) front: Option<Front>,
    /// A client's key comes to it.
    pub(crate) has_key: bool,
    pub(crate) is_in_mode: Option<bool>,
    pub(crate) is_synchronized: Option<bool>,
    /// Kept when its first process ends.
    pub(crate) is_kept: Option<bool>,
    /// What stands behind its shell's prompt.
    pub(crate) line: Option<String>,
    /// The prompt of its shell; empty: none that is known as one.
    pub(crate) prompt: Option<String>,
    pub(crate) is_closed: bool,
    /// Its first process is another one.
    pub(crate) is_respawned: bool,
}

/// What must hold.
#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(crate) expect: Option<Expect>,
    /// The kinds of the open needs of sessions, the oldest first (U-01).
    pub(crate) needs: Vec<(String, Vec<String>)>,
    /// In this order.
    pub(crate) effects: Vec<Value>,
    pub(crate) forbidden: Vec<Value>,
    /// Whether effects are spoken of, which begins a new list of them.
    pub(crate) is_of_effects: bool,
}

/// Of what something must hold.
#[derive(Debug)]
pub(crate) enum Subject {
    Session(String),
    Run(String),
    /// A message, by the name that the file gives it.
    Message(String),
    /// The messages of a session.
    Inbox(String),
}

/// What must hold of a session, or of a run.
#[derive(Debug)]
pub(crate) struct Expect {
    pub(crate) subject: Subject,
    /// The named fields; none if there must be no such session.
    pub(crate) fields: Option<Map<String, Value>>,
}

const CHECKS: [&str; 4] = ["expect", "expect_needs", "expect_effects", "forbid_effects"];
/// What a step may do; one of them, but the checks may stand together.
const ACTS: [&str; 24] = [
    "start",
    "hook",
    "registry",
    "pane",
    "transcript",
    "file",
    "exit",
    "run",
    "stream",
    "eof",
    "stderr",
    "tree",
    "forward",
    "command",
    "coordinator",
    "config_file",
    "clock",
    "boot",
    "disk",
    "world",
    CHECKS[0],
    CHECKS[1],
    CHECKS[2],
    CHECKS[3],
];
/// What stands beside a step's word.
const BESIDE: [(&str, &[&str]); 2] =
    [("hook", &["pid", "emitted_at", "id", "forged"]), ("registry", &["pid"])];
/// Effects that may be named.
const EFFECTS: [&str; 12] = [
    "capture_pane",
    "type_text",
    "signal",
    "respawn_pane",
    "new_window",
    "spawn",
    "answer_hook",
    "write_file",
    "remove_file",
    "notify",
    "record",
    "note",
];
pub(super) const FRONTS: [&str; 4] = ["harness", "shell", "child", "editor"];

impl Act {
    pub(super) fn parse(step: &Value, at_ns: u64) -> Result<Self> {
        let word = word_of(step)?;
        let fields = Fields::open("the step", step)?;
        let value = step.get(word).unwrap_or(&Value::Null);
        Ok(match word {
            "start" => Self::Start(Start::parse(value)?),
            "hook" => Self::Hook(Hook::parse(value, &fields, at_ns)?),
            "registry" => registry(value, &fields)?,
            "pane" => Self::Pane(Box::new(PaneStep::parse(value)?)),
            "transcript" => {
                Fields::open(word, value)?;
                Self::Transcript(value.clone())
            }
            "file" => file(value)?,
            "exit" => exit(value)?,
            "coordinator" => coordinator(&fields)?,
            "config_file" => {
                let content = fields.state_of(word, &["wrong", "right"]);
                Self::ConfigFile { is_wrong: fields.needed(word, content)? == "wrong" }
            }
            "clock" => {
                let clock = Fields::of(word, value, &["jump"])?;
                let jump = clock.needed("jump", clock.number("jump"))?;
                let ms = nanoseconds(jump.abs()).and_then(|ns| i64::try_from(ns / 1_000_000).ok());
                let ms = ms.context("clock.jump: takes seconds, a year at most")?;
                Self::Clock { jump_ms: if jump < 0.0 { -ms } else { ms } }
            }
            "boot" => {
                let boot = Fields::of(word, value, &["lost_power"])?;
                Self::Boot { lost_power: boot.flag("lost_power")?.unwrap_or(false) }
            }
            "disk" => disk(value)?,
            "world" => Self::World(Box::new(Words::parse(value)?)),
            "command" if value.get("send").is_some() => {
                Self::Send(Box::new(letter::letter(value)?))
            }
            "command" => Self::Command(Box::new(order::order(value)?)),
            "run" => Self::Run(Begin::parse(value)?),
            "stream" | "eof" | "stderr" | "tree" | "forward" => {
                Self::InRun(RunStep::parse(word, value)?)
            }
            _ => Self::Check(Check::parse(&fields)?),
        })
    }
}

/// The step's word, after all its fields were found to be known.
fn word_of(step: &Value) -> Result<&str> {
    let Some(map) = step.as_object() else { bail!("a step is an object") };
    let words: Vec<&str> =
        map.keys().map(String::as_str).filter(|one| ACTS.contains(one)).collect();
    let beside =
        |word: &str| BESIDE.iter().find(|(of, _)| *of == word).map_or(&[][..], |one| one.1);
    let Some(word) = words.first() else {
        let unknown = map.keys().find(|name| *name != "at");
        return Err(match unknown {
            Some(name) => anyhow::anyhow!("unknown step {name:?}{}", nearest(name, &ACTS)),
            None => anyhow::anyhow!("the step does nothing; it may be one of {}", ACTS.join(", ")),
        });
    };
    if let Some(other) = words.get(1)
        && !words.iter().all(|one| CHECKS.contains(one))
    {
        bail!("does both {word:?} and {other:?}; these are two steps");
    }
    for name in map.keys().map(String::as_str) {
        let is_known = name == "at" || words.contains(&name) || beside(word).contains(&name);
        if !is_known {
            let known: Vec<&str> = beside(word).iter().chain(&ACTS).copied().collect();
            bail!("unknown field {name:?} beside {word:?}{}", nearest(name, &known));
        }
    }
    Ok(word)
}

impl Start {
    fn parse(value: &Value) -> Result<Self> {
        let known = [
            "session",
            "pid",
            "pane",
            "tmux_pane",
            "provider",
            "unattended",
            "argv",
            "parent",
            "unfit",
            "tool_of",
            "terminal",
        ];
        let start = Fields::of("start", value, &known)?;
        let provider = start.text("provider")?;
        let argv = start.texts("argv")?.unwrap_or_else(|| vec!["claude".to_owned()]);
        Ok(Self {
            session: start.needed("session", start.text("session"))?.to_owned(),
            pid: start.needed("pid", start.pid("pid"))?,
            pane: start.value("pane").map(|_| pane_id(&start, "pane")).transpose()?,
            tmux_pane: start
                .value("tmux_pane")
                .map(|_| pane_id(&start, "tmux_pane"))
                .transpose()?,
            argv,
            is_claude: provider.is_none_or(|provider| provider == "claude"),
            is_unattended: start.flag("unattended")?.unwrap_or(false),
            parent: start.text("parent")?.map(str::to_owned),
            unfit: start.text("unfit")?.map(str::to_owned),
            has_terminal: start.flag("terminal")?.unwrap_or(false),
            tool_of: start.pid("tool_of")?,
        })
    }
}

fn pane_id(fields: &Fields<'_>, name: &str) -> Result<String> {
    let id = fields.needed(name, fields.text(name))?;
    let number = id.strip_prefix('%').and_then(|number| number.parse::<u16>().ok());
    number.with_context(|| format!("{name}: {id:?} is no pane; panes are %0, %1, …"))?;
    Ok(id.to_owned())
}

impl Hook {
    fn parse(value: &Value, step: &Fields<'_>, at_ns: u64) -> Result<Self> {
        let payload = Fields::open("hook", value)?;
        for name in ["session_id", "hook_event_name"] {
            payload.needed(name, payload.text(name))?;
        }
        let emitted = step.number("emitted_at")?.map(|seconds| {
            nanoseconds(seconds)
                .filter(|ns| *ns <= at_ns)
                .context("emitted_at: takes seconds from 0 up to the step's own time")
        });
        Ok(Self {
            payload: value.as_object().cloned().unwrap_or_default(),
            pid: step.pid("pid")?,
            emitted_ns: emitted.transpose()?,
            id: step.text("id")?.map(str::to_owned),
            is_forged: step.flag("forged")?.unwrap_or(false),
        })
    }
}

fn registry(value: &Value, step: &Fields<'_>) -> Result<Act> {
    let beside = step.pid("pid")?;
    if value.is_null() {
        return Ok(Act::Registry { pid: beside, entry: None });
    }
    let entry = Fields::open("registry", value)?;
    let pid = entry.needed("pid", entry.pid("pid"))?;
    if beside.is_some() {
        bail!("registry: \"pid\" stands in the entry");
    }
    Ok(Act::Registry { pid: Some(pid), entry: value.as_object().cloned() })
}

impl PaneStep {
    fn parse(value: &Value) -> Result<Self> {
        let known = [
            "pane",
            "text",
            "front",
            "key",
            "mode",
            "synchronized",
            "kept",
            "line",
            "prompt",
            "closed",
            "respawned",
        ];
        let pane = Fields::of("pane", value, &known)?;
        if value.as_object().is_some_and(|fields| fields.len() < 2) {
            bail!("pane: says nothing of it: neither \"text\" nor \"front\" nor anything else");
        }
        Ok(Self {
            pane: pane_id(&pane, "pane")?,
            text: pane.text("text")?.map(str::to_owned),
            front: pane.state_of("front", &FRONTS)?.map(front_of),
            has_key: pane.flag("key")?.unwrap_or(false),
            is_in_mode: pane.flag("mode")?,
            is_synchronized: pane.flag("synchronized")?,
            is_kept: pane.flag("kept")?,
            line: pane.text("line")?.map(str::to_owned),
            prompt: pane.text("prompt")?.map(str::to_owned),
            is_closed: pane.flag("closed")?.unwrap_or(false),
            is_respawned: pane.flag("respawned")?.unwrap_or(false),
        })
    }
}

pub(super) fn front_of(word: &str) -> Front {
    match word {
        "shell" => Front::Shell,
        "child" => Front::Child,
        "editor" => Front::Editor,
        _ => Front::Harness,
    }
}

/// How long a job of the disk takes, in milliseconds: usually, and on a slow disk.
pub(crate) const USUAL_MS: Range<u64> = 2..4;
const SLOW_MS: Range<u64> = 800..900;
/// Less than what coord calls low.
const LITTLE_BYTES: u64 = 8 * 1024 * 1024;

fn disk(value: &Value) -> Result<Act> {
    let disk = Fields::of("disk", value, &["fail", "sync", "room", "pace"])?;
    if let Some(word) = disk.state_of("sync", &["fails", "works"])? {
        return Ok(Act::Disk((word == "fails").then_some(Fault::Sync)));
    }
    if let Some(word) = disk.state_of("room", &["none", "little", "plenty"])? {
        return Ok(Act::DiskRoom(match word {
            "none" => Some(0),
            "little" => Some(LITTLE_BYTES),
            _ => None,
        }));
    }
    if let Some(word) = disk.state_of("pace", &["slow", "normal"])? {
        return Ok(Act::DiskPace(if word == "slow" { SLOW_MS } else { USUAL_MS }));
    }
    let at = disk.value("fail").and_then(Value::as_u64).filter(|n| 0 < *n);
    let at = at.context("disk: \"fail\" takes a whole number above 0")?;
    Ok(Act::Disk(Some(Fault::Error { at, kind: std::io::ErrorKind::Other })))
}

fn file(value: &Value) -> Result<Act> {
    let file = Fields::of("file", value, &["path", "text"])?;
    let path = file.needed("path", file.text("path"))?;
    if !path.starts_with('/') {
        bail!("file.path: takes a path from the root on");
    }
    if value.get("text").is_none() {
        bail!("file: has no field \"text\"; null removes it");
    }
    Ok(Act::File { path: path.to_owned(), text: file.text("text")?.map(str::to_owned) })
}

fn exit(value: &Value) -> Result<Act> {
    let exit = Fields::of("exit", value, &["pid", "signal", "code"])?;
    if exit.value("signal").is_some() == exit.value("code").is_some() {
        bail!("exit: says either \"signal\" or \"code\"");
    }
    Ok(Act::Exit { pid: exit.needed("pid", exit.pid("pid"))?, status: run::status(&exit)? })
}

fn coordinator(step: &Fields<'_>) -> Result<Act> {
    let word = step.state_of("coordinator", &["start", "stop", "kill"]);
    Ok(Act::Coordinator(match step.needed("coordinator", word)? {
        "start" => Switch::Start,
        "stop" => Switch::Stop,
        _ => Switch::Kill,
    }))
}

impl Check {
    fn parse(step: &Fields<'_>) -> Result<Self> {
        let effects = |name: &str| {
            let list = step.list(name)?.unwrap_or_default();
            list.iter().map(|one| effect(name, one)).collect::<Result<Vec<Value>>>()
        };
        let spoken = CHECKS.iter().skip(2).any(|name| step.value(name).is_some());
        Ok(Self {
            expect: step.value("expect").map(Expect::parse).transpose()?,
            needs: step.value("expect_needs").map(needs).transpose()?.unwrap_or_default(),
            effects: effects("expect_effects")?,
            forbidden: effects("forbid_effects")?,
            is_of_effects: spoken,
        })
    }
}

impl Expect {
    fn parse(value: &Value) -> Result<Self> {
        let expect = Fields::open("expect", value)?;
        let mut fields = value.as_object().cloned().unwrap_or_default();
        let named = |name| expect.text(name).map(|value| value.map(str::to_owned));
        let (word, subject) = if let Some(run) = named("run")? {
            ("run", Subject::Run(run))
        } else if let Some(name) = named("message")? {
            ("message", Subject::Message(name))
        } else if let Some(session) = named("inbox")? {
            ("inbox", Subject::Inbox(session))
        } else {
            ("session", Subject::Session(expect.needed("session", named("session"))?))
        };
        fields.remove(word);
        match expect.flag("absent")? {
            Some(true) if fields.len() == 1 => return Ok(Self { subject, fields: None }),
            Some(_) => bail!("expect.absent: is true and stands alone beside \"session\""),
            None => (),
        }
        if fields.is_empty() {
            bail!("expect: names no field of the session");
        }
        Ok(Self { subject, fields: Some(fields) })
    }
}

/// `{"s1": ["permission"], "s2": []}`: all open needs of each session.
fn needs(value: &Value) -> Result<Vec<(String, Vec<String>)>> {
    let of = value.as_object().context("expect_needs: takes sessions with lists of kinds")?;
    let known: Vec<&str> = NeedKind::ALL.map(NeedKind::name).to_vec();
    let kind = |one: &Value| match one.as_str().filter(|kind| known.contains(kind)) {
        Some(kind) => Ok(kind.to_owned()),
        None => bail!("expect_needs: takes kinds of needs: {}", known.join(", ")),
    };
    let list = |(session, kinds): (&String, &Value)| {
        let kinds = kinds.as_array().context("expect_needs: takes a list for each session")?;
        Ok((session.clone(), kinds.iter().map(kind).collect::<Result<_>>()?))
    };
    of.iter().map(list).collect()
}

fn effect(what: &str, value: &Value) -> Result<Value> {
    let fields = Fields::open(what, value)?;
    fields.needed("kind", fields.state_of("kind", &EFFECTS))?;
    Ok(value.clone())
}

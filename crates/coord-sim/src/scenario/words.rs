//! The words of a scenario's world: how clients, panes, keys and the machine behave. It changes nothing.

use anyhow::{Result, bail};
use coord_model::{Screen, Signal};
use serde_json::Value;

use super::act::{FRONTS, Front, front_of};
use super::fields::Fields;
use super::nanoseconds;

/// Words about the world; what is left out stays as it is.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) has_registry: Option<bool>,
    pub(crate) front: Option<Front>,
    pub(crate) resume: Option<Resume>,
    pub(crate) terminates_on: Option<Signal>,
    /// The newest key of any client is so old, milliseconds.
    pub(crate) keys_age_ms: Option<u64>,
    pub(crate) draft: Option<String>,
    pub(crate) dialog: Option<Dialog>,
    /// Whether tmux answers.
    pub(crate) tmux_answers: Option<bool>,
    /// Whether the main threads of the clients there are run.
    pub(crate) are_hung: Option<bool>,
    /// Whether the Enter behind the line arrives.
    pub(crate) has_enter: Option<bool>,
    /// Whether the path of coordctl is plain.
    pub(crate) is_line_plain: Option<bool>,
    /// What the machine is short of; empty: nothing.
    pub(crate) want: Option<String>,
    /// Whether the machine says that it is being shut down.
    pub(crate) is_shutting_down: Option<bool>,
    /// What is gone: the clients' directory, their program.
    pub(crate) gone: Option<Vec<String>>,
    /// Sessions whose transcript another process has locked.
    pub(crate) locked: Option<Vec<String>>,
    /// Whether another coordinator has the lock on the configuration directory.
    pub(crate) is_dir_locked: Option<bool>,
}

/// What becomes of a client that resumes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// It is at its prompt after 0.6 s.
    Works,
    /// It ends with an error.
    Fails,
    /// It says that there is no such conversation, and ends.
    NoSession,
    /// It comes up with another session.
    OtherId,
    /// It lives and reports nothing.
    Silent,
}

/// A dialog of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialog {
    None,
    /// On the screens of the clients there are.
    Open(Screen),
    /// On that of a client that resumes a session, before it begins (H-43).
    Trust,
}

impl Words {
    pub(super) fn parse(value: &Value) -> Result<Self> {
        let known = [
            "client_keys_age",
            "front",
            "resume",
            "terminates_on",
            "draft",
            "dialog",
            "registry",
            "tmux",
            "clients",
            "enter",
            "coordctl",
            "want",
            "shutdown",
            "gone",
            "locked",
            "config_dir",
        ];
        let world = Fields::of("world", value, &known)?;
        let is = |name: &str, yes: &'static str, no: &'static str| -> Result<Option<bool>> {
            Ok(world.state_of(name, &[yes, no])?.map(|word| word == yes))
        };
        let gone = world.texts("gone")?;
        if gone.iter().flatten().any(|one| one != "directory" && one != "program") {
            bail!("world.gone: takes \"directory\" and \"program\"");
        }
        Ok(Self {
            has_registry: is("registry", "present", "absent")?,
            front: world.state_of("front", &FRONTS)?.map(front_of),
            resume: resume(&world)?,
            terminates_on: world
                .state_of("terminates_on", &["TERM", "KILL"])?
                .map(|word| if word == "TERM" { Signal::Term } else { Signal::Kill }),
            keys_age_ms: keys_age_ms(&world)?,
            draft: world.text("draft")?.map(str::to_owned),
            dialog: dialog(&world)?,
            tmux_answers: is("tmux", "answers", "hangs")?,
            are_hung: is("clients", "hang", "run")?,
            has_enter: is("enter", "sent", "lost")?,
            is_line_plain: is("coordctl", "plain", "odd")?,
            want: world.text("want")?.map(str::to_owned),
            is_shutting_down: is("shutdown", "under_way", "called_off")?,
            gone,
            locked: world.texts("locked")?,
            is_dir_locked: is("config_dir", "locked", "free")?,
        })
    }
}

fn keys_age_ms(world: &Fields<'_>) -> Result<Option<u64>> {
    let Some(age) = world.number("client_keys_age")? else { return Ok(None) };
    match nanoseconds(age) {
        Some(ns) => Ok(Some(ns / 1_000_000)),
        None => bail!("world.client_keys_age: takes seconds from 0 on"),
    }
}

fn resume(world: &Fields<'_>) -> Result<Option<Resume>> {
    let words = ["works", "fails", "no_session", "other_id", "silent"];
    Ok(world.state_of("resume", &words)?.map(|word| match word {
        "fails" => Resume::Fails,
        "no_session" => Resume::NoSession,
        "other_id" => Resume::OtherId,
        "silent" => Resume::Silent,
        _ => Resume::Works,
    }))
}

fn dialog(world: &Fields<'_>) -> Result<Option<Dialog>> {
    let words = ["none", "permission", "question", "trust"];
    Ok(world.state_of("dialog", &words)?.map(|word| match word {
        "permission" => Dialog::Open(Screen::Permission),
        "question" => Dialog::Open(Screen::Question),
        "trust" => Dialog::Trust,
        _ => Dialog::None,
    }))
}

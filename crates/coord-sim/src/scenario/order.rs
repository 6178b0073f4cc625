//! A person's command in a scenario: what `coordctl` makes of its words. Whom it means is told by the
//! coordinator.

use anyhow::{Context, Result, bail};
use coord_model::MarkChange;
use coord_wire::api::{OperatorRequest, OperatorVerb};
use serde_json::Value;

use super::fields::Fields;
use super::nanoseconds;

const VERBS: [(&str, OperatorVerb); 7] = [
    ("hold", OperatorVerb::Hold),
    ("release", OperatorVerb::Release),
    ("attend", OperatorVerb::Attend),
    ("recover", OperatorVerb::Recover),
    ("restore", OperatorVerb::Restore),
    ("reset_failed", OperatorVerb::ResetFailed),
    ("dismiss", OperatorVerb::Dismiss),
];
/// Marks of "attend"; "recover" is one too.
const MARKS: [&str; 6] = ["unattended", "answers", "name", "parent", "task_dir", "accept"];

/// Reads `{"hold": "s1", "for": 600}`, `{"release": "--all"}`, `{"attend": "/a/directory", …}` and the
/// like.
pub(super) fn order(value: &Value) -> Result<OperatorRequest> {
    let known: Vec<&str> = VERBS
        .iter()
        .map(|(name, _)| *name)
        .chain(["for", "restart", "when_idle"])
        .chain(MARKS)
        .collect();
    let fields = Fields::of("command", value, &known)?;
    // Beside "attend", "recover" is a mark.
    let is_mark = |name: &str| name == "recover" && fields.value("attend").is_some();
    let is_said = |name: &str| fields.value(name).is_some() && !is_mark(name);
    let mut said = VERBS.into_iter().filter(|(name, _)| is_said(name));
    let (Some((name, verb)), None) = (said.next(), said.next()) else {
        let verbs = VERBS.map(|(name, _)| name);
        bail!("command: takes one of {}", verbs.join(", "));
    };
    let mut order = OperatorRequest::new(verb);
    match name {
        "restore" => order.sessions = fields.needed(name, fields.texts(name))?,
        _ => match fields.needed(name, fields.text(name))? {
            "--all" => order.all = true,
            path if path.starts_with('/') => order.directory = Some(path.to_owned()),
            id => order.sessions = vec![id.to_owned()],
        },
    }
    if let Some(seconds) = fields.number("for")? {
        let ns = nanoseconds(seconds).context("command.for: takes seconds from 0 on")?;
        order.for_ms = Some(ns / 1_000_000);
    }
    order.restart = fields.flag("restart")?.unwrap_or(false);
    order.when_idle = fields.flag("when_idle")?.unwrap_or(false);
    if name == "attend" {
        order.marks = marks(&fields)?;
    } else if let Some(mark) = MARKS.iter().find(|mark| fields.value(mark).is_some()) {
        bail!("command: {mark:?} stands beside \"attend\" only");
    }
    Ok(order)
}

fn marks(fields: &Fields<'_>) -> Result<MarkChange> {
    let task_dir = fields.text("task_dir")?;
    if task_dir.is_some_and(|dir| !dir.starts_with('/')) {
        bail!("command.task_dir: takes a path from the root on");
    }
    Ok(MarkChange {
        answers: fields.flag("answers")?,
        unattended: fields.flag("unattended")?,
        recover: fields.flag("recover")?,
        name: fields.text("name")?.map(str::to_owned),
        parent: fields.text("parent")?.map(str::to_owned),
        task_dir: task_dir.map(str::to_owned),
        accepts: fields.text("accept")?.map(str::to_owned).into_iter().collect(),
        ..MarkChange::default()
    })
}

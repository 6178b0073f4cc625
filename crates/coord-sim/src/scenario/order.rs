//! A person's command in a scenario: what `coordctl` makes of its words. Whom it means is told by the
//! coordinator.

use anyhow::{Context, Result, bail};
use coord_wire::api::{OperatorMarks, OperatorRequest, OperatorVerb};
use serde_json::Value;

use super::fields::Fields;
use super::nanoseconds;

const VERBS: [(&str, OperatorVerb); 6] = [
    ("hold", OperatorVerb::Hold),
    ("release", OperatorVerb::Release),
    ("attend", OperatorVerb::Attend),
    ("recover", OperatorVerb::Recover),
    ("restore", OperatorVerb::Restore),
    ("reset_failed", OperatorVerb::ResetFailed),
];
const BESIDE: [&str; 3] = ["for", "unattended", "name"];

/// Reads `{"hold": "s1", "for": 600}`, `{"release": "--all"}`, `{"attend": "/a/directory", …}` and the
/// like.
pub(super) fn order(value: &Value) -> Result<OperatorRequest> {
    let known: Vec<&str> = VERBS.iter().map(|(name, _)| *name).chain(BESIDE).collect();
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
    if name == "attend" {
        order.marks = OperatorMarks {
            unattended: fields.flag("unattended")?,
            recover: fields.flag("recover")?,
            name: fields.text("name")?.map(str::to_owned),
            ..OperatorMarks::default()
        };
    }
    Ok(order)
}

//! A message that is sent in a scenario (S4-24): to which session, by whom, and its name in the file.

use anyhow::{Context, Result, bail};
use coord_model::Sender;
use coord_wire::message::Send;
use serde_json::Value;

use super::fields::Fields;
use super::nanoseconds;

/// A message, and what later steps call it.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) ask: Send,
    pub(crate) from: Sender,
    pub(crate) name: String,
}

/// Reads `{"send": "s1", "text": "…", "from": "s2", "name": "m1"}` and the like.
pub(super) fn letter(value: &Value) -> Result<Letter> {
    let known = ["send", "text", "from", "key", "urgent", "ttl", "name"];
    let fields = Fields::of("command", value, &known)?;
    let to = fields.needed("send", fields.text("send"))?;
    let from = match fields.text("from")?.unwrap_or("operator") {
        "operator" => Sender::Operator,
        other => match other.strip_prefix("program:") {
            Some("") => bail!("command.from: a program has a name"),
            Some(name) => Sender::Program(name.to_owned()),
            None => Sender::Session(other.to_owned()),
        },
    };
    let ttl = fields.number("ttl")?.map(|seconds| {
        nanoseconds(seconds)
            .map(|ns| ns / 1_000_000)
            .context("command.ttl: takes seconds from 0 on")
    });
    let ask = Send {
        queue: None,
        remote: None,
        session: Some(to.to_owned()),
        text: fields.needed("text", fields.text("text"))?.to_owned(),
        key: fields.text("key")?.map(str::to_owned),
        urgent: fields.flag("urgent")?.unwrap_or(false),
        ttl_ms: ttl.transpose()?,
    };
    Ok(Letter { ask, from, name: fields.needed("name", fields.text("name"))?.to_owned() })
}

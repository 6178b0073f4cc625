//! Scenario files, schema 1: what stands in them, and whether it may stand there.
//!
//! A file is checked whole before anything of it is played. What coord has no code for yet is
//! refused here by name, so that no file passes by what it leaves out. It plays nothing.

mod act;
mod fields;
mod letter;
mod order;
mod run;
mod words;

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use coord_config::Config;
use serde_json::Value;

pub(crate) use act::{Act, Check, Expect, Front, Hook, PaneStep, Start, Subject, Switch, USUAL_MS};
use fields::Fields;
pub(crate) use fields::nearest;
pub(crate) use letter::Letter;
pub(crate) use run::{Begin, InTree, RunDoing};
pub(crate) use words::{Dialog, Resume, Words};

/// A file.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) config: Config,
    pub(crate) world: Words,
    pub(crate) steps: Vec<Step>,
}

/// A step and its time.
#[derive(Debug)]
pub(crate) struct Step {
    /// Nanoseconds since the scenario's start.
    pub(crate) at_ns: u64,
    /// "step 7 (at 12.0)".
    pub(crate) place: String,
    pub(crate) act: Act,
}

impl Scenario {
    /// Reads and checks a file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("is not JSON")?;
        let known = ["schema", "name", "why", "proves", "config", "world", "steps"];
        let fields = Fields::of("the scenario", &value, &known)?;
        let schema = fields.needed("schema", fields.number("schema"))?;
        if schema.to_bits() != 1_f64.to_bits() {
            bail!("schema {schema} is not known; this program plays schema 1");
        }
        for name in ["name", "why"] {
            fields.text(name)?;
        }
        fields.texts("proves")?;
        let config = fields.value("config").map_or(Ok(Config::default()), config)?;
        let world = fields.value("world").map_or(Ok(Words::default()), Words::parse)?;
        let mut steps: Vec<Step> = Vec::new();
        for (index, value) in fields.needed("steps", fields.list("steps"))?.iter().enumerate() {
            let step = Step::parse(index + 1, value)?;
            if let Some(before) = steps.last().filter(|before| step.at_ns < before.at_ns) {
                bail!(
                    "{}: comes after {}; steps stand in the order of time",
                    step.place,
                    before.place
                );
            }
            steps.push(step);
        }
        Ok(Self { config, world, steps })
    }
}

impl Step {
    fn parse(number: usize, value: &Value) -> Result<Self> {
        let at = value.get("at").and_then(Value::as_f64).and_then(nanoseconds);
        let Some(at_ns) = at else {
            bail!("step {number}: has no time: \"at\" takes seconds from 0 on");
        };
        let written = value.get("at").map(ToString::to_string).unwrap_or_default();
        let place = format!("step {number} (at {written})");
        let act = Act::parse(value, at_ns).with_context(|| place.clone())?;
        Ok(Self { at_ns, place, act })
    }
}

/// Seconds as nanoseconds, to the microsecond; a year at most.
pub(crate) fn nanoseconds(seconds: f64) -> Option<u64> {
    let is_in_range = (0.0..=366.0 * 86_400.0).contains(&seconds);
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    #[expect(clippy::cast_sign_loss, reason = "the range was checked")]
    let microseconds = || (seconds * 1e6).round() as u64;
    is_in_range.then(|| microseconds() * 1_000)
}

/// The keys as the configuration's own reader takes them.
fn config(value: &Value) -> Result<Config> {
    let Some(keys) = value.as_object() else { bail!("config: takes an object of keys") };
    let mut text = String::new();
    for (key, value) in keys {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
        if !key.chars().all(is_plain) {
            bail!("config: {key:?} is no key");
        }
        if value.is_object() || value.is_null() {
            bail!("config: {key} takes a text, a number or a list");
        }
        // Texts, numbers and lists of texts are written alike in JSON and TOML.
        writeln!(text, "{key} = {value}")?;
    }
    Config::parse(&text).context("config")
}

//! Reads the fields of one object of a scenario, and says plainly what is wrong with them. Decides
//! nothing about what they mean.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// An object and what it is called.
pub(crate) struct Fields<'a> {
    what: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of an object that has no others than these.
    pub(crate) fn of(what: &'a str, value: &'a Value, known: &[&str]) -> Result<Self> {
        let fields = Self::open(what, value)?;
        for name in fields.map.keys() {
            if !known.contains(&name.as_str()) {
                bail!("{what}: unknown field {name:?}{}", nearest(name, known));
            }
        }
        Ok(fields)
    }

    /// The fields of an object that may have any.
    pub(crate) fn open(what: &'a str, value: &'a Value) -> Result<Self> {
        let map = value.as_object();
        let map = map.with_context(|| format!("{what}: takes an object, not {}", kind(value)))?;
        Ok(Self { what, map })
    }

    /// A field as it stands; null counts as left out.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.typed(name, "a text", Value::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        self.typed(name, "a number", Value::as_f64)
    }

    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a [Value]>> {
        self.typed(name, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        self.typed(name, "a list of texts", |value| {
            let items = value.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    pub(crate) fn pid(&self, name: &str) -> Result<Option<u32>> {
        let of = |value: &Value| value.as_u64().and_then(|pid| u32::try_from(pid).ok());
        self.typed(name, "a pid (a whole number above 0)", |value| of(value).filter(|pid| *pid > 0))
    }

    /// One of these words.
    pub(crate) fn state_of(
        &self,
        name: &str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|word| **word == text);
        let what = self.what;
        let unknown = || format!("{what}.{name}: unknown word {text:?}{}", nearest(text, words));
        found.copied().with_context(unknown).map(Some)
    }

    /// What a field must not leave out.
    pub(crate) fn needed<T>(&self, name: &str, read: Result<Option<T>>) -> Result<T> {
        read?.with_context(|| format!("{}: has no field {name:?}", self.what))
    }

    fn typed<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let what = self.what;
        read(value)
            .with_context(|| format!("{what}.{name}: takes {wanted}, not {}", kind(value)))
            .map(Some)
    }
}

/// Names the known word that is written most alike.
pub(crate) fn nearest(word: &str, known: &[&str]) -> String {
    let distance = |one: &&&str| strsim::damerau_levenshtein(word, one);
    let nearest = known.iter().min_by_key(distance);
    nearest.map_or_else(String::new, |one| format!("; the nearest known one is {one:?}"))
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

//! Writes one key into config.toml and leaves every other byte of it as it is (S0-25g, F-01).

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use coord_config::Config;
use coord_store::read_small_file;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use toml::de::{DeTable, DeValue};

use crate::verb::install::{sync_directory, temporary};

/// Sets keys to texts, each named by its table and its name. True if the file was changed.
///
/// # Errors
/// The file has an error, or cannot be edited or written. It is as it was then.
pub(crate) fn set(file: &Path, keys: &[(&str, &str, &str)]) -> anyhow::Result<bool> {
    let shown = || file.display().to_string();
    let before = match read_small_file(file, SMALL_FILE_BYTES_MAX) {
        Ok(text) => Some(String::from_utf8(text).with_context(shown)?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(shown),
    };
    let mut text = before.clone().unwrap_or_default();
    Config::parse(&text).with_context(shown)?;
    for (table, name, value) in keys {
        if stands(&text, table, name).as_deref() == Some(*value) {
            continue;
        }
        let after = edited(&text, table, name, value);
        if Config::parse(&after).is_err() || stands(&after, table, name).as_deref() != Some(*value)
        {
            bail!(
                "{}: coord cannot edit this file; add {name} = {value:?} to its table [{table}] yourself",
                shown()
            );
        }
        text = after;
    }
    if before.as_deref().unwrap_or_default() == text {
        return Ok(false);
    }
    // Behind a link lies the file that its owner keeps elsewhere.
    let target =
        if before.is_some() { file.canonicalize().with_context(shown)? } else { made(file)? };
    let new = temporary(&target, text.as_bytes())?;
    if let Ok(old) = fs::metadata(&target) {
        new.as_file().set_permissions(old.permissions()).with_context(shown)?;
    }
    new.persist(&target).with_context(shown)?;
    target.parent().map_or(Ok(()), sync_directory)?;
    Ok(true)
}

/// The text that stands for a key.
fn stands(text: &str, table: &str, name: &str) -> Option<String> {
    let document: toml::Table = text.parse().ok()?;
    Some(document.get(table)?.get(name)?.as_str()?.to_owned())
}

/// Makes the directory of a file that is not there yet.
fn made(file: &Path) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(directory) = file.parent() {
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| directory.display().to_string())?;
    }
    Ok(file.to_owned())
}

/// `text` with the key. Where it stands its value is replaced; else a line is added: below the table's head, before its first
/// key, or with a table of its own at the end.
pub(crate) fn edited(text: &str, table: &str, name: &str, value: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let value = toml::Value::from(value);
    match place(text, table, name) {
        Place::Value(range) => {
            let (before, after) = (text.get(..range.start), text.get(range.end..));
            format!("{}{value}{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        Place::Line { at, key } => {
            let (before, after) = text.split_at(at);
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { end };
            format!("{before}{gap}{key} = {value}{end}{after}")
        }
        Place::Nowhere => {
            let gap = match text {
                "" => String::new(),
                text if text.ends_with('\n') => end.to_owned(),
                _ => end.repeat(2),
            };
            format!("{text}{gap}[{table}]{end}{name} = {value}{end}")
        }
    }
}

/// Where a key stands, or is to stand.
enum Place {
    /// The value's bytes.
    Value(Range<usize>),
    /// A new line at this byte, with the key so written.
    Line { at: usize, key: String },
    /// The table is not there.
    Nowhere,
}

fn place(text: &str, table: &str, name: &str) -> Place {
    let Ok(document) = DeTable::parse(text) else { return Place::Nowhere };
    let Some((head, DeValue::Table(keys))) = document
        .get_ref()
        .iter()
        .find(|(other, _)| other.get_ref() == table)
        .map(|(other, value)| (other.span().start, value.get_ref()))
    else {
        return Place::Nowhere;
    };
    if let Some(value) = keys.get(name) {
        return Place::Value(value.span());
    }
    let begins = text.get(..head).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(begins..).unwrap_or_default();
    let ends = line.find('\n').map_or(text.len(), |at| begins + at + 1);
    if line.trim_start().starts_with('[') {
        Place::Line { at: ends, key: name.to_owned() }
    } else {
        Place::Line { at: begins, key: format!("{table}.{name}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::Mode;

    // S0-25g
    #[test]
    fn a_key_is_written_and_every_other_byte_stays() {
        for (before, after) in [
            ("", "[recovery]\nmode = \"act\"\n"),
            (
                "[log]\nlevel = \"info\"\n",
                "[log]\nlevel = \"info\"\n\n[recovery]\nmode = \"act\"\n",
            ),
            ("# mine\n[log] # no end", "# mine\n[log] # no end\n\n[recovery]\nmode = \"act\"\n"),
            (
                "[recovery] # mine\n  mode   =  'observe'  # why\n[log]\n",
                "[recovery] # mine\n  mode   =  \"act\"  # why\n[log]\n",
            ),
            ("[recovery]", "[recovery]\nmode = \"act\"\n"),
            ("[ recovery ]# x\n\n[log]\n", "[ recovery ]# x\nmode = \"act\"\n\n[log]\n"),
            ("[\"recovery\"]\n", "[\"recovery\"]\nmode = \"act\"\n"),
            ("recovery.mode = \"observe\"\n[log]\n", "recovery.mode = \"act\"\n[log]\n"),
            ("recovery = { mode = \"observe\" } # x\n", "recovery = { mode = \"act\" } # x\n"),
            ("[recovery]\r\nmode = \"\"\"observe\"\"\"\r\n", "[recovery]\r\nmode = \"act\"\r\n"),
            ("[log]\r\n", "[log]\r\n\r\n[recovery]\r\nmode = \"act\"\r\n"),
            (
                "[log]\n# [recovery]\n# mode = \"x\"\n",
                "[log]\n# [recovery]\n# mode = \"x\"\n\n[recovery]\nmode = \"act\"\n",
            ),
        ] {
            let written = edited(before, "recovery", "mode", "act");
            assert_eq!(written, after, "{before:?}");
            assert_eq!(Config::parse(&written).unwrap().mode(), Mode::Act);
        }
    }

    #[test]
    fn f_01_several_keys_are_written_at_once_or_none() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config.toml");
        let keys = [("fleet", "url", "tls://a.example"), ("fleet", "name", "a \"b\"")];
        assert!(set(&file, &keys).unwrap());
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "[fleet]\nname = 'a \"b\"'\nurl = \"tls://a.example\"\n");
        assert!(!set(&file, &keys).unwrap(), "it stands there");
        set(&file, &[("fleet", "url", "tls://b.example"), ("fleet", "what", "x")]).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

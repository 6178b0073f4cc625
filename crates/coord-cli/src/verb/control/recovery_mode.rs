//! `coordctl recovery-mode MODE`, for `install.sh --recovery MODE`: writes `recovery.mode` into
//! config.toml and leaves every other byte of it as it is (S0-25g).

use std::fs;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use coord_config::Config;
use coord_daemon::operator::check_self;
use coord_model::Mode;
use coord_store::read_small_file;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use toml::de::{DeTable, DeValue};

use crate::context::Context;
use crate::out::Failure;
use crate::verb::install::{sync_directory, temporary};

/// Write the recovery mode into config.toml
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coordctl recovery-mode act")]
pub(crate) struct Args {
    /// The mode
    mode: Word,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Word {
    Act,
    Signature,
    Observe,
}

impl Word {
    fn word(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Signature => "signature",
            Self::Observe => "observe",
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Act => Mode::Act,
            Self::Signature => Mode::Signature,
            Self::Observe => Mode::Observe,
        }
    }

    /// What it means, in one line (H-06).
    fn meaning(self) -> &'static str {
        match self {
            Self::Act => {
                "coord brings back every crashed session; for a watched one it waits 10 s, and any key cancels"
            }
            Self::Signature => {
                "coord brings back unattended sessions, and a watched one only if its screen shows the text of a known crash"
            }
            Self::Observe => "coord brings nothing back, and records what it would have done",
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    check_self("`coordctl recovery-mode`").map_err(|why| anyhow!(why))?;
    let file = context.paths.config_file();
    let (word, meaning) = (args.mode.word(), args.mode.meaning());
    let what = if write(&file, args.mode)? { "wrote" } else { "already set:" };
    let line = format!("{what} recovery mode \"{word}\" in {}: {meaning}", file.display());
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// True if the file was changed.
fn write(file: &Path, wanted: Word) -> anyhow::Result<bool> {
    let shown = || file.display().to_string();
    let before = match read_small_file(file, SMALL_FILE_BYTES_MAX) {
        Ok(text) => Some(String::from_utf8(text).with_context(shown)?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(shown),
    };
    let text = before.as_deref().unwrap_or_default();
    let standing = Config::parse(text).with_context(shown)?;
    let stands = standing.effective().any(|one| one.key.name == KEY && one.line.is_some());
    if stands && standing.mode() == wanted.mode() {
        return Ok(false);
    }
    let after = edited(text, wanted.word());
    if Config::parse(&after).map(|config| config.mode()).ok() != Some(wanted.mode()) {
        bail!(
            "{}: coord cannot edit this file; add mode = \"{}\" to its table [recovery] yourself",
            shown(),
            wanted.word()
        );
    }
    // Behind a link lies the file that its owner keeps elsewhere.
    let target =
        if before.is_some() { file.canonicalize().with_context(shown)? } else { made(file)? };
    let new = temporary(&target, after.as_bytes())?;
    if let Ok(old) = fs::metadata(&target) {
        new.as_file().set_permissions(old.permissions()).with_context(shown)?;
    }
    new.persist(&target).with_context(shown)?;
    target.parent().map_or(Ok(()), sync_directory)?;
    Ok(true)
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

const KEY: &str = "recovery.mode";

/// `text` with the mode. Where it stands its value is replaced; else a line is added: below the
/// table's head, before its first key, or with a table of its own at the end.
fn edited(text: &str, word: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    match place(text) {
        Place::Value(range) => {
            let (before, after) = (text.get(..range.start), text.get(range.end..));
            [before.unwrap_or_default(), "\"", word, "\"", after.unwrap_or_default()].concat()
        }
        Place::Line { at, key } => {
            let (before, after) = text.split_at(at);
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { end };
            format!("{before}{gap}{key} = \"{word}\"{end}{after}")
        }
        Place::Nowhere => {
            let gap = match text {
                "" => String::new(),
                text if text.ends_with('\n') => end.to_owned(),
                _ => end.repeat(2),
            };
            format!("{text}{gap}[recovery]{end}mode = \"{word}\"{end}")
        }
    }
}

/// Where the mode stands, or is to stand.
enum Place {
    /// The value's bytes.
    Value(Range<usize>),
    /// A new line at this byte, with the key so written.
    Line { at: usize, key: &'static str },
    /// The table is not there.
    Nowhere,
}

fn place(text: &str) -> Place {
    let Ok(document) = DeTable::parse(text) else { return Place::Nowhere };
    let Some((head, DeValue::Table(keys))) = document
        .get_ref()
        .iter()
        .find(|(name, _)| name.get_ref() == "recovery")
        .map(|(name, value)| (name.span().start, value.get_ref()))
    else {
        return Place::Nowhere;
    };
    if let Some(mode) = keys.get("mode") {
        return Place::Value(mode.span());
    }
    let begins = text.get(..head).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(begins..).unwrap_or_default();
    let ends = line.find('\n').map_or(text.len(), |at| begins + at + 1);
    if line.trim_start().starts_with('[') {
        Place::Line { at: ends, key: "mode" }
    } else {
        Place::Line { at: begins, key: KEY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S0-25g
    #[test]
    fn the_mode_is_written_and_every_other_byte_stays() {
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
            let written = edited(before, "act");
            assert_eq!(written, after, "{before:?}");
            assert_eq!(Config::parse(&written).unwrap().mode(), Mode::Act);
        }
    }

    #[test]
    fn a_file_is_changed_once_and_only_where_it_is_sound() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config/coord/config.toml");
        assert!(write(&file, Word::Observe).unwrap());
        assert!(!write(&file, Word::Observe).unwrap());
        assert!(
            write(&file, Word::Signature).unwrap(),
            "it is the default, and not what stands there"
        );
        let link = scratch.path().join("link.toml");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(write(&link, Word::Act).unwrap());
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "[recovery]\nmode = \"act\"\n");
        for bad in ["recovery = {}\n", "[recovery\n", "[recovery]\nmood = 1\n", "x = 1\n"] {
            fs::write(&file, bad).unwrap();
            write(&file, Word::Act).unwrap_err();
            assert_eq!(fs::read_to_string(&file).unwrap(), bad);
        }
    }
}

//! `coordctl recovery-mode MODE`, for `install.sh --recovery MODE`: writes `recovery.mode` into
//! config.toml and leaves every other byte of it as it is (S0-25g).

use std::io::Write;
use std::path::Path;

use anyhow::anyhow;
use coord_daemon::operator::check_self;

use crate::config_edit;
use crate::context::Context;
use crate::out::Failure;

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
    config_edit::set(file, &[("recovery", "mode", wanted.word())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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

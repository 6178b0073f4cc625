//! `cargo xtask book`: makes the book of docs/ with mdBook. A warning fails it.

use std::io::ErrorKind;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::{root, say};

const REMEDY: &str = "mdbook is not installed: cargo install mdbook --version 0.4.52 --locked";

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let made = Command::new("mdbook").args(["build", "docs"]).current_dir(root()).output();
    let made = match made {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(REMEDY),
        made => made.context("mdbook")?,
    };
    let said = String::from_utf8_lossy(&made.stderr);
    let complaints: Vec<&str> = said.lines().filter(|line| is_complaint(line)).collect();
    for complaint in &complaints {
        say(complaint);
    }
    if !made.status.success() {
        bail!("mdbook failed: {}", said.lines().last().unwrap_or("it said nothing"));
    }
    if !complaints.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    say(&format!("made {}", root().join("target/book/index.html").display()));
    Ok(ExitCode::SUCCESS)
}

/// Whether a line of mdBook's log warns: `… [WARN] (…): …`, or ` WARN …` since 0.5.
fn is_complaint(line: &str) -> bool {
    line.split([' ', '[', ']']).any(|word| matches!(word, "WARN" | "ERROR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_either_version_are_told_from_progress() {
        for (line, is_one) in [
            ("2026-11-27 06:33:25 [ERROR] (mdbook::utils): Error: no file", true),
            ("2026-11-27 06:33:25 [WARN] (mdbook::x): odd", true),
            (" WARN unclosed HTML tag", true),
            ("2026-11-27 06:33:25 [INFO] (mdbook::book): Book building has started", false),
            (" INFO A WARNING sign", false),
        ] {
            assert_eq!(is_complaint(line), is_one, "{line}");
        }
    }
}

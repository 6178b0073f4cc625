//! `cargo xtask tidy`.
use std::process::ExitCode;
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}

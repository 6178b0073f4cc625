//! `coord top` (U-05): the list of sessions live in a terminal, the details of one beside it, and keys that go
//! there, explain it, and send to it. It draws `coord-view`'s rows. What it knows and does comes from its
//! [`Source`]; it decides only what is shown, and when.

mod app;
mod draw;
mod looks;
mod plain;
mod rows;
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod threads;

pub use source::{Job, Look, Ran, Source, Watch};

use std::io;

/// What stands in the way of showing anything.
#[derive(Debug)]
pub enum Failure {
    /// Standard input or output is no terminal, or one that cannot move its cursor.
    NoTerminal,
    /// The terminal refused.
    Terminal(io::Error),
    /// This signal ends the program. The terminal is as it was.
    Signal(i32),
    /// A part that works beside the terminal panicked: where, and with what words. The terminal is as it was.
    Panicked(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The command's name, as the header shows it.
    pub name: &'static str,
    /// What the bottom line says until the first key.
    pub notice: Option<&'static str>,
    /// The keys that act on sessions work: `coordctl top`.
    pub acts: bool,
    /// Without colours.
    pub is_colourless: bool,
    /// Only signs of ASCII.
    pub is_ascii: bool,
}

/// Shows the list until its user quits.
///
/// # Errors
/// There is no terminal, it failed, or a signal came. The terminal is left as it was found in every case.
pub fn run(source: &dyn Source, options: Options) -> Result<(), Failure> {
    screen::run(source, options)
}

/// Prints a line per change, and takes typed commands from standard input, until its end.
///
/// # Errors
/// Standard output is closed or failed, or a signal came.
pub fn run_plain(source: &dyn Source) -> Result<(), Failure> {
    plain::run(source, true)
}

/// Prints a line per change until nothing changes any more ([`Look::is_last`]). It does not read standard input.
///
/// # Errors
/// Standard output is closed or failed, or a signal came.
pub fn print_to_end(source: &dyn Source) -> Result<(), Failure> {
    plain::run(source, false)
}

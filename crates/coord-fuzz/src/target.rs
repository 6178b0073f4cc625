//! The parsers, one file each: where its first inputs come from, and what must hold.

mod config;
mod envelope;
mod frames;
mod hook;
mod http;
mod journal;
mod registry;
mod screen;
mod settings;
mod snapshot;
mod spool;
mod stream;
mod tmux;
mod transcript;

use crate::inputs;
use crate::memory::measured;

/// A parser, and what must hold of it.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// The first inputs.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Words that its inputs are made of.
    pub(crate) dictionary: &'static [&'static str],
    /// Makes a mutated input pass the first check, such as a checksum, that would hide the others.
    pub repair: Option<fn(&mut Vec<u8>)>,
    /// Runs it; panics where something does not hold. Gives back what came out, in a word or two.
    pub(crate) run: fn(&[u8]) -> String,
}

impl Target {
    /// The first inputs, among them those that once failed.
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        inputs::first(self)
    }

    /// Words that its inputs are made of, as a dictionary of libFuzzer.
    pub fn words(&self) -> String {
        inputs::words(self)
    }

    /// Runs it on an input. Gives back what came out, in a word or two.
    ///
    /// # Panics
    /// Where something does not hold, and where it takes more memory than it may.
    pub fn run(&self, input: &[u8]) -> String {
        let (outcome, held) = measured(input.len(), || (self.run)(input));
        assert_eq!(held, None, "bytes held at once");
        outcome
    }
}

/// All of them.
pub static TARGETS: [Target; 13] = [
    hook::TARGET,
    envelope::TARGET,
    http::TARGET,
    journal::TARGET,
    snapshot::TARGET,
    spool::TARGET,
    settings::TARGET,
    registry::TARGET,
    transcript::TARGET,
    screen::TARGET,
    tmux::TARGET,
    config::TARGET,
    stream::TARGET,
];

/// Holds where a message is one line that a terminal can take, of bounded length (H-26).
fn assert_is_one_line(message: &str, bytes_max: usize) {
    assert!(!message.is_empty(), "an error without words");
    assert!(message.len() <= bytes_max, "a message of {} bytes", message.len());
    let control = message.chars().find(|one| one.is_control());
    assert!(control.is_none(), "{control:?} in a message: {message:?}");
}

//! The channel `command`: a program of the user's gets the notice as one line of JSON on its standard input.
//!
//! It is run directly, without a shell. Exit code 0 means that the notice was taken. A program that is not done in
//! time is killed with its process group.

use std::path::Path;

use coord_wire::notice::{Notice, SendAnswer};

use crate::answer::{Failure, sent};
use crate::budget::Budget;
use crate::program::{self, Call, Surroundings};
use crate::text;

/// Longest part of the error output that is repeated, in characters.
const COMPLAINT_CHARS_MAX: usize = 120;

/// Gives a notice to the program.
pub(crate) fn tell(program: &str, notice: &Notice, budget: Budget) -> SendAnswer {
    match hand_over(program, notice, budget) {
        Ok(()) => sent(format!("taken by {}", name(program)), None, 1),
        Err(failure) => failure.answer(1),
    }
}

fn hand_over(program: &str, notice: &Notice, budget: Budget) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(notice).map_err(|error| Failure::new(error.to_string()))?;
    line.push(b'\n');
    let call = Call {
        program,
        arguments: Vec::new(),
        input: &line,
        surroundings: Surroundings::User,
        directory: None,
        output_bytes_max: 0,
    };
    let output = program::run(&call, budget)?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = text::first_line(&output.stderr, COMPLAINT_CHARS_MAX);
    let name = name(program);
    let status = output.status;
    Err(Failure::new(if complaint.is_empty() {
        format!("{name}: {status}")
    } else {
        format!("{name}: {status}: {complaint}")
    }))
}

fn name(program: &str) -> String {
    let name = Path::new(program).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

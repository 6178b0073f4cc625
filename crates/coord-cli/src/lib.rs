//! The command line: one program with two names. `coord` looks at sessions, installs the hooks, and
//! runs the coordinator; `coordctl` acts on sessions, so that a permission given for `coord` never
//! covers that (H-22). One file per verb.

mod client;
mod config_edit;
mod context;
mod control;
mod coord;
mod follow;
mod out;
mod prefault;
#[cfg(test)]
mod tests;
mod this_machine;
mod usage;
mod verb;

use std::path::Path;
use std::process::ExitCode;

use dlmalloc::GlobalDlmalloc;
pub use this_machine::ThisMachine;

/// The C library of the static build maps and unmaps a few pages at a time, which was a third of what a verb costs.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Runs the verbs of the name by which the program was called.
pub fn main() -> ExitCode {
    prefault::heap();
    let called = std::env::args_os().next();
    let name = called.as_deref().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == control::NAME) { control::main() } else { coord::main() }
}

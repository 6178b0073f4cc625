//! `coordctl` as a program of its own; installed, it is `coord` by another name.

use std::process::ExitCode;

fn main() -> ExitCode {
    coord_cli::main()
}

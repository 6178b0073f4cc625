//! `coord`, and `coordctl` where it is called by that name.

use std::process::ExitCode;

fn main() -> ExitCode {
    coord_cli::main()
}

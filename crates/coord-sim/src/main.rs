//! `coord-sim`: the simulated world from the command line. Decides nothing; each verb has its file.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The simulated world that coord is tested in
#[derive(Debug, Parser)]
#[command(name = "coord-sim", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(coord_sim::run::Run),
    Play(coord_sim::play::Play),
    Fleet(coord_sim::fleet::Fleet),
}

fn main() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Run(run) => run.run(),
        Verb::Play(play) => play.run(),
        Verb::Fleet(fleet) => fleet.run(),
    }
}

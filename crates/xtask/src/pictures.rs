//! `cargo xtask pictures`: the pictures of the documentation, from real runs in a terminal.
//!
//! The clients are real ones, whose model is a fake; states, ages and texts are what coord made of their events. See
//! `scene` for what happens, `screen` and `svg` for how a screen becomes a picture.

mod scene;
mod screen;
mod svg;

use crate::{root, say, say_error};
use anyhow::{Context, bail};
use coord_tests::netns;
use coord_tests::terminal::Pane;
use scene::Scene;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Between two steps, so that the states have ages of their own.
const PAUSE: Duration = Duration::from_secs(45);
/// Where the pictures are.
const DIRECTORY: &str = "docs/pictures";
/// The columns of the list, and the screen of `coord top`: the details below the list end before the client's files.
const COLUMNS: usize = 80;
const TOP: (usize, usize) = (92, 22);
/// The screen of the requests, whose lines have long ids.
const ANSWER: (usize, usize) = (92, 34);
/// The viewer's prompt.
const PROMPT: &str = "$ ";

/// Make the pictures of the documentation
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask pictures          some 5 minutes, so that states have ages\n  cargo xtask pictures --quick  the same with ages in seconds\n\nWants tmux and the client under test: export COORD_TEST_CLAUDE=$(tests/install-claude)"
)]
pub(crate) struct Args {
    /// Do not wait between the steps
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    coord_tests::client::find().map_err(|why| anyhow::anyhow!(why))?;
    if !netns::is_isolated() {
        build()?;
        // Goes on inside; returns only with what went wrong.
        bail!(netns::enter());
    }
    let own = std::env::current_exe()?;
    let programs = own.parent().context("the directory of the programs")?;
    let pause = if args.quick { Duration::ZERO } else { PAUSE };
    let scene = Scene::open(programs, pause)?;
    say_error("the sessions begin");
    let viewer = scene.viewer();
    scene.play()?;
    let captured = inspect(&scene, &viewer);
    write(&scene, "inspect", "coord inspect", (&captured, COLUMNS))?;
    let captured = top(&scene, &viewer);
    write(&scene, "top", "coord top", (&captured, TOP.0))?;
    let captured = answer(&scene, &viewer);
    write(&scene, "answer", "coordctl requests, coordctl approve", (&captured, ANSWER.0))?;
    Ok(ExitCode::SUCCESS)
}

/// The programs in the directory of this one.
fn build() -> anyhow::Result<()> {
    let packages = ["--package", "coord-cli", "--package", "coord-hook"];
    let mut cargo = Command::new(env!("CARGO"));
    let status = cargo.args(["build", "--quiet"]).args(packages).current_dir(root()).status();
    if !status.context("cargo")?.success() {
        bail!("cargo build failed");
    }
    Ok(())
}

/// All sessions, those that need somebody first.
fn inspect(scene: &Scene, viewer: &Pane) -> String {
    types(viewer, "coord inspect");
    viewer.wait_screen("coord next");
    when_done(scene, viewer)
}

/// The same list live, with the details of the session that asks.
fn top(scene: &Scene, viewer: &Pane) -> String {
    scene.resize(TOP.0, TOP.1);
    types(viewer, "coord top");
    viewer.wait_screen("q quit");
    for _ in 0..16 {
        if viewer.screen().contains("> parser") {
            break;
        }
        viewer.keys(&["j"]);
        std::thread::park_timeout(Duration::from_millis(500));
    }
    viewer.wait_screen("> parser");
    let captured = scene.capture(viewer);
    viewer.keys(&["q"]);
    viewer.wait_screen("$ coord top");
    captured
}

/// The open requests, and one of them answered.
fn answer(scene: &Scene, viewer: &Pane) -> String {
    scene.resize(ANSWER.0, ANSWER.1);
    types(viewer, "coordctl requests");
    viewer.wait_screen("coordctl approve");
    viewer.wait_screen("\n$\n");
    let screen = viewer.screen();
    let id =
        screen.split("coordctl approve ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let id = id.unwrap_or("parser").to_owned();
    viewer.type_text(&format!("coordctl approve {id}"));
    viewer.keys(&["Enter"]);
    viewer.wait_screen("[y/N]");
    viewer.type_text("y");
    viewer.keys(&["Enter"]);
    viewer.wait_screen("Taken");
    when_done(scene, viewer)
}

/// Types a command on a screen with nothing else on it.
fn types(viewer: &Pane, line: &str) {
    viewer.keys(&["C-l"]);
    viewer.wait_gone("passphrase");
    viewer.type_text(line);
    viewer.keys(&["Enter"]);
}

/// The screen once the shell asks for the next command, without its prompt.
fn when_done(scene: &Scene, viewer: &Pane) -> String {
    viewer.wait_screen("\n$\n");
    let captured = scene.capture(viewer);
    let captured = captured.trim_end();
    captured.strip_suffix(PROMPT.trim_end()).unwrap_or(captured).to_owned()
}

/// Writes a picture, unless it would show something of the machine on which it was made.
fn write(
    scene: &Scene,
    file: &str,
    name: &str,
    (captured, columns): (&str, usize),
) -> anyhow::Result<()> {
    let lines = screen::parse(captured);
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let home = scene.home.dir().to_string_lossy().into_owned();
    for private in [home.as_str(), host.as_str(), "/tmp", "-tmp-", "/root", "/home"] {
        if captured.contains(private) {
            bail!("the screen of {name} has {private:?}:\n{captured}");
        }
    }
    let title = format!("A terminal with the output of {name}");
    let path = Path::new(DIRECTORY).join(format!("{file}.svg"));
    std::fs::create_dir_all(root().join(DIRECTORY))?;
    std::fs::write(root().join(&path), svg::draw(&lines, columns, name, &title))?;
    say(&path.display().to_string());
    Ok(())
}

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
use coord_tests::process::run as run_command;
use coord_tests::terminal::Pane;
use scene::Scene;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
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
    after_help = "Examples:\n  cargo xtask pictures          some 5 minutes, so that states have ages\n  cargo xtask pictures --quick  the same with ages in seconds\n\nWants tmux, the client under test (export COORD_TEST_CLAUDE=$(tests/install-claude)), and what tests/install-browsers brings"
)]
pub(crate) struct Args {
    /// Do not wait between the steps
    #[arg(long)]
    quick: bool,
    /// Also write pictures of the page to DIR: on a phone and on a desk, light and dark
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    coord_tests::client::find().map_err(|why| anyhow::anyhow!(why))?;
    if !netns::is_isolated() {
        build()?;
        // What cannot be installed from inside.
        packages()?;
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
    page(&scene, &viewer, args.page.as_deref())?;
    let captured = answer(&scene, &viewer);
    write(&scene, "answer", "coordctl requests, coordctl approve", (&captured, ANSWER.0))?;
    Ok(ExitCode::SUCCESS)
}

/// The programs in the directory of this one.
fn build() -> anyhow::Result<()> {
    let packages = ["--package", "coord-cli", "--package", "coord-hook"];
    let mut cargo = crate::cargo();
    let status = cargo.args(["build", "--quiet"]).args(packages).current_dir(root()).status();
    if !status.context("cargo")?.success() {
        bail!("cargo build failed");
    }
    Ok(())
}

/// The directory of what drives the browser.
pub(crate) fn packages() -> anyhow::Result<PathBuf> {
    let install = Command::new(root().join("tests/install-browsers")).output()?;
    let said = String::from_utf8_lossy(&install.stdout).into_owned();
    let found = said.lines().last().filter(|_| install.status.success()).map(PathBuf::from);
    found.with_context(|| String::from_utf8_lossy(&install.stderr).into_owned())
}

/// The page of `coordctl dashboard`, with the session that asks and its request.
fn page(scene: &Scene, viewer: &Pane, more: Option<&Path>) -> anyhow::Result<()> {
    const SIZES: [&str; 4] = ["1280x800-light", "1280x800-dark", "390x844-light", "390x844-dark"];
    scene.resize(ANSWER.0, ANSWER.1);
    types(viewer, "coordctl dashboard");
    viewer.wait_screen("there.");
    let screen = viewer.screen();
    let url = screen.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.context("the page's address")?;
    let work = scene.home.tmp().join("page-1280x530-light.png");
    let sizes = SIZES.iter().map(|size| format!("page-{size}.png"));
    let more = more.into_iter().flat_map(|dir| sizes.clone().map(|file| dir.join(file)));
    let mut node = scene.home.command("node");
    node.arg(root().join("tests/browser/picture.js")).args([url, "parser"]).arg(&work);
    node.args(more).env("COORD_TEST_BROWSER", packages()?).stdin(Stdio::null());
    let said = run_command(node, &scene.home.tmp(), "picture").expect_success();
    is_public(scene, "the page", &said.stdout)?;
    let path = Path::new(DIRECTORY).join("page.png");
    std::fs::copy(work, root().join(&path))?;
    say(&path.display().to_string());
    viewer.keys(&["C-c"]);
    viewer.wait_screen("^C$");
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

/// Refuses what would show something of the machine on which it was made.
fn is_public(scene: &Scene, name: &str, shown: &str) -> anyhow::Result<()> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let home = scene.home.dir().to_string_lossy().into_owned();
    for private in [home.as_str(), host.as_str(), "/tmp", "-tmp-", "/root", "/home"] {
        if shown.contains(private) {
            bail!("the screen of {name} has {private:?}:\n{shown}");
        }
    }
    Ok(())
}

/// Writes a picture, unless it would show something of the machine on which it was made.
fn write(
    scene: &Scene,
    file: &str,
    name: &str,
    (captured, columns): (&str, usize),
) -> anyhow::Result<()> {
    let lines = screen::parse(captured);
    is_public(scene, name, captured)?;
    let title = format!("A terminal with the output of {name}");
    let path = Path::new(DIRECTORY).join(format!("{file}.svg"));
    std::fs::create_dir_all(root().join(DIRECTORY))?;
    std::fs::write(root().join(&path), svg::draw(&lines, columns, name, &title))?;
    say(&path.display().to_string());
    Ok(())
}

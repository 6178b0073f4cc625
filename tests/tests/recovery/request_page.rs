//! A permission prompt of the real client that is answered on the page of `coordctl dashboard`, in a real browser (W-03).

use coord_tests::coord::programs;
use coord_tests::fake_api::Turn;
use coord_tests::process::run;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::requests::{asked, request};

/// Seen, allowed with the passphrase, and proved by the client's own note.
pub(crate) fn w_03_a_request_is_approved_on_the_page() {
    let mut place = asked([Turn::bash("touch made-on-the-page"), Turn::text("Made it.").lasting()]);
    request(&mut place);
    let pane = place.terminal.pane();
    let coordctl = programs().join("coordctl");
    pane.command(&format!(
        "{} --root {} dashboard",
        coordctl.display(),
        place.home.root().display()
    ));
    pane.wait_screen("there.");
    let screen = pane.screen();
    let url = screen.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let install = Command::new(tests.join("install-browsers")).output().expect("bash");
    let packages = String::from_utf8_lossy(&install.stdout).into_owned();
    let packages = packages.lines().last().expect("tests/install-browsers; run it before");
    let mut node = place.home.command("node");
    node.arg(tests.join("browser/case.js")).args([
        "approves",
        "chromium",
        url.expect("the address"),
    ]);
    node.env("COORD_TEST_BROWSER", packages).stdin(Stdio::null());
    run(node, &place.home.tmp(), "case").expect_success();
    place.when_at_rest();
    assert!(place.home.project().join("made-on-the-page").exists());
    pane.keys(&["C-c"]);
    pane.wait_screen("^Cdev$");
}

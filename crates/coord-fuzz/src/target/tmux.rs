//! An answer of tmux: each pane has its own lines and no others, whatever stands on it (H-16).

use super::{Target, assert_is_one_line};
use coord_host::tmux::answer::{pane_id, parse};
use std::collections::BTreeSet;

pub(super) const TARGET: Target = Target {
    name: "tmux",
    seeds,
    dictionary: &[
        "%0 11 0 2 @0:1700000000 9 /dev/pts/4 1 0 0 1 work:zsh\n",
        "%3 12 1 1 @1:1700000001 9 /dev/pts/5 2 1 3 0 my work:a: b\n",
        "end\n",
        "\n",
        "%",
        " ",
    ],
    repair: None,
    run,
};

const CAPTURED: [u32; 3] = [0, 2, 3];
const LIST: &str = "%0 11 0 2 @0:1700000000 9 /dev/pts/4 1 0 0 1 work:zsh\n%3 12 1 1 @1:1700000001 9 /dev/pts/5 2 1 3 0 my work:a: b\nend\n";

fn seeds() -> Vec<Vec<u8>> {
    [
        format!("{LIST}one\ntwo\nthree\n"),
        format!("{LIST}\n\n\n"),
        "end\n".to_owned(),
        LIST.to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

fn run(input: &[u8]) -> String {
    let captures: BTreeSet<u32> = CAPTURED.into();
    hostile_pane(input, &captures);
    if let Some(id) = pane_id(&String::from_utf8_lossy(input)) {
        assert_eq!(pane_id(&format!("%{id}")), Some(id));
    }
    let view = match parse(input, &captures) {
        Ok(view) => view,
        Err(why) => {
            assert_is_one_line(&why, 200);
            return why;
        }
    };
    let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').count() - 1;
    for (id, pane) in &view.panes {
        assert_eq!(*id, pane.id);
        assert!(captures.contains(id) == view.texts.contains_key(id), "%{id}: text without a pane");
    }
    let text_lines: usize = view.texts.values().map(|text| lines(text.as_bytes())).sum();
    // One line for each pane, or more where a window is in several sessions, then the mark.
    let listed = input.split(|byte| *byte == b'\n').position(|line| line == b"end");
    let listed = listed.expect("a list that ends");
    assert!(view.panes.len() <= listed, "panes from nowhere");
    assert_eq!(listed + 1 + text_lines, lines(input), "lines from nowhere, or left over");
    format!("{} panes, {} texts", view.panes.len().min(9), view.texts.len())
}

/// The input stands on one pane of two; the other keeps its own line.
fn hostile_pane(input: &[u8], captures: &BTreeSet<u32>) {
    let mut shown: Vec<u8> = input.to_vec();
    shown.push(b'\n');
    let height = shown.split(|byte| *byte == b'\n').count() - 1;
    let list = format!(
        "%0 11 0 {height} @0:1 9 /dev/pts/4 1 0 0 1 work:zsh\n%3 12 0 1 @1:1 9 /dev/pts/5 2 1 3 0 my work:a: b\nend\n"
    );
    let answer = [list.as_bytes(), &shown, b"mine\n"].concat();
    let view = parse(&answer, captures).expect("an answer that adds up");
    assert_eq!(view.texts.get(&3).map(String::as_str), Some("mine\n"));
    assert_eq!(view.texts.get(&0).map(String::as_str), Some(&*String::from_utf8_lossy(&shown)));
}

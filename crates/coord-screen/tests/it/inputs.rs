//! Input lines of the real client, captured with their escape sequences and sorted by what stands in
//! them: `inputs/{empty,draft,unreadable}/NAME.ansi`. A number in a name is the pane's width.

#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_model::Input;
use coord_screen::{input, plain, read};
use proptest::prelude::*;
use std::path::Path;

fn captures() -> Vec<(Input, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    let all = [(Input::Empty, "empty"), (Input::Draft, "draft"), (Input::Unreadable, "unreadable")];
    let mut captures = Vec::new();
    for (input, dir) in all {
        for path in std::fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            captures.push((input, name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    captures
}

// H-08
#[test]
fn every_input_line_is_told() {
    let wrong: Vec<String> = captures()
        .iter()
        .map(|(expected, name, text)| (expected, name, input(text)))
        .filter(|(expected, _, found)| *expected != found)
        .map(|(expected, name, found)| format!("{name}: {found:?}, not {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(25 < captures().len(), "the directories were not read");
}

#[test]
fn without_the_sequences_it_is_the_same_screen() {
    for (_, name, text) in captures() {
        let plain = plain(&text);
        assert!(!plain.contains('\u{1b}'), "{name}");
        let screen = read(&plain).screen.map(coord_screen::Screen::word);
        let is_dialog = ["permission", "question"].contains(&name.as_str());
        assert!(!is_dialog || screen == Some(name.as_str()), "{name}: {screen:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // H-08: whatever is typed, it is not lost.
    #[test]
    fn no_typed_text_passes_for_an_empty_line(text in "[^\\pC\\pZ\u{ad}][^\\pC]{0,30}") {
        let empty = captures().into_iter().find(|(_, name, _)| name == "after_answer").unwrap().2;
        let mark = "❯\u{a0}";
        prop_assert_eq!(input(&empty.replace(mark, &format!("{mark}{text}"))), Input::Draft);
    }

    #[test]
    fn anything_is_read(text in "(?s).{0,400}", pieces in prop::collection::vec("\u{1b}\\[[0-9;]{0,6}m|[❯\u{a0}─ x]{0,12}|\n|\u{1b}", 0..60)) {
        input(&text);
        input(&pieces.concat());
    }
}

//! Screens of the real client, sorted into one directory for each class: `fixtures/CLASS/NAME.txt`.

#![expect(clippy::unwrap_used, reason = "test support: a failure here is a failed test")]

use coord_screen::{Farewell, Reading, Screen, read};
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

struct Fixture {
    class: String,
    name: String,
    text: String,
}

static FIXTURES: LazyLock<Vec<Fixture>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut fixtures = Vec::new();
    for class in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        for path in std::fs::read_dir(&class).unwrap().map(|entry| entry.unwrap().path()) {
            let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            fixtures.push(Fixture { class: name(&class), name: name(&path), text });
        }
    }
    fixtures
});

fn fixture(name: &str) -> Reading {
    read(&FIXTURES.iter().find(|fixture| fixture.name == name).unwrap().text)
}

fn word(reading: &Reading) -> &'static str {
    reading.screen.map_or("unknown", Screen::word)
}

// R-10, S0-18
#[test]
fn every_screen_has_its_class() {
    let wrong: Vec<String> = FIXTURES
        .iter()
        .map(|fixture| (fixture, word(&read(&fixture.text))))
        .filter(|(fixture, word)| fixture.class != *word)
        .map(|(fixture, word)| format!("{}/{}: read as {word}", fixture.class, fixture.name))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(190 < FIXTURES.len(), "the directory was not read");
}

// H-05
#[test]
fn farewells() {
    let with: Vec<(&str, String)> = FIXTURES
        .iter()
        .filter_map(|fixture| match read(&fixture.text).farewell? {
            Farewell::Last(session) => Some((fixture.name.as_str(), session)),
            Farewell::Above { .. } => None,
        })
        .collect();
    let mut names: Vec<&str> = with.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let expected = [
        "after_exit_shell",
        "after_exit_twice",
        "after_exit_typed",
        "classic_after_exit",
        "narrow_after_exit",
        "sigterm_after",
        "sigterm_working",
    ];
    assert_eq!(names, expected);
    let narrow = fixture("narrow_after_exit").farewell;
    let session = "6ed11f76-d29d-4074-9255-927e52b034ee".to_owned();
    assert_eq!(narrow, Some(Farewell::Last(session)));
}

// what a killed client left is no prompt, no turn and no dialog.
#[test]
fn the_screens_of_the_dead() {
    let dead = |fixture: &&Fixture| {
        let name = fixture.name.trim_start_matches("classic_");
        name.starts_with("sigkill") && !name.ends_with("_before")
    };
    for fixture in FIXTURES.iter().filter(dead) {
        let screen = read(&fixture.text).screen;
        assert!(matches!(screen, None | Some(Screen::Shell)), "{}: {screen:?}", fixture.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // the conversation above does not decide.
    #[test]
    fn text_above_does_not_change_the_class(above in "(\\PC{0,120}\n){0,30}", at in any::<prop::sample::Index>()) {
        // A dialog in a small pane is cut at its top: nothing stands above it.
        let is_whole = |fixture: &&Fixture| !["small", "tiny"].iter().any(|pane| fixture.name.contains(pane));
        let whole: Vec<&Fixture> = FIXTURES.iter().filter(is_whole).collect();
        let fixture = at.get(&whole);
        prop_assert_eq!(word(&read(&format!("{above}{}", fixture.text))), &fixture.class, "{}", &fixture.name);
    }

    #[test]
    fn a_screen_that_is_cut_or_painted_over_is_read(at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), paint in "\\PC{0,9}\n?") {
        let text = &at.get(&FIXTURES).text;
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let from = *from.get(&starts);
        read(&text[from..]);
        read(&format!("{}{paint}{}", &text[..from], &text[from..]));
    }

    #[test]
    fn anything_is_read(text in "(?s).{0,2000}", lines in "([❯!✻─▔╌ \u{a0}·a?1.]{0,30}\n){0,40}") {
        read(&text);
        read(&lines);
    }
}

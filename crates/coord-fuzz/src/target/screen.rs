//! Text of a pane: a class, a session id that is one, and nothing above the client's own box changes
//! what the box says (R-10, H-05).

use super::Target;
use crate::inputs::{as_text, files};
use coord_screen::{Farewell, Screen, question_in, read};

pub(super) const TARGET: Target = Target {
    name: "screen",
    seeds: || files("crates/coord-screen/fixtures"),
    dictionary: &[
        "\n──────────────────────────────\n",
        "❯\u{a0}",
        "\n  ⏵⏵ auto mode on · esc to interrupt\n",
        "✻ Hatching… (3s)",
        "❯ 1. Yes\n   2. No\n",
        "Resume this session with:\nclaude --resume ",
        "53a98082-709f-4d17-8102-4681346bd56b",
        "Do you want to proceed?",
        "Continue? (y/n)\n",
        "\n```\n",
        "╌╌╌╌╌╌╌╌╌╌╌╌",
        "▔▔▔▔▔▔▔▔▔▔▔▔",
        "RangeError: Maximum call stack size exceeded",
        "  │",
        "dev$ ",
        "\u{1b}[2J",
    ],
    repair: Some(as_text),
    run,
};

const RULE: &str = "──────────────────────────────────────────────────────────────";

fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let reading = read(&text);
    if let Some(Farewell::Last(id) | Farewell::Above { session: id }) = &reading.farewell {
        let is_id = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        assert!(is_id, "a session id of {id:?}");
    }
    let boxed = |above: &str, footer: &str| {
        read(&format!("{text}\n\n{above}\n\n{RULE}\n❯\u{a0}\n{RULE}\n  {footer}\n"))
    };
    let prompt = boxed("✻ Baked for 3s", "⏵⏵ auto mode on · ? for shortcuts");
    assert_eq!(prompt.screen, Some(Screen::Prompt));
    assert!(!matches!(prompt.farewell, Some(Farewell::Last(_))), "{prompt:?}");
    let working = boxed("✶ Hatching… (3s)", "⏸ manual mode on · esc to interrupt");
    assert_eq!(working.screen, Some(Screen::Working));
    assert!(!matches!(working.farewell, Some(Farewell::Last(_))), "{working:?}");
    if reading.signature.is_some() {
        assert!(prompt.signature.is_some(), "a signature that goes with what is drawn below it");
    }
    let ended = question_in(&format!("{text}\nOne.\nTwo.\nThree."));
    assert_eq!(ended, None, "a question that is not the end");
    format!(
        "{:?}, question {:?}, farewell {}, signature {:?}",
        reading.screen,
        question_in(&text),
        reading.farewell.is_some(),
        reading.signature
    )
}

//! A settings file: installing is refused in one line, or gives JSON with each of our entries once;
//! what else stood there still does, a second install changes nothing, and uninstalling gives back
//! every byte (G8).
//!
//! The editor is part of a program, so its modules are compiled here too.

#[path = "../../../coord-cli/src/verb/install/edit.rs"]
mod edit;
#[path = "../../../coord-cli/src/verb/install/layout.rs"]
mod layout;
#[path = "../../../coord-cli/src/verb/install/registration.rs"]
#[expect(dead_code, reason = "the program needs more of it than is needed here")]
mod registration;
#[path = "../../../coord-cli/src/verb/install/status_line.rs"]
mod status_line;

use super::Target;
use crate::inputs::{as_text, files};
use coord_wire::paths::Paths;
use edit::Rest;
use registration::{Registration, events};
use serde_json::Value;
use std::path::Path;
use std::sync::OnceLock;

pub(super) const TARGET: Target = Target {
    name: "settings",
    seeds,
    dictionary: &[
        "\"hooks\": {",
        "\"Stop\": [",
        "{\"hooks\": []}",
        "{\"type\":\"command\",\"command\":\"/x/coord-hook-stop\",\"args\":[]}",
        "{\"type\":\"command\",\"command\":\"coord-hook-event\",\"args\":[],\"timeout\":9}",
        "\"matcher\": \"Bash\",",
        "\"disableAllHooks\": true,",
        "// comment\n",
        "\u{feff}",
        "\r\n\t",
        "[ ]",
        "{ }",
    ],
    repair: Some(as_text),
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = files("crates/coord-cli/tests/settings");
    seeds.retain(|seed| !seed.starts_with(b"*"));
    for text in seeds.clone().iter().take(12).filter_map(|seed| core::str::from_utf8(seed).ok()) {
        seeds.extend(edit::register(Some(text), ours()).ok().map(String::into_bytes));
    }
    seeds
}

fn ours() -> &'static Registration {
    static OURS: OnceLock<Registration> = OnceLock::new();
    OURS.get_or_init(|| {
        let root = Path::new("/r");
        let paths = Paths::resolve(Some(root), "m1234567", 5, |_| None).expect("an absolute root");
        Registration::new(Path::new("/p"), Some(root), &paths).expect("plain paths")
    })
}

fn run(input: &[u8]) -> String {
    // A file that is not UTF-8 is refused before.
    let Ok(before) = core::str::from_utf8(input) else { return "not UTF-8".to_owned() };
    let after = match edit::register(Some(before), ours()) {
        Ok(after) => after,
        Err(refusal) => {
            let words = refusal.to_string();
            assert!(edit::unregister(before).is_err(), "uninstalls what it does not install into");
            let (_, reason) = words.split_once(": ").unwrap_or(("", &words));
            return format!("refused: {}", reason.split(['"', '\'']).next().unwrap_or_default());
        }
    };
    let standing = edit::read(before).expect("it was read just now").registered_events();
    let layout = edit::read(&after).expect("what was written is read");
    assert_eq!(layout.registered_events(), events().count());
    assert_eq!(others(before), others(&after), "what is not ours has changed");
    let twice = edit::register(Some(&after), ours()).expect("what was written is read");
    assert_eq!(twice, after, "a second install changes something");
    let is_undone = edit::is_undone(before, &after).expect("both are read");
    let rest = edit::unregister(&after).expect("what was written is read");
    if standing == 0 {
        assert_eq!(edit::unregister(before).ok(), Some(Rest::Text(before.to_owned())));
        if is_undone {
            assert_eq!(rest, Rest::Text(before.to_owned()), "uninstalling gives back other bytes");
        }
    }
    if let Rest::Text(rest) = rest {
        assert_eq!(edit::read(&rest).map(|layout| layout.registered_events()), Ok(0));
    }
    format!("{standing} stood, undone {is_undone}, {}", before.starts_with('\u{feff}'))
}

/// The values besides `hooks`.
fn others(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}');
    let mut value: Value = serde_json::from_str(text).expect("a settings file is JSON");
    value.as_object_mut().map(|members| members.remove("hooks"));
    value
}

//! G8 over generated settings files in every manner of writing: what goes in comes out again, byte
//! for byte, whatever the user does around it.

use std::path::Path;

use coord_wire::paths::Paths;
use proptest::prelude::*;

use super::edit::{Rest, read, register, unregister};
use super::registration::{HOOKS, Registration, events};

/// An array element that the user's edits replace; it stands in arrays only.
const MARKER: &str = "\"@here@\"";

/// JSON with its keys in order.
#[derive(Debug, Clone)]
enum Json {
    Raw(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Writes the value with the blanks that `blanks` yields between any two tokens.
    fn write(&self, out: &mut String, blanks: &mut impl Iterator<Item = &'static str>) {
        let mut blank = |out: &mut String| out.push_str(blanks.next().unwrap_or_default());
        match self {
            Self::Raw(text) => out.push_str(text),
            Self::Array(items) => {
                out.push('[');
                blank(out);
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                        out.push_str(blanks.next().unwrap_or_default());
                    }
                    item.write(out, blanks);
                    out.push_str(blanks.next().unwrap_or_default());
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                blank(out);
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                        out.push_str(blanks.next().unwrap_or_default());
                    }
                    out.push_str(&serde_json::to_string(name).unwrap());
                    out.push_str(blanks.next().unwrap_or_default());
                    out.push(':');
                    out.push_str(blanks.next().unwrap_or_default());
                    value.write(out, blanks);
                    out.push_str(blanks.next().unwrap_or_default());
                }
                out.push('}');
            }
        }
    }
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("true".to_owned()),
        "[ -~é❯\\n]{0,8}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
    .prop_map(Json::Raw)
}

fn value() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            proptest::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn entry() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Raw(MARKER.to_owned())),
        Just(Json::Raw(r#"{"type":"command","command":"coord-hook-x"}"#.to_owned())),
        Just(Json::Raw(r#"{"type":"command","command":"/opt/other","args":[]}"#.to_owned())),
        value(),
    ]
}

fn group() -> impl Strategy<Value = Json> {
    let regular = (proptest::collection::vec(entry(), 0..3), any::<bool>()).prop_map(
        |(entries, has_matcher)| {
            let mut members = vec![("hooks".to_owned(), Json::Array(entries))];
            if has_matcher {
                members.insert(0, ("matcher".to_owned(), Json::Raw("\"Bash\"".to_owned())));
            }
            Json::Object(members)
        },
    );
    prop_oneof![4 => regular, 1 => entry()]
}

fn hooks() -> impl Strategy<Value = Json> {
    let event = prop_oneof![Just("Stop"), Just("PreToolUse"), Just("SessionEnd"), Just("Setup")];
    proptest::collection::btree_map(event, proptest::collection::vec(group(), 0..3), 0..4).prop_map(
        |events| {
            let event = |(name, groups): (&str, Vec<Json>)| (name.to_owned(), Json::Array(groups));
            Json::Object(events.into_iter().map(event).collect())
        },
    )
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(""),
        2 => Just(" "),
        2 => Just("\n  "),
        1 => Just("\n"),
        1 => Just("\r\n\t"),
        1 => Just("\n    "),
        1 => Just(" \t\r\n "),
    ]
}

/// A settings file: other keys around an optional `hooks`, any blanks anywhere, perhaps a byte
/// order mark.
fn settings() -> impl Strategy<Value = String> {
    let others = || proptest::collection::btree_map("[a-f]{1,3}", value(), 0..3);
    let root = (others(), proptest::option::of(hooks()), others());
    let blanks = proptest::collection::vec(blank(), 1..40);
    (root, blanks, blank(), blank(), any::<bool>()).prop_map(
        |((before, hooks, after), blanks, head, tail, has_mark)| {
            let mut members: Vec<_> = before.into_iter().collect();
            members.extend(hooks.map(|hooks| ("hooks".to_owned(), hooks)));
            members.extend(after.into_iter().map(|(name, value)| (format!("z{name}"), value)));
            let mut out = String::from(if has_mark { "\u{feff}" } else { "" });
            out.push_str(head);
            Json::Object(members).write(&mut out, &mut blanks.iter().copied().cycle());
            out.push_str(tail);
            out
        },
    )
}

/// What a user does to a file, with or without our entries in it.
#[derive(Debug, Clone)]
enum UserEdit {
    AddFirst,
    AddLast,
    AddBesideMarkers,
    RemoveNothing,
}

fn user_edit() -> impl Strategy<Value = UserEdit> {
    prop_oneof![
        Just(UserEdit::AddFirst),
        Just(UserEdit::AddLast),
        Just(UserEdit::AddBesideMarkers),
        Just(UserEdit::RemoveNothing),
    ]
}

impl UserEdit {
    fn make(&self, text: &str) -> String {
        match self {
            Self::AddFirst => text.replacen('{', "{\n      \"_first\": [1],", 1),
            Self::AddLast => {
                let (before, after) = text.rsplit_once('}').unwrap();
                format!("{before},\"_last\": {{}}\n}}{after}")
            }
            Self::AddBesideMarkers => text.replace(MARKER, "{\"new\": 1}, \"@here@\",\n[]"),
            Self::RemoveNothing => text.to_owned(),
        }
    }
}

fn ours(directory: &str) -> Registration {
    let root = Path::new("/r");
    let paths = Paths::resolve(Some(root), "m1234567", 5, |_| None).unwrap();
    Registration::new(Path::new(directory), None, &paths).unwrap()
}

fn is_empty_object(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str::<serde_json::Value>(text).unwrap() == serde_json::json!({})
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn uninstall_gives_back_every_byte_g8(settings in settings(), edit in user_edit()) {
        let registered = register(Some(&settings), &ours("/new")).unwrap();
        prop_assert_eq!(read(&registered).unwrap().registered_events(), events().count());
        prop_assert_eq!(unregister(&registered).unwrap(), Rest::Text(settings.clone()));
        // An empty object has no member to put another one beside.
        if !is_empty_object(&settings) {
            let rest = unregister(&edit.make(&registered)).unwrap();
            prop_assert_eq!(rest, Rest::Text(edit.make(&settings)));
        }
    }

    #[test]
    fn a_second_install_changes_nothing_and_another_prefix_only_the_paths_g8(settings in settings()) {
        let old = register(Some(&settings), &ours("/old/prefix")).unwrap();
        prop_assert_eq!(&register(Some(&old), &ours("/old/prefix")).unwrap(), &old);
        let moved = register(Some(&old), &ours("/new")).unwrap();
        prop_assert_eq!(&moved, &register(Some(&settings), &ours("/new")).unwrap());
        prop_assert_eq!(unregister(&settings).unwrap(), Rest::Text(settings));
    }
}

#[test]
fn a_file_made_for_our_entries_leaves_with_them_g8() {
    let made = register(None, &ours("/p")).unwrap();
    assert!(made.starts_with("{\n  \"hooks\": {\n    \"SessionStart\": [\n      {\n"), "{made}");
    assert!(made.ends_with("    ]\n  }\n}\n"), "{made}");
    assert_eq!(unregister(&made).unwrap(), Rest::Nothing);
    let kept = made.replacen('{', "{\n  \"model\": \"x\",", 1);
    assert_eq!(unregister(&kept).unwrap(), Rest::Text("{\n  \"model\": \"x\"\n}\n".to_owned()));
}

/// The client writes the whole file anew, in two-space JSON, when a setting is changed in it.
#[test]
fn nothing_of_ours_is_left_in_a_file_that_the_client_wrote_anew_g8() {
    for settings in ["{}", "{\"a\": 1}", "{\"a\": 1, \"hooks\": {\"Stop\": [{\"hooks\": []}]}}"] {
        let registered = register(Some(settings), &ours("/p")).unwrap();
        let anew: serde_json::Value = serde_json::from_str(&registered).unwrap();
        for anew in [serde_json::to_string_pretty(&anew), serde_json::to_string(&anew)] {
            let rest = match unregister(&anew.unwrap()).unwrap() {
                Rest::Text(text) => serde_json::from_str(&text).unwrap(),
                Rest::Nothing => serde_json::json!({}),
            };
            let before: serde_json::Value = serde_json::from_str(settings).unwrap();
            assert_eq!(rest, before);
        }
    }
}

/// Doubles, entries of events no longer listed, and entries behind a matcher are set right; a
/// user's own hook in the same group stays.
#[test]
fn an_upgrade_sets_entries_right_and_leaves_the_users_own_g8() {
    let entry = |program: &str| {
        format!(r#"{{"type":"command","command":"/old/{program}","args":[],"timeout":9}}"#)
    };
    let (event, stop) = (entry("coord-hook-event"), entry("coord-hook-stop"));
    let mine = r#"{"type":"command","command":"mine"}"#;
    let settings = format!(
        r#"{{"hooks":{{"PreCompact":[{{"hooks":[{event}]}}],"Stop":[{{"hooks":[{mine},{stop}]}},{{"hooks":[{stop}]}}],"PreToolUse":[{{"matcher":"Bash","hooks":[{event},{mine}]}}]}}}}"#
    );
    let registered = register(Some(&settings), &ours("/p")).unwrap();
    assert_eq!(registered.matches("/old/").count(), 0, "{registered}");
    assert_eq!(registered.matches("coord-hook-").count(), HOOKS.len(), "{registered}");
    assert!(!registered.contains("PreCompact"));
    let Rest::Text(rest) = unregister(&registered).unwrap() else {
        panic!("the user's hooks left")
    };
    let expected = format!(
        r#"{{"hooks":{{"Stop":[{{"hooks":[{mine}]}}],"PreToolUse":[{{"matcher":"Bash","hooks":[{mine}]}}]}}}}"#
    );
    assert_eq!(rest, expected);
}

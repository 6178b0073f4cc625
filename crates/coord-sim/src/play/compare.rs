//! Whether what was found has the fields that were wanted. An object has the fields it names, null
//! is null, numbers and texts are exact, and a list has an item for each that is wanted (an empty
//! one has none).

use serde_json::Value;

use crate::scenario::nearest;

/// The first field that is not as wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Such as `recovery.total`.
    pub(crate) path: String,
    pub(crate) wanted: String,
    pub(crate) got: String,
}

/// Compares; none if all is as wanted.
pub(crate) fn compare(path: &str, wanted: &Value, got: &Value) -> Option<Difference> {
    let is_same = match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            return wanted.iter().find_map(|(name, wanted)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let Some(got) = got.get(name) else {
                    let known: Vec<&str> = got.keys().map(String::as_str).collect();
                    let got = format!("no such field{}", nearest(name, &known));
                    return Some(Difference { path, wanted: wanted.to_string(), got });
                };
                compare(&path, wanted, got)
            });
        }
        (Value::Array(wanted), Value::Array(got)) => {
            let is_there = |one: &Value| got.iter().any(|got| compare("", one, got).is_none());
            if wanted.is_empty() { got.is_empty() } else { wanted.iter().all(is_there) }
        }
        // 3 and 3.0 are one number.
        (Value::Number(wanted), Value::Number(got)) => {
            wanted == got || wanted.as_f64().is_some_and(|one| Some(one) == got.as_f64())
        }
        (wanted, got) => wanted == got,
    };
    let path = path.to_owned();
    (!is_same).then(|| Difference { path, wanted: wanted.to_string(), got: got.to_string() })
}

/// Whether an effect is the wanted one: as above, and `contains` is a part of its text.
pub(crate) fn is_effect(wanted: &Value, effect: &Value) -> bool {
    let mut wanted = wanted.clone();
    let contains = wanted.as_object_mut().and_then(|fields| fields.remove("contains"));
    let text = effect.get("text").and_then(Value::as_str).unwrap_or_default();
    let has_text =
        contains.is_none_or(|part| part.as_str().is_some_and(|part| text.contains(part)));
    has_text && compare("", &wanted, effect).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_named_counts_and_the_path_leads_to_it() {
        let got = json!({"a": {"b": 1, "c": null}, "d": ["x", {"e": 2, "f": 3}], "g": "text"});
        for wanted in [
            json!({}),
            json!({"a": {"b": 1.0}}),
            json!({"a": {"c": null}, "d": [{"e": 2}]}),
            json!({"g": "text", "d": ["x"]}),
        ] {
            assert_eq!(compare("", &wanted, &got), None, "{wanted}");
        }
        for (wanted, path) in [
            (json!({"a": {"b": 2}}), "a.b"),
            (json!({"a": null}), "a"),
            (json!({"a": {"c": {}}}), "a.c"),
            (json!({"d": []}), "d"),
            (json!({"d": [{"e": 3}]}), "d"),
            (json!({"g": "tex"}), "g"),
            (json!({"h": null}), "h"),
        ] {
            assert_eq!(compare("", &wanted, &got).map(|one| one.path).as_deref(), Some(path));
        }
    }

    #[test]
    fn an_effect_is_known_by_its_named_fields_and_a_part_of_its_text() {
        let effect = json!({"kind": "type_text", "text": "coordctl resume-exec n", "pane": "%1"});
        assert!(is_effect(&json!({"kind": "type_text", "contains": "resume-exec"}), &effect));
        assert!(!is_effect(&json!({"kind": "type_text", "contains": "resume-now"}), &effect));
        assert!(!is_effect(&json!({"kind": "type_text", "pane": "%2"}), &effect));
    }
}

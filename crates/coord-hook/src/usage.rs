//! Takes the numbers out of a status line's payload (N-08).
//!
//! This module decides what leaves the payload: the numbers of [`TABLE`] and the names of the model. They leave as the
//! client wrote them, and what is missing, null, or of another type is left out. It works on text that the scanner has
//! found to be one JSON object, needs no memory but its result, and does not recurse.

/// Longest number that is copied, in bytes; no double is longer.
const NUMBER_BYTES_MAX: usize = 32;
/// Longest name of a model that is copied, in bytes.
const NAME_BYTES_MAX: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Name,
}

/// Each member of `coord_model::Usage`, and where the payload has it.
const TABLE: [(&str, &[&str], Kind); 9] = [
    ("model", &["model", "id"], Kind::Name),
    ("model_name", &["model", "display_name"], Kind::Name),
    ("context_percent", &["context_window", "used_percentage"], Kind::Number),
    ("context_size", &["context_window", "context_window_size"], Kind::Number),
    ("cost_usd", &["cost", "total_cost_usd"], Kind::Number),
    ("five_hour_percent", &["rate_limits", "five_hour", "used_percentage"], Kind::Number),
    ("five_hour_resets", &["rate_limits", "five_hour", "resets_at"], Kind::Number),
    ("seven_day_percent", &["rate_limits", "seven_day", "used_percentage"], Kind::Number),
    ("seven_day_resets", &["rate_limits", "seven_day", "resets_at"], Kind::Number),
];

/// The numbers of a payload, as one JSON object.
pub(crate) fn usage(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    for (name, path, kind) in TABLE {
        let value = path.iter().try_fold(payload, |object, name| member(object, name.as_bytes()));
        let Some(value) = value.filter(|value| is_of(kind, value)) else { continue };
        out.extend_from_slice(if out.len() == 1 { b"\"" } else { b",\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

fn is_of(kind: Kind, value: &[u8]) -> bool {
    match kind {
        // JavaScript writes an infinite number as null; a large exponent would be one to its reader.
        Kind::Number => {
            let is_number = value.first().is_some_and(|byte| matches!(byte, b'-' | b'0'..=b'9'));
            let exponent = value.iter().position(|byte| matches!(byte, b'e' | b'E'));
            let is_small = exponent.is_none_or(|at| value.get(at + 1) == Some(&b'-'));
            is_number && is_small && value.len() <= NUMBER_BYTES_MAX
        }
        // The scanner lets control characters pass, and half of a surrogate pair.
        Kind::Name => {
            value.strip_prefix(b"\"").is_some_and(|rest| rest.ends_with(b"\""))
                && value.len() <= NAME_BYTES_MAX
                && !value.iter().any(|byte| *byte < b' ' || *byte == b'\\')
                && core::str::from_utf8(value).is_ok()
        }
    }
}

/// The value of a member of an object; the last one counts, as in JavaScript.
fn member<'a>(object: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = object.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    let mut found = None;
    while rest.first() == Some(&b'"') {
        let (key, behind) = rest.split_at_checked(string_end(rest))?;
        let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let (value, behind) = value.split_at_checked(value_end(value))?;
        if key.get(1..key.len().saturating_sub(1)) == Some(name) {
            found = Some(value);
        }
        rest = behind.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or_default().trim_ascii_start();
    }
    found
}

/// The length of the string with which the text begins, its quotes included.
fn string_end(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => (),
        }
    }
    text.len()
}

/// The length of the value with which the text begins.
fn value_end(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_end(text.get(at..).unwrap_or_default());
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => (),
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::Usage;

    fn text(payload: &str) -> String {
        String::from_utf8(usage(payload.as_bytes())).unwrap()
    }

    // N-08: numbers leave as the client wrote them, and nothing else does.
    #[test]
    fn n_08_the_numbers_leave_as_they_were_written() {
        let payload = r#" { "session_id":"s","cwd":"/secret","model": {"id":"claude-opus-5-5","display_name":"Opus 5.5"},
            "workspace":{"added_dirs":["}","\"{"]},"cost":{"total_cost_usd":0.0024000000000000002,"x":[1,{"total_cost_usd":9}]},
            "context_window":{"current_usage":{"used_percentage":3},"context_window_size":1000000,"used_percentage":61.5},
            "rate_limits":{"five_hour":{"used_percentage":42,"resets_at":1795459209},"seven_day":{"used_percentage":17,"resets_at":1795750209}}}"#;
        let expected = r#"{"model":"claude-opus-5-5","model_name":"Opus 5.5","context_percent":61.5,"context_size":1000000,"cost_usd":0.0024000000000000002,"five_hour_percent":42,"five_hour_resets":1795459209,"seven_day_percent":17,"seven_day_resets":1795750209}"#;
        assert_eq!(text(payload), expected);
        assert!(serde_json::from_str::<Usage>(expected).is_ok());
    }

    // N-08: what the client does not say is left out, and what is of another type.
    #[test]
    fn n_08_what_is_missing_or_of_another_type_is_left_out() {
        for (payload, expected) in [
            ("{}", "{}"),
            (r#"{"model":"claude-x","cost":null,"context_window":[]}"#, "{}"),
            (
                r#"{"context_window":{"used_percentage":null,"context_window_size":200000}}"#,
                r#"{"context_size":200000}"#,
            ),
            (r#"{"cost":{"total_cost_usd":"7"},"model":{"id":7}}"#, "{}"),
            (
                r#"{"cost":{"total_cost_usd":1e999},"model":{"id":"\u0041","display_name":"a"}}"#,
                r#"{"model_name":"a"}"#,
            ),
            (r#"{"cost":{"total_cost_usd":2.5e-7}}"#, r#"{"cost_usd":2.5e-7}"#),
            (r#"{"cost":{"total_cost_usd":1},"cost":{"total_cost_usd":2}}"#, r#"{"cost_usd":2}"#),
            (r#"{"cost":{"total_cost_usd":1},"cost":7}"#, "{}"),
        ] {
            assert_eq!(text(payload), expected, "{payload}");
            assert!(serde_json::from_str::<Usage>(expected).is_ok(), "{payload}");
        }
    }

    #[test]
    fn text_that_is_no_object_gives_nothing() {
        for payload in
            ["", "[", "{\"model\"", "{\"model\":", "{\"model\":{\"id\":\"", "{\"a\" 1}", "7"]
        {
            assert_eq!(text(payload), "{}", "{payload}");
        }
    }
}

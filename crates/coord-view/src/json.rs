//! Writes JSON for the socket and the command line, with characters that a reader could not see escaped as
//! `\u` (H-51). Stored JSON is written without this.

use std::io::{self, Write};

use coord_core::is_hidden;
use serde::Serialize;
use serde_json::ser::Formatter;

/// Writes a value as JSON on one line, without a newline at the end.
pub fn to_writer(out: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Visible))
}

/// Serializes a value as [`to_writer`] does, into memory.
pub fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    to_writer(&mut out, value)?;
    Ok(out)
}

/// Escapes hidden characters; everything else is written as serde_json does.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, one)) = rest.char_indices().find(|(_, one)| is_hidden(*one)) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in one.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = from.get(one.len_utf8()..).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_raw_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Outside strings, JSON contains none of these characters.
        self.write_string_fragment(out, fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-51
    #[test]
    fn hidden_characters_are_escaped_and_read_again() {
        let text = "a\u{7f}\u{9b}31m\u{202e}b\u{2028}\u{e0041}\u{e007f}é❯\n\"\\\u{1b}";
        let value = serde_json::json!({ text: [text] });
        let written = String::from_utf8(to_vec(&value).unwrap()).unwrap();
        assert!(!written.chars().any(|one| is_hidden(one) || one.is_control()), "{written:?}");
        let escaped = r"a\u007f\u009b31m\u202eb\u2028\udb40\udc41\udb40\udc7fé❯\n";
        assert!(written.contains(escaped), "{written}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        let raw = serde_json::value::RawValue::from_string(format!("\"{}\"", '\u{202e}')).unwrap();
        assert_eq!(to_vec(&raw).unwrap(), br#""\u202e""#);
    }
}

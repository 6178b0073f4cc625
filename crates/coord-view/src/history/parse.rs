//! Reads a line of history that another machine wrote as JSON (F-03).

use coord_model::stamp::parse_rfc3339;
use coord_model::{NeedId, ProcessRef, Via};
use serde::Deserialize;

use super::{Kind, Line};

/// Longest line that is read, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// Where lines come from.
const SOURCES: [&str; 9] = [
    "hook",
    "process",
    "registry",
    "pane",
    "transcript",
    "task",
    "system",
    "operator",
    "coordinator",
];

/// A line as it is written.
#[derive(Deserialize)]
struct Written {
    seq: u64,
    at: String,
    session_id: Option<String>,
    kind: Kind,
    name: String,
    source: String,
    id: Option<String>,
    via: Option<Via>,
    verified: Option<bool>,
    tool: Option<String>,
    process: Option<ProcessRef>,
    rule: Option<String>,
    #[serde(default)]
    needs: Vec<NeedId>,
    detail: String,
}

impl Line {
    /// Reads a line of JSON as `coord events --json` prints it. Its texts are the writer's, whoever that is. None if it is no such
    /// line, or one of another version of coord.
    pub fn parse(json: &str) -> Option<Self> {
        if BYTES_MAX < json.len() {
            return None;
        }
        let written: Written = serde_json::from_str(json).ok()?;
        parse_rfc3339(&written.at)?;
        let source = SOURCES.into_iter().find(|source| *source == written.source)?;
        Some(Self {
            seq: written.seq,
            at: written.at,
            session_id: written.session_id,
            kind: written.kind,
            name: written.name,
            source,
            id: written.id,
            via: written.via,
            verified: written.verified,
            tool: written.tool,
            process: written.process,
            rule: written.rule,
            needs: written.needs,
            detail: written.detail,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Decision, Event, Record};

    #[test]
    fn a_line_that_was_written_is_read() {
        let session_id = "s".to_owned();
        let decision = Decision {
            session_id,
            rule: "R-01".into(),
            saw: "a stop".to_owned(),
            did: "nothing".to_owned(),
            need: None,
            notice: None,
        };
        let entries = [Event::Decision(decision), Event::Tick, Event::Shutdown { under_way: true }];
        for entry in entries {
            let line = super::super::line(Record { seq: 7, at: 1_000, mono_ns: 0, entry });
            let json = serde_json::to_string(&line).unwrap();
            assert_eq!(Line::parse(&json), Some(line));
            for (from, to) in [
                ("\"source\":\"", "\"source\":\"odd"),
                ("\"kind\":\"", "\"kind\":\"odd"),
                ("1970", "x"),
            ] {
                assert_eq!(Line::parse(&json.replacen(from, to, 1)), None, "{from}");
            }
            let long =
                json.replacen("\"name\":\"", &format!("\"name\":\"{}", "x".repeat(BYTES_MAX)), 1);
            assert_eq!(Line::parse(&long), None);
        }
        assert_eq!(Line::parse("{}"), None);
    }
}

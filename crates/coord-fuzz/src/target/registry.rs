//! An entry of the client's registry: of that process and bounded, or strange; never an error (R-21).

use super::{Target, assert_is_one_line};
use crate::inputs::as_text;
use coord_host::registry::parse;
use coord_model::{Registry, RegistryEntry};
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "registry",
    seeds,
    dictionary: &[
        "\"pid\":7",
        "\"procStart\":\"4711\"",
        "\"sessionId\":\"\"",
        "\"status\":\"busy\"",
        "\"kind\":\"bg\"",
        "\"waitingFor\":\"dialog open\"",
        "\"statusUpdatedAt\":1.5",
        "linux:m:pid:[4026531836]",
    ],
    repair: Some(as_text),
    run,
};

const PID: u32 = 7;
/// The client's ids are UUIDs; the coordinator takes names of events up to this, in bytes.
const SESSION_BYTES_MAX: usize = 256;

fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"pid":7,"sessionId":"253fc9fa-1980-41fd-bb18-330cafa0a480","cwd":"/home/dev/project","startedAt":1772360430456,"procStart":"4711","version":"2.1.0","kind":"interactive","entrypoint":"cli","status":"idle","statusUpdatedAt":1772360431000,"pidDomain":"linux:0123456789abcdef:pid:[4026531836]"}"#,
        r#"{"pid":"7","procStart":4711,"sessionId":"s","status":"waiting","waitingFor":"permission prompt"}"#,
        "{}",
    ]
    .map(Vec::from)
    .to_vec()
}

fn run(input: &[u8]) -> String {
    let found = match parse(input, PID, Path::new("/home/dev/.claude")) {
        Ok(found) => found,
        Err(entry) => {
            let Registry::Strange { why } = *entry else { panic!("{entry:?}") };
            assert_is_one_line(&why, 200);
            return why;
        }
    };
    assert_eq!(found.process.pid, PID);
    let text = serde_json::to_string(&found.entry).expect("an entry is JSON");
    assert_eq!(serde_json::from_str::<Registry>(&text).ok().as_ref(), Some(&found.entry));
    let Registry::Present(entry) = &found.entry else { panic!("{:?}", found.entry) };
    let RegistryEntry { session_id, status, waiting_for, cwd, is_foreign, .. } = entry;
    assert!((1..=SESSION_BYTES_MAX).contains(&session_id.len()), "session {session_id:?}");
    for text in [status.as_deref(), waiting_for.as_deref(), Some(cwd)].into_iter().flatten() {
        assert!(text.chars().count() <= 4096, "a text of {} bytes", text.len());
    }
    format!(
        "present, status {}, waits {}, foreign {is_foreign}, domain {}",
        status.is_some(),
        waiting_for.is_some(),
        found.domain.is_some()
    )
}

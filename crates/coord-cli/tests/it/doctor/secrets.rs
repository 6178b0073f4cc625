//! The report for others has what helps, and no prompt, no secret and no value of the environment.

use super::place::Place;
use coord_tests::coord::Coordinator;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

// G11
#[test]
fn a_bundle_gives_nothing_secret_away_g11() {
    const SECRET: &str = "sk-ant-SECRET-7f3a";
    let place = Place::new();
    place.edit_json(|all| {
        all["env"] = json!({"ANTHROPIC_API_KEY": SECRET});
        all["apiKeyHelper"] = SECRET.into();
        let foreign = json!({"type": "command", "command": format!("curl -H {SECRET}")});
        all["hooks"]["Stop"][0]["hooks"].as_array_mut().unwrap().push(foreign);
    });
    let _coordinator = Coordinator::start(&place.home);
    place.feed(&format!("{{\"prompt\": \"{SECRET}\""), 65);
    let event = json!({
        "session_id": "aaaa1111", "hook_event_name": "UserPromptSubmit", "cwd": format!("/{SECRET}"),
        "prompt": SECRET, "transcript_path": format!("/{SECRET}.jsonl"),
    });
    place.feed(&event.to_string(), 0);
    let log = place.home.paths().logs().join("coord.log");
    let mut log = fs::OpenOptions::new().append(true).open(log).unwrap();
    writeln!(
        log,
        "2026-11-22T03:00:00.000Z ERROR coord_daemon::serve: refused error={SECRET} {SECRET}"
    )
    .unwrap();

    let bundle = place.home.dir().join("report.txt");
    let told = place.doctor(&["--bundle", bundle.to_str().unwrap()]);
    let text = fs::read_to_string(&bundle).unwrap();
    for part in ["SECRET", "7f3a", "ANTHROPIC", "curl"] {
        assert!(!text.contains(part) && !told.stdout.contains(part), "{part}: {text}");
    }
    for part in [
        "== findings",
        "coord-hook-stop",
        "tracking.settle",
        "\"pid\"",
        "serving",
        "refused error=…",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    // A file that is there is not written over.
    let again = place.doctor(&["--bundle", bundle.to_str().unwrap()]);
    assert_eq!(again.code(), Some(1));
    assert!(again.stderr.contains("name a new file"), "{again:?}");
}

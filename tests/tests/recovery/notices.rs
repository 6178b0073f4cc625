//! What a person is told of a session of the real client, and what is taken back (N-01 to N-05).

use coord_tests::fake_api::Turn;
use coord_tests::home::Home;
use coord_tests::place::{MANUAL, Place};
use coord_tests::process::write_program;
use coord_tests::wait::wait_until;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Words of the prompt and of the tool's input: no channel gets them.
const CANARY: &str = "canary_in_a_prompt";

/// A program that appends each notice to a file beside it.
pub(crate) fn recorder(home: &Home) -> (PathBuf, PathBuf) {
    let (program, log) = (home.tmp().join("tell"), home.tmp().join("told"));
    let script = format!("#!/bin/sh\nexec /bin/cat >> {}\n", log.display());
    write_program(&program, &script);
    (program, log)
}

fn told(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

// N-03, N-05: told once, with nothing of the prompt or the tool's input, and taken back once it is answered.
pub(crate) fn a_prompt_is_told_and_taken_back() {
    let command = format!("touch {CANARY}");
    let turns = [Turn::bash(&command), Turn::text("Made it.").lasting()];
    let mut place = Place::open("", turns);
    let (program, log) = recorder(&place.home);
    let config = std::fs::read_to_string(place.home.paths().config_file()).expect("its config");
    let channels = format!(
        "[notice]\ndelays = {{ permission = '1s' }}\n[notice.channel.log]\nvia = 'command'\nprogram = '{}'\n",
        program.display()
    );
    place.home.write_config(&format!("{config}{channels}"));
    wait_until("the channel is known", || {
        let status = place.runs("coord", &["status"]);
        if status.contains("notices: log ok") { Ok(()) } else { Err(status) }
    });
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.prompt(&format!("Make {CANARY}"));
    place.pane.wait_screen("Do you want to proceed?");
    let need = wait_until("the need is told", || {
        let told = told(&log);
        told.first().cloned().ok_or(told)
    });
    assert_eq!((&need["event"], &need["kind"]), (&"need".into(), &"permission".into()));
    assert_eq!(need["session_id"], place.id.as_str());
    assert!(
        need["text"].as_str().is_some_and(|text| text.ends_with(" asks to run Bash")),
        "{need}"
    );
    let id = need["id"].as_str().expect("the need's id").to_owned();
    wait_until("the dialog is answered", || {
        let screen = place.pane.screen();
        if screen.contains("Do you want to proceed?") {
            place.pane.keys(&["Enter"]);
            return Err(screen);
        }
        Ok(())
    });
    place.when_at_rest();
    wait_until("it is taken back", || {
        let told = told(&log);
        if told.len() == 2 { Ok(()) } else { Err(told) }
    });
    let back = &told(&log)[1];
    assert_eq!((&back["event"], &back["id"]), (&"withdrawn".into(), &id.as_str().into()));
    assert!(!std::fs::read_to_string(&log).expect("the log").contains(CANARY));
    let explained = place.runs("coord", &["explain", &id]);
    for words in ["send a notice through log", "withdraw the notice from log", ": sent: "] {
        assert!(explained.contains(words), "{explained}");
    }
}

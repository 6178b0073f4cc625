//! A run whose loop was killed: what its file says goes on.

use coord_core::LoopEnd;
use coord_loop::{HANDOFF, STATUS, run_loop};
use coord_wire::run::{Run, RunBegin, RunEnded, RunShown};

use super::{AGENTS, Doing, Place, says};

/// A loop that is killed in its first run, in which this word was written; that run's id.
fn killed_after(place: &Place, word: &'static str) -> String {
    let run: Doing = Box::new(move |dir| {
        std::fs::write(dir.join(STATUS), word).unwrap();
        panic!("killed")
    });
    let mut script = place.script([run]);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(run_loop(&place.spec, &mut script));
    }));
    assert!(killed.is_err());
    script.ran[0].id.clone().unwrap()
}

/// What the file of a run says that came to this, or that nobody saw the end of.
fn file_of(id: &str, outcome: Option<&str>) -> Run {
    let process = coord_model::ProcessRef { pid: 1, start_time: 1 };
    Run {
        begin: RunBegin {
            v: 1,
            run_id: id.into(),
            at: "2026-01-01T00:00:00.000Z".into(),
            name: None,
            program: "a".into(),
            provider: "other".into(),
            cwd: "/".into(),
            process: Some(process),
            supervisor: process,
        },
        shown: RunShown { session_id: Some("s1234567".into()), ..RunShown::default() },
        supervised: false,
        exit: outcome.map(|outcome| RunEnded {
            at: "2026-01-01T00:00:05.000Z".into(),
            reason: "exited".into(),
            status: "exit code 0".into(),
            outcome: outcome.into(),
            because: "output".into(),
            resets_at: None,
            stdout_bytes: 1,
            stderr_bytes: 0,
            took_ms: 5_000,
            left: Vec::new(),
        }),
    }
}

// S2-12: the run that a killed loop left is known by its file.
#[test]
fn the_file_of_a_left_run_is_found() {
    let place = Place::of(AGENTS);
    let id = killed_after(&place, "");
    let mut script = place.script([says("done")]);
    script.left_run = Some(file_of(&id, None));
    place.plays(&mut script, LoopEnd::Done);
    assert_eq!(script.began(), ["2 b"]);
    assert!(script.prompt(0).contains("the loop itself was interrupted"), "{}", script.prompt(0));
    let line = place.history().remove(0);
    assert_eq!((line.run_id, line.outcome.as_str()), (Some(id), "unknown"));
    assert_eq!(line.started.as_deref(), Some("2026-01-01T00:00:00.000Z"));
    assert_eq!(line.session_id.as_deref(), Some("s1234567"));
}

// S2-07, S2-12: a run that ended before its loop was killed came to what its file says.
#[test]
fn a_left_run_that_ended_is_no_crash() {
    let place = Place::of(AGENTS);
    let id = killed_after(&place, "rotate");
    let mut script = place.script([says("done")]);
    script.left_run = Some(file_of(&id, Some("done")));
    place.plays(&mut script, LoopEnd::Done);
    assert_eq!(script.began(), ["2 b"]);
    assert!(!script.prompt(0).contains("crashed"), "{}", script.prompt(0));
    let line = place.history().remove(0);
    assert_eq!((line.run_id, line.outcome.as_str()), (Some(id), "done"));
    assert_eq!((line.status.as_deref(), line.took_ms), (Some("rotate"), Some(5_000)));
    let handoff = std::fs::read_to_string(place.file(HANDOFF)).unwrap_or_default();
    assert!(!handoff.contains("## Crash"), "{handoff}");
}

// S2-20: the task that its last run did is not begun anew.
#[test]
fn a_left_run_that_did_the_task_ends_the_loop() {
    let place = Place::of(AGENTS);
    let id = killed_after(&place, "done");
    let mut script = place.script([]);
    script.left_run = Some(file_of(&id, Some("done")));
    place.plays(&mut script, LoopEnd::Done);
    assert!(script.began().is_empty(), "{:?}", script.notes);
}

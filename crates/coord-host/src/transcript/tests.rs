//! Tests the reader with transcripts of the real client, and with files that are none.

use std::fs::{OpenOptions, write};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, mknodat};
use tempfile::TempDir;

use super::*;

/// A configuration directory, and the path of a session's transcript in it.
fn home() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("projects/p")).unwrap();
    let path = dir.path().join("projects/p/s.jsonl");
    (dir, path)
}

const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";

fn wish(config_dir: &Path, path: &Path) -> TranscriptWish {
    TranscriptWish {
        process: ProcessRef { pid: 7, start_time: 1 },
        path: path.to_str().unwrap().to_owned(),
        config_dir: config_dir.to_str().unwrap().to_owned(),
        signature: Some(SIGNATURE.to_owned()),
    }
}

fn tail(config_dir: &Path, path: &Path) -> Result<Tail, String> {
    read(&Readable::default(), &wish(config_dir, path))
}

/// Reads the end of a transcript with this text.
fn tail_of(text: &[u8]) -> Tail {
    let (dir, path) = home();
    write(&path, text).unwrap();
    tail(dir.path(), &path).unwrap()
}

fn fixture(name: &str) -> Vec<u8> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts");
    std::fs::read(place.join(name)).unwrap()
}

fn line(kind: &str, content: &str) -> String {
    format!(
        r#"{{"type":"{kind}","message":{{"content":{content}}},"timestamp":"2026-01-02T03:04:05.678Z"}}"#
    ) + "\n"
}

const ANSWER: &str = r#"[{"type":"text","text":"hello"}]"#;
const INTERRUPT: &str = r#"[{"type":"text","text":"[Request interrupted by user]"}]"#;
const RESULT: &str = r#"[{"type":"tool_result","content":"x"}]"#;
const AT_MS: u64 = 1_767_323_045_678;

// R-01: transcripts that the real client wrote.
#[test]
fn an_interrupt_counts_while_it_is_the_newest_word() {
    for (name, at) in [
        ("interrupted_tool", Some("2026-11-22T02:05:35.561Z")),
        ("interrupted_stream", Some("2026-11-22T02:05:46.080Z")),
        ("refused", Some("2026-11-22T02:05:50.852Z")),
        ("after_interrupt", None),
        ("permission_open", None),
        ("shell_command", None),
        ("subagent", None),
        ("subagent_own", None),
        // Esc with a message in the queue: the turn of that message is already running.
        ("queued_goes_on", None),
    ] {
        let tail = tail_of(&fixture(&format!("{name}.jsonl")));
        assert_eq!(tail.interrupted_ms, at.and_then(parse_rfc3339), "{name}");
    }
}

#[test]
fn only_the_clients_own_mark_is_an_interrupt() {
    let answer = line("assistant", ANSWER);
    for (after, interrupted) in [
        (line("user", INTERRUPT), true),
        (line("user", RESULT) + &line("user", INTERRUPT), true),
        (line("user", INTERRUPT) + &line("system", "0"), true),
        // Of two calls at once, one result may be written after it.
        (line("user", RESULT) + &line("user", INTERRUPT) + &line("user", RESULT), true),
        (line("user", INTERRUPT) + &line("user", r#""go on""#), false),
        (line("user", INTERRUPT) + &line("assistant", ANSWER), false),
        (line("user", r#""typed""#) + &line("user", INTERRUPT), false),
        (line("user", r#""[Request interrupted by user]""#), false),
        (
            line("user", r#"[{"type":"tool_result","content":"[Request interrupted by user]"}]"#),
            false,
        ),
        (line("assistant", INTERRUPT), false),
        (line("user", INTERRUPT) + "not understood\n", false),
        (line("user", INTERRUPT).replace("2026-", "x"), false),
    ] {
        let tail = tail_of((answer.clone() + &after).as_bytes());
        assert_eq!(tail.interrupted_ms, interrupted.then_some(AT_MS), "{after}");
    }
    assert_eq!(tail_of(line("user", INTERRUPT).as_bytes()).interrupted_ms, None, "of what?");
    assert_eq!(tail_of(b"").interrupted_ms, None);
}

#[test]
fn a_subagents_lines_say_nothing_of_the_main_thread() {
    let aside = |text: String| text.replace(r#"{"type""#, r#"{"isSidechain":true,"type""#);
    let answered = line("assistant", ANSWER);
    let main = answered.clone() + &line("user", INTERRUPT);
    assert!(tail_of((main + &aside(answered.clone())).as_bytes()).interrupted_ms.is_some());
    let other = answered + &aside(line("user", INTERRUPT));
    assert_eq!(tail_of(other.as_bytes()).interrupted_ms, None);
}

// An incomplete line does not count yet.
#[test]
fn the_last_line_counts_when_it_is_complete() {
    let text = line("assistant", ANSWER) + &line("user", INTERRUPT);
    let cut = text.strip_suffix('\n').unwrap();
    let (dir, path) = home();
    write(&path, cut).unwrap();
    assert_eq!(tail(dir.path(), &path).unwrap().interrupted_ms, None);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\n").unwrap();
    assert_eq!(tail(dir.path(), &path).unwrap().interrupted_ms, Some(AT_MS));
}

// H-27: only the end is read, whatever the length of the lines.
#[test]
fn of_a_long_transcript_the_end_is_read() {
    let huge = format!("\"{}\"", "é".repeat(usize::try_from(END_BYTES).unwrap()));
    let ending = line("assistant", ANSWER) + &line("user", INTERRUPT);
    let text = line("user", &huge) + &ending;
    assert_eq!(tail_of(text.as_bytes()).interrupted_ms, Some(AT_MS));
    let text = ending + &line("user", &huge);
    assert_eq!(tail_of(text.as_bytes()).interrupted_ms, None);
}

// S0-29
#[test]
fn a_signature_that_is_content_is_found() {
    let text = line(
        "assistant",
        r#"[{"type":"text","text":"RangeError: Maximum call stack size exceeded, I read"}]"#,
    );
    assert!(tail_of(text.as_bytes()).has_signature);
    assert!(!tail_of(line("assistant", ANSWER).as_bytes()).has_signature);
    let (dir, path) = home();
    write(&path, text).unwrap();
    let other = TranscriptWish { signature: Some("other".to_owned()), ..wish(dir.path(), &path) };
    let tail = read(&Readable::default(), &other).unwrap();
    assert!(!tail.has_signature);
}

// H-27: a FIFO does not block, no link is followed, and nothing elsewhere is read.
#[test]
fn only_a_file_of_ours_below_the_projects_is_read() {
    let (dir, path) = home();
    let place = dir.path();
    let refused = |path: &Path| tail(place, path).unwrap_err();
    assert!(refused(&path).contains("No such file"));

    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(refused(&path).contains("is no file of ours"));
    let outside = place.join("s.jsonl");
    write(&outside, "").unwrap();
    let link = place.join("projects/p/link.jsonl");
    symlink(&outside, &link).unwrap();
    assert!(!refused(&link).is_empty());
    symlink("p", place.join("projects/linked")).unwrap();
    write(place.join("projects/p/t.jsonl"), "").unwrap();
    assert!(tail(place, &place.join("projects/p/t.jsonl")).is_ok());
    assert!(!refused(&place.join("projects/linked/t.jsonl")).is_empty());

    for path in [
        outside.as_path(),
        &place.join("projects/../s.jsonl"),
        &place.join("projects"),
        place,
        Path::new("projects/p/t.jsonl"),
        Path::new("/dev/zero"),
    ] {
        assert!(!refused(path).is_empty(), "{}", path.display());
    }
}

// H-14
#[test]
fn with_a_root_only_transcripts_below_it_are_read() {
    let (dir, path) = home();
    write(&path, "").unwrap();
    let readable = Readable { root: Some("/elsewhere".into()), named: Vec::new() };
    let why = read(&readable, &wish(dir.path(), &path)).unwrap_err();
    assert!(why.contains("outside COORD_HOME"), "{why}");
}

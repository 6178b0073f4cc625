//! Locks transcripts (H-13), and determines whether there is anything to resume (H-36).
//!
//! A lock is an exclusive `flock`, taken without waiting and held until it is released. It does not hinder
//! the client (measured); it excludes others that would recover the same session.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coord_model::{Subject, TranscriptState};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Deserialize;

use crate::registry::Readable;
use crate::transcript;

/// Bytes from the start of a transcript in which a turn is looked for: it is near the beginning.
const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The locked transcripts, by session.
#[derive(Debug, Default)]
pub struct Transcripts(BTreeMap<String, Locked>);

/// A file that is locked until this value is dropped.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Unlocked explicitly: a child that is just being started also has the file until it executes its
        // program.
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::debug!(%error, "transcript not unlocked");
        }
    }
}

impl Transcripts {
    /// Checks a transcript, and locks it if it has a turn. A lock that is already held is kept if the file is
    /// still the same.
    pub(super) fn look(&mut self, readable: &Readable, subject: &Subject) -> TranscriptState {
        let session_id = &subject.session_id;
        let held = self.0.remove(session_id);
        let (config_dir, path) = (&subject.config_dir, &subject.transcript_path);
        let file = match transcript::open(readable, Path::new(config_dir), Path::new(path)) {
            Ok(file) => file,
            Err(why) => {
                tracing::debug!(path, why, "transcript");
                return TranscriptState::Absent;
            }
        };
        if let Some(held) = held.filter(|held| is_same(&held.0, &file)) {
            self.0.insert(session_id.clone(), held);
            return TranscriptState::Held;
        }
        match has_turn(&file, session_id) {
            Ok(true) => (),
            Ok(false) => return TranscriptState::Empty,
            Err(error) => {
                tracing::debug!(path, %error, "transcript");
                return TranscriptState::Absent;
            }
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.0.insert(session_id.clone(), Locked(file));
                TranscriptState::Held
            }
            Err(Errno::WOULDBLOCK) => TranscriptState::Locked,
            Err(error) => {
                tracing::debug!(path, %error, "transcript not locked");
                TranscriptState::Absent
            }
        }
    }

    /// Releases the lock on a session's transcript.
    pub(super) fn release(&mut self, session_id: &str) {
        self.0.remove(session_id);
    }
}

fn is_same(one: &File, other: &File) -> bool {
    let id = |file: &File| file.metadata().map(|file| (file.dev(), file.ino())).ok();
    id(one).is_some() && id(one) == id(other)
}

/// The fields of a line that are read.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
    #[serde(rename = "isMeta", default)]
    is_meta: bool,
    message: Option<Message>,
}

/// The message in a line of a conversation.
#[derive(Deserialize)]
struct Message {
    content: Option<serde_json::Value>,
}

/// The texts that the client writes into the conversation that `/clear` begins: the command, and its output.
const OF_CLEAR: [&str; 3] =
    ["<command-name>/clear</command-name>", "<local-command-caveat>", "<local-command-stdout>"];

impl Line {
    /// Whether a line is an entry of the agent, or the user's own.
    fn is_turn(&self) -> bool {
        match self.kind.as_deref() {
            Some("assistant") => true,
            Some("user") => {
                let content = self.message.as_ref().and_then(|message| message.content.as_ref());
                let text = content.and_then(serde_json::Value::as_str).unwrap_or_default();
                !self.is_meta && !OF_CLEAR.iter().any(|begin| text.trim_start().starts_with(begin))
            }
            Some(_) | None => false,
        }
    }
}

/// Whether the transcript has an entry of the user or the agent, for this session.
fn has_turn(mut file: &File, session_id: &str) -> std::io::Result<bool> {
    file.rewind()?;
    let mut lines = BufReader::new(file.take(READ_BYTES_MAX));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        // A line that is not understood is ignored.
        let Ok(line) = serde_json::from_slice::<Line>(&line) else { continue };
        if line.is_turn() && line.session_id.as_deref() == Some(session_id) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::{Place, ProcessRef};

    fn subject(dir: &Path) -> Subject {
        Subject {
            any_server: false,
            session_id: "s1".to_owned(),
            harness: ProcessRef { pid: 0, start_time: 0 },
            lives: false,
            config_dir: dir.to_str().unwrap().to_owned(),
            transcript_path: dir.join("projects/p/s1.jsonl").to_str().unwrap().to_owned(),
            pane: None,
            cwd: Place::default(),
            program: String::new(),
            typed: None,
            task_dir: None,
            reads_last_words: false,
        }
    }

    const TURN: &str = r#"{"type":"user","message":{"role":"user"},"sessionId":"s1"}"#;

    // H-36
    #[test]
    fn only_a_transcript_with_a_turn_of_this_session_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let subject = subject(dir.path());
        let look = || Transcripts::default().look(&Readable::default(), &subject);
        assert_eq!(look(), TranscriptState::Absent);
        std::fs::create_dir_all(dir.path().join("projects/p")).unwrap();
        let write = |text: &str| std::fs::write(&subject.transcript_path, text).unwrap();
        for text in [
            "",
            "{\"type\":\"summary\",\"sessionId\":\"s1\"}\n",
            "{\"type\":\"user\",\"sessionId\":\"s2\"}\n",
            "{\"type\":\"system\",\"content\":\"\\\"type\\\":\\\"user\\\"\",\"sessionId\":\"s1\"}\n",
            "not JSON\n",
        ] {
            write(text);
            assert_eq!(look(), TranscriptState::Empty, "{text}");
        }
        write(&format!("{{}}\nnot JSON\n{TURN}\n"));
        assert_eq!(look(), TranscriptState::Held);
    }

    // H-36: what `/clear` writes into the conversation that it begins is no turn.
    #[test]
    fn a_conversation_in_which_only_a_clear_stands_is_empty() {
        const CAVEAT: &str = r#"{"type":"user","isMeta":true,"message":{"role":"user","content":"<local-command-caveat>Caveat: these were typed by the user.</local-command-caveat>"},"sessionId":"s1"}"#;
        const CLEAR: &str = r#"{"type":"user","message":{"role":"user","content":"<command-name>/clear</command-name>\n            <command-message>clear</command-message>\n            <command-args></command-args>"},"sessionId":"s1"}"#;
        const PRINTED: &str = r#"{"type":"user","message":{"role":"user","content":"<local-command-stdout></local-command-stdout>"},"sessionId":"s1"}"#;
        const COMMAND: &str = r#"{"type":"user","message":{"role":"user","content":"<command-name>/review</command-name>"},"sessionId":"s1"}"#;
        let dir = tempfile::tempdir().unwrap();
        let subject = subject(dir.path());
        std::fs::create_dir_all(dir.path().join("projects/p")).unwrap();
        let of = |lines: &[&str]| {
            std::fs::write(&subject.transcript_path, lines.join("\n") + "\n").unwrap();
            Transcripts::default().look(&Readable::default(), &subject)
        };
        assert_eq!(of(&[CAVEAT, CLEAR, PRINTED]), TranscriptState::Empty);
        assert_eq!(of(&[CAVEAT, CLEAR, PRINTED, TURN]), TranscriptState::Held);
        assert_eq!(of(&[CLEAR, COMMAND]), TranscriptState::Held, "a command of its user's own");
    }

    // H-27
    #[test]
    fn only_a_file_of_ours_below_the_configuration_directory_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("projects/p")).unwrap();
        let mut subject = subject(dir.path());
        let elsewhere = dir.path().join("s1.jsonl");
        std::fs::write(&elsewhere, TURN).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &subject.transcript_path).unwrap();
        let look = |subject: &Subject| Transcripts::default().look(&Readable::default(), subject);
        assert_eq!(look(&subject), TranscriptState::Absent);
        subject.transcript_path = elsewhere.to_str().unwrap().to_owned();
        assert_eq!(look(&subject), TranscriptState::Absent);
    }

    // H-13
    #[test]
    fn a_lock_is_kept_until_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let subject = subject(dir.path());
        std::fs::create_dir_all(dir.path().join("projects/p")).unwrap();
        std::fs::write(&subject.transcript_path, TURN).unwrap();
        let readable = Readable::default();
        let (mut one, mut other) = (Transcripts::default(), Transcripts::default());
        assert_eq!(one.look(&readable, &subject), TranscriptState::Held);
        assert_eq!(one.look(&readable, &subject), TranscriptState::Held);
        assert_eq!(other.look(&readable, &subject), TranscriptState::Locked);
        one.release("s1");
        assert_eq!(other.look(&readable, &subject), TranscriptState::Held);
        assert_eq!(one.look(&readable, &subject), TranscriptState::Locked);

        // Another file with the same path is another transcript.
        std::fs::remove_file(&subject.transcript_path).unwrap();
        std::fs::write(&subject.transcript_path, TURN).unwrap();
        assert_eq!(one.look(&readable, &subject), TranscriptState::Held);
        assert_eq!(other.look(&readable, &subject), TranscriptState::Locked);
    }
}

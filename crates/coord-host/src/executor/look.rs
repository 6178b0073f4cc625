//! Takes one fresh look at everything that an act depends on (G4).
//!
//! What changes fastest is read last: the pane, and the foreground process of its terminal.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coord_model::{LastWords, PaneState, Place, Proof, Registry, RegistryStatus, Subject};
use coord_store::clock::{Clock, RealClock};
use rustix::fs::{Access, access};
use rustix::rand::{GetRandomFlags, getrandom};

use super::pane::{self, Spot, is_plain};
use super::processes::Table;
use super::{Tools, main_thread};
use crate::transcript::{self, TranscriptWish};
use crate::{process, registry, room, task_dir};

/// What a look found, and where to act.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) proof: Proof,
    /// The session's pane, if it is still the same one.
    pub(super) spot: Option<Spot>,
    /// The session for a new window.
    pub(super) session: Option<String>,
    /// The process table at that moment.
    pub(super) table: Table,
}

impl Tools {
    /// Takes a look, and locks the transcript if it has a turn.
    pub(super) fn look(&mut self, subject: &Subject) -> Look {
        self.look_since(subject, &Table::default())
    }

    /// Takes another look that reads only the processes that are new since `before`: on a machine with a
    /// thousand processes, reading all takes longer than a signal may wait.
    pub(super) fn look_since(&mut self, subject: &Subject, before: &Table) -> Look {
        let looked_ns = RealClock.mono_ns();
        let harness = subject.harness;
        let was_alive = process::is_alive(harness);
        let transcript = self.transcripts.look(&self.readable, subject);
        let mut table = Table::read_since(before);
        let except = [subject.harness];
        let (session_id, config_dir) = (&subject.session_id, &subject.config_dir);
        let owners = table.owners(session_id, config_dir, &self.readable, &except);
        let children = if was_alive {
            table.on_terminal(subject.harness)
        } else {
            table.left_by(subject.harness, session_id)
        };
        let nonce = nonce();
        let idle_since_ms = self.idle_since_ms(subject);
        let ran_ns = main_thread::ran_ns(harness);
        let found = pane::look(&mut self.asker, subject, &table);
        let proof = Proof {
            looked_ns,
            is_alive: process::is_alive(harness),
            idle_since_ms,
            ran_ns,
            owners,
            children,
            pane: self.without_content(subject, found.state),
            key_ms: found.key_ms,
            any_key_ms: found.any_key_ms,
            is_in_mode: found.is_in_mode,
            is_synchronized: found.is_synchronized,
            transcript,
            has_cwd: is_place(&subject.cwd),
            has_program: is_program(Path::new(&subject.program)),
            want: room::want(&self.state_dir, room::MEMORY_MB_MIN),
            is_line_plain: self.line(&nonce).is_some(),
            nonce,
            is_task_stopped: subject.task_dir.as_deref().is_some_and(task_dir::is_stopped),
            last_words: self.last_words(subject),
        };
        Look { proof, spot: found.spot, session: found.session, table }
    }

    /// How the conversation ends, if the subject asks for it.
    fn last_words(&self, subject: &Subject) -> Option<LastWords> {
        subject.reads_last_words.then_some(())?;
        let wish = transcript_of(subject, None);
        transcript::read(&self.readable, &wish).ok().map(|tail| tail.last_words)
    }

    /// H-07: removes a crash signature whose text is part of the conversation, or that cannot be checked
    /// because the transcript is unreadable.
    fn without_content(&self, subject: &Subject, mut pane: PaneState) -> PaneState {
        let (PaneState::Client { signature, .. } | PaneState::Shell { signature, .. }) = &mut pane
        else {
            return pane;
        };
        if signature.is_some() {
            let wish = transcript_of(subject, signature.clone());
            let tail = transcript::read(&self.readable, &wish);
            if tail.is_ok_and(|tail| !tail.has_signature) {
                return pane;
            }
            *signature = None;
        }
        pane
    }

    /// Since when the harness's registry entry says that this session is idle, in milliseconds since 1970.
    fn idle_since_ms(&self, subject: &Subject) -> Option<u64> {
        let process = subject.harness;
        let entry = registry::read(&self.readable, Path::new(&subject.config_dir), process);
        let Registry::Present(entry) = entry else { return None };
        let is_idle = entry.known_status() == Some(RegistryStatus::Idle);
        // An entry without that time is no proof of thirty seconds.
        let since_ms = Some(entry.changed_ms).filter(|changed_ms| *changed_ms != 0);
        since_ms.filter(|_| is_idle && entry.session_id == subject.session_id)
    }

    /// The line that is typed into a shell, if it consists of plain characters only (H-18).
    pub(super) fn line(&self, nonce: &str) -> Option<String> {
        let is_nonce = nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_path = |path: &str| Path::new(path).is_absolute() && is_plain(path);
        let is_line = is_path(&self.coordctl) && self.root.as_deref().is_none_or(is_path);
        let root = self.root.as_ref().map_or_else(String::new, |root| format!(" --root {root}"));
        (is_nonce && is_line).then(|| format!("{}{root} resume-exec {nonce}", self.coordctl))
    }
}

fn transcript_of(subject: &Subject, signature: Option<String>) -> TranscriptWish {
    TranscriptWish {
        process: subject.harness,
        path: subject.transcript_path.clone(),
        config_dir: subject.config_dir.clone(),
        signature,
    }
}

/// 128 random bits in hexadecimal. Empty without randomness, so that no line is built with it.
fn nonce() -> String {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(n) if n == bytes.len() => bytes.iter().fold(String::new(), |mut nonce, byte| {
            let _ = write!(nonce, "{byte:02x}");
            nonce
        }),
        Ok(_) | Err(_) => String::new(),
    }
}

fn is_place(place: &Place) -> bool {
    let is_it = |dir: std::fs::Metadata| {
        let is_device = place.device == 0 || dir.dev() == place.device;
        dir.is_dir() && is_device && dir.ino() == place.inode
    };
    std::fs::metadata(&place.path).is_ok_and(is_it)
}

fn is_program(file: &Path) -> bool {
    file.is_absolute() && file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

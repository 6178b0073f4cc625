//! Adds up the tokens that a session has used, from its transcript and those of its subagents.
//!
//! This module decides nothing. The files are read from where the last read ended, in bounded pieces (H-27), and
//! nothing of their texts is kept (G11). The format is undocumented: a line that is not understood counts nothing.
//!
//! The client writes one entry for each block of an answer, all with the same message id, and a resumed or forked
//! session has entries of earlier processes in its file. So each id counts once, with the largest numbers that any of
//! its entries has. A fork begins with a copy of another session's entries. They were paid by that session and are
//! not counted here: a newer client marks them, and for older ones the time of the fork tells ([`Tokens::forked_at`]).
//!
//! Subagents write `SESSION/subagents/agent-ID.jsonl` beside `SESSION.jsonl`, or a directory further down.

mod files;
mod line;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use coord_model::TokenCounts;
use siphasher::sip::SipHasher13;

use crate::registry::Readable;
use files::{Found, Position};
use line::{Line, Lines};

/// Most answers that are told apart. Those beyond are not counted, and the counts are "at least".
const ANSWERS_MAX: usize = 200_000;

/// What was read of one session's transcripts, and the counts so far.
#[derive(Debug)]
pub struct Tokens {
    config_dir: PathBuf,
    path: PathBuf,
    /// The id of the session, which its transcript is named for.
    session_id: String,
    forked_ms: Option<u64>,
    files: BTreeMap<PathBuf, Position>,
    /// What was counted of each answer, by the digest of its id.
    answers: BTreeMap<u64, Counted>,
    counts: TokenCounts,
    /// Whether an answer was not counted because there were too many.
    is_full: bool,
}

/// Input, cache creation, cache read, output.
type Counted = [u32; 4];

impl Tokens {
    /// Nothing read yet of the transcript at `path`, which must be below `config_dir`.
    pub fn new(config_dir: &Path, path: &Path) -> Self {
        let session_id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self {
            config_dir: config_dir.to_owned(),
            path: path.to_owned(),
            session_id,
            forked_ms: None,
            files: BTreeMap::new(),
            answers: BTreeMap::new(),
            counts: TokenCounts::default(),
            is_full: false,
        }
    }

    /// The session is a fork, made at this time, in milliseconds since 1970: what the client wrote before belongs to
    /// another session. Older clients (such as 2.1.250) do not mark the copied entries.
    #[must_use]
    pub fn forked_at(self, ms: u64) -> Self {
        Self { forked_ms: Some(ms), ..self }
    }

    /// The counts so far.
    pub fn counts(&self) -> &TokenCounts {
        &self.counts
    }

    /// Reads what is new, `bytes_max` bytes or a little more. Returns whether everything was read.
    ///
    /// # Errors
    /// The session's own transcript cannot be read. A file of a subagent that cannot be read makes the counts
    /// partial.
    pub fn read(&mut self, readable: &Readable, bytes_max: u64) -> Result<bool, String> {
        let own = files::open_own(readable, &self.config_dir, &self.path)?;
        let Found { files, mut is_whole } =
            files::of_subagents(readable, &self.config_dir, &self.path);
        self.files.retain(|path, _| *path == self.path || files.contains_key(path));
        let mut lines = Lines::new();
        let mut left = bytes_max.max(files::BYTES_MIN);
        let mut is_at_end = self.read_file(&own, &self.path.clone(), &mut lines, &mut left)?;
        for (path, stamp) in files {
            if self.files.get(&path).is_some_and(|position| position.is_at(&stamp)) {
                continue;
            }
            let read = files::open_own(readable, &self.config_dir, &path)
                .and_then(|file| self.read_file(&file, &path, &mut lines, &mut left));
            match read {
                Ok(is_read) => is_at_end &= is_read,
                Err(why) => {
                    tracing::debug!(why, "transcript of a subagent");
                    is_whole = false;
                }
            }
        }
        self.counts.is_partial = self.is_full || !is_at_end || !is_whole;
        Ok(is_at_end)
    }

    /// Reads what is new of one file. Returns whether all of it was read.
    fn read_file(
        &mut self,
        file: &File,
        path: &Path,
        lines: &mut Lines,
        left: &mut u64,
    ) -> Result<bool, String> {
        if *left == 0 {
            return Ok(false);
        }
        let is_own = path == self.path;
        let mut position = self.files.remove(path).unwrap_or_default();
        let read = position.read(file, left, &mut |text| {
            if let Some(line) = lines.parse(text) {
                self.take(&line, is_own);
            }
        });
        self.files.insert(path.to_owned(), position);
        read.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn take(&mut self, line: &Line, is_own: bool) {
        match line {
            Line::Answer(answer) => {
                let is_main = is_own && !answer.is_sidechain;
                if is_main {
                    self.counts.context = Some(answer.context());
                    self.counts.model.clone_from(&answer.model);
                }
                if !self.is_copied(answer) {
                    self.count(answer, is_main);
                }
            }
            Line::Compaction if is_own => self.counts.context = None,
            Line::Cost(cost) if is_own => self.counts.cost_usd = Some(*cost),
            Line::Compaction | Line::Cost(_) => (),
        }
    }

    /// Whether an entry belongs to the session that this one was forked from.
    fn is_copied(&self, answer: &line::Answer) -> bool {
        let of_other = answer.request_session.as_ref().is_some_and(|id| *id != self.session_id);
        let is_before = || {
            let (Some(forked_ms), Some(at_ms)) = (self.forked_ms, answer.at_ms) else {
                return false;
            };
            at_ms < forked_ms
        };
        answer.is_forked || of_other || is_before()
    }

    fn count(&mut self, answer: &line::Answer, is_main: bool) {
        let is_full = ANSWERS_MAX <= self.answers.len();
        let key = digest(&answer.id);
        let before = self.answers.get(&key).copied();
        if before.is_none() && is_full {
            self.is_full = true;
            return;
        }
        let counts = &mut self.counts;
        if before.is_none() {
            counts.n_messages += 1;
            counts.n_subagent_messages += u64::from(!is_main);
        }
        let mut counted = before.unwrap_or_default();
        let sums = [
            &mut counts.input,
            &mut counts.cache_creation,
            &mut counts.cache_read,
            &mut counts.output,
        ];
        for ((sum, counted), new) in sums.into_iter().zip(&mut counted).zip(answer.tokens) {
            let new = u32::try_from(new).unwrap_or(u32::MAX);
            *sum = sum.saturating_add(u64::from(new.saturating_sub(*counted)));
            *counted = new.max(*counted);
        }
        self.answers.insert(key, counted);
    }
}

fn digest(id: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;

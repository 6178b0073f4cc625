//! Watches the transcripts of sessions in doubt with inotify, without polling. Reports whose transcripts may
//! have changed; they are read elsewhere.
//!
//! A missing file is not watched: the caller has to request it again.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use coord_model::ProcessRef;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
};
use rustix::io::Errno;

/// The watched transcripts.
#[derive(Debug)]
pub struct TranscriptWatch {
    fd: OwnedFd,
    /// The watch of each process's transcript. Two processes may write the same file (H-13).
    watches: BTreeMap<ProcessRef, i32>,
}

impl TranscriptWatch {
    /// Creates a watch without transcripts.
    pub fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { fd, watches: BTreeMap::new() })
    }

    /// The descriptor, which becomes readable when a transcript changed.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Watches this transcript for the process, in place of any other. Returns whether the file exists and
    /// was not watched before, so that it has not been read yet.
    pub fn add(&mut self, process: ProcessRef, path: &Path) -> bool {
        let flags = WatchFlags::MODIFY
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::DONT_FOLLOW;
        let watch = add_watch(&self.fd, path, flags).ok();
        let is_same = self.watches.get(&process).copied() == watch;
        if !is_same {
            self.remove(process);
        }
        self.watches.extend(watch.map(|watch| (process, watch)));
        watch.is_some() && !is_same
    }

    /// Stops watching the process's transcript.
    pub fn remove(&mut self, process: ProcessRef) {
        if let Some(watch) = self.watches.remove(&process)
            && !self.watches.values().any(|other| *other == watch)
        {
            // If the file is gone, the watch is gone already.
            let _ = remove_watch(&self.fd, watch);
        }
    }

    /// The processes whose transcripts may have changed since the last call.
    pub fn take(&mut self) -> Vec<ProcessRef> {
        let mut changed = Vec::new();
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            let (watch, flags) = match reader.next() {
                Ok(event) => (event.wd(), event.events()),
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let is_any = flags.contains(ReadFlags::QUEUE_OVERFLOW);
            let of = self.watches.iter().filter(|(_, other)| is_any || **other == watch);
            changed.extend(of.map(|(process, _)| *process));
            if flags.contains(ReadFlags::IGNORED) {
                self.watches.retain(|_, other| *other != watch);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;

    const ONE: ProcessRef = ProcessRef { pid: 7, start_time: 1 };
    const OTHER: ProcessRef = ProcessRef { pid: 8, start_time: 1 };

    fn append(path: &Path) {
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"x\n").unwrap();
    }

    //
    #[test]
    fn what_is_appended_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let mut watch = TranscriptWatch::new().unwrap();
        assert!(!watch.add(ONE, &path), "not there yet");
        std::fs::write(&path, "").unwrap();
        assert!(watch.add(ONE, &path) && watch.add(OTHER, &path));
        append(&path);
        append(&path);
        assert_eq!(watch.take(), [ONE, OTHER]);
        assert_eq!(watch.take(), []);
        watch.remove(ONE);
        append(&path);
        assert_eq!(watch.take(), [OTHER]);
        watch.remove(OTHER);
        append(&path);
        assert_eq!(watch.take(), []);
    }

    #[test]
    fn a_process_has_one_transcript_and_may_get_another() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old.jsonl"), dir.path().join("new.jsonl"));
        std::fs::write(&old, "").unwrap();
        std::fs::write(&new, "").unwrap();
        let mut watch = TranscriptWatch::new().unwrap();
        watch.add(ONE, &old);
        watch.add(ONE, &new);
        watch.take();
        append(&old);
        assert_eq!(watch.take(), []);
        append(&new);
        assert_eq!(watch.take(), [ONE]);
        std::fs::remove_file(&new).unwrap();
        assert_eq!(watch.take(), [ONE]);
        std::fs::write(&new, "").unwrap();
        assert!(watch.add(ONE, &new), "a new file at the same place");
        append(&new);
        assert_eq!(watch.take(), [ONE]);
    }
}

//! Waits for news in the journal, by inotify on its files: with or without a coordinator, and without
//! asking again and again. States also change by time alone, so a wait ends after a second at most.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::context::Context;

/// A look is repeated after this at the latest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The same where only the journal itself is of interest; its directory may have been replaced.
const NEWS_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The journal's directory, watched.
#[derive(Debug)]
pub(crate) struct JournalWatch {
    fd: OwnedFd,
}

impl JournalWatch {
    /// Watches the journal. What is written from now on is news.
    pub(crate) fn new(context: &Context) -> anyhow::Result<Self> {
        let dir = context.paths.journal();
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // Beside it lies its name in a fleet, which is replaced.
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        add_watch(&fd, &dir, changes).with_context(|| {
            format!("{}: no journal yet; start the coordinator with `coord up`", dir.display())
        })?;
        Ok(Self { fd })
    }

    /// Counts files that are replaced in another directory as news too, if there is one.
    pub(crate) fn also(&self, dir: &Path) {
        // Without it nothing there can be news.
        let _missing = add_watch(&self.fd, dir, WatchFlags::MOVED_TO | WatchFlags::DELETE);
    }

    /// Waits for news, a second, or `left`, whichever comes first.
    pub(crate) fn pause(&self, left: Duration) -> anyhow::Result<()> {
        self.pause_beside(&self.fd, left)
    }

    /// Waits for news. Time alone wakes nobody, as long as the journal's directory is the same.
    pub(crate) fn await_news(&self) -> anyhow::Result<()> {
        self.wait(&self.fd, Some(NEWS_PAUSE_MAX)).map(drop)
    }

    /// The same as [`Self::pause`], and not longer than until the other is readable.
    pub(crate) fn pause_beside(&self, other: impl AsFd, left: Duration) -> anyhow::Result<()> {
        self.wait(other, Some(PAUSE_MAX.min(left))).map(drop)
    }

    /// Waits for news, or until the other is readable, at most for `left`. Whether one of them was.
    pub(crate) fn news_within(&self, other: impl AsFd, left: Duration) -> anyhow::Result<bool> {
        self.wait(other, Some(left))
    }

    /// Waits for news, or until the other is readable, however long that takes.
    pub(crate) fn wait_beside(&self, other: impl AsFd) -> anyhow::Result<()> {
        self.wait(other, None).map(drop)
    }

    fn wait(&self, other: impl AsFd, at_most: Option<Duration>) -> anyhow::Result<bool> {
        let timeout = at_most.map(Timespec::try_from).transpose()?;
        let mut both = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        let is_news = match poll(&mut both, timeout.as_ref()) {
            Ok(ready) => 0 < ready,
            Err(Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        self.forget();
        Ok(is_news)
    }

    /// What was seen so far is no news any more.
    fn forget(&self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        while reader.next().is_ok() {}
    }
}

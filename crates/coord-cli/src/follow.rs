//! Waits for news in the journal, by inotify on its files: with or without a coordinator, and without
//! asking again and again. States also change by time alone, so a wait ends after a second at most.

use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::{Errno, retry_on_intr};

use crate::context::Context;

/// A look is repeated after this at the latest.
const PAUSE_MAX: Duration = Duration::from_secs(1);

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
        add_watch(&fd, &dir, WatchFlags::MODIFY | WatchFlags::CREATE).with_context(|| {
            format!("{}: no journal yet; start the coordinator with `coord up`", dir.display())
        })?;
        Ok(Self { fd })
    }

    /// Waits for news, a second, or `left`, whichever comes first.
    pub(crate) fn pause(&self, left: Duration) -> anyhow::Result<()> {
        self.pause_beside(&self.fd, left)
    }

    /// The same, and not longer than until the other is readable.
    pub(crate) fn pause_beside(&self, other: impl AsFd, left: Duration) -> anyhow::Result<()> {
        let timeout = Timespec::try_from(PAUSE_MAX.min(left))?;
        let mut both = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        match poll(&mut both, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
        self.forget();
        Ok(())
    }

    /// Waits for news, or until the other is readable, however long that takes.
    pub(crate) fn wait_beside(&self, other: impl AsFd) -> anyhow::Result<()> {
        let mut both = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        retry_on_intr(|| poll(&mut both, None))?;
        self.forget();
        Ok(())
    }

    /// What was seen so far is no news any more.
    fn forget(&self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        while reader.next().is_ok() {}
    }
}

//! What `coord top` and the page look at, and what tells them that it may have changed.

use std::time::Duration;

use anyhow::anyhow;
use coord_wire::inspect::Inspect;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::fleet::machines::{self, Machine};
use super::inspect::look;
use crate::client;
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::Failure;

/// All sessions and runs, those of the fleet's other machines included (F-02), and whether a coordinator said so. With `reads_files`, the files are read where none answers.
pub(super) fn newest(reads_files: bool, context: &Context) -> anyhow::Result<(Inspect, bool)> {
    let (mut answer, is_live): (Inspect, bool) = if reads_files {
        let looked = look(None, context).map_err(Failure::into_error)?;
        (looked.answer, looked.miss.is_none())
    } else {
        let answer = client::get(context, "/v1/sessions");
        let answer = answer.map_err(|miss| anyhow!("{miss:?}"))?;
        (answer.map_err(Failure::into_error)?, true)
    };
    answer.runs = coord_run::runs::all(&context.paths)?;
    let machines = machines::all(context)?;
    answer.sessions.extend(machines.iter().flat_map(Machine::sessions));
    Ok((answer, is_live))
}

/// Changes of the journal, and the end of the coordinator.
pub(super) struct Changes {
    journal: JournalWatch,
    coordinator: OwnedFd,
}

impl Changes {
    /// Watches from now on.
    pub(super) fn watch(pid: u32, context: &Context) -> anyhow::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow!("the coordinator has no pid"))?;
        let coordinator = pidfd_open(pid, PidfdFlags::empty())?;
        let journal = JournalWatch::new(context)?;
        journal.also(&context.paths.fleet_machines());
        Ok(Self { journal, coordinator })
    }
}

impl coord_top::Watch for Changes {
    fn wait(&mut self) -> anyhow::Result<()> {
        self.journal.wait_beside(&self.coordinator)
    }
}

impl coord_dashboard::Watch for Changes {
    fn wait(&mut self, at_most: Duration) -> anyhow::Result<bool> {
        self.journal.news_within(&self.coordinator, at_most)
    }
}

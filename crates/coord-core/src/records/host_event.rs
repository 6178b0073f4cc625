//! Host events: what ends several sessions at once (H-10).

use serde::{Deserialize, Serialize};

use coord_model::{Moment, ProcessRef};

use super::clocks::clocks;

/// What ended a session from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostEvent {
    /// The machine was restarted.
    NewBoot,
    /// The tmux server died.
    TmuxServer,
    /// Three or more interactive sessions ended within seconds.
    ManyEnds,
    /// The machine is being shut down.
    Shutdown,
}

/// A tmux server that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadServer {
    /// The server process.
    pub process: ProcessRef,
    /// The server lived at least until then, milliseconds since 1970.
    pub seen_ms: u64,
    /// When its death was noticed.
    pub at: Moment,
}

clocks!(struct DeadServer { process, seen_ms, at } until {});

clocks!(none in HostEvent);

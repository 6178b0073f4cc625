//! How a session is named inside coord.

use serde::{Deserialize, Serialize};

/// Number of a record; a record keeps it while its session id changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// Where the name of a session comes from (U-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameSource {
    /// Its user gave it.
    Given,
    /// The client's own name for the session.
    Client,
    /// The last part of its directory.
    Directory,
}

/// The state as hooks see it, derived from [`SessionState`] by [`SessionState::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A turn is open.
    Running,
    /// The process is alive, and no turn is open.
    Idle,
    /// The process is gone.
    Stopped,
    /// Not known.
    Unknown,
}

/// The one state that people see, derived from all facts. Version 1 of the snapshot begins its name with a capital
/// letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// The process is there and has not accepted a prompt yet.
    #[serde(alias = "Starting")]
    Starting,
    /// A turn is open.
    #[serde(alias = "Running")]
    Running,
    /// At its prompt.
    #[serde(alias = "Idle")]
    Idle,
    /// A permission dialog is open.
    #[serde(alias = "AwaitingPermission")]
    AwaitingPermission,
    /// A question or plan is open.
    #[serde(alias = "AwaitingInput")]
    AwaitingInput,
    /// The turn ended, and background work continues.
    #[serde(alias = "Background")]
    Background,
    /// Waiting for a quota to reset.
    #[serde(alias = "QuotaWait")]
    QuotaWait,
    /// Stopped by an authentication error.
    #[serde(alias = "BlockedAuth")]
    BlockedAuth,
    /// Stopped by a billing error.
    #[serde(alias = "BlockedBilling")]
    BlockedBilling,
    /// Suspended by Ctrl-Z.
    #[serde(alias = "Suspended")]
    Suspended,
    /// Ended by a host event; `coordctl restore` brings it back.
    #[serde(alias = "Interrupted")]
    Interrupted,
    /// Owned by another supervisor.
    #[serde(alias = "Foreign")]
    Foreign,
    /// Unattended and without progress.
    #[serde(alias = "Stalled")]
    Stalled,
    /// A recovery waits for a safe moment.
    #[serde(alias = "RecoveryPending")]
    RecoveryPending,
    /// A recovery is in progress.
    #[serde(alias = "Recovering")]
    Recovering,
    /// The process died without ending its session.
    #[serde(alias = "Crashed")]
    Crashed,
    /// On another machine, boot or pid namespace.
    #[serde(alias = "Elsewhere")]
    Elsewhere,
    /// Ended.
    #[serde(alias = "Stopped")]
    Stopped,
    /// Not known.
    #[serde(alias = "Unknown")]
    Unknown,
}

impl SessionState {
    /// The documented table from `state` to `status`.
    pub fn status(self) -> Status {
        match self {
            Self::Starting
            | Self::Running
            | Self::AwaitingPermission
            | Self::AwaitingInput
            | Self::Stalled => Status::Running,
            Self::Idle
            | Self::Background
            | Self::QuotaWait
            | Self::BlockedAuth
            | Self::BlockedBilling => Status::Idle,
            Self::Interrupted
            | Self::RecoveryPending
            | Self::Recovering
            | Self::Crashed
            | Self::Stopped => Status::Stopped,
            Self::Suspended | Self::Foreign | Self::Elsewhere | Self::Unknown => Status::Unknown,
        }
    }
}

//! How a session is named inside coord.

use serde::{Deserialize, Serialize};

/// Number of a record; a record keeps it while its session id changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

//! The name that a session has without its user's doing (U-03).

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::NameSource;

use super::clocks::clocks;

/// A name that was derived, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedName {
    /// The name.
    pub name: String,
    /// What it was derived from: the client's own name, or a directory.
    pub of: String,
    /// Which of the two.
    pub source: NameSource,
}

clocks!(none in DerivedName);

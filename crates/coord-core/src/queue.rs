//! Decides what becomes of each message (S4, G3): whether it is accepted, who has it next, and when it leaves.

mod chain;
mod delivery;
mod end_notices;
mod flood;
mod frame;
mod lease;
mod outcome;
mod remote;

pub use delivery::ANSWER_BYTES_MAX;
pub use flood::{Admitted, QUEUE_NAME_CHARS_MAX, is_queue_name};
pub use frame::framed_message;
pub use lease::LEASE_MS_MAX;
pub use outcome::Refused;
pub use remote::REMOTE_TTL_MS_MAX;

//! Messages to sessions (S4-24 to S4-27, H-04, H-21, H-30): through which delivery path each one leaves and when, from whom a
//! session takes them, what becomes of one that left, and who is told of an end.

#![expect(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may fail loudly")]

mod always;
mod delivery_paths;
mod ends;
mod mail;
mod outcomes;
mod reasons;
mod trust;
mod wakes;
mod ways;

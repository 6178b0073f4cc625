//! `coord doctor` on set-ups that are broken in one way each: it names what is wrong and the remedy,
//! repairs what is safe to repair, and gives nothing secret away.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

mod broken;
mod fix;
mod place;
mod secrets;

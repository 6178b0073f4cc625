//! `coord install` and `coord uninstall` with the real program, each test in a home of its own.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

mod clients;
mod cut;
mod places;
mod scratch;
mod status_line;
mod table;
mod verbs;

//! What the end-to-end tests share: the real Claude Code, offline, against a fake Messages API,
//! with coord's real programs beside it.
//!
//! It decides nothing about coord and holds no rows; the tests in `tests/` do. Everything here
//! fails by a panic that names what was waited for, because its only callers are tests.
#![expect(clippy::missing_panics_doc, reason = "every function here ends a test by a panic")]

pub mod client;
pub mod coord;
pub mod fake_api;
pub mod home;
pub mod machine;
pub mod nats;
pub mod netns;
pub mod place;
pub mod previous;
pub mod process;
pub mod settings;
pub mod stalls;
pub mod terminal;
pub mod timeline;
pub mod truth;
pub mod wait;

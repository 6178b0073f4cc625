//! The adapter against a real server: `nats-server` from the PATH, or the one that `COORD_TEST_NATS` names (F-11).

mod calls;
mod connecting;
mod faults;
mod fleet;
mod history;
mod inbox;
mod permissions;
mod setup;

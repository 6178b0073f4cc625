//! The real `coord-notice-send`, started as the coordinator starts it: with one request on its standard input and
//! an environment from a list. tmux, the desktop's bus and its notification server are real; web services are
//! servers of the test on loopback, which check the documented shape.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

mod command;
mod desktop;
mod request;
mod sender;
mod server;
mod services;
mod terminal;
mod tmux;
mod tries;
mod trust;

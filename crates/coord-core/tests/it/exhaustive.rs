//! The core as small machines, looked at from every side.
//!
//! `table` holds every pair of a state and an event kind against a checked-in table, `claims` those
//! with events that nobody proved; `machines` runs every short sequence over a few alphabets and holds
//! each step to the invariants of `rules`.

mod claims;
mod found;
mod kinds;
mod labels;
mod machines;
mod recoveries;
mod rules;
mod states;
mod table;

//! Headless runs on an injected clock: states, tiers, ends, outcomes and process trees.

mod lifecycle;
mod outcomes;
mod tiers;
mod trees;
mod watched;
mod ways_out;

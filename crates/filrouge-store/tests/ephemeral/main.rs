//! Ephemeral sessions over the hot store in memory.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod contract;
mod login;
mod plain;
mod random;
mod state;
mod store;
mod together;
mod trim;

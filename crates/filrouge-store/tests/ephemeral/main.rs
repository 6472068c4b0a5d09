//! Ephemeral sessions over the hot store in memory.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod contract;
mod live;
mod login;
mod plain;
mod random;
mod state;
mod store;
mod together;
mod trim;
mod went_back;

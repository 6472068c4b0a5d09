//! The ledger and the hot store in memory pass their contract suites; ephemeral sessions pass theirs on the hot store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests"
)]

mod ephemeral;
mod hot_memory;
mod memory;

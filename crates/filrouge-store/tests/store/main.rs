//! The ledger and the hot store in memory pass their contracts; ephemeral sessions pass theirs over the hot store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests"
)]

mod ephemeral;
mod hot_memory;
mod memory;

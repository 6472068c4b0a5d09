//! Teams with real agents, and the recording of their conversations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod agent;
mod agent_group;
mod conversation;
mod conversation_cut;
mod conversation_kept;
mod conversation_restored;
mod examples;
mod keeping;
mod kept;
mod on_ledger;
mod talk;

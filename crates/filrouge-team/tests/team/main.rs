//! Teams with real agents, and the recording of their conversations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and child processes print to their parents"
)]

mod agent;
mod agent_group;
mod conversation;
mod conversation_cut;
mod conversation_in_ledger;
mod conversation_restored;
mod conversation_write_failures;
mod examples;
mod memory_record;
mod persistence;
mod test_conversation;

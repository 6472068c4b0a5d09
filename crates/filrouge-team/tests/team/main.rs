//! Teams with real agents.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agent;
mod agent_group;
mod conversation;
mod conversation_cut;
mod conversation_kept;
mod conversation_restored;
mod examples;
mod kept;
mod on_ledger;
mod talk;

//! Tests the example with real processes and a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod outage;
mod process;
mod restart;
mod script;
mod simultaneous;
mod stale;
mod unreadable;
mod webhooks;

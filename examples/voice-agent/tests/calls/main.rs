//! The example with real processes and a real PostgreSQL: the four validations of a voice agent's sessions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod hits;
mod outage;
mod process;
mod restart;
mod script;
mod stale;
mod unknown;
mod webhooks;

//! End to end: the built binary in a world of its own, driven by its command line and over HTTP.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and tell where their world was left"
)]

mod bundle;
mod bytes;
mod cli;
mod cli_config;
mod context;
mod http;
mod http_ids;
mod http_input;
mod http_lists;
mod http_turns;
mod http_whole;
mod import;
mod import_changes;
mod keys;
mod owners;
mod redact;
mod rollback;
mod servers;
mod tamper;
mod world;

//! `filrouge team` end to end: the built binary, at a terminal and without one, with shell scripts as agents.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print where the home folder of the failed test is"
)]

mod choosing;
mod commands;
mod killed;
mod refused;
mod snapshots;
mod terminal;
mod turns;
mod without_terminal;
mod world;

//! The server over the protocol: in one process over a pipe, and over HTTP requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod arguments;
mod artificial_history;
mod callers;
mod pages;
mod protocol;
mod requests;
mod talk;
mod tools;

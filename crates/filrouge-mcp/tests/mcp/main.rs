//! The MCP server in this process, over a pipe and over HTTP requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod arguments;
mod artificial_history;
mod callers;
mod clients;
mod pages;
mod protocol;
mod requests;
mod tools;

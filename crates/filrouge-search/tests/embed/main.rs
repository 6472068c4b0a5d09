//! Embedding services, asked over HTTP on this machine.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod asked;
mod service;

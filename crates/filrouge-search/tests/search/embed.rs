//! Embedding services, asked over HTTP on this machine.

mod asked;
mod service;

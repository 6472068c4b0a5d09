//! Embedding services, called over HTTP on this machine.

mod requests;
mod service;

//! Tests of the HTTP client of embedding services, against a service on this machine.

mod requests;
mod service;

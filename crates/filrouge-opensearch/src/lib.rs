//! A client of search engines.

pub mod client;

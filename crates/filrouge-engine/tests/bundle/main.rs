//! Bundles: an exported session can be imported into another store, and any change in a bundle is detected and reported
//! with its place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod changed;
mod layout;
mod random;
mod round_trip;
mod script;
mod sessions;
mod world;

//! Bundles: an exported session can be imported elsewhere, and any change in a bundle is detected and reported with its place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

mod changed;
mod journal;
mod layout;
mod random;
mod round;
mod script;
mod world;

//! Bundles: what comes out goes in elsewhere, and whatever is changed in one is noticed and told with its place.
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

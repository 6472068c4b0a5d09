#![allow(clippy::unwrap_used)]

mod calls;
mod files;
mod random;
mod world;

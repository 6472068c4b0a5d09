//! Ephemeral sessions over the hot store in memory.

mod contract;
mod live;
mod login;
mod plain;
mod random;
mod state;
mod store;
mod together;
mod trim;
mod went_back;

//! Ephemeral sessions over the hot store in memory.

mod concurrency;
mod contract;
mod fake_hot_store;
mod leases_and_checkpoints;
mod login;
mod random;
mod reverted;
mod store;
mod trim;
mod versions;

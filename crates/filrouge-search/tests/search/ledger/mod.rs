//! The feed that keeps an index in step with a ledger.

mod alone;
mod faulty;
mod find;
mod find_there;
mod forgetting;
mod life;
mod shards;
mod steps;
mod world;

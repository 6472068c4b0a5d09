//! The feed that keeps an index in step with a ledger.

mod alone;
mod edited;
mod faulty;
mod find;
mod find_there;
mod forgetting;
mod life;
mod shards;
mod steps;
mod world;

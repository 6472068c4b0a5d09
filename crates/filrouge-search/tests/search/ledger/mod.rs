//! Tests of the feed that keeps an index up to date with a ledger, and of searches by that index.

mod alone;
mod edited;
mod faulty;
mod find;
mod find_edge_cases;
mod forgetting;
mod life;
mod shards;
mod steps;
mod world;

//! Tests of the feed that keeps an index up to date with a ledger, and of searches by that index.

mod edited_index;
mod failing_index;
mod find;
mod find_edge_cases;
mod forgetting;
mod isolation;
mod random_events;
mod reads;
mod shards;
mod similar_turns;
mod steps;
mod world;

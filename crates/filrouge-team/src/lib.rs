//! Teams (DESIGN §11): people and agents that are commands talk in one conversation, which goes on tomorrow with its full
//! context.
//!
//! Of a team file come a [`Team`](team::Team) and its ids, which derive from names alone. A [`Coordinator`](coordinator::Coordinator)
//! has the members speak in turn, the [`context`] holds what was said, a [`Record`](record::Record) keeps it.

pub mod agent;
pub mod context;
pub mod coordinator;
pub mod ledger;
pub mod markers;
pub mod message;
pub mod prompt;
pub mod queue;
pub mod record;
pub mod sessions;
pub mod snapshot;
pub mod team;
pub mod team_file;

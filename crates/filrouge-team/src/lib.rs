//! Teams (DESIGN §11): people, and agents that are commands, talk in one conversation. A later run of the program
//! continues it with all messages and the team task.
//!
//! A team file yields a [`Team`](team::Team), whose ids derive from names alone. A
//! [`Coordinator`](coordinator::Coordinator) lets the members speak in turn, the [`context`] has their messages in
//! memory, and a [`Record`](record::Record) writes them to the ledger.

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

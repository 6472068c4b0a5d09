//! OpenCode's history in all its storages at once (DESIGN §10).
//!
//! `generation.rs` is what a storage gives; `layout.rs` and `tree*.rs` read the file storages,
//! `stored.rs`, `database.rs` and the files it names the databases. What texts mean is in `neutral*.rs`; what import keeps of
//! them beside that in `written.rs`.

mod database;
mod generation;
mod kind;
mod layout;
mod lying;
mod neutral;
mod neutral_message;
mod neutral_part;
mod newer_form;
mod newer_piece;
mod newer_tool;
mod open;
mod order;
mod row_place;
mod row_sums;
mod session;
mod session_message;
mod session_rows;
mod session_v2;
mod sqlite;
mod storage;
mod stored;
mod talk;
mod tree;
mod tree_first;
mod tree_listing;
mod tree_messages;
mod tree_state;
mod watched;
mod written;

pub use lying::is_usual_database;
pub use open::{open, open_and_watch, watch};

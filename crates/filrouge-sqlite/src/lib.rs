//! The SQLite ledger: WAL, `synchronous=FULL`, one writer thread per process with group commit, a pool of
//! readers, several processes on one file (DESIGN §3, §4; docs/format.md).

mod copy_target;
mod erasure;
mod error;
pub mod foreign;
mod ledger;
mod migrate;
mod open;
mod plain;
mod presence;
mod rows;
mod store_state;
pub mod text_index;
mod writer;

pub use copy_target::SqliteCopyTarget;
pub use ledger::SqliteLedger;
pub use migrate::{SCHEMA_VERSION, migrate_up, schema, stored_id};
pub use open::{Options, SQLITE_MIN, prepare};
pub use plain::PlainFile;

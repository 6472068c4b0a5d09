//! The SQLite ledger: WAL, `synchronous=FULL`, one writer thread a process with group commit, a pool of
//! readers, several processes on one file (DESIGN §3, §4; docs/format.md).

mod erasure;
mod error;
pub mod foreign;
mod guard;
mod intake;
mod ledger;
mod migrate;
mod open;
mod presence;
mod rows;
pub mod text_index;
mod writer;

pub use intake::SqliteIntake;
pub use ledger::SqliteLedger;
pub use migrate::{SCHEMA_VERSION, migrate_up, schema};
pub use open::{Options, SQLITE_MIN, prepare};

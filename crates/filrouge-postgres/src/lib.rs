//! The ledger in PostgreSQL. Several filrouge servers may share one database. Each has writers, which share the lanes
//! and commit writes in groups; readers, each of whose queries sees one snapshot; and a watch for commits of other
//! servers (DESIGN §3, §4; docs/postgresql.md).

mod clock;
mod connect;
mod copy_target;
mod error;
mod follow;
mod lanes;
mod ledger;
mod migrate;
mod nodes;
mod one_lane;
mod options;
mod plain;
mod pool;
mod presence;
mod readers;
mod rows;
mod schema;
mod session;
mod stage;
mod store_state;
mod target;
pub mod text_index;
mod tls;
mod transact;
mod url;
mod vacuum;
mod writer;

pub use clock::DatabaseClock;
pub use copy_target::PostgresCopyTarget;
pub use ledger::PostgresLedger;
pub use migrate::{LANES_SETTING, SCHEMA_VERSION, distributed_sql};
pub use options::{Options, default_lanes};
pub use plain::PlainServer;
pub use schema::{has_keys, migrate_up, schema, store_id};
pub use url::redacted;

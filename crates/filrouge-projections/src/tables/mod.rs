//! Plain SQL tables in PostgreSQL or SQLite (docs/projections-tables.md).

mod changes;
mod definition;
mod rows;
mod sql;
mod target;
mod updates;
mod values;

pub use definition::{Column, Kind, TABLES, TENANT, Table, VERSION};
pub(crate) use rows::rows;
pub use target::{Tables, TablesSettings};

//! Bodies, queries and path ids: what cannot be read is 400, what is read and not acceptable 422.

mod body;
mod query;
mod scope;
mod words;

pub use body::{Body, OptionalBody, RawBody};
pub use query::{AnyQuery, Cursor, LIMIT_MAX, Limit, NoParameters, Query, WAIT_MAX_MS, wait};
pub use scope::{InSession, InTenant, InTurn};

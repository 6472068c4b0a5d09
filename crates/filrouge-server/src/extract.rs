//! Bodies, queries and path ids: what cannot be read is 400, what is read and not acceptable 422.

mod body;
mod pairs;
mod query;
mod scope;
mod words;

pub(crate) use body::{Body, OptionalBody, RawBody};
pub(crate) use query::{Cursor, LIMIT_MAX, Limit, NoParameters, Query, WAIT_MAX_MS, wait};
pub(crate) use scope::{InSession, InTenant, InTurn};

//! Bodies, queries and path ids: what cannot be read is 400, what is read and not acceptable 422.

mod body;
mod query;
mod scope;

pub(crate) use body::{Body, OptionalBody};
pub(crate) use query::{Cursor, NoParameters, Query, WAIT_MAX_MS, limit, wait};
pub(crate) use scope::{Caller, InSession, InTurn};

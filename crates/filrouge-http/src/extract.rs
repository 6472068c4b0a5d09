//! Extracts bodies, queries and ids from requests. Malformed input gets 400; well-formed but invalid input gets 422.

mod body;
mod query;
mod reworded;
mod scope;

pub use body::{Body, OptionalBody, RawBody, UploadBody};
pub use query::{
    AnyQuery, Cursor, LIMIT_MAX, Limit, NoParameters, Query, SeqList, WAIT_MAX_MS, wait,
};
pub use scope::{SessionAccess, TenantAccess, TurnAccess};

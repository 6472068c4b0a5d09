//! The hot store on Redis, version 6 or newer, one server or a Cluster (DESIGN §7).
//!
//! # What lies where
//! Two keys a session, in one slot, with the session's [`HotKey`](filrouge_store::hot::HotKey) as hash tag; each script
//! looks at one of them and sets its time to live in the same step:
//! - `PREFIX:{KEY}:e`, an ephemeral session: a hash. The field `e` is its edition, `INCARNATION:VERSION`; the session's own
//!   fields have an `f` before their names. What goes is removed before anything is put, so that a redaction succeeds when
//!   Redis is out of memory (`noeviction`).
//! - `PREFIX:{KEY}:r`, the copy of recent turns: a sorted set whose members all have the score 0, so that they are in the
//!   order of their bytes. `tORDINAL:RECORD` is a turn. The last member, `z1 KNOWN LINK LOW COUNT BYTES`, says the newest
//!   seq ever told, the link of the history (`-`: the copy is no use), from where on no turn is missing (an ordinal and 0,
//!   or 1 for what follows it; zeros: nothing is missing), and how many turns and bytes of records there are. Numbers in
//!   names have 20 digits. So the newest turns are read by one plain `ZREVRANGE`, without a script.
//!
//! No command looks for keys. A Redis that evicts keys, restarts empty, fails over to a replica that lags, or is given an
//! older dump loses states or goes back to older ones; whoever reads tells that by the edition, or by the link.
//!
//! # When it fails
//! A request has one timeout, connecting and redirections included. After a failure to answer nothing is asked for a second,
//! then one request is let through: meanwhile every method fails at once with `hot_unavailable`. A Redis that answers but
//! refuses (out of memory, say) goes on being asked: reading and removing may work. Failures are told apart by the code word
//! of Redis's errors.

mod breaker;
mod call;
mod connect;
mod copy;
mod counts;
mod error;
mod health;
mod options;
mod scripts;
mod session;
mod store;
mod url;
mod writes;

pub use counts::RedisCounts;
pub use options::Options;
pub use store::RedisHot;
pub use url::redacted;

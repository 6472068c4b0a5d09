//! The hot store on Redis, version 6 or newer, one server or a Cluster (DESIGN §7).
//!
//! # Keys
//! Each script uses one key; if it writes the key, it sets its time to live in the same step. Each session has up to
//! two keys. They contain the session's [`HotKey`](filrouge_store::hot::HotKey) as a hash tag, so a cluster stores them
//! in one slot:
//! - `PREFIX:{KEY}:e`, an ephemeral session: a hash. The field `e` is its edition, `INCARNATION:VERSION:NONCE`; the
//!   session's own fields have the prefix `f`. Fields are removed before others are written, so that a redaction
//!   succeeds when Redis is out of memory (`noeviction`).
//! - `PREFIX:{KEY}:r`, the copy of recent turns: a sorted set whose members all have the score 0, so that they are
//!   ordered by their bytes. A member `tORDINAL:RECORD` is a turn. The last member is the metadata of the copy,
//!   `z1 KNOWN LINK LOW COUNT BYTES`. `KNOWN` is the newest seq ever received. `LINK` is the link of the history; `-`
//!   marks the copy as invalid. `LOW` is the position from which on no turn is missing: an ordinal followed by 0, or by
//!   1 for the position after that turn; only zeros if no turn of the session is missing. `COUNT` and `BYTES` are the
//!   number of turns, and the bytes of their records. `ORDINAL`, `KNOWN` and the ordinal in `LOW` have 20 digits, so
//!   that the order of bytes is that of the numbers, and a plain `ZREVRANGE` reads the newest turns without a script.
//!
//! No command searches for keys. If a Redis server evicts keys, restarts empty, fails over to a replica that lags, or
//! is restored from an older dump, then states are lost or replaced by older ones. Readers detect this by the edition
//! of an ephemeral session, or by the link of a copy.
//!
//! # Failures
//! A request has one time limit, which includes connecting and redirections. If Redis does not answer, requests are
//! blocked for a second, and then until Redis has answered a single probe. A blocked request fails at once with
//! `hot_unavailable`. If Redis answers but refuses a request, for example because it is out of memory, it still gets
//! further requests: reads and removals may succeed. Failures are classified by the codes of Redis's errors.

mod append_only;
mod breaker;
mod client;
mod connect;
mod copy;
mod counts;
mod error;
mod health;
mod options;
mod rewrites;
mod scripts;
mod session;
mod store;
mod url;
mod writes;

pub use counts::RedisCounts;
pub use options::Options;
pub use store::RedisHot;
pub use url::redacted;

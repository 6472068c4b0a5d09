//! The hot store on Redis, version 6 or newer, one server or a Cluster (DESIGN §7).
//!
//! # Keys
//! Each session has two keys, in one slot, with the session's [`HotKey`](filrouge_store::hot::HotKey) as hash tag;
//! each script uses one of them and sets its time to live in the same step:
//! - `PREFIX:{KEY}:e`, an ephemeral session: a hash. The field `e` is its edition, `INCARNATION:VERSION:NONCE`; the
//!   session's own fields have the prefix `f`. Fields are removed before others are written, so that a redaction
//!   succeeds when Redis is out of memory (`noeviction`).
//! - `PREFIX:{KEY}:r`, the copy of recent turns: a sorted set whose members all have the score 0, so that they are
//!   ordered by their bytes. A member `tORDINAL:RECORD` is a turn. The last member, `z1 KNOWN LINK LOW COUNT BYTES`,
//!   holds the newest seq ever received, the link of the history (`-`: the copy is invalid), the position from which no
//!   turn is missing (an ordinal followed by 0, or by 1 for the position after it; zeros: nothing is missing), and the
//!   numbers of turns and of bytes of records. Numbers in names have 20 digits. A plain `ZREVRANGE` therefore reads the
//!   newest turns, without a script.
//!
//! No command searches for keys. A Redis server that evicts keys, restarts empty, fails over to a lagging replica, or
//! is restored from an older dump loses states or returns to older ones; readers detect that by the edition, or by the
//! link.
//!
//! # Failures
//! A request has one timeout, including connecting and redirections. After a failure to answer, requests are blocked
//! for a second, then one probe is let through: meanwhile every method fails at once with `hot_unavailable`. A Redis
//! that answers but refuses (for example because it is out of memory) still gets requests: reads and removals may
//! succeed. Failures are classified by the code of Redis's errors.

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

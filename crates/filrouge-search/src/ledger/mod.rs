//! The feed that keeps an index in step with a ledger (DESIGN §10): commits are followed, and of each session the turns are
//! read again that they have touched.
//!
//! What the feed has read before something was forgotten is never put behind it: each step says how the index was when it
//! began, and is made only if it still is so. Several processes may feed one index; of two steps from one place one is made.

mod counts;
mod documents;
mod feed;
mod place;
mod position;
mod progress;
mod reading;
mod run;
mod shard;

pub use counts::FeedCounts;
pub use documents::TITLE_UNIT;
pub use feed::{Effort, LedgerFeed, Step};
pub use place::{place, seqs_of};
pub use progress::Progress;
pub use shard::{reach_of, realm_of, shard_of};

//! The feed that keeps an index in step with a ledger (DESIGN §10): commits are followed, and of each session the turns are
//! read again that they have touched.
//!
//! What the feed has read before something was forgotten is never put behind it: each step says how the index was when it
//! began, and is made only if it still is so. Several processes may feed one index; of two steps from one place one is made.

mod counts;
mod documents;
mod feed;
mod position;
mod progress;
mod reading;
mod run;
mod shard;

pub use counts::{FeedCounts, Progress};
pub use documents::TITLE_UNIT;
pub use feed::{Effort, LedgerFeed, Step};
pub(crate) use reading::is_of_session;
pub use shard::{reach_of, realm_of, shard_of};

use filrouge_types::{ErrorCode, Failure};

/// Does what may wait or takes long on a thread for it.
pub(crate) async fn aside<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        let what = format!("a step of the search index broke off: {error}");
        Failure::new(ErrorCode::Internal, what)
    })
}

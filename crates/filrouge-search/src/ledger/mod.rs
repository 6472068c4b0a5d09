//! The feed that keeps an index up to date with a ledger (DESIGN §10): it follows the commits, and reads the turns that
//! they touched.
//!
//! Text that the feed read before a session was forgotten is never written afterwards: each step names the version that
//! the index had when the step began, and is applied only if the index still has this version. Several processes may
//! feed one index: of two steps that begin at the same version, only one is applied.

mod counts;
mod documents;
mod feed;
mod position;
mod progress;
mod reading;
mod run;
mod shard;
mod unreadable;
mod verified_texts;

pub use counts::{FeedCounts, Progress};
pub use documents::TITLE_UNIT;
pub use feed::{FeedStep, LedgerFeed, StepLimits};
pub use shard::{index_scope_of, realm_of, shard_of};
pub(crate) use unreadable::Unreadable;
pub(crate) use verified_texts::VerifiedTexts;

use filrouge_types::{ErrorCode, Failure};

/// Runs work that blocks or takes long on a blocking thread. Fails if the work panics.
async fn on_blocking_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        let message = format!("a step of the search index failed: {error}");
        Failure::new(ErrorCode::Internal, message)
    })
}

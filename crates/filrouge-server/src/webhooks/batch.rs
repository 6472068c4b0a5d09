//! What one message tells of.

use filrouge_store::read::{ChangeCursor, SessionChange};
use filrouge_store::{Ledger, Scope, Viewer};
use filrouge_types::Failure;

use super::WebhookFeed;

/// Changes for a webhook, and the place behind them.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) after: ChangeCursor,
    pub(super) changes: Vec<SessionChange>,
    pub(super) next: ChangeCursor,
    /// Whether there is more to look at already.
    pub(super) more: bool,
}

/// Cursors in the order of the feed: behind a whole commit is behind each part of it.
pub(super) fn place(cursor: ChangeCursor) -> (u64, usize) {
    (cursor.commit_no, cursor.taken.unwrap_or(usize::MAX))
}

impl Batch {
    /// The changes behind `after`, and not behind `bound`.
    pub(super) async fn read(
        ledger: &dyn Ledger,
        feed: &WebhookFeed,
        after: ChangeCursor,
        bound: Option<ChangeCursor>,
    ) -> Result<Self, Failure> {
        let scope = Scope::new(feed.tenant.clone(), Viewer::Operator);
        let page = ledger.changes(&scope, after, feed.batch).await?;
        let mut batch = Self {
            after,
            changes: page.data,
            next: page.next,
            more: page.more,
        };
        if let Some(bound) = bound.filter(|bound| place(batch.next) > place(*bound)) {
            let within = |change: &SessionChange| {
                let cursor: Result<ChangeCursor, _> = change.cursor.parse();
                cursor.is_ok_and(|cursor| place(cursor) <= place(bound))
            };
            batch.changes.retain(within);
            batch.next = bound;
            batch.more = true;
        }
        if let Some(kinds) = &feed.kinds {
            batch.changes.retain(|change| kinds.contains(&change.kind));
        }
        Ok(batch)
    }
}

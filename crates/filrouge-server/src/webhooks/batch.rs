//! Reads the changes of one message.

use filrouge_store::read::{ChangeCursor, SessionChange};
use filrouge_store::{Ledger, Scope, Viewer};
use filrouge_types::Failure;

use super::WebhookFeed;

/// Changes for a webhook, between two positions of the feed.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) after: ChangeCursor,
    pub(super) changes: Vec<SessionChange>,
    pub(super) next: ChangeCursor,
    /// Whether the store already has commits after `next`.
    pub(super) has_more: bool,
}

/// Returns the sort key of a cursor. A cursor at the end of a commit sorts after all cursors within the commit.
pub(super) fn sort_key(cursor: ChangeCursor) -> (u64, usize) {
    (cursor.commit_no, cursor.preceding.unwrap_or(usize::MAX))
}

impl Batch {
    /// Reads the next changes after `after` that the feed includes; with `end`, only those up to `end`.
    pub(super) async fn read(
        ledger: &dyn Ledger,
        feed: &WebhookFeed,
        after: ChangeCursor,
        end: Option<ChangeCursor>,
    ) -> Result<Self, Failure> {
        let scope = Scope::new(feed.tenant.clone(), Viewer::Operator);
        let page = ledger.changes(&scope, after, feed.batch).await?;
        let mut batch = Self {
            after,
            changes: page.data,
            next: page.next,
            has_more: page.more,
        };
        if let Some(end) = end.filter(|end| sort_key(batch.next) > sort_key(*end)) {
            let is_included = |change: &SessionChange| {
                let cursor: Result<ChangeCursor, _> = change.cursor.parse();
                cursor.is_ok_and(|cursor| sort_key(cursor) <= sort_key(end))
            };
            batch.changes.retain(is_included);
            batch.next = end;
            batch.has_more = true;
        }
        if let Some(kinds) = &feed.kinds {
            batch.changes.retain(|change| kinds.contains(&change.kind));
        }
        Ok(batch)
    }
}

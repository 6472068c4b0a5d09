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
    /// Whether the batch contains all changes up to the requested end; false without one.
    pub(super) is_at_end: bool,
}

impl Batch {
    /// Reads the next changes after `after` that the feed includes; with `end`, only those up to `end`.
    ///
    /// Between the `after` and the `next` of a batch, it reads the same changes with the same cursors in the same order,
    /// whatever was written since: a commit that was written later follows `next` in its lane.
    pub(super) async fn read(
        ledger: &dyn Ledger,
        feed: &WebhookFeed,
        after: ChangeCursor,
        end: Option<ChangeCursor>,
    ) -> Result<Self, Failure> {
        let scope = Scope::new(feed.tenant.clone(), Viewer::Operator);
        let end = end.map(|end| end.later(&after));
        let page = match end.clone() {
            Some(end) => {
                let until = ledger.changes_until(&scope, after.clone(), end, feed.batch);
                until.await?
            }
            None => ledger.changes(&scope, after.clone(), feed.batch).await?,
        };
        let mut batch = Self {
            after,
            changes: page.data,
            // Commits after the end are read next.
            has_more: page.more || end.is_some(),
            is_at_end: end.is_some_and(|end| end == page.next),
            next: page.next,
        };
        if let Some(kinds) = &feed.kinds {
            batch.changes.retain(|change| kinds.contains(&change.kind));
        }
        Ok(batch)
    }
}

//! The derived index beside the ledger: what is erased here, and what changes its owner, is forgotten there in the same
//! breath (DESIGN §10).
//!
//! It is forgotten before the ledger's write, so that a crash in between leaves no trace, and once more after it: a
//! process that feeds the index may have read in between what is gone now. Both are done before the caller is answered.

use std::sync::Arc;

use filrouge_store::Stored;
use filrouge_store::command::{Scope, Viewer, Write};
use filrouge_store::read::Gone;
use filrouge_store::text_index::TextIndex;
use filrouge_types::{ErrorCode, Failure, SessionId};

use super::index::Key;
use crate::core::Core;
use crate::engine::IndexFeed;

/// Nothing was written yet.
fn refused(why: &Failure) -> Failure {
    let what = format!("the search index does not answer, nothing was changed: {why}");
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("try again; an index that stays unreadable can be deleted: it is made again")
}

/// The write stands.
fn still_there(why: &Failure) -> Failure {
    let what = format!("done in the ledger, but the search index may still hold words: {why}");
    Failure::new(ErrorCode::StoreUnavailable, what).with_hint(
        "ask again, which changes nothing in the ledger; until then the index is tried again by itself, or rebuild it",
    )
}

impl IndexFeed {
    /// The index beside the ledger, if there is one.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<dyn TextIndex>> {
        self.0.index.get().map(|indexing| &indexing.index)
    }

    /// Forgets in the index what could not be forgotten, or not with certainty, when it was redacted or erased; how many
    /// sessions. Nothing should be fed before.
    ///
    /// # Errors
    /// The index's; what is left is tried again the next time.
    pub async fn forget_owed(&self) -> Result<usize, Failure> {
        let Some(indexing) = self.0.index.get() else {
            return Ok(0);
        };
        let owed = indexing.owed().clone();
        for key in &owed {
            indexing.forget(key).await?;
            indexing.owed().remove(key);
        }
        Ok(owed.len())
    }
}

impl Core {
    /// A write that takes something away: around it the index forgets the session.
    pub(crate) async fn write_and_forget(
        &self,
        scope: &Scope,
        write: Write,
    ) -> Result<Stored, Failure> {
        let (Some(indexing), Some(session)) = (self.index.get(), write.session_id().cloned())
        else {
            return self.put(scope, write).await;
        };
        let key: Key = (
            scope.tenant.as_str().as_bytes().into(),
            session.as_str().into(),
        );
        if self.is_theirs(scope, &session, &write).await {
            // Whoever gives the question up between the two leaves it to the feed.
            let new = indexing.owed().insert(key.clone());
            if let Err(why) = indexing.forget(&key).await {
                if new {
                    indexing.owed().remove(&key);
                }
                return Err(refused(&why));
            }
        }
        let written = self.put(scope, write).await;
        if let Err(failure) = written {
            // The ledger may have written it and not been able to say so; of a refusal it is certain.
            if !failure.code.retry() {
                indexing.owed().remove(&key);
            }
            return Err(failure);
        }
        indexing.owed().insert(key.clone());
        if let Err(why) = indexing.forget(&key).await {
            tracing::error!(session_id = %session, error = %why, "[SEARCH][FORGET] failed");
            return Err(still_there(&why));
        }
        indexing.owed().remove(&key);
        written
    }

    /// Whether there is something of the caller's to be forgotten: what is asked about others' sessions touches nothing.
    async fn is_theirs(&self, scope: &Scope, session: &SessionId, write: &Write) -> bool {
        let (viewer, id) = (scope.clone(), session.clone());
        let links = matches!(write, Write::Link(_));
        let asked = self.ledger.ask(move |sight| {
            Ok(match sight.find_or_gone(&viewer, &id)? {
                Some(Gone::Not(session)) => !links || session.row.identity_id.is_none(),
                Some(Gone::Erased(_)) => true,
                None => false,
            })
        });
        // What cannot be read can still be erased, by who may.
        let unread = scope.viewer == Viewer::Operator;
        asked.await.unwrap_or(unread)
    }
}

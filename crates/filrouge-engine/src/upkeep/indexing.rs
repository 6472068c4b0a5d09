//! Removes a session from the search index when a write to the ledger erases or redacts it, or links it to an owner
//! (DESIGN §10).
//!
//! The session is removed twice before the caller gets a response. The first removal comes before the ledger's write,
//! so that a crash in between leaves nothing in the index. The second comes after the write, because meanwhile a
//! process that feeds the index may have read the old contents.

use std::sync::Arc;

use filrouge_store::CommittedWrite;
use filrouge_store::command::{Scope, Viewer, Write};
use filrouge_store::read::SessionOrTombstone;
use filrouge_store::text_index::TextIndex;
use filrouge_types::{ErrorCode, Failure, SessionId, lock};

use super::index::IndexKey;
use crate::core::Core;
use crate::engine::IndexFeed;

/// The code for a failure of the index: `store_full` if its disk is full, else `store_unavailable`.
fn code_for(cause: &Failure) -> ErrorCode {
    match cause.code {
        ErrorCode::StoreFull => ErrorCode::StoreFull,
        _ => ErrorCode::StoreUnavailable,
    }
}

/// The failure if the index does not answer before the write: the ledger is unchanged.
fn index_unavailable(cause: &Failure) -> Failure {
    let detail = format!("the search index does not answer, nothing was changed: {cause}");
    Failure::new(code_for(cause), detail)
        .with_hint("try again; an index that stays unreadable can be deleted: it is rebuilt")
}

/// The failure if the index does not answer after the write: the ledger has changed.
fn still_indexed(cause: &Failure) -> Failure {
    let detail =
        format!("done in the ledger, but the search index may still hold its text: {cause}");
    Failure::new(code_for(cause), detail).with_hint(
        "repeat the request, which changes nothing in the ledger; or wait, as filrouge retries the removal; or rebuild the index",
    )
}

impl IndexFeed {
    /// The search index of the ledger, if there is one.
    pub fn index(&self) -> Option<&Arc<dyn TextIndex>> {
        self.0.index.get().map(|indexing| &indexing.index)
    }

    /// Removes from the index the sessions whose removal failed or is uncertain; returns their number. The task that
    /// feeds the index calls it each time before it feeds.
    ///
    /// # Errors
    /// The index's errors. The next call retries the remaining sessions.
    pub async fn forget_pending(&self) -> Result<usize, Failure> {
        let Some(indexing) = self.0.index.get() else {
            return Ok(0);
        };
        let pending = lock(&indexing.pending).clone();
        for key in &pending {
            indexing.forget(key).await?;
            lock(&indexing.pending).remove(key);
        }
        Ok(pending.len())
    }
}

impl Core {
    /// Makes a write that removes contents, or access to them; removes the session from the index before and after it.
    pub(crate) async fn write_and_forget(
        &self,
        scope: &Scope,
        write: Write,
    ) -> Result<CommittedWrite, Failure> {
        let (Some(indexing), Some(session)) = (self.index.get(), write.session_id().cloned())
        else {
            return self.write_and_log(scope, write).await;
        };
        let key: IndexKey = (
            scope.tenant.as_str().as_bytes().into(),
            session.as_str().into(),
        );
        if self.affects_visible_session(scope, &session, &write).await {
            // If this future is dropped before the second removal, `forget_pending` makes it.
            let was_added = lock(&indexing.pending).insert(key.clone());
            if let Err(cause) = indexing.forget(&key).await {
                if was_added {
                    lock(&indexing.pending).remove(&key);
                }
                return Err(index_unavailable(&cause));
            }
        }
        let written = self.write_and_log(scope, write).await;
        if let Err(failure) = written {
            // After a retryable failure the ledger may have committed, so the session stays in the set. After a refusal
            // it has not.
            if !failure.code.retry() {
                lock(&indexing.pending).remove(&key);
            }
            return Err(failure);
        }
        lock(&indexing.pending).insert(key.clone());
        if let Err(cause) = indexing.forget(&key).await {
            tracing::error!(session_id = %session, error = %cause, "[SEARCH][FORGET] failed");
            return Err(still_indexed(&cause));
        }
        lock(&indexing.pending).remove(&key);
        written
    }

    /// Whether the write can affect a session that the caller sees. If it cannot, the index is not touched, so that a
    /// caller cannot remove other callers' sessions from it.
    async fn affects_visible_session(
        &self,
        scope: &Scope,
        session: &SessionId,
        write: &Write,
    ) -> bool {
        let (viewer, id) = (scope.clone(), session.clone());
        let is_link = matches!(write, Write::Link(_));
        let is_affected = self.ledger.query_listed(scope, move |snapshot| {
            Ok(match snapshot.find_or_tombstone(&viewer, &id)? {
                Some(SessionOrTombstone::Live(session)) => {
                    !is_link || session.row.identity_id.is_none()
                }
                Some(SessionOrTombstone::Erased(_)) => true,
                None => false,
            })
        });
        // An operator can also erase an unreadable session.
        let if_unreadable = scope.viewer == Viewer::Operator;
        is_affected.await.unwrap_or(if_unreadable)
    }
}

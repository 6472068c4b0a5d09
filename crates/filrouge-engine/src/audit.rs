//! The audit: an ordered list of who said what, and which agent and model called which tool with which parameters.
//!
//! It is read from the ledger itself, verified as every read is: one session by seq, all sessions by the change feed, because the
//! order of commits is the only order that sessions share.

use filrouge_types::{Failure, IdentityId, SessionId, Timestamp};

use crate::caller::{Caller, Permission};
use crate::engine::Audit;

mod calls;
mod csv;
mod cursor;
mod parts;
mod row;
mod walk;

pub use cursor::AuditCursor;
pub use row::{AuditError, AuditRow};

/// The rows of the audit that a page returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// Restricts the rows to this session, in order of seq.
    pub session_id: Option<SessionId>,
    /// Restricts the rows to turns of this end user; an item without a turn counts as the session owner's.
    pub identity_id: Option<IdentityId>,
    /// Restricts the rows to calls of this tool and their results.
    pub tool: Option<Box<str>>,
    /// Restricts the rows to items of this agent.
    pub agent: Option<Box<str>>,
    /// Restricts the rows to items committed at this moment or later.
    pub since: Option<Timestamp>,
    /// Restricts the rows to items committed before this moment.
    pub until: Option<Timestamp>,
    /// The position at which the page begins; `None` for the first page.
    pub cursor: Option<AuditCursor>,
    /// The last commit that the rows include, so that paging ends although other callers write.
    pub last_commit: Option<u64>,
    /// The maximum number of rows, 1 or more.
    pub limit: usize,
}

impl AuditQuery {
    /// Whether the query includes items committed at this moment.
    fn covers(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Whether the query filters items by more than session and time.
    const fn filters_items(&self) -> bool {
        self.identity_id.is_some() || self.tool.is_some() || self.agent.is_some()
    }
}

/// Rows in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// The next page's cursor; `None` at the end.
    pub next: Option<AuditCursor>,
    /// The newest commit of the store.
    pub newest: u64,
}

impl Audit {
    /// A page of the audit: with a session its items by seq, otherwise those of all sessions in commit order. Each item has one
    /// row, or one row per call and result when it holds several. An erased session has one row, for its erasure.
    ///
    /// The cost of a page is bounded: it ends at about [`filrouge_store::rows::RECORDS_BYTES`] of items, 4,096 items or 8,192
    /// commits examined, and may then hold fewer rows than the limit, even none, and still have a `next`.
    ///
    /// Without a session, times are those of this store's commits: imported items are found by the time of their import. A clock
    /// that was set back by more than an hour can hide items written in that time from `since` and `until`.
    ///
    /// # Errors
    /// `session_not_found`; `invalid` for a cursor that this store did not issue; `integrity_error`, `key_missing`, and the
    /// ledger's.
    pub async fn page(&self, caller: &Caller, query: AuditQuery) -> Result<AuditPage, Failure> {
        let scope = &caller.scope(Permission::Audit)?;
        let scope = scope.clone();
        self.ledger
            .query(move |snapshot| walk::page(snapshot, &scope, &query))
            .await
    }
}

#[cfg(test)]
mod tests;

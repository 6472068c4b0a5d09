//! The audit: who said what, which tool was called with which parameters, by which agent and model, in order.
//!
//! It is read from the journal itself, verified as every read is: of one session by seq, of all by the feed of
//! changes, whose order of commits is the only one that sessions have in common.

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

/// Which rows of the audit a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// Only of this session, by seq.
    pub session_id: Option<SessionId>,
    /// Only of turns that this end user asked; what belongs to no turn is the session's owner's.
    pub identity_id: Option<IdentityId>,
    /// Only calls of this tool, and their results.
    pub tool: Option<Box<str>>,
    /// Only what this agent has said and done.
    pub agent: Option<Box<str>>,
    /// Only what was committed at this moment or later.
    pub since: Option<Timestamp>,
    /// Only what was committed before this moment.
    pub until: Option<Timestamp>,
    /// Where the page begins; the beginning if there is none.
    pub cursor: Option<AuditCursor>,
    /// Nothing of later commits: for who reads page after page while others write, and wants to come to an end.
    pub up_to: Option<u64>,
    /// At most so many rows, 1 or more.
    pub limit: usize,
}

impl AuditQuery {
    /// Whether what was committed at this moment is asked for.
    fn covers(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Whether some items have no row.
    const fn selects(&self) -> bool {
        self.identity_id.is_some() || self.tool.is_some() || self.agent.is_some()
    }
}

/// Rows in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<AuditCursor>,
    /// The newest commit that there was.
    pub newest: u64,
}

impl Audit {
    /// A page of the audit: with a session its items by seq, else those of all sessions in the order of commits; one
    /// row for each item, and one for each call and result where an item holds several. An erased session has one
    /// row, for its erasure.
    ///
    /// What one page costs is bounded: it ends at about [`filrouge_store::rows::RECORDS_BYTES`] of items, 4,096 items
    /// or 8,192 commits looked at, and may then hold fewer rows than asked for, even none, and still have a `next`.
    ///
    /// Without a session, times are those of the commits of this store: what was taken in from elsewhere is found by
    /// when that was. A clock that was set back by more than an hour can hide what was written meanwhile from
    /// `since` and `until`.
    ///
    /// # Errors
    /// `session_not_found`; `invalid` for a cursor that this store never gave; `integrity_error`, `key_missing`, and
    /// the ledger's.
    pub async fn page(&self, caller: &Caller, query: AuditQuery) -> Result<AuditPage, Failure> {
        let scope = &caller.scope(Permission::Audit)?;
        let scope = scope.clone();
        self.ledger
            .ask(move |sight| walk::page(sight, &scope, &query))
            .await
    }
}

#[cfg(test)]
mod tests;

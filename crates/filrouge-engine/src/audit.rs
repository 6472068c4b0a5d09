//! The audit: an ordered list of all items, with their authors, agents and models, and of all tool calls with their
//! parameters.
//!
//! The audit is read from the ledger itself, and every record is verified. One session is read in order of seq. All
//! sessions are read in the order of the change feed, because that is the only order that sessions share.

use std::collections::BTreeSet;

use filrouge_store::ledger::Position;
use filrouge_store::verify::Finding;
use filrouge_types::{Failure, IdentityId, SessionId, Timestamp};

use crate::caller::{Caller, Permission};
use crate::engine::Audit;
use crate::shared::to_json;

mod calls;
mod csv;
mod cursor;
mod kind;
mod page_reader;
mod parts;
mod row;

pub use cursor::AuditCursor;
pub use kind::AuditKind;
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
    /// Restricts the rows to those of this kind.
    pub kind: Option<AuditKind>,
    /// Restricts the rows to items committed at this moment or later.
    pub since: Option<Timestamp>,
    /// Restricts the rows to items committed before this moment.
    pub until: Option<Timestamp>,
    /// The position at which the page begins; `None` for the first page.
    pub cursor: Option<AuditCursor>,
    /// The newest commit of each lane that the rows include. Callers pass the first page's [`AuditPage::newest`] for
    /// all further pages, so that paging ends although others write.
    pub last_commit: Option<Position>,
    /// The maximum number of rows, 1 or more.
    pub limit: usize,
    /// The damaged sessions that earlier pages have named; the page does not name them again.
    pub named: BTreeSet<String>,
}

impl AuditQuery {
    /// Turns the query of `page` into the query of the page after it. If `page` is the last one, the cursor is `None`.
    pub fn continue_after(&mut self, page: AuditPage) {
        self.last_commit.get_or_insert(page.newest);
        let named = page.findings.into_iter();
        self.named
            .extend(named.filter_map(|finding| finding.session_id));
        self.cursor = page.next;
    }

    /// Whether the query includes items committed at this moment.
    fn includes_time(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Whether the query filters items by more than session and time.
    const fn filters_items(&self) -> bool {
        self.kind.is_some() || self.filters_authors()
    }

    /// Whether the query filters items by their author or tool.
    const fn filters_authors(&self) -> bool {
        self.identity_id.is_some() || self.tool.is_some() || self.agent.is_some()
    }

    /// Whether the query includes rows of this kind.
    fn includes_kind(&self, kind: AuditKind) -> bool {
        self.kind.is_none_or(|expected| expected == kind)
    }
}

/// One page of rows, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// The next page's cursor; `None` if this is the last page.
    pub next: Option<AuditCursor>,
    /// The newest commit of each lane that the rows include: the query's `last_commit`, or the store's newest ones.
    pub newest: Position,
    /// The damaged sessions of which the page lacks items, except those in [`AuditQuery::named`].
    pub findings: Vec<Finding>,
}

impl Audit {
    /// A page of the audit. If the query names a session, the page has that session's items in order of seq; otherwise
    /// it has the items of all sessions in the order of the change feed. Each item has one row, or one row per call and result when
    /// it contains several. An erased session has one row, for its erasure.
    ///
    /// The cost of a page is bounded: after examining about [`filrouge_store::rows::RECORDS_BYTES`] of items, 4,096
    /// items or 8,192 commits, the page ends. It may then have fewer rows than the limit, even none, and still a
    /// `next`.
    ///
    /// If the query names no session, `since` and `until` are compared with the time of this store's commit, which for
    /// imported items is the time of the import. If a clock was set back by more than an hour, `since` and `until` can
    /// miss items written in that time.
    ///
    /// A page of all sessions leaves out damaged items, and names their sessions.
    ///
    /// # Errors
    /// `session_not_found`; `invalid` for a cursor that this store did not issue; `integrity_error` if the session that
    /// the query names is damaged, or more than 100 sessions are; `key_missing`, and the ledger's.
    pub async fn page(&self, caller: &Caller, query: AuditQuery) -> Result<AuditPage, Failure> {
        let scope = caller.scope(Permission::Audit)?;
        let viewer = scope.clone();
        self.ledger
            .query_listed(&viewer, move |snapshot| {
                page_reader::read_page(snapshot, &scope, &query)
            })
            .await
    }

    /// The rows by which an output that consists only of rows names the damaged sessions of a page, one for each
    /// finding. Their time is the current one.
    ///
    /// # Errors
    /// `internal` when a finding cannot be serialized.
    pub fn damage_rows(&self, findings: &[Finding]) -> Result<Vec<AuditRow>, Failure> {
        let at = self.clock.now();
        let rows = findings.iter().filter_map(|finding| {
            let session = SessionId::new(finding.session_id.as_deref()?).ok()?;
            Some(to_json(finding).map(|json| AuditRow::of_damage(session, at, &json)))
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests;

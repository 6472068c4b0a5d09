//! The change feed: all commits in order. No commit is ever inserted before one that a reader has seen (DESIGN §10).
//!
//! A commit gets its number inside its transaction, and transactions write one at a time. So a reader that has seen
//! commit n has seen all earlier commits.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};
use serde::Serialize;

use super::VerifiedSnapshot;
use crate::command::Scope;
use crate::record::MacCheck;
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

mod search;

/// The number of commits per read.
const COMMITS: usize = 256;
/// The maximum number of commits that one page examines. It limits the cost of a page whose reader may see few of their
/// changes.
const COMMITS_MAX: u64 = 8192;

/// A position in the feed: after some changes of a commit, or after all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeCursor {
    /// The number of the commit; 0 is the beginning.
    pub commit_no: u64,
    /// The number of the commit's changes that precede the position; `None` if all of them do.
    pub preceding: Option<usize>,
}

impl ChangeCursor {
    /// The position after all changes of a commit.
    #[must_use]
    pub const fn after_commit(commit_no: u64) -> Self {
        Self {
            commit_no,
            preceding: None,
        }
    }
}

impl Ord for ChangeCursor {
    fn cmp(&self, other: &Self) -> Ordering {
        // The position after all changes of a commit follows every position within it.
        let order = |c: &Self| (c.commit_no, c.preceding.unwrap_or(usize::MAX));
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for ChangeCursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.preceding {
            Some(preceding) => write!(f, "{}.{preceding}", self.commit_no),
            None => write!(f, "{}", self.commit_no),
        }
    }
}

impl FromStr for ChangeCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let read = || {
            let (commit, preceding) = match text.split_once('.') {
                Some((commit, preceding)) => (commit, Some(preceding.parse().ok()?)),
                None => (text, None),
            };
            let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let commit_no = commit.parse().ok().filter(|_| digits)?;
            Some(Self {
                commit_no,
                preceding,
            })
        };
        read().ok_or_else(|| no_cursor(text))
    }
}

fn no_cursor(text: impl fmt::Debug) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("{text:?} is no cursor of this feed"),
    )
    .with_hint("pass a next_cursor unchanged, or leave it out to begin with the first change")
}

/// The kind of change of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The session was created, possibly with items.
    Created,
    /// Items were added; their kinds show what was done.
    Items,
    /// Its title, status, state, project or metadata were changed.
    Patched,
    /// It was erased.
    Erased,
    /// An event was recorded.
    Event,
    /// A checkpoint was written.
    Checkpoint,
}

/// A change of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionChange {
    /// The position after this change, unique in the feed: pass it as `after`.
    #[cfg_attr(feature = "openapi", schema(example = "42"))]
    pub cursor: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The session.
    pub session_id: SessionId,
    /// The first added seq, if items were added.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub first_seq: Option<u64>,
    /// The last added seq, if items were added.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub last_seq: Option<u64>,
    /// The store's time of the commit.
    pub at: Timestamp,
}

/// A page of changes in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePage {
    /// The changes that the reader may see.
    pub data: Vec<SessionChange>,
    /// The position at which to continue, even if the page is empty.
    pub next: ChangeCursor,
    /// Whether more commits exist already.
    pub more: bool,
}

/// The sessions of a page, so that each is looked up only once: the session's id, or `None` if the reader may not see
/// its changes.
type Seen = BTreeMap<SessionPk, Option<SessionId>>;

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The changes after `after` in sessions that `scope` lists, at most `limit`.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never issued; `integrity_error`, `key_missing`.
    pub fn changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage, Failure> {
        self.suspects.check_listing(&scope.tenant, &scope.viewer)?;
        let mut previous = self.commit_before(after)?;
        let mut page = ChangePage {
            data: Vec::new(),
            next: after,
            more: false,
        };
        let mut seen = Seen::new();
        loop {
            let rows = self.view.log(number(previous.as_ref()), COMMITS)?;
            let exhausted = rows.len() < COMMITS;
            for row in rows {
                let full = row.commit_no - after.commit_no > COMMITS_MAX;
                if full || page.data.len() >= limit {
                    page.more = true;
                    return Ok(page);
                }
                let entries = self.entries(&row, previous.as_ref())?;
                let skip = match after.preceding {
                    Some(preceding) if row.commit_no == after.commit_no => {
                        within(after, preceding, entries.len())?
                    }
                    _ => 0,
                };
                for (index, entry) in entries.iter().enumerate().skip(skip) {
                    if page.data.len() >= limit {
                        page.more = true;
                        return Ok(page);
                    }
                    page.next.commit_no = row.commit_no;
                    page.next.preceding = Some(index + 1).filter(|n| *n < entries.len());
                    let change = self.change(scope, &row, entry, page.next, &mut seen)?;
                    page.data.extend(change);
                }
                page.next = ChangeCursor::after_commit(row.commit_no);
                previous = Some(row);
            }
            if exhausted {
                return Ok(page);
            }
        }
    }

    /// The commit before the first one to read. The commit that the cursor names must exist.
    fn commit_before(&self, after: ChangeCursor) -> Result<Option<LogRow>, Failure> {
        let first = match (after.commit_no, after.preceding) {
            (0, None) => return Ok(None),
            (0, Some(_)) => return Err(no_cursor(after.to_string())),
            (n, None) => n,
            (n, Some(_)) => n.saturating_sub(1).max(1),
        };
        let rows = self.view.log(first - 1, 2)?;
        if rows.iter().all(|row| row.commit_no != after.commit_no) {
            return Err(no_cursor(after.to_string()));
        }
        let previous_no = after.commit_no - u64::from(after.preceding.is_some());
        Ok(rows.into_iter().find(|row| row.commit_no == previous_no))
    }

    /// The entries of a commit, which must be the next one after `previous`.
    ///
    /// # Errors
    /// `integrity_error` when the commit was changed; `key_missing`.
    pub fn entries(
        &self,
        row: &LogRow,
        previous: Option<&LogRow>,
    ) -> Result<Vec<LogEntry>, Failure> {
        let broken =
            |code, what: &str| Failure::new(code, format!("commit {} {what}", row.commit_no));
        match row.follows(previous, self.keyring) {
            _ if self.check == MacCheck::Unverified => {}
            Some(true) => {}
            Some(false) => return Err(broken(ErrorCode::IntegrityError, "was changed")),
            None => {
                return Err(broken(
                    ErrorCode::KeyMissing,
                    "was written with an unknown key",
                ));
            }
        }
        let entries = row.entries();
        entries.ok_or_else(|| broken(ErrorCode::IntegrityError, "is malformed"))
    }

    /// The change that an entry of a commit describes. `None` if the feed does not show such changes, or if the caller
    /// may not see the session.
    fn change(
        &self,
        scope: &Scope,
        row: &LogRow,
        entry: &LogEntry,
        position: ChangeCursor,
        seen: &mut Seen,
    ) -> Result<Option<SessionChange>, Failure> {
        let kind = match entry.change {
            Change::Items => ChangeKind::Items,
            Change::Created(..) => ChangeKind::Created,
            Change::Patched => ChangeKind::Patched,
            Change::Erased => ChangeKind::Erased,
            Change::Event => ChangeKind::Event,
            Change::Checkpoint => ChangeKind::Checkpoint,
            Change::Note(_) | Change::Draft | Change::Lease => return Ok(None),
        };
        let session = match seen.get(&entry.pk) {
            Some(known) => known.clone(),
            None => {
                let known = self.listed(scope, entry.pk)?;
                seen.insert(entry.pk, known.clone());
                known
            }
        };
        Ok(session.map(|session_id| SessionChange {
            cursor: position.to_string(),
            kind,
            session_id,
            first_seq: (entry.count > 0).then_some(entry.first_seq),
            last_seq: (entry.count > 0).then(|| entry.first_seq + entry.count - 1),
            at: row.at,
        }))
    }

    /// The session's id if the caller may see its changes.
    fn listed(&self, scope: &Scope, pk: SessionPk) -> Result<Option<SessionId>, Failure> {
        // A suspect session of this tenant would have failed the listing check, so this one belongs to another tenant.
        if self.suspects.holds(pk) {
            return Ok(None);
        }
        let Some(stored) = self.view.session_by_pk(pk)? else {
            let what = format!("session number {pk} is missing");
            return Err(Failure::new(ErrorCode::IntegrityError, what));
        };
        if stored.row.tenant_id != scope.tenant {
            return Ok(None);
        }
        let session = self.load(stored)?;
        let shown = match &session.row.erased {
            Some(erased) => self.lists_erased(scope, erased),
            None => scope.lists(&session.row),
        };
        Ok(shown.then_some(session.row.session_id))
    }
}

fn number(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |r| r.commit_no)
}

/// Checks that some, but not all, changes of a commit precede a cursor within it; returns their number.
fn within(after: ChangeCursor, preceding: usize, all: usize) -> Result<usize, Failure> {
    if preceding == 0 || preceding >= all {
        return Err(no_cursor(after.to_string()));
    }
    Ok(preceding)
}

//! The change feed: all commits in order. No commit is ever inserted before one that a reader has read (DESIGN §10).
//!
//! A commit gets its number inside its transaction, and only one transaction writes at a time. So a reader that has
//! read commit n has read all earlier commits.

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
/// The maximum number of commits that one page examines. It limits the cost of a page if the reader may see few of the
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
        let sort_key = |c: &Self| (c.commit_no, c.preceding.unwrap_or(usize::MAX));
        sort_key(self).cmp(&sort_key(other))
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
        let parse = || {
            let (commit, preceding) = match text.split_once('.') {
                Some((commit, preceding)) => (commit, Some(preceding.parse().ok()?)),
                None => (text, None),
            };
            let has_only_digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let commit_no = commit.parse().ok().filter(|_| has_only_digits)?;
            Some(Self {
                commit_no,
                preceding,
            })
        };
        parse().ok_or_else(|| invalid_cursor(text))
    }
}

fn invalid_cursor(text: impl fmt::Debug) -> Failure {
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

/// The sessions of a page, cached so that each is looked up only once: the session's id, or `None` if the reader may
/// not see its changes.
type SessionCache = BTreeMap<SessionPk, Option<SessionId>>;

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
        let mut sessions = SessionCache::new();
        loop {
            let rows = self.view.log(commit_no(previous.as_ref()), COMMITS)?;
            let exhausted = rows.len() < COMMITS;
            for row in rows {
                let is_full = row.commit_no - after.commit_no > COMMITS_MAX;
                if is_full || page.data.len() >= limit {
                    page.more = true;
                    return Ok(page);
                }
                let entries = self.entries(&row, previous.as_ref())?;
                let skip = match after.preceding {
                    Some(preceding) if row.commit_no == after.commit_no => {
                        check_within_commit(after, preceding, entries.len())?
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
                    let change = self.change(scope, &row, entry, page.next, &mut sessions)?;
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

    /// The commit before the first one that the page reads. Fails if the commit that the cursor names does not exist.
    fn commit_before(&self, after: ChangeCursor) -> Result<Option<LogRow>, Failure> {
        let first = match (after.commit_no, after.preceding) {
            (0, None) => return Ok(None),
            (0, Some(_)) => return Err(invalid_cursor(after.to_string())),
            (n, None) => n,
            (n, Some(_)) => n.saturating_sub(1).max(1),
        };
        let rows = self.view.log(first - 1, 2)?;
        if rows.iter().all(|row| row.commit_no != after.commit_no) {
            return Err(invalid_cursor(after.to_string()));
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
        let refuse =
            |code, detail: &str| Failure::new(code, format!("commit {} {detail}", row.commit_no));
        match row.follows(previous, self.keyring) {
            _ if self.check == MacCheck::Unverified => {}
            Some(true) => {}
            Some(false) => return Err(refuse(ErrorCode::IntegrityError, "was changed")),
            None => {
                return Err(refuse(
                    ErrorCode::KeyMissing,
                    "was written with an unknown key",
                ));
            }
        }
        let entries = row.entries();
        entries.ok_or_else(|| refuse(ErrorCode::IntegrityError, "is malformed"))
    }

    /// The change that an entry of a commit describes. `None` if the feed does not show such changes, or if the caller
    /// may not see the session.
    fn change(
        &self,
        scope: &Scope,
        row: &LogRow,
        entry: &LogEntry,
        position: ChangeCursor,
        sessions: &mut SessionCache,
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
        let session = match sessions.get(&entry.pk) {
            Some(cached) => cached.clone(),
            None => {
                let session_id = self.visible_session(scope, entry.pk)?;
                sessions.insert(entry.pk, session_id.clone());
                session_id
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
    fn visible_session(&self, scope: &Scope, pk: SessionPk) -> Result<Option<SessionId>, Failure> {
        // A suspect session of this tenant would have failed the listing check, so this one belongs to another tenant.
        if self.suspects.contains_session(pk) {
            return Ok(None);
        }
        let Some(stored) = self.view.session_by_pk(pk)? else {
            let detail = format!("session number {pk} is missing");
            return Err(Failure::new(ErrorCode::IntegrityError, detail));
        };
        if stored.row.tenant_id != scope.tenant {
            return Ok(None);
        }
        let session = self.verified_session(stored)?;
        let is_visible = match &session.row.erased {
            Some(erased) => self.can_list_erased(scope, erased),
            None => scope.can_list(&session.row),
        };
        Ok(is_visible.then_some(session.row.session_id))
    }
}

fn commit_no(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |r| r.commit_no)
}

/// Checks that some, but not all, changes of a commit precede a cursor within it; returns their number.
fn check_within_commit(
    after: ChangeCursor,
    preceding: usize,
    total: usize,
) -> Result<usize, Failure> {
    if preceding == 0 || preceding >= total {
        return Err(invalid_cursor(after.to_string()));
    }
    Ok(preceding)
}

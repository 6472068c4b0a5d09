//! The change feed: every commit, in the order of commits, which no late one can come before (DESIGN §10).
//!
//! A commit gets its number inside its transaction, and one transaction writes at a time; so whoever has seen commit
//! n has seen all before it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use filrouge_types::{ErrorCode, Failure, SessionId, Timestamp};
use serde::Serialize;

use super::Sight;
use crate::command::Scope;
use crate::record::Check;
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};

mod search;

/// Commits read at once.
const COMMITS: usize = 256;
/// Most commits that one page looks at: bounds what a page costs whose reader sees little of them.
const COMMITS_MAX: u64 = 8192;

/// A place in the feed: behind some changes of a commit, or behind all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeCursor {
    /// The commit; 0 is the beginning.
    pub commit_no: u64,
    /// How many of its changes are behind; `None` for all.
    pub taken: Option<usize>,
}

impl ChangeCursor {
    /// Behind a whole commit.
    #[must_use]
    pub const fn behind(commit_no: u64) -> Self {
        Self {
            commit_no,
            taken: None,
        }
    }
}

impl Ord for ChangeCursor {
    fn cmp(&self, other: &Self) -> Ordering {
        // Behind all changes of a commit is behind any number of them.
        let place = |c: &Self| (c.commit_no, c.taken.unwrap_or(usize::MAX));
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for ChangeCursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.taken {
            Some(taken) => write!(f, "{}.{taken}", self.commit_no),
            None => write!(f, "{}", self.commit_no),
        }
    }
}

impl FromStr for ChangeCursor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let read = || {
            let (commit, taken) = match text.split_once('.') {
                Some((commit, taken)) => (commit, Some(taken.parse().ok()?)),
                None => (text, None),
            };
            let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let commit_no = commit.parse().ok().filter(|_| digits)?;
            Some(Self { commit_no, taken })
        };
        read().ok_or_else(|| no_cursor(text))
    }
}

fn no_cursor(text: impl fmt::Debug) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("{text:?} is no cursor of this feed"),
    )
    .with_hint("pass a next_cursor as it came, or leave it out to begin with the first change")
}

/// What happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was made, perhaps with items.
    Created,
    /// Items were added: what they are tells what was done.
    Items,
    /// Its title, status, state, project or metadata were changed.
    Patched,
    /// It was erased.
    Erased,
    /// An event was recorded.
    Event,
    /// A checkpoint was put.
    Checkpoint,
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionChange {
    /// The place behind this change, which no other has: what `after` takes.
    #[cfg_attr(feature = "openapi", schema(example = "42"))]
    pub cursor: String,
    /// What happened.
    pub kind: ChangeKind,
    /// The session.
    pub session_id: SessionId,
    /// The first seq that was added, if any was.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub first_seq: Option<u64>,
    /// The last seq that was added, if any was.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub last_seq: Option<u64>,
    /// The store's time of the commit.
    pub at: Timestamp,
}

/// Changes in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePage {
    /// The changes that the reader may see.
    pub data: Vec<SessionChange>,
    /// Where to go on, also when there was nothing to see.
    pub next: ChangeCursor,
    /// Whether more commits are there already.
    pub more: bool,
}

/// The sessions of a page, looked up once: their names, for those that the reader may see.
type Seen = BTreeMap<SessionPk, Option<SessionId>>;

impl<V: View + ?Sized> Sight<'_, V> {
    /// The changes behind `after` in sessions that `scope` lists, at most `limit`.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never gave; `integrity_error`, `key_missing`.
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
                let skip = match after.taken {
                    Some(taken) if row.commit_no == after.commit_no => {
                        within(after, taken, entries.len())?
                    }
                    _ => 0,
                };
                for (index, entry) in entries.iter().enumerate().skip(skip) {
                    if page.data.len() >= limit {
                        page.more = true;
                        return Ok(page);
                    }
                    page.next.commit_no = row.commit_no;
                    page.next.taken = Some(index + 1).filter(|n| *n < entries.len());
                    let change = self.change(scope, &row, entry, page.next, &mut seen)?;
                    page.data.extend(change);
                }
                page.next = ChangeCursor::behind(row.commit_no);
                previous = Some(row);
            }
            if exhausted {
                return Ok(page);
            }
        }
    }

    /// The commit that the first one to be read follows; the one that the cursor names must be there.
    fn commit_before(&self, after: ChangeCursor) -> Result<Option<LogRow>, Failure> {
        let first = match (after.commit_no, after.taken) {
            (0, None) => return Ok(None),
            (0, Some(_)) => return Err(no_cursor(after.to_string())),
            (n, None) => n,
            (n, Some(_)) => n.saturating_sub(1).max(1),
        };
        let rows = self.view.log(first - 1, 2)?;
        if rows.iter().all(|row| row.commit_no != after.commit_no) {
            return Err(no_cursor(after.to_string()));
        }
        let behind = after.commit_no - u64::from(after.taken.is_some());
        Ok(rows.into_iter().find(|row| row.commit_no == behind))
    }

    /// What a commit has touched, when it is the one that follows `previous`.
    ///
    /// # Errors
    /// `integrity_error` when it was changed; `key_missing`.
    pub fn entries(
        &self,
        row: &LogRow,
        previous: Option<&LogRow>,
    ) -> Result<Vec<LogEntry>, Failure> {
        let broken =
            |code, what: &str| Failure::new(code, format!("commit {} {what}", row.commit_no));
        match row.follows(previous, self.keyring) {
            _ if self.check == Check::Unverified => {}
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

    fn change(
        &self,
        scope: &Scope,
        row: &LogRow,
        entry: &LogEntry,
        behind: ChangeCursor,
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
            cursor: behind.to_string(),
            kind,
            session_id,
            first_seq: (entry.count > 0).then_some(entry.first_seq),
            last_seq: (entry.count > 0).then(|| entry.first_seq + entry.count - 1),
            at: row.at,
        }))
    }

    /// The session's name, if its changes are the caller's to see.
    fn listed(&self, scope: &Scope, pk: SessionPk) -> Result<Option<SessionId>, Failure> {
        // Those of this tenant have kept the feed from being shown: it is another's.
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

/// How many changes of its commit a cursor has behind it: some, but not all.
fn within(after: ChangeCursor, taken: usize, all: usize) -> Result<usize, Failure> {
    if taken == 0 || taken >= all {
        return Err(no_cursor(after.to_string()));
    }
    Ok(taken)
}

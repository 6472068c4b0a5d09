//! The change feed: the commits of all lanes, each lane's in order. No commit of a lane is ever inserted before one that
//! a reader has read (DESIGN §10).
//!
//! A commit gets its number inside its transaction, and only one transaction at a time writes to a lane. So a reader
//! that has read commit n of a lane has read all earlier commits of the lane. The commits of different lanes are shown
//! by their times, but only the positions in the lanes decide what a reader has read.

use std::collections::{BTreeMap, VecDeque};

use filrouge_types::{ErrorCode, Failure, Result, SessionId, Timestamp};
use serde::Serialize;

use super::{Findings, VerifiedSnapshot};
use crate::command::Scope;
use crate::lane::Lane;
use crate::record::MacCheck;
use crate::rows::{Change, LogEntry, LogRow, SessionPk, View};
use crate::verify::{DELETED, Finding};

mod cursor;
mod search;

use cursor::invalid_cursor;
pub use cursor::{ChangeCursor, ChangeId, LaneCursor};

/// The number of commits per read, divided among the lanes. With more than 16 lanes, [`COMMITS_OF_LANE`] raises the
/// total.
const COMMITS: usize = 256;
/// The minimum number of commits of a lane per read.
const COMMITS_OF_LANE: usize = 16;
/// The maximum number of commits that one page examines. It limits the cost of a page if the reader may see few of the
/// changes.
const COMMITS_MAX: u64 = 8192;

/// The kind of change of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SessionChange {
    /// The position after this change: pass it as `after`.
    #[schema(example = "42")]
    pub cursor: String,
    /// Identifies the change: `LANE-COMMIT.INDEX`. The same change always has the same id, whereas its cursor depends on
    /// what was read before it.
    #[schema(value_type = String, example = "0-42.0")]
    pub id: ChangeId,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The session.
    pub session_id: SessionId,
    /// The first added seq, if items were added.
    #[schema(required)]
    pub first_seq: Option<u64>,
    /// The last added seq, if items were added.
    #[schema(required)]
    pub last_seq: Option<u64>,
    /// The store's time of the commit.
    pub at: Timestamp,
    /// The number of the recorded event, if an event was recorded.
    #[serde(skip)]
    pub event: Option<u64>,
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
    /// The damaged sessions whose changes are left out; always empty for readers that refuse them.
    pub findings: Vec<Finding>,
}

/// The sessions of a page, cached so that each is looked up only once.
struct SessionCache<'f> {
    /// The session's id, or `None` if the reader may not see its changes.
    found: BTreeMap<SessionPk, Option<SessionId>>,
    /// Receives damaged sessions; `None` if they are refused.
    findings: Option<&'f mut Findings>,
}

/// Reads the commits of one lane in order.
struct LaneReader {
    lane: Lane,
    /// The commit before the next one.
    previous: Option<LogRow>,
    /// The commits that were read and not examined.
    rows: VecDeque<LogRow>,
    /// Whether the lane has no further commits.
    is_exhausted: bool,
    /// The position up to which changes are read; `None` for all.
    end: Option<LaneCursor>,
}

/// A commit whose changes are added to a page.
struct ExaminedCommit<'a> {
    row: &'a LogRow,
    entries: &'a [LogEntry],
    /// The position in this commit up to which its changes are added.
    end: Option<LaneCursor>,
}

/// The number of commits per read of one lane.
fn commits_per_read<V: View + ?Sized>(view: &V) -> usize {
    (COMMITS / usize::from(view.lanes().count())).max(COMMITS_OF_LANE)
}

/// A page after `cursor` begins with some commit. Returns the number of the commit before it, whose link is needed to
/// verify it. `None` for a cursor that no store issues.
fn previous_no(cursor: LaneCursor) -> Option<u64> {
    let is_within_commit = u64::from(cursor.preceding.is_some());
    cursor.commit_no.checked_sub(is_within_commit)
}

/// Readers of the commits that a page after `after` examines. Fails if a commit that the cursor names does not exist.
fn lane_readers<V: View + ?Sized>(
    view: &V,
    after: &ChangeCursor,
    end: Option<&ChangeCursor>,
) -> Result<Vec<LaneReader>> {
    let refuse = || invalid_cursor(after.to_string());
    let starts = view.lanes().iter().map(|lane| {
        let previous_no = previous_no(after.lane(lane)).ok_or_else(refuse)?;
        Ok((lane, previous_no.saturating_sub(1)))
    });
    let starts = starts.collect::<Result<Vec<_>>>()?;
    let limit = commits_per_read(view);
    let logs = view.logs(&starts, limit)?;
    let readers = starts.into_iter().zip(logs).map(|((lane, _), rows)| {
        let cursor = after.lane(lane);
        let is_cursor = |row: &LogRow| row.commit_no == cursor.commit_no;
        if cursor.commit_no > 0 && !rows.iter().any(is_cursor) {
            return Err(refuse());
        }
        let is_exhausted = rows.len() < limit;
        let mut rows = VecDeque::from(rows);
        let is_previous = |row: &LogRow| Some(row.commit_no) == previous_no(cursor);
        Ok(LaneReader {
            lane,
            previous: rows.pop_front_if(|row| is_previous(row)),
            rows,
            is_exhausted,
            end: end.map(|end| end.lane(lane)),
        })
    });
    readers.collect()
}

impl LaneReader {
    /// The next commit of the lane, up to the end.
    fn peek<V: View + ?Sized>(&mut self, view: &V) -> Result<Option<&LogRow>> {
        if self.rows.is_empty() && !self.is_exhausted {
            let (after, limit) = (commit_no(self.previous.as_ref()), commits_per_read(view));
            self.rows = view.log(self.lane, after, limit)?.into();
            self.is_exhausted = self.rows.len() < limit;
        }
        let is_included = |row: &&LogRow| self.end.is_none_or(|end| row.commit_no <= end.commit_no);
        Ok(self.rows.front().filter(is_included))
    }
}

/// The reader of the lane whose next commit has the earliest time; of several, the first one. `None` if no lane has
/// a further commit.
fn earliest<'r, V: View + ?Sized>(
    view: &V,
    readers: &'r mut [LaneReader],
) -> Result<Option<&'r mut LaneReader>> {
    let mut earliest: Option<(Timestamp, &mut LaneReader)> = None;
    for reader in readers {
        if let Some(at) = reader.peek(view)?.map(|row| row.at)
            && earliest.as_ref().is_none_or(|(earliest, _)| at < *earliest)
        {
            earliest = Some((at, reader));
        }
    }
    Ok(earliest.map(|(_, reader)| reader))
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The changes after `after` in sessions that `scope` lists, at most `limit`. With `end`, only those up to this
    /// position, which a page has returned: then pages from `after` on contain the same changes whenever they are read.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never issued; `integrity_error`, `key_missing`.
    pub fn changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        end: Option<&ChangeCursor>,
        limit: usize,
    ) -> Result<ChangePage> {
        self.check_listing(scope)?;
        self.change_page(scope, after, end, limit, None)
    }

    /// As [`Self::changes`], but leaves out the changes of damaged sessions, and adds these sessions to `findings`.
    /// Nothing else can be missing: the commits name the changed sessions.
    ///
    /// # Errors
    /// As [`Self::changes`], if it is unknown whether `scope` lists a damaged session.
    pub fn list_changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        end: Option<&ChangeCursor>,
        limit: usize,
        findings: &mut Findings,
    ) -> Result<ChangePage> {
        self.suspects.check_store()?;
        self.change_page(scope, after, end, limit, Some(findings))
    }

    fn change_page(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        end: Option<&ChangeCursor>,
        limit: usize,
        findings: Option<&mut Findings>,
    ) -> Result<ChangePage> {
        after.check_lanes(self.view.lanes())?;
        let mut readers = lane_readers(self.view, &after, end)?;
        let mut page = ChangePage {
            data: Vec::new(),
            next: after,
            more: false,
            findings: Vec::new(),
        };
        let mut sessions = SessionCache {
            found: BTreeMap::new(),
            findings,
        };
        let mut commits = 0;
        while let Some(reader) = earliest(self.view, &mut readers)? {
            if commits == COMMITS_MAX || page.data.len() >= limit {
                page.more = true;
                break;
            }
            let Some(row) = reader.rows.pop_front() else {
                break;
            };
            let entries = self.entries(&row, reader.previous.as_ref())?;
            let commit = ExaminedCommit {
                row: &row,
                entries: &entries,
                // An end within the commit excludes its last changes.
                end: reader.end.filter(|end| end.commit_no == row.commit_no),
            };
            if !self.add_changes(scope, &commit, &mut page, limit, &mut sessions)? {
                page.more = true;
                break;
            }
            reader.previous = Some(row);
            commits += 1;
        }
        Ok(page)
    }

    /// Adds the changes of a commit to a page, after the page's position, and advances the position. Returns whether
    /// all of them fit.
    fn add_changes(
        &self,
        scope: &Scope,
        commit: &ExaminedCommit<'_>,
        page: &mut ChangePage,
        limit: usize,
        sessions: &mut SessionCache<'_>,
    ) -> Result<bool> {
        let ExaminedCommit { row, entries, end } = *commit;
        let end = end.and_then(|end| end.preceding).unwrap_or(entries.len());
        let before = page.next.lane(row.lane);
        let skip = match before.preceding {
            Some(preceding) if row.commit_no == before.commit_no => {
                check_within_commit(&page.next, preceding, entries.len())?
            }
            _ => 0,
        };
        for (index, entry) in entries.iter().enumerate().take(end).skip(skip) {
            if page.data.len() >= limit {
                return Ok(false);
            }
            let cursor = LaneCursor {
                commit_no: row.commit_no,
                preceding: Some(index + 1).filter(|n| *n < entries.len()),
            };
            page.next.set(row.lane, cursor);
            let change = self.change(scope, row, (index, entry), &page.next, sessions)?;
            page.data.extend(change);
        }
        if end >= entries.len() {
            page.next
                .set(row.lane, LaneCursor::after_commit(row.commit_no));
        }
        Ok(true)
    }

    /// The entries of a commit, which must be the next one after `previous`.
    ///
    /// # Errors
    /// `integrity_error` when the commit was changed; `key_missing`.
    pub fn entries(&self, row: &LogRow, previous: Option<&LogRow>) -> Result<Vec<LogEntry>> {
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
        (index, entry): (usize, &LogEntry),
        position: &ChangeCursor,
        sessions: &mut SessionCache<'_>,
    ) -> Result<Option<SessionChange>> {
        let kind = match entry.change {
            Change::Items | Change::Linked(_) => ChangeKind::Items,
            Change::Created(..) => ChangeKind::Created,
            Change::Patched => ChangeKind::Patched,
            Change::Erased => ChangeKind::Erased,
            Change::Event => ChangeKind::Event,
            Change::Checkpoint => ChangeKind::Checkpoint,
            Change::Note(_) | Change::Draft | Change::Lease => return Ok(None),
        };
        let session = match sessions.found.get(&entry.pk) {
            Some(cached) => cached.clone(),
            None => {
                let session_id = match &mut sessions.findings {
                    Some(findings) => self.visible_or_found(scope, entry.pk, findings)?,
                    None => self.visible_session(scope, entry.pk)?,
                };
                sessions.found.insert(entry.pk, session_id.clone());
                session_id
            }
        };
        Ok(session.map(|session_id| SessionChange {
            cursor: position.to_string(),
            id: ChangeId {
                lane: row.lane,
                commit_no: row.commit_no,
                index,
            },
            kind,
            session_id,
            first_seq: (entry.count > 0).then_some(entry.first_seq),
            last_seq: (entry.count > 0).then(|| entry.first_seq + entry.count - 1),
            at: row.at,
            event: (kind == ChangeKind::Event).then_some(entry.first_seq),
        }))
    }

    /// The session's id if the caller may see its changes.
    pub(super) fn visible_session(
        &self,
        scope: &Scope,
        pk: SessionPk,
    ) -> Result<Option<SessionId>> {
        // The listing check would have failed for a suspect session that the caller may list.
        if self.suspects.contains_session(pk) {
            return Ok(None);
        }
        let Some(stored) = self.view.session_by_pk(pk)? else {
            return self.unreadable_session(scope, pk, DELETED);
        };
        if stored.row.tenant_id != scope.tenant {
            // Somebody may have changed the tenant in the row.
            return match self.verified_session(stored) {
                Ok(_) => Ok(None),
                Err(failure) => match failure.code {
                    ErrorCode::IntegrityError | ErrorCode::KeyMissing => {
                        self.unreadable_session(scope, pk, "its row was changed")
                    }
                    _ => Err(failure),
                },
            };
        }
        let session = self.verified_session(stored)?;
        let is_visible = match &session.row.erased {
            Some(erased) => self.can_list_owner(scope, &erased.owner),
            None => scope.can_list(&session.row),
        };
        Ok(is_visible.then_some(session.row.session_id))
    }

    /// Fails for a session without a row that fits, unless the commit log says that it is another tenant's; then `None`.
    fn unreadable_session(
        &self,
        scope: &Scope,
        pk: SessionPk,
        detail: &str,
    ) -> Result<Option<SessionId>> {
        let logged = self
            .heads
            .find_in_log(self.view, self.keyring, pk, detail)?;
        match logged {
            Some(((tenant, id), _)) if tenant == scope.tenant => {
                Err(Failure::integrity(id.as_str(), None, detail))
            }
            Some(_) => Ok(None),
            None => {
                let detail = format!("session number {pk} is missing");
                Err(Failure::new(ErrorCode::IntegrityError, detail))
            }
        }
    }
}

fn commit_no(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |r| r.commit_no)
}

/// Checks that some, but not all, changes of a commit precede a cursor within it; returns their number.
fn check_within_commit(after: &ChangeCursor, preceding: usize, total: usize) -> Result<usize> {
    if preceding == 0 || preceding >= total {
        return Err(invalid_cursor(after.to_string()));
    }
    Ok(preceding)
}

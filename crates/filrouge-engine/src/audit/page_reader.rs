//! Reads one page of the audit.

use std::collections::BTreeMap;
use std::rc::Rc;

use filrouge_store::command::{Erased, Scope};
use filrouge_store::ledger::{LanePosition, Position};
use filrouge_store::read::{
    ChangeCursor, ChangeKind, Findings, SessionChange, SessionOrTombstone, VerifiedSession,
    VerifiedSnapshot, in_session, session_not_found,
};
use filrouge_store::record::{RecordFaultKind, StartEvent};
use filrouge_store::rows::{RECORDS_BYTES, View};
use filrouge_types::{ErrorCode, Result, SessionId, Timestamp, TurnId};

use super::calls::CallIndex;
use super::cursor::AuditPosition;
use super::{AuditCursor, AuditKind, AuditPage, AuditQuery, AuditRow};

mod event;
mod item;

/// The maximum number of commits, and of items, that a page examines.
const COMMITS_MAX: u64 = 8192;
const ITEMS_MAX: usize = 4096;
/// The number of changes, and of items, that one query reads.
const CHANGES_PER_READ: usize = 256;
const ITEMS_PER_READ: usize = 64;
/// The maximum number of cached sessions and turns.
const CACHE_MAX: usize = 64;
/// The largest backward jump of a clock at which `since` and `until` still miss no item, in microseconds.
const CLOCK_JUMP_MAX: i64 = 3_600_000_000;

/// Reads a page.
pub(super) fn read_page<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    query: &AuditQuery,
) -> Result<AuditPage> {
    let newest = match &query.last_commit {
        Some(last_commit) => last_commit.clone(),
        None => newest_commits(snapshot.view)?,
    };
    let mut reader = PageReader {
        snapshot,
        scope,
        query,
        rows: Vec::new(),
        examined_bytes: 0,
        examined_items: 0,
        sessions: BTreeMap::new(),
        turns: BTreeMap::new(),
        calls: CallIndex::default(),
        findings: Findings::default(),
    };
    let next = match &query.session_id {
        Some(id) => reader.read_session(id)?,
        None => reader.read_commits()?,
    };
    let mut findings = reader.findings.into_vec();
    findings.retain(|finding| {
        let session = finding.session_id.as_ref();
        session.is_none_or(|id| !query.named.contains(id))
    });
    Ok(AuditPage {
        rows: reader.rows,
        next,
        newest,
        findings,
    })
}

/// The newest commit of each lane.
fn newest_commits<V: View + ?Sized>(view: &V) -> Result<Position> {
    let mut newest = Position::default();
    for lane in view.lanes().iter() {
        let row = view.newest_log(lane)?;
        newest.set(lane, LanePosition::of_commit(row.as_ref()));
    }
    Ok(newest)
}

struct PageReader<'a, 'b, V: ?Sized> {
    snapshot: &'a VerifiedSnapshot<'b, V>,
    scope: &'a Scope,
    query: &'a AuditQuery,
    rows: Vec<AuditRow>,
    /// The total size of the examined items.
    examined_bytes: usize,
    /// The number of examined items.
    examined_items: usize,
    /// Cached sessions; `None` for an erased one.
    sessions: BTreeMap<SessionId, Option<Rc<VerifiedSession>>>,
    turns: BTreeMap<TurnId, Rc<TurnStart>>,
    calls: CallIndex,
    /// The damaged sessions of which items were left out.
    findings: Findings,
}

/// The start of a turn.
struct TurnStart {
    first_seq: u64,
    start: StartEvent,
}

impl<V: View + ?Sized> PageReader<'_, '_, V> {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.query.limit
            || self.examined_bytes >= RECORDS_BYTES
            || self.examined_items >= ITEMS_MAX
    }

    /// The number of items or changes to read next, at most `max`. Without a filter every item is a row, so the number
    /// is also at most the number of rows for which the page has room.
    fn batch_size(&self, max: usize) -> usize {
        let rows_left = self.query.limit.saturating_sub(self.rows.len());
        match self.query.filters_items() {
            true => max,
            false => rows_left.clamp(1, max),
        }
    }

    /// Reads one session in order of seq, after its events. Returns the next page's cursor; `None` if this is the
    /// last page.
    fn read_session(&mut self, id: &SessionId) -> Result<Option<AuditCursor>> {
        let cursor = self.query.cursor.as_ref();
        let position = cursor.map(AuditCursor::to_session_position).transpose()?;
        match self.snapshot.find_or_tombstone(self.scope, id)? {
            None => Err(session_not_found(id)),
            Some(SessionOrTombstone::Erased(erased)) => {
                if position.is_none() && self.query.includes_time(erased.at) {
                    self.add_erasure(id, &erased);
                }
                Ok(None)
            }
            Some(SessionOrTombstone::Live(session)) => {
                let last = session.head.last_seq;
                let mut begin = position.unwrap_or(AuditPosition::at(0));
                if begin.seq == 0 {
                    if let Some(part) = self.add_events(&session, begin.part)? {
                        let position = AuditPosition { seq: 0, part };
                        return Ok(Some(AuditCursor::from_session_position(position)));
                    }
                    begin = AuditPosition::at(1);
                }
                let resume_at = in_session(id, self.add_items(&session, begin, last, None))?;
                Ok(resume_at.map(AuditCursor::from_session_position))
            }
        }
    }

    /// Reads all sessions in the order of the change feed. Returns the next page's cursor; `None` if this is the last
    /// page.
    fn read_commits(&mut self) -> Result<Option<AuditCursor>> {
        let AuditCursor {
            mut after,
            mut items,
        } = self.first_cursor()?;
        let start_count = after.commit_count();
        let end = self.query.last_commit.as_ref().map(ChangeCursor::after);
        loop {
            let batch_size = self.batch_size(CHANGES_PER_READ);
            let page = self.snapshot.list_changes(
                self.scope,
                after.clone(),
                end.as_ref(),
                batch_size,
                &mut self.findings,
            )?;
            for change in page.data {
                if self.is_too_late(&change) {
                    return Ok(None);
                }
                if self.is_full() {
                    return Ok(Some(AuditCursor { after, items }));
                }
                let lane = change.id.lane;
                let resume_at = match self.add_change(&change, items.remove(&lane)) {
                    Ok(resume_at) => resume_at,
                    Err(failure) => {
                        self.findings.add(failure)?;
                        // The damaged items may contain newer calls with the ids of remembered ones.
                        self.calls.clear();
                        None
                    }
                };
                if let Some(item) = resume_at {
                    items.insert(lane, item);
                    return Ok(Some(AuditCursor { after, items }));
                }
                after = change.cursor.parse()?;
            }
            after = page.next;
            if !page.more {
                return Ok(None);
            }
            if self.is_full() || after.commit_count() - start_count >= COMMITS_MAX {
                return Ok(Some(AuditCursor { after, items }));
            }
        }
    }

    /// The position at which the page begins, in the audit of all sessions.
    fn first_cursor(&self) -> Result<AuditCursor> {
        let after = match (&self.query.cursor, self.query.since) {
            (Some(cursor), _) => return Ok(cursor.clone()),
            (None, Some(since)) => self
                .snapshot
                .changes_before(add_micros(since, -CLOCK_JUMP_MAX))?,
            (None, None) => ChangeCursor::default(),
        };
        Ok(AuditCursor {
            after,
            ..AuditCursor::default()
        })
    }

    /// Whether `change` and all changes after it are later than the query's `until`, even if a clock was set back.
    fn is_too_late(&self, change: &SessionChange) -> bool {
        let until = self.query.until;
        until.is_some_and(|until| change.at >= add_micros(until, CLOCK_JUMP_MAX))
    }

    /// Adds the rows of a change. If the page fills up first, returns the position at which the next page resumes.
    fn add_change(
        &mut self,
        change: &SessionChange,
        resume: Option<AuditPosition>,
    ) -> Result<Option<AuditPosition>> {
        let id = &change.session_id;
        let in_time_range = self.query.includes_time(change.at);
        let (first, last) = match (change.kind, change.first_seq, change.last_seq) {
            (ChangeKind::Erased, ..) => {
                if in_time_range
                    && let Some(SessionOrTombstone::Erased(erased)) =
                        self.snapshot.find_or_tombstone(self.scope, id)?
                {
                    self.add_erasure(id, &erased);
                }
                return Ok(None);
            }
            (ChangeKind::Event, ..) => {
                if in_time_range
                    && let Some(number) = change.event
                    && let Some(session) = self.cached_session(id)?
                {
                    self.add_event(&session, number)?;
                }
                return Ok(None);
            }
            (_, Some(first), Some(last)) => (first, last),
            _ => return Ok(None),
        };
        if !in_time_range {
            // The skipped items may contain newer calls with the ids of remembered ones.
            self.calls.clear();
            return Ok(None);
        }
        let Some(session) = self.cached_session(id)? else {
            return Ok(None);
        };
        let begin = resume.filter(|item| (first..=last).contains(&item.seq));
        let begin = begin.unwrap_or(AuditPosition::at(first));
        in_session(id, self.add_items(&session, begin, last, Some(change.at)))
    }

    fn add_erasure(&mut self, id: &SessionId, erased: &Erased) {
        if !self.query.filters_authors() && self.query.includes_kind(AuditKind::Erasure) {
            self.rows.push(AuditRow::of_erasure(id.clone(), erased));
        }
    }

    fn cached_session(&mut self, id: &SessionId) -> Result<Option<Rc<VerifiedSession>>> {
        if let Some(cached) = self.sessions.get(id) {
            return Ok(cached.clone());
        }
        let session = match self.snapshot.find_or_tombstone(self.scope, id)? {
            Some(SessionOrTombstone::Live(session)) => Some(Rc::from(session)),
            Some(SessionOrTombstone::Erased(_)) => None,
            None => return Err(session_not_found(id)),
        };
        if self.sessions.len() >= CACHE_MAX {
            self.sessions.clear();
        }
        self.sessions.insert(id.clone(), session.clone());
        Ok(session)
    }

    fn turn_start(&mut self, session: &VerifiedSession, id: TurnId) -> Result<Rc<TurnStart>> {
        if let Some(cached) = self.turns.get(&id) {
            return Ok(cached.clone());
        }
        let row = self.snapshot.find_turn(session, self.scope, &id);
        let row = row.map_err(|failure| match failure.code {
            // The turn's row was moved to another session.
            ErrorCode::TurnMismatch => session.integrity_failure(None, failure.detail),
            _ => failure,
        })?;
        let row =
            row.ok_or_else(|| session.integrity_failure(None, format!("turn {id} is missing")))?;
        let turn_start = Rc::new(TurnStart {
            first_seq: row.first_seq,
            start: self.snapshot.start_of(session, &row)?,
        });
        if self.turns.len() >= CACHE_MAX {
            self.turns.clear();
        }
        self.turns.insert(id, turn_start.clone());
        Ok(turn_start)
    }

    /// Adds the rows of the items from `begin` to `last`. `committed` is the time of their common commit, which is
    /// in the query's time range; `None` if they may be of several commits: then the time of each item is checked. If
    /// the page fills up first, returns the position at which the next page resumes.
    fn add_items(
        &mut self,
        session: &VerifiedSession,
        begin: AuditPosition,
        last: u64,
        committed: Option<Timestamp>,
    ) -> Result<Option<AuditPosition>> {
        let (mut next, mut part) = (begin.seq, begin.part);
        while next <= last {
            if self.is_full() {
                return Ok(Some(AuditPosition { seq: next, part }));
            }
            let remaining = usize::try_from(last - next + 1).unwrap_or(usize::MAX);
            let count = remaining.min(self.batch_size(ITEMS_PER_READ));
            let (items, _) = self.snapshot.items_of(session, next - 1, count)?;
            if items.is_empty() {
                return Err(session.integrity_failure(Some(next), RecordFaultKind::Missing));
            }
            for item in &items {
                if self.is_full() {
                    return Ok(Some(AuditPosition { seq: next, part }));
                }
                let in_time_range =
                    committed.is_some() || self.query.includes_time(item.created_at);
                if let Some(part) = self.add_item(session, item, part, in_time_range)? {
                    let seq = item.seq;
                    return Ok(Some(AuditPosition { seq, part }));
                }
                next = item.seq + 1;
                part = 0;
            }
        }
        Ok(None)
    }
}

/// The time `micros` microseconds after `at`, or before it if negative.
fn add_micros(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

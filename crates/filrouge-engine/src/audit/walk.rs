//! A page of the audit while it is filled.

use std::collections::BTreeMap;
use std::rc::Rc;

use filrouge_store::command::{Erased, Scope};
use filrouge_store::read::{
    ChangeCursor, ChangeKind, Gone, Loaded, SessionChange, Sight, in_session, session_not_found,
};
use filrouge_store::record::{FaultKind, StartEvent};
use filrouge_store::rows::{RECORDS_BYTES, View};
use filrouge_types::{Failure, RawJson, SessionId, Timestamp, TurnId};

use super::calls::Calls;
use super::cursor::Place;
use super::{AuditCursor, AuditPage, AuditQuery, AuditRow};

mod item;

/// Most commits and items that a page looks at.
const COMMITS_MAX: u64 = 8192;
const ITEMS_MAX: usize = 4096;
/// Changes and items read at once.
const CHANGES: usize = 256;
const ITEMS: usize = 64;
/// Sessions and turns that are remembered.
const REMEMBERED: usize = 64;
/// How far a clock may have been set back without anything being hidden from `since` and `until`, in microseconds.
const SET_BACK: i64 = 3_600_000_000;

/// Fills a page.
pub(super) fn page<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    query: &AuditQuery,
) -> Result<AuditPage, Failure> {
    let newest = sight.view.newest_log()?.map_or(0, |row| row.commit_no);
    let mut walk = Walk {
        sight,
        scope,
        query,
        rows: Vec::new(),
        bytes: 0,
        items: 0,
        sessions: BTreeMap::new(),
        turns: BTreeMap::new(),
        calls: Calls::default(),
    };
    let next = match &query.session_id {
        Some(id) => walk.session(id)?,
        None => walk.commits()?,
    };
    Ok(AuditPage {
        rows: walk.rows,
        next,
        newest,
    })
}

struct Walk<'a, 'b, V: ?Sized> {
    sight: &'a Sight<'b, V>,
    scope: &'a Scope,
    query: &'a AuditQuery,
    rows: Vec<AuditRow>,
    /// Bytes of the items that were looked at.
    bytes: usize,
    items: usize,
    /// `None` for one that was erased.
    sessions: BTreeMap<SessionId, Option<Rc<Loaded>>>,
    turns: BTreeMap<TurnId, Rc<Asked>>,
    calls: Calls,
}

/// What a turn answers.
struct Asked {
    first_seq: u64,
    start: StartEvent,
}

impl<V: View + ?Sized> Walk<'_, '_, V> {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.query.limit
            || self.bytes >= RECORDS_BYTES
            || self.items >= ITEMS_MAX
    }

    /// How many to read at once, if each may give a row.
    fn at_once(&self, most: usize) -> usize {
        if self.query.selects() {
            most
        } else {
            self.query
                .limit
                .saturating_sub(self.rows.len())
                .clamp(1, most)
        }
    }

    /// One session by seq.
    fn session(&mut self, id: &SessionId) -> Result<Option<AuditCursor>, Failure> {
        let place = self.query.cursor.map(AuditCursor::of_session).transpose()?;
        match self.sight.find_or_gone(self.scope, id)? {
            None => Err(session_not_found(id)),
            Some(Gone::Erased(erased)) => {
                if place.is_none() && self.query.covers(erased.at) {
                    self.erased(id, &erased);
                }
                Ok(None)
            }
            Some(Gone::Not(session)) => {
                let last = session.head.last_seq;
                let begin = place.unwrap_or(Place::at(1));
                let stopped = in_session(id, self.span(&session, begin, last, None))?;
                Ok(stopped.map(AuditCursor::in_session))
            }
        }
    }

    /// All sessions in the order of commits.
    fn commits(&mut self) -> Result<Option<AuditCursor>, Failure> {
        let mut resume = self.query.cursor.and_then(|c| c.item);
        let mut after = match (self.query.cursor, self.query.since) {
            (Some(cursor), _) => cursor.after,
            (None, Some(since)) => self.sight.changes_before(moved(since, -SET_BACK))?,
            (None, None) => ChangeCursor::default(),
        };
        let begun = after.commit_no;
        let at = |after, item| Ok(Some(AuditCursor { after, item }));
        loop {
            let page = self
                .sight
                .changes(self.scope, after, self.at_once(CHANGES))?;
            for change in page.data {
                let behind: ChangeCursor = change.cursor.parse()?;
                if self.is_past(&change, behind) {
                    return Ok(None);
                }
                if self.is_full() {
                    return at(after, None);
                }
                if let Some(place) = self.change(&change, resume.take())? {
                    return at(after, Some(place));
                }
                after = behind;
            }
            after = page.next;
            if !page.more {
                return Ok(None);
            }
            if self.is_full() || after.commit_no - begun >= COMMITS_MAX {
                return at(after, None);
            }
        }
    }

    /// Whether nothing that is asked for comes any more.
    fn is_past(&self, change: &SessionChange, behind: ChangeCursor) -> bool {
        let until = self.query.until.map(|until| moved(until, SET_BACK));
        until.is_some_and(|until| change.at >= until)
            || self.query.up_to.is_some_and(|last| behind.commit_no > last)
    }

    /// Takes what a change has brought; the place to go on at when the page is full before that.
    fn change(
        &mut self,
        change: &SessionChange,
        resume: Option<Place>,
    ) -> Result<Option<Place>, Failure> {
        let id = &change.session_id;
        let covered = self.query.covers(change.at);
        let (first, last) = match (change.kind, change.first_seq, change.last_seq) {
            (ChangeKind::Erased, ..) => {
                if covered
                    && let Some(Gone::Erased(gone)) = self.sight.find_or_gone(self.scope, id)?
                {
                    self.erased(id, &gone);
                }
                return Ok(None);
            }
            (ChangeKind::Event, ..) => return Ok(None),
            (_, Some(first), Some(last)) => (first, last),
            _ => return Ok(None),
        };
        if !covered {
            self.calls.forget();
            return Ok(None);
        }
        let Some(session) = self.session_of(id)? else {
            return Ok(None);
        };
        let begin = resume.filter(|place| (first..=last).contains(&place.seq));
        let begin = begin.unwrap_or(Place::at(first));
        in_session(id, self.span(&session, begin, last, Some(change.at)))
    }

    fn erased(&mut self, id: &SessionId, erased: &Erased) {
        if self.query.selects() {
            return;
        }
        let Erased { items, turns, .. } = erased;
        let detail = format!(r#"[{{"type":"erasure","items":{items},"turns":{turns}}}]"#);
        self.rows.push(AuditRow {
            detail: Some(RawJson::from_checked(detail)),
            ..AuditRow::bare(id.clone(), erased.at)
        });
    }

    fn session_of(&mut self, id: &SessionId) -> Result<Option<Rc<Loaded>>, Failure> {
        if let Some(known) = self.sessions.get(id) {
            return Ok(known.clone());
        }
        let found = match self.sight.find_or_gone(self.scope, id)? {
            Some(Gone::Not(session)) => Some(Rc::from(session)),
            Some(Gone::Erased(_)) => None,
            None => return Err(session_not_found(id)),
        };
        if self.sessions.len() >= REMEMBERED {
            self.sessions.clear();
        }
        self.sessions.insert(id.clone(), found.clone());
        Ok(found)
    }

    fn asked(&mut self, session: &Loaded, id: TurnId) -> Result<Rc<Asked>, Failure> {
        if let Some(known) = self.turns.get(&id) {
            return Ok(known.clone());
        }
        let found = self.sight.find_turn(session, self.scope, &id)?;
        let row = found.ok_or_else(|| session.broken(None, format!("turn {id} is missing")))?;
        let asked = Rc::new(Asked {
            first_seq: row.first_seq,
            start: self.sight.start_of(session, &row)?,
        });
        if self.turns.len() >= REMEMBERED {
            self.turns.clear();
        }
        self.turns.insert(id, asked.clone());
        Ok(asked)
    }

    /// Takes the items from `begin` to `last`, committed at a known time or each at its own; the place to go on at
    /// when the page is full before that.
    fn span(
        &mut self,
        session: &Loaded,
        begin: Place,
        last: u64,
        committed: Option<Timestamp>,
    ) -> Result<Option<Place>, Failure> {
        let Place {
            seq: mut next,
            mut part,
        } = begin;
        while next <= last {
            if self.is_full() {
                return Ok(Some(Place { seq: next, part }));
            }
            let left = usize::try_from(last - next + 1).unwrap_or(usize::MAX);
            let wanted = left.min(self.at_once(ITEMS));
            let (items, _) = self.sight.items_of(session, next - 1, wanted)?;
            if items.is_empty() {
                return Err(session.broken(Some(next), FaultKind::Missing));
            }
            for item in &items {
                if self.is_full() {
                    return Ok(Some(Place { seq: next, part }));
                }
                let covered = committed.is_some() || self.query.covers(item.created_at);
                if let Some(part) = self.take(session, item, part, covered)? {
                    let seq = item.seq;
                    return Ok(Some(Place { seq, part }));
                }
                next = item.seq + 1;
                part = 0;
            }
        }
        Ok(None)
    }
}

/// A moment that many microseconds later, or earlier.
fn moved(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

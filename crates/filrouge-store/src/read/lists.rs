//! Pages of sessions, turns and items. Cursors stand on immutable keys, so that paging neither skips
//! nor repeats while others write (DESIGN §12).

use filrouge_types::{ErrorCode, Failure, Item, Session, SessionId, Turn, TurnId, TurnStatus};

use super::{ALL_PLACES, Loaded, Redactions, Sight, genesis_for, in_session, turn_not_found};
use crate::chain::Link;
use crate::command::{Scope, SessionFilter};
use crate::record::{FaultKind, RecordRow};
use crate::rows::{RECORDS_BYTES, SEQ_MAX, TurnRow, View};

/// Records fetched first, and at most at once.
const CHUNK_FIRST: usize = 32;
const CHUNK_MAX: usize = 4096;

/// Turns projected at once when all of a session are shown.
const EACH_TURN: usize = 500;

/// How many of the records hold the `wanted` items from `next` on, within the page's bytes; at least one.
fn enough(rows: &[RecordRow], next: u64, wanted: usize, bytes: &mut usize) -> usize {
    let last = next.saturating_add(wanted as u64) - 1;
    let mut taken = 0;
    for row in rows {
        taken += 1;
        *bytes += row.unpacked_len();
        if *bytes >= RECORDS_BYTES || row.last_seq() >= last {
            break;
        }
    }
    taken
}

/// How many items these records hold each, rounded down; at least one.
fn items_each(rows: &[RecordRow]) -> usize {
    let items: u64 = rows.iter().map(|r| r.count).sum();
    usize::try_from(items)
        .unwrap_or(1)
        .div_euclid(rows.len().max(1))
        .max(1)
}

/// Sessions, newest first, and the cursor of the next page.
pub type SessionPage = (Vec<Session>, Option<String>);
/// Turns in order, and the cursor of the next page.
pub type TurnPage = (Vec<Turn>, Option<String>);
/// Items in order, and the cursor of the next page.
pub type ItemPage = (Vec<Item>, Option<String>);

/// A turn of a page, with the next version that the page has come across.
pub(super) struct Listed {
    pub(super) row: TurnRow,
    pub(super) replaced_by: Option<TurnId>,
}

impl Listed {
    const fn new(row: TurnRow) -> Self {
        Self {
            row,
            replaced_by: None,
        }
    }
}

/// In which order turns are paged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnOrder {
    /// From the first on.
    #[default]
    Oldest,
    /// The newest page first, each page oldest first; replaced turns are left out.
    Newest,
}

/// Which turns a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnQuery {
    /// Only with this status.
    pub status: Option<TurnStatus>,
    /// Whether redacted turns are shown as well.
    pub include_redacted: bool,
    /// The order.
    pub order: TurnOrder,
    /// Where the page begins.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl TurnQuery {
    fn takes(&self, row: &TurnRow) -> bool {
        self.status.is_none_or(|s| s == row.status)
            && (self.include_redacted || row.redacted_by == 0)
    }
}

fn cursor(text: Option<&str>) -> Result<Option<u64>, Failure> {
    text.map(|t| {
        t.parse().map_err(|_| {
            Failure::new(ErrorCode::Invalid, format!("{t:?} is no cursor"))
                .with_hint("pass a next_cursor as it came, or leave it out for the first page")
        })
    })
    .transpose()
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// One session.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, `key_missing`.
    pub fn session(&self, scope: &Scope, id: &SessionId) -> Result<Session, Failure> {
        let loaded = self.get(scope, id)?;
        Ok(loaded.row.with_head(&loaded.head))
    }

    /// A page of sessions, newest first.
    ///
    /// # Errors
    /// `invalid` for a cursor that is none, `integrity_error`.
    pub fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, Failure> {
        let before = cursor(from)?;
        self.suspects.check_listing(&scope.tenant, &scope.viewer)?;
        let rows = self
            .view
            .sessions(scope, filter, before, limit.saturating_add(1))?;
        let more = rows.len() > limit;
        let mut next = None;
        let mut page = Vec::with_capacity(rows.len().min(limit));
        for stored in rows.into_iter().take(limit) {
            next = Some(stored.pk.to_string());
            let loaded = self.load(stored)?;
            page.push(loaded.row.with_head(&loaded.head));
        }
        Ok((page, next.filter(|_| more)))
    }

    /// One turn.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, `integrity_error`.
    pub fn turn(&self, scope: &Scope, session: &SessionId, id: &TurnId) -> Result<Turn, Failure> {
        let loaded = self.get(scope, session)?;
        let turn = || {
            let row = self
                .find_turn(&loaded, scope, id)?
                .ok_or_else(|| turn_not_found(id))?;
            self.project(&loaded, &row)
        };
        in_session(session, turn())
    }

    /// A page of turns, by ordinal and version.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a cursor that is none, `integrity_error`.
    pub fn turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: &TurnQuery,
    ) -> Result<TurnPage, Failure> {
        let loaded = self.get(scope, session)?;
        let page = || {
            let (rows, next) = match query.order {
                TurnOrder::Oldest => self.oldest_turns(&loaded, query)?,
                TurnOrder::Newest => self.newest_turns(&loaded, query)?,
            };
            Ok((self.project_all(&loaded, &rows)?, next))
        };
        in_session(session, page())
    }

    /// Shows every turn of a session at hand by ordinal and version, replaced and redacted ones as well.
    ///
    /// # Errors
    /// `integrity_error`, and those of `see`.
    pub fn each_turn(
        &self,
        session: &Loaded,
        mut see: impl FnMut(Turn) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut query = TurnQuery {
            include_redacted: true,
            order: TurnOrder::Oldest,
            limit: EACH_TURN,
            ..TurnQuery::default()
        };
        loop {
            let (rows, next) = self.oldest_turns(session, &query)?;
            for turn in self.project_all(session, &rows)? {
                see(turn)?;
            }
            if next.is_none() {
                return Ok(());
            }
            query.cursor = next;
        }
    }

    fn oldest_turns(
        &self,
        session: &Loaded,
        query: &TurnQuery,
    ) -> Result<(Vec<Listed>, Option<String>), Failure> {
        let mut from = cursor(query.cursor.as_deref())?.unwrap_or(ALL_PLACES.0);
        // A cursor may point into a turn's versions; then the turn itself may lie before it.
        let mut ordinal = if from & 0xff == 0 {
            (from >> 8).saturating_sub(1)
        } else {
            from >> 8
        };
        let fetch = query.limit.saturating_add(1);
        let mut page: Vec<Listed> = Vec::new();
        loop {
            let rows = self
                .view
                .turns(session.pk, from, ALL_PLACES.1, false, fetch)?;
            let exhausted = rows.len() <= query.limit;
            for row in rows {
                if row.ordinal > ordinal + 1 {
                    return Err(session.broken(None, format!("turn {} is missing", ordinal + 1)));
                }
                if let Some(last) = page.last_mut()
                    && last.row.place() + 1 == row.place()
                    && last.row.ordinal == row.ordinal
                {
                    self.authentic(session, &row)?;
                    last.replaced_by = Some(row.turn_id);
                }
                if page.len() == query.limit && query.takes(&row) {
                    return Ok((page, Some(row.place().to_string())));
                }
                ordinal = row.ordinal;
                from = row.place() + 1;
                let row = self.verified_turn(session, row)?;
                if query.takes(&row) {
                    page.push(Listed::new(row));
                }
            }
            if exhausted {
                if ordinal < session.head.turn_count {
                    return Err(session.broken(None, format!("turn {} is missing", ordinal + 1)));
                }
                self.all_turn_rows(session)?;
                return Ok((page, None));
            }
        }
    }

    fn newest_turns(
        &self,
        session: &Loaded,
        query: &TurnQuery,
    ) -> Result<(Vec<Listed>, Option<String>), Failure> {
        let mut to = cursor(query.cursor.as_deref())?.unwrap_or(ALL_PLACES.1);
        let mut ordinal = (to >> 8).min(session.head.turn_count) + 1;
        let fetch = query.limit.saturating_add(1);
        let mut page: Vec<Listed> = Vec::new();
        let mut next = None;
        'pages: loop {
            let rows = self.view.turns(session.pk, ALL_PLACES.0, to, true, fetch)?;
            let exhausted = rows.len() <= query.limit;
            for row in rows {
                if row.ordinal + 1 < ordinal {
                    return Err(session.broken(None, format!("turn {} is missing", ordinal - 1)));
                }
                to = row.place().saturating_sub(1);
                if row.ordinal == ordinal {
                    // An older version of a turn just seen.
                    continue;
                }
                ordinal = row.ordinal;
                let row = self.verified_turn(session, row)?;
                if !query.takes(&row) {
                    continue;
                }
                if page.len() == query.limit {
                    next = Some(((row.ordinal << 8) | 0xff).to_string());
                    break 'pages;
                }
                page.push(Listed::new(row));
            }
            if exhausted {
                if ordinal > 1 {
                    return Err(session.broken(None, format!("turn {} is missing", ordinal - 1)));
                }
                self.all_turn_rows(session)?;
                break;
            }
        }
        page.reverse();
        Ok((page, next))
    }

    /// Who has seen all turns knows whether a row is missing among the replaced ones as well.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn all_turn_rows(&self, session: &Loaded) -> Result<(), Failure> {
        if self.view.turn_rows(session.pk)? == session.head.turn_rows {
            return Ok(());
        }
        Err(session.broken(None, "turns are missing or were added"))
    }

    /// A page of items after `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error` naming the first seq that is not what was written.
    pub fn items(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage, Failure> {
        let loaded = self.get(scope, session)?;
        in_session(session, self.items_of(&loaded, after, limit))
    }

    /// As [`Self::items`], of a session at hand.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn items_of(
        &self,
        session: &Loaded,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage, Failure> {
        let mut page: Vec<Item> = Vec::with_capacity(limit.min(1024));
        let mut bytes = 0;
        let mut redactions = Redactions::default();
        // A position behind any item stands for the end.
        let mut next = after.min(SEQ_MAX) + 1;
        let mut previous: Option<Link> = genesis_for(next).copied();
        let mut chunk = CHUNK_FIRST;
        while next <= session.head.last_seq && page.len() < limit && bytes < RECORDS_BYTES {
            let wanted = limit - page.len();
            let rows = self.view.records(session.pk, next, chunk.min(wanted))?;
            if rows.is_empty() {
                return Err(session.broken(Some(next), FaultKind::Missing));
            }
            let taken = enough(&rows, next, wanted, &mut bytes);
            // Most records hold several items; once it is known how many, few are fetched in vain.
            chunk = CHUNK_MAX.min(wanted.div_ceil(items_each(&rows[..taken])));
            for decoded in self.decode_many(session, &rows[..taken]) {
                let decoded = decoded?;
                self.check_redactions(session, &decoded.redacted, &mut redactions)?;
                let first = decoded.items.first().map_or(0, |(i, _)| i.seq);
                let last = decoded.items.last().map_or(0, |(i, _)| i.seq);
                if first > next || last < next {
                    return Err(session.broken(Some(next), FaultKind::Missing));
                }
                if previous.is_some_and(|p| p != decoded.previous) {
                    return Err(session.broken(Some(first), FaultKind::Gap));
                }
                previous = Some(decoded.last);
                let skip = usize::try_from(next - first).unwrap_or(usize::MAX);
                page.extend(decoded.items.into_iter().skip(skip).map(|(item, _)| item));
                next = last + 1;
            }
        }
        if next > session.head.last_seq {
            self.check_end(session, next - 1, previous)?;
        }
        page.truncate(limit);
        let end = page.last().map_or(after, |i| i.seq);
        let more = end < session.head.last_seq && !page.is_empty();
        Ok((page, more.then(|| end.to_string())))
    }

    /// The last item read must be the head's, and nothing may stand behind it.
    fn check_end(&self, session: &Loaded, last: u64, link: Option<Link>) -> Result<(), Failure> {
        if last == session.head.last_seq && link.is_some_and(|l| l != session.head.link) {
            return Err(session.broken(Some(last), FaultKind::Gap));
        }
        let newest = self.view.newest_seq(session.pk)?;
        if newest != session.head.last_seq {
            let first = newest.min(session.head.last_seq) + 1;
            let what = if newest < session.head.last_seq {
                "the item is missing"
            } else {
                "an item was added"
            };
            return Err(session.broken(Some(first), what));
        }
        Ok(())
    }
}

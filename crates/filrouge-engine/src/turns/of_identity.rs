//! The turns of all sessions of an identity.

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::read::{Loaded, Sight, TurnPage, in_session, turn_len};
use filrouge_store::rows::{RECORDS_BYTES, SessionPk, TurnRow, View};
use filrouge_types::{Failure, IdentityId, Turn, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;

/// Sessions read at once, and at most for one page.
const SESSIONS: usize = 50;
const SESSIONS_MAX: usize = 200;
/// Turns read at once, and at most for one page.
const ROWS: usize = 128;
const ROWS_MAX: usize = 4096;

/// Which turns a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityTurns {
    /// Whose.
    pub identity_id: IdentityId,
    /// Only with this status.
    pub status: Option<TurnStatus>,
    /// Where the page begins.
    pub cursor: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

impl Turns {
    /// A page of the turns of all sessions of an identity: sessions newest first, within one the newest turn first;
    /// replaced and redacted ones are left out.
    ///
    /// Cursors name a session and an ordinal, which never change, so that paging neither skips nor repeats while
    /// others write. At most 200 sessions and 4,096 turns are looked at for one page: it may hold fewer turns than
    /// asked for, even none, and still have a cursor; so may one whose turns have [`RECORDS_BYTES`].
    ///
    /// # Errors
    /// `integrity_error`, and the ledger's.
    pub async fn of_identity(
        &self,
        caller: &Caller,
        query: IdentityTurns,
    ) -> Result<TurnPage, Failure> {
        // Who acts for no end user sees every identity of the tenant, if it may; else what it sees anyway.
        let scope = caller.scope(match caller.identity() {
            None if caller.may(Permission::ReadTenant) => Permission::ReadTenant,
            _ => Permission::Read,
        })?;
        self.ledger
            .ask(move |sight| page(sight, &scope, &query))
            .await
    }
}

/// Where a page goes on: in session `pk` below `ordinal`, then in the sessions made before it.
#[derive(Clone, Copy)]
struct Place {
    pk: SessionPk,
    ordinal: u64,
}

impl Place {
    const fn pack(self) -> u64 {
        (self.pk << 32) | self.ordinal
    }

    const fn unpack(cursor: u64) -> Self {
        Self {
            pk: cursor >> 32,
            ordinal: cursor & 0xffff_ffff,
        }
    }
}

/// A page while it is filled.
struct Filling<'a> {
    query: &'a IdentityTurns,
    turns: Vec<Turn>,
    bytes: usize,
    rows: usize,
}

fn page<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    scope: &Scope,
    query: &IdentityTurns,
) -> Result<TurnPage, Failure> {
    let filter = SessionFilter {
        identity_id: Some(query.identity_id.clone()),
        ..SessionFilter::default()
    };
    let start = query.cursor.map(Place::unpack);
    // The list begins below its cursor, so with the session of this one.
    let mut cursor = start.map(|p| (p.pk + 1).to_string());
    let mut filling = Filling {
        query,
        turns: Vec::new(),
        bytes: 0,
        rows: 0,
    };
    let mut looked_at = 0;
    loop {
        let (sessions, next) = sight.sessions(scope, &filter, cursor.as_deref(), SESSIONS)?;
        for session in sessions {
            let id = session.session_id;
            let loaded = sight.get(scope, &id)?;
            let below = start.filter(|p| p.pk == loaded.pk).map(|p| p.ordinal);
            let stopped = in_session(&id, filling.session(sight, &loaded, below))?;
            looked_at += 1;
            let stopped = stopped.or((looked_at == SESSIONS_MAX).then_some(0));
            if let Some(ordinal) = stopped {
                let place = Place {
                    pk: loaded.pk,
                    ordinal,
                };
                return Ok((filling.turns, Some(place.pack().to_string())));
            }
        }
        if next.is_none() {
            return Ok((filling.turns, None));
        }
        cursor = next;
    }
}

impl Filling<'_> {
    /// Takes a session's turns with ordinals `below`; the ordinal to go on below when the page is full before the
    /// session is at its end.
    fn session<V: View + ?Sized>(
        &mut self,
        sight: &Sight<'_, V>,
        session: &Loaded,
        below: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let mut ordinal = session.head.turn_count + 1;
        ordinal = below.map_or(ordinal, |below| below.min(ordinal));
        // Version 1 of the ordinal: every row below it is of an older turn.
        let mut before = ordinal << 8;
        loop {
            let rows = sight.turn_rows_back(session, Some(before), ROWS)?;
            let Some(last) = rows.last() else {
                return Ok(None);
            };
            before = last.place();
            for row in rows {
                self.rows += 1;
                // The newest version of a turn comes first; the others were replaced.
                if row.ordinal == ordinal {
                    continue;
                }
                if self.full() {
                    return Ok(Some(ordinal));
                }
                ordinal = row.ordinal;
                if self.takes(&row) {
                    let turn = sight.project(session, &row)?;
                    self.bytes += turn_len(&turn);
                    self.turns.push(turn);
                }
            }
        }
    }

    fn full(&self) -> bool {
        self.turns.len() == self.query.limit || self.bytes >= RECORDS_BYTES || self.rows > ROWS_MAX
    }

    fn takes(&self, row: &TurnRow) -> bool {
        self.query.status.is_none_or(|s| s == row.status) && row.redacted_by == 0
    }
}

#[cfg(test)]
mod tests;

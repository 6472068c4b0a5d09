//! The turns of all sessions of an identity.

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::read::{TurnPage, VerifiedSession, VerifiedSnapshot, in_session, turn_len};
use filrouge_store::rows::{RECORDS_BYTES, SessionPk, TurnRow, View};
use filrouge_types::{Failure, IdentityId, Turn, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;

/// The number of sessions per read, and the maximum per page.
const SESSIONS: usize = 50;
const SESSIONS_MAX: usize = 200;
/// The number of turns per read, and the maximum per page.
const ROWS: usize = 128;
const ROWS_MAX: usize = 4096;

/// The turns that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityTurns {
    /// The identity that owns the sessions.
    pub identity_id: IdentityId,
    /// Restricts the page to turns with this status.
    pub status: Option<TurnStatus>,
    /// The cursor of the page.
    pub cursor: Option<u64>,
    /// The maximum number of turns.
    pub limit: usize,
}

impl Turns {
    /// A page of the turns of all sessions of an identity: the newest session first, and in a session the newest turn first;
    /// replaced and redacted turns are left out.
    ///
    /// A cursor names a session and an ordinal, which never change, so that paging neither skips nor repeats turns while others
    /// write. At most 200 sessions and 4,096 turns are examined per page: it may hold fewer turns than the limit, even none, and
    /// still have a cursor; this also holds for a page whose turns reach [`RECORDS_BYTES`].
    ///
    /// # Errors
    /// `integrity_error`, and the ledger's errors.
    pub async fn of_identity(
        &self,
        caller: &Caller,
        query: IdentityTurns,
    ) -> Result<TurnPage, Failure> {
        // A caller without an end user sees every identity of the tenant, if it may; others see their usual scope.
        let scope = caller.scope(match caller.identity() {
            None if caller.may(Permission::ReadTenant) => Permission::ReadTenant,
            _ => Permission::Read,
        })?;
        self.ledger
            .query(move |snapshot| page(snapshot, &scope, &query))
            .await
    }
}

/// The position at which a page continues: in session `pk` below `ordinal`, then in the sessions created before it.
#[derive(Clone, Copy)]
struct PagePosition {
    pk: SessionPk,
    ordinal: u64,
}

impl PagePosition {
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

/// A page that is being filled.
struct PageBuilder<'a> {
    query: &'a IdentityTurns,
    turns: Vec<Turn>,
    bytes: usize,
    rows: usize,
}

fn page<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    scope: &Scope,
    query: &IdentityTurns,
) -> Result<TurnPage, Failure> {
    let filter = SessionFilter {
        identity_id: Some(query.identity_id.clone()),
        ..SessionFilter::default()
    };
    let start = query.cursor.map(PagePosition::unpack);
    // The list begins below its cursor: add one to include this session.
    let mut cursor = start.map(|p| (p.pk + 1).to_string());
    let mut builder = PageBuilder {
        query,
        turns: Vec::new(),
        bytes: 0,
        rows: 0,
    };
    let mut examined = 0;
    loop {
        let (sessions, next) = snapshot.sessions(scope, &filter, cursor.as_deref(), SESSIONS)?;
        for session in sessions {
            let id = session.session_id;
            let loaded = snapshot.get(scope, &id)?;
            let below = start.filter(|p| p.pk == loaded.pk).map(|p| p.ordinal);
            let stopped = in_session(&id, builder.session(snapshot, &loaded, below))?;
            examined += 1;
            let stopped = stopped.or((examined == SESSIONS_MAX).then_some(0));
            if let Some(ordinal) = stopped {
                let position = PagePosition {
                    pk: loaded.pk,
                    ordinal,
                };
                return Ok((builder.turns, Some(position.pack().to_string())));
            }
        }
        if next.is_none() {
            return Ok((builder.turns, None));
        }
        cursor = next;
    }
}

impl PageBuilder<'_> {
    /// Adds a session's turns with ordinals `below`. Returns the ordinal to continue below when the page fills up before the end
    /// of the session.
    fn session<V: View + ?Sized>(
        &mut self,
        snapshot: &VerifiedSnapshot<'_, V>,
        session: &VerifiedSession,
        below: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let mut ordinal = session.head.turn_count + 1;
        ordinal = below.map_or(ordinal, |below| below.min(ordinal));
        // Version 1 of the ordinal: every row before it belongs to an older turn.
        let mut before = ordinal << 8;
        loop {
            let rows = snapshot.turn_rows_back(session, Some(before), ROWS)?;
            let Some(last) = rows.last() else {
                return Ok(None);
            };
            before = last.place();
            for row in rows {
                self.rows += 1;
                // The newest version of a turn comes first; the following ones were replaced.
                if row.ordinal == ordinal {
                    continue;
                }
                if self.is_full() {
                    return Ok(Some(ordinal));
                }
                ordinal = row.ordinal;
                if self.matches(&row) {
                    let turn = snapshot.project(session, &row)?;
                    self.bytes += turn_len(&turn);
                    self.turns.push(turn);
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.turns.len() == self.query.limit || self.bytes >= RECORDS_BYTES || self.rows > ROWS_MAX
    }

    fn matches(&self, row: &TurnRow) -> bool {
        self.query.status.is_none_or(|s| s == row.status) && row.redacted_by == 0
    }
}

#[cfg(test)]
mod tests;

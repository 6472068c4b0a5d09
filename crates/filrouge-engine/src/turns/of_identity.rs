//! The turns of all sessions of an identity.

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::read::{
    LedgerSnapshot, TurnPage, VerifiedSession, in_session, turn_content_len,
};
use filrouge_store::rows::{RECORDS_BYTES, TurnRow};
use filrouge_types::{IdentityId, Result, Turn, TurnStatus};

use crate::caller::{Caller, Permission};
use crate::engine::Turns;

/// The number of sessions per read.
const SESSIONS_PER_READ: usize = 50;
/// The maximum number of sessions that are examined for a page.
const SESSIONS_EXAMINED_MAX: usize = 200;
/// The number of turn rows per read.
const ROWS_PER_READ: usize = 128;
/// The maximum number of turn rows that are examined for a page.
const ROWS_EXAMINED_MAX: usize = 4096;

/// Which turns of an identity a page contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityTurns {
    /// The identity that owns the sessions.
    pub identity_id: IdentityId,
    /// If set, the page contains only turns with this status.
    pub status: Option<TurnStatus>,
    /// The cursor that the previous page returned; `None` for the first page.
    pub cursor: Option<u64>,
    /// The maximum number of turns in the page.
    pub limit: usize,
}

impl Turns {
    /// A page of the turns of all sessions of an identity: the newest session first, and in a session the newest turn
    /// first. Replaced and redacted turns are left out.
    ///
    /// A cursor names a session and an ordinal, which never change. So paging neither skips nor repeats turns while
    /// others write. A page ends when it has as many turns as the limit, when its turns reach [`RECORDS_BYTES`], or
    /// when about 200 sessions or 4,096 turns were examined for it. So it may have fewer turns than the limit, even
    /// none, and still have a cursor.
    ///
    /// # Errors
    /// `integrity_error`, and the ledger's errors.
    pub async fn of_identity(&self, caller: &Caller, query: IdentityTurns) -> Result<TurnPage> {
        // A caller that does not act for an end user, and has the permission to read the tenant, sees the turns of
        // every identity. Other callers see only what their usual scope contains.
        let scope = caller.scope(match caller.identity() {
            None if caller.has_permission(Permission::ReadTenant) => Permission::ReadTenant,
            _ => Permission::Read,
        })?;
        let viewer = scope.clone();
        self.ledger
            .query_listed(&viewer, move |snapshot| page(snapshot, &scope, &query))
            .await
    }
}

/// A page that is being filled.
struct PageBuilder<'a> {
    query: &'a IdentityTurns,
    turns: Vec<Turn>,
    bytes: usize,
    rows: usize,
}

fn page(snapshot: &LedgerSnapshot<'_>, scope: &Scope, query: &IdentityTurns) -> Result<TurnPage> {
    let filter = SessionFilter {
        identity_id: Some(query.identity_id.clone()),
        ..SessionFilter::default()
    };
    // A page continues with the turns below an ordinal in a session, and then with the sessions that were created before
    // that session. The cursor is the session's key, shifted, and the ordinal.
    let start = query.cursor.map(|at| (at >> 32, at & 0xffff_ffff));
    // The list of sessions begins after a position, so one is added to include session `pk`.
    let order = start.map(|(pk, _)| snapshot.session_order(scope, pk));
    let mut before = order
        .transpose()?
        .map(|(created_at, pk)| (created_at, pk + 1));
    let mut builder = PageBuilder {
        query,
        turns: Vec::new(),
        bytes: 0,
        rows: 0,
    };
    let mut examined = 0;
    loop {
        let (sessions, next) =
            snapshot.sessions_before(scope, &filter, before, SESSIONS_PER_READ)?;
        for session in sessions {
            let id = session.session_id;
            let loaded = snapshot.get(scope, &id)?;
            before = Some((loaded.row.created_at, loaded.pk));
            let below = start
                .filter(|(pk, _)| *pk == loaded.pk)
                .map(|(_, ordinal)| ordinal);
            let next_ordinal = in_session(&id, builder.add_session(snapshot, &loaded, below))?;
            examined += 1;
            let next_ordinal = next_ordinal.or((examined == SESSIONS_EXAMINED_MAX).then_some(0));
            if let Some(ordinal) = next_ordinal {
                let position = (loaded.pk << 32) | ordinal;
                return Ok((builder.turns, Some(position.to_string())));
            }
        }
        if next.is_none() {
            return Ok((builder.turns, None));
        }
    }
}

impl PageBuilder<'_> {
    /// Adds a session's turns, newest first; if `below` is given, only those with smaller ordinals. If the page is full
    /// before all turns are added, returns the ordinal below which the next page continues; otherwise `None`.
    fn add_session(
        &mut self,
        snapshot: &LedgerSnapshot<'_>,
        session: &VerifiedSession,
        below: Option<u64>,
    ) -> Result<Option<u64>> {
        let mut ordinal = session.head.turn_count + 1;
        ordinal = below.map_or(ordinal, |below| below.min(ordinal));
        // A row's place is its ordinal and its version. All rows before this place belong to smaller ordinals.
        let mut before = ordinal << 8;
        loop {
            let rows = snapshot.turn_rows_descending(session, Some(before), ROWS_PER_READ)?;
            let Some(last) = rows.last() else {
                return Ok(None);
            };
            before = last.place();
            for row in rows {
                self.rows += 1;
                // The newest version of a turn comes first; its other versions were replaced.
                if row.ordinal == ordinal {
                    continue;
                }
                if self.is_full() {
                    return Ok(Some(ordinal));
                }
                ordinal = row.ordinal;
                if self.matches(&row) {
                    let turn = snapshot.project(session, &row)?;
                    self.bytes += turn_content_len(&turn);
                    self.turns.push(turn);
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.turns.len() == self.query.limit
            || self.bytes >= RECORDS_BYTES
            || self.rows > ROWS_EXAMINED_MAX
    }

    fn matches(&self, row: &TurnRow) -> bool {
        self.query.status.is_none_or(|s| s == row.status) && row.redacted_by == 0
    }
}

#[cfg(test)]
mod tests;

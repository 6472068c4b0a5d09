//! Rows of a snapshot that are read before they are needed: reading many rows at once costs fewer round trips.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{EventRow, SessionPk, StoredSession};
use filrouge_types::Result;
use tokio_postgres::Row;

use super::{Rows, SessionLookup, by_lane, column, read_stored, read_u64, session};

/// The maximum number of sessions that are kept in memory.
const SESSIONS_MAX: usize = 256;

/// Rows of one snapshot that were read ahead. They are decoded only when they are needed.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The lookup that ran when the snapshot began, and the row that it returned. The row is `None` if the session does
    /// not exist.
    lookup_result: Option<(SessionLookup, Option<Row>)>,
    /// The sessions of the page of events that was read last. `None` outside a snapshot, where nothing is read ahead.
    sessions: Option<RefCell<BTreeMap<SessionPk, Row>>>,
}

impl ReadAhead {
    /// Creates the store of rows for a snapshot, with the result of the lookup when the snapshot began, if there was
    /// one.
    pub(crate) fn in_snapshot(lookup_result: Option<(SessionLookup, Option<Row>)>) -> Self {
        Self {
            lookup_result,
            sessions: Some(RefCell::default()),
        }
    }

    /// Returns the result of a lookup; `None` if it was not read ahead.
    pub(super) fn session(&self, lookup: &SessionLookup) -> Option<Result<Option<StoredSession>>> {
        let (known_lookup, row) = self.lookup_result.as_ref()?;
        (known_lookup == lookup).then(|| row.as_ref().map(read_stored).transpose())
    }

    /// Returns the session's newest seq; `None` if it was not read ahead.
    pub(super) fn newest_seq(&self, pk: SessionPk) -> Option<Result<u64>> {
        let row = self.lookup_result.as_ref()?.1.as_ref()?;
        (read_u64(row, 0).ok()? == pk).then(|| {
            let seq: Option<i64> = column(row, 16)?;
            seq.map_or(Ok(0), |_| read_u64(row, 16))
        })
    }

    /// Returns the session with this number; `None` if it was not read ahead.
    pub(super) fn session_by_pk(&self, pk: SessionPk) -> Option<Result<StoredSession>> {
        let sessions = self.sessions.as_ref()?.borrow();
        sessions.get(&pk).map(read_stored)
    }

    /// Reads ahead those sessions of `events` that are not in memory, because the caller needs them next. Drops all
    /// others.
    pub(super) fn fetch_sessions(
        &self,
        rows: &Rows<'_>,
        events: &[(SessionPk, EventRow)],
    ) -> Result<()> {
        let Some(sessions) = &self.sessions else {
            return Ok(());
        };
        let needed: BTreeSet<SessionPk> = events.iter().map(|(pk, _)| *pk).collect();
        let mut cached = sessions.borrow_mut();
        cached.retain(|pk, _| needed.contains(pk));
        let missing = needed.iter().filter(|pk| !cached.contains_key(pk));
        let free_slots = SESSIONS_MAX.saturating_sub(cached.len());
        let missing: Vec<SessionPk> = missing.take(free_slots).copied().collect();
        // For a single session, reading ahead would save no round trip.
        if missing.len() > 1 {
            for row in session::by_pks(rows, &by_lane(rows.lanes, missing.into_iter()))? {
                cached.insert(read_u64(&row, 0)?, row);
            }
        }
        Ok(())
    }
}

//! Rows of a snapshot that are read before they are needed, because each query costs a round trip.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{EventRow, SessionPk, StoredSession};
use filrouge_types::Failure;
use tokio_postgres::Row;

use super::{Rows, SessionLookup, column, int, read_stored, session, uint};

/// The maximum number of sessions that are read at once, such as those of a page of events.
const SESSIONS: usize = 256;

/// Rows of one snapshot, as the server returned them: the caller parses them.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The session that was requested together with the snapshot, if any.
    named: Option<(SessionLookup, Option<Row>)>,
    /// Sessions of the newest page of events; `None` outside a snapshot, where nothing is read ahead.
    sessions: Option<RefCell<BTreeMap<SessionPk, Row>>>,
}

impl ReadAhead {
    /// For a snapshot, with the session that was read when it began.
    pub(crate) fn in_snapshot(named: Option<(SessionLookup, Option<Row>)>) -> Self {
        Self {
            named,
            sessions: Some(RefCell::default()),
        }
    }

    pub(super) fn session(
        &self,
        lookup: &SessionLookup,
    ) -> Option<Result<Option<StoredSession>, Failure>> {
        let (named, row) = self.named.as_ref()?;
        (named == lookup).then(|| row.as_ref().map(read_stored).transpose())
    }

    pub(super) fn newest_seq(&self, pk: SessionPk) -> Option<Result<u64, Failure>> {
        let row = self.named.as_ref()?.1.as_ref()?;
        (uint(row, 0).ok()? == pk).then(|| {
            let seq: Option<i64> = column(row, 15)?;
            seq.map_or(Ok(0), |_| uint(row, 15))
        })
    }

    pub(super) fn session_by_pk(&self, pk: SessionPk) -> Option<Result<StoredSession, Failure>> {
        let sessions = self.sessions.as_ref()?.borrow();
        sessions.get(&pk).map(read_stored)
    }

    /// Reads ahead the sessions of `events` that are not in memory: the caller needs them next.
    pub(super) fn sessions_of(
        &self,
        rows: &Rows<'_>,
        events: &[(SessionPk, EventRow)],
    ) -> Result<(), Failure> {
        let Some(sessions) = &self.sessions else {
            return Ok(());
        };
        let needed: BTreeSet<SessionPk> = events.iter().map(|(pk, _)| *pk).collect();
        let mut cached = sessions.borrow_mut();
        cached.retain(|pk, _| needed.contains(pk));
        let missing = needed.iter().filter(|pk| !cached.contains_key(pk));
        let room = SESSIONS.saturating_sub(cached.len());
        let missing: Vec<i64> = missing.take(room).map(|pk| int(*pk)).collect();
        // Reading a single session ahead would save no round trip.
        if missing.len() > 1 {
            for row in session::by_pks(rows, &missing)? {
                cached.insert(uint(&row, 0)?, row);
            }
        }
        Ok(())
    }
}

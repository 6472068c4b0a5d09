//! What was read of a sight before it is asked for: each question to the server costs a round trip.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::{EventRow, SessionPk, Stored};
use filrouge_types::Failure;
use tokio_postgres::Row;

use super::{Asked, Rows, column, int, read_stored, session, uint};

/// Most sessions that are read at once, as those of a page of events.
const SESSIONS: usize = 256;

/// Rows of one snapshot, as the server gave them: they are taken apart by who asks.
#[derive(Default)]
pub(crate) struct Seen {
    /// The session that the sight was taken for, if it was for one.
    named: Option<(Asked, Option<Row>)>,
    /// Sessions of the newest page of events, where they are read ahead.
    sessions: Option<RefCell<BTreeMap<SessionPk, Row>>>,
}

impl Seen {
    /// Of a snapshot, with the session that was read when it was taken.
    pub(crate) fn in_snapshot(named: Option<(Asked, Option<Row>)>) -> Self {
        Self {
            named,
            sessions: Some(RefCell::default()),
        }
    }

    pub(super) fn session(&self, asked: &Asked) -> Option<Result<Option<Stored>, Failure>> {
        let (of, row) = self.named.as_ref()?;
        (of == asked).then(|| row.as_ref().map(read_stored).transpose())
    }

    pub(super) fn newest_seq(&self, pk: SessionPk) -> Option<Result<u64, Failure>> {
        let row = self.named.as_ref()?.1.as_ref()?;
        (uint(row, 0).ok()? == pk).then(|| {
            let seq: Option<i64> = column(row, 15)?;
            seq.map_or(Ok(0), |_| uint(row, 15))
        })
    }

    pub(super) fn session_by_pk(&self, pk: SessionPk) -> Option<Result<Stored, Failure>> {
        let sessions = self.sessions.as_ref()?.borrow();
        sessions.get(&pk).map(read_stored)
    }

    /// Reads the sessions of `events` that are not known, which are asked for next.
    pub(super) fn sessions_of(
        &self,
        rows: &Rows<'_>,
        events: &[(SessionPk, EventRow)],
    ) -> Result<(), Failure> {
        let Some(sessions) = &self.sessions else {
            return Ok(());
        };
        let of: BTreeSet<SessionPk> = events.iter().map(|(pk, _)| *pk).collect();
        let mut known = sessions.borrow_mut();
        known.retain(|pk, _| of.contains(pk));
        let unknown = of.iter().filter(|pk| !known.contains_key(pk));
        let room = SESSIONS.saturating_sub(known.len());
        let unknown: Vec<i64> = unknown.take(room).map(|pk| int(*pk)).collect();
        // One alone is as well asked for when it is needed.
        if unknown.len() > 1 {
            for row in session::by_pks(rows, &unknown)? {
                known.insert(uint(&row, 0)?, row);
            }
        }
        Ok(())
    }
}

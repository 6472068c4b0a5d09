//! The sessions that have a holder (DESIGN §6).

use filrouge_types::{Result, Session, SessionStatus, Timestamp};

use super::{Findings, VerifiedSnapshot};
use crate::command::{Scope, SessionFilter, SessionSort};
use crate::rows::{HeadLease, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The sessions that have a holder at the time `now`, each with its lease, among the `limit` active sessions with the
    /// latest activity; and whether there are further active sessions, which are not examined. Leaves out damaged
    /// sessions and adds them to `findings`.
    ///
    /// # Errors
    /// As [`Self::list_sessions`].
    pub fn held_sessions(
        &self,
        scope: &Scope,
        now: Timestamp,
        limit: usize,
        findings: &mut Findings,
    ) -> Result<(Vec<(Session, HeadLease)>, bool)> {
        let filter = SessionFilter {
            status: Some(SessionStatus::Active),
            order: SessionSort::Updated,
            ..SessionFilter::default()
        };
        let (page, next) = self.listed_page(scope, &filter, None, limit, findings)?;
        let held = page
            .into_iter()
            .filter(|session| session.head.lease.is_live(now));
        let held = held.map(|session| {
            let lease = session.head.lease.clone();
            (session.row.with_head(&session.head), lease)
        });
        Ok((held.collect(), next.is_some()))
    }
}

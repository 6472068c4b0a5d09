//! The rows of refused links and of shares, which are events of their sessions.

use filrouge_store::read::VerifiedSession;
use filrouge_store::rows::View;
use filrouge_types::{Result, SessionEvent};

use super::PageReader;
use crate::audit::{AuditKind, AuditRow};
use crate::refused_links::{names_identity, refused_link};
use crate::shares::share_event;

/// The number of events that one query reads.
const EVENTS_PER_READ: usize = 256;

impl<V: View + ?Sized> PageReader<'_, '_, V> {
    /// Adds the rows of a session's events after number `after`. If the page fills up first,
    /// returns the number of the last event that was read.
    pub(super) fn add_events(
        &mut self,
        session: &VerifiedSession,
        mut after: usize,
    ) -> Result<Option<usize>> {
        loop {
            let (events, next) = self.events(session, after as u64, EVENTS_PER_READ)?;
            for event in &events {
                if self.is_full() {
                    return Ok(Some(after));
                }
                if self.query.includes_time(event.created_at) {
                    self.add_event_row(session, event);
                }
                self.examined_items += 1;
                after += 1;
            }
            if next.is_none() {
                return Ok(None);
            }
        }
    }

    /// Adds the row of the event with this number, if it has one.
    pub(super) fn add_event(&mut self, session: &VerifiedSession, number: u64) -> Result<()> {
        let (events, _) = self.events(session, number - 1, 1)?;
        self.examined_items += 1;
        if let Some(event) = events.first() {
            self.add_event_row(session, event);
        }
        Ok(())
    }

    fn events(
        &self,
        session: &VerifiedSession,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<SessionEvent>, Option<String>)> {
        let id = &session.row.session_id;
        self.snapshot.events(self.scope, id, after, limit)
    }

    fn add_event_row(&mut self, session: &VerifiedSession, event: &SessionEvent) {
        let Some(detail) = refused_link(event).or_else(|| share_event(event)) else {
            return;
        };
        let expected = self.query.identity_id.as_ref();
        let is_shown = self.query.includes_kind(AuditKind::Link)
            && expected.is_none_or(|identity| names_identity(detail, identity));
        if is_shown && self.query.tool.is_none() && self.query.agent.is_none() {
            self.rows
                .push(AuditRow::of_event(&session.row, event, detail));
        }
    }
}

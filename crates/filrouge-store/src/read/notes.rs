//! Reads and verifies notes and events.

use filrouge_types::{ErrorCode, EventKey, Failure, SessionEvent, SessionId};

use super::{VerifiedSession, VerifiedSnapshot, in_session};
use crate::command::Scope;
use crate::ledger::Note;
use crate::record::MacCheck;
use crate::rows::{EventRow, NoteRow, RECORDS_BYTES, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// A note, verified.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn note(&self, name: &str) -> Result<Option<Note>, Failure> {
        let row = self.note_row(name)?;
        Ok(row.map(|row| Note {
            version: row.version,
            value: row.value,
        }))
    }

    pub(crate) fn note_row(&self, name: &str) -> Result<Option<NoteRow>, Failure> {
        self.suspects.check_note(name)?;
        let row = self.view.note(name)?;
        let mac_matches = row.as_ref().map(|row| row.mac_matches(self.keyring));
        match mac_matches {
            _ if self.check == MacCheck::Unverified => return Ok(row),
            None | Some(Some(true)) => {}
            Some(Some(false)) => {
                return Err(ErrorCode::IntegrityError.failure(format!("note {name:?} was changed")));
            }
            Some(None) => {
                return Err(ErrorCode::KeyMissing.failure(format!(
                    "note {name:?} was written with a key that is not in the keyring"
                )));
            }
        }
        let mac = row.as_ref().map(|row| &row.mac);
        self.heads.check_note(self.view, self.keyring, name, mac)?;
        Ok(row)
    }

    /// A page of a session's events after number `after`, in the order of recording, and the cursor of the next page.
    /// The page ends early when its events reach [`RECORDS_BYTES`], but has at least one.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub fn events(
        &self,
        scope: &Scope,
        id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<SessionEvent>, Option<String>), Failure> {
        let session = self.get(scope, id)?;
        let read_page = || {
            let rows = self
                .view
                .events(session.pk, after, limit.saturating_add(1))?;
            let (mut page, mut next, mut bytes) = (Vec::new(), None, 0);
            for (row, number) in rows.into_iter().zip(after.saturating_add(1)..) {
                if page.len() == limit || bytes >= RECORDS_BYTES {
                    return Ok((page, next));
                }
                if row.number != number {
                    return Err(
                        session.integrity_failure(None, format!("event {number} is missing"))
                    );
                }
                next = Some(number.to_string());
                bytes += row.content_len();
                page.push(self.verified_event(&session, row)?);
            }
            Ok((page, None))
        };
        in_session(id, read_page())
    }

    /// The event of a session with this key, verified.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub fn event(
        &self,
        scope: &Scope,
        id: &SessionId,
        key: &EventKey,
    ) -> Result<Option<SessionEvent>, Failure> {
        let session = self.get(scope, id)?;
        let read = || {
            let Some(row) = self.view.event(session.pk, key)? else {
                return Ok(None);
            };
            let event = self.verified_event(&session, row)?;
            if event.key != *key {
                let detail = "an event's key leads to another event";
                return Err(session.integrity_failure(None, detail));
            }
            Ok(Some(event))
        };
        in_session(id, read())
    }

    pub(crate) fn verified_event(
        &self,
        session: &VerifiedSession,
        row: EventRow,
    ) -> Result<SessionEvent, Failure> {
        let mac_matches = row.mac_matches(self.keyring, session.pk);
        self.check_mac(session, mac_matches, None, || {
            format!("event {} was changed", row.number)
        })?;
        Ok(row.event)
    }
}

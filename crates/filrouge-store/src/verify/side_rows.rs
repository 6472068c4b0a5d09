//! Verifies events, checkpoints and drafts of sessions, and the notes of the store.

use std::collections::BTreeMap;

use filrouge_types::{ErrorCode, Failure, SessionId, TurnStatus};

use super::{Finding, VerificationReport};
use crate::read::{VerifiedSession, VerifiedSnapshot};
use crate::record::MacCheck;
use crate::rows::{Change, LogEntry, SessionPk, TurnRow, View};

/// The number of events per read.
const EVENTS_PER_READ: usize = 1024;

/// What the commit log says about those rows of a session that the head does not cover.
#[derive(Debug, Default)]
pub(super) struct LoggedRows {
    /// The number of events.
    pub(super) events: u64,
    /// The number of the newest chunk of each draft, by the place of the draft's turn. Only the drafts that were written
    /// after the session's newest items, because the write of these items may have ended the others.
    drafts: BTreeMap<u64, u64>,
}

impl LoggedRows {
    /// Applies a log entry of the session.
    pub(super) fn apply(&mut self, entry: &LogEntry) {
        match entry.change {
            Change::Event => self.events += 1,
            Change::Draft => {
                self.drafts.insert(entry.first_seq, entry.count);
            }
            Change::Lease | Change::Checkpoint => {}
            Change::Erased => *self = Self::default(),
            _ => self.drafts.clear(),
        }
    }
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Checks that a session's events have dense numbers and unchanged contents, and that each is found by its key.
    pub(super) fn verify_events(
        &self,
        session: &VerifiedSession,
        report: &mut VerificationReport,
    ) -> Result<(), Failure> {
        let mut next_number = 1;
        loop {
            let rows = self
                .view
                .events(session.pk, next_number - 1, EVENTS_PER_READ)?;
            if rows.is_empty() {
                return Ok(());
            }
            if session.row.erased.is_some() {
                return Err(session.integrity_failure(None, "an erased session has an event"));
            }
            for row in rows {
                if row.number != next_number {
                    return Err(
                        session.integrity_failure(None, format!("event {next_number} is missing"))
                    );
                }
                let event = self.verified_event(session, row)?;
                let by_key = self.view.event(session.pk, &event.key)?;
                if by_key.is_none_or(|row| row.number != next_number) {
                    let detail =
                        format!("the key of event {next_number} is missing or leads elsewhere");
                    return Err(session.integrity_failure(None, detail));
                }
                report.events += 1;
                next_number += 1;
            }
        }
    }

    /// Checks that a session's checkpoints are unchanged and are exactly those that the head names.
    pub(super) fn verify_checkpoints(
        &self,
        session: &VerifiedSession,
        report: &mut VerificationReport,
    ) -> Result<(), Failure> {
        let seqs = self.view.checkpoint_seqs(session.pk)?;
        for seq in &seqs {
            if self.checkpoint_at(session, *seq)?.is_none() || *seq > session.head.last_seq {
                let detail =
                    format!("the checkpoint at seq {seq} is missing or is after the newest item");
                return Err(session.integrity_failure(None, detail));
            }
            report.checkpoints += 1;
        }
        let head_checkpoints = &session.head.checkpoints;
        if !head_checkpoints.matches(&seqs) {
            return Err(session.integrity_failure(None, "checkpoints are missing or were added"));
        }
        if head_checkpoints.redacted > session.head.last_seq {
            return Err(
                session.integrity_failure(None, "the head names a redaction that does not exist")
            );
        }
        Ok(())
    }

    /// Checks that each of a session's drafts is unchanged and belongs to an open turn. Drafts are not chained:
    /// [`Self::compare_drafts`] detects missing and older ones.
    pub(super) fn verify_drafts(&self, session: &VerifiedSession) -> Result<(), Failure> {
        for row in self.view.drafts(session.pk)? {
            let turn = row.turn_id;
            let row = self.verified_draft(session, row)?;
            self.draft_pieces(session, &row)?;
            let turns = self
                .view
                .turns(session.pk, row.place, row.place, false, 1)?;
            let is_open = |t: &TurnRow| t.turn_id == turn && t.status == TurnStatus::Open;
            if !turns.iter().any(is_open) {
                let detail = format!("turn {turn} has a draft but is not open");
                return Err(session.integrity_failure(None, detail));
            }
        }
        Ok(())
    }

    /// Checks that the drafts that the commit log names exist, with the newest chunks that it names.
    pub(super) fn compare_drafts(
        &self,
        pk: SessionPk,
        id: &SessionId,
        logged: &LoggedRows,
    ) -> Result<(), Failure> {
        for (place, newest_chunk) in &logged.drafts {
            let stored = self.view.draft(pk, *place)?;
            if stored.is_none_or(|draft| draft.last_chunk != *newest_chunk) {
                let detail = "a draft is missing or is not in its newest state";
                return Err(Failure::integrity(id.as_str(), None, detail));
            }
        }
        Ok(())
    }

    /// Checks the MAC of each note. [`Self::compare_heads`] checks whether each note is in its newest version.
    pub(super) fn verify_notes(&self, report: &mut VerificationReport) -> Result<(), Failure> {
        let notes = match self.view.notes() {
            Ok(notes) => notes,
            Err(failure) => return report.add_result(Err(failure)),
        };
        for note in notes {
            report.notes += 1;
            let mac_matches = match &note {
                None => Some(false),
                Some(_) if self.check == MacCheck::Unverified => Some(true),
                Some(note) => note.mac_matches(self.keyring),
            };
            let name = note.map_or("whose bytes are malformed".into(), |n| {
                format!("{:?}", n.name)
            });
            let (code, detail) = match mac_matches {
                Some(true) => continue,
                Some(false) => (ErrorCode::IntegrityError, "was changed"),
                None => (
                    ErrorCode::KeyMissing,
                    "was written with a key that is not in the keyring",
                ),
            };
            let detail = format!("note {name} {detail}");
            report.findings.push(Finding::new(code, None, detail));
        }
        Ok(())
    }
}

//! What lies beside sessions' items: their events, and the store's notes.

use filrouge_types::{ErrorCode, Failure, TurnStatus};

use super::{Finding, Report};
use crate::read::{Loaded, Sight};
use crate::record::Check;
use crate::rows::{TurnRow, View};

/// Events read at once.
const EVENTS: usize = 1024;

impl<V: View + ?Sized> Sight<'_, V> {
    /// A session's events: dense, each as it was recorded, and each found by its key.
    pub(super) fn verify_events(
        &self,
        session: &Loaded,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let mut next = 1;
        loop {
            let rows = self.view.events(session.pk, next - 1, EVENTS)?;
            if rows.is_empty() {
                return Ok(());
            }
            if session.row.erased.is_some() {
                return Err(session.broken(None, "an event came back after the erasure"));
            }
            for row in rows {
                if row.number != next {
                    return Err(session.broken(None, format!("event {next} is missing")));
                }
                let event = self.verified_event(session, row)?;
                let found = self.view.event(session.pk, &event.key)?;
                if found.is_none_or(|row| row.number != next) {
                    let what = format!("the key of event {next} is missing or leads elsewhere");
                    return Err(session.broken(None, what));
                }
                report.events += 1;
                next += 1;
            }
        }
    }

    /// A session's checkpoints: each as it was put, and those that the head tells of.
    pub(super) fn verify_checkpoints(
        &self,
        session: &Loaded,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let seqs = self.view.checkpoint_seqs(session.pk)?;
        for seq in &seqs {
            if self.checkpoint_at(session, *seq)?.is_none() || *seq > session.head.last_seq {
                let what = format!("the checkpoint at seq {seq} is missing or covers too much");
                return Err(session.broken(None, what));
            }
            report.checkpoints += 1;
        }
        let known = session.head.checkpoints;
        if !known.tells_of(&seqs) {
            return Err(session.broken(None, "checkpoints are missing or were added"));
        }
        if known.redacted > session.head.last_seq {
            return Err(session.broken(None, "the head tells of a redaction that is not there"));
        }
        Ok(())
    }

    /// A session's drafts: each of an open turn, and as it was put. They are not chained: that one is missing is
    /// not seen.
    pub(super) fn verify_drafts(&self, session: &Loaded) -> Result<(), Failure> {
        for row in self.view.drafts(session.pk)? {
            let turn = row.turn_id;
            let row = self.verified_draft(session, row)?;
            self.draft_pieces(session, &row)?;
            let of = self
                .view
                .turns(session.pk, row.place, row.place, false, 1)?;
            let open = |t: &TurnRow| t.turn_id == turn && t.status == TurnStatus::Open;
            if !of.iter().any(open) {
                let what = format!("a draft is there of turn {turn}, which is not open");
                return Err(session.broken(None, what));
            }
        }
        Ok(())
    }

    /// Each note as it was put; that it is the newest one is seen by the newest commit.
    pub(super) fn verify_notes(&self, report: &mut Report) -> Result<(), Failure> {
        let notes = match self.view.notes() {
            Ok(notes) => notes,
            Err(failure) => return report.note(Err(failure)),
        };
        for note in notes {
            report.notes += 1;
            let verified = match &note {
                None => Some(false),
                Some(_) if self.check == Check::Unverified => Some(true),
                Some(note) => note.verified(self.keyring),
            };
            let name = note.map_or("whose bytes are malformed".into(), |n| {
                format!("{:?}", n.name)
            });
            let (code, what) = match verified {
                Some(true) => continue,
                Some(false) => (ErrorCode::IntegrityError, "was changed"),
                None => (
                    ErrorCode::KeyMissing,
                    "was written with a key that is not in the keyring",
                ),
            };
            let what = format!("note {name} {what}");
            report.findings.push(Finding::of(code, None, what));
        }
        Ok(())
    }
}

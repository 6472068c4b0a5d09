//! One run of a copy: collects the writes of each transaction of the target, and makes the target's commit log.

use std::collections::BTreeMap;

use filrouge_types::{ErrorCode, Failure};

use super::target_tx::{CopiedSession, TargetTx};
use super::{CopyObserver, CopyStage, CopyTarget, newest_position};
use crate::keyring::Keyring;
use crate::ledger::Position;
use crate::read::LedgerSnapshot;
use crate::rows::{NoteRow, RECORDS_BYTES, SessionPk};
use crate::verify::{Finding, VerificationReport};

/// The approximate size in bytes of a row besides its contents.
pub(super) const ROW_BYTES: usize = 96;

/// One write of a transaction.
type Write = Box<dyn FnOnce(&mut TargetTx<'_>) -> Result<(), Failure>>;

/// The results of a run so far.
#[derive(Default)]
pub(super) struct RunResults {
    /// The counts of all sessions and notes that the copy gets.
    pub(super) copied: VerificationReport,
    /// The number of sessions that an earlier run copied and that have not changed since.
    pub(super) unchanged: u64,
    /// The findings because of which the copy lacks sessions and notes of the source.
    pub(super) left_out: Vec<Finding>,
}

/// One run of a copy.
pub(super) struct Run<'r, 's> {
    pub(super) source: &'r LedgerSnapshot<'s>,
    /// The keys of the target.
    pub(super) keyring: &'r Keyring,
    pub(super) copy_target: &'r mut dyn CopyTarget,
    observer: &'r mut dyn CopyObserver,
    pub(super) resumed: bool,
    /// The writes of the next transaction.
    writes: Vec<Write>,
    /// The approximate size of these writes in bytes.
    bytes: usize,
    /// The number, in the target, of the session that is being written.
    pk: SessionPk,
    /// The complete sessions of the copy.
    pub(super) sessions: Vec<CopiedSession>,
    /// The progress to report: the stage, the finished sessions and all sessions.
    progress: (CopyStage, u64, u64),
    pub(super) results: RunResults,
}

impl<'r, 's> Run<'r, 's> {
    pub(super) fn new(
        (source, keyring): (&'r LedgerSnapshot<'s>, &'r Keyring),
        copy_target: &'r mut dyn CopyTarget,
        observer: &'r mut dyn CopyObserver,
        resumed: bool,
    ) -> Self {
        Self {
            source,
            keyring,
            copy_target,
            observer,
            resumed,
            writes: Vec::new(),
            bytes: 0,
            pk: 0,
            sessions: Vec::new(),
            progress: (CopyStage::Sessions, 0, 0),
            results: RunResults::default(),
        }
    }

    /// Adds a write to the next transaction, which runs once it is large enough. `bytes` is the size of the contents
    /// that are written.
    pub(super) fn put(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut TargetTx<'_>) -> Result<(), Failure> + 'static,
    ) -> Result<(), Failure> {
        self.bytes += ROW_BYTES + bytes;
        self.writes.push(Box::new(write));
        if self.writes.len() >= self.copy_target.rows_per_transaction()
            || self.bytes >= RECORDS_BYTES
        {
            self.flush()?;
        }
        Ok(())
    }

    /// Runs the transaction.
    fn flush(&mut self) -> Result<(), Failure> {
        let (stage, done, total) = self.progress;
        self.observer.progress(stage, done, total)?;
        self.bytes = 0;
        if self.writes.is_empty() {
            return Ok(());
        }
        let (writes, keyring) = (&mut self.writes, self.keyring);
        let (pk, sessions) = (&mut self.pk, &mut self.sessions);
        self.copy_target.write(&mut |tx, now| {
            let mut tx = TargetTx {
                tx,
                keyring,
                pk: *pk,
                sessions: &mut *sessions,
                groups: BTreeMap::new(),
            };
            for write in writes.drain(..) {
                write(&mut tx)?;
            }
            *pk = tx.pk;
            tx.finish(now)
        })
    }

    fn report(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure> {
        self.progress = (stage, done, total);
        self.observer.progress(stage, done, total)
    }

    /// Verifies the source, and copies each session that has no finding. Returns the report about the source.
    pub(super) fn copy_sessions(&mut self) -> Result<VerificationReport, Failure> {
        let source = self.source;
        let report = source.verify_each(&mut |pk, session, (done, total)| {
            self.report(CopyStage::Sessions, done, total)?;
            if session.findings.is_empty() {
                self.results.copied.add(session.clone());
                return self.copy_session(pk, session.events);
            }
            self.results.left_out.extend_from_slice(&session.findings);
            Ok(())
        })?;
        self.flush()?;
        Ok(report)
    }

    /// Makes the commit log: each session is one change, followed by its events.
    pub(super) fn write_log(&mut self) -> Result<(), Failure> {
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions.sort_unstable_by_key(|session| session.pk);
        let total = sessions.len() as u64;
        for (done, session) in (0..).zip(sessions) {
            self.report(CopyStage::Commits, done, total)?;
            let events = usize::try_from(session.events).unwrap_or(usize::MAX);
            let bytes = events.saturating_mul(ROW_BYTES);
            self.put(bytes, move |t| t.log_session(session))?;
        }
        self.flush()
    }

    /// Copies all notes. They are written after the log of the sessions, because their values may contain its end.
    pub(super) fn copy_notes(&mut self) -> Result<(), Failure> {
        let mut end = Position::default();
        self.copy_target.with_view(&mut |view| {
            end = newest_position(view)?;
            Ok(())
        })?;
        for note in self.source.view.notes()? {
            let verified = match note {
                Some(note) => self.source.note_row(&note.name),
                None => Err(ErrorCode::IntegrityError.failure("a stored note is malformed")),
            };
            match verified {
                Ok(note) => note.map_or(Ok(()), |note| self.copy_note(note, &end))?,
                Err(failure) if is_finding(&failure) => {
                    self.results.left_out.push(failure.into());
                }
                Err(failure) => return Err(failure),
            }
        }
        self.flush()
    }

    fn copy_note(&mut self, note: NoteRow, end: &Position) -> Result<(), Failure> {
        let Some(value) = self.observer.note_value(&note.name, note.value, end) else {
            return Ok(());
        };
        self.results.copied.notes += 1;
        let note = NoteRow::sealed(note.name, note.version, value, self.keyring);
        self.put(note.value.len(), move |t| t.put_note(&note))
    }
}

/// Whether a failure concerns stored data, and not the store that contains them.
fn is_finding(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::IntegrityError | ErrorCode::KeyMissing
    )
}

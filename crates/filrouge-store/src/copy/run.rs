//! One run of a copy: the rows buffered for the next transaction, and the copying of rows that belong to no session.

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure};

use super::{CopyObserver, CopyRow, CopyStage, CopyTarget, RunResults};
use crate::read::VerifiedSnapshot;
use crate::rows::{LogRow, RECORDS_BYTES, SessionPk, View};
use crate::verify::Finding;

/// The maximum number of rows of one transaction.
const ROWS_MAX: usize = 4096;

/// The number of commits per read.
const COMMITS_PER_READ: usize = 1024;

/// One run of a copy.
pub(super) struct Run<'r, 's, V: ?Sized> {
    pub(super) source: &'r VerifiedSnapshot<'s, V>,
    pub(super) copy_target: &'r mut dyn CopyTarget,
    observer: &'r mut dyn CopyObserver,
    pub(super) resumed: bool,
    rows: Vec<CopyRow>,
    bytes: usize,
    /// The progress to report: the stage, the finished rows and all rows.
    progress: (CopyStage, u64, u64),
    pub(super) results: RunResults,
}

impl<'r, 's, V: View + ?Sized> Run<'r, 's, V> {
    pub(super) fn new(
        source: &'r VerifiedSnapshot<'s, V>,
        copy_target: &'r mut dyn CopyTarget,
        observer: &'r mut dyn CopyObserver,
        resumed: bool,
    ) -> Self {
        Self {
            source,
            copy_target,
            observer,
            resumed,
            rows: Vec::new(),
            bytes: 0,
            progress: (CopyStage::Commits, 0, 0),
            results: RunResults {
                unchanged: 0,
                newest_pk: 0,
                left_out: Vec::new(),
            },
        }
    }

    /// Buffers a row for the next transaction, and writes the transaction once it is large enough.
    pub(super) fn put(&mut self, row: CopyRow) -> Result<(), Failure> {
        self.bytes += row.bytes();
        self.rows.push(row);
        if self.rows.len() >= ROWS_MAX || self.bytes >= RECORDS_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the buffered rows in one transaction.
    fn flush(&mut self) -> Result<(), Failure> {
        let (stage, done, all) = self.progress;
        self.observer.progress(stage, done, all)?;
        if !self.rows.is_empty() {
            self.copy_target.put(&self.rows)?;
        }
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    fn report(&mut self, stage: CopyStage, done: u64, all: u64) -> Result<(), Failure> {
        self.progress = (stage, done, all);
        self.observer.progress(stage, done, all)
    }

    /// Returns the result of a read. When stored rows are unreadable, records the finding and returns `None`, so that
    /// the copy continues without the rows.
    pub(super) fn unless_unreadable<T>(
        &mut self,
        result: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match result {
            Err(failure) if failure.code == ErrorCode::IntegrityError => {
                self.results.left_out.push(failure.into());
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Copies the commits that the copy does not have yet. `total` is the number of the source's newest commit.
    ///
    /// # Errors
    /// `integrity_error` when the source no longer has the copy's newest commit unchanged.
    pub(super) fn copy_commits(&mut self, total: u64) -> Result<(), Failure> {
        // The copy's newest commit; `None` once the source's commit with the same number has proved equal to it.
        let mut unmatched: Option<LogRow> = None;
        self.copy_target.with_view(&mut |view| {
            unmatched = view.newest_log()?;
            Ok(())
        })?;
        let copied_up_to = unmatched.as_ref().map_or(0, |row| row.commit_no);
        let mut after = 0;
        loop {
            let rows = self.source.view.log(after, COMMITS_PER_READ)?;
            let Some(last) = rows.last() else { break };
            after = last.commit_no;
            self.report(CopyStage::Commits, after.min(total), total)?;
            for row in rows {
                let sessions = row.entries().unwrap_or_default();
                let newest = sessions.iter().map(|entry| entry.pk).max();
                self.results.newest_pk = self.results.newest_pk.max(newest.unwrap_or(0));
                if row.commit_no == copied_up_to {
                    if unmatched.as_ref() != Some(&row) {
                        return Err(source_history_changed(copied_up_to));
                    }
                    unmatched = None;
                } else if row.commit_no > copied_up_to {
                    self.put(CopyRow::Commit(row))?;
                }
            }
        }
        match unmatched {
            Some(row) => Err(source_history_changed(row.commit_no)),
            None => self.flush(),
        }
    }

    /// Copies the sessions that the copy lacks or has in another state.
    pub(super) fn copy_sessions(&mut self) -> Result<(), Failure> {
        let pks: BTreeSet<SessionPk> = self.source.view.session_pks()?.into_iter().collect();
        if self.resumed {
            self.remove_deleted_sessions(&pks)?;
        }
        self.results.newest_pk = self.results.newest_pk.max(pks.last().copied().unwrap_or(0));
        let all = pks.len() as u64;
        for (done, pk) in (0..).zip(pks) {
            self.report(CopyStage::Sessions, done, all)?;
            if self.resumed && self.is_copied(pk)? {
                self.results.unchanged += 1;
            } else {
                self.copy_session(pk)?;
            }
        }
        self.flush()?;
        self.report(CopyStage::Sessions, all, all)
    }

    /// Removes sessions that the source no longer has, because they were deleted outside filrouge since an earlier run.
    fn remove_deleted_sessions(&mut self, pks: &BTreeSet<SessionPk>) -> Result<(), Failure> {
        let mut copied_pks = Vec::new();
        self.copy_target.with_view(&mut |view| {
            copied_pks = view.session_pks()?;
            Ok(())
        })?;
        for pk in copied_pks.into_iter().filter(|pk| !pks.contains(pk)) {
            self.put(CopyRow::RemoveSession(pk))?;
        }
        self.flush()
    }

    /// Copies all notes.
    pub(super) fn copy_notes(&mut self) -> Result<(), Failure> {
        for note in self.source.view.notes()? {
            match note {
                Some(note) => self.put(CopyRow::Note(note))?,
                None => self.results.left_out.push(Finding {
                    session_id: None,
                    seq: None,
                    code: ErrorCode::IntegrityError.as_str(),
                    what: "a stored note is malformed".to_owned(),
                }),
            }
        }
        self.flush()
    }
}

fn source_history_changed(commit_no: u64) -> Failure {
    let detail = format!(
        "the target was begun as a copy of this store, and commit {commit_no} has changed since"
    );
    Failure::new(ErrorCode::IntegrityError, detail)
        .with_hint("`filrouge verify` reports whether the source was reverted to an older state; to copy it as it is, name another target")
}

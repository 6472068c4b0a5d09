//! One run of a copy: what it has gathered for the next transaction, and the rows that belong to no session.

use std::collections::BTreeSet;

use filrouge_types::{ErrorCode, Failure};

use super::{Done, Intake, Piece, Stage, Watch};
use crate::read::Sight;
use crate::rows::{LogRow, RECORDS_BYTES, SessionPk, View};
use crate::verify::Finding;

/// Most rows of one transaction.
const ROWS_MAX: usize = 4096;

/// Commits that are read at once.
const COMMITS: usize = 1024;

pub(super) struct Run<'r, 's, V: ?Sized> {
    pub(super) source: &'r Sight<'s, V>,
    pub(super) intake: &'r mut dyn Intake,
    watch: &'r mut dyn Watch,
    pub(super) resumed: bool,
    rows: Vec<Piece>,
    bytes: usize,
    at: (Stage, u64, u64),
    pub(super) done: Done,
}

impl<'r, 's, V: View + ?Sized> Run<'r, 's, V> {
    pub(super) fn new(
        source: &'r Sight<'s, V>,
        intake: &'r mut dyn Intake,
        watch: &'r mut dyn Watch,
        resumed: bool,
    ) -> Self {
        Self {
            source,
            intake,
            watch,
            resumed,
            rows: Vec::new(),
            bytes: 0,
            at: (Stage::Commits, 0, 0),
            done: Done {
                known: 0,
                newest_pk: 0,
                left_out: Vec::new(),
            },
        }
    }

    /// Takes a row for the next transaction, and does that one once it is large enough.
    pub(super) fn put(&mut self, row: Piece) -> Result<(), Failure> {
        self.bytes += row.bytes();
        self.rows.push(row);
        if self.rows.len() >= ROWS_MAX || self.bytes >= RECORDS_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let (stage, done, all) = self.at;
        self.watch.step(stage, done, all)?;
        if !self.rows.is_empty() {
            self.intake.put(&self.rows)?;
        }
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    fn step(&mut self, stage: Stage, done: u64, all: u64) -> Result<(), Failure> {
        self.at = (stage, done, all);
        self.watch.step(stage, done, all)
    }

    /// What was read, or `None` when the stored rows cannot be: that is noted, and the copy goes on without them.
    pub(super) fn readable<T>(&mut self, read: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match read {
            Err(failure) if failure.code == ErrorCode::IntegrityError => {
                self.done.left_out.push(failure.into());
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Copies the commit log behind what the copy has of it.
    pub(super) fn commits(&mut self, all: u64) -> Result<(), Failure> {
        let mut known: Option<LogRow> = None;
        self.intake.look(&mut |view| {
            known = view.newest_log()?;
            Ok(())
        })?;
        let newest_known = known.as_ref().map_or(0, |row| row.commit_no);
        let mut after = 0;
        loop {
            let rows = self.source.view.log(after, COMMITS)?;
            let Some(last) = rows.last() else { break };
            after = last.commit_no;
            self.step(Stage::Commits, after.min(all), all)?;
            for row in rows {
                let sessions = row.entries().unwrap_or_default();
                let newest = sessions.iter().map(|entry| entry.pk).max();
                self.done.newest_pk = self.done.newest_pk.max(newest.unwrap_or(0));
                if row.commit_no == newest_known {
                    if known.as_ref() != Some(&row) {
                        return Err(another_history(newest_known));
                    }
                    known = None;
                } else if row.commit_no > newest_known {
                    self.put(Piece::Commit(row))?;
                }
            }
        }
        match known {
            Some(row) => Err(another_history(row.commit_no)),
            None => self.flush(),
        }
    }

    /// Copies the sessions that the copy has not got, or not as they are now.
    pub(super) fn sessions(&mut self) -> Result<(), Failure> {
        let pks: BTreeSet<SessionPk> = self.source.view.session_pks()?.into_iter().collect();
        if self.resumed {
            self.take_away_others(&pks)?;
        }
        self.done.newest_pk = self.done.newest_pk.max(pks.last().copied().unwrap_or(0));
        let all = pks.len() as u64;
        for (done, pk) in (0..).zip(pks) {
            self.step(Stage::Sessions, done, all)?;
            if self.resumed && self.is_copied(pk)? {
                self.done.known += 1;
            } else {
                self.session(pk)?;
            }
        }
        self.flush()?;
        self.step(Stage::Sessions, all, all)
    }

    /// A session that the source has no more was taken away outside filrouge since: the copy tells of the source as
    /// it is.
    fn take_away_others(&mut self, pks: &BTreeSet<SessionPk>) -> Result<(), Failure> {
        let mut others = Vec::new();
        self.intake.look(&mut |view| {
            others = view.session_pks()?;
            Ok(())
        })?;
        for pk in others.into_iter().filter(|pk| !pks.contains(pk)) {
            self.put(Piece::Gone(pk))?;
        }
        self.flush()
    }

    /// Copies all notes: they are few.
    pub(super) fn notes(&mut self) -> Result<(), Failure> {
        for note in self.source.view.notes()? {
            match note {
                Some(note) => self.put(Piece::Note(note))?,
                None => self.done.left_out.push(Finding {
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

fn another_history(commit_no: u64) -> Failure {
    let what = format!(
        "the target was begun as a copy of this store, and commit {commit_no} is not what it was then"
    );
    Failure::new(ErrorCode::IntegrityError, what)
        .with_hint("`filrouge verify` tells whether the source was put back to an older state; to copy it as it is, name another target")
}

//! The writer thread: applies all queued writes in one transaction, flushes once, then returns their results.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::rows::LogRow;
use filrouge_store::write_queue::{
    Aborted, GroupOutcome, GroupResult, GroupTx, PendingWrites, Request, Requests, apply_group,
};
use filrouge_store::{Entropy, Keyring, Lanes};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::Connection;

use crate::erasure::{self, Erasure};
use crate::error::{failure, is_busy, is_io_failure};
use crate::open::CHECKPOINT_WAIT;
use crate::presence::Presence;
use crate::rows::{RowCache, Rows};
use crate::store_state::{StoreState, data_version};

/// The pause between two attempts to get the write lock that another process has.
const LOCK_RETRY: Duration = Duration::from_micros(500);

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) store_state: Arc<StoreState>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The file's `data_version` up to which the writer has checked for foreign changes.
    pub(crate) checked_version: i64,
    /// Redactions that may still be in the WAL.
    pub(crate) erasure: Erasure,
    /// The rows written last.
    pub(crate) cache: RefCell<RowCache>,
    /// How long a transaction waits for the write lock.
    pub(crate) busy_timeout: Duration,
}

impl Writer {
    /// Runs until the queue is closed.
    pub(crate) fn run(mut self, mut requests: Requests) {
        let mut pending = PendingWrites::new(Lanes::ONE, 1);
        while pending.receive_blocking(&mut requests) {
            pending.serve(&mut |group, _| self.serve(group));
        }
        let emptied = self.erasure.finish(&self.conn);
        if let Err(error) = emptied {
            tracing::warn!(%error, "the last checkpoint failed; the WAL stays and is read at the next start");
        }
    }

    /// Runs one transaction, unless an earlier flush has failed. Records whether the disk was full.
    fn serve(&mut self, group: &[Request]) -> GroupResult {
        if let Some(reason) = self.store_state.read_only() {
            return Err(Aborted::Store(read_only_failure(&reason)));
        }
        let done = self.transact(group);
        // After any other failure, it stays unknown whether the disk has room, so the last known state remains.
        if let Err(Aborted::Write(failure) | Aborted::Store(failure)) = &done
            && failure.code == ErrorCode::StoreFull
        {
            self.store_state.record_disk_room(false);
        }
        done
    }

    /// Runs one transaction; on an error, no write of the group is acknowledged.
    fn transact(&mut self, group: &[Request]) -> GroupResult {
        self.begin().map_err(|e| Aborted::Store(failure(e)))?;
        let done = self.apply(group);
        let result = match done {
            Ok(done) => {
                let commit = self.commit(done.commits, !done.erases.is_empty());
                commit.map(|()| done.outcomes).map_err(Aborted::Store)
            }
            Err(aborted) => Err(aborted),
        };
        if result.is_err() {
            self.cache.get_mut().clear();
            self.roll_back();
        }
        result
    }

    /// Begins the transaction, once no other process has the write lock. SQLite's own wait would pause for up to 100 ms
    /// at a time, in which other processes could write many times.
    fn begin(&self) -> rusqlite::Result<()> {
        let deadline = Instant::now() + self.busy_timeout;
        self.conn.busy_timeout(Duration::ZERO)?;
        let begun = loop {
            let begin = self.conn.prepare_cached("BEGIN IMMEDIATE");
            match begin.and_then(|mut s| s.execute([])) {
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(LOCK_RETRY);
                }
                begun => break begun,
            }
        };
        self.conn.busy_timeout(CHECKPOINT_WAIT)?;
        begun.map(drop)
    }

    fn commit(&mut self, commits: Vec<LogRow>, has_erasures: bool) -> Result<(), Failure> {
        self.store_state.begin_commit();
        // There is one lane, so there is at most one commit.
        let log = commits.into_iter().next();
        let commit_no = log.as_ref().map(|row| row.commit_no);
        let commit = self
            .conn
            .prepare_cached("COMMIT")
            .and_then(|mut s| s.execute([]));
        // The WAL is emptied before the call of `end_commit`, so that the store state attributes this change of the
        // file to this process.
        let commit = commit.and_then(|_| match commit_no {
            Some(number) if has_erasures => self.erasure.begin(&self.conn, number),
            Some(_) => self.erasure.retry_pending(&self.conn),
            None => Ok(()),
        });
        match commit {
            Ok(()) => {
                if commit_no.is_some() {
                    self.store_state.record_disk_room(true);
                }
                let is_file_unchanged =
                    data_version(&self.conn).is_ok_and(|version| version == self.checked_version);
                self.store_state.end_commit(log, is_file_unchanged);
                Ok(())
            }
            Err(error) => {
                self.store_state.end_commit(None, false);
                if is_io_failure(&error) {
                    self.store_state.stop_writing(error.to_string());
                    Err(read_only_failure(&error.to_string()))
                } else {
                    Err(failure(error))
                }
            }
        }
    }

    fn apply(&mut self, group: &[Request]) -> Result<GroupOutcome, Aborted> {
        self.check_foreign_changes().map_err(Aborted::Store)?;
        let (verified, source) = (&self.store_state.log, self.entropy.as_ref());
        let times = (self.clock.now(), self.clock.lease_now());
        let server: &(dyn Fn() -> String + Sync) = &|| self.presence.name();
        let mut rows = Rows::cached(&self.conn, &self.cache);
        let done = apply_group(
            &mut rows,
            group,
            (verified, &self.keyring, server),
            (source, times.0, times.1),
        )?;
        if let Some(row) = done.commits.first().filter(|_| !done.erases.is_empty()) {
            let noted = erasure::write_note(&self.conn, row.commit_no);
            noted.map_err(|e| Aborted::Store(failure(e)))?;
        }
        Ok(done)
    }

    /// Checks for changes by other processes. None can follow in this transaction, because it has the write lock.
    fn check_foreign_changes(&mut self) -> Result<(), Failure> {
        let version = data_version(&self.conn)?;
        self.store_state.check_foreign_changes()?;
        if version != self.checked_version {
            self.cache.get_mut().clear();
            self.erasure.adopt_note(&self.conn).map_err(failure)?;
        }
        self.checked_version = version;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            self.store_state
                .stop_writing(format!("a rollback failed: {error}"));
        }
    }
}

pub(crate) fn read_only_failure(reason: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreReadOnly,
        format!("a flush failed, so nothing more is acknowledged: {reason}"),
    )
    .with_hint("check the disk, then start filrouge again; retry the write with the same key")
}

impl GroupTx for Rows<'_> {
    fn rows_written(&self) -> u64 {
        self.conn.total_changes()
    }

    /// SQLite accepts further statements after one has failed.
    fn is_unusable(&self) -> bool {
        false
    }
}

//! The writer thread: applies all queued writes in one transaction, flushes once, then returns their results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use filrouge_store::command::{Command, Outcome};
use filrouge_store::read::in_session;
use filrouge_store::rows::LogRow;
use filrouge_store::rules::{self, CommitGroup, RuleContext};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::erasure::{self, Erasure};
use crate::error::{failure, is_io_failure};
use crate::guard::{Guard, data_version};
use crate::rows::Rows;

/// The maximum number of writes in one transaction: bounds how long a write waits for others.
const GROUP_MAX: usize = 256;

type Reply = oneshot::Sender<Result<Outcome, Failure>>;

/// A write and its reply channel.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
}

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) guard: Arc<Guard>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The file's `data_version` up to which the writer has checked for foreign changes.
    pub(crate) seen: i64,
    /// Redactions that may still be in the WAL.
    pub(crate) erasure: Erasure,
}

/// What the writes of one transaction did before its commit.
struct Applied {
    /// The result of each write, in order.
    outcomes: Vec<Result<Outcome, Failure>>,
    /// The commit's row in the commit log; `None` if no write changed anything.
    log: Option<LogRow>,
    /// Whether contents were erased.
    erases: bool,
}

/// The reason why a transaction failed.
enum Aborted {
    /// One write failed after it had written rows, failed with `internal`, or panicked.
    Write(Failure),
    /// The store failed.
    Store(Failure),
}

impl Writer {
    /// Runs until every sender is dropped.
    pub(crate) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while let Some(first) = requests.blocking_recv() {
            group.push(first);
            while group.len() < GROUP_MAX {
                match requests.try_recv() {
                    Ok(next) => group.push(next),
                    Err(_) => break,
                }
            }
            self.serve(&mut group);
        }
        let emptied = self.erasure.finish(&self.conn);
        if let Err(error) = emptied {
            tracing::warn!(%error, "the last checkpoint failed; the WAL stays and is read at the next start");
        }
    }

    fn serve(&mut self, group: &mut Vec<Request>) {
        match self.guard.read_only() {
            Some(why) => answer_all(group, &read_only(&why)),
            None => self.serve_group(group),
        }
        group.clear();
    }

    /// Answers all requests. When one of several writes makes their common transaction fail, each write is run again in
    /// a transaction of its own.
    fn serve_group(&mut self, group: &mut Vec<Request>) {
        let done = self.transact(group);
        if let Err(Aborted::Write(failure) | Aborted::Store(failure)) = &done {
            // After any other failure, it stays unknown whether the disk has room, so the last known state remains.
            if failure.code == ErrorCode::StoreFull {
                self.guard.set_room(false);
            }
        }
        match done {
            Ok(outcomes) => {
                for (request, outcome) in group.drain(..).zip(outcomes) {
                    answer(request.reply, outcome);
                }
            }
            Err(Aborted::Write(_)) if group.len() > 1 => {
                for request in group.drain(..) {
                    self.serve(&mut vec![request]);
                }
            }
            Err(Aborted::Write(failure) | Aborted::Store(failure)) => answer_all(group, &failure),
        }
    }

    /// Runs one transaction; on an error, no write of the group is acknowledged.
    fn transact(&mut self, group: &[Request]) -> Result<Vec<Result<Outcome, Failure>>, Aborted> {
        self.conn
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut s| s.execute([]))
            .map_err(|e| Aborted::Store(failure(e)))?;
        // A panic in the rules must fail its own write, not stop the writer.
        let done = catch_unwind(AssertUnwindSafe(|| self.apply_all(group)));
        self.guard.suspect_found();
        let done = done.unwrap_or_else(|_| {
            let what = "a write panicked; the panic is in the log";
            Err(Aborted::Write(Failure::new(ErrorCode::Internal, what)))
        });
        let result = match done {
            Ok(done) => {
                let commit = self.commit(done.log, done.erases);
                commit.map(|()| done.outcomes).map_err(Aborted::Store)
            }
            Err(aborted) => Err(aborted),
        };
        if result.is_err() {
            self.roll_back();
        }
        result
    }

    fn commit(&mut self, log: Option<LogRow>, erases: bool) -> Result<(), Failure> {
        self.guard.committing();
        let commit_no = log.as_ref().map(|row| row.commit_no);
        let commit = self
            .conn
            .prepare_cached("COMMIT")
            .and_then(|mut s| s.execute([]));
        // The WAL is emptied before the call of `committed`, so that the guard attributes this change of the file to
        // this process.
        let commit = commit.and_then(|_| match commit_no {
            Some(number) if erases => self.erasure.begin(&self.conn, number),
            Some(_) => self.erasure.retry_pending(&self.conn),
            None => Ok(()),
        });
        match commit {
            Ok(()) => {
                if commit_no.is_some() {
                    self.guard.set_room(true);
                }
                let unchanged = data_version(&self.conn).is_ok_and(|now| now == self.seen);
                self.guard.committed(log, unchanged);
                Ok(())
            }
            Err(error) => {
                self.guard.committed(None, false);
                if is_io_failure(&error) {
                    self.guard.stop_writing(error.to_string());
                    Err(read_only(&error.to_string()))
                } else {
                    Err(failure(error))
                }
            }
        }
    }

    fn apply_all(&mut self, group: &[Request]) -> Result<Applied, Aborted> {
        self.check_foreign_changes().map_err(Aborted::Store)?;
        let mut rows = Rows(&self.conn);
        let suspects = self.guard.suspects();
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now: self.clock.now(),
            suspects: &suspects,
            known_heads: Some(self.guard.known_heads()),
        };
        let mut log = CommitGroup::begin(&rows, ctx.keyring).map_err(Aborted::Store)?;
        let mut outcomes = Vec::with_capacity(group.len());
        let mut erases = false;
        for request in group {
            let before = self.conn.total_changes();
            match rules::apply(&mut rows, &mut log, &ctx, &request.command) {
                Err(failure) if is_store_failure(&failure) => return Err(Aborted::Store(failure)),
                // The rows that a failed write has already written must not be committed with those of the other
                // writes.
                Err(failure) if self.conn.total_changes() != before => {
                    return Err(Aborted::Write(failure));
                }
                Err(failure) if failure.code == ErrorCode::Internal => {
                    return Err(Aborted::Write(failure));
                }
                outcome => {
                    erases |= match &outcome {
                        Ok(Outcome::Redacted(r)) => !r.replayed,
                        Ok(Outcome::Erased(_)) => self.conn.total_changes() != before,
                        _ => false,
                    };
                    outcomes.push(outcome);
                }
            }
        }
        let log = log.finish(&mut rows, &ctx).map_err(Aborted::Store)?;
        if let Some(row) = log.as_ref().filter(|_| erases) {
            erasure::note(&self.conn, row.commit_no).map_err(|e| Aborted::Store(failure(e)))?;
        }
        Ok(Applied {
            outcomes,
            log,
            erases,
        })
    }

    /// Checks for changes by other processes. None can follow in this transaction, because it has the write lock.
    fn check_foreign_changes(&mut self) -> Result<(), Failure> {
        let version = data_version(&self.conn)?;
        self.guard.check_foreign_changes()?;
        if version != self.seen {
            self.erasure.take_over(&self.conn).map_err(failure)?;
        }
        self.seen = version;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            self.guard
                .stop_writing(format!("a rollback failed: {error}"));
        }
    }
}

/// Whether the store itself failed, perhaps in the middle of a write. Any other failure is a refusal by the rules.
fn is_store_failure(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull | ErrorCode::StoreReadOnly
    )
}

pub(crate) fn read_only(why: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreReadOnly,
        format!("a flush failed, so nothing more is acknowledged: {why}"),
    )
    .with_hint("check the disk, then start filrouge again; retry the write with the same key")
}

fn answer_all(group: &mut Vec<Request>, failure: &Failure) {
    for request in group.drain(..) {
        let refusal = Err(failure.clone());
        let refusal = match request.command.write.session_id() {
            Some(id) => in_session(id, refusal),
            None => refusal,
        };
        answer(request.reply, refusal);
    }
}

fn answer(reply: Reply, outcome: Result<Outcome, Failure>) {
    if reply.send(outcome).is_err() {
        // The caller has disconnected. If the write was committed, a retry with the same key finds it.
        tracing::debug!("the caller of this write has gone");
    }
}

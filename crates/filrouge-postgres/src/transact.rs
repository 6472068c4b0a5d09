//! One transaction of the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use filrouge_store::command::Outcome;
use filrouge_store::copy::unfinished;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::rules::{self, CommitGroup, RuleContext};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use tokio::sync::Notify;
use tokio::try_join;
use tokio_postgres::Error;

use crate::error::{failure, is_lost, is_standby, is_transient, unavailable};
use crate::rows::{ReadAhead, Rows, int, read_log};
use crate::session::{Param, Session};
use crate::stage::{LOCK, LOG_AT, Pending, Stage, Wanted};
use crate::vacuum;
use crate::writer::{Request, Writer, is_store_failure};

/// The outcome of each write, and the commit's log row.
pub(crate) struct GroupOutcome {
    pub(crate) outcomes: Vec<Result<Outcome, Failure>>,
    pub(crate) log: Option<LogRow>,
    /// Whether contents were erased.
    pub(crate) erases: bool,
}

/// The reason why a transaction was rolled back.
pub(crate) enum Aborted {
    /// One write failed part-way.
    Write(Failure),
    /// The store failed.
    Store(Failure),
}

/// The reason why a transaction is not known to have committed.
pub(crate) enum NotCommitted {
    /// Nothing was written.
    Aborted(Box<Aborted>),
    /// The connection was lost; with the results, if COMMIT had been sent.
    Lost(Box<Failure>, Option<Box<GroupOutcome>>),
    /// Another transaction conflicted: nothing was written, and a retry may succeed.
    Conflict(Box<Failure>),
}

impl NotCommitted {
    pub(crate) fn lost(failure: Failure, done: Option<Box<GroupOutcome>>) -> Self {
        Self::Lost(Box::new(failure), done)
    }
}

impl From<Aborted> for NotCommitted {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(Box::new(aborted))
    }
}

/// Classifies an error of the connection before COMMIT.
fn classify(error: &Error) -> NotCommitted {
    let failure = failure(error);
    if is_lost(error) {
        NotCommitted::lost(failure, None)
    } else if is_transient(error) {
        NotCommitted::Conflict(Box::new(failure))
    } else if is_store_failure(&failure) {
        Aborted::Store(failure).into()
    } else {
        // Caused by one write's values, or by one row that it reads.
        Aborted::Write(failure).into()
    }
}

/// Each statement sees what was committed before it, including commits during the wait for the lock, whatever isolation
/// level a role or a database has set.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl Writer {
    /// Waits for an answer, up to the time limit.
    fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Failure> {
        let within = async { tokio::time::timeout(self.answer_timeout, future).await };
        self.driver
            .wait(within)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Like [`Self::wait`], for a request that begins a transaction and reports when `BEGIN` was answered. That answer
    /// has a shorter time limit than the lock, because a pooler whose server is down just lets its clients wait.
    fn wait_begun<T>(
        &self,
        request: impl AsyncFnOnce(&Notify) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, Failure> {
        let (begun, first) = (Notify::new(), first_answer(self.answer_timeout));
        let within = async {
            let mut request = pin!(request(&begun));
            tokio::select! {
                biased;
                answer = &mut request => return Ok(answer),
                begun = tokio::time::timeout(first, begun.notified()) => begun?,
            }
            tokio::time::timeout(self.answer_timeout, request).await
        };
        self.driver
            .wait(within)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Runs the group in one transaction.
    pub(crate) fn transact(
        &mut self,
        group: &[Request],
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let done = self.begin_and_apply(group);
        match done {
            Ok((done, pending)) => self.commit(done, &pending).map(Some),
            Err(NotCommitted::Lost(failure, done)) => Err(NotCommitted::Lost(failure, done)),
            Err(ended) => {
                self.roll_back();
                Err(ended)
            }
        }
    }

    fn begin_and_apply(
        &self,
        group: &[Request],
    ) -> Result<(Box<GroupOutcome>, Pending), NotCommitted> {
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        // Read before the database is queried. If it were read later, and this transaction had lost its lock, commits
        // that other servers added meanwhile and that this process already knows would seem to be missing.
        let verified = self.guard.newest();
        let verified_no = verified.as_ref().map_or(0, |row| row.commit_no);
        let wanted = Wanted::by(group.iter().map(|r| &r.command), &self.keyring);
        let begin = format!("{BEGIN}{}", connection.local);
        let session = &connection.session;
        session.note_begin();
        let fetched = self.wait_begun(async |begun| {
            let begin = async {
                session.run(&begin).await?;
                begun.notify_one();
                Ok(())
            };
            wanted.fetch(session, begin, self.lock, verified_no).await
        });
        let fetched = fetched.map_err(|f| NotCommitted::lost(f, None))?;
        let mut fetched = fetched.map_err(|e| classify(&e))?.map_err(Aborted::Write)?;
        if fetched.copying {
            return Err(Aborted::Store(unfinished("the store in this database")).into());
        }
        let records = self.wait(wanted.fetch_records(&connection.session, &mut fetched));
        let records = records.map_err(|f| NotCommitted::lost(f, None))?;
        records.map_err(|e| classify(&e))?.map_err(Aborted::Write)?;
        let rows = || Rows {
            session: &connection.session,
            driver: &self.driver,
            read_ahead: ReadAhead::default(),
        };
        if fetched.commits.is_empty() && verified.is_some() {
            // The verified commit is gone: the guard receives the newest commit that still exists.
            let newest = rows().newest_log().map_err(lost_or_store)?;
            fetched.commits.extend(newest);
        }
        let commits = fetched.commits.clone();
        self.guard
            .follow(&rows(), verified, fetched.commits.first(), commits)
            .map_err(lost_or_store)?;
        // The database's clock decides whether a lease has ended, whatever this process's own clock says.
        let database_time = fetched.now.filter(|_| self.uses_database_time);
        let now = database_time.unwrap_or_else(|| self.clock.now());
        let mut stage = Stage::new(rows(), fetched);
        // A panic in the rules must fail its own write, not the writer.
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply_all(&mut stage, group, now)));
        self.guard.suspect_found();
        let applied = applied.unwrap_or_else(|_| {
            let what = "a write panicked; the panic is in the log";
            Err(Aborted::Write(Failure::new(ErrorCode::Internal, what)))
        });
        match applied {
            Ok(done) => Ok((done, stage.into_pending())),
            Err(Aborted::Store(failure)) => Err(lost_or_store(failure)),
            Err(aborted) => Err(aborted.into()),
        }
    }

    fn apply_all(
        &self,
        stage: &mut Stage<'_>,
        group: &[Request],
        now: Timestamp,
    ) -> Result<Box<GroupOutcome>, Aborted> {
        let suspects = self.guard.suspects();
        let ctx = RuleContext {
            keyring: &self.keyring,
            entropy: self.entropy.as_ref(),
            now,
            suspects: &suspects,
            known_heads: Some(self.guard.known_heads()),
        };
        let mut log = CommitGroup::begin(stage, ctx.keyring).map_err(Aborted::Store)?;
        let mut outcomes = Vec::with_capacity(group.len());
        let mut erases = false;
        for request in group {
            let before = stage.puts();
            match rules::apply(stage, &mut log, &ctx, &request.command) {
                Err(failure) if is_store_failure(&failure) => return Err(Aborted::Store(failure)),
                // The rows of a refused write must not be committed with the others.
                Err(failure) if stage.puts() != before => return Err(Aborted::Write(failure)),
                // After a failed statement, PostgreSQL executes nothing more in the transaction.
                Err(failure) if failure.code == ErrorCode::Internal || stage.failed() => {
                    return Err(Aborted::Write(failure));
                }
                outcome => {
                    erases |= match &outcome {
                        Ok(Outcome::Redacted(r)) => !r.replayed,
                        Ok(Outcome::Erased(_)) => stage.puts() != before,
                        _ => false,
                    };
                    outcomes.push(outcome);
                }
            }
        }
        let log = log.finish(stage, &ctx).map_err(Aborted::Store)?;
        Ok(Box::new(GroupOutcome {
            outcomes,
            log,
            erases,
        }))
    }

    /// Sends the buffered rows and commits, in one round trip.
    fn commit(
        &mut self,
        done: Box<GroupOutcome>,
        pending: &Pending,
    ) -> Result<Box<GroupOutcome>, NotCommitted> {
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        let session = &connection.session;
        let send = async {
            let note = note_erasure(session, &done);
            try_join!(biased; pending.send(session), note, session.run("COMMIT")).map(drop)
        };
        match self.wait(send) {
            Ok(Ok(())) => Ok(done),
            // Without a log row nothing was written, so nothing can be lost.
            Err(_) if done.log.is_none() => Ok(done),
            Err(failure) => Err(NotCommitted::lost(failure, Some(done))),
            Ok(Err(error)) if is_lost(&error) && !is_standby(&error) => {
                Err(NotCommitted::lost(failure(&error), Some(done)))
            }
            Ok(Err(error)) => {
                // A statement was refused, so COMMIT rolled back everything.
                self.roll_back();
                Err(classify(&error))
            }
        }
    }

    /// Finds out whether a transaction whose answer was lost did commit, once the writers' lock is free.
    pub(crate) fn find_commit(
        &mut self,
        done: Box<GroupOutcome>,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let Some(row) = done.log.clone() else {
            return Ok(Some(done));
        };
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), Some(done)));
        };
        let begin = format!("{BEGIN}{}", connection.local);
        let session = &connection.session;
        let answer = self.wait_begun(async |begun| {
            let number = int(row.commit_no);
            let (lock, number): ([Param<'_>; 1], [Param<'_>; 1]) = ([&self.lock], [&number]);
            let begin = async {
                session.run(&begin).await?;
                begun.notify_one();
                Ok(())
            };
            let ((), _, log_rows, ()) = try_join!(
                biased;
                begin,
                session.query(&LOCK, &lock),
                session.query(&LOG_AT, &number),
                session.run("ROLLBACK")
            )?;
            Ok(log_rows)
        });
        let log_rows = match answer {
            Ok(Ok(log_rows)) => log_rows,
            Ok(Err(error)) => {
                self.connection = None;
                return Err(NotCommitted::lost(failure(&error), Some(done)));
            }
            Err(failure) => return Err(NotCommitted::lost(failure, Some(done))),
        };
        let found = log_rows
            .first()
            .map(|row| read_log(row, 0))
            .transpose()
            .map_err(Aborted::Store)?;
        if found.is_none_or(|found| found.link != row.link) {
            return Ok(None);
        }
        // The connection may have been lost while the commit waited for its standbys. If they acknowledge a later
        // commit, they have this one, too.
        let later = "UPDATE filrouge.store SET value = value WHERE name = 'store_id'";
        match self.wait(session.run(later)) {
            Ok(Ok(())) => Ok(Some(done)),
            Ok(Err(error)) => Err(NotCommitted::lost(failure(&error), Some(done))),
            Err(failure) => Err(NotCommitted::lost(failure, Some(done))),
        }
    }

    /// Rolls back; gives up the connection if even that fails.
    fn roll_back(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        if !matches!(self.wait(connection.session.run("ROLLBACK")), Ok(Ok(()))) {
            self.connection = None;
        }
    }
}

/// The time limit for the answer to `BEGIN`, which only the network and a pooler can delay.
pub(crate) fn first_answer(answer_timeout: Duration) -> Duration {
    answer_timeout.min(Duration::from_secs(5))
}

/// Records the erasure, for the vacuum.
async fn note_erasure(session: &Session, done: &GroupOutcome) -> Result<(), Error> {
    let Some(log) = done.log.as_ref().filter(|_| done.erases) else {
        return Ok(());
    };
    let commit_no = log.commit_no.to_string();
    session
        .query(&vacuum::WRITE_NOTE, &[&commit_no])
        .await
        .map(drop)
}

/// A failure while the rules ran: nothing was committed, and the group can be retried over another connection.
fn lost_or_store(failure: Failure) -> NotCommitted {
    if matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreReadOnly
    ) {
        NotCommitted::lost(failure, None)
    } else {
        Aborted::Store(failure).into()
    }
}

//! One transaction of the writer: applies a group of writes and commits it, or finds out whether it was committed.

use std::pin::pin;
use std::time::Duration;

use filrouge_store::copy::unfinished_copy;
use filrouge_store::rows::View;
use filrouge_store::write_queue::{Aborted, GroupOutcome, Request, apply_group, is_store_failure};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::Notify;
use tokio::try_join;
use tokio_postgres::Error;

use crate::error::{failure, is_lost, is_standby, is_transient, unavailable};
use crate::rows::{ReadAhead, Rows, read_log, sql_int};
use crate::session::{Param, Session};
use crate::stage::{LOCK, LOG_AT, Pending, Prefetch, Stage};
use crate::vacuum;
use crate::writer::Writer;

/// The reason why it is not known that a transaction was committed.
pub(crate) enum NotCommitted {
    /// Nothing was written.
    Aborted(Box<Aborted>),
    /// The connection was lost. If COMMIT had been sent, the transaction may have been committed, and this contains its
    /// outcome.
    Lost(Box<Failure>, Option<Box<GroupOutcome>>),
    /// Another transaction conflicted: nothing was written, and a retry may succeed.
    Conflict(Box<Failure>),
}

impl NotCommitted {
    pub(crate) fn lost(failure: Failure, outcome: Option<Box<GroupOutcome>>) -> Self {
        Self::Lost(Box::new(failure), outcome)
    }
}

impl From<Aborted> for NotCommitted {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(Box::new(aborted))
    }
}

/// Classifies an error of a transaction that was certainly not committed.
fn classify(error: &Error) -> NotCommitted {
    let failure = failure(error);
    if is_lost(error) {
        NotCommitted::lost(failure, None)
    } else if is_transient(error) {
        NotCommitted::Conflict(Box::new(failure))
    } else if is_store_failure(&failure) {
        Aborted::Store(failure).into()
    } else {
        // The values of one write, or a row that it reads, caused the error.
        Aborted::Write(failure).into()
    }
}

/// Begins a transaction in which each statement sees everything that was committed before the statement, including
/// commits during the wait for the lock. It overrides the isolation level that the role or the database has set.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl Writer {
    /// Waits for an answer, up to the time limit. The outer error means that PostgreSQL did not answer in time.
    fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Failure> {
        let limited = async { tokio::time::timeout(self.answer_timeout, future).await };
        self.driver
            .wait(limited)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Like [`Self::wait`], for a request that begins a transaction and then waits for the lock. The request notifies
    /// when `BEGIN` is answered. This first answer has a shorter time limit: if it does not come, a pooler may be
    /// waiting for its server, which is down.
    fn wait_for_transaction<T>(
        &self,
        request: impl AsyncFnOnce(&Notify) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, Failure> {
        let (begun, first_timeout) = (Notify::new(), first_answer_timeout(self.answer_timeout));
        let limited = async {
            let mut request = pin!(request(&begun));
            tokio::select! {
                biased;
                answer = &mut request => return Ok(answer),
                begun = tokio::time::timeout(first_timeout, begun.notified()) => begun?,
            }
            tokio::time::timeout(self.answer_timeout, request).await
        };
        self.driver
            .wait(limited)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Runs the group in one transaction. The result is never `Ok(None)`, which only [`Self::find_commit`] returns.
    pub(crate) fn transact(
        &mut self,
        group: &[Request],
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let outcome = self.begin_and_apply(group);
        match outcome {
            Ok((outcome, pending)) => self.commit(outcome, &pending).map(Some),
            Err(NotCommitted::Lost(failure, outcome)) => Err(NotCommitted::Lost(failure, outcome)),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// Begins the transaction, fetches the rows that the rules need, verifies new commits, and applies the writes.
    /// Returns the outcome, and the rows that are still to be sent.
    fn begin_and_apply(
        &self,
        group: &[Request],
    ) -> Result<(Box<GroupOutcome>, Pending), NotCommitted> {
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        // This must be read before the database is queried. Suppose that this transaction loses its lock, other servers
        // commit, and the watch of this process verifies these commits. If the newest verified commit were read only
        // then, the transaction's rows would seem to lack it, as if somebody had removed it.
        let verified = self.store_state.log.newest();
        let verified_no = verified.as_ref().map_or(0, |row| row.commit_no);
        let prefetch = Prefetch::for_commands(group.iter().map(|r| &r.command), &self.keyring);
        let begin = format!("{BEGIN}{}", connection.transaction_settings);
        let session = &connection.session;
        session.record_begin();
        let fetched = self.wait_for_transaction(async |begun| {
            let begin = async {
                session.run(&begin).await?;
                begun.notify_one();
                Ok(())
            };
            prefetch.fetch(session, begin, self.lock, verified_no).await
        });
        let fetched = fetched.map_err(|f| NotCommitted::lost(f, None))?;
        let mut fetched = fetched.map_err(|e| classify(&e))?.map_err(Aborted::Write)?;
        if fetched.copying {
            return Err(Aborted::Store(unfinished_copy("the store in this database")).into());
        }
        let records = self.wait(prefetch.fetch_records(&connection.session, &mut fetched));
        let records = records.map_err(|f| NotCommitted::lost(f, None))?;
        records.map_err(|e| classify(&e))?.map_err(Aborted::Write)?;
        let rows = || Rows {
            session: &connection.session,
            driver: &self.driver,
            read_ahead: ReadAhead::default(),
        };
        if fetched.commits.is_empty() && verified.is_some() {
            // The verified commit was removed. The verified log compares it with the newest commit that still exists.
            let newest = rows().newest_log().map_err(classify_failure)?;
            fetched.commits.extend(newest);
        }
        let commits = fetched.commits.clone();
        self.store_state
            .log
            .verify_new_commits(&rows(), verified, fetched.commits.first(), commits)
            .map_err(classify_failure)?;
        // The database's clock decides whether a lease has ended, whatever this process's own clock shows.
        let database_time = fetched.now.filter(|_| self.uses_database_time);
        let now = database_time.unwrap_or_else(|| self.clock.now());
        let mut stage = Stage::new(rows(), fetched);
        let verified = (&self.store_state.log, &*self.keyring);
        let applied = apply_group(&mut stage, group, verified, (self.entropy.as_ref(), now));
        match applied {
            Ok(outcome) => Ok((Box::new(outcome), stage.into_pending())),
            Err(Aborted::Store(failure)) => Err(classify_failure(failure)),
            Err(aborted) => Err(aborted.into()),
        }
    }

    /// Sends the buffered rows and commits, in one round trip.
    fn commit(
        &mut self,
        outcome: Box<GroupOutcome>,
        pending: &Pending,
    ) -> Result<Box<GroupOutcome>, NotCommitted> {
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        let session = &connection.session;
        let send = async {
            let vacuum_request = request_vacuum(session, &outcome);
            try_join!(biased; pending.send(session), vacuum_request, session.run("COMMIT"))
                .map(drop)
        };
        match self.wait(send) {
            Ok(Ok(())) => Ok(outcome),
            // Without a log row the group wrote nothing, so nothing can be lost.
            Err(_) if outcome.log.is_none() => Ok(outcome),
            Err(failure) => Err(NotCommitted::lost(failure, Some(outcome))),
            Ok(Err(error)) if is_lost(&error) && !is_standby(&error) => {
                Err(NotCommitted::lost(failure(&error), Some(outcome)))
            }
            Ok(Err(error)) => {
                // PostgreSQL refused a statement, so COMMIT rolled back the transaction.
                self.roll_back();
                Err(classify(&error))
            }
        }
    }

    /// Finds out whether a transaction was committed whose connection was lost during COMMIT. First waits for the lock
    /// of writers, so that the lost transaction has ended. Returns its outcome if it was committed, `Ok(None)` if it
    /// certainly was not.
    pub(crate) fn find_commit(
        &mut self,
        outcome: Box<GroupOutcome>,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let Some(row) = outcome.log.clone() else {
            return Ok(Some(outcome));
        };
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(
                unavailable("not connected"),
                Some(outcome),
            ));
        };
        let begin = format!("{BEGIN}{}", connection.transaction_settings);
        let session = &connection.session;
        let answer = self.wait_for_transaction(async |begun| {
            let number = sql_int(row.commit_no);
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
                return Err(NotCommitted::lost(failure(&error), Some(outcome)));
            }
            Err(failure) => return Err(NotCommitted::lost(failure, Some(outcome))),
        };
        let commit = log_rows
            .first()
            .map(|row| read_log(row, 0))
            .transpose()
            .map_err(Aborted::Store)?;
        if commit.is_none_or(|commit| commit.link != row.link) {
            return Ok(None);
        }
        // The commit is in the log, but with synchronous replication the standbys may not have it yet: the connection
        // may have been lost while the commit waited for them. Once they acknowledge a later commit, they also have
        // this one.
        let later_commit = "UPDATE filrouge.store SET value = value WHERE name = 'store_id'";
        match self.wait(session.run(later_commit)) {
            Ok(Ok(())) => Ok(Some(outcome)),
            Ok(Err(error)) => Err(NotCommitted::lost(failure(&error), Some(outcome))),
            Err(failure) => Err(NotCommitted::lost(failure, Some(outcome))),
        }
    }

    /// Rolls back the transaction. Closes the connection if this fails.
    fn roll_back(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        if !matches!(self.wait(connection.session.run("ROLLBACK")), Ok(Ok(()))) {
            self.connection = None;
        }
    }
}

/// The time limit for the answer to `BEGIN`: short, because only the network and a pooler can delay this answer.
pub(crate) fn first_answer_timeout(answer_timeout: Duration) -> Duration {
    answer_timeout.min(Duration::from_secs(5))
}

/// If the group erases contents, writes the vacuum request.
async fn request_vacuum(session: &Session, outcome: &GroupOutcome) -> Result<(), Error> {
    let Some(log) = outcome.log.as_ref().filter(|_| outcome.erases) else {
        return Ok(());
    };
    let commit_no = log.commit_no.to_string();
    session
        .query(&vacuum::REQUEST_VACUUM, &[&commit_no])
        .await
        .map(drop)
}

/// Classifies a failure of the store while the rules ran, before COMMIT. If the store was unavailable, the group can be
/// retried over another connection.
fn classify_failure(failure: Failure) -> NotCommitted {
    if matches!(
        failure.code,
        ErrorCode::StoreUnavailable | ErrorCode::StoreReadOnly
    ) {
        NotCommitted::lost(failure, None)
    } else {
        Aborted::Store(failure).into()
    }
}

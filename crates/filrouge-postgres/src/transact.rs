//! One transaction of the writer: applies those writes of a group whose lanes are free and commits them, or finds out
//! whether they were committed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Lane;
use filrouge_store::copy::unfinished_copy;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::write_queue::{Aborted, GroupOutcome, Request, apply_group, is_store_failure};
use filrouge_types::{ErrorCode, Failure, Result};
use tokio::sync::Notify;
use tokio::try_join;
use tokio_postgres::Error;

use crate::connect::Connection;
use crate::error::{failure, is_lost, is_standby, is_transient, unavailable};
use crate::follow::announcement;
use crate::rows::{ReadAhead, Rows, read_log, sql_int, sql_lane};
use crate::session::{Param, Session};
use crate::stage::{Fetched, LOCK_LANE_WAIT, LOG_AT, NOTIFY, Pending, REQUEST_VACUUM, Stage};
use crate::writer::Writer;

mod lock;

/// Why an attempt did not confirm a commit. Only after [`Self::Lost`] with an outcome may the transaction have been
/// committed.
pub(crate) enum NotCommitted {
    /// Nothing was written.
    Aborted(Box<Aborted>),
    /// The connection was lost. If COMMIT had been sent, the transaction may have been committed, and this contains its
    /// outcome.
    Lost(Box<Failure>, Option<Box<GroupOutcome>>),
    /// Another transaction conflicted: nothing was written, and a retry may succeed.
    Conflict(Box<Failure>),
    /// No lane was free, and this one did not become free in time. Nothing was written.
    Busy(Lane, Box<Failure>),
}

/// The lanes that a transaction locks.
#[derive(Clone, Copy)]
pub(crate) enum LaneChoice {
    /// Those lanes of the group that are free. If none is free, waits for that of the oldest write.
    Free,
    /// Those lanes of the group that are free. Waits for none.
    FreeNow,
    /// This lane, for which the transaction waits.
    Due(Lane),
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
/// commits during the wait for a lane. It overrides the isolation level that the role or the database has set.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl Writer {
    /// Waits for an answer, up to the time limit. The outer error means that PostgreSQL did not answer in time.
    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<Result<T, Error>> {
        let limited = async { tokio::time::timeout(self.answer_timeout, future).await };
        self.driver
            .wait(limited)
            .map_err(|_| unavailable("PostgreSQL does not answer"))
    }

    /// Like [`Self::wait`], for a request that may wait for a lock. The request notifies when its first statement, which
    /// does not wait, is answered. This first answer has a shorter time limit: if it does not come, a pooler may be
    /// waiting for its server, which is down.
    fn wait_for_transaction<T>(
        &self,
        request: impl AsyncFnOnce(&Notify) -> Result<T, Error>,
    ) -> Result<Result<T, Error>> {
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

    /// Runs one transaction for those writes of the group whose lanes are free. Moves them to the front of the group.
    /// The result is never `Ok(None)`, which only [`Self::find_commit`] returns.
    pub(crate) fn transact(
        &mut self,
        group: &mut [Request],
        choice: LaneChoice,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let outcome = self.begin_and_apply(group, choice);
        match outcome {
            Ok((outcome, pending)) => self.commit(outcome, &pending).map(Some),
            Err(NotCommitted::Lost(failure, outcome)) => Err(NotCommitted::Lost(failure, outcome)),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// Begins the transaction, locks lanes, fetches the rows that the rules need, verifies new commits, and applies the
    /// writes of the locked lanes.
    fn begin_and_apply(
        &self,
        group: &mut [Request],
        choice: LaneChoice,
    ) -> Result<(Box<GroupOutcome>, Pending), NotCommitted> {
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        // These must be read before the database is queried. Suppose that this transaction loses its lanes, other
        // servers commit, and the watch of this process verifies these commits. If the newest verified commits were
        // read only then, the transaction's rows would seem to lack them, as if somebody had removed them.
        let verified = self.store_state.log.newest_of_all();
        let (prefetch, mut fetched) = self.lock_lanes(connection, group, choice, &verified)?;
        if fetched.copying {
            return Err(Aborted::Store(unfinished_copy("the store in this database")).into());
        }
        let records = self.wait(prefetch.fetch_records(&connection.session, &mut fetched));
        let records = records.map_err(|f| NotCommitted::lost(f, None))?;
        records.map_err(|e| classify(&e))?;
        self.verify_commits(connection, &verified, &mut fetched)?;
        let served = move_to_front(group, |lane| fetched.lanes.contains_key(&lane));
        // The database's clock decides whether a lease has ended, whatever this process's own clock shows.
        let database_time = fetched.now.filter(|_| self.uses_database_time);
        let now = database_time.unwrap_or_else(|| self.clock.now());
        let mut stage = Stage::new(self.rows(connection), fetched);
        let server: &(dyn Fn() -> String + Sync) = &|| self.connector.server_name();
        let verified = (&self.store_state.log, &*self.keyring, server);
        let inputs = (&*self.entropy, now, now);
        match apply_group(&mut stage, &group[..served], verified, inputs) {
            Ok(outcome) => Ok((Box::new(outcome), stage.into_pending())),
            Err(Aborted::Store(failure)) => Err(classify_failure(failure)),
            Err(aborted) => Err(aborted.into()),
        }
    }

    fn rows<'c>(&'c self, connection: &'c Connection) -> Rows<'c> {
        Rows {
            session: &connection.session,
            driver: &self.driver,
            lanes: self.store_state.log.lanes(),
            read_ahead: ReadAhead::default(),
        }
    }

    /// Verifies the commits of the locked lanes after `verified`.
    fn verify_commits(
        &self,
        connection: &Connection,
        verified: &[Option<Arc<LogRow>>],
        fetched: &mut Fetched,
    ) -> Result<(), NotCommitted> {
        let rows = self.rows(connection);
        for (lane, commits) in &mut fetched.lanes {
            let verified = verified[lane.index()].as_deref();
            if commits.is_empty() && verified.is_some() {
                // The verified commit was removed. The verified log compares it with the newest one that still exists.
                let newest = rows.newest_log(*lane).map_err(classify_failure)?;
                commits.extend(newest);
            }
            self.store_state
                .log
                .verify_new_commits(&rows, *lane, verified, commits.first(), commits)
                .map_err(classify_failure)?;
        }
        Ok(())
    }

    /// Sends the buffered rows, commits, and notifies the other servers, in one round trip.
    fn commit(
        &mut self,
        outcome: Box<GroupOutcome>,
        pending: &Pending,
    ) -> Result<Box<GroupOutcome>, NotCommitted> {
        if outcome.commits.is_empty() {
            // Nothing was written. Unlike a commit, a rollback flushes nothing, although lanes were locked.
            self.roll_back();
            return Ok(outcome);
        }
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(unavailable("not connected"), None));
        };
        let session = &connection.session;
        let send = async {
            let commit = async {
                let vacuum_requests = request_vacuum(session, &outcome);
                try_join!(biased; pending.send(session), vacuum_requests, session.run("COMMIT"))
                    .map(drop)
            };
            if connection.pooled || session.is_distributed() {
                return commit.await;
            }
            let announced = announce(session, announcement(&outcome.commits));
            // The commit is complete when `COMMIT` is answered. Nobody waits for the answer to the notification.
            tokio::select! {
                biased;
                committed = commit => committed,
                never = async { announced.await; std::future::pending().await } => never,
            }
        };
        match self.wait(send) {
            Ok(Ok(())) => {
                // Some poolers lose answers if a statement arrives before they have answered the `COMMIT` before it. So
                // the notification is sent separately, when the callers have been answered.
                let is_pooled = connection.pooled;
                self.unannounced = is_pooled.then(|| announcement(&outcome.commits));
                Ok(outcome)
            }
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

    /// Notifies other servers of the newest commits, if the transaction has not done so.
    pub(crate) fn announce_commits(&mut self) {
        if let (Some(announcement), Some(connection)) = (self.unannounced.take(), &self.connection)
        {
            let announced = async {
                announce(&connection.session, announcement).await;
                Ok(())
            };
            if let Err(failure) = self.wait(announced) {
                tracing::debug!(%failure, "other servers were not notified of a commit");
                self.connection = None;
            }
        }
    }

    /// Finds out whether a transaction was committed whose connection was lost during COMMIT. Looks for its commit in
    /// one lane, because it commits in all of its lanes or in none. First waits for this lane, so that the lost
    /// transaction has ended. Returns its outcome if it was committed, `Ok(None)` if it certainly was not.
    ///
    /// Even if the commit is in the log, the standbys of synchronous replication may lack it: the connection may have
    /// been lost while the commit waited for them. So this commits too. PostgreSQL writes the lock of a lane to its log,
    /// so the standbys have to acknowledge this later commit, and then they also have the earlier one.
    pub(crate) fn find_commit(
        &mut self,
        outcome: Box<GroupOutcome>,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        let Some(row) = outcome.commits.first().cloned() else {
            return Ok(Some(outcome));
        };
        let Some(connection) = &self.connection else {
            return Err(NotCommitted::lost(
                unavailable("not connected"),
                Some(outcome),
            ));
        };
        let begin_sql = format!("{BEGIN}{}", connection.transaction_settings);
        let session = &connection.session;
        let answer = self.wait_for_transaction(async |begun| {
            let (lane, number) = (sql_lane(row.lane), sql_int(row.commit_no));
            let (lock, key): ([Param<'_>; 1], [Param<'_>; 2]) = ([&lane], [&lane, &number]);
            let ((), locked, log_rows, ()) = try_join!(
                biased;
                begin(session, &begin_sql, begun),
                session.query(&LOCK_LANE_WAIT, &lock),
                session.query(&LOG_AT, &key),
                session.run("COMMIT")
            )?;
            Ok((locked, log_rows))
        });
        let log_rows = match answer {
            Ok(Ok((locked, _))) if locked.is_empty() => {
                return Err(NotCommitted::lost(lane_missing(row.lane), Some(outcome)));
            }
            Ok(Ok((_, log_rows))) => log_rows,
            Ok(Err(error)) => {
                self.connection = None;
                return Err(NotCommitted::lost(failure(&error), Some(outcome)));
            }
            Err(failure) => return Err(NotCommitted::lost(failure, Some(outcome))),
        };
        let commit = log_rows
            .first()
            .map(|found| read_log(row.lane, found, 0))
            .transpose()
            .map_err(Aborted::Store)?;
        let is_committed = commit.is_some_and(|commit| commit.link == row.link);
        Ok(is_committed.then_some(outcome))
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

/// Runs the first statement of a request, and notifies when it is answered.
async fn begin(session: &Session, sql: &str, begun: &Notify) -> Result<(), Error> {
    session.run(sql).await?;
    begun.notify_one();
    Ok(())
}

/// The failure of writes to a lane whose row was deleted: nobody can lock it.
fn lane_missing(lane: Lane) -> Failure {
    let detail = format!("the row of lane {lane} was deleted from filrouge.lane");
    Failure::new(ErrorCode::IntegrityError, detail)
}

/// The time limit for the answer to `BEGIN`: short, because only the network and a pooler can delay this answer.
pub(crate) fn first_answer_timeout(answer_timeout: Duration) -> Duration {
    answer_timeout.min(Duration::from_secs(5))
}

/// Moves the writes of the lanes that `is_served` accepts to the front of the group, and returns their number. Keeps
/// the order of the writes of each lane.
pub(crate) fn move_to_front(group: &mut [Request], is_served: impl Fn(Lane) -> bool) -> usize {
    group.sort_by_key(|request| !is_served(request.lane));
    group.partition_point(|request| is_served(request.lane))
}

/// Writes a vacuum request for each lane in which the transaction erases contents.
async fn request_vacuum(session: &Session, outcome: &GroupOutcome) -> Result<(), Error> {
    let erasing = outcome.commits.iter();
    let erasing = erasing.filter(|commit| outcome.erases.contains(&commit.lane));
    let requests = erasing.map(|commit| (sql_lane(commit.lane), sql_int(commit.commit_no)));
    let requests: Vec<(i16, i64)> = requests.collect();
    let executions = requests.iter();
    let executions = executions.map(|(lane, commit_no)| vec![lane as Param<'_>, commit_no]);
    let executions: Vec<Vec<Param<'_>>> = executions.collect();
    let sent = session.query_each(&REQUEST_VACUUM, &executions);
    sent.await.map(drop)
}

/// Notifies other servers of commits. Without the notification they learn of the commits a little later.
async fn announce(session: &Session, announcement: String) {
    if let Err(error) = session.query(&NOTIFY, &[&announcement]).await {
        tracing::debug!(%error, "other servers were not notified of a commit");
    }
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

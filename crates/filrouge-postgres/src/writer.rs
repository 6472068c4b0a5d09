//! The writer thread: collects the writes in its queue as a group, applies them in one transaction with one flush, and
//! then answers their callers.
//!
//! A group usually needs two round trips. The first acquires the lock of writers, and fetches the rows that the rules
//! will read. The second sends the rows that the rules have written, and commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::write_queue::{
    Aborted, GroupOutcome, GroupResult, Request, Requests, collect, is_store_failure, serve,
};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};

use crate::connect::{Connection, Connector};
use crate::error::unavailable;
use crate::session::{Driver, Sql};
use crate::stage::STATEMENTS;
use crate::store_state::StoreState;
use crate::transact::NotCommitted;
use crate::{migrate, vacuum};

/// The delay before a retry after the connection was lost.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// The writer, which has its own thread and its own connection.
pub(crate) struct Writer {
    pub(crate) driver: Driver,
    pub(crate) connector: Arc<Connector>,
    pub(crate) connection: Option<Connection>,
    pub(crate) store_state: Arc<StoreState>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether writes use the database's time, which each transaction reads, instead of `clock`.
    pub(crate) uses_database_time: bool,
    /// The key of the advisory lock of this store's writers.
    pub(crate) lock: i64,
    pub(crate) answer_timeout: Duration,
    /// How long a group is retried after its connection was lost.
    pub(crate) settle_timeout: Duration,
}

/// The statements of a writer, which are prepared when its connection is opened.
pub(crate) fn statements() -> Vec<&'static Sql> {
    let mut statements = STATEMENTS.to_vec();
    statements.push(&vacuum::REQUEST_VACUUM);
    statements
}

/// The retries of a group whose connection was lost during its transaction.
#[derive(Default)]
struct RetryState {
    /// The deadline of retries, set at the first failure.
    deadline: Option<Instant>,
    /// The failure that caused the loss. It is more informative than a later failure to connect.
    cause: Option<Failure>,
    /// The outcome of the group, if its transaction may have been committed.
    unresolved: Option<Box<GroupOutcome>>,
}

impl RetryState {
    /// Returns whether the retries have lasted for `limit`. The first call sets the deadline.
    fn has_expired(&mut self, limit: Duration) -> bool {
        let now = Instant::now();
        now >= *self.deadline.get_or_insert(now + limit)
    }
}

impl Writer {
    /// Serves requests until the queue is closed.
    pub(crate) fn run(mut self, mut requests: Requests) {
        while let Some(first) = self.driver.wait(requests.recv()) {
            serve(collect(first, &mut requests), &mut |group| {
                self.commit_with_retries(group)
            });
        }
    }

    /// Runs the group's transaction. If the connection is lost during the transaction, finds out over a new connection
    /// whether it was committed, and if not, runs it again.
    fn commit_with_retries(&mut self, group: &[Request]) -> GroupResult {
        let mut retries = RetryState::default();
        loop {
            match self.attempt(group, &mut retries) {
                Ok(Some(outcome)) => {
                    if retries.deadline.is_some() {
                        tracing::info!(
                            "the write during which the connection was lost is completed"
                        );
                    }
                    self.store_state.record_write(None);
                    if let Some(log) = outcome.log.as_ref().filter(|_| outcome.erases) {
                        self.store_state.erasure().record_erasure(log.commit_no);
                    }
                    self.store_state.log.advance(outcome.log);
                    return Ok(outcome.outcomes);
                }
                // The lost transaction was certainly not committed: run it again.
                Ok(None) => {}
                Err(NotCommitted::Aborted(aborted)) => {
                    self.record_abort(&aborted);
                    return Err(*aborted);
                }
                Err(NotCommitted::Lost(failure, outcome)) => {
                    self.connection = None;
                    let first = retries.deadline.is_none();
                    if retries.has_expired(self.settle_timeout) {
                        tracing::warn!(%failure, "giving up a write during which the connection was lost");
                        return Err(self.give_up(*failure, outcome.is_some()));
                    }
                    if first {
                        tracing::warn!(
                            %failure,
                            "the connection to PostgreSQL was lost during a write; the write will be completed over a new one"
                        );
                    }
                    (retries.cause, retries.unresolved) = (Some(*failure), outcome);
                    std::thread::sleep(RETRY_EVERY);
                }
                Err(NotCommitted::Conflict(failure)) => {
                    if retries.has_expired(self.settle_timeout) {
                        return Err(self.give_up(*failure, false));
                    }
                    std::thread::sleep(RETRY_EVERY / 10);
                }
            }
        }
    }

    /// Makes one attempt: runs the transaction. If an earlier attempt may have been committed, first finds out whether
    /// it was.
    fn attempt(
        &mut self,
        group: &[Request],
        retries: &mut RetryState,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        match (
            self.ensure_connection(retries.deadline),
            retries.unresolved.take(),
        ) {
            (Ok(()), Some(outcome)) => self.find_commit(outcome),
            (Ok(()), None) => match self.store_state.outdated() {
                Some(failure) => Err(Aborted::Store(failure).into()),
                None => self.transact(group),
            },
            // Nothing of the group was sent, so the callers get the error at once.
            (Err(failure), _) if retries.deadline.is_none() => {
                Err(Aborted::Store(give_up_failure(failure, false)).into())
            }
            (Err(failure), outcome) => Err(NotCommitted::lost(
                retries.cause.take().unwrap_or(failure),
                outcome,
            )),
        }
    }

    /// Ends the retries. `maybe_committed`: the transaction may have been committed.
    fn give_up(&self, failure: Failure, maybe_committed: bool) -> Aborted {
        self.store_state.record_write(Some(&failure));
        Aborted::Store(give_up_failure(failure, maybe_committed))
    }

    fn record_abort(&self, aborted: &Aborted) {
        if let Aborted::Store(failure) = aborted
            && is_store_failure(failure)
            && self.store_state.outdated().is_none()
        {
            self.store_state.record_write(Some(failure));
        }
    }

    /// Connects, unless a connection is open. Without `deadline`, the time limit is `settle_timeout`.
    fn ensure_connection(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.session.client().is_closed())
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let remaining = deadline.map_or(self.settle_timeout, |d| {
                d.saturating_duration_since(Instant::now())
            });
            let statements = statements();
            let connect = async {
                tokio::time::timeout(remaining, self.connector.connect(&statements)).await
            };
            let connection = self.driver.wait(connect);
            let mut connection =
                connection.map_err(|_| unavailable("PostgreSQL does not answer"))??;
            connection.session.set_answer_timeout(self.answer_timeout);
            self.check_schema(&connection)?;
            self.connection = Some(connection);
        }
        Ok(())
    }
}

impl Writer {
    /// Reads the schema's version, because a newer filrouge may have migrated the schema since the previous connection.
    fn check_schema(&self, connection: &Connection) -> Result<(), Failure> {
        let query = migrate::store_value(connection.session.client(), "schema");
        let query = async { tokio::time::timeout(self.answer_timeout, query).await };
        let schema = self.driver.wait(query);
        let schema = schema.map_err(|_| unavailable("PostgreSQL does not answer"))??;
        self.store_state.record_schema(schema.as_deref());
        Ok(())
    }
}

/// The error that callers get after the last retry. `maybe_committed`: it is unknown whether the write was committed.
fn give_up_failure(failure: Failure, maybe_committed: bool) -> Failure {
    if maybe_committed {
        let detail = format!(
            "it is unknown whether the write was committed: {}",
            failure.detail
        );
        return Failure::new(ErrorCode::StoreUnavailable, detail)
            .with_hint("retry with the same key: a committed write is not repeated");
    }
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; then try again with the same key"),
        None => "try again soon, with the same key".to_owned(),
    };
    failure.with_hint(hint)
}

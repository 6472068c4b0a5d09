//! The writer thread: collects the writes in its queue as a group, applies them in one transaction with one flush, and
//! then answers their callers.
//!
//! A group usually needs two round trips. The first acquires the lock of writers, and fetches the rows that the rules
//! will read. The second sends the rows that the rules have written, and commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::command::Outcome;
use filrouge_store::write_queue::{
    Aborted, GroupOutcome, Request, Requests, collect, is_store_failure, serve,
};
use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};

use crate::connect::{Connection, Connector};
use crate::error::unavailable;
use crate::guard::Guard;
use crate::session::{Driver, Sql};
use crate::stage::STATEMENTS;
use crate::transact::NotCommitted;
use crate::{migrate, vacuum};

/// The delay before a retry after the connection was lost.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// The writer, which has its own thread and its own connection.
pub(crate) struct Writer {
    pub(crate) driver: Driver,
    pub(crate) connector: Arc<Connector>,
    pub(crate) connection: Option<Connection>,
    pub(crate) guard: Arc<Guard>,
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
    statements.push(&vacuum::WRITE_NOTE);
    statements
}

/// The state of the retries of a group whose connection was lost during its transaction.
#[derive(Default)]
struct Lost {
    /// The deadline of retries, set at the first failure.
    until: Option<Instant>,
    /// The failure that caused the loss. It explains more than a later failure to connect.
    why: Option<Failure>,
    /// The outcome of the group, if its transaction may have been committed.
    unsettled: Option<Box<GroupOutcome>>,
}

impl Lost {
    /// Whether retries have lasted for `long`. The first call sets the deadline.
    fn is_over(&mut self, long: Duration) -> bool {
        let now = Instant::now();
        now >= *self.until.get_or_insert(now + long)
    }
}

impl Writer {
    /// Serves requests until the queue is closed.
    pub(crate) fn run(mut self, mut requests: Requests) {
        while let Some(first) = self.driver.wait(requests.recv()) {
            serve(collect(first, &mut requests), &mut |group| {
                self.settle(group)
            });
        }
    }

    /// Runs the group's transaction. If the connection is lost during the transaction, finds out over a new connection
    /// whether it was committed, and if not, runs it again.
    fn settle(&mut self, group: &[Request]) -> Result<Vec<Result<Outcome, Failure>>, Aborted> {
        let mut lost = Lost::default();
        loop {
            match self.attempt(group, &mut lost) {
                Ok(Some(done)) => {
                    if lost.until.is_some() {
                        tracing::info!(
                            "the write during which the connection was lost is completed"
                        );
                    }
                    self.guard.note_write(None);
                    if let Some(log) = done.log.as_ref().filter(|_| done.erases) {
                        self.guard.erasure().begin(log.commit_no);
                    }
                    self.guard.log.advance(done.log);
                    return Ok(done.outcomes);
                }
                // The lost transaction was certainly not committed: run it again.
                Ok(None) => {}
                Err(NotCommitted::Aborted(aborted)) => {
                    self.note_abort(&aborted);
                    return Err(*aborted);
                }
                Err(NotCommitted::Lost(failure, done)) => {
                    self.connection = None;
                    let first = lost.until.is_none();
                    if lost.is_over(self.settle_timeout) {
                        tracing::warn!(%failure, "giving up a write during which the connection was lost");
                        return Err(self.give_up(*failure, done.is_some()));
                    }
                    if first {
                        tracing::warn!(
                            %failure,
                            "the connection to PostgreSQL was lost during a write; the write will be completed over a new one"
                        );
                    }
                    (lost.why, lost.unsettled) = (Some(*failure), done);
                    std::thread::sleep(RETRY_EVERY);
                }
                Err(NotCommitted::Conflict(failure)) => {
                    if lost.is_over(self.settle_timeout) {
                        return Err(self.give_up(*failure, false));
                    }
                    std::thread::sleep(RETRY_EVERY / 10);
                }
            }
        }
    }

    /// Makes one attempt: runs the transaction or, if an earlier one may have been committed, finds out whether it was.
    fn attempt(
        &mut self,
        group: &[Request],
        lost: &mut Lost,
    ) -> Result<Option<Box<GroupOutcome>>, NotCommitted> {
        match (self.ensure_connection(lost.until), lost.unsettled.take()) {
            (Ok(()), Some(done)) => self.find_commit(done),
            (Ok(()), None) => match self.guard.outdated() {
                Some(failure) => Err(Aborted::Store(failure).into()),
                None => self.transact(group),
            },
            // Nothing of the group was sent, so the callers get the error at once.
            (Err(failure), _) if lost.until.is_none() => {
                Err(Aborted::Store(given_up(failure, false)).into())
            }
            (Err(failure), done) => {
                Err(NotCommitted::lost(lost.why.take().unwrap_or(failure), done))
            }
        }
    }

    /// Ends the retries. `committing`: the transaction may have been committed.
    fn give_up(&self, failure: Failure, committing: bool) -> Aborted {
        self.guard.note_write(Some(&failure));
        Aborted::Store(given_up(failure, committing))
    }

    fn note_abort(&self, aborted: &Aborted) {
        if let Aborted::Store(failure) = aborted
            && is_store_failure(failure)
            && self.guard.outdated().is_none()
        {
            self.guard.note_write(Some(failure));
        }
    }

    /// Connects, unless a connection is open. Without `deadline`, the time limit is that for retries.
    fn ensure_connection(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        if self
            .connection
            .as_ref()
            .is_some_and(|l| l.session.client().is_closed())
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
        self.guard.note_schema(schema.as_deref());
        Ok(())
    }
}

/// The error that callers get after the last retry. `committing`: it is unknown whether the write was committed.
fn given_up(failure: Failure, committing: bool) -> Failure {
    if committing {
        let what = format!(
            "it is unknown whether the write was committed: {}",
            failure.detail
        );
        return Failure::new(ErrorCode::StoreUnavailable, what)
            .with_hint("retry with the same key: a committed write is not repeated");
    }
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; then try again with the same key"),
        None => "try again soon, with the same key".to_owned(),
    };
    failure.with_hint(hint)
}

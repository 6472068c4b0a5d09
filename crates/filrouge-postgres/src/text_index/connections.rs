//! The connections of the index to the database, and their transactions.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError};
use filrouge_types::{Failure, Result};
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::Connector;
use crate::error::unavailable;
use crate::pool::PooledConnector;
use crate::session::{Driver, Param, Session, Sql};

/// The maximum number of attempts to begin a transaction, each over another connection: the pool may return a lost one.
const ATTEMPTS_MAX: usize = 3;

/// The planner settings of each transaction. Unlike the ledger's queries, those of the index are planned for the actual
/// values, because the best plan depends on how rare a word is. Bitmap scans are allowed, because a trigram index
/// supports no others.
const PLANNER_SETTINGS: &str =
    "; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = on;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = on; SET LOCAL jit = off";

/// The purpose of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reads: all statements see the same snapshot.
    Reading,
    /// Changes: each statement sees what was committed before the statement.
    Writing,
}

impl Purpose {
    const fn begin_sql(self) -> &'static str {
        match self {
            Self::Reading => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Self::Writing => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        }
    }
}

/// A small pool of connections for one purpose. Its methods block.
pub(super) struct Connections {
    pool: Pool<PooledConnector>,
    driver: Driver,
    purpose: Purpose,
}

impl Connections {
    pub(super) fn new(
        connector: Arc<Connector>,
        max_connections: usize,
        purpose: Purpose,
        answer_timeout: Duration,
        handle: Handle,
    ) -> Result<Self> {
        let connector = PooledConnector {
            connector,
            statements: &[],
            answer_timeout: Some(answer_timeout),
        };
        let pool = connector.pool(max_connections, answer_timeout)?;
        Ok(Self {
            pool,
            driver: Driver::Handle(handle),
            purpose,
        })
    }

    /// Begins a transaction.
    pub(super) fn begin(&self) -> Result<Transaction<'_>> {
        let mut attempts = 1;
        loop {
            let connection = self.driver.wait(self.pool.get()).map_err(pool_failure)?;
            let begin = format!(
                "{}{}{PLANNER_SETTINGS}",
                self.purpose.begin_sql(),
                connection.transaction_settings
            );
            let transaction = Transaction {
                connection: Some(connection),
                driver: &self.driver,
            };
            match transaction.run(&begin) {
                Ok(()) => return Ok(transaction),
                Err(failure) if attempts == ATTEMPTS_MAX => return Err(failure),
                Err(_) => attempts += 1,
            }
        }
    }
}

/// A transaction. If it is dropped without a call of [`Transaction::finish`], its connection is closed.
pub(super) struct Transaction<'c> {
    connection: Option<Object<PooledConnector>>,
    driver: &'c Driver,
}

impl Transaction<'_> {
    fn session(&self) -> Result<&Session> {
        let connection = self.connection.as_ref();
        connection
            .map(|connection| &connection.session)
            .ok_or_else(|| unavailable("not connected"))
    }

    pub(super) fn run(&self, text: &str) -> Result<()> {
        let session = self.session()?;
        self.driver
            .wait(session.with_answer_timeout(session.run(text)))
    }

    pub(super) fn query_all(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let session = self.session()?;
        let query = session.query(sql, params);
        self.driver.wait(session.with_answer_timeout(query))
    }

    pub(super) fn query_opt(&self, sql: &'static Sql, params: &[Param<'_>]) -> Result<Option<Row>> {
        Ok(self.query_all(sql, params)?.into_iter().next())
    }

    /// Runs a statement whose text is built at run time.
    pub(super) fn query_text(
        &self,
        text: &str,
        types: &[Type],
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        let session = self.session()?;
        let query = session.query_text(text, types, params);
        self.driver.wait(session.with_answer_timeout(query))
    }

    /// Commits if `result` is `Ok`, else rolls back. Returns `result`, or the failure of the commit. Returns the
    /// connection to the pool unless this fails.
    pub(super) fn finish<T>(mut self, result: Result<T>) -> Result<T> {
        let sql = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let finished = self.run(sql);
        if finished.is_ok() {
            drop(self.connection.take());
        }
        let value = result?;
        finished.map(|()| value)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

fn pool_failure(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure,
        other => unavailable(format!("no connection to search with: {other}")),
    }
}

//! Connections that ask the index, and their transactions.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError};
use filrouge_types::Failure;
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::Connector;
use crate::error::unavailable;
use crate::pool::Lines;
use crate::session::{Driver, Param, Session, Sql};

/// How often a transaction is begun anew over another connection: the pool may hand out one that was lost.
const TRIES: usize = 3;

/// Plans of the index are made for the values that are asked for, whatever the connections do for the ledger: how rare
/// a word is decides, and an index of trigrams is read by bitmaps alone.
const PLANS: &str =
    "; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = on;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = on; SET LOCAL jit = off";

/// What a transaction is begun for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// One sight.
    Reading,
    /// Changes, each statement seeing what was committed before it.
    Writing,
}

impl For {
    const fn begin(self) -> &'static str {
        match self {
            Self::Reading => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Self::Writing => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        }
    }
}

/// A few connections of one kind. Threads that may block ask over them.
pub(super) struct Connections {
    pool: Pool<Lines>,
    driver: Driver,
    kind: For,
}

impl Connections {
    pub(super) fn new(
        connector: Arc<Connector>,
        most: usize,
        kind: For,
        patience: Duration,
        handle: Handle,
    ) -> Result<Self, Failure> {
        let lines = Lines {
            connector,
            statements: &[],
            patience: Some(patience),
        };
        let pool = lines.pool(most, patience)?;
        Ok(Self {
            pool,
            driver: Driver::Handle(handle),
            kind,
        })
    }

    /// Begins a transaction.
    pub(super) fn begin(&self) -> Result<Transaction<'_>, Failure> {
        let mut tried = 1;
        loop {
            let line = self.driver.wait(self.pool.get()).map_err(no_line)?;
            let begin = format!("{}{}{PLANS}", self.kind.begin(), line.local);
            let transaction = Transaction {
                line: Some(line),
                driver: &self.driver,
            };
            match transaction.run(&begin) {
                Ok(()) => return Ok(transaction),
                Err(failure) if tried == TRIES => return Err(failure),
                Err(_) => tried += 1,
            }
        }
    }
}

/// A transaction. One that is not ended takes its connection along.
pub(super) struct Transaction<'c> {
    line: Option<Object<Lines>>,
    driver: &'c Driver,
}

impl Transaction<'_> {
    fn session(&self) -> Result<&Session, Failure> {
        let line = self.line.as_ref();
        line.map(|line| &line.session)
            .ok_or_else(|| unavailable("not connected"))
    }

    pub(super) fn run(&self, text: &str) -> Result<(), Failure> {
        let session = self.session()?;
        self.driver.wait(session.answered(session.run(text)))
    }

    pub(super) fn many(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let session = self.session()?;
        let asked = session.query(sql, params);
        self.driver.wait(session.answered(asked))
    }

    pub(super) fn one(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.many(sql, params)?.into_iter().next())
    }

    /// A statement that is made for the occasion.
    pub(super) fn made(
        &self,
        text: &str,
        types: &[Type],
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let session = self.session()?;
        let asked = session.query_text(text, types, params);
        self.driver.wait(session.answered(asked))
    }

    /// Ends it with `done`, and undoes what was done when that is a failure.
    pub(super) fn end<T>(mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        let how = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.run(how);
        if ended.is_ok() {
            drop(self.line.take());
        }
        let done = done?;
        ended.map(|()| done)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            drop(Object::take(line));
        }
    }
}

fn no_line(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure,
        other => unavailable(format!("no connection to search with: {other}")),
    }
}

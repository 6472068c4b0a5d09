//! One connection, and the statements sent over it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use filrouge_types::Failure;
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::error::{failure, unavailable};

/// A value bound to a statement.
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

/// A statement with the types of its parameters: behind a pooler its full text is sent every time.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

impl Sql {
    pub(crate) const fn new(text: &'static str, types: &'static [Type]) -> Self {
        Self { text, types }
    }
}

/// A connection to the server, or to a pooler in front of it.
pub(crate) struct Session {
    client: Client,
    /// The statements prepared on the server; `None` behind a pooler, where the next transaction may run on another
    /// server connection.
    prepared: Option<Mutex<HashMap<&'static str, Statement>>>,
    /// The number of statements sent, over all connections of the connector.
    statements_sent: Arc<AtomicU64>,
    /// Whether a statement has failed since the transaction began.
    failed: AtomicBool,
    /// The time limit for an answer; `None` for callers' queries, some of which scan the entire store.
    answer_timeout: Option<Duration>,
}

impl Session {
    pub(crate) const fn new(client: Client, statements_sent: Arc<AtomicU64>) -> Self {
        Self {
            client,
            prepared: None,
            statements_sent,
            failed: AtomicBool::new(false),
            answer_timeout: None,
        }
    }

    /// From now on, waits at most `timeout` for every answer.
    pub(crate) const fn set_answer_timeout(&mut self, timeout: Duration) {
        self.answer_timeout = Some(timeout);
    }

    /// Waits for an answer, up to this connection's time limit. After a timeout, the connection is unusable.
    pub(crate) async fn answered<T>(
        &self,
        query: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = match self.answer_timeout {
            Some(timeout) => within(timeout, query).await,
            None => query.await.map_err(|e| failure(&e)),
        };
        self.failed.fetch_or(answer.is_err(), Ordering::Relaxed);
        answer
    }

    /// Whether a statement has failed since [`Self::note_begin`].
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Marks the beginning of a transaction.
    pub(crate) fn note_begin(&self) {
        self.failed.store(false, Ordering::Relaxed);
    }

    /// Prepares `statements` now, and every other one on first use. Not for use behind a pooler.
    pub(crate) async fn prepare(&mut self, statements: &[&'static Sql]) -> Result<(), Error> {
        let mut prepared = HashMap::with_capacity(statements.len());
        for sql in statements {
            let statement = self.client.prepare_typed(sql.text, sql.types).await?;
            prepared.insert(sql.text, statement);
        }
        self.prepared = Some(Mutex::new(prepared));
        Ok(())
    }

    /// The prepared statement; `None` behind a pooler.
    async fn prepared_statement(&self, sql: &'static Sql) -> Result<Option<Statement>, Error> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        // Entries are inserted complete, so a poisoned lock still holds a valid map.
        let lock = || prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let statement = lock().get(sql.text).cloned();
        if statement.is_some() {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(sql.text, sql.types).await?;
        lock().insert(sql.text, statement.clone());
        Ok(Some(statement))
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a statement. If it is prepared, or behind a pooler, it is sent at the first poll, so that several can be
    /// sent together and in order.
    pub(crate) async fn query(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.statements_sent.fetch_add(1, Ordering::Relaxed);
        match self.prepared_statement(sql).await? {
            Some(statement) => self.client.query(&statement, params).await,
            None => self.query_text(sql.text, sql.types, params).await,
        }
    }

    /// Runs a statement whose text is built at run time.
    pub(crate) async fn query_text(
        &self,
        text: &str,
        types: &[Type],
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let typed: Vec<_> = params.iter().copied().zip(types.iter().cloned()).collect();
        self.client.query_typed(text, &typed).await
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(&self, text: &str) -> Result<(), Error> {
        self.statements_sent.fetch_add(1, Ordering::Relaxed);
        self.client.batch_execute(text).await
    }
}

/// Waits at most `timeout` for an answer.
pub(crate) async fn within<T>(
    timeout: Duration,
    query: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let answer = tokio::time::timeout(timeout, query).await;
    answer
        .map_err(|_| unavailable("PostgreSQL does not answer"))?
        .map_err(|e| failure(&e))
}

/// The runtime that drives a connection while a thread waits for its answer.
pub(crate) enum Driver {
    /// The runtime that the connection runs on, used from a thread that may block.
    Handle(Handle),
    /// A runtime on the current thread, which runs only during the wait.
    Runtime(Runtime),
}

impl Driver {
    /// A runtime on the current thread: an answer arrives without waking another thread.
    pub(crate) fn on_current_thread() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .map(Self::Runtime)
            .map_err(|e| unavailable(format!("no runtime: {e}")))
    }

    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Handle(handle) => handle.block_on(future),
            Self::Runtime(runtime) => runtime.block_on(future),
        }
    }
}

//! One connection, and the statements that are asked over it.

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

/// A statement with the types of its parameters: behind a pooler it is sent whole every time.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

impl Sql {
    pub(crate) const fn new(text: &'static str, types: &'static [Type]) -> Self {
        Self { text, types }
    }
}

/// A connection to the server, or to a pooler before it.
pub(crate) struct Session {
    client: Client,
    /// The statements that the server knows by now; `None` behind a pooler, where the next transaction may be another
    /// server's.
    prepared: Option<Mutex<HashMap<&'static str, Statement>>>,
    asked: Arc<AtomicU64>,
    /// Whether a statement has failed since a transaction began.
    failed: AtomicBool,
    /// How long an answer is waited for; `None` for questions of callers, some of which look at the whole store.
    patience: Option<Duration>,
}

impl Session {
    pub(crate) const fn new(client: Client, asked: Arc<AtomicU64>) -> Self {
        Self {
            client,
            prepared: None,
            asked,
            failed: AtomicBool::new(false),
            patience: None,
        }
    }

    /// Waits for every answer for a bounded time from now on.
    pub(crate) const fn bound(&mut self, patience: Duration) {
        self.patience = Some(patience);
    }

    /// Waits for an answer as long as this connection does. After one that has not come, the connection is of no more use.
    pub(crate) async fn answered<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = match self.patience {
            Some(patience) => within(patience, asked).await,
            None => asked.await.map_err(|e| failure(&e)),
        };
        self.failed.fetch_or(answer.is_err(), Ordering::Relaxed);
        answer
    }

    /// Whether a statement has failed since [`Self::begins`].
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// A transaction begins.
    pub(crate) fn begins(&self) {
        self.failed.store(false, Ordering::Relaxed);
    }

    /// Lets the server plan `statements` now, and every other one when it is first asked. Not behind a pooler.
    pub(crate) async fn prepare(&mut self, statements: &[&'static Sql]) -> Result<(), Error> {
        let mut known = HashMap::with_capacity(statements.len());
        for sql in statements {
            let statement = self.client.prepare_typed(sql.text, sql.types).await?;
            known.insert(sql.text, statement);
        }
        self.prepared = Some(Mutex::new(known));
        Ok(())
    }

    /// The statement as the server knows it; `None` behind a pooler.
    async fn known(&self, sql: &'static Sql) -> Result<Option<Statement>, Error> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        // Statements are put whole.
        let lock = || prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(sql.text).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let statement = self.client.prepare_typed(sql.text, sql.types).await?;
        lock().insert(sql.text, statement.clone());
        Ok(Some(statement))
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Puts a statement. One that the server knows, or is behind a pooler, is sent when the answer is first polled for,
    /// so that several go out together and in their order.
    pub(crate) async fn query(
        &self,
        sql: &'static Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.known(sql).await? {
            Some(statement) => self.client.query(&statement, params).await,
            None => self.query_text(sql.text, sql.types, params).await,
        }
    }

    /// Puts a statement whose text is made for the occasion.
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
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.client.batch_execute(text).await
    }
}

/// Waits for an answer for a bounded time.
pub(crate) async fn within<T>(
    patience: Duration,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let answer = tokio::time::timeout(patience, asked).await;
    answer
        .map_err(|_| unavailable("PostgreSQL does not answer"))?
        .map_err(|e| failure(&e))
}

/// What drives a connection while its answer is waited for.
pub(crate) enum Driver {
    /// The runtime that the connection lives on, from a thread that may block.
    Handle(Handle),
    /// A runtime of this thread's own, which runs only meanwhile.
    Runtime(Runtime),
}

impl Driver {
    /// A runtime of this thread's own: what is asked is answered without another thread being woken.
    pub(crate) fn own() -> Result<Self, Failure> {
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

//! A connection to PostgreSQL, and the statements that are sent over it. `Session` here is a session of the database,
//! not a conversation.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use filrouge_types::{Failure, lock};
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::error::{failure, unavailable};
use crate::one_lane::{covers_several_lanes, is_insertion, text_in_one_lane, types_in_one_lane};

/// The value of a statement's parameter.
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

/// A column of the rows that a statement gets.
pub(crate) trait Column {
    /// All values, as an array.
    fn all(&self) -> Param<'_>;
    /// The values of these rows, as an array.
    fn of_rows(&self, rows: &[usize]) -> Box<dyn ToSql + Sync + '_>;
    /// The value of this row.
    fn of_row(&self, row: usize) -> Param<'_>;
}

impl<T: ToSql + Sync> Column for Vec<T> {
    fn all(&self) -> Param<'_> {
        self
    }

    fn of_rows(&self, rows: &[usize]) -> Box<dyn ToSql + Sync + '_> {
        let values: Vec<&T> = rows.iter().map(|row| &self[*row]).collect();
        Box::new(values)
    }

    fn of_row(&self, row: usize) -> Param<'_> {
        &self[row]
    }
}

/// The maximum number of rows of a statement in a distributed store: a statement has at most 65,535 parameters.
const ROWS_MAX: usize = 1000;

/// A statement, and the types of its parameters. Behind a pooler the text and the types are sent with every execution.
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
    /// The statements prepared on the server, by their texts. `None` behind a pooler, where the next transaction may
    /// run over another connection to the server, which lacks them.
    prepared: Option<Mutex<HashMap<&'static str, Statement>>>,
    /// The number of statements sent over all connections of the connector.
    statements_sent: Arc<AtomicU64>,
    /// Whether a statement has failed since the transaction began.
    failed: AtomicBool,
    /// The time limit for an answer. `None` for reads on behalf of callers: some of them scan the entire store.
    answer_timeout: Option<Duration>,
    /// Whether the store is distributed. Then statements have another form (see [`crate::one_lane`]).
    distributed: bool,
}

impl Session {
    pub(crate) const fn new(client: Client, statements_sent: Arc<AtomicU64>) -> Self {
        Self {
            client,
            prepared: None,
            statements_sent,
            failed: AtomicBool::new(false),
            answer_timeout: None,
            distributed: false,
        }
    }

    /// Records that the store is distributed. No statement must be prepared yet.
    pub(crate) const fn set_distributed(&mut self) {
        self.distributed = true;
    }

    /// Whether the store is distributed.
    pub(crate) const fn is_distributed(&self) -> bool {
        self.distributed
    }

    /// Limits the time for every later answer.
    pub(crate) const fn set_answer_timeout(&mut self, timeout: Duration) {
        self.answer_timeout = Some(timeout);
    }

    /// Waits for the answer to `query`, up to this connection's time limit. After a timeout the connection must not be
    /// used any more.
    pub(crate) async fn with_answer_timeout<T>(
        &self,
        query: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = match self.answer_timeout {
            Some(timeout) => answer_within(timeout, query).await,
            None => query.await.map_err(|e| failure(&e)),
        };
        self.failed.fetch_or(answer.is_err(), Ordering::Relaxed);
        answer
    }

    /// Returns whether a statement has failed since the last call of [`Self::record_begin`].
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Records that a transaction begins.
    pub(crate) fn record_begin(&self) {
        self.failed.store(false, Ordering::Relaxed);
    }

    /// Prepares `statements` now. After this call, every other statement is prepared when it is first used. Must not be
    /// called behind a pooler.
    pub(crate) async fn prepare(&mut self, statements: &[&'static Sql]) -> Result<(), Error> {
        let mut prepared = HashMap::with_capacity(statements.len());
        for sql in statements {
            let statement = self.prepare_one(sql).await?;
            prepared.insert(sql.text, statement);
        }
        self.prepared = Some(Mutex::new(prepared));
        Ok(())
    }

    /// Prepares a statement in the form of this store; an insertion in that for one row.
    async fn prepare_one(&self, sql: &Sql) -> Result<Statement, Error> {
        if self.distributed && covers_several_lanes(sql.types) {
            let text = text_in_one_lane(sql.text, 1);
            let types = types_in_one_lane(sql.text, sql.types, 1);
            return self.client.prepare_typed(&text, &types).await;
        }
        self.client.prepare_typed(sql.text, sql.types).await
    }

    /// The prepared statement; `None` behind a pooler.
    async fn prepared_statement(&self, sql: &'static Sql) -> Result<Option<Statement>, Error> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        let statement = lock(prepared).get(sql.text).cloned();
        if statement.is_some() {
            return Ok(statement);
        }
        let statement = self.prepare_one(sql).await?;
        lock(prepared).insert(sql.text, statement.clone());
        Ok(Some(statement))
    }

    /// Runs a statement once for each of `executions`, which are the values of its parameters, without waiting in
    /// between. Returns the rows of each execution.
    pub(crate) async fn query_each(
        &self,
        sql: &'static Sql,
        executions: &[Vec<Param<'_>>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        if executions.is_empty() {
            return Ok(Vec::new());
        }
        // Otherwise each execution would prepare the statement.
        self.prepared_statement(sql).await?;
        pipeline(executions.iter().map(|params| self.query(sql, params))).await
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a statement. If it is already prepared, or the connection leads to a pooler, the first poll sends it. So
    /// several statements whose futures are polled in order are sent in this order, without waiting for answers.
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

    /// Runs a statement over rows of several lanes. `lanes` and `columns` are the columns of these rows, `others` the
    /// parameters that follow. Sends nothing without rows. In a distributed store, runs the statement for each lane.
    pub(crate) async fn query_columns(
        &self,
        sql: &'static Sql,
        lanes: &[i16],
        columns: &[&dyn Column],
        others: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        if self.distributed {
            return self.query_each_lane(sql, lanes, columns, others).await;
        }
        let lanes: Param<'_> = &lanes;
        let columns = columns.iter().map(|column| column.all());
        let params = iter::once(lanes).chain(columns);
        let params: Vec<Param<'_>> = params.chain(others.iter().copied()).collect();
        self.query(sql, &params).await
    }

    /// Runs a statement for each lane, without waiting in between. Returns the rows of all lanes.
    async fn query_each_lane(
        &self,
        sql: &'static Sql,
        lanes: &[i16],
        columns: &[&dyn Column],
        others: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let mut by_lane = BTreeMap::<i16, Vec<usize>>::new();
        for (row, lane) in lanes.iter().enumerate() {
            by_lane.entry(*lane).or_default().push(row);
        }
        // Otherwise each execution would prepare the statement.
        self.prepared_statement(sql).await?;
        let parts = by_lane.iter().flat_map(|(lane, rows)| {
            let parts = rows.chunks(ROWS_MAX);
            parts.map(move |rows| (lane, rows))
        });
        let queries = parts.map(|(lane, rows)| async move {
            if is_insertion(sql.text) {
                return self.insert_in_lane(sql, lane, rows, columns).await;
            }
            let arrays = columns.iter().map(|column| column.of_rows(rows));
            let arrays: Vec<_> = arrays.collect();
            let lane: Param<'_> = lane;
            let params = iter::once(lane).chain(arrays.iter().map(|array| &**array as Param<'_>));
            let params: Vec<Param<'_>> = params.chain(others.iter().copied()).collect();
            self.query(sql, &params).await
        });
        Ok(pipeline(queries).await?.into_iter().flatten().collect())
    }

    /// Inserts these rows of a lane, as a `VALUES` list.
    async fn insert_in_lane(
        &self,
        sql: &'static Sql,
        lane: &i16,
        rows: &[usize],
        columns: &[&dyn Column],
    ) -> Result<Vec<Row>, Error> {
        let lane: Param<'_> = lane;
        let row = |row: &usize| {
            let row = *row;
            iter::once(lane).chain(columns.iter().map(move |column| column.of_row(row)))
        };
        let params: Vec<Param<'_>> = rows.iter().flat_map(row).collect();
        if rows.len() == 1 {
            return self.query(sql, &params).await;
        }
        let text = text_in_one_lane(sql.text, rows.len());
        let types = types_in_one_lane(sql.text, sql.types, rows.len());
        self.statements_sent.fetch_add(1, Ordering::Relaxed);
        self.query_text(&text, &types, &params).await
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(&self, text: &str) -> Result<(), Error> {
        self.statements_sent.fetch_add(1, Ordering::Relaxed);
        self.client.batch_execute(text).await
    }
}

/// Runs `futures` concurrently, and returns their results in order. The first poll polls all of them in order, so that
/// prepared statements are sent in this order, without waiting for answers. Answers come in the order of the statements,
/// so afterwards one future after the other is awaited.
pub(crate) async fn pipeline<T, F: Future<Output = Result<T, Error>>>(
    futures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, Error> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let first_polls: Vec<_> = poll_fn(|cx| {
        let polls = futures.iter_mut().map(|future| future.as_mut().poll(cx));
        Poll::Ready(polls.collect())
    })
    .await;
    let mut results = Vec::with_capacity(futures.len());
    for (future, first_poll) in futures.into_iter().zip(first_polls) {
        results.push(match first_poll {
            Poll::Ready(result) => result?,
            Poll::Pending => future.await?,
        });
    }
    Ok(results)
}

/// Waits at most `timeout` for the answer to `query`.
pub(crate) async fn answer_within<T>(
    timeout: Duration,
    query: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let answer = tokio::time::timeout(timeout, query).await;
    answer
        .map_err(|_| unavailable("PostgreSQL does not answer"))?
        .map_err(|e| failure(&e))
}

/// The async runtime on which a blocking thread waits for the answers of a connection.
pub(crate) enum Driver {
    /// The runtime on which the connection runs. The thread that waits must be allowed to block.
    Handle(Handle),
    /// A runtime of the current thread, which makes progress only during a wait.
    Runtime(Runtime),
}

impl Driver {
    /// Creates a runtime of the current thread. An answer then needs no switch between threads.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_pipeline_sends_all_statements_before_it_waits_for_answers() {
        let events = RefCell::new(Vec::new());
        let statements = (0..70).map(|n| {
            let events = &events;
            async move {
                events.borrow_mut().push(("sent", n));
                tokio::task::yield_now().await;
                events.borrow_mut().push(("answered", n));
                Ok(n)
            }
        });
        let driver = Driver::on_current_thread().unwrap();
        let answers = driver.wait(pipeline(statements)).unwrap();
        assert_eq!(answers, (0..70).collect::<Vec<_>>());
        let expected = ["sent", "answered"].map(|event| (0..70).map(move |n| (event, n)));
        assert_eq!(
            *events.borrow(),
            expected.into_iter().flatten().collect::<Vec<_>>()
        );
    }
}

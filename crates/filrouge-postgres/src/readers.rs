//! The connections for reads. Each query runs in its own transaction, and sees one snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::managed::{Object, Pool, PoolError, TimeoutType};
use filrouge_store::ledger::SnapshotQuery;
use filrouge_store::read::VerifiedSnapshot;
use filrouge_store::record::MacCheck;
use filrouge_store::rows::LogRow;
use filrouge_store::verify::HeadCheck;
use filrouge_store::{FairSlots, Keyring, Lane, QuerySubject, SlotBounds, WorkSize};
use filrouge_types::{ErrorCode, Failure};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::try_join;
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::error::unavailable;
use crate::pool::PooledConnector;
use crate::presence::IS_UNLOCKED;
use crate::rows::{
    BY_ID, NEWEST_LOGS, ReadAhead, Rows, SessionLookup, column, read_newest_logs, sql_lane,
};
use crate::session::{Driver, Param, Session, Sql, answer_within};
use crate::store_state::StoreState;

type Reader = Object<PooledConnector>;

/// A pool of connections for reads.
pub(crate) struct Readers {
    pool: Pool<PooledConnector>,
    /// A query has one of these slots, and with it a connection of the pool, until its transaction has ended.
    active_queries: FairSlots,
    store_state: Arc<StoreState>,
    keyring: Arc<Keyring>,
    check: MacCheck,
    /// The time limit for beginning and for ending a transaction.
    transaction_timeout: Duration,
}

/// The time limit for running queries when the pool is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of attempts to begin a snapshot, each over another connection: the pool may return a lost one.
const ATTEMPTS_MAX: usize = 3;

impl Readers {
    pub(crate) fn new(
        connector: Arc<Connector>,
        max_queries: u32,
        store_state: Arc<StoreState>,
        keyring: Arc<Keyring>,
        check: MacCheck,
        transaction_timeout: Duration,
    ) -> Result<Self, Failure> {
        let max_queries = max_queries.max(1);
        static PREPARED: [&Sql; 2] = [&NEWEST_LOGS, &BY_ID];
        let connector = PooledConnector {
            connector,
            statements: &PREPARED,
            answer_timeout: None,
        };
        let pool = connector.pool(max_queries as usize, transaction_timeout)?;
        Ok(Self {
            pool,
            active_queries: FairSlots::new(SlotBounds::without_shares(max_queries as usize)),
            store_state,
            keyring,
            check,
            transaction_timeout,
        })
    }

    /// Accepts no more queries, and waits up to [`CLOSE_TIMEOUT`] for the running ones. They need the async runtime,
    /// and the caller may shut it down next.
    pub(crate) async fn close(&self) {
        self.active_queries.close();
        self.pool.close();
        let all_ended = self.active_queries.wait_until_all_released();
        if tokio::time::timeout(CLOSE_TIMEOUT, all_ended)
            .await
            .is_err()
        {
            tracing::warn!("the store is closed while it is still being read");
        }
    }

    /// Runs a query about `subject` in one snapshot, after the new commits of `lanes` are verified. While all connections
    /// are in use, callers take turns, and each waits at most `transaction_timeout`. If `lookup` names a session, its
    /// row is read in the same round trip that begins the snapshot. If the caller stops waiting, the query still runs to
    /// its end; its connection is reused only after its transaction has ended.
    pub(crate) async fn inspect(
        self: &Arc<Self>,
        subject: QuerySubject<'_>,
        lanes: Vec<Lane>,
        lookup: Option<SessionLookup>,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let caller = subject.caller();
        let slot = self.active_queries.acquire(&caller, WorkSize::Small);
        let slot = match tokio::time::timeout(self.transaction_timeout, slot).await {
            Ok(slot) => slot.ok_or(PoolError::Closed),
            Err(_) => Err(PoolError::Timeout(TimeoutType::Wait)),
        };
        let slot = slot.map_err(pool_failure)?;
        // The connection is opened in a task, which continues even if this caller stops waiting, so that the connection
        // reaches the pool. Otherwise, when connecting takes longer than callers wait, each caller would begin a new
        // connection, and none would ever be ready.
        let pool = self.pool.clone();
        let reader = tokio::spawn(async move { pool.get().await }).await;
        let reader = reader.map_err(|_| Failure::new(ErrorCode::Internal, "connecting failed"))?;
        let reader = reader.map_err(pool_failure)?;
        let (sender, receiver) = oneshot::channel();
        let (readers, handle) = (self.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let driver = Driver::Handle(handle);
            let mut borrowed = BorrowedConnection(Some(reader));
            let result = readers.run_query((&mut borrowed, &driver), &lanes, lookup, query);
            // The caller need not wait for the end of the transaction. Sending fails only if the caller has stopped
            // waiting.
            let _ = sender.send(result);
            borrowed.return_to_pool(&driver, readers.transaction_timeout);
            drop(slot);
        });
        let result = receiver.await;
        result.map_err(|_| Failure::new(ErrorCode::Internal, "a read panicked"))?
    }

    /// Whether no connection to the database holds the advisory lock with this key.
    pub(crate) async fn is_unlocked(&self, key: i64) -> Result<bool, Failure> {
        let reader = self.pool.get().await.map_err(pool_failure)?;
        let params: [Param<'_>; 1] = [&key];
        let query = reader.session.query(&IS_UNLOCKED, &params);
        let answer = answer_within(self.transaction_timeout, query).await;
        if answer.is_err() {
            drop(Object::take(reader));
        }
        let rows = answer?;
        Ok(rows.first().map(|row| column(row, 0)).transpose()? == Some(true))
    }

    /// Begins a snapshot, verifies the commits of `lanes` that are new in it, and runs `query`. Retries only the
    /// beginning.
    fn run_query(
        &self,
        (borrowed, driver): (&mut BorrowedConnection, &Driver),
        lanes: &[Lane],
        lookup: Option<SessionLookup>,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let log = &self.store_state.log;
        let only_lane = lanes.first().copied().filter(|_| lanes.len() == 1);
        let (mut attempts, started_at) = (1, Instant::now());
        let (verified, start) = loop {
            let verified: Vec<_> = lanes.iter().map(|lane| log.newest(*lane)).collect();
            match borrowed.begin(driver, self.transaction_timeout, lanes, lookup.as_ref()) {
                Ok(start) => break (verified, start),
                Err(failure)
                    if attempts == ATTEMPTS_MAX
                        || started_at.elapsed() >= self.transaction_timeout =>
                {
                    return Err(failure);
                }
                Err(_) => attempts += 1,
            }
            borrowed.drop_connection();
            let reader = driver.wait(self.pool.get());
            borrowed.0 = Some(reader.map_err(pool_failure)?);
        };
        let lookup_result = lookup.map(|lookup| (lookup, start.session));
        let view = Rows {
            session: borrowed.session()?,
            driver,
            lanes: log.lanes(),
            read_ahead: ReadAhead::in_snapshot(lookup_result),
        };
        for (lane, verified) in lanes.iter().zip(verified) {
            let newest = start.newest.get(lane);
            log.verify_new_commits(&view, *lane, verified.as_deref(), newest, &[])?;
        }
        let suspects = log.suspects();
        query(&VerifiedSnapshot {
            view: &view,
            keyring: &self.keyring,
            check: self.check,
            suspects: &suspects,
            heads: HeadCheck {
                applied: only_lane,
                ..log.head_check()
            },
        });
        log.add_found_suspects();
        Ok(())
    }
}

/// The rows that are read when a snapshot begins.
struct SnapshotStart {
    /// The newest commit of each lane to verify. A malformed one counts as missing: the verified log then reports that
    /// commits were removed.
    newest: BTreeMap<Lane, LogRow>,
    /// The session of the lookup, if there is one.
    session: Option<Row>,
}

/// A connection borrowed from the pool; `None` after it was returned or closed. Only
/// [`BorrowedConnection::return_to_pool`] returns it to the pool. If this is dropped before, the transaction may still
/// be open, so the connection is closed.
struct BorrowedConnection(Option<Reader>);

impl BorrowedConnection {
    fn session(&self) -> Result<&Session, Failure> {
        let reader = self.0.as_ref();
        reader
            .map(|r| &r.session)
            .ok_or_else(|| unavailable("not connected"))
    }

    /// Begins a snapshot.
    fn begin(
        &self,
        driver: &Driver,
        transaction_timeout: Duration,
        lanes: &[Lane],
        lookup: Option<&SessionLookup>,
    ) -> Result<SnapshotStart, Failure> {
        let session = self.session()?;
        let transaction_settings = self
            .0
            .as_ref()
            .map_or("", |r| r.transaction_settings.as_str());
        let begin =
            format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{transaction_settings}");
        let lanes: Vec<i16> = lanes.iter().map(|lane| sql_lane(*lane)).collect();
        let start = async {
            let find_session = async {
                match lookup {
                    Some(lookup) => lookup.query(session).await,
                    None => Ok(None),
                }
            };
            let newest = session.query_columns(&NEWEST_LOGS, &lanes, &[], &[]);
            try_join!(biased; session.run(&begin), newest, find_session)
        };
        let ((), rows, session) = driver.wait(answer_within(transaction_timeout, start))?;
        // A pooler may have switched to a standby, which may lack the newest commits of its primary.
        let is_standby: Option<bool> = rows.first().map(|row| column(row, 3)).transpose()?;
        if is_standby == Some(true) {
            return Err(unavailable("PostgreSQL: a standby answers"));
        }
        let newest = read_newest_logs(&rows)?.into_iter();
        let newest = newest.filter_map(|(lane, row)| Some((lane, row.ok()?)));
        let newest = newest.collect();
        Ok(SnapshotStart { newest, session })
    }

    /// Ends the transaction, and returns the connection to the pool. Closes the connection if this fails.
    fn return_to_pool(mut self, driver: &Driver, transaction_timeout: Duration) {
        let result = self.session().and_then(|session| {
            driver.wait(answer_within(transaction_timeout, session.run("ROLLBACK")))
        });
        if result.is_ok() {
            drop(self.0.take());
        }
    }

    /// Closes the connection instead of returning it to the pool.
    fn drop_connection(&mut self) {
        if let Some(reader) = self.0.take() {
            drop(Object::take(reader));
        }
    }
}

impl Drop for BorrowedConnection {
    fn drop(&mut self) {
        self.drop_connection();
    }
}

fn pool_failure(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure,
        PoolError::Closed => {
            unavailable("the store is closed").with_hint("the server is stopping; try again soon")
        }
        other => unavailable(format!("no connection to read with: {other}")),
    }
}

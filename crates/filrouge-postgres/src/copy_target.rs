//! A PostgreSQL database as the target of `filrouge copy`.
//!
//! During a copy, the table `store` has two additional rows: `copying`, the id of the source store, and `copier`, the
//! id of the run that may write. The transaction that finishes the copy deletes both.

use filrouge_store::copy::{CopyTarget, CopyWrites, StartedCopy, TargetContents, overtaken_run};
use filrouge_store::{Lanes, View, random_id};
use filrouge_types::{ErrorCode, Failure, Result, Timestamp};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Connector};
use crate::error::failure;
use crate::follow::NOW;
use crate::lanes::query_lanes;
use crate::migrate;
use crate::options::Options;
use crate::rows::{NEWEST_LOG, ReadAhead, Rows, column, read_log};
use crate::session::{Driver, Param, Session, Sql};
use crate::stage::{Fetched, LOCK_LANE_WAIT, Stage};

/// Deletes the commit log of a lane. The database's guards permit this only in an unfinished copy.
static DELETE_LOG: Sql = Sql::new(
    "DELETE FROM filrouge.commit_log WHERE lane = $1",
    &[Type::INT2],
);

/// Begins a transaction in which each statement sees what was committed before the statement, and so before the locks
/// that it has waited for.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// A database into which a store is copied. Creates nothing before [`CopyTarget::begin`]. The methods block, so they
/// must not be called on a worker thread of an async runtime.
pub struct PostgresCopyTarget {
    options: Options,
    connection: Option<CopyConnection>,
}

/// The connection of a copy.
struct CopyConnection {
    driver: Driver,
    connection: Connection,
    /// `None` before `begin`.
    run: Option<Run>,
}

/// The run that may write.
struct Run {
    /// Its random id.
    id: String,
    /// The lanes of the target.
    lanes: Lanes,
}

impl PostgresCopyTarget {
    /// Creates the target for the database that `options` name. Does not connect.
    pub fn new(mut options: Options) -> Self {
        options.make = true;
        Self {
            options,
            connection: None,
        }
    }

    /// Returns the connection; connects at the first call.
    fn connection(&mut self) -> Result<&mut CopyConnection> {
        if self.connection.is_none() {
            let driver = Driver::on_current_thread()?;
            let connector = Connector::new(self.options.server.clone(), self.options.lock_timeout);
            let connection = driver.wait(connector.connect(&[]))?;
            self.connection = Some(CopyConnection {
                driver,
                connection,
                run: None,
            });
        }
        let not_connected = || Failure::new(ErrorCode::Internal, "the copy has no connection");
        self.connection.as_mut().ok_or_else(not_connected)
    }
}

impl Drop for PostgresCopyTarget {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its tasks. This target may be dropped on a thread that must not block,
        // for example when the source of the copy did not answer, so the runtime is shut down without waiting.
        if let Some(Driver::Runtime(runtime)) = self.connection.take().map(|copy| copy.driver) {
            runtime.shutdown_background();
        }
    }
}

async fn contents(client: &Client) -> Result<TargetContents> {
    if migrate::version(client).await? == 0 {
        return Ok(TargetContents::Nothing);
    }
    if let Some(source) = migrate::store_value(client, "copying").await? {
        return Ok(TargetContents::Copy { source });
    }
    let has_data = migrate::has_data(client).await?;
    Ok(if has_data {
        TargetContents::Store
    } else {
        TargetContents::Nothing
    })
}

async fn put_store_value(client: &Client, name: &str, value: &str) -> Result<()> {
    let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";
    let params: [(Param<'_>, Type); 2] = [(&name, Type::TEXT), (&value, Type::TEXT)];
    let result = client.query_typed(sql, &params).await;
    result.map(drop).map_err(|e| failure(&e))
}

/// Marks the store as an unfinished copy of `source` that the run `run` writes, and deletes the commit log that an
/// earlier run has made. The caller's transaction excludes other writers. Returns whether the store already was an
/// unfinished copy of `source`, which this run continues.
///
/// # Errors
/// Fails if the store contains anything else.
async fn mark_unfinished(session: &Session, lanes: Lanes, source: &str, run: &str) -> Result<bool> {
    let lock = session.run("LOCK TABLE filrouge.store IN SHARE ROW EXCLUSIVE MODE");
    lock.await.map_err(|e| failure(&e))?;
    // A filrouge server that has this store open checks for the mark, under the lock of a lane, before it writes. It
    // waits for no lane while it has locked one, so all lanes can be locked here, one after another.
    let lock = query_lanes(session, &LOCK_LANE_WAIT, lanes.iter());
    lock.await.map_err(|e| failure(&e))?;
    let client = session.client();
    let resumed = contents(client).await?.is_resumable(source)?;
    put_store_value(client, "copying", source).await?;
    put_store_value(client, "copier", run).await?;
    // Permits the database's guards to let this transaction delete commits.
    let permit = session.run("SET LOCAL filrouge.copies = 'on'");
    permit.await.map_err(|e| failure(&e))?;
    let delete = query_lanes(session, &DELETE_LOG, lanes.iter());
    delete.await.map_err(|e| failure(&e))?;
    Ok(resumed)
}

/// Fetches the newest commit of each lane.
fn fetch_newest(rows: &Rows<'_>) -> Result<Fetched> {
    let mut fetched = Fetched::default();
    let commits = rows.query_lanes(&NEWEST_LOG, &[])?;
    for (lane, commits) in rows.lanes.iter().zip(&commits) {
        let commits = commits.iter().map(|row| read_log(lane, row, 0));
        fetched.lanes.insert(lane, commits.collect::<Result<_>>()?);
    }
    Ok(fetched)
}

/// The database server's time.
fn database_time(rows: &Rows<'_>) -> Result<Timestamp> {
    let row = rows.query_opt(&NOW, &[])?;
    let micros = row.map_or(Ok(0), |row| column(&row, 0))?;
    Ok(Timestamp::from_micros(micros))
}

impl CopyConnection {
    fn run_sql(&self, sql: &str) -> Result<()> {
        let result = self.driver.wait(self.connection.session.run(sql));
        result.map_err(|e| failure(&e))
    }

    /// Runs `work` in one transaction, which the SQL `begin` starts. Rolls back if `work` fails.
    fn transact<T>(&self, begin: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.run_sql(&format!("{begin}{}", self.connection.transaction_settings))?;
        let result = work().and_then(|value| self.run_sql("COMMIT").map(|()| value));
        if result.is_err() {
            // If the connection is lost, the server rolls back.
            let _ = self.run_sql("ROLLBACK");
        }
        result
    }

    /// Runs `work` in one transaction. Fails if this run has not begun, or another run has since begun to write this
    /// copy.
    fn write(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.transact(BEGIN, || {
            let client = self.connection.session.client();
            let sql = "SELECT value FROM filrouge.store WHERE name = 'copier' FOR UPDATE";
            let row = self.driver.wait(client.query_typed_opt(sql, &[]));
            let row = row.map_err(|e| failure(&e))?;
            let copier: Option<String> = row.map(|row| row.get(0));
            if copier.is_none() || copier.as_ref() != self.run.as_ref().map(|run| &run.id) {
                return Err(overtaken_run());
            }
            work()
        })
    }

    /// The rows of the target; fails before `begin`.
    fn rows(&self) -> Result<Rows<'_>> {
        let not_begun = || Failure::new(ErrorCode::Internal, "the copy was not begun");
        Ok(Rows {
            session: &self.connection.session,
            driver: &self.driver,
            lanes: self.run.as_ref().ok_or_else(not_begun)?.lanes,
            read_ahead: ReadAhead::default(),
        })
    }
}

impl CopyTarget for PostgresCopyTarget {
    fn contents(&mut self) -> Result<TargetContents> {
        let copy = self.connection()?;
        copy.driver.wait(contents(copy.connection.session.client()))
    }

    fn begin(&mut self, source: &str) -> Result<StartedCopy> {
        let options = self.options.clone();
        let id = random_id(options.entropy.as_ref())?;
        let copy = self.connection()?;
        let client = copy.connection.session.client();
        let store = copy.driver.wait(migrate::migrate(client, &options))?;
        if store.distributed {
            copy.driver.wait(copy.connection.use_distributed())?;
        }
        let session = &copy.connection.session;
        let lanes = store.lanes;
        let resumed = copy.transact(BEGIN, || {
            copy.driver
                .wait(mark_unfinished(session, lanes, source, &id))
        })?;
        copy.run = Some(Run { id, lanes });
        Ok(StartedCopy {
            store_id: store.store_id,
            lanes,
            resumed,
        })
    }

    fn with_view(&mut self, query: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()> {
        let copy = self.connection()?;
        let rows = copy.rows()?;
        copy.transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", || {
            query(&rows)
        })
    }

    fn write(&mut self, work: CopyWrites<'_>) -> Result<()> {
        let clock = self.options.clock.clone();
        let copy = self.connection()?;
        let rows = copy.rows()?;
        copy.write(|| {
            let now = match clock {
                Some(clock) => clock.now(),
                None => database_time(&rows)?,
            };
            let fetched = fetch_newest(&rows)?;
            let mut stage = Stage::new(rows, fetched);
            work(&mut stage, now)?;
            let pending = stage.into_pending();
            let sent = copy.driver.wait(pending.send(&copy.connection.session));
            sent.map_err(|e| failure(&e))
        })
    }

    fn finish(&mut self) -> Result<()> {
        let copy = self.connection()?;
        copy.write(|| {
            copy.run_sql("DELETE FROM filrouge.store WHERE name IN ('copying', 'copier')")
        })
    }
}

//! A PostgreSQL database as the target of `filrouge copy`.
//!
//! During a copy, the table `store` has two additional rows: `copying`, the id of the source store, and `copier`, the
//! id of the run that may write. The transaction that finishes the copy deletes both.

use filrouge_store::View;
use filrouge_store::copy::{CopyRow, CopyTarget, StartedCopy, TargetContents, overtaken_run};
use filrouge_store::random_id;
use filrouge_store::rows::SessionPk;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Connector};
use crate::error::failure;
use crate::ledger::writer_lock_key;
use crate::migrate;
use crate::options::Options;
use crate::rows::{ReadAhead, Rows};
use crate::session::{Driver, Param};

mod send_rows;

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
    /// The random id of this run; `None` before `begin`.
    run: Option<String>,
}

impl PostgresCopyTarget {
    /// Creates the target for the database that `options` name. Does not connect.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        options.make = true;
        Self {
            options,
            connection: None,
        }
    }

    /// Returns the connection; connects at the first call.
    fn connection(&mut self) -> Result<&mut CopyConnection, Failure> {
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

async fn contents(client: &Client) -> Result<TargetContents, Failure> {
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

async fn put_store_value(client: &Client, name: &str, value: &str) -> Result<(), Failure> {
    let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";
    let params: [(Param<'_>, Type); 2] = [(&name, Type::TEXT), (&value, Type::TEXT)];
    let result = client.query_typed(sql, &params).await;
    result.map(drop).map_err(|e| failure(&e))
}

/// Marks the store as an unfinished copy of `source` that the run `run` writes. The caller's transaction excludes other
/// writers. Returns whether the store already was an unfinished copy of `source`, which this run continues.
///
/// # Errors
/// Fails if the store contains anything else.
async fn mark_unfinished(client: &Client, source: &str, run: &str) -> Result<bool, Failure> {
    let lock = client.batch_execute("LOCK TABLE filrouge.store IN SHARE ROW EXCLUSIVE MODE");
    lock.await.map_err(|e| failure(&e))?;
    // A filrouge server that has this store open checks for the mark, under the lock of writers, before it writes.
    let store = migrate::store_value(client, "store_id")
        .await?
        .unwrap_or_default();
    let lock_writers = format!("SELECT pg_advisory_xact_lock({})", writer_lock_key(&store));
    client
        .batch_execute(&lock_writers)
        .await
        .map_err(|e| failure(&e))?;
    let resumed = contents(client).await?.is_resumable(source)?;
    put_store_value(client, "copying", source).await?;
    put_store_value(client, "copier", run).await?;
    Ok(resumed)
}

impl CopyConnection {
    fn run(&self, sql: &str) -> Result<(), Failure> {
        let result = self.driver.wait(self.connection.session.run(sql));
        result.map_err(|e| failure(&e))
    }

    /// Runs `work` in one transaction, which the SQL `begin` starts. Rolls back if `work` fails.
    fn transact<T>(
        &self,
        begin: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.run(&format!("{begin}{}", self.connection.transaction_settings))?;
        let result = work().and_then(|value| self.run("COMMIT").map(|()| value));
        if result.is_err() {
            // If the connection is lost, the server rolls back.
            let _ = self.run("ROLLBACK");
        }
        result
    }

    /// Runs `work` in one transaction. Fails if this run has not begun, or another run has since begun to write this
    /// copy.
    fn write(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.transact("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", || {
            let client = self.connection.session.client();
            let sql = "SELECT value FROM filrouge.store WHERE name = 'copier' FOR UPDATE";
            let row = self.driver.wait(client.query_typed_opt(sql, &[]));
            let row = row.map_err(|e| failure(&e))?;
            let copier: Option<String> = row.map(|row| row.get(0));
            if copier.is_none() || copier != self.run {
                return Err(overtaken_run());
            }
            work()
        })
    }
}

impl CopyTarget for PostgresCopyTarget {
    fn contents(&mut self) -> Result<TargetContents, Failure> {
        let copy = self.connection()?;
        copy.driver.wait(contents(copy.connection.session.client()))
    }

    fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
        let options = self.options.clone();
        let run = random_id(options.entropy.as_ref())?;
        let copy = self.connection()?;
        let client = copy.connection.session.client();
        let store_id = copy.driver.wait(migrate::migrate(client, &options))?;
        let result = copy.transact("BEGIN", || {
            copy.driver.wait(mark_unfinished(client, source, &run))
        });
        let resumed = result?;
        copy.run = Some(run);
        Ok(StartedCopy { store_id, resumed })
    }

    fn with_view(
        &mut self,
        query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let copy = self.connection()?;
        copy.transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", || {
            query(&Rows {
                session: &copy.connection.session,
                driver: &copy.driver,
                read_ahead: ReadAhead::default(),
            })
        })
    }

    fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure> {
        let copy = self.connection()?;
        copy.write(|| {
            let result = copy
                .driver
                .wait(send_rows::send_rows(&copy.connection.session, rows));
            result.map_err(|e| failure(&e))
        })
    }

    fn finish(&mut self, _newest: SessionPk) -> Result<(), Failure> {
        // `_newest` is not needed: on PostgreSQL a new session gets the number after the greatest existing one.
        let copy = self.connection()?;
        copy.write(|| copy.run("DELETE FROM filrouge.store WHERE name IN ('copying', 'copier')"))
    }
}

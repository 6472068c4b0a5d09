//! A PostgreSQL database that a store is copied into.
//!
//! The row `copying` of the table `store` marks a copy under way with the name of its source; `copier` names the run
//! that may go on with it. Both go in the transaction that ends the copy.

use filrouge_store::View;
use filrouge_store::copy::{Begun, Holding, Intake, Piece, taken_over};
use filrouge_store::random_id;
use filrouge_store::rows::SessionPk;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::{Connector, Linked};
use crate::error::failure;
use crate::ledger::lock_of;
use crate::migrate;
use crate::options::Options;
use crate::rows::{Rows, Seen};
use crate::session::{Driver, Param};

mod pieces;

/// A database that a store is copied into; nothing is made before [`Intake::begin`]. It blocks the thread that works
/// with it, which must not be one of a runtime's own.
pub struct PostgresIntake {
    options: Options,
    open: Option<Open>,
}

/// A connection, and this run's name once it has begun.
struct Open {
    driver: Driver,
    linked: Linked,
    run: Option<String>,
}

impl PostgresIntake {
    /// Of the database that `options` name.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        options.make = true;
        Self {
            options,
            open: None,
        }
    }

    fn open(&mut self) -> Result<&mut Open, Failure> {
        if self.open.is_none() {
            let driver = Driver::own()?;
            let connector = Connector::new(self.options.server.clone(), self.options.lock_timeout);
            let linked = driver.wait(connector.connect(&[]))?;
            self.open = Some(Open {
                driver,
                linked,
                run: None,
            });
        }
        let not = || Failure::new(ErrorCode::Internal, "the copy has no connection");
        self.open.as_mut().ok_or_else(not)
    }
}

impl Drop for PostgresIntake {
    fn drop(&mut self) {
        // It may be dropped where nothing may block, as when the source did not answer.
        if let Some(Driver::Runtime(runtime)) = self.open.take().map(|open| open.driver) {
            runtime.shutdown_background();
        }
    }
}

async fn holding(client: &Client) -> Result<Holding, Failure> {
    if migrate::version(client).await? == 0 {
        return Ok(Holding::Nothing);
    }
    if let Some(of) = migrate::stored(client, "copying").await? {
        return Ok(Holding::Copy { of });
    }
    let holds = migrate::is_written(client).await?;
    Ok(if holds {
        Holding::Store
    } else {
        Holding::Nothing
    })
}

async fn put(client: &Client, name: &str, value: &str) -> Result<(), Failure> {
    let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";
    let params: [(Param<'_>, Type); 2] = [(&name, Type::TEXT), (&value, Type::TEXT)];
    let put = client.query_typed(sql, &params).await;
    put.map(drop).map_err(|e| failure(&e))
}

/// Marks the store within a transaction that is alone; gives whether it was marked already.
async fn mark(client: &Client, source: &str, run: &str) -> Result<bool, Failure> {
    let lock = client.batch_execute("LOCK TABLE filrouge.store IN SHARE ROW EXCLUSIVE MODE");
    lock.await.map_err(|e| failure(&e))?;
    // A server that has this store open looks for the mark under the same lock, before it writes.
    let store = migrate::stored(client, "store_id")
        .await?
        .unwrap_or_default();
    let alone = format!("SELECT pg_advisory_xact_lock({})", lock_of(&store));
    client
        .batch_execute(&alone)
        .await
        .map_err(|e| failure(&e))?;
    // Somebody may have written to it since it was looked at.
    let resumed = match holding(client).await? {
        Holding::Nothing => false,
        Holding::Copy { of } if of == source => true,
        Holding::Copy { .. } | Holding::Store => return Err(taken_over()),
    };
    put(client, "copying", source).await?;
    put(client, "copier", run).await?;
    Ok(resumed)
}

impl Open {
    fn run(&self, sql: &str) -> Result<(), Failure> {
        let ran = self.driver.wait(self.linked.session.run(sql));
        ran.map_err(|e| failure(&e))
    }

    /// Does `work` in one transaction.
    fn transact<T>(
        &self,
        begin: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.run(&format!("{begin}{}", self.linked.local))?;
        let done = work().and_then(|done| self.run("COMMIT").map(|()| done));
        if done.is_err() {
            // Over a connection that is gone there is nothing to roll back.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    /// Does `work` in one transaction of this run, unless another one has taken the copy over.
    fn write(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.transact("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", || {
            let client = self.linked.session.client();
            let sql = "SELECT value FROM filrouge.store WHERE name = 'copier' FOR UPDATE";
            let row = self.driver.wait(client.query_typed_opt(sql, &[]));
            let row = row.map_err(|e| failure(&e))?;
            let copier: Option<String> = row.map(|row| row.get(0));
            if copier.is_none() || copier != self.run {
                return Err(taken_over());
            }
            work()
        })
    }
}

impl Intake for PostgresIntake {
    fn holding(&mut self) -> Result<Holding, Failure> {
        let open = self.open()?;
        open.driver.wait(holding(open.linked.session.client()))
    }

    fn begin(&mut self, source: &str) -> Result<Begun, Failure> {
        let options = self.options.clone();
        let run = random_id(options.entropy.as_ref())?;
        let open = self.open()?;
        let client = open.linked.session.client();
        let store_id = open.driver.wait(migrate::migrate(client, &options))?;
        let marked = open.transact("BEGIN", || open.driver.wait(mark(client, source, &run)));
        let resumed = marked?;
        open.run = Some(run);
        Ok(Begun { store_id, resumed })
    }

    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let open = self.open()?;
        open.transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", || {
            question(&Rows {
                session: &open.linked.session,
                driver: &open.driver,
                seen: Seen::default(),
            })
        })
    }

    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
        let open = self.open()?;
        open.write(|| {
            let sent = open.driver.wait(pieces::send(&open.linked.session, rows));
            sent.map_err(|e| failure(&e))
        })
    }

    fn finish(&mut self, _newest: SessionPk) -> Result<(), Failure> {
        // New sessions are numbered behind the newest that is there, in the source as here.
        let open = self.open()?;
        open.write(|| open.run("DELETE FROM filrouge.store WHERE name IN ('copying', 'copier')"))
    }
}

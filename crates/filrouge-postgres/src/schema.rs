//! Reads and migrates the schema of a store without opening a ledger, for commands of the program.

use filrouge_store::schema::Schema;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;

use crate::connect::Connector;
use crate::migrate::{self, MIGRATIONS};
use crate::options::Options;
use crate::session::Driver;

/// Reads the store's schema: its version and the migrations that are pending. Changes nothing.
///
/// # Errors
/// `invalid` for another program's schema or a newer one; `store_unavailable`.
pub fn schema(options: &Options) -> Result<Schema, Failure> {
    with_client(options, |driver, client| driver.wait(read_schema(client)))
}

/// Runs the pending migrations; creates an empty store if there is none. Returns the schema as it was before.
///
/// # Errors
/// `invalid` for another program's schema or a newer one; `key_missing` when the store is written with other keys;
/// `store_unavailable`, also for an unfinished copy.
pub fn migrate_up(options: &Options) -> Result<Schema, Failure> {
    let mut options = options.clone();
    options.make = true;
    let run = |driver: &Driver, client: &Client| {
        let schema = driver.wait(read_schema(client))?;
        if schema.version > 0 {
            driver.wait(migrate::refuse_unfinished(client))?;
        }
        driver.wait(migrate::migrate(client, &options))?;
        Ok(schema)
    };
    with_client(&options, run)
}

/// Whether there is a store that belongs to a keyring. If an administrator created the store by running the migrations'
/// SQL, the store belongs to no keyring until a filrouge server opens it or `filrouge migrate up` runs.
///
/// # Errors
/// As for [`schema`].
pub fn has_keys(options: &Options) -> Result<bool, Failure> {
    with_client(options, |driver, client| {
        driver.wait(migrate::has_keys(client))
    })
}

/// The store's id, which is the same for every URL that leads to the store; `None` if there is no store.
///
/// # Errors
/// As for [`schema`].
pub fn store_id(options: &Options) -> Result<Option<String>, Failure> {
    with_client(options, |driver, client| {
        driver.wait(migrate::store_id(client))
    })
}

async fn read_schema(client: &Client) -> Result<Schema, Failure> {
    let version = migrate::version(client).await?;
    Ok(Schema::new(version as u64, MIGRATIONS))
}

/// Runs `work` over a new connection. Uses a new thread, because the caller may be on a thread of an async runtime,
/// which must not block.
pub(crate) fn with_client<T: Send>(
    options: &Options,
    work: impl FnOnce(&Driver, &Client) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let driver = Driver::on_current_thread()?;
            let connector = Connector::new(options.server.clone(), options.lock_timeout);
            let connection = driver.wait(connector.connect(&[]))?;
            work(&driver, connection.session.client())
        });
        thread.join()
    });
    let panicked = |_| Failure::new(ErrorCode::Internal, "reading the schema panicked");
    result.map_err(panicked)?
}

//! What is known of a store's schema, and bringing it up to date, apart from any ledger.

use filrouge_store::schema::Schema;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;

use crate::connect::Connector;
use crate::migrate::{self, MIGRATIONS};
use crate::options::Options;
use crate::session::Driver;

/// The schema of the store, which is left as it is.
///
/// # Errors
/// `invalid` for another program's schema or a newer one; `store_unavailable`.
pub fn schema(options: &Options) -> Result<Schema, Failure> {
    apart(options, |driver, client| driver.wait(found(client)))
}

/// Brings the schema up to date, making an empty store where there is none. Gives the schema that was there.
///
/// # Errors
/// `invalid` for another program's schema or a newer one; `key_missing` when the store is written with other keys;
/// `store_unavailable`, also for an unfinished copy.
pub fn migrate_up(options: &Options) -> Result<Schema, Failure> {
    let mut options = options.clone();
    options.make = true;
    let up = |driver: &Driver, client: &Client| {
        let before = driver.wait(found(client))?;
        if before.version > 0 {
            driver.wait(migrate::refuse_unfinished(client))?;
        }
        driver.wait(migrate::migrate(client, &options))?;
        Ok(before)
    };
    apart(&options, up)
}

/// Whether a store is there that belongs to a keyring. One that was made by running the statements of its migrations
/// belongs to none until somebody opens it, or brings it up to date.
///
/// # Errors
/// As for [`schema`].
pub fn has_keys(options: &Options) -> Result<bool, Failure> {
    apart(options, |driver, client| {
        driver.wait(migrate::has_keys(client))
    })
}

/// The name of the store that is there, whichever URL leads to it.
///
/// # Errors
/// As for [`schema`].
pub fn store_id(options: &Options) -> Result<Option<String>, Failure> {
    apart(options, |driver, client| {
        driver.wait(migrate::store_id(client))
    })
}

async fn found(client: &Client) -> Result<Schema, Failure> {
    let version = migrate::version(client).await?;
    Ok(Schema::of(version as u64, MIGRATIONS))
}

/// Works over a connection of its own on a thread of its own: whoever asks may be within a runtime.
fn apart<T: Send>(
    options: &Options,
    work: impl FnOnce(&Driver, &Client) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let done = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let driver = Driver::own()?;
            let connector = Connector::new(options.server.clone(), options.lock_timeout);
            let linked = driver.wait(connector.connect(&[]))?;
            work(&driver, linked.session.client())
        });
        work.join()
    });
    let failed = |_| {
        Failure::new(
            ErrorCode::Internal,
            "a look at the schema failed within the program",
        )
    };
    done.map_err(failed)?
}

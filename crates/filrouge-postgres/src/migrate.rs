//! Schema migrations: all of them in one transaction under a lock, so that of several servers that start at once one
//! does them, and a kill leaves the old schema or the new.

use filrouge_store::copy::unfinished;
use filrouge_store::record::Check;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{failure, failure_unless_allowed, unavailable};
use crate::options::Options;

mod keys;

/// One file each; never edited once released. Each sets the row `schema` of the table `store` to its number.
pub(crate) const MIGRATIONS: &[(&str, &str)] = &[
    ("journal", include_str!("migrations/0001_journal.sql")),
    ("leases", include_str!("migrations/0002_leases.sql")),
    ("search", include_str!("migrations/0003_search.sql")),
];

/// The schema this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// The advisory lock of migrations; "filrouge" in ASCII.
const LOCK: i64 = 0x6669_6c72_6f75_6765;

/// What the table `store` says.
struct Identity {
    store_id: String,
    version: usize,
}

/// The schema of another program, or one of filrouge's that was changed by hand.
fn foreign() -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        "the schema filrouge of this database is another program's",
    )
    .with_hint("choose another database for the store")
}

/// What stands in the database.
enum Found {
    /// Nothing of filrouge's; whether there is a schema for it, empty.
    Nothing { schema: bool },
    /// A store.
    Store(Identity),
}

async fn identity(client: &Client) -> Result<Found, Failure> {
    let there = client
        .query_typed_one(
            "SELECT to_regnamespace('filrouge') IS NOT NULL,
                    has_schema_privilege(to_regnamespace('filrouge')::oid, 'USAGE') IS FALSE,
                    EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('filrouge')::oid),
                    EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('filrouge')
                            AND relname = 'store')",
            &[],
        )
        .await
        .map_err(|e| failure(&e))?;
    match (there.get(2), there.get(3)) {
        (false, _) => {
            return Ok(Found::Nothing {
                schema: there.get(0),
            });
        }
        (true, false) => return Err(foreign()),
        (true, true) if there.get(1) => return Err(no_usage()),
        (true, true) => {}
    }
    let sql = "SELECT name::text, value::text FROM filrouge.store WHERE name::text IN ('schema', 'store_id')";
    let rows = client.query_typed(sql, &[]).await.map_err(|e| {
        // Columns of other names or types.
        match failure(&e) {
            failure if failure.code == ErrorCode::IntegrityError => foreign(),
            failure => failure,
        }
    })?;
    let value = |name: &str| -> Option<String> {
        rows.iter()
            .find(|row| row.get::<_, &str>(0) == name)?
            .get(1)
    };
    // The first schema is 1.
    let version = value("schema")
        .and_then(|v| v.parse().ok())
        .filter(|v| *v > 0);
    match (version, value("store_id")) {
        (Some(version), Some(store_id)) => Ok(Found::Store(Identity { store_id, version })),
        _ => Err(foreign()),
    }
}

pub(crate) fn newer(version: usize) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("the store has schema {version}, this filrouge knows {SCHEMA_VERSION}"),
    )
    .with_hint("use the newer filrouge that wrote it")
}

fn no_usage() -> Failure {
    unavailable("PostgreSQL 42501: permission denied for schema filrouge")
        .with_hint("GRANT USAGE ON SCHEMA filrouge, and the rights on its tables, to the role")
}

fn no_store() -> Failure {
    unavailable("there is no store in this database")
        .with_hint("name the database of the store in --store; `filrouge serve` makes a new one")
}

/// The version of the schema that is there; 0 where there is none.
pub(crate) async fn version(client: &Client) -> Result<usize, Failure> {
    Ok(known(client).await?.map_or(0, |store| store.version))
}

/// The name of the store that is there.
pub(crate) async fn store_id(client: &Client) -> Result<Option<String>, Failure> {
    Ok(known(client).await?.map(|store| store.store_id))
}

/// The store that is there, unless it is a newer filrouge's.
async fn known(client: &Client) -> Result<Option<Identity>, Failure> {
    match identity(client).await? {
        Found::Store(found) if found.version > SCHEMA_VERSION => Err(newer(found.version)),
        Found::Store(found) => Ok(Some(found)),
        Found::Nothing { .. } => Ok(None),
    }
}

/// Whether a store is there that belongs to a keyring: one that its migrations' statements have made, and that nobody
/// has opened yet, does not.
pub(crate) async fn has_keys(client: &Client) -> Result<bool, Failure> {
    if known(client).await?.is_none() {
        return Ok(false);
    }
    Ok(keys::are_noted(client).await? || is_written(client).await?)
}

/// Whether a store that is there holds anything.
pub(crate) async fn is_written(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT FROM filrouge.session) OR EXISTS (SELECT FROM filrouge.head)
         OR EXISTS (SELECT FROM filrouge.turn) OR EXISTS (SELECT FROM filrouge.record)
         OR EXISTS (SELECT FROM filrouge.commit_log) OR EXISTS (SELECT FROM filrouge.note)";
    let row = client.query_typed_one(sql, &[]).await;
    Ok(row.map_err(|e| failure(&e))?.get(0))
}

/// A row of the table `store`.
pub(crate) async fn stored(client: &Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT value FROM filrouge.store WHERE name = $1";
    let row = client.query_typed_opt(sql, &[(&name, Type::TEXT)]).await;
    Ok(row.map_err(|e| failure(&e))?.map(|row| row.get(0)))
}

/// Refuses a store that is a copy under way.
pub(crate) async fn refuse_unfinished(client: &Client) -> Result<(), Failure> {
    match stored(client, "copying").await? {
        Some(_) => Err(unfinished("the store in this database")),
        None => Ok(()),
    }
}

/// Brings the schema up to date, makes sure that the store is written with the keys of `options`, and gives its name.
///
/// # Errors
/// `invalid` when the schema is another program's or a newer filrouge's; `key_missing` when the store is written with
/// other keys; the store's failures.
pub(crate) async fn migrate(client: &Client, options: &Options) -> Result<String, Failure> {
    let store_id = match identity(client).await? {
        Found::Store(found) if found.version > SCHEMA_VERSION => return Err(newer(found.version)),
        Found::Store(found) if found.version == SCHEMA_VERSION => found.store_id,
        Found::Nothing { .. } if !options.make => return Err(no_store()),
        _ => alone(client, apply(client, options)).await?,
    };
    if options.check == Check::Keyed {
        keys::check(client, &options.keyring, &store_id).await?;
    }
    Ok(store_id)
}

async fn run(client: &Client, sql: &str) -> Result<(), Failure> {
    client.batch_execute(sql).await.map_err(|e| failure(&e))
}

/// Does `work` in one transaction, while nobody else migrates.
async fn alone<T>(
    client: &Client,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let begin = format!("BEGIN; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})");
    run(client, &begin).await?;
    match work.await {
        Ok(done) => {
            run(client, "COMMIT").await?;
            Ok(done)
        }
        Err(failure) => {
            run(client, "ROLLBACK").await?;
            Err(failure)
        }
    }
}

/// Does what is missing, and gives the store's name.
async fn apply(client: &Client, options: &Options) -> Result<String, Failure> {
    // Another server may have done it while the lock was waited for.
    let (done, right) = match identity(client).await? {
        Found::Store(found) if found.version > SCHEMA_VERSION => return Err(newer(found.version)),
        Found::Store(found) => (
            found.version,
            "run `filrouge migrate up` with the role that owns the schema filrouge",
        ),
        Found::Nothing { schema: true } => (
            0,
            "GRANT USAGE, CREATE ON SCHEMA filrouge to the role, or run `filrouge migrate up` with its owner",
        ),
        Found::Nothing { schema: false } => (
            0,
            "GRANT CREATE ON DATABASE to the role, or run `filrouge migrate up` with one that has it",
        ),
    };
    let sql: String = MIGRATIONS[done..].iter().map(|(_, sql)| *sql).collect();
    let ran = client.batch_execute(&sql).await;
    ran.map_err(|e| failure_unless_allowed(&e, right))?;
    let Found::Store(Identity { store_id, .. }) = identity(client).await? else {
        return Err(foreign());
    };
    if done == 0 {
        keys::write(client, &options.keyring, &store_id).await?;
    }
    Ok(store_id)
}

//! Schema migrations. All pending migrations run in one transaction under a lock. If several servers start at once, one
//! of them migrates. If its process is killed, the database has either the old schema or the new one.

use filrouge_store::Lanes;
use filrouge_store::copy::unfinished_copy;
use filrouge_store::record::MacCheck;
use filrouge_store::schema::format_1;
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{failure, failure_with_privilege_hint, unavailable};
use crate::options::Options;
use crate::rows::sql_lane;

mod distribute;
mod keys;
#[cfg(test)]
mod tests;

pub use distribute::distributed_sql;

/// A migration: its name, and its SQL statements.
type Migration = (&'static str, &'static str);

/// All migrations, in order. Each has its own file, which is never edited after a release, and sets the row `schema` of
/// the table `store` to its number, counted from 1.
pub(crate) const MIGRATIONS: &[Migration] =
    &[("ledger", include_str!("migrations/0001_ledger.sql"))];

/// The version of the schema that this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// The format of the store: the value of the row `format` of the table `store`. Stores of format 1 have no row
/// `format`.
const FORMAT: &str = "2";

/// The setting of the database session that determines the number of lanes of a new store. The first migration reads it.
pub const LANES_SETTING: &str = "filrouge.lanes";

/// The key of the advisory lock for migrations: "filrouge" in ASCII.
const MIGRATION_LOCK: i64 = 0x6669_6c72_6f75_6765;

/// The store's id, lanes and schema version, from the table `store`.
pub(crate) struct Identity {
    pub(crate) store_id: String,
    pub(crate) lanes: Lanes,
    /// Whether the tables are distributed with Citus.
    pub(crate) distributed: bool,
    version: usize,
}

/// The failure if the schema `filrouge` was created by another program, or changed by hand.
fn foreign_schema() -> Failure {
    ErrorCode::Invalid
        .failure("the schema filrouge of this database is another program's")
        .with_hint("choose another database for the store")
}

/// The contents of a database that concern filrouge.
enum Contents {
    /// No tables of filrouge. `schema`: whether an empty schema named `filrouge` exists.
    Nothing { schema: bool },
    /// A store.
    Store(Identity),
}

/// Determines whether the database contains a store.
///
/// # Errors
/// `invalid` for a store of format 1, or a schema that is not filrouge's.
async fn contents(client: &Client) -> Result<Contents, Failure> {
    let row = client
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
    match (row.get(2), row.get(3)) {
        (false, _) => {
            return Ok(Contents::Nothing { schema: row.get(0) });
        }
        (true, false) => return Err(foreign_schema()),
        (true, true) if row.get(1) => return Err(no_usage()),
        (true, true) => {}
    }
    let sql = "SELECT name::text, value::text FROM filrouge.store
         WHERE name::text IN ('schema', 'store_id', 'format', 'lanes', 'distribute')";
    let rows = client.query_typed(sql, &[]).await.map_err(|e| {
        // `IntegrityError` means here that the columns have other names or types.
        match failure(&e) {
            failure if failure.code == ErrorCode::IntegrityError => foreign_schema(),
            failure => failure,
        }
    })?;
    let value = |name: &str| -> Option<String> {
        rows.iter()
            .find(|row| row.get::<_, &str>(0) == name)?
            .get(1)
    };
    // Schema versions are counted from 1.
    let version = value("schema")
        .and_then(|v| v.parse().ok())
        .filter(|v| *v > 0);
    let lanes = value("lanes").and_then(|n| Lanes::new(n.parse().ok()?));
    match (version, value("store_id"), value("format"), lanes) {
        (Some(version), Some(store_id), Some(format), Some(lanes)) if format == FORMAT => {
            Ok(Contents::Store(Identity {
                store_id,
                lanes,
                distributed: value("distribute").is_some(),
                version,
            }))
        }
        (Some(_), Some(_), None, _) => Err(format_1()),
        _ => Err(foreign_schema()),
    }
}

/// The failure for a store whose schema is newer than `newest_known`, the newest that this program knows.
pub(crate) fn newer_schema_failure(version: usize, newest_known: usize) -> Failure {
    Failure::new(
        ErrorCode::Invalid,
        format!("the store has schema {version}, this filrouge knows {newest_known}"),
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

/// The store's schema version; 0 if there is no store.
pub(crate) async fn version(client: &Client) -> Result<usize, Failure> {
    Ok(identity(client).await?.map_or(0, |store| store.version))
}

/// The store's id; `None` if there is no store.
pub(crate) async fn store_id(client: &Client) -> Result<Option<String>, Failure> {
    Ok(identity(client).await?.map(|store| store.store_id))
}

/// The store's id and version; `None` if there is no store.
///
/// # Errors
/// `invalid` if the schema is newer than this program.
async fn identity(client: &Client) -> Result<Option<Identity>, Failure> {
    match contents(client).await? {
        Contents::Store(store) if store.version > SCHEMA_VERSION => {
            Err(newer_schema_failure(store.version, SCHEMA_VERSION))
        }
        Contents::Store(store) => Ok(Some(store)),
        Contents::Nothing { .. } => Ok(None),
    }
}

/// Whether there is a store that belongs to a keyring. If an administrator created the store by running the migrations'
/// SQL, the store belongs to no keyring until a filrouge server opens it.
pub(crate) async fn has_keys(client: &Client) -> Result<bool, Failure> {
    if identity(client).await?.is_none() {
        return Ok(false);
    }
    Ok(keys::are_recorded(client).await? || has_data(client).await?)
}

/// Whether there is a store that contains any data.
pub(crate) async fn has_data(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT FROM filrouge.session WHERE lane = $1)
         OR EXISTS (SELECT FROM filrouge.head WHERE lane = $1)
         OR EXISTS (SELECT FROM filrouge.turn WHERE lane = $1)
         OR EXISTS (SELECT FROM filrouge.record WHERE lane = $1)
         OR EXISTS (SELECT FROM filrouge.commit_log WHERE lane = $1)
         OR EXISTS (SELECT FROM filrouge.note WHERE lane = $1)";
    let Contents::Store(store) = contents(client).await? else {
        return Ok(false);
    };
    for lane in store.lanes.iter().map(sql_lane) {
        let row = client.query_typed_one(sql, &[(&lane, Type::INT2)]).await;
        if row.map_err(|e| failure(&e))?.get(0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The value of the row `name` of the table `store`; `None` if there is no such row.
pub(crate) async fn store_value(client: &Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT value FROM filrouge.store WHERE name = $1";
    let row = client.query_typed_opt(sql, &[(&name, Type::TEXT)]).await;
    Ok(row.map_err(|e| failure(&e))?.map(|row| row.get(0)))
}

/// Refuses a store that is the target of an unfinished copy.
pub(crate) async fn refuse_unfinished(client: &Client) -> Result<(), Failure> {
    match store_value(client, "copying").await? {
        Some(_) => Err(unfinished_copy("the store in this database")),
        None => Ok(()),
    }
}

/// Runs the pending migrations, verifies that the store is written with the keys of `options`, and returns the store's
/// identity.
///
/// # Errors
/// `invalid` when the schema is another program's or a newer filrouge's, or a store that should be distributed is not
/// or cannot be; `key_missing` when the store is written with other keys; the store's failures.
pub(crate) async fn migrate(client: &Client, options: &Options) -> Result<Identity, Failure> {
    migrate_with(client, options, MIGRATIONS).await
}

/// Like [`migrate`], but with the given migrations.
async fn migrate_with(
    client: &Client,
    options: &Options,
    migrations: &[Migration],
) -> Result<Identity, Failure> {
    let newest_known = migrations.len();
    let store = match contents(client).await? {
        Contents::Store(store) if store.version > newest_known => {
            return Err(newer_schema_failure(store.version, newest_known));
        }
        Contents::Store(store) if store.version == newest_known => store,
        Contents::Nothing { .. } if !options.make => return Err(no_store()),
        _ => in_locked_transaction(client, apply_migrations(client, options, migrations)).await?,
    };
    if options.make && options.distribute && !store.distributed {
        return Err(distribute::not_distributed());
    }
    if options.check == MacCheck::Keyed {
        keys::check(client, &options.keyring, &store.store_id).await?;
    }
    if options.make && options.lanes != store.lanes {
        tracing::warn!(
            "the store has {} lanes, and keeps them; the setting lanes ({}) applies only to new stores: to change the \
             number, copy the store (docs/copy.md)",
            store.lanes,
            options.lanes
        );
    }
    Ok(store)
}

async fn execute(client: &Client, sql: &str) -> Result<(), Failure> {
    client.batch_execute(sql).await.map_err(|e| failure(&e))
}

/// Runs `work` in one transaction, under the lock for migrations.
async fn in_locked_transaction<T>(
    client: &Client,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
    );
    execute(client, &begin).await?;
    match work.await {
        Ok(value) => {
            execute(client, "COMMIT").await?;
            Ok(value)
        }
        Err(failure) => {
            execute(client, "ROLLBACK").await?;
            Err(failure)
        }
    }
}

/// Runs the pending ones of `migrations`, and returns the store's identity. A new store gets the keys and the number of
/// lanes of `options`. The caller has begun a transaction under the lock for migrations.
async fn apply_migrations(
    client: &Client,
    options: &Options,
    migrations: &[Migration],
) -> Result<Identity, Failure> {
    let newest_known = migrations.len();
    // Another server may have migrated while this one waited for the lock.
    let (applied, mut privilege_hint) = match contents(client).await? {
        Contents::Store(store) if store.version > newest_known => {
            return Err(newer_schema_failure(store.version, newest_known));
        }
        Contents::Store(store) => (
            store.version,
            "run `filrouge migrate up` with the role that owns the schema filrouge",
        ),
        Contents::Nothing { schema: true } => (
            0,
            "GRANT USAGE, CREATE ON SCHEMA filrouge to the role, or run `filrouge migrate up` with its owner",
        ),
        Contents::Nothing { schema: false } => (
            0,
            "GRANT CREATE ON DATABASE to the role, or run `filrouge migrate up` with one that has it",
        ),
    };
    let mut pending: String = migrations[applied..].iter().map(|(_, sql)| *sql).collect();
    if applied == 0 && options.distribute {
        distribute::check_citus(client).await?;
        privilege_hint = distribute::PRIVILEGE_HINT;
        pending = distributed_sql(&pending);
    }
    let sql = format!("SET LOCAL {LANES_SETTING} = {}; {pending}", options.lanes);
    let result = client.batch_execute(&sql).await;
    result.map_err(|e| failure_with_privilege_hint(&e, privilege_hint))?;
    let Contents::Store(store) = contents(client).await? else {
        return Err(foreign_schema());
    };
    if applied == 0 {
        keys::write(client, &options.keyring, &store.store_id).await?;
    }
    Ok(store)
}

//! Schema migrations. All missing ones run in one transaction, which also writes the new version number. So if the
//! process is killed, the store has either the old schema or the new one.

use std::path::Path;
use std::time::Duration;

use filrouge_store::random_id;
use filrouge_store::schema::{Schema, format_1};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, TransactionBehavior};

use crate::copy_target::refuse_unfinished;
use crate::error::failure;
use crate::open::{self, Options};

/// The name and the statements of a migration.
type Migration = (&'static str, &'static str);

/// The migrations, one file each; the statements of a released one never change.
const MIGRATIONS: &[Migration] = &[("ledger", include_str!("migrations/0001_ledger.sql"))];

/// The schema version that this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// The `application_id` that marks a file as a store of format 2: "fil2" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c32;

/// The `application_id` of a store of format 1.
const FORMAT_1_ID: i64 = 0x6669_6c31;

fn pragma(conn: &Connection, name: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, name, |row| row.get(0))
        .map_err(failure)
}

/// The identity of a file.
pub(crate) struct FileIdentity {
    /// The version of its schema; 0 for an empty file.
    pub(crate) version: u64,
    /// Whether the file belongs to filrouge; an empty file belongs to no program.
    pub(crate) is_filrouge: bool,
}

/// Reads a file's identity.
///
/// # Errors
/// `invalid` when it belongs to another program, to a newer filrouge, or has format 1; the store's failures.
pub(crate) fn identify(conn: &Connection) -> Result<FileIdentity, Failure> {
    identify_with(conn, MIGRATIONS)
}

fn identify_with(conn: &Connection, migrations: &[Migration]) -> Result<FileIdentity, Failure> {
    if conn.is_autocommit() {
        // Another process may be creating the store: this transaction sees both its tables and its mark, or neither.
        let tx = conn.unchecked_transaction().map_err(failure)?;
        return identify_with(&tx, migrations);
    }
    let mark = pragma(conn, "application_id")?;
    if mark == FORMAT_1_ID {
        return Err(format_1());
    }
    let is_filrouge = mark == APPLICATION_ID;
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    if tables > 0 && !is_filrouge {
        let detail = "the file is a database of another program";
        return Err(
            Failure::new(ErrorCode::Invalid, detail).with_hint("choose another path for the store")
        );
    }
    let version = u64::try_from(pragma(conn, "user_version")?).unwrap_or(u64::MAX);
    let newest_known = migrations.len();
    if version > newest_known as u64 {
        let detail = format!("the store has schema {version}, this filrouge knows {newest_known}");
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("use the newer filrouge that wrote it"));
    }
    Ok(FileIdentity {
        version,
        is_filrouge,
    })
}

/// Refuses a store whose schema is older than this program's, without changing it.
pub(crate) fn refuse_older(conn: &Connection) -> Result<(), Failure> {
    let file = identify(conn)?;
    if !file.is_filrouge {
        return Err(ErrorCode::Invalid.failure("the file is empty, there is no store in it"));
    }
    if file.version < SCHEMA_VERSION as u64 {
        let detail = format!(
            "the store has schema {}, and {SCHEMA_VERSION} is needed",
            file.version
        );
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("`filrouge migrate up` brings it up to date"));
    }
    Ok(())
}

/// Reads the version of the schema of the store at `path`, without changing the store.
///
/// # Errors
/// `store_unavailable` when there is no file; `invalid` for another program's file or a newer schema.
pub fn schema(path: &Path, busy_timeout: Duration) -> Result<Schema, Failure> {
    let conn = open::passive_reader(path, busy_timeout)?;
    Ok(Schema::new(identify(&conn)?.version, MIGRATIONS))
}

/// Reads the id of the store at `path`, without changing the store; `None` if the file is empty.
///
/// # Errors
/// As for [`schema`].
pub fn stored_id(path: &Path, busy_timeout: Duration) -> Result<Option<String>, Failure> {
    let conn = open::passive_reader(path, busy_timeout)?;
    match identify(&conn)?.version {
        0 => Ok(None),
        _ => store_id(&conn).map(Some),
    }
}

/// Migrates the store to the newest schema; an empty file becomes an empty store. Returns the schema from which it was
/// migrated.
///
/// # Errors
/// `invalid` for another program's file or a newer schema; `store_unavailable`, also for an unfinished copy.
pub fn migrate_up(options: &Options) -> Result<Schema, Failure> {
    open::check_version()?;
    let before = schema(&options.path, options.busy_timeout)?;
    let mut conn = open::writer(&options.path, options.busy_timeout)?;
    if before.version > 0 {
        refuse_unfinished(&conn, &options.path)?;
    }
    migrate(&mut conn, || random_id(options.entropy.as_ref()))?;
    open::sync_directory(&options.path)?;
    Ok(before)
}

/// Migrates a store to the newest schema. An empty file becomes a store, with the id that `store_id` returns.
///
/// # Errors
/// As for [`identify`].
pub(crate) fn migrate(
    conn: &mut Connection,
    store_id: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    run_migrations(conn, MIGRATIONS, store_id)
}

fn run_migrations(
    conn: &mut Connection,
    migrations: &[Migration],
    store_id: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let FileIdentity {
        version,
        is_filrouge,
    } = identify_with(conn, migrations)?;
    if version == migrations.len() as u64 && is_filrouge {
        return Ok(());
    }
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let FileIdentity {
        version,
        is_filrouge,
    } = identify_with(&tx, migrations)?;
    let first_missing = usize::try_from(version).unwrap_or(0);
    for (_, sql) in &migrations[first_missing..] {
        tx.execute_batch(sql).map_err(failure)?;
    }
    if !is_filrouge {
        tx.pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(failure)?;
        tx.execute(
            "INSERT INTO store (name, value) VALUES ('store_id', ?1)",
            [store_id()?],
        )
        .map_err(failure)?;
    }
    tx.pragma_update(None, "user_version", migrations.len() as i64)
        .map_err(failure)?;
    tx.commit().map_err(failure)
}

/// The store's id.
pub(crate) fn store_id(conn: &Connection) -> Result<String, Failure> {
    conn.query_row(
        "SELECT value FROM store WHERE name = 'store_id'",
        [],
        |row| row.get(0),
    )
    .map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD_COLUMN: Migration = (
        "made up",
        "ALTER TABLE note ADD COLUMN size INTEGER; UPDATE note SET size = length(data);",
    );

    fn id() -> Result<String, Failure> {
        Ok("a store".to_owned())
    }

    /// A store of the first schema with a note, and a connection to it.
    fn store() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        run_migrations(&mut conn, MIGRATIONS, id).unwrap();
        let note = "INSERT INTO note (name, data) VALUES ('n', x'0102')";
        conn.execute_batch(note).unwrap();
        conn
    }

    fn with_migration(migration: Migration) -> Vec<Migration> {
        [MIGRATIONS, &[migration]].concat()
    }

    #[test]
    fn a_later_migration_is_applied_once_and_keeps_the_rows() {
        let mut conn = store();
        let migrations = with_migration(ADD_COLUMN);
        let no_new_id = || -> Result<String, Failure> { panic!("the store has an id") };
        run_migrations(&mut conn, &migrations, no_new_id).unwrap();
        run_migrations(&mut conn, &migrations, no_new_id).unwrap();
        let identity = identify_with(&conn, &migrations).unwrap();
        assert_eq!(
            (identity.version, identity.is_filrouge),
            (migrations.len() as u64, true)
        );
        let sql = "SELECT size FROM note WHERE name = 'n'";
        let size: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!((size, store_id(&conn).unwrap()), (2, id().unwrap()));
        // The program without the migration refuses the store.
        assert_eq!(identify(&conn).err().unwrap().code, ErrorCode::Invalid);
    }

    #[test]
    fn a_failing_migration_changes_nothing() {
        let mut conn = store();
        let migrations = with_migration((
            "broken",
            "ALTER TABLE note ADD COLUMN size; UPDATE absent SET x = 1;",
        ));
        run_migrations(&mut conn, &migrations, id).unwrap_err();
        assert_eq!(identify(&conn).unwrap().version, SCHEMA_VERSION as u64);
        conn.execute_batch("SELECT size FROM note").unwrap_err();
    }

    #[test]
    fn an_empty_file_gets_all_migrations() {
        let mut conn = Connection::open_in_memory().unwrap();
        let migrations = with_migration(ADD_COLUMN);
        run_migrations(&mut conn, &migrations, id).unwrap();
        conn.execute_batch("SELECT size FROM note").unwrap();
        assert_eq!(
            identify_with(&conn, &migrations).unwrap().version,
            migrations.len() as u64
        );
    }

    #[test]
    fn a_store_of_format_1_is_refused_unchanged() {
        let mut conn = store();
        conn.pragma_update(None, "application_id", FORMAT_1_ID)
            .unwrap();
        let refused = run_migrations(&mut conn, MIGRATIONS, id).unwrap_err();
        assert!(refused.detail.contains("format 1"), "{refused:?}");
        assert_eq!(pragma(&conn, "application_id").unwrap(), FORMAT_1_ID);
    }
}

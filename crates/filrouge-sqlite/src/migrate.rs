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
type Step = (&'static str, &'static str);

/// The migrations, one file each; the statements of a released one never change.
const MIGRATIONS: &[Step] = &[("ledger", include_str!("migrations/0001_ledger.sql"))];

/// The schema version that this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// The `application_id` that marks a file as a store of format 2: "fil2" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c32;

/// The `application_id` of a store of format 1.
const FORMAT_1: i64 = 0x6669_6c31;

fn pragma(conn: &Connection, name: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, name, |row| row.get(0))
        .map_err(failure)
}

/// The identity of a file.
pub(crate) struct FileIdentity {
    /// The version of its schema; 0 for an empty file.
    pub(crate) version: u64,
    /// Whether the file belongs to filrouge; an empty file belongs to no program.
    pub(crate) ours: bool,
}

/// Reads a file's identity.
///
/// # Errors
/// `invalid` when it belongs to another program, to a newer filrouge, or has format 1; the store's failures.
pub(crate) fn identify(conn: &Connection) -> Result<FileIdentity, Failure> {
    identify_of(conn, MIGRATIONS)
}

fn identify_of(conn: &Connection, steps: &[Step]) -> Result<FileIdentity, Failure> {
    if conn.is_autocommit() {
        // Another process may be creating the store: this transaction sees both its tables and its mark, or neither.
        let tx = conn.unchecked_transaction().map_err(failure)?;
        return identify_of(&tx, steps);
    }
    let mark = pragma(conn, "application_id")?;
    if mark == FORMAT_1 {
        return Err(format_1());
    }
    let ours = mark == APPLICATION_ID;
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    if tables > 0 && !ours {
        let what = "the file is a database of another program";
        return Err(
            Failure::new(ErrorCode::Invalid, what).with_hint("choose another path for the store")
        );
    }
    let version = u64::try_from(pragma(conn, "user_version")?).unwrap_or(u64::MAX);
    let known = steps.len();
    if version > known as u64 {
        let what = format!("the store has schema {version}, this filrouge knows {known}");
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("use the newer filrouge that wrote it"));
    }
    Ok(FileIdentity { version, ours })
}

/// Refuses a store whose schema is older than this program's, without changing it.
pub(crate) fn refuse_older(conn: &Connection) -> Result<(), Failure> {
    let file = identify(conn)?;
    if !file.ours {
        return Err(Failure::new(
            ErrorCode::Invalid,
            "the file is empty, there is no store in it",
        ));
    }
    if file.version < SCHEMA_VERSION as u64 {
        let what = format!(
            "the store has schema {}, and {SCHEMA_VERSION} is needed",
            file.version
        );
        return Err(Failure::new(ErrorCode::Invalid, what)
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
    Ok(Schema::of(identify(&conn)?.version, MIGRATIONS))
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
    run(conn, MIGRATIONS, store_id)
}

fn run(
    conn: &mut Connection,
    steps: &[Step],
    store_id: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let FileIdentity { version, ours } = identify_of(conn, steps)?;
    if version == steps.len() as u64 && ours {
        return Ok(());
    }
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let FileIdentity { version, ours } = identify_of(&tx, steps)?;
    let done = usize::try_from(version).unwrap_or(0);
    for (_, sql) in &steps[done..] {
        tx.execute_batch(sql).map_err(failure)?;
    }
    if !ours {
        tx.pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(failure)?;
        tx.execute(
            "INSERT INTO store (name, value) VALUES ('store_id', ?1)",
            [store_id()?],
        )
        .map_err(failure)?;
    }
    tx.pragma_update(None, "user_version", steps.len() as i64)
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

    const ADDED: Step = (
        "made up",
        "ALTER TABLE note ADD COLUMN size INTEGER; UPDATE note SET size = length(data);",
    );

    fn id() -> Result<String, Failure> {
        Ok("a store".to_owned())
    }

    /// A store of the first schema with a note, and a connection to it.
    fn store() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, MIGRATIONS, id).unwrap();
        let note = "INSERT INTO note (name, data) VALUES ('n', x'0102')";
        conn.execute_batch(note).unwrap();
        conn
    }

    fn with(step: Step) -> Vec<Step> {
        [MIGRATIONS, &[step]].concat()
    }

    #[test]
    fn a_later_step_is_applied_once_and_keeps_the_rows() {
        let mut conn = store();
        let steps = with(ADDED);
        let keep = || -> Result<String, Failure> { panic!("the store has an id") };
        run(&mut conn, &steps, keep).unwrap();
        run(&mut conn, &steps, keep).unwrap();
        let found = identify_of(&conn, &steps).unwrap();
        assert_eq!((found.version, found.ours), (steps.len() as u64, true));
        let sql = "SELECT size FROM note WHERE name = 'n'";
        let size: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!((size, store_id(&conn).unwrap()), (2, id().unwrap()));
        // The program without the step refuses the store.
        assert_eq!(identify(&conn).err().unwrap().code, ErrorCode::Invalid);
    }

    #[test]
    fn a_failing_step_changes_nothing() {
        let mut conn = store();
        let steps = with((
            "broken",
            "ALTER TABLE note ADD COLUMN size; UPDATE absent SET x = 1;",
        ));
        run(&mut conn, &steps, id).unwrap_err();
        assert_eq!(identify(&conn).unwrap().version, SCHEMA_VERSION as u64);
        conn.execute_batch("SELECT size FROM note").unwrap_err();
    }

    #[test]
    fn an_empty_file_gets_all_steps() {
        let mut conn = Connection::open_in_memory().unwrap();
        let steps = with(ADDED);
        run(&mut conn, &steps, id).unwrap();
        conn.execute_batch("SELECT size FROM note").unwrap();
        assert_eq!(
            identify_of(&conn, &steps).unwrap().version,
            steps.len() as u64
        );
    }

    #[test]
    fn a_store_of_format_1_is_refused_unchanged() {
        let mut conn = store();
        conn.pragma_update(None, "application_id", FORMAT_1)
            .unwrap();
        let refused = run(&mut conn, MIGRATIONS, id).unwrap_err();
        assert!(refused.detail.contains("format 1"), "{refused:?}");
        assert_eq!(pragma(&conn, "application_id").unwrap(), FORMAT_1);
    }
}

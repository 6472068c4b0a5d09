//! Schema migrations: each in one transaction with its version, so that a kill leaves the old or the new.

use std::path::Path;
use std::time::Duration;

use filrouge_store::Keyring;
use filrouge_store::random_id;
use filrouge_store::read::agents;
use filrouge_store::rows::{Tx, View};
use filrouge_store::schema::Schema;
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::failure;
use crate::intake::refuse_unfinished;
use crate::open::{self, Options};
use crate::rows::Rows;

/// One file each; never edited once released.
const MIGRATIONS: &[(&str, &str)] = &[
    ("journal", include_str!("migrations/0001_journal.sql")),
    ("redaction", include_str!("migrations/0002_redaction.sql")),
    ("sessions", include_str!("migrations/0003_sessions.sql")),
    ("drafts", include_str!("migrations/0004_drafts.sql")),
    ("leases", include_str!("migrations/0005_leases.sql")),
];

/// The first schema whose writers erase what they delete.
const ERASING: u64 = 2;

/// The first schema that knows which agents have spoken in a session.
const AGENTS: u64 = 3;

/// The first schema that finds events by when they happened.
const DATED: u64 = 5;

/// The schema this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// Marks the file as filrouge's: "fil1" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c31;

fn pragma(conn: &Connection, name: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, name, |row| row.get(0))
        .map_err(failure)
}

/// What a file is.
pub(crate) struct Found {
    /// The version of its schema.
    pub(crate) version: u64,
    /// Whether it is filrouge's; an empty one is nobody's.
    pub(crate) ours: bool,
}

/// Looks what a file is.
///
/// # Errors
/// `invalid` when it belongs to another program or to a newer filrouge; the store's failures.
pub(crate) fn find(conn: &Connection) -> Result<Found, Failure> {
    if conn.is_autocommit() {
        // Another process may be making the store: its tables are seen with its mark, or not at all.
        let tx = conn.unchecked_transaction().map_err(failure)?;
        return find(&tx);
    }
    let ours = pragma(conn, "application_id")? == APPLICATION_ID;
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    if tables > 0 && !ours {
        let what = "the file is a database of another program";
        return Err(
            Failure::new(ErrorCode::Invalid, what).with_hint("choose another path for the store")
        );
    }
    let version = u64::try_from(pragma(conn, "user_version")?).unwrap_or(u64::MAX);
    if version > SCHEMA_VERSION as u64 {
        let what = format!("the store has schema {version}, this filrouge knows {SCHEMA_VERSION}");
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("use the newer filrouge that wrote it"));
    }
    Ok(Found { version, ours })
}

/// Refuses a store whose schema is not the one of this program, without changing it.
pub(crate) fn refuse_older(conn: &Connection) -> Result<(), Failure> {
    let found = find(conn)?;
    if !found.ours {
        return Err(Failure::new(
            ErrorCode::Invalid,
            "the file is empty, there is no store in it",
        ));
    }
    if found.version < SCHEMA_VERSION as u64 {
        let what = format!(
            "the store has schema {}, and {SCHEMA_VERSION} is needed",
            found.version
        );
        return Err(Failure::new(ErrorCode::Invalid, what)
            .with_hint("`filrouge migrate up` brings it up to date"));
    }
    Ok(())
}

/// The schema of the store at `path`, which is left as it is.
///
/// # Errors
/// `store_unavailable` when there is no file; `invalid` for another program's file or a newer schema.
pub fn schema(path: &Path, busy_timeout: Duration) -> Result<Schema, Failure> {
    let conn = open::onlooker(path, busy_timeout)?;
    Ok(Schema::of(find(&conn)?.version, MIGRATIONS))
}

/// Brings the store up to date; an empty file becomes an empty store. Gives the schema that it had.
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
    migrate(&mut conn, &options.keyring, || {
        random_id(options.entropy.as_ref())
    })?;
    open::sync_directory(&options.path)?;
    Ok(before)
}

/// Brings the schema up to date.
///
/// # Errors
/// `invalid` when the file belongs to another program or to a newer filrouge; the store's failures.
pub(crate) fn migrate(
    conn: &mut Connection,
    keyring: &Keyring,
    store_id: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let Found { version, ours } = find(conn)?;
    if version == SCHEMA_VERSION as u64 && ours {
        return Ok(());
    }
    if ours && (1..ERASING).contains(&version) {
        clean_free_space(conn)?;
    }
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let Found { version, ours } = find(&tx)?;
    let done = usize::try_from(version).unwrap_or(0);
    for (_, sql) in &MIGRATIONS[done..] {
        tx.execute_batch(sql).map_err(failure)?;
    }
    if (1..AGENTS).contains(&version) {
        derive_agents(&mut Rows(&tx), keyring)?;
    }
    if (1..DATED).contains(&version) {
        Rows(&tx).date_events()?;
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
    tx.pragma_update(None, "user_version", SCHEMA_VERSION as i64)
        .map_err(failure)?;
    tx.commit().map_err(failure)
}

/// Writers before [`ERASING`] left old copies of rows in the free space of pages, where a redaction does not reach:
/// the file is written anew, once.
fn clean_free_space(conn: &Connection) -> Result<(), Failure> {
    conn.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
        .map_err(failure)
}

/// Notes who has spoken in the sessions that are there already.
fn derive_agents(rows: &mut Rows<'_>, keyring: &Keyring) -> Result<(), Failure> {
    for pk in rows.session_pks()? {
        let found = match rows.session_by_pk(pk) {
            Ok(Some(session)) => agents(rows, keyring, &session),
            Ok(None) => continue,
            Err(failure) => Err(failure),
        };
        match found {
            Ok(found) => {
                for agent in found {
                    rows.note_agent(pk, &agent)?;
                }
            }
            Err(failure) if failure.code == ErrorCode::IntegrityError => {
                tracing::warn!(%failure, "a session's agents cannot be read; `verify` tells why");
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The store's own name.
pub(crate) fn store_id(conn: &Connection) -> Result<String, Failure> {
    conn.query_row(
        "SELECT value FROM store WHERE name = 'store_id'",
        [],
        |row| row.get(0),
    )
    .map_err(failure)
}

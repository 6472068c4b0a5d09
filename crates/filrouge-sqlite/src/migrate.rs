//! Schema migrations: each in one transaction with its version, so that a kill leaves the old or the new.

use filrouge_store::Keyring;
use filrouge_store::read::agents;
use filrouge_store::rows::{Tx, View};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::failure;
use crate::rows::Rows;

/// One file each; never edited once released.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_journal.sql"),
    include_str!("migrations/0002_redaction.sql"),
    include_str!("migrations/0003_sessions.sql"),
    include_str!("migrations/0004_drafts.sql"),
];

/// The first schema whose writers erase what they delete.
const ERASING: i64 = 2;

/// The first schema that knows which agents have spoken in a session.
const AGENTS: i64 = 3;

/// The schema this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// Marks the file as filrouge's: "fil1" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c31;

fn pragma(conn: &Connection, name: &str) -> Result<i64, Failure> {
    conn.pragma_query_value(None, name, |row| row.get(0))
        .map_err(failure)
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
    let newer = |version: i64| {
        Failure::new(
            ErrorCode::Invalid,
            format!("the store has schema {version}, this filrouge knows {SCHEMA_VERSION}"),
        )
        .with_hint("use the newer filrouge that wrote it")
    };
    let known = i64::try_from(SCHEMA_VERSION).unwrap_or(i64::MAX);
    let version = pragma(conn, "user_version")?;
    if version > known {
        return Err(newer(version));
    }
    if version == known && pragma(conn, "application_id")? == APPLICATION_ID {
        return Ok(());
    }
    if (1..ERASING).contains(&version) {
        clean_free_space(conn)?;
    }
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let version = pragma(&tx, "user_version")?;
    let tables: i64 = tx
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failure)?;
    let ours = pragma(&tx, "application_id")? == APPLICATION_ID;
    if tables > 0 && !ours {
        return Err(Failure::new(
            ErrorCode::Invalid,
            "the file is a database of another program",
        )
        .with_hint("choose another path for the store"));
    }
    if version > known {
        return Err(newer(version));
    }
    let done = usize::try_from(version).unwrap_or(0);
    for sql in &MIGRATIONS[done..] {
        tx.execute_batch(sql).map_err(failure)?;
    }
    if (1..AGENTS).contains(&version) {
        derive_agents(&mut Rows(&tx), keyring)?;
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
    tx.pragma_update(None, "user_version", known)
        .map_err(failure)?;
    tx.commit().map_err(failure)
}

/// Writers before [`ERASING`] left old copies of rows in the free space of pages, where a redaction does not reach:
/// the file is written anew, once.
fn clean_free_space(conn: &Connection) -> Result<(), Failure> {
    if pragma(conn, "application_id")? != APPLICATION_ID {
        return Ok(());
    }
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

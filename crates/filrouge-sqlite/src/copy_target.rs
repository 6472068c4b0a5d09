//! A SQLite file as the target of a copy of a store.
//!
//! The row `copying` of the table `store` marks an unfinished copy and contains the name of its source. The row
//! `copier` names the run (one process's attempt) that may continue the copy. The transaction that finishes the copy
//! deletes both rows.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use filrouge_store::copy::{
    self, CopyTarget, CopyWrites, TargetContents, overtaken_run, unfinished_copy,
};
use filrouge_store::{Lane, Lanes, View, random_id};
use filrouge_types::{ErrorCode, Failure, Result};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::erasure::{self, Erasure};
use crate::error::failure;
use crate::migrate;
use crate::open::{self, Options};
use crate::rows::Rows;
use crate::store_state::in_snapshot;

/// A file into which a store is copied. [`CopyTarget::begin`] creates the file; nothing else does.
pub struct SqliteCopyTarget {
    options: Options,
    running: Option<RunningCopy>,
}

struct RunningCopy {
    conn: Connection,
    /// This run's name.
    run: String,
    /// The file's device and inode.
    file_id: (u64, u64),
}

impl SqliteCopyTarget {
    /// Creates a target. Uses only the path, the source of randomness, the clock and the busy timeout of `options`.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            running: None,
        }
    }

    /// Returns the copy that [`CopyTarget::begin`] began.
    fn running(&mut self) -> Result<&mut RunningCopy> {
        let not_begun = || Failure::new(ErrorCode::Internal, "the copy was not begun");
        self.running.as_mut().ok_or_else(not_begun)
    }
}

/// Reads a value from the table `store`.
fn store_value(conn: &Connection, name: &str) -> Result<Option<String>> {
    let sql = "SELECT value FROM store WHERE name = ?1";
    let value = conn.query_row(sql, [name], |row| row.get(0));
    value.optional().map_err(failure)
}

/// Writes a value into the table `store`.
fn put_store_value(conn: &Connection, name: &str, value: &str) -> Result<()> {
    let sql =
        "INSERT INTO store (name, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    conn.execute(sql, [name, value]).map_err(failure)?;
    Ok(())
}

/// Refuses a store whose copy has not finished.
pub(crate) fn refuse_unfinished(conn: &Connection, path: &Path) -> Result<()> {
    match store_value(conn, "copying")? {
        Some(_) => Err(unfinished_copy(&path.display().to_string())),
        None => Ok(()),
    }
}

/// Examines a file: whether it contains a store, an unfinished copy, or nothing. Fails if the file belongs to another
/// program.
fn contents(conn: &Connection) -> Result<TargetContents> {
    let file = migrate::identify(conn)?;
    if !file.is_filrouge {
        return Ok(TargetContents::Nothing);
    }
    if let Some(source) = store_value(conn, "copying")? {
        return Ok(TargetContents::Copy { source });
    }
    for table in ["session", "head", "turn", "record", "commit_log", "note"] {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        if conn
            .query_row(&sql, [], |row| row.get(0))
            .map_err(failure)?
        {
            return Ok(TargetContents::Store);
        }
    }
    Ok(TargetContents::Nothing)
}

/// Returns the device and inode of the file at `path`.
fn file_id(path: &Path) -> Result<(u64, u64)> {
    let metadata = fs::metadata(path)
        .map_err(|e| ErrorCode::StoreUnavailable.failure(format!("{}: {e}", path.display())))?;
    Ok((metadata.dev(), metadata.ino()))
}

impl RunningCopy {
    /// Begins a transaction of this run; fails if another run has taken over the copy in the meantime.
    fn transaction(&mut self) -> Result<Transaction<'_>> {
        let behavior = TransactionBehavior::Immediate;
        let tx = self.conn.transaction_with_behavior(behavior);
        let tx = tx.map_err(failure)?;
        if store_value(&tx, "copier")?.as_ref() != Some(&self.run) {
            return Err(overtaken_run());
        }
        Ok(tx)
    }
}

impl CopyTarget for SqliteCopyTarget {
    fn contents(&mut self) -> Result<TargetContents> {
        if !self.options.path.exists() {
            return Ok(TargetContents::Nothing);
        }
        let conn = open::passive_reader(&self.options.path, self.options.busy_timeout)?;
        contents(&conn)
    }

    fn begin(&mut self, source: &str) -> Result<copy::StartedCopy> {
        open::check_version()?;
        open::prepare(&self.options.path)?;
        let Options { path, entropy, .. } = &self.options;
        let mut conn = open::writer(path, self.options.busy_timeout)?;
        let random = || random_id(entropy.as_ref());
        migrate::migrate(&mut conn, random)?;
        open::sync_directory(path)?;
        let run = random()?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.map_err(failure)?;
        let resumed = contents(&tx)?.is_resumable(source)?;
        put_store_value(&tx, "copying", source)?;
        put_store_value(&tx, "copier", &run)?;
        tx.execute("DELETE FROM commit_log", []).map_err(failure)?;
        tx.commit().map_err(failure)?;
        let store_id = migrate::store_id(&conn)?;
        let file_id = file_id(path)?;
        self.running = Some(RunningCopy { conn, run, file_id });
        Ok(copy::StartedCopy {
            store_id,
            lanes: Lanes::ONE,
            resumed,
        })
    }

    fn with_view(&mut self, query: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()> {
        in_snapshot(&self.running()?.conn, |rows| query(rows))
    }

    fn write(&mut self, work: CopyWrites<'_>) -> Result<()> {
        let now = self.options.clock.now();
        let tx = self.running()?.transaction()?;
        work(&mut Rows::new(&tx), now)?;
        tx.commit().map_err(failure)
    }

    fn finish(&mut self) -> Result<()> {
        let (path, busy_timeout) = (self.options.path.clone(), self.options.busy_timeout);
        let running = self.running()?;
        if file_id(&path)? != running.file_id {
            let detail = format!("{} was replaced during the copy", path.display());
            return Err(Failure::new(ErrorCode::StoreUnavailable, detail));
        }
        let tx = running.transaction()?;
        tx.execute("DELETE FROM store WHERE name IN ('copying', 'copier')", [])
            .map_err(failure)?;
        // An earlier run may have copied contents that were erased in the source since. The WAL may still contain them,
        // so mark the WAL as still to be emptied.
        let commit = Rows::new(&tx).newest_log(Lane::FIRST)?;
        erasure::write_note(&tx, commit.map_or(0, |row| row.commit_no)).map_err(failure)?;
        tx.commit().map_err(failure)?;
        // The copy is finished, even if the WAL cannot be emptied now: the next opening of the store then empties it.
        let emptied = Erasure::resume(&running.conn, busy_timeout);
        if let Err(failure) = emptied {
            tracing::warn!(%failure, "the WAL was not emptied; the next opening does it");
        }
        Ok(())
    }
}

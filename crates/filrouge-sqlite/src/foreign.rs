//! Reads another program's SQLite database in place (DESIGN §10).
//!
//! The database is never written, checkpointed or copied, and its own program may write to it at the same time. If the
//! write-ahead log is empty, the database is read as an immutable file, so that SQLite creates no file next to it. The
//! states of the files are compared before and after, to detect writes. If the log is not empty, it is read too. For
//! that, SQLite needs the log's index, the `-shm` file, and creates it if it is missing. No other file is ever created.
//!
//! No signature of this module contains a type of the crate `rusqlite`, so that crates that read foreign formats need
//! not depend on it.

mod error;
mod files;
mod row;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use filrouge_types::lock;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, params_from_iter};

pub use error::{ForeignError, ForeignKind, Result};
pub use row::Row;

use files::{FileStates, immutable_uri, is_in_wal_mode, wal_path};

/// The largest value that is read, in bytes. A row of 458 MB was seen in an OpenCode database.
pub const VALUE_BYTES_MAX: i32 = 64 << 20;

/// How long a query waits for another program's lock. This is short, because a caller waits for the answer, but long
/// enough for OpenCode's commits, which take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// After a wait for a lock has timed out, queries do not wait for locks for this time. One answer runs several queries,
/// which would otherwise all wait.
const BUSY_PAUSE: Duration = Duration::from_secs(2);

/// The maximum number of connections kept for later reads.
const IDLE_MAX: usize = 3;

/// Another program's database. Several threads can read it at the same time, each with its own connection.
pub struct ForeignDatabase {
    /// The path without symbolic links, because SQLite names the log after the target of a link.
    path: PathBuf,
    /// The path of the write-ahead log.
    wal: PathBuf,
    /// How long a query waits for a lock.
    busy_timeout: Duration,
    /// The time at which a wait for a lock last timed out.
    timed_out_at: Mutex<Option<Instant>>,
    /// Connections that no reader uses now.
    idle: Mutex<Vec<ForeignConnection>>,
}

/// A fingerprint of the database's state: while it is unchanged, nothing was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseFingerprint(FileStates);

/// A connection to the database.
struct ForeignConnection {
    sqlite: Connection,
    /// The state of the files when the connection was opened.
    files: FileStates,
    /// Whether SQLite treats the file as one that nobody writes: it then ignores locks and the log.
    immutable: bool,
}

/// One snapshot of a database: all its queries see the same state.
pub struct Reader<'a> {
    path: &'a Path,
    sqlite: &'a Connection,
}

impl ForeignDatabase {
    /// Examines the file at `path`, following symbolic links. The first query opens the database.
    ///
    /// # Errors
    /// [`ForeignKind::Gone`] when the file does not exist, [`ForeignKind::NotADatabase`] when it is not a regular
    /// file.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|e| ForeignError::from_io(path, &e))?;
        let meta = path
            .metadata()
            .map_err(|e| ForeignError::from_io(&path, &e))?;
        // Opening a pipe would wait for its writer.
        if !meta.is_file() {
            return Err(ForeignError::new(ForeignKind::NotADatabase, &path, ""));
        }
        Ok(Self {
            wal: wal_path(&path),
            path,
            busy_timeout: BUSY_TIMEOUT,
            timed_out_at: Mutex::default(),
            idle: Mutex::default(),
        })
    }

    /// Returns a fingerprint that changes with every commit of other programs, and when the file is replaced. Costs a
    /// few microseconds. `None` while a further write could leave the modification time unchanged, because a file
    /// system's clock advances in ticks.
    ///
    /// # Errors
    /// [`ForeignError`]
    pub fn fingerprint(&self) -> Result<Option<DatabaseFingerprint>> {
        let files = self.file_states()?;
        Ok(files.is_settled().then_some(DatabaseFingerprint(files)))
    }

    /// Runs several queries in one snapshot. `run` is called a second time when another program has written meanwhile
    /// and the rows may be inconsistent: it must collect its rows in its return value.
    ///
    /// # Errors
    /// [`ForeignError`], and any error of `run`.
    pub fn read<T>(&self, mut run: impl FnMut(&Reader<'_>) -> Result<T>) -> Result<T> {
        let outcome = self.read_unrecorded(&mut run);
        // After a wait for a lock has timed out, later queries do not wait for `BUSY_PAUSE`.
        let mut timed_out_at = lock(&self.timed_out_at);
        let is_busy = matches!(&outcome, Err(error) if error.kind == ForeignKind::Busy);
        let is_pause_over = timed_out_at.is_none_or(|at| at.elapsed() >= BUSY_PAUSE);
        if !is_busy {
            *timed_out_at = None;
        } else if is_pause_over {
            *timed_out_at = Some(Instant::now());
        }
        outcome
    }

    /// Returns the time that a query waits for a lock now.
    fn current_timeout(&self) -> Duration {
        let timed_out_at = *lock(&self.timed_out_at);
        match timed_out_at.is_some_and(|at| at.elapsed() < BUSY_PAUSE) {
            true => Duration::ZERO,
            false => self.busy_timeout,
        }
    }

    /// Like [`Self::read`], without recording timeouts.
    fn read_unrecorded<T>(&self, run: &mut impl FnMut(&Reader<'_>) -> Result<T>) -> Result<T> {
        let connection = self.acquire(true)?;
        let outcome = self.in_snapshot(&connection, run);
        if !connection.immutable || self.file_states()? == connection.files {
            self.release(connection);
            return outcome;
        }
        tracing::debug!("a database was written while it was read; reading it again");
        drop(connection);
        let connection = self.acquire(false)?;
        let outcome = self.in_snapshot(&connection, run);
        self.release(connection);
        outcome
    }

    fn file_states(&self) -> Result<FileStates> {
        FileStates::read(&self.path, &self.wal).map_err(|e| ForeignError::from_io(&self.path, &e))
    }

    fn in_snapshot<T>(
        &self,
        connection: &ForeignConnection,
        run: &mut impl FnMut(&Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        let to_error = |e: rusqlite::Error| ForeignError::from_sqlite(&self.path, &e);
        let transaction = connection
            .sqlite
            .unchecked_transaction()
            .map_err(to_error)?;
        let reader = Reader {
            path: &self.path,
            sqlite: &connection.sqlite,
        };
        let outcome = run(&reader)?;
        transaction.finish().map_err(to_error)?;
        Ok(outcome)
    }

    /// Returns a connection to the current file, if possible an idle one. `may_be_immutable`: whether it may be an
    /// immutable connection.
    fn acquire(&self, may_be_immutable: bool) -> Result<ForeignConnection> {
        let files = self.file_states()?;
        let mut idle = lock(&self.idle);
        idle.retain(|c| match c.immutable {
            // An immutable connection's page cache is valid only for the state in which the file was opened.
            true => c.files == files,
            false => c.files.has_same_inodes(&files),
        });
        let index = idle.iter().position(|c| may_be_immutable || !c.immutable);
        if let Some(index) = index {
            let connection = idle.swap_remove(index);
            drop(idle);
            return self.with_timeout(connection);
        }
        drop(idle);
        let wal_mode =
            || is_in_wal_mode(&self.path).map_err(|e| ForeignError::from_io(&self.path, &e));
        let immutable = may_be_immutable && files.is_log_empty() && wal_mode()?;
        self.connect(files, immutable)
    }

    /// Sets the current timeout of an idle connection.
    fn with_timeout(&self, connection: ForeignConnection) -> Result<ForeignConnection> {
        let result = connection.sqlite.busy_timeout(self.current_timeout());
        result.map_err(|e| ForeignError::from_sqlite(&self.path, &e))?;
        Ok(connection)
    }

    fn release(&self, connection: ForeignConnection) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    fn connect(&self, before: FileStates, immutable: bool) -> Result<ForeignConnection> {
        let to_error = |e: rusqlite::Error| ForeignError::from_sqlite(&self.path, &e);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sqlite = match immutable {
            true => Connection::open_with_flags(
                immutable_uri(&self.path),
                flags | OpenFlags::SQLITE_OPEN_URI,
            ),
            false => Connection::open_with_flags(&self.path, flags),
        };
        let sqlite = sqlite.map_err(to_error)?;
        configure(&sqlite, self.current_timeout()).map_err(to_error)?;
        let files = self.file_states()?;
        // If these differ, the file was replaced while it was opened, and it is unknown which of the two files this
        // connection reads.
        if !files.is_same_database(&before) {
            return Err(ForeignError::new(ForeignKind::Busy, &self.path, ""));
        }
        // An immutable connection counts as one to the older state. If the file has changed since, `read_unrecorded`
        // discards the connection after its first use.
        let files = if immutable { before } else { files };
        Ok(ForeignConnection {
            sqlite,
            files,
            immutable,
        })
    }
}

fn configure(sqlite: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    sqlite.busy_timeout(busy_timeout)?;
    sqlite.set_prepared_statement_cache_capacity(48);
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Without this setting, SQLite plans a statement anew for each bound value if a table has a partial index.
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    sqlite.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    // The schema is that of another program, so nothing in it may call a function with side effects.
    sqlite.pragma_update(None, "trusted_schema", false)?;
    sqlite.pragma_update(None, "query_only", true)
}

impl Reader<'_> {
    /// Begins the snapshot that all queries see. Without this call, the first query begins it.
    ///
    /// # Errors
    /// [`ForeignError`]
    pub fn begin(&self) -> Result<()> {
        let sql = "SELECT 1 FROM sqlite_schema LIMIT 1";
        self.query(sql, &[], |_| ControlFlow::Break(()))
    }

    /// Runs a query with `values` bound to its parameters. Calls `each` with every row until it returns `Break`.
    ///
    /// # Errors
    /// [`ForeignError`]; `each` has already received the rows before the failure.
    pub fn query(
        &self,
        sql: &str,
        values: &[&str],
        mut each: impl FnMut(&Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let to_error = |e: rusqlite::Error| ForeignError::from_sqlite(self.path, &e);
        let mut statement = self.sqlite.prepare_cached(sql).map_err(to_error)?;
        let mut rows = statement
            .query(params_from_iter(values))
            .map_err(to_error)?;
        while let Some(row) = rows.next().map_err(to_error)? {
            if each(&Row(row)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the names of a table's columns in order; empty when the table does not exist.
    ///
    /// # Errors
    /// [`ForeignError`]
    pub fn columns(&self, table: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
        self.query(sql, &[table], |row| {
            names.extend(row.text(0).map(str::to_owned));
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }
}

impl std::fmt::Debug for ForeignDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignDatabase")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

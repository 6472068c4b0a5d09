//! Somebody else's SQLite database, read in place (DESIGN §10).
//!
//! It is never written, checkpointed or copied, also while its own program writes. A database whose log is folded in
//! is read as an immutable file, so that nothing is made beside it; whether somebody has written meanwhile is looked
//! at before and after. One with a log is read with it: then SQLite needs the log's index, the `-shm` file, and makes
//! it when it is not there. Nothing else ever appears.
//!
//! No type of SQLite's is in a signature here: readers of foreign formats need not link it.

mod error;
mod files;
mod row;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, params_from_iter};

pub use error::{ForeignError, ForeignKind};
pub use row::Row;

use files::{Files, immutable_address, in_wal_mode, wal_of};

/// The largest value that is read, in bytes. One row of OpenCode's was seen with 458 MB.
pub const VALUE_BYTES_MAX: i32 = 64 << 20;

/// How long a lock of somebody else's is waited for: OpenCode's commits take milliseconds, and somebody waits for the
/// answer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// For so long after a wait in vain nobody waits again: one answer asks several times.
const BUSY_AGAIN: Duration = Duration::from_secs(2);

/// Connections that are kept for the next reader.
const IDLE_MAX: usize = 3;

/// A foreign database. Readers do not wait for each other.
pub struct ForeignDatabase {
    /// Without symbolic links: SQLite names the log after what they lead to.
    path: PathBuf,
    wal: PathBuf,
    busy_timeout: Duration,
    /// When a lock was last waited for in vain.
    given_up: Mutex<Option<Instant>>,
    idle: Mutex<Vec<Opened>>,
}

/// A mark of the whole database: when it is the same, nobody has committed anything between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(Files);

/// A connection, and the files it was opened on.
struct Opened {
    sqlite: Connection,
    files: Files,
    immutable: bool,
}

/// One moment of a database: all questions to it see the same state.
pub struct Reader<'a> {
    path: &'a Path,
    sqlite: &'a Connection,
}

impl ForeignDatabase {
    /// Looks at what is at `path`, through symbolic links. Nothing is opened before the first question.
    ///
    /// # Errors
    /// [`ForeignKind::Gone`] when there is nothing, [`ForeignKind::NotADatabase`] when it is no file.
    pub fn open(path: &Path) -> Result<Self, ForeignError> {
        let path = path
            .canonicalize()
            .map_err(|e| ForeignError::of_io(path, &e))?;
        let meta = path
            .metadata()
            .map_err(|e| ForeignError::of_io(&path, &e))?;
        // Opening a pipe would wait for its writer.
        if !meta.is_file() {
            return Err(ForeignError::new(ForeignKind::NotADatabase, &path, ""));
        }
        Ok(Self {
            wal: wal_of(&path),
            path,
            busy_timeout: BUSY_TIMEOUT,
            given_up: Mutex::default(),
            idle: Mutex::default(),
        })
    }

    /// A mark that changes with every commit of others, and when the file is another. Costs a few microseconds. `None` while
    /// somebody could write without another time of change, as that of a file system goes by in ticks.
    ///
    /// # Errors
    /// [`ForeignError`]
    pub fn mark(&self) -> Result<Option<Mark>, ForeignError> {
        let files = self.files()?;
        Ok(files.settled().then_some(Mark(files)))
    }

    /// Asks several questions of one moment. `run` is called again when somebody has written meanwhile and what was
    /// read cannot be trusted: what it gathers belongs into what it returns.
    ///
    /// # Errors
    /// [`ForeignError`], and what `run` fails with.
    pub fn read<T>(
        &self,
        mut run: impl FnMut(&Reader<'_>) -> Result<T, ForeignError>,
    ) -> Result<T, ForeignError> {
        self.patiently(|| self.read_now(&mut run))
    }

    /// Asks, unless a lock was waited for in vain just now: then without waiting.
    fn patiently<T>(
        &self,
        ask: impl FnOnce() -> Result<T, ForeignError>,
    ) -> Result<T, ForeignError> {
        let outcome = ask();
        let mut given_up = lock(&self.given_up);
        let is_busy = matches!(&outcome, Err(why) if why.kind == ForeignKind::Busy);
        let again = given_up.is_none_or(|at| at.elapsed() >= BUSY_AGAIN);
        if !is_busy {
            *given_up = None;
        } else if again {
            *given_up = Some(Instant::now());
        }
        outcome
    }

    /// How long a lock is waited for now.
    fn patience(&self) -> Duration {
        let given_up = *lock(&self.given_up);
        match given_up.is_some_and(|at| at.elapsed() < BUSY_AGAIN) {
            true => Duration::ZERO,
            false => self.busy_timeout,
        }
    }

    fn read_now<T>(
        &self,
        run: &mut impl FnMut(&Reader<'_>) -> Result<T, ForeignError>,
    ) -> Result<T, ForeignError> {
        let opened = self.take(true)?;
        let outcome = self.at_one_moment(&opened, run);
        if !opened.immutable || self.files()? == opened.files {
            self.give_back(opened);
            return outcome;
        }
        tracing::debug!("a database was written while it was read; reading it again");
        drop(opened);
        let opened = self.take(false)?;
        let outcome = self.at_one_moment(&opened, run);
        self.give_back(opened);
        outcome
    }

    fn files(&self) -> Result<Files, ForeignError> {
        Files::now(&self.path, &self.wal).map_err(|e| ForeignError::of_io(&self.path, &e))
    }

    fn at_one_moment<T>(
        &self,
        opened: &Opened,
        run: &mut impl FnMut(&Reader<'_>) -> Result<T, ForeignError>,
    ) -> Result<T, ForeignError> {
        let failed = |e: rusqlite::Error| ForeignError::of_sqlite(&self.path, &e);
        let moment = opened.sqlite.unchecked_transaction().map_err(failed)?;
        let reader = Reader {
            path: &self.path,
            sqlite: &opened.sqlite,
        };
        let outcome = run(&reader)?;
        moment.finish().map_err(failed)?;
        Ok(outcome)
    }

    /// A connection to the file that is there now.
    fn take(&self, may_be_immutable: bool) -> Result<Opened, ForeignError> {
        let files = self.files()?;
        let mut idle = lock(&self.idle);
        idle.retain(|o| match o.immutable {
            // What it has in memory is of the state it was opened on.
            true => o.files == files,
            false => o.files.same_places(&files),
        });
        let at = idle.iter().position(|o| may_be_immutable || !o.immutable);
        if let Some(at) = at {
            let opened = idle.swap_remove(at);
            drop(idle);
            return self.with_patience(opened);
        }
        drop(idle);
        let wal_mode = || in_wal_mode(&self.path).map_err(|e| ForeignError::of_io(&self.path, &e));
        let immutable = may_be_immutable && files.folded() && wal_mode()?;
        self.connect(files, immutable)
    }

    fn with_patience(&self, opened: Opened) -> Result<Opened, ForeignError> {
        let set = opened.sqlite.busy_timeout(self.patience());
        set.map_err(|e| ForeignError::of_sqlite(&self.path, &e))?;
        Ok(opened)
    }

    fn give_back(&self, opened: Opened) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(opened);
        }
    }

    fn connect(&self, before: Files, immutable: bool) -> Result<Opened, ForeignError> {
        let failed = |e: rusqlite::Error| ForeignError::of_sqlite(&self.path, &e);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sqlite = match immutable {
            true => Connection::open_with_flags(
                immutable_address(&self.path),
                flags | OpenFlags::SQLITE_OPEN_URI,
            ),
            false => Connection::open_with_flags(&self.path, flags),
        };
        let sqlite = sqlite.map_err(failed)?;
        settle(&sqlite, self.patience()).map_err(failed)?;
        let files = self.files()?;
        // Replaced while it was being opened: which of the two this is cannot be known.
        if !files.same_database(&before) {
            return Err(ForeignError::new(ForeignKind::Busy, &self.path, ""));
        }
        // An immutable one is of the older state: if it has changed since, it is thrown away after its first use.
        let files = if immutable { before } else { files };
        Ok(Opened {
            sqlite,
            files,
            immutable,
        })
    }
}

fn settle(sqlite: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    sqlite.busy_timeout(busy_timeout)?;
    sqlite.set_prepared_statement_cache_capacity(48);
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    sqlite.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    // The schema is somebody else's: nothing in it may call what has effects.
    sqlite.pragma_update(None, "trusted_schema", false)?;
    sqlite.pragma_update(None, "query_only", true)
}

impl Reader<'_> {
    /// Asks a question; `each` takes the rows, and can stop.
    ///
    /// # Errors
    /// [`ForeignError`]; rows before the failure were taken.
    pub fn query(
        &self,
        sql: &str,
        values: &[&str],
        mut each: impl FnMut(&Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), ForeignError> {
        let failed = |e: rusqlite::Error| ForeignError::of_sqlite(self.path, &e);
        let mut statement = self.sqlite.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            if each(&Row(row)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The names of a table's columns in order; none when there is no such table.
    ///
    /// # Errors
    /// [`ForeignError`]
    pub fn columns(&self, table: &str) -> Result<Vec<String>, ForeignError> {
        let mut names = Vec::new();
        let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
        self.query(sql, &[table], |row| {
            names.extend(row.text(0).map(str::to_owned));
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }
}

/// Whoever panicked while it held the lock has left whole connections behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for ForeignDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignDatabase")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

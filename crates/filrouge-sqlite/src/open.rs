//! Opens SQLite connections with the settings on which the ledger's guarantees depend.

use std::ffi::c_int;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure, Result};
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, OpenFlags};

use crate::error::{failure, is_busy, is_io_failure};

/// The oldest accepted version of SQLite: 3.51.3 fixes a WAL reset bug.
pub const SQLITE_MIN: i32 = 3_051_003;

/// A commit checkpoints the WAL once the WAL has grown by this many pages since the previous checkpoint.
const CHECKPOINT_PAGES: i32 = 1000;
/// From this many pages on, a checkpoint waits for other writers and for readers, so that the next commit reuses the
/// WAL. Otherwise the WAL would grow as long as several processes write without a pause.
const WAL_PAGES_MAX: i32 = 16 * CHECKPOINT_PAGES;
/// The maximum time of such a wait, which delays the answer to a commit.
pub(crate) const CHECKPOINT_WAIT: Duration = Duration::from_millis(50);

/// The options of opening a ledger.
#[derive(Clone)]
pub struct Options {
    /// The database file; its directory must exist.
    pub path: PathBuf,
    /// The keys.
    pub keyring: Arc<Keyring>,
    /// The source of randomness for salts and ids.
    pub entropy: Arc<dyn Entropy>,
    /// The store's clock.
    pub clock: Arc<dyn Clock>,
    /// How long to wait for another process's transaction.
    pub busy_timeout: Duration,
    /// The maximum number of concurrent reads.
    pub readers: usize,
    /// Whether MACs are checked on read.
    pub check: filrouge_store::record::MacCheck,
    /// Whether the store is opened read-only: not even its schema is migrated.
    pub only_read: bool,
}

impl Options {
    /// The default options for `path`.
    pub fn new(
        path: impl Into<PathBuf>,
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            path: path.into(),
            keyring,
            entropy,
            clock,
            busy_timeout: Duration::from_secs(10),
            readers: 8,
            check: filrouge_store::record::MacCheck::Keyed,
            only_read: false,
        }
    }
}

/// Creates the file of a store and its directory, if they are missing. Only their owner can access them, because
/// conversations are private. SQLite creates the WAL with the same access mode as the file.
///
/// # Errors
/// `store_unavailable` when they cannot be created.
pub fn prepare(path: &Path) -> Result<()> {
    let unavailable = |path: &Path, e: &std::io::Error| {
        let detail = format!("{}: {e}", path.display());
        Failure::new(ErrorCode::StoreUnavailable, detail)
            .with_hint("check that the directory may be written")
    };
    if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|e| unavailable(directory, &e))?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options
        .open(path)
        .map(drop)
        .map_err(|e| unavailable(path, &e))
}

/// The time between two attempts to turn WAL mode on.
const WAL_RETRY: Duration = Duration::from_millis(5);

/// Refuses a SQLite older than [`SQLITE_MIN`].
pub(crate) fn check_version() -> Result<()> {
    if rusqlite::version_number() < SQLITE_MIN {
        return Err(ErrorCode::Internal.failure(format!(
            "SQLite {} is too old, 3.51.3 is needed",
            rusqlite::version()
        )));
    }
    Ok(())
}

/// Opens a connection with the settings that all connections share.
pub(crate) fn connect(path: &Path, busy_timeout: Duration, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|e| {
        let mut failure = failure(e);
        failure.detail = format!("{}: {}", path.display(), failure.detail);
        failure.with_hint("check that the directory exists and may be written")
    })?;
    conn.busy_timeout(busy_timeout).map_err(failure)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Without this setting, SQLite plans a statement anew for each bound value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failure)?;
    conn.pragma_update(None, "trusted_schema", false)
        .map_err(failure)?;
    Ok(conn)
}

/// Opens the connection of the writer thread: WAL mode, and every commit is flushed.
pub(crate) fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection> {
    let mut conn = connect(path, busy_timeout, OpenFlags::SQLITE_OPEN_CREATE)?;
    let mode = wal_mode(&conn, busy_timeout)?;
    if mode != "wal" {
        return Err(ErrorCode::StoreUnavailable
            .failure(format!(
                "the file system of {} does not allow WAL (got {mode})",
                path.display()
            ))
            .with_hint("keep the store on a local disk"));
    }
    conn.pragma_update(None, "synchronous", "FULL")
        .map_err(failure)?;
    // The file's free space must contain neither erased contents nor contents that a split of a page left there.
    conn.pragma_update(None, "secure_delete", true)
        .map_err(failure)?;
    // The hook replaces SQLite's automatic checkpoint, which ignores errors: the writer must see a failed flush of the
    // main file.
    conn.pragma_update(None, "wal_autocheckpoint", 0)
        .map_err(failure)?;
    conn.wal_hook(Some(checkpoint_when_large()))
        .map_err(failure)?;
    Ok(conn)
}

/// Turns WAL mode on and returns the resulting mode. Retries until `busy_timeout`, because SQLite does not wait here
/// for another process that does the same.
pub(crate) fn wal_mode(conn: &Connection, busy_timeout: Duration) -> Result<String> {
    let deadline = Instant::now() + busy_timeout;
    loop {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match mode {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(WAL_RETRY);
            }
            mode => return mode.map_err(failure),
        }
    }
}

/// A hook that SQLite calls after each commit with the number of pages in the WAL. It checkpoints the WAL when this
/// number has grown by [`CHECKPOINT_PAGES`]. A checkpoint costs two flushes, and does not empty the WAL while another
/// process reads or writes, so it must not follow each commit to a large WAL.
fn checkpoint_when_large() -> impl FnMut(&mut Wal, c_int) -> rusqlite::Result<()> + Send + 'static {
    let mut previous = 0;
    move |wal, pages| {
        if pages < previous {
            // The WAL was reused from its start.
            previous = 0;
        }
        if pages - previous < CHECKPOINT_PAGES {
            return Ok(());
        }
        previous = pages;
        let mode = match pages < WAL_PAGES_MAX {
            true => CheckpointMode::PASSIVE,
            false => CheckpointMode::RESTART,
        };
        match wal.checkpoint_v2(mode) {
            // The commit itself is durable. So the writer must see only an error after which the state of the files is
            // unknown; after any other error, a later commit retries.
            Err(error) if is_busy(&error) => Ok(()),
            Err(error) if !is_io_failure(&error) => {
                tracing::warn!(%error, "the WAL was not copied back; it will be retried");
                Ok(())
            }
            done => done.map(drop),
        }
    }
}

/// Opens a connection that reads and never writes.
pub(crate) fn reader(path: &Path, busy_timeout: Duration) -> Result<Connection> {
    let conn = connect(path, busy_timeout, OpenFlags::SQLITE_OPEN_CREATE)?;
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    Ok(conn)
}

/// Opens a connection that only reads and leaves the files unchanged: it creates no database, and does not copy the WAL
/// into the database.
pub(crate) fn passive_reader(path: &Path, busy_timeout: Duration) -> Result<Connection> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    // If the WAL has data, closing the connection must not copy it into the database. Otherwise closing may do its
    // usual work: it removes the files that SQLite created for reading.
    if wal_path(path).metadata().is_ok_and(|wal| wal.len() > 0) {
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failure)?;
    }
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    Ok(conn)
}

fn wal_path(path: &Path) -> PathBuf {
    // SQLite resolves links before it names the WAL.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.into_os_string();
    name.push("-wal");
    name.into()
}

/// Makes the names of new files durable; SQLite leaves this to the file system.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    std::fs::File::open(parent)
        .and_then(|d| d.sync_all())
        .map_err(|e| ErrorCode::StoreUnavailable.failure(format!("{}: {e}", parent.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_wal_is_not_checkpointed_by_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let second = Duration::from_secs(1);
        let conn = writer(&path, second).unwrap();
        conn.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let reading = reader(&path, second).unwrap();
        let size = || path.metadata().unwrap().len();
        let (mut copied, mut checkpoints) = (size(), 0);
        for _ in 0..400 {
            // The snapshot keeps the WAL from being reused, and allows the copy of all earlier commits.
            let begin = "BEGIN; SELECT count(*) FROM t";
            reading.execute_batch(begin).unwrap();
            let about_ten_pages = "INSERT INTO t VALUES (zeroblob(40000))";
            conn.execute(about_ten_pages, []).unwrap();
            reading.execute_batch("ROLLBACK").unwrap();
            checkpoints += u32::from(size() != copied);
            copied = size();
        }
        assert!((1..=5).contains(&checkpoints), "{checkpoints}");
    }
}

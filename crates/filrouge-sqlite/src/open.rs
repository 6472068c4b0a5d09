//! Opening connections with the settings that the promises rest on.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_store::{Entropy, Keyring};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{failure, is_busy, is_io_failure};

/// The oldest SQLite that is accepted: 3.51.3 mends a WAL reset fault.
pub const SQLITE_MIN: i32 = 3_051_003;

/// The WAL is copied back once it holds this many pages.
const CHECKPOINT_PAGES: i32 = 1000;

/// What a ledger is opened with.
#[derive(Clone)]
pub struct Options {
    /// The database file; its directory must be there.
    pub path: PathBuf,
    /// The keys.
    pub keyring: Arc<Keyring>,
    /// Where salts come from.
    pub entropy: Arc<dyn Entropy>,
    /// The store's clock.
    pub clock: Arc<dyn Clock>,
    /// How long another process's transaction is waited for.
    pub busy_timeout: Duration,
    /// How many reads run at once.
    pub readers: usize,
    /// Whether MACs are checked on read.
    pub check: filrouge_store::record::Check,
    /// Whether the store is only read: nothing of it is changed, not even its schema.
    pub only_read: bool,
}

impl Options {
    /// The usual settings for `path`.
    #[must_use]
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
            check: filrouge_store::record::Check::Keyed,
            only_read: false,
        }
    }
}

/// Makes the file of a store that is not there, and its directory, for nobody but their owner: what was said is its
/// owner's alone. SQLite gives its WAL the file's mode.
///
/// # Errors
/// `store_unavailable` when they cannot be made.
pub fn prepare(path: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, e: &std::io::Error| {
        let what = format!("{}: {e}", path.display());
        Failure::new(ErrorCode::StoreUnavailable, what)
            .with_hint("check that the directory may be written")
    };
    if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|e| failed(directory, &e))?;
    }
    let mut open = std::fs::OpenOptions::new();
    open.create(true).append(true).mode(0o600);
    open.open(path).map(drop).map_err(|e| failed(path, &e))
}

/// Between two tries to turn the WAL on.
const WAL_RETRY: Duration = Duration::from_millis(5);

/// Refuses a SQLite older than [`SQLITE_MIN`].
pub(crate) fn check_version() -> Result<(), Failure> {
    if rusqlite::version_number() < SQLITE_MIN {
        return Err(Failure::new(
            ErrorCode::Internal,
            format!(
                "SQLite {} is too old, 3.51.3 is needed",
                rusqlite::version()
            ),
        ));
    }
    Ok(())
}

pub(crate) fn connect(
    path: &Path,
    busy_timeout: Duration,
    flags: OpenFlags,
) -> Result<Connection, Failure> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|e| {
        let mut f = failure(e);
        f.detail = format!("{}: {}", path.display(), f.detail);
        f.with_hint("check that the directory exists and may be written")
    })?;
    conn.busy_timeout(busy_timeout).map_err(failure)?;
    conn.set_prepared_statement_cache_capacity(64);
    // Plans hold whatever is bound: without this, each new bound value makes SQLite plan the statement again.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failure)?;
    conn.pragma_update(None, "trusted_schema", false)
        .map_err(failure)?;
    Ok(conn)
}

/// The connection of the writer thread: WAL, every commit flushed.
pub(crate) fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let mut conn = connect(path, busy_timeout, OpenFlags::SQLITE_OPEN_CREATE)?;
    let mode = wal_mode(&conn, busy_timeout)?;
    if mode != "wal" {
        return Err(Failure::new(
            ErrorCode::StoreUnavailable,
            format!(
                "the file system of {} does not allow WAL (got {mode})",
                path.display()
            ),
        )
        .with_hint("keep the store on a local disk"));
    }
    conn.pragma_update(None, "synchronous", "FULL")
        .map_err(failure)?;
    // What is erased, or left behind when a page is split, must not stay in the file's free space.
    conn.pragma_update(None, "secure_delete", true)
        .map_err(failure)?;
    // The hook replaces SQLite's own checkpoint, which swallows its errors: a failed flush of the main file
    // must reach the writer.
    conn.pragma_update(None, "wal_autocheckpoint", 0)
        .map_err(failure)?;
    conn.wal_hook(Some(checkpoint_when_large))
        .map_err(failure)?;
    Ok(conn)
}

/// Turns the WAL on. SQLite does not wait for another process that is just doing the same, as it waits elsewhere.
pub(crate) fn wal_mode(conn: &Connection, busy_timeout: Duration) -> Result<String, Failure> {
    let until = Instant::now() + busy_timeout;
    loop {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match mode {
            Err(error) if is_busy(&error) && Instant::now() < until => {
                std::thread::sleep(WAL_RETRY);
            }
            mode => return mode.map_err(failure),
        }
    }
}

pub(crate) fn checkpoint_when_large(
    wal: &mut rusqlite::hooks::Wal,
    pages: std::ffi::c_int,
) -> rusqlite::Result<()> {
    if pages < CHECKPOINT_PAGES {
        return Ok(());
    }
    match wal.checkpoint() {
        // What is committed is committed: only what leaves the files in doubt must reach the writer. The next
        // commit tries again.
        Err(error) if is_busy(&error) => Ok(()),
        Err(error) if !is_io_failure(&error) => {
            tracing::warn!(%error, "the WAL was not copied back; it is tried again");
            Ok(())
        }
        other => other,
    }
}

/// A connection for reading; it never writes.
pub(crate) fn reader(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::SQLITE_OPEN_CREATE)?;
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    Ok(conn)
}

/// A connection that leaves the files as they are: it makes none, and what stands in the WAL stays there.
pub(crate) fn onlooker(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    // Without a WAL there is nothing to leave, and the files that SQLite makes for reading go with the connection.
    if wal_of(path).metadata().is_ok_and(|wal| wal.len() > 0) {
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failure)?;
    }
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    Ok(conn)
}

fn wal_of(path: &Path) -> PathBuf {
    // SQLite follows links before it names the WAL.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.into_os_string();
    name.push("-wal");
    name.into()
}

/// Makes the names of new files durable, which SQLite leaves to the file system.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Failure> {
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    std::fs::File::open(parent)
        .and_then(|d| d.sync_all())
        .map_err(|e| {
            Failure::new(
                ErrorCode::StoreUnavailable,
                format!("{}: {e}", parent.display()),
            )
        })
}

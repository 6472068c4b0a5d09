//! An index's file: its identity, its creation, and its connections.
//!
//! All data of an index can be rebuilt. So a file that is damaged or has another format is deleted and created anew,
//! but only if its `application_id` identifies it as an index of filrouge. A process that still has the deleted file
//! open detects that another file has replaced it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use filrouge_store::{Entropy, OsEntropy};
use filrouge_types::{ErrorCode, Failure, Result, lock};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::connections::{data_version, reader, set_read_only, writer};
use super::document_cache::DocumentCache;
use super::verified::Verified;
use super::vocabulary::Vocabularies;
use crate::error::failure;
use crate::open::{check_version, connect};

/// The version of the format.
pub(super) const FORMAT: i64 = 7;
/// The `application_id` of an index: "fils" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c73;
/// The maximum number of idle read connections.
const IDLE_READERS_MAX: usize = 4;

/// An open index file; valid until another file replaces it at its path.
pub(super) struct IndexFile {
    path: PathBuf,
    busy_timeout: Duration,
    id: FileId,
    /// The connection for changes, opened when it is first needed, and the `data_version` that it last had.
    writer: Mutex<Option<(Connection, i64)>>,
    /// The number of times that this process has noticed a change by another connection.
    changes_by_others: AtomicU64,
    /// What was compared with its seals.
    pub(super) verified: Mutex<Verified>,
    /// Idle connections for queries.
    readers: Mutex<Vec<Connection>>,
    /// The cached lists of documents.
    pub(super) document_cache: Mutex<DocumentCache>,
    /// The cached words of segments.
    pub(super) vocabularies: Mutex<Vocabularies>,
}

/// A file's identity: its device and inode.
pub(super) type FileId = (u64, u64);

/// Returns the identity of the file at a path.
pub(super) fn file_id(path: &Path) -> Option<FileId> {
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// The state of a file.
enum FileState {
    /// An index that can be used.
    Ready,
    /// An empty file.
    Empty,
    /// An index of filrouge that cannot be used, with the reason.
    Stale(&'static str),
}

impl IndexFile {
    /// Opens the file at `path`; creates it when it is missing. `damaged_file` identifies a file that was found to be
    /// damaged: it is replaced if it is still the file at `path`.
    pub(super) fn open(
        path: &Path,
        busy_timeout: Duration,
        damaged_file: Option<FileId>,
    ) -> Result<Self> {
        check_version()?;
        create_file(path)?;
        let file = file_id(path);
        let damaged = damaged_file.is_some() && file == damaged_file;
        let (reader, state) = match damaged {
            true => (None, FileState::Stale("it is damaged")),
            false => {
                let conn = connect(path, busy_timeout, OpenFlags::empty())?;
                let state = determine_state(&conn, path)?;
                if matches!(state, FileState::Ready) {
                    set_read_only(&conn)?;
                }
                (Some(conn), state)
            }
        };
        match state {
            FileState::Ready => {}
            FileState::Empty => {
                drop(reader);
                create_index(path, busy_timeout)?;
                return Self::open(path, busy_timeout, None);
            }
            FileState::Stale(why) => {
                drop(reader);
                tracing::warn!(path = %path.display(), why, "the search index is rebuilt");
                recreate(path, busy_timeout, file)?;
                return Self::open(path, busy_timeout, None);
            }
        }
        let id = file_id(path).ok_or_else(|| {
            let detail = format!("{}: it was removed while it was opened", path.display());
            Failure::new(ErrorCode::StoreUnavailable, detail)
        })?;
        Ok(Self {
            path: path.to_owned(),
            busy_timeout,
            id,
            writer: Mutex::default(),
            changes_by_others: AtomicU64::default(),
            verified: Mutex::default(),
            readers: Mutex::new(reader.into_iter().collect()),
            document_cache: Mutex::default(),
            vocabularies: Mutex::default(),
        })
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    /// Runs a query in one snapshot of the file; writers are not blocked meanwhile.
    pub(super) fn read<R>(&self, query: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let idle = lock(&self.readers).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => reader(&self.path, self.busy_timeout)?,
        };
        let result = {
            let tx = conn.unchecked_transaction().map_err(failure)?;
            // BEGIN alone takes no snapshot; the first read does.
            let snapshot = tx
                .prepare_cached("SELECT one FROM state")
                .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
            snapshot.map_err(failure).and_then(|_| query(&tx))
        };
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS_MAX {
            readers.push(conn);
        }
        result
    }

    /// Runs a change in one transaction.
    pub(super) fn write<R>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.with_writer(|conn| {
            let tx = conn
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failure)?;
            let result = change(&tx)?;
            tx.commit().map_err(failure)?;
            Ok(result)
        })
    }

    /// Runs `work` with the connection for changes; concurrent callers wait for each other.
    pub(super) fn with_writer<R>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<R>,
    ) -> Result<R> {
        work(self.checked_writer(&mut lock(&self.writer))?)
    }

    /// The connection for changes; opens it if necessary. Notices what other connections have changed since its last
    /// use: SQLite's `data_version` of a connection ignores the connection's own commits.
    fn checked_writer<'w>(
        &self,
        writer: &'w mut Option<(Connection, i64)>,
    ) -> Result<&'w mut Connection> {
        let (conn, known_version) = match writer {
            Some(writer) => writer,
            none => {
                let conn = self::writer(&self.path, self.busy_timeout)?;
                let version = data_version(&conn)?;
                none.insert((conn, version))
            }
        };
        let version = data_version(conn)?;
        if version != *known_version {
            *known_version = version;
            self.changes_by_others.fetch_add(1, Ordering::Relaxed);
            *lock(&self.document_cache) = DocumentCache::default();
        }
        Ok(conn)
    }

    /// The number of times that a change by another connection was noticed. Looks for one, unless a change of this
    /// process is running, which has looked when it began.
    pub(super) fn changes_by_others(&self) -> Result<u64> {
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(writer) = &mut writer {
            self.checked_writer(writer)?;
        }
        Ok(self.changes_by_others.load(Ordering::Relaxed))
    }

    /// Drops the cached vocabularies.
    pub(super) fn drop_vocabularies(&self) {
        *lock(&self.vocabularies) = Vocabularies::default();
    }

    /// Returns the size of the file and its log.
    pub(super) fn bytes(&self) -> u64 {
        let size = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
        size(&self.path) + size(&with_suffix(&self.path, "-wal"))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn unavailable(path: &Path, error: &io::Error) -> Failure {
    let detail = format!("{}: {error}", path.display());
    Failure::new(ErrorCode::StoreUnavailable, detail)
        .with_hint("check that the directory may be written")
}

/// Creates an empty file that only its owner can read. An existing file is not even opened: closing it would release
/// the locks that other connections of this process hold on it.
fn create_file(path: &Path) -> Result<()> {
    if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(directory);
        created.map_err(|e| unavailable(directory, &e))?;
    }
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(unavailable(path, &e)),
        _ => Ok(()),
    }
}

/// Determines the state of a file. Refuses a file that is neither empty nor an index of filrouge.
fn determine_state(conn: &Connection, path: &Path) -> Result<FileState> {
    let not_an_index = || {
        let detail = format!("{} is not a search index of filrouge", path.display());
        Failure::new(ErrorCode::Invalid, detail).with_hint(
            "delete it if it is an index that was damaged, or choose another path for the index",
        )
    };
    let tx = conn.unchecked_transaction().map_err(failure)?;
    let pragma = |name| tx.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // Another process may be creating the file: this transaction sees both its tables and its mark, or neither.
    let id = pragma("application_id").map_err(|e| match failure(e) {
        f if f.code == ErrorCode::IntegrityError => not_an_index(),
        f => f,
    })?;
    let tables = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
        row.get::<_, i64>(0)
    });
    if id != APPLICATION_ID {
        return match tables.map_err(failure) {
            Ok(0) if id == 0 => Ok(FileState::Empty),
            Err(f) if f.code != ErrorCode::IntegrityError => Err(f),
            _ => Err(not_an_index()),
        };
    }
    let is_usable = tables.map_err(failure).and_then(|_| {
        let format = pragma("user_version").map_err(failure)?;
        let same_format = format == FORMAT;
        if same_format {
            let sql = "SELECT count(*) FROM state WHERE one = 1";
            let count: i64 = tx.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
            return Ok(count == 1);
        }
        Ok(false)
    });
    match is_usable {
        Ok(true) => Ok(FileState::Ready),
        Ok(false) => Ok(FileState::Stale("it has another format")),
        // `Internal`: a table is missing.
        Err(f) if matches!(f.code, ErrorCode::IntegrityError | ErrorCode::Internal) => {
            Ok(FileState::Stale("it is damaged"))
        }
        Err(f) => Err(f),
    }
}

/// Creates the tables of an index in an empty file, unless another process has done so.
fn create_index(path: &Path, busy_timeout: Duration) -> Result<()> {
    let mut conn = writer(path, busy_timeout)?;
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = tx.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    if tables > 0 {
        // Another process has created it.
        return Ok(());
    }
    tx.execute_batch(include_str!("schema.sql"))
        .map_err(failure)?;
    // The counter of removals and the first numbers are random, so that they almost certainly differ from those of an
    // earlier file at this path. Document numbers stay far below 2^52, so that every JSON reader accepts them.
    let (forgotten, last_number) = (random()? >> 1, random()? >> 16);
    tx.execute(
        "INSERT INTO state (one, forgotten) VALUES (1, ?1)",
        [forgotten],
    )
    .map_err(failure)?;
    let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('session', ?1), ('document', ?1)";
    tx.execute(sql, [last_number]).map_err(failure)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)
        .and_then(|()| tx.pragma_update(None, "user_version", FORMAT))
        .and_then(|()| tx.commit())
        .map_err(failure)
}

/// Returns a random number from 0 to 2^63 - 1.
fn random() -> Result<i64> {
    let mut random = [0; 8];
    OsEntropy.fill(&mut random)?;
    Ok(i64::from_be_bytes(random) & i64::MAX)
}

/// Deletes the file `examined` with its log, and creates a new index. Does nothing if another file has already replaced
/// it.
fn recreate(path: &Path, busy_timeout: Duration, examined: Option<FileId>) -> Result<()> {
    let directory = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    // Several processes may find the file unusable at the same time. The lock on the directory lets only one of them
    // delete the file; the others then find another file.
    let lock = File::open(directory).and_then(|d| d.lock().map(|()| d));
    let _locked = lock.map_err(|e| unavailable(directory, &e))?;
    if file_id(path) != examined {
        return Ok(());
    }
    // The log is deleted first, because SQLite would apply it to a new file.
    for name in [
        with_suffix(path, "-wal"),
        with_suffix(path, "-shm"),
        path.to_owned(),
    ] {
        match fs::remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unavailable(&name, &e)),
            _ => {}
        }
    }
    create_file(path)?;
    create_index(path, busy_timeout)
}

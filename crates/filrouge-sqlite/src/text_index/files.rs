//! The file of an index: what it is, how it is made, and its connections.
//!
//! It can be made again: of another format or damaged it is removed and made anew, once it is known to be an index of
//! filrouge's by its `application_id`. Whoever has the removed one open sees that another file is in its place.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::{Entropy, OsEntropy};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::listed::Listed;
use super::vocabulary::Vocabularies;
use crate::error::failure;
use crate::open::{check_version, connect, wal_mode};

/// The version of the format.
pub(super) const FORMAT: i64 = 6;
/// "fils" in ASCII.
const APPLICATION_ID: i64 = 0x6669_6c73;
/// Postings of more than a quarter of a page take whole pages of their own: with 4 KiB the file of 8,000 messages is a
/// third larger.
const PAGE_BYTES: i64 = 16_384;
/// What a connection keeps of the file, in KiB.
pub(super) const CACHE_KIB: i64 = 16_384;
/// The log is copied back when it has so many pages, and cut to this size.
const LOG_PAGES: i64 = 256;
/// Read connections that are kept.
const READERS: usize = 4;

/// An index's file, as long as it is the one at its path.
pub(super) struct Files {
    path: PathBuf,
    busy_timeout: Duration,
    place: Place,
    writer: Mutex<Option<Connection>>,
    readers: Mutex<Vec<Connection>>,
    /// What is remembered of it.
    pub(super) listed: Mutex<Listed>,
    pub(super) vocabularies: Mutex<Vocabularies>,
}

/// Which file it is: its device and number.
pub(super) type Place = (u64, u64);

/// The file that is at a path.
pub(super) fn place(path: &Path) -> Option<Place> {
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

enum Found {
    Ready,
    Empty,
    /// Ours, and of no use.
    Stale(&'static str),
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked while it held the lock has left whole values behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Opens the file at `path`, which is made if it is not there. `bad`: a file that has shown itself to be damaged.
    pub(super) fn open(
        path: &Path,
        busy_timeout: Duration,
        bad: Option<Place>,
    ) -> Result<Self, Failure> {
        check_version()?;
        make_file(path)?;
        let at = place(path);
        let damaged = bad.is_some() && at == bad;
        let (reader, found) = match damaged {
            true => (None, Found::Stale("it is damaged")),
            false => {
                let conn = connect(path, busy_timeout, OpenFlags::empty())?;
                let found = look(&conn, path)?;
                if matches!(found, Found::Ready) {
                    only_read(&conn)?;
                }
                (Some(conn), found)
            }
        };
        match found {
            Found::Ready => {}
            Found::Empty => {
                drop(reader);
                make(path, busy_timeout)?;
                return Self::open(path, busy_timeout, None);
            }
            Found::Stale(why) => {
                drop(reader);
                tracing::warn!(path = %path.display(), why, "the search index is made anew");
                remake(path, busy_timeout, at)?;
                return Self::open(path, busy_timeout, None);
            }
        }
        let place = place(path).ok_or_else(|| {
            let what = format!("{}: it was removed while it was opened", path.display());
            Failure::new(ErrorCode::StoreUnavailable, what)
        })?;
        Ok(Self {
            path: path.to_owned(),
            busy_timeout,
            place,
            writer: Mutex::default(),
            readers: Mutex::new(reader.into_iter().collect()),
            listed: Mutex::default(),
            vocabularies: Mutex::default(),
        })
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    /// Asks one sight of the file; writers do not wait for it.
    pub(super) fn read<R>(
        &self,
        question: impl FnOnce(&Connection) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let kept = lock(&self.readers).pop();
        let conn = match kept {
            Some(conn) => conn,
            None => reader(&self.path, self.busy_timeout)?,
        };
        let answer = {
            let tx = conn.unchecked_transaction().map_err(failure)?;
            // BEGIN alone takes no sight; the first read does.
            let begun = tx
                .prepare_cached("SELECT one FROM state")
                .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
            begun.map_err(failure).and_then(|_| question(&tx))
        };
        let mut readers = lock(&self.readers);
        if readers.len() < READERS {
            readers.push(conn);
        }
        answer
    }

    /// Makes a change, all of it or none.
    pub(super) fn write<R>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with_writer(|conn| {
            let tx = conn
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failure)?;
            let result = change(&tx)?;
            tx.commit().map_err(failure)?;
            Ok(result)
        })
    }

    pub(super) fn with_writer<R>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut writer = lock(&self.writer);
        let conn = match &mut *writer {
            Some(conn) => conn,
            none => none.insert(self::writer(&self.path, self.busy_timeout)?),
        };
        work(conn)
    }

    /// Forgets the words that are remembered.
    pub(super) fn forget(&self) {
        *lock(&self.vocabularies) = Vocabularies::default();
    }

    /// Bytes of the file and its log.
    pub(super) fn bytes(&self) -> u64 {
        let of = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
        of(&self.path) + of(&beside(&self.path, "-wal"))
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn unavailable(path: &Path, error: &io::Error) -> Failure {
    let what = format!("{}: {error}", path.display());
    Failure::new(ErrorCode::StoreUnavailable, what)
        .with_hint("check that the directory may be written")
}

/// Makes an empty file for nobody but its owner. One that is there is not even opened: closing it would let go of the
/// locks that other connections of this process have on it.
fn make_file(path: &Path) -> Result<(), Failure> {
    if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        let mut make = DirBuilder::new();
        let made = make.recursive(true).mode(0o700).create(directory);
        made.map_err(|e| unavailable(directory, &e))?;
    }
    let mut open = OpenOptions::new();
    match open.write(true).create_new(true).mode(0o600).open(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(unavailable(path, &e)),
        _ => Ok(()),
    }
}

fn reader(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    only_read(&conn)?;
    Ok(conn)
}

fn only_read(conn: &Connection) -> Result<(), Failure> {
    conn.pragma_update(None, "query_only", true)
        .map_err(failure)?;
    keep(conn, CACHE_KIB)
}

/// How much a connection keeps of the file.
pub(super) fn keep(conn: &Connection, kib: i64) -> Result<(), Failure> {
    conn.pragma_update(None, "cache_size", -kib)
        .map_err(failure)
}

fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection, Failure> {
    let conn = connect(path, busy_timeout, OpenFlags::empty())?;
    // These have an effect on a file that is empty only.
    conn.pragma_update(None, "page_size", PAGE_BYTES)
        .and_then(|()| conn.pragma_update(None, "auto_vacuum", "INCREMENTAL"))
        .map_err(failure)?;
    let mode = wal_mode(&conn, busy_timeout)?;
    if mode != "wal" {
        let what = format!(
            "the file system of {} does not allow WAL (got {mode})",
            path.display()
        );
        return Err(Failure::new(ErrorCode::StoreUnavailable, what)
            .with_hint("keep the search index on a local disk"));
    }
    // A commit that a power cut takes is made again from the source, so that none is flushed; but what is in the file
    // stays whole, and what was forgotten is flushed by the checkpoint that follows it.
    for (name, value) in [
        ("synchronous", 1),
        ("secure_delete", 1),
        ("wal_autocheckpoint", LOG_PAGES),
        ("journal_size_limit", LOG_PAGES * PAGE_BYTES),
        ("cache_size", -CACHE_KIB),
    ] {
        conn.pragma_update(None, name, value).map_err(failure)?;
    }
    Ok(conn)
}

/// Looks what a file is, and refuses one that is not an index.
fn look(conn: &Connection, path: &Path) -> Result<Found, Failure> {
    let foreign = || {
        let what = format!("{} is not a search index of filrouge", path.display());
        Failure::new(ErrorCode::Invalid, what).with_hint(
            "delete it if it is an index that was damaged, or choose another path for the index",
        )
    };
    let tx = conn.unchecked_transaction().map_err(failure)?;
    let pragma = |name| tx.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // Another one may be making it: its tables are seen with its mark, or not at all.
    let id = pragma("application_id").map_err(|e| match failure(e) {
        f if f.code == ErrorCode::IntegrityError => foreign(),
        f => f,
    })?;
    let tables = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
        row.get::<_, i64>(0)
    });
    if id != APPLICATION_ID {
        return match tables.map_err(failure) {
            Ok(0) if id == 0 => Ok(Found::Empty),
            Err(f) if f.code != ErrorCode::IntegrityError => Err(f),
            _ => Err(foreign()),
        };
    }
    let whole = tables.map_err(failure).and_then(|_| {
        let format = pragma("user_version").map_err(failure)?;
        let of_this = format == FORMAT;
        if of_this {
            let sql = "SELECT count(*) FROM state WHERE one = 1";
            let one: i64 = tx.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
            return Ok(one == 1);
        }
        Ok(false)
    });
    match whole {
        Ok(true) => Ok(Found::Ready),
        Ok(false) => Ok(Found::Stale("it is of another format")),
        // `Internal`: a table that is not there.
        Err(f) if matches!(f.code, ErrorCode::IntegrityError | ErrorCode::Internal) => {
            Ok(Found::Stale("it is damaged"))
        }
        Err(f) => Err(f),
    }
}

fn make(path: &Path, busy_timeout: Duration) -> Result<(), Failure> {
    let mut conn = writer(path, busy_timeout)?;
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = tx.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    if tables > 0 {
        // Another one was faster.
        return Ok(());
    }
    tx.execute_batch(include_str!("schema.sql"))
        .map_err(failure)?;
    // Other than what a file that was here before has counted to and given, as good as certainly. Numbers of documents
    // stay far below 2^52, which every reader of JSON takes.
    let (forgotten, before) = (random()? >> 1, random()? >> 16);
    tx.execute(
        "INSERT INTO state (one, forgotten) VALUES (1, ?1)",
        [forgotten],
    )
    .map_err(failure)?;
    let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('session', ?1), ('document', ?1)";
    tx.execute(sql, [before]).map_err(failure)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)
        .and_then(|()| tx.pragma_update(None, "user_version", FORMAT))
        .and_then(|()| tx.commit())
        .map_err(failure)
}

/// From 0 to 2^63 - 1.
fn random() -> Result<i64, Failure> {
    let mut random = [0; 8];
    OsEntropy.fill(&mut random)?;
    Ok(i64::from_be_bytes(random) & i64::MAX)
}

/// Removes the file that was looked at, with its log.
fn remake(path: &Path, busy_timeout: Duration, at: Option<Place>) -> Result<(), Failure> {
    let directory = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    // Of several processes that find it so, one removes it; the others then find another file.
    let held = File::open(directory).and_then(|d| d.lock().map(|()| d));
    let _held = held.map_err(|e| unavailable(directory, &e))?;
    if place(path) != at {
        return Ok(());
    }
    // The log first: beside a new file it would be taken for that one's.
    for name in [beside(path, "-wal"), beside(path, "-shm"), path.to_owned()] {
        match fs::remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unavailable(&name, &e)),
            _ => {}
        }
    }
    make_file(path)?;
    make(path, busy_timeout)
}

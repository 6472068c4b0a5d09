//! The search index in a file of its own (DESIGN §10; docs/format.md, "The search index"): postings of words, and the
//! bodies of documents, by whose they are. It is derived: whoever loses it makes it again.

mod apply;
mod ask;
mod blocks;
mod bodies;
mod builder;
mod candidates;
mod counts;
mod documents;
mod files;
mod flush;
mod forget;
mod junctions;
mod lexicon;
mod listed;
mod literal;
mod log;
mod postings;
mod rows;
mod segments;
mod spellings;
mod tidy;
mod vectors;
mod vocabulary;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, IndexedSession, Known, Seen,
    TextIndex, Wanted, Which,
};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, Transaction, params};

use apply::Change;
use files::{Files, Place};
use listed::Within;
use rows::{SESSION, all, indexed, one, run};

use crate::error::{failure, malformed};

/// How long another process's change is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A search index in a SQLite file. It may be open in several processes at once.
pub struct SqliteIndex {
    path: PathBuf,
    files: RwLock<Arc<Files>>,
}

impl SqliteIndex {
    /// Opens the index at `path`, which is made if it is not there. One of another format, or damaged, is emptied.
    ///
    /// # Errors
    /// `invalid` when the file is something else: it is left as it is. The store's failures.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Failure> {
        let path = path.into();
        let files = Files::open(&path, BUSY_TIMEOUT, None)?;
        let index = Self {
            path,
            files: RwLock::new(Arc::new(files)),
        };
        if index.read(|_, conn| forget::is_due(conn))? {
            // Whoever forgot has been told that it was not finished.
            if let Err(failure) = forget::erase(&*index.files()?) {
                tracing::warn!(%failure, "traces of what was forgotten are still in the index's log");
            }
        }
        Ok(index)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it is open; opened again if another one has taken its place.
    fn files(&self) -> Result<Arc<Files>, Failure> {
        let files = self
            .files
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if files::place(&self.path) == Some(files.place()) {
            return Ok(files);
        }
        self.reopened(None)
    }

    fn reopened(&self, bad: Option<Place>) -> Result<Arc<Files>, Failure> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let now = files::place(&self.path);
        if now != Some(files.place()) || bad == now {
            *files = Arc::new(Files::open(&self.path, BUSY_TIMEOUT, bad)?);
        }
        Ok(files.clone())
    }

    fn with<R>(&self, work: impl FnOnce(&Files) -> Result<R, Failure>) -> Result<R, Failure> {
        let files = self.files()?;
        work(&files).map_err(|found| match found.code {
            ErrorCode::IntegrityError => match self.reopened(Some(files.place())) {
                Ok(_) => Failure::new(
                    ErrorCode::StoreUnavailable,
                    format!(
                        "the search index was damaged ({}); it is made anew",
                        found.detail
                    ),
                ),
                Err(failure) => failure,
            },
            _ => found,
        })
    }

    fn read<R>(
        &self,
        question: impl FnOnce(&Files, &Connection) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with(|files| files.read(|conn| question(files, conn)))
    }

    fn write<R>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with(|files| files.write(change))
    }
}

fn seen(conn: &Connection) -> Result<Seen, Failure> {
    let sql = "SELECT position, forgotten FROM state";
    let seen = one(conn, sql, [], |row| {
        Ok(Seen {
            position: row.get::<_, Option<Vec<u8>>>(0)?.map(Into::into),
            forgotten: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    })?;
    seen.ok_or_else(|| malformed("state"))
}

fn apply(
    conn: &Connection,
    updates: &[IndexUpdate],
    position: Option<&[u8]>,
) -> Result<(), Failure> {
    let mut change = Change::begin(conn)?;
    change.take(updates)?;
    change.end()?;
    if let Some(position) = position {
        run(conn, "UPDATE state SET position = ?1", [position])?;
    }
    Ok(())
}

/// Deletes all rows; the counters stay.
fn empty(tx: &Transaction<'_>) -> Result<(), Failure> {
    for table in [
        "spelling",
        "posting",
        "long_posting",
        "body",
        "document",
        "pending",
        "gone",
        "segment",
        "vector",
        "embedder",
        "session",
        "shard",
    ] {
        tx.execute(&format!("DELETE FROM {table}"), [])
            .map_err(failure)?;
    }
    let sql = "UPDATE state SET position = NULL, forgotten = forgotten + 1, erasing = 1";
    run(tx, sql, [])?;
    log::give_back(tx, 0)
}

/// The sessions that are asked for.
fn sessions(conn: &Connection, which: Which<'_>) -> Result<Vec<IndexedSession>, Failure> {
    let mut found = Vec::new();
    match which {
        Which::Within(reach) => found = Within::find(conn, reach)?.sessions(conn)?,
        Which::Numbers(_, numbers) => {
            let sql = format!("{SESSION} WHERE s.id = ?1");
            for no in numbers {
                found.extend(one(conn, &sql, [no.cast_signed()], indexed)?);
            }
        }
        Which::Named(keys) => {
            let sql = format!("{SESSION} WHERE s.realm = ?1 AND s.key = ?2");
            for (realm, key) in keys {
                found.extend(one(conn, &sql, params![realm, key], indexed)?);
            }
        }
        Which::Unread(limit) => {
            let sql = format!("{SESSION} WHERE s.stamp_a = 0 AND s.stamp_b = 0 LIMIT ?1");
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            found = all(conn, &sql, [limit], indexed)?;
        }
    }
    Ok(found)
}

impl TextIndex for SqliteIndex {
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        self.read(|_, conn| {
            Ok(Known {
                seen: seen(conn)?,
                sessions: sessions(conn, which)?,
            })
        })
    }

    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.write(|tx| {
            if let Some(expected) = expected
                && seen(tx)? != *expected
            {
                return Ok(false);
            }
            apply(tx, updates, position).map(|()| true)
        })
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.with(|files| {
            let count = files.write(|tx| forget::forget(tx, realm, key))?;
            files.forget();
            forget::erase(files)?;
            Ok(count)
        })
    }

    fn clear(&self) -> Result<(), Failure> {
        self.with(|files| {
            files.write(empty)?;
            files.forget();
            forget::erase(files)
        })
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        self.read(|files, conn| match query.wanted {
            Wanted::All(_) | Wanted::Any(_) => candidates::find(files, conn, query),
            Wanted::Nearest(embedder, vector, limit) => {
                vectors::nearest((files, conn), (embedder, vector), query, limit)
            }
            Wanted::WithoutVector(embedder, limit) => {
                vectors::without(files, conn, embedder, query.kinds, limit)
            }
        })
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.read(|_, conn| bodies::show(conn, documents, each))
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.with(|files| {
            if files.read(forget::is_due)? {
                forget::erase(files)?;
            }
            files.write(|tx| Ok(tidy::step(tx)? || log::shrink(tx)?))
        })
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.read(|files, conn| {
            // Counted with each change, by shard.
            let sql =
                "SELECT total(sessions), total(documents), total(text), total(pending) FROM shard";
            let count = |row: &rusqlite::Row<'_>, at| row.get::<_, f64>(at).map(|n| n as u64);
            let status = one(conn, sql, [], |row| {
                Ok(IndexStatus {
                    format: u32::try_from(files::FORMAT).unwrap_or(0),
                    sessions: count(row, 0)?,
                    documents: count(row, 1)?,
                    text_bytes: count(row, 2)?,
                    bytes: files.bytes(),
                    pending: count(row, 3)?,
                    vectors: Vec::new(),
                })
            })?;
            let sql = "SELECT name, documents FROM embedder WHERE documents > 0 ORDER BY name";
            let vectors = all(conn, sql, [], |row| {
                Ok((
                    row.get::<_, String>(0)?.into(),
                    row.get::<_, i64>(1)?.cast_unsigned(),
                ))
            })?;
            Ok(IndexStatus {
                vectors,
                ..status.unwrap_or_default()
            })
        })
    }
}

//! The search index in its own file (DESIGN §10; docs/format.md, "The search index"): the documents of each word
//! (postings), and the bodies of the documents, separately for each owner. All its data is derived and can be rebuilt.

mod apply;
mod blocks;
mod bodies;
mod builder;
mod candidates;
mod connections;
mod counts;
mod document_cache;
mod documents;
mod files;
mod flush;
mod forget;
mod junctions;
mod lexicon;
mod literal;
mod log;
mod postings;
mod rows;
mod seals;
mod segments;
mod spellings;
mod terms;
mod tidy;
mod vectors;
mod verified;
mod vocabulary;
mod words;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexKey, IndexScope, IndexState,
    IndexStatus, IndexUpdate, IndexVersion, IndexedDocument, IndexedSession, SessionSelection,
    TextIndex,
};
use filrouge_types::{ErrorCode, Result};
use rusqlite::{Connection, Transaction, params};

use apply::IndexChange;
use document_cache::ResolvedScope;
use files::{FileId, IndexFile};
use rows::{SESSION, execute, query_all, query_optional, read_session};

use crate::error::{failure, malformed};

/// How long a change waits for another process's change to end.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A search index in a SQLite file. It may be open in several processes at once.
pub struct SqliteIndex {
    path: PathBuf,
    /// The open file.
    file: RwLock<Arc<IndexFile>>,
    /// The key of the seals, if there is one.
    key: Option<IndexKey>,
    /// [`TextIndex::damaged`].
    damaged: AtomicU64,
}

impl SqliteIndex {
    /// Opens the index at `path`; creates it when it is missing. An index that is damaged or has another format is
    /// replaced by an empty one.
    ///
    /// # Errors
    /// `invalid` when the file is not an index: it is not changed. The store's failures.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = IndexFile::open(&path, BUSY_TIMEOUT, None)?;
        let index = Self {
            path,
            file: RwLock::new(Arc::new(file)),
            key: None,
            damaged: AtomicU64::default(),
        };
        if index.read(|_, conn| forget::is_due(conn))? {
            // The process that began this removal has already reported to its caller that the removal was unfinished,
            // so a failure is only logged.
            if let Err(failure) = forget::truncate_log(&*index.current_file()?) {
                tracing::warn!(%failure, "traces of what was forgotten are still in the index's log");
            }
        }
        Ok(index)
    }

    /// Seals what is written with this key, and checks what is read.
    #[must_use]
    pub fn with_key(mut self, key: Option<IndexKey>) -> Self {
        self.key = key;
        self
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file. Reopens it when another file has replaced it.
    fn current_file(&self) -> Result<Arc<IndexFile>> {
        let file = self
            .file
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if files::file_id(&self.path) == Some(file.id()) {
            return Ok(file);
        }
        self.reopen(None)
    }

    /// Opens the file again if another file has replaced it. If it is the file `damaged`, replaces it by an empty
    /// index.
    fn reopen(&self, damaged: Option<FileId>) -> Result<Arc<IndexFile>> {
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        let current_id = files::file_id(&self.path);
        if current_id != Some(file.id()) || damaged == current_id {
            *file = Arc::new(IndexFile::open(&self.path, BUSY_TIMEOUT, damaged)?);
        }
        Ok(file.clone())
    }

    /// Runs `work` on the open file. If the file turns out to be damaged, replaces it by an empty index and fails with
    /// `store_unavailable`.
    fn with_file<R>(&self, work: impl FnOnce(&IndexFile) -> Result<R>) -> Result<R> {
        let file = self.current_file()?;
        work(&file).map_err(|error| match error.code {
            ErrorCode::IntegrityError => match self.reopen(Some(file.id())) {
                Ok(_) => {
                    self.damaged.fetch_add(1, Ordering::Relaxed);
                    ErrorCode::StoreUnavailable.failure(format!(
                        "the search index was damaged ({}); it is rebuilt",
                        error.detail
                    ))
                }
                Err(failure) => failure,
            },
            _ => error,
        })
    }

    fn read<R>(&self, query: impl FnOnce(&IndexFile, &Connection) -> Result<R>) -> Result<R> {
        self.with_file(|file| file.read(|conn| query(file, conn)))
    }

    fn write<R>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.with_file(|file| file.write(change))
    }
}

/// Reads the position in the change feed that the index has reached, and its counter of removals.
fn read_version(conn: &Connection) -> Result<IndexVersion> {
    let sql = "SELECT position, forgotten FROM state";
    let version = query_optional(conn, sql, [], |row| {
        Ok(IndexVersion {
            position: row.get::<_, Option<Vec<u8>>>(0)?.map(Into::into),
            forgotten: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    })?;
    version.ok_or_else(|| malformed("state"))
}

/// Applies updates and, if given, records the position in the change feed that they reach.
fn apply(
    conn: &Connection,
    key: Option<&IndexKey>,
    updates: &[IndexUpdate],
    position: Option<&[u8]>,
) -> Result<()> {
    let mut change = IndexChange::begin(conn, key)?;
    change.apply(updates)?;
    change.finish(position)
}

/// Deletes all rows except the state and the counters of numbers, so that no number is used again.
fn delete_all(tx: &Transaction<'_>) -> Result<()> {
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
    let sql =
        "UPDATE state SET position = NULL, seal = NULL, forgotten = forgotten + 1, erasing = 1";
    execute(tx, sql, [])?;
    log::release_pages(tx, 0)
}

/// Reads the selected sessions.
fn read_sessions(
    conn: &Connection,
    selection: SessionSelection<'_>,
) -> Result<Vec<IndexedSession>> {
    let mut sessions = Vec::new();
    match selection {
        SessionSelection::Within(reach) => {
            sessions = ResolvedScope::resolve(conn, reach)?.sessions(conn)?;
        }
        SessionSelection::Numbers(_, numbers) => {
            let sql = format!("{SESSION} WHERE s.id = ?1");
            for no in numbers {
                sessions.extend(query_optional(
                    conn,
                    &sql,
                    [no.cast_signed()],
                    read_session,
                )?);
            }
        }
        SessionSelection::Named(keys) => {
            let sql = format!("{SESSION} WHERE s.realm = ?1 AND s.key = ?2");
            for (realm, key) in keys {
                sessions.extend(query_optional(
                    conn,
                    &sql,
                    params![realm, key],
                    read_session,
                )?);
            }
        }
        SessionSelection::Unread(limit) => {
            let sql = format!("{SESSION} WHERE s.stamp_a = 0 AND s.stamp_b = 0 LIMIT ?1");
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            sessions = query_all(conn, &sql, [limit], read_session)?;
        }
        SessionSelection::Stamped(second) => {
            let sql = format!("{SESSION} WHERE s.stamp_b = ?1");
            sessions = query_all(conn, &sql, [second.cast_signed()], read_session)?;
        }
    }
    Ok(sessions)
}

impl TextIndex for SqliteIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState> {
        self.read(|_, conn| {
            Ok(IndexState {
                seen: read_version(conn)?,
                sessions: read_sessions(conn, selection)?,
            })
        })
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool> {
        self.write(|tx| {
            if let Some(expected) = expected
                && read_version(tx)? != *expected
            {
                return Ok(false);
            }
            apply(tx, self.key.as_ref(), updates, position).map(|()| true)
        })
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64> {
        self.with_file(|file| {
            let count = file.write(|tx| forget::forget(tx, self.key.as_ref(), (realm, key)))?;
            file.drop_vocabularies();
            forget::truncate_log(file)?;
            Ok(count)
        })
    }

    fn clear(&self) -> Result<()> {
        self.with_file(|file| {
            file.write(delete_all)?;
            file.drop_vocabularies();
            forget::truncate_log(file)
        })
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>> {
        self.read(|file, conn| match query.wanted {
            CandidateFilter::All(_) | CandidateFilter::Any(_) => {
                candidates::find(file, conn, query)
            }
            CandidateFilter::Nearest(embedder, vector, limit) => {
                vectors::nearest((file, conn), (embedder, vector), query, limit)
            }
            CandidateFilter::WithoutVector(embedder, limit) => {
                vectors::without_vector(file, conn, embedder, query.kinds, limit)
            }
        })
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>> {
        self.read(|_, conn| bodies::named(conn, numbers))
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<()> {
        self.read(|_, conn| bodies::each_body((conn, self.key.as_ref()), documents, each))
    }

    fn tidy(&self) -> Result<bool> {
        self.with_file(|file| {
            if file.read(forget::is_due)? {
                forget::truncate_log(file)?;
            }
            file.write(|tx| Ok(tidy::step(tx, self.key.as_ref())? || log::shrink(tx)?))
        })
    }

    fn verify(&self, scope: &IndexScope) -> Result<()> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        self.with_file(|file| {
            let changes = file.changes_by_others()?;
            let damage = file.read(|conn| seals::check((file, conn), key, scope, changes))?;
            if damage.count() == 0 {
                return Ok(());
            }
            for (_, session_id) in &damage.sessions {
                tracing::warn!(%session_id, "the search index has other documents of a session than it was given: the session is read again");
            }
            self.damaged.fetch_add(damage.count() as u64, Ordering::Relaxed);
            file.write(|tx| seals::repair(tx, key, &damage))
        })
    }

    fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    fn status(&self) -> Result<IndexStatus> {
        self.read(|file, conn| {
            // The counts are kept per shard and updated by each change.
            let sql =
                "SELECT total(sessions), total(documents), total(text), total(pending) FROM shard";
            let count =
                |row: &rusqlite::Row<'_>, column| row.get::<_, f64>(column).map(|n| n as u64);
            let status = query_optional(conn, sql, [], |row| {
                Ok(IndexStatus {
                    format: u32::try_from(files::FORMAT).unwrap_or(0),
                    sessions: count(row, 0)?,
                    documents: count(row, 1)?,
                    text_bytes: count(row, 2)?,
                    bytes: file.bytes(),
                    pending: count(row, 3)?,
                    vectors: Vec::new(),
                })
            })?;
            let sql = "SELECT name, documents FROM embedder WHERE documents > 0 ORDER BY name";
            let vectors = query_all(conn, sql, [], |row| {
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

//! The search index in the ledger's own database (DESIGN §10; docs/adr/0026). PostgreSQL finds texts by their trigrams;
//! triggers delete redacted and erased contents from the index in the same transaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexKey, IndexScope, IndexState,
    IndexStatus, IndexUpdate, IndexVersion, IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::{ErrorCode, Failure, Result, lock};
use tokio::runtime::Handle;

use crate::connect::Connector;
use crate::error::unavailable;
use crate::migrate::SCHEMA_VERSION;
use crate::options::Options;
use crate::rows::column;
use crate::session::Sql;

mod change;
mod connections;
mod documents;
mod find;
mod seals;
mod state;
mod statement;
mod vectors;

use change::IndexChange;
use connections::{Connections, Purpose, Transaction};
use seals::NextChecks;

/// The maximum number of connections for queries: a query may run while another one fetches bodies.
const READ_CONNECTIONS_MAX: usize = 4;
/// The maximum number of connections for writes: one for a change, and one for a deletion that is requested meanwhile.
const WRITE_CONNECTIONS_MAX: usize = 2;

/// The search index of the ledger in one PostgreSQL database; several servers may have it open at once.
///
/// Its methods block, so they must not be called on a worker thread of an async runtime.
pub struct PostgresIndex {
    readers: Connections,
    writers: Connections,
    /// Whether the trigram index, `search_words`, also contains the numbers of shards and realms (see [`statement`]).
    index_has_shards: AtomicBool,
    /// The key of the seals, if there is one.
    key: Option<IndexKey>,
    next_checks: Mutex<NextChecks>,
    /// [`TextIndex::damaged`].
    damaged: AtomicU64,
}

impl PostgresIndex {
    /// Opens the index of the ledger that `options` name; `None` for a distributed store, which has no index. The
    /// ledger's schema must be up to date. The index's connections run on the async runtime of `handle`.
    ///
    /// # Errors
    /// `invalid` for a schema that is not this program's; `store_unavailable`.
    pub fn open(options: &Options, handle: &Handle) -> Result<Option<Self>> {
        let connector = Arc::new(Connector::new(options.server.clone(), options.lock_timeout));
        let read_connector = Arc::new(connector.for_reading());
        let (timeout, handle) = (options.answer_timeout, || handle.clone());
        let index = Self {
            readers: Connections::new(
                read_connector,
                READ_CONNECTIONS_MAX,
                Purpose::Reading,
                timeout,
                handle(),
            )?,
            writers: Connections::new(
                connector,
                WRITE_CONNECTIONS_MAX,
                Purpose::Writing,
                timeout,
                handle(),
            )?,
            index_has_shards: AtomicBool::default(),
            key: None,
            next_checks: Mutex::default(),
            damaged: AtomicU64::default(),
        };
        Ok(index.check_format()?.then_some(index))
    }

    /// Seals what is written with this key, and checks what is read.
    #[must_use]
    pub fn with_key(mut self, key: Option<IndexKey>) -> Self {
        self.key = key;
        self
    }

    /// Returns whether the store has an index. Refuses a store with another version of the schema. Empties an index of
    /// another format, so that it is filled again. Logs a warning if PostgreSQL cannot find texts by their trigrams.
    fn check_format(&self) -> Result<bool> {
        static SCHEMA: Sql = Sql::new(
            "SELECT value, EXISTS (SELECT FROM filrouge.store WHERE name = 'distribute')
             FROM filrouge.store WHERE name = 'schema'",
            &[],
        );
        static HAS_CURRENT_FORMAT: Sql =
            Sql::new("SELECT format = 1 FROM filrouge.search_state", &[]);
        let has_current_format = self.read(|tx| {
            let row = tx.query_opt(&SCHEMA, &[])?;
            let schema: Option<String> = row.as_ref().map(|row| column(row, 0)).transpose()?;
            if schema.as_deref() != Some(&SCHEMA_VERSION.to_string()) {
                let detail = "the store's schema is not this filrouge's";
                return Err(Failure::new(ErrorCode::Invalid, detail)
                    .with_hint("bring it up to date with `filrouge migrate up`"));
            }
            let distributed = row.as_ref().map(|row| column(row, 1)).transpose()?;
            if distributed == Some(true) {
                return Ok(None);
            }
            let format = tx.query_opt(&HAS_CURRENT_FORMAT, &[])?;
            format.map_or(Ok(false), |row| column(&row, 0)).map(Some)
        })?;
        let Some(has_current_format) = has_current_format else {
            return Ok(false);
        };
        if !has_current_format {
            self.clear()?;
        }
        self.detect_trigram_index()?;
        if let Some(lacks) = self.lacks()? {
            tracing::warn!(
                %lacks,
                "searches scan all of an owner's documents: let the role that owns the schema have CREATE on the \
                 database, and rebuild the index"
            );
        }
        Ok(true)
    }

    /// The reason why PostgreSQL cannot find texts by their trigrams; `None` if it can. If the role that owns the
    /// tables rebuilds the index, the rebuild tries to remove the cause.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn lacks(&self) -> Result<Option<String>> {
        static SQL: Sql = Sql::new("SELECT filrouge.search_prepare(false)", &[]);
        self.read(|tx| {
            let row = tx.query_opt(&SQL, &[])?;
            row.map_or(Ok(None), |row| column(&row, 0))
        })
    }

    /// Detects whether the trigram index also contains the numbers of shards and realms.
    fn detect_trigram_index(&self) -> Result<()> {
        static SQL: Sql = Sql::new(
            "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('filrouge.search_words')
                 AND indnatts = 3 AND indisvalid)",
            &[],
        );
        let has_shards = self.read(|tx| {
            let row = tx.query_opt(&SQL, &[])?;
            row.map_or(Ok(false), |row| column(&row, 0))
        })?;
        self.index_has_shards.store(has_shards, Ordering::Relaxed);
        Ok(())
    }

    fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.readers.begin()?;
        let result = work(&transaction);
        transaction.finish(result)
    }

    /// Runs `work`, which changes the index, in a transaction under the lock of the index.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.writers.begin()?;
        let result = change::lock(&transaction).and_then(|()| work(&transaction));
        transaction.finish(result)
    }

    /// Empties the index after an `integrity_error`; returns the failure to report.
    fn emptied(&self, why: Failure) -> Failure {
        if why.code != ErrorCode::IntegrityError {
            return why;
        }
        tracing::warn!(%why, "the search index is damaged: it is rebuilt");
        self.damaged.fetch_add(1, Ordering::Relaxed);
        let unusable = || {
            unavailable(format!(
                "the search index was damaged ({}); it is rebuilt",
                why.detail
            ))
        };
        self.clear().err().unwrap_or_else(unusable)
    }

    /// Runs a check of a scope, or of the index (`None`), if it is due; returns whether it found no damage.
    fn check(
        &self,
        scope: Option<&IndexScope>,
        check: impl FnOnce(&Transaction<'_>) -> Result<bool>,
    ) -> Result<bool> {
        if !lock(&self.next_checks).is_due(scope) {
            return Ok(true);
        }
        let began = Instant::now();
        let is_intact = self.read(check).map_err(|failure| self.emptied(failure))?;
        if is_intact {
            lock(&self.next_checks).record(scope, began);
        }
        Ok(is_intact)
    }
}

impl TextIndex for PostgresIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState> {
        self.read(|tx| {
            Ok(IndexState {
                seen: state::read_version(tx)?,
                sessions: state::read_sessions(tx, selection)?,
            })
        })
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool> {
        let changed = self.write(|tx| {
            if let Some(expected) = expected
                && state::read_version(tx)? != *expected
            {
                return Ok(false);
            }
            let change = IndexChange::new(tx, self.key.as_ref());
            change.apply(updates, position).map(|()| true)
        });
        changed.map_err(|failure| self.emptied(failure))
    }

    /// Deletes the session's documents. Later statements find nothing of the session. As after an erasure in the
    /// ledger, PostgreSQL keeps old row versions until a filrouge server vacuums the tables, within a minute or two
    /// (docs/format.md).
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64> {
        self.write(|tx| change::forget_session(tx, realm, key))
    }

    fn clear(&self) -> Result<()> {
        self.write(change::clear)?;
        self.detect_trigram_index()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>> {
        let has_shards = self.index_has_shards.load(Ordering::Relaxed);
        self.read(|tx| match query.wanted {
            CandidateFilter::All(terms) => find::matching_all(tx, query, terms, has_shards),
            CandidateFilter::Any(terms) => find::matching_any(tx, query, terms, has_shards),
            CandidateFilter::Nearest(embedder, vector, limit) => {
                vectors::nearest(tx, (embedder, vector), query, limit)
            }
            CandidateFilter::WithoutVector(embedder, limit) => {
                vectors::without_vector(tx, embedder, query.kinds, limit)
            }
        })
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>> {
        self.read(|tx| find::named_documents(tx, numbers))
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<()> {
        self.read(|tx| find::read_bodies(tx, documents, visit))
    }

    /// Makes PostgreSQL analyze a new index once. All other maintenance is done by autovacuum, so the result is always
    /// false: no work is left.
    fn tidy(&self) -> Result<bool> {
        let transaction = self.writers.begin()?;
        let result = state::analyze_if_new(&transaction);
        transaction.finish(result).map(|()| false)
    }

    /// Checks a scope at most every ten seconds.
    fn verify(&self, scope: &IndexScope) -> Result<()> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        self.check(None, |tx| seals::check_index(tx, key).map(|()| true))?;
        let mut damaged = Vec::new();
        self.check(Some(scope), |tx| {
            damaged = seals::check(tx, key, scope)?;
            Ok(damaged.is_empty())
        })?;
        if damaged.is_empty() {
            return Ok(());
        }
        for session_id in damaged.iter().filter_map(|(_, key)| key.as_ref()) {
            tracing::warn!(%session_id, "the search index has other documents of a session than it was given: the session is read again");
        }
        self.damaged
            .fetch_add(damaged.len() as u64, Ordering::Relaxed);
        let numbers: Vec<i64> = damaged.iter().map(|(no, _)| *no).collect();
        self.write(|tx| change::forget_damaged(tx, &numbers))
    }

    fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    fn status(&self) -> Result<IndexStatus> {
        self.read(state::read_status)
    }
}

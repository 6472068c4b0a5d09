//! The search index in the ledger's own database (DESIGN §10; docs/adr/0026): PostgreSQL finds texts by their trigrams,
//! and what is redacted or erased goes from the index in the same transaction, by triggers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, Known, Seen, TextIndex,
    Wanted, Which,
};
use filrouge_types::{ErrorCode, Failure};
use tokio::runtime::Handle;

use crate::connect::Connector;
use crate::migrate::SCHEMA_VERSION;
use crate::options::Options;
use crate::rows::column;
use crate::session::Sql;

mod change;
mod connections;
mod find;
mod known;
mod question;
mod vectors;

use change::Changes;
use connections::{Connections, For, Transaction};

/// Questions that are asked at once. One may be asked while another one's bodies are shown.
const READERS: usize = 4;
/// A change, and what is told to be forgotten meanwhile.
const WRITERS: usize = 2;

/// The search index of the ledger in one PostgreSQL database; several servers may have it open at once.
///
/// Its methods block: they are for threads that may, never for those that drive a runtime.
pub struct PostgresIndex {
    readers: Connections,
    writers: Connections,
    /// Whether the index of trigrams is of shards, too.
    words: AtomicBool,
}

impl PostgresIndex {
    /// Opens the index of the ledger that `options` name, whose schema is up to date; its connections live on the runtime
    /// of `handle`.
    ///
    /// # Errors
    /// `invalid` for a schema that is not this program's; `store_unavailable`.
    pub fn open(options: &Options, handle: &Handle) -> Result<Self, Failure> {
        let connector = Arc::new(Connector::new(options.server.clone(), options.lock_timeout));
        let reading = Arc::new(connector.reading());
        let (patience, handle) = (options.answer_timeout, || handle.clone());
        let index = Self {
            readers: Connections::new(reading, READERS, For::Reading, patience, handle())?,
            writers: Connections::new(connector, WRITERS, For::Writing, patience, handle())?,
            words: AtomicBool::default(),
        };
        index.look()?;
        Ok(index)
    }

    /// Refuses another schema, and empties an index of another format.
    fn look(&self) -> Result<(), Failure> {
        static SCHEMA: Sql = Sql::new(
            "SELECT value FROM filrouge.store WHERE name = 'schema'",
            &[],
        );
        static IS_OURS: Sql = Sql::new("SELECT format = 1 FROM filrouge.search_state", &[]);
        let is_ours = self.read(|of| {
            let schema = of.one(&SCHEMA, &[])?;
            let schema: Option<String> = schema.map(|row| column(&row, 0)).transpose()?;
            if schema.as_deref() != Some(&SCHEMA_VERSION.to_string()) {
                let what = "the store's schema is not this filrouge's";
                return Err(Failure::new(ErrorCode::Invalid, what)
                    .with_hint("bring it up to date with `filrouge migrate up`"));
            }
            let format = of.one(&IS_OURS, &[])?;
            format.map_or(Ok(false), |row| column(&row, 0))
        })?;
        if !is_ours {
            self.clear()?;
        }
        self.look_for_words()?;
        if let Some(lacks) = self.lacks()? {
            tracing::warn!(
                %lacks,
                "searches look through all of an owner's documents: let the role that owns the schema have CREATE on the \
                 database, and rebuild the index"
            );
        }
        Ok(())
    }

    /// What keeps PostgreSQL from finding texts by their trigrams; `None` when it does. A rebuild by the role that owns the
    /// tables tries again.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn lacks(&self) -> Result<Option<String>, Failure> {
        static SQL: Sql = Sql::new("SELECT filrouge.search_prepare(false)", &[]);
        self.read(|of| {
            let row = of.one(&SQL, &[])?;
            row.map_or(Ok(None), |row| column(&row, 0))
        })
    }

    /// Finds out how texts are found.
    fn look_for_words(&self) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('filrouge.search_words')
                 AND indnatts = 3 AND indisvalid)",
            &[],
        );
        let words = self.read(|of| {
            let row = of.one(&SQL, &[])?;
            row.map_or(Ok(false), |row| column(&row, 0))
        })?;
        self.words.store(words, Ordering::Relaxed);
        Ok(())
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let transaction = self.readers.begin()?;
        let done = work(&transaction);
        transaction.end(done)
    }

    /// Changes the index while nobody else does.
    fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let transaction = self.writers.begin()?;
        let done = change::lock(&transaction).and_then(|()| work(&transaction));
        transaction.end(done)
    }
}

impl TextIndex for PostgresIndex {
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        self.read(|of| {
            Ok(Known {
                seen: known::seen(of)?,
                sessions: known::sessions(of, which)?,
            })
        })
    }

    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.write(|of| {
            if let Some(expected) = expected
                && known::seen(of)? != *expected
            {
                return Ok(false);
            }
            Changes::new(of).make(updates, position).map(|()| true)
        })
    }

    /// No statement finds anything of it any more. As of what the journal erases, PostgreSQL keeps old versions until a
    /// server has the tables vacuumed, within a minute or two (docs/format.md).
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.write(|of| change::forget(of, realm, key))
    }

    fn clear(&self) -> Result<(), Failure> {
        self.write(change::clear)?;
        self.look_for_words()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let words = self.words.load(Ordering::Relaxed);
        self.read(|of| match query.wanted {
            Wanted::All(terms) => find::all(of, query, terms, words),
            Wanted::Any(terms) => find::any(of, query, terms, words),
            Wanted::Nearest(embedder, vector, limit) => {
                vectors::nearest(of, (embedder, vector), query, limit)
            }
            Wanted::WithoutVector(embedder, limit) => {
                vectors::without(of, embedder, query.kinds, limit)
            }
        })
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.read(|of| find::bodies(of, documents, each))
    }

    /// But for a first look at a new index, PostgreSQL does what there is to do as it goes.
    fn tidy(&self) -> Result<bool, Failure> {
        let transaction = self.writers.begin()?;
        let done = known::analyze(&transaction);
        transaction.end(done).map(|()| false)
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.read(known::status)
    }
}

//! The search index of the ledger in OpenSearch (docs/adr/0043-search-over-opensearch.md).
//!
//! `PREFIX-meta` has one document, the state of the index (`meta`). `PREFIX-documents-GENERATION` has a row for each
//! session, each document and each vector (`rows`); the alias `PREFIX-documents` names the generation that queries
//! read. OpenSearch finds texts by their trigrams (`terms`).
//!
//! OpenSearch has no transactions. A change holds a lock, which is a part of the state, and writes there first which
//! rows it will write; its end publishes the new state (`write`). Whoever takes over the lock of a process that ended
//! in between removes what that process left.

mod change;
mod errors;
mod find;
mod index;
mod mapping;
mod merge;
mod meta;
mod requests;
mod rows;
mod state;
mod stored_meta;
mod terms;
mod vectors;
mod write;

use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate,
    IndexVersion, IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::Failure;

pub use index::{IndexSettings, OpenSearchIndex, is_prefix};
use write::Patience;

impl TextIndex for OpenSearchIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure> {
        self.ready()?;
        // The version is read first: sessions that change meanwhile belong to a later one, which a change then notices.
        let seen = self.read_meta()?.meta.version();
        Ok(IndexState {
            seen,
            sessions: self.read_sessions(selection)?,
        })
    }

    /// With `expected`, the result is also false if another process changes the index at the same time.
    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        self.ready()?;
        let groups = change::groups(updates);
        let patience = match expected {
            Some(_) => Patience::Short,
            None => Patience::Long,
        };
        for (n, group) in groups.iter().enumerate() {
            let position = position.filter(|_| n + 1 == groups.len());
            let applied = self.locked(patience, &mut |meta| {
                self.plan_change(meta, expected, group, position)
            })?;
            if applied != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes the session's rows. Later queries find nothing of the session. OpenSearch's files contain the deleted text
    /// until [`TextIndex::tidy`] has let them be rewritten, ten minutes later.
    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        self.ready()?;
        let forgotten = self.locked(Patience::Long, &mut |meta| {
            self.plan_forgetting(meta, realm, key)
        })?;
        forgotten.ok_or_else(errors::busy)
    }

    /// Creates a new, empty generation, and deletes the older ones with their files.
    fn clear(&self) -> Result<(), Failure> {
        self.ready()?;
        self.empty(|_| Ok(true))
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        self.ready()?;
        match query.wanted {
            CandidateFilter::All(terms) => self.matching_all(query, terms),
            CandidateFilter::Any(terms) => self.matching_any(query, terms),
            CandidateFilter::Nearest(embedder, vector, limit) => {
                self.nearest(query, (embedder, vector), limit)
            }
            CandidateFilter::WithoutVector(embedder, limit) => {
                self.without_vector(embedder, query.kinds, limit)
            }
        }
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure> {
        self.ready()?;
        self.named_documents(numbers)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.ready()?;
        self.read_bodies(documents, visit)
    }

    /// Lets OpenSearch rewrite the files that contain forgotten text, ten minutes after it was forgotten. All other
    /// maintenance is OpenSearch's, so the result is always false.
    fn tidy(&self) -> Result<bool, Failure> {
        self.ready()?;
        self.merge_if_due()?;
        Ok(false)
    }

    fn remains(&self) -> Option<&'static str> {
        Some(
            "in segments of OpenSearch, until a merge some ten minutes later: docs/search-opensearch.md#redacted-text",
        )
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.ready()?;
        self.read_status()
    }
}

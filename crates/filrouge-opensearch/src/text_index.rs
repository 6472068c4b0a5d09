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
mod find;
mod mapping;
mod merge;
mod meta;
mod requests;
mod rows;
mod state;
mod terms;
mod vectors;
mod write;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate,
    IndexVersion, IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::{ErrorCode, Failure};
use reqwest::Method;
use tokio::runtime::Handle;

use crate::client::{Body, Client, ClientError, Endpoint};
use meta::Place;
use write::Patience;

/// The settings of an index.
#[derive(Debug, Clone)]
pub struct IndexSettings {
    /// The server: OpenSearch 2.7 or later.
    pub endpoint: Endpoint,
    /// Certificates of authorities in PEM form, besides those that the system trusts.
    pub authorities: Option<Vec<u8>>,
    /// The beginning of the names of indices: 1 to 100 lower-case letters, digits, `-` and `_`, beginning with a letter.
    /// Each store needs its own.
    pub prefix: String,
}

/// The search index of a ledger in OpenSearch; several servers may have it open at once.
///
/// Its methods block, so they must not be called on a worker thread of an async runtime.
pub struct OpenSearchIndex {
    client: Client,
    handle: Handle,
    prefix: String,
    request_timeout: Duration,
    /// The name of this value in the lock.
    holder: String,
    /// Lets one change of this value run at a time. So a lock with its name was left by a change that failed.
    changing: Mutex<()>,
    /// Whether the indices were found in this version's format.
    is_ready: AtomicBool,
    /// The state with a lock of another process as it was read last, and when it was first read.
    other_lock: Mutex<Option<(Place, Instant)>>,
    merges: Mutex<merge::Merges>,
}

impl OpenSearchIndex {
    /// Creates the index's client, whose requests run on the async runtime of `handle`. Sends nothing yet: the first
    /// call creates missing indices, and empties those in another format.
    ///
    /// # Errors
    /// `invalid` for a prefix, an address or certificates that cannot be used.
    pub fn new(settings: &IndexSettings, handle: Handle) -> Result<Self, Failure> {
        let invalid = |detail: String| Failure::new(ErrorCode::Invalid, detail);
        if !is_prefix(&settings.prefix) {
            let detail =
                "a prefix has 1 to 100 characters of a-z, 0-9, - and _, and begins with a letter";
            return Err(invalid(detail.to_owned()));
        }
        let client = Client::with_authorities(&settings.endpoint, settings.authorities.as_deref());
        Ok(Self {
            client: client.map_err(|error: ClientError| invalid(error.to_string()))?,
            handle,
            prefix: settings.prefix.clone(),
            request_timeout: settings.endpoint.timeout,
            holder: uuid::Uuid::now_v7().to_string(),
            changing: Mutex::default(),
            is_ready: AtomicBool::default(),
            other_lock: Mutex::default(),
            merges: Mutex::default(),
        })
    }

    /// Asks whether OpenSearch answers, and accepts the credentials. Changes nothing.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn contact(&self) -> Result<(), Failure> {
        self.request(Method::GET, "", Body::None).map(drop)
    }

    /// Sets the time between a deletion and the merge that leaves it out; the default is ten minutes. OpenSearch keeps
    /// deleted rows for half a minute.
    #[must_use]
    pub fn with_merge_pause(self, pause: Duration) -> Self {
        filrouge_types::lock(&self.merges).pause = pause;
        self
    }
}

/// Whether a text can begin the names of indices.
#[must_use]
pub fn is_prefix(text: &str) -> bool {
    let is_valid = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let bytes = text.as_bytes();
    let begins_with_letter = bytes.first().is_some_and(u8::is_ascii_lowercase);
    begins_with_letter && bytes.len() <= 100 && bytes.iter().all(is_valid)
}

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
        forgotten.ok_or_else(requests::busy)
    }

    /// Creates a new, empty generation, and deletes the older ones with their files.
    fn clear(&self) -> Result<(), Failure> {
        self.ready()?;
        self.empty()
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

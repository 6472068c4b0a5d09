//! An index whose calls can fail, that can run a hook between a feed's read and its write, and that counts the documents
//! and terms it is asked for.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexState, IndexStatus, IndexUpdate, IndexVersion,
    IndexedDocument, SessionSelection, TextIndex,
};
use filrouge_types::{ErrorCode, Failure};

/// An index in memory with switchable failures.
#[derive(Default)]
pub(super) struct FailingIndex {
    inner: MemoryIndex,
    /// The number of calls of `forget` that succeed before the next ones fail. If it is negative, all succeed.
    pub(super) forgets_left: AtomicI64,
    /// A hook that runs once, before the next change with an expected version is applied.
    pub(super) before_change: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The number of documents that were read by their numbers.
    pub(super) documents_read: AtomicUsize,
    /// The greatest number of terms of a query.
    pub(super) terms_max: AtomicUsize,
}

impl FailingIndex {
    pub(super) fn new() -> Arc<Self> {
        let index = Self::default();
        index.forgets_left.store(-1, Ordering::Relaxed);
        Arc::new(index)
    }
}

impl TextIndex for FailingIndex {
    fn state(&self, selection: SessionSelection<'_>) -> Result<IndexState, Failure> {
        self.inner.state(selection)
    }

    fn change(
        &self,
        expected: Option<&IndexVersion>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        if expected.is_some()
            && let Some(hook) = self.before_change.lock().unwrap().take()
        {
            hook();
        }
        self.inner.change(expected, updates, position)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        match self.forgets_left.load(Ordering::Relaxed) {
            0 => {
                return Err(Failure::new(
                    ErrorCode::StoreUnavailable,
                    "the disk is gone",
                ));
            }
            left if left > 0 => drop(self.forgets_left.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.inner.forget(realm, key)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.inner.clear()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        let terms = query.wanted.terms().len();
        self.terms_max.fetch_max(terms, Ordering::Relaxed);
        self.inner.candidates(query)
    }

    fn documents(&self, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>, Failure> {
        self.documents_read
            .fetch_add(numbers.len(), Ordering::Relaxed);
        self.inner.documents(numbers)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.inner.bodies(documents, each)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner.tidy()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner.status()
    }
}

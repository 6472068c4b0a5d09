//! An index whose calls can fail, and that lets something happen between what a feed reads and what it puts.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, IndexedSession, KnownDocument,
    Reach, Seen, SessionNo, TextIndex,
};
use filrouge_types::{ErrorCode, Failure};

#[derive(Default)]
pub(super) struct Faulty {
    inner: MemoryIndex,
    /// Calls of `forget` that work before they fail; negative while all work.
    pub(super) works: AtomicI64,
    /// What happens before the next change is put.
    pub(super) between: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Faulty {
    pub(super) fn new() -> Arc<Self> {
        let faulty = Self::default();
        faulty.works.store(-1, Ordering::Relaxed);
        Arc::new(faulty)
    }
}

impl TextIndex for Faulty {
    fn position(&self) -> Result<Option<Box<[u8]>>, Failure> {
        self.inner.position()
    }

    fn session(&self, realm: &[u8], key: &str) -> Result<Option<IndexedSession>, Failure> {
        self.inner.session(realm, key)
    }

    fn sessions(&self, reach: &Reach) -> Result<Arc<Vec<IndexedSession>>, Failure> {
        self.inner.sessions(reach)
    }

    fn sessions_by_no(&self, numbers: &[SessionNo]) -> Result<Vec<IndexedSession>, Failure> {
        self.inner.sessions_by_no(numbers)
    }

    fn documents(&self, session: SessionNo) -> Result<Vec<KnownDocument>, Failure> {
        self.inner.documents(session)
    }

    fn apply(&self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<(), Failure> {
        self.inner.apply(updates, position)
    }

    fn seen(&self) -> Result<Seen, Failure> {
        self.inner.seen()
    }

    fn apply_if(
        &self,
        seen: &Seen,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let between = self.between.lock().unwrap().take();
        if let Some(between) = between {
            between();
        }
        self.inner.apply_if(seen, updates, position)
    }

    fn unread(&self, limit: usize) -> Result<Vec<IndexedSession>, Failure> {
        self.inner.unread(limit)
    }

    fn forget(&self, realm: &[u8], key: &str) -> Result<u64, Failure> {
        match self.works.load(Ordering::Relaxed) {
            0 => {
                return Err(Failure::new(
                    ErrorCode::StoreUnavailable,
                    "the disk is gone",
                ));
            }
            left if left > 0 => drop(self.works.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.inner.forget(realm, key)
    }

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner.tidy()
    }

    fn candidates(&self, query: &CandidateQuery<'_>) -> Result<Vec<Candidate>, Failure> {
        self.inner.candidates(query)
    }

    fn bodies(
        &self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        self.inner.bodies(documents, each)
    }

    fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<DocumentNo>, Failure> {
        self.inner.without_vector(embedder, kinds, limit)
    }

    fn put_vectors(&self, embedder: &str, all: &[(DocumentNo, Vec<i8>)]) -> Result<(), Failure> {
        self.inner.put_vectors(embedder, all)
    }

    fn nearest(
        &self,
        embedder: &str,
        vector: &[i8],
        query: &CandidateQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(Candidate, i32)>, Failure> {
        self.inner.nearest(embedder, vector, query, limit)
    }

    fn keep_vectors_of(&self, embedder: Option<&str>) -> Result<(), Failure> {
        self.inner.keep_vectors_of(embedder)
    }

    fn clear(&self) -> Result<(), Failure> {
        self.inner.clear()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner.status()
    }
}

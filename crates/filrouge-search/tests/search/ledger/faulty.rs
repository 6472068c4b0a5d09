//! An index whose calls can fail, and that lets something happen between what a feed reads and what it puts.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, IndexStatus, IndexUpdate, Known, Seen, TextIndex, Which,
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
    fn known(&self, which: Which<'_>) -> Result<Known, Failure> {
        self.inner.known(which)
    }

    fn change(
        &self,
        expected: Option<&Seen>,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        if expected.is_some()
            && let Some(between) = self.between.lock().unwrap().take()
        {
            between();
        }
        self.inner.change(expected, updates, position)
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

    fn clear(&self) -> Result<(), Failure> {
        self.inner.clear()
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

    fn tidy(&self) -> Result<bool, Failure> {
        self.inner.tidy()
    }

    fn status(&self) -> Result<IndexStatus, Failure> {
        self.inner.status()
    }
}

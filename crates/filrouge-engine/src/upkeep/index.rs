//! The search index, and the sessions that still have to be removed from it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use filrouge_store::text_index::TextIndex;
use filrouge_types::{ErrorCode, Failure};

/// A session as the index identifies it: its realm (the tenant) and its id.
pub(super) type IndexKey = (Box<[u8]>, Box<str>);

/// The index, and the sessions whose removal from it failed, is uncertain or is in progress (`pending`).
pub(crate) struct Indexing {
    pub(super) index: Arc<dyn TextIndex>,
    pub(super) pending: Mutex<BTreeSet<IndexKey>>,
}

impl Indexing {
    pub(crate) fn new(index: Arc<dyn TextIndex>) -> Self {
        Self {
            index,
            pending: Mutex::default(),
        }
    }

    /// [`TextIndex::remains`].
    pub(crate) fn remains(&self) -> Option<&'static str> {
        self.index.remains()
    }

    pub(super) async fn forget(&self, key: &IndexKey) -> Result<u64, Failure> {
        let (index, (realm, session)) = (self.index.clone(), key.clone());
        let forgotten = tokio::task::spawn_blocking(move || index.forget(&realm, &session));
        forgotten.await.map_err(|error| {
            let detail = format!("forgetting a session in the index broke off: {error}");
            Failure::new(ErrorCode::Internal, detail)
        })?
    }
}

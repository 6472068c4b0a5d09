//! Conversations in memory: the least recently used go first, by weight.

use std::sync::Arc;

use super::{Entry, LibraryError};
use crate::{Conversation, ReadError, Source};

pub(super) struct Cache {
    _bytes: usize,
}

impl Cache {
    pub(super) const fn new(bytes: usize) -> Self {
        Self { _bytes: bytes }
    }

    pub(super) fn conversation(
        &self,
        source: &Arc<dyn Source>,
        entry: &Entry,
    ) -> Result<Arc<Conversation>, LibraryError> {
        let id = &entry.header.id;
        source.conversation(id).map(Arc::new).map_err(|why| match why {
            ReadError::Gone => LibraryError::NoSession(id.to_string()),
            why => LibraryError::Unreadable(id.to_string(), why),
        })
    }
}

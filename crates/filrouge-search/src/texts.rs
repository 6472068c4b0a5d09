//! The texts that are compared with a query: those of the documents that an index names, and those of all documents of
//! a session whose current state no index contains.

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::{DocumentNo, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use crate::ledger::VerifiedTexts;
use crate::search_document::{Malformed, SearchDocument};

/// The texts of the documents that an index names.
#[derive(Clone, Copy)]
pub(crate) enum Texts<'t> {
    /// The texts of another program's history, as this index stores them.
    Stored(&'t dyn TextIndex),
    /// The texts of the ledger, as its verified records contain them.
    Verified(&'t VerifiedTexts),
}

impl<'t> Texts<'t> {
    /// The index.
    pub(crate) fn index(self) -> &'t dyn TextIndex {
        match self {
            Self::Stored(index) => index,
            Self::Verified(texts) => texts.index(),
        }
    }

    /// Passes these documents in their encoded form to `visit`, in order, until it returns false. Skips documents that
    /// no longer exist.
    pub(crate) fn bodies(
        self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        match self {
            Self::Stored(index) => index.bodies(documents, visit),
            Self::Verified(texts) => texts.bodies(documents, visit),
        }
    }

    /// Passes these documents to `each`, in order, until it returns false. Skips documents that no longer exist.
    ///
    /// # Errors
    /// When the texts cannot be read, or the index contains a malformed document; the caller then reads the history
    /// instead of the index.
    pub(crate) fn each(
        self,
        documents: &[DocumentNo],
        each: &mut dyn FnMut(DocumentNo, &SearchDocument<'_>) -> bool,
    ) -> Result<(), Failure> {
        let mut malformed = false;
        self.bodies(
            documents,
            &mut |document, body| match SearchDocument::decode(body) {
                Ok(doc) => each(document, &doc),
                Err(Malformed) => {
                    malformed = true;
                    false
                }
            },
        )?;
        if malformed {
            let message = "the search index holds a document that cannot be read: rebuild it";
            return Err(Failure::new(ErrorCode::Internal, message));
        }
        Ok(())
    }
}

/// Returns the documents of a session that its source returned: the title if `title` is set, then the messages by time.
pub(crate) fn session_documents<'s>(
    header: &'s Header,
    conversation: &'s Conversation,
    title: bool,
) -> impl Iterator<Item = SearchDocument<'s>> {
    let mut messages: Vec<_> = conversation.messages.iter().collect();
    messages.sort_by_key(|message| message.created);
    let title = SearchDocument::from_title(header).filter(|_| title);
    title
        .into_iter()
        .chain(messages.into_iter().map(SearchDocument::from_message))
}

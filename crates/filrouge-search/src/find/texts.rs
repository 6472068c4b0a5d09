//! Reads the documents that are compared with a query: the candidates of an index, and all documents of a session whose
//! current state no index contains.

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::{DocumentNo, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use crate::search_document::{Malformed, SearchDocument};

/// A callback that receives a document, and returns whether to continue.
pub(super) type DocumentCallback<'e> = &'e mut dyn FnMut(DocumentNo, &SearchDocument<'_>) -> bool;

/// Passes these documents, as the index stores them, to `each`, in order, until `each` returns false. Documents that no
/// longer exist are skipped.
///
/// # Errors
/// When the index cannot be read, or contains a malformed document; the caller then reads the history instead of the
/// index.
pub(super) fn read_documents(
    index: &dyn TextIndex,
    documents: &[DocumentNo],
    each: DocumentCallback<'_>,
) -> Result<(), Failure> {
    let mut malformed = false;
    index.bodies(
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

/// Returns the documents of a session that its source returned: the title if `title` is set, then the messages by time.
pub(super) fn session_documents<'s>(
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

//! The documents of a conversation.

use std::collections::HashSet;

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::NewDocument;

use crate::search_document::SearchDocument;

/// Returns the documents of a session, to be indexed, and whether they are complete.
pub(super) fn documents_of(
    header: &Header,
    conversation: &Conversation,
) -> (Vec<NewDocument>, bool) {
    let mut ids = HashSet::with_capacity(conversation.messages.len());
    let mut documents = Vec::with_capacity(conversation.messages.len() + 1);
    // An index has one document per id. If two messages have the same id, the session counts as incomplete, so that
    // every search reads it from the source.
    let mut is_complete = conversation.skipped.is_empty();
    let messages = conversation
        .messages
        .iter()
        .map(SearchDocument::from_message);
    for doc in SearchDocument::from_title(header)
        .into_iter()
        .chain(messages)
    {
        documents.push(doc.to_index_document(&doc.id, 0));
        is_complete &= ids.insert(doc.id);
    }
    (documents, is_complete)
}

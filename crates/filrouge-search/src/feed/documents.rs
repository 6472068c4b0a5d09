//! The documents of a conversation.

use std::collections::HashSet;

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::NewDocument;

use crate::spoken::Spoken;

/// What an index is to hold of a session, and whether that is everything that was said.
pub(super) fn of(header: &Header, conversation: &Conversation) -> (Vec<NewDocument>, bool) {
    let mut seen = HashSet::with_capacity(conversation.messages.len());
    let mut documents = Vec::with_capacity(conversation.messages.len() + 1);
    // Two messages of one id are one document: then each question reads the session.
    let mut whole = conversation.skipped.is_empty();
    let said = conversation.messages.iter().map(Spoken::of);
    for spoken in Spoken::of_title(header).into_iter().chain(said) {
        documents.push(spoken.document(&spoken.id, 0));
        whole &= seen.insert(spoken.id);
    }
    (documents, whole)
}

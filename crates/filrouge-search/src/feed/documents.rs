//! The documents of a conversation.

use std::collections::{HashMap, HashSet};

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::{Gone, KnownDocument, NewDocument};

use super::digest;
use crate::spoken::Spoken;

/// What has to be done so that an index holds a conversation.
pub(crate) struct Difference {
    pub(crate) documents: Vec<NewDocument>,
    pub(crate) gone: Gone,
    /// Whether everything that was said is in it.
    pub(crate) whole: bool,
}

/// Compares a session as it was read with the documents that are there.
pub(crate) fn difference(
    header: &Header,
    conversation: &Conversation,
    there: &[KnownDocument],
) -> Difference {
    let there_now = there.iter().map(|one| (&*one.key, one.digest));
    let mut there: HashMap<&str, u64> = there_now.collect();
    let mut seen = HashSet::with_capacity(conversation.messages.len());
    let mut documents = Vec::new();
    // Two messages of one id are one document: then each question reads the session.
    let mut whole = conversation.skipped.is_empty();
    let said = conversation.messages.iter().map(Spoken::of);
    for spoken in Spoken::of_title(header).into_iter().chain(said) {
        let body = spoken.encode();
        let digest = digest::of_bytes(&body);
        if there.remove(&*spoken.id) != Some(digest) {
            documents.push(NewDocument {
                key: (&*spoken.id).into(),
                unit: 0,
                kind: spoken.kind(),
                created: spoken.created,
                digest,
                folded: spoken.folded(),
                body,
            });
        }
        whole &= seen.insert(spoken.id);
    }
    if !whole {
        let mut keys = HashSet::new();
        documents.reverse();
        documents.retain(|one| keys.insert(one.key.clone()));
        documents.reverse();
    }
    Difference {
        documents,
        gone: Gone::Keys(there.into_keys().map(Into::into).collect()),
        whole,
    }
}

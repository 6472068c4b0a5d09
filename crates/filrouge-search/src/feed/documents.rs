//! The documents of a conversation.

use std::collections::{HashMap, HashSet};

use filrouge_sources::{Header, ReadMessages};
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

/// Compares what was read of a session with the documents that are there; `None` when its record cannot be used.
pub(crate) fn difference(
    header: &Header,
    read: &ReadMessages,
    there: &[KnownDocument],
) -> Option<Difference> {
    let messages = read.messages.as_ref()?;
    let there_now = there.iter().map(|one| (&*one.key, (one.digest, one.unit)));
    let mut there: HashMap<&str, (u64, u64)> = there_now.collect();
    for same in &read.same {
        there.remove(&**same);
    }
    let mut seen = HashSet::with_capacity(messages.len());
    // A document whose message was written and says the same is put again, so that the index knows the new state and the
    // message is not read again and again. Where that were most of them (files were copied, say), to read is cheaper.
    let mut renewable = read.same.len();
    let mut documents = Vec::new();
    // Two messages of one id are one document: then the session is looked through.
    let mut whole = read.whole;
    let said = messages.iter().map(Spoken::of);
    for spoken in Spoken::of_title(header).into_iter().chain(said) {
        let body = spoken.encode();
        let digest = digest::of_bytes(&body);
        let state = read.states.get(&*spoken.id);
        let unit = state.map_or(0, |state| digest::unit(*state));
        let is_there = match there.remove(&*spoken.id) {
            Some((old, of)) if old == digest && of != unit && renewable > 0 => {
                renewable -= 1;
                false
            }
            old => old.is_some_and(|(old, _)| old == digest),
        };
        if !is_there {
            documents.push(NewDocument {
                key: (&*spoken.id).into(),
                unit,
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
    Some(Difference {
        documents,
        gone: Gone::Keys(there.into_keys().map(Into::into).collect()),
        whole,
    })
}

//! The step that reads: what is compared comes through here alone. Of an index the candidates are read; of a session that no
//! index knows as it is, every document.

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::{DocumentNo, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use crate::spoken::{Malformed, Spoken};

/// Takes a document; whether it wants another one.
pub(super) type Each<'e> = &'e mut dyn FnMut(DocumentNo, &Spoken<'_>) -> bool;

/// Shows `each` these documents as an index has copied them, in their order, until it has seen enough; those that are gone
/// are left out.
///
/// # Errors
/// When they cannot be read: who asks reads the history itself then.
pub(super) fn read(
    index: &dyn TextIndex,
    documents: &[DocumentNo],
    each: Each<'_>,
) -> Result<(), Failure> {
    let mut malformed = false;
    index.bodies(
        documents,
        &mut |document, body| match Spoken::decode(body) {
            Ok(spoken) => each(document, &spoken),
            Err(Malformed) => {
                malformed = true;
                false
            }
        },
    )?;
    if malformed {
        let what = "the search index holds a document that cannot be read: rebuild it";
        return Err(Failure::new(ErrorCode::Internal, what));
    }
    Ok(())
}

/// A session as its source gave it: the title where it is wanted, then the messages as they were said.
pub(super) fn whole<'s>(
    header: &'s Header,
    conversation: &'s Conversation,
    title: bool,
) -> impl Iterator<Item = Spoken<'s>> {
    let mut messages: Vec<_> = conversation.messages.iter().collect();
    messages.sort_by_key(|message| message.created);
    let title = Spoken::of_title(header).filter(|_| title);
    title
        .into_iter()
        .chain(messages.into_iter().map(Spoken::of))
}

//! The step that reads: what is compared and shown comes through here alone. Of an index the candidates are read; of a
//! session that no index knows as it is, every document.

use filrouge_sources::{Conversation, Header};
use filrouge_store::text_index::{DocumentNo, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use crate::spoken::{Malformed, Spoken};

/// Takes a document; whether it wants another one.
pub(super) type Each<'e> = &'e mut dyn FnMut(DocumentNo, &Spoken<'_>) -> bool;

/// Where the texts of documents are read.
pub(super) trait Texts: Sync {
    /// Shows `each` these documents, in their order, until it has seen enough; those that are gone are left out.
    ///
    /// # Errors
    /// When they cannot be read: who asks reads the history itself then.
    fn read(&self, documents: &[DocumentNo], each: Each<'_>) -> Result<(), Failure>;
}

/// The copies that an index keeps.
impl Texts for &dyn TextIndex {
    fn read(&self, documents: &[DocumentNo], each: Each<'_>) -> Result<(), Failure> {
        let mut malformed = false;
        self.bodies(
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
}

/// A session as its source gave it: the title, then the messages as they were said.
pub(super) struct Whole<'s> {
    documents: Vec<Spoken<'s>>,
}

impl<'s> Whole<'s> {
    pub(super) fn of(header: &'s Header, conversation: &'s Conversation, title: bool) -> Self {
        let mut messages: Vec<_> = conversation.messages.iter().collect();
        messages.sort_by_key(|message| message.created);
        let title = Spoken::of_title(header).filter(|_| title);
        let messages = messages.into_iter().map(Spoken::of);
        Self {
            documents: title.into_iter().chain(messages).collect(),
        }
    }

    /// All of them.
    pub(super) fn candidates(&self) -> Vec<DocumentNo> {
        (0..self.documents.len() as u64).collect()
    }
}

impl Texts for Whole<'_> {
    fn read(&self, documents: &[DocumentNo], each: Each<'_>) -> Result<(), Failure> {
        for no in documents {
            let document = usize::try_from(*no).ok();
            let document = document.and_then(|at| self.documents.get(at));
            if document.is_some_and(|document| !each(*no, document)) {
                break;
            }
        }
        Ok(())
    }
}

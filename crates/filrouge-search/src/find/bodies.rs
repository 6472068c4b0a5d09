//! The documents of an index, as they are read.

use filrouge_store::text_index::{DocumentNo, TextIndex};
use filrouge_types::{ErrorCode, Failure};

use crate::spoken::{Malformed, Spoken};

/// Shows `each` the documents that are there, until it says that it has seen enough.
///
/// # Errors
/// Of the index. One that holds what cannot be read does not answer: who asks looks through its history instead, and says
/// so, and nothing is missed for a damaged index.
pub(super) fn documents(
    index: &dyn TextIndex,
    numbers: &[DocumentNo],
    each: &mut dyn FnMut(DocumentNo, &Spoken<'_>) -> bool,
) -> Result<(), Failure> {
    let mut malformed = false;
    index.bodies(numbers, &mut |document, body| match Spoken::decode(body) {
        Ok(spoken) => each(document, &spoken),
        Err(Malformed) => {
            malformed = true;
            false
        }
    })?;
    if malformed {
        let what = "the search index holds a document that cannot be read: rebuild it";
        return Err(Failure::new(ErrorCode::Internal, what));
    }
    Ok(())
}

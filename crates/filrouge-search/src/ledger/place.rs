//! Where in the ledger a hit is: the seq of its item, as the API names places (`session:seq`).

use filrouge_engine::Engine;
use filrouge_sources::ledger::seq_told_by;
use filrouge_store::Scope;
use filrouge_types::{Failure, ItemId, SessionId};

/// The seq of the item that a part is of, or of a message's first item: by the ids that [`crate::Spoken`] has. `None` for a
/// message that only another program's notes name, and for what is not there any more.
///
/// # Errors
/// `session_not_found`, and the ledger's.
pub async fn seq_of(
    engine: &Engine,
    scope: &Scope,
    session: &SessionId,
    id: &str,
) -> Result<Option<u64>, Failure> {
    if let Some(seq) = seq_told_by(id) {
        return Ok(Some(seq));
    }
    // A further part of an item has its place behind the key; a key may end like that itself.
    let first = id.rsplit_once('.');
    let first = first.filter(|(_, at)| !at.is_empty() && at.bytes().all(|b| b.is_ascii_digit()));
    for key in [Some(id), first.map(|(key, _)| key)].into_iter().flatten() {
        for end in ["", ":call", ":result"] {
            let Ok(item) = format!("{key}{end}").parse::<ItemId>() else {
                continue;
            };
            if let Some(seq) = engine.seq_of_item(scope, session, item).await? {
                return Ok(Some(seq));
            }
        }
    }
    Ok(None)
}

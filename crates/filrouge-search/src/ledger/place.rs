//! Where in the ledger a hit is: the seq of its item, as the API names places (`session:seq`).

use filrouge_engine::{Caller, Engine};
use filrouge_sources::ledger::seq_told_by;
use filrouge_types::{Failure, ItemId, SessionId};

use crate::answer::Excerpt;

/// The seq of the item that a part is of, or of a message's first item, for each of these ids that [`crate::Spoken`] has.
/// `None` for a message that only another program's notes name, and for what is not there any more.
///
/// # Errors
/// `session_not_found`, and the ledger's.
pub async fn seqs_of(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    ids: &[&str],
) -> Result<Vec<Option<u64>>, Failure> {
    let mut seqs: Vec<Option<u64>> = ids.iter().map(|id| seq_told_by(id)).collect();
    let left = ids.iter().zip(&seqs).filter(|(_, seq)| seq.is_none());
    let left: Vec<Vec<ItemId>> = left.map(|(id, _)| keys(id)).collect();
    if left.iter().all(Vec::is_empty) {
        return Ok(seqs);
    }
    let found = engine
        .index_feed
        .seqs_of_items(caller, session, left)
        .await?;
    let open = seqs.iter_mut().filter(|seq| seq.is_none());
    open.zip(found).for_each(|(seq, found)| *seq = found);
    Ok(seqs)
}

/// Names the items of excerpts that have no seq yet.
///
/// # Errors
/// As [`seqs_of`].
pub async fn place(
    engine: &Engine,
    caller: &Caller,
    session: &SessionId,
    excerpts: &mut [Excerpt],
) -> Result<(), Failure> {
    let mut open: Vec<&mut Excerpt> = excerpts.iter_mut().filter(|e| e.seq.is_none()).collect();
    open.retain(|excerpt| excerpt.told_by().is_some());
    let ids: Vec<&str> = open
        .iter()
        .filter_map(|excerpt| excerpt.told_by())
        .collect();
    let seqs = seqs_of(engine, caller, session, &ids).await?;
    open.into_iter()
        .zip(seqs)
        .for_each(|(excerpt, seq)| excerpt.seq = seq);
    Ok(())
}

/// The keys that the item may have, the likeliest first.
fn keys(id: &str) -> Vec<ItemId> {
    // A further part of an item has its place behind the key; a key may end like that itself.
    let first = id.rsplit_once('.');
    let first = first.filter(|(_, at)| !at.is_empty() && at.bytes().all(|b| b.is_ascii_digit()));
    let keys = [Some(id), first.map(|(key, _)| key)];
    let ends = ["", ":call", ":result"];
    let all = keys.into_iter().flatten();
    let all = all.flat_map(|key| ends.map(|end| format!("{key}{end}").parse().ok()));
    all.flatten().collect()
}

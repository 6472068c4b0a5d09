//! Appending items to an open turn (DESIGN §4.2).

use filrouge_types::{ErrorCode, Failure, TurnStatus};

use super::refusal::seq_conflict;
use super::writing::{
    Writing, check_count, check_finals, check_some, check_unique_ids, put_in_turn, turn_closed,
};
use super::{draft, lease};

use crate::command::{Append, Outcome};
use crate::read::Loaded;
use crate::record::{Batch, is_repeated};
use crate::rows::{TurnRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut Writing<'_, T>, append: &Append) -> Result<Outcome, Failure> {
    let (mut session, row) = w.turn(&append.session_id, &append.turn_id)?;
    check_some(&append.batch)?;
    check_unique_ids(&append.batch)?;
    let stream = append.progress.as_ref().map(|p| p.stream);
    match replay(w, &session, &row, append) {
        // Who ended the turn meanwhile has kept what the recording had shown, under the same keys.
        Err(conflict) if stream.is_some() => {
            draft::own(w, &session, &row, stream)?;
            return Err(conflict);
        }
        Err(conflict) => return Err(conflict),
        Ok(Some(outcome)) => {
            lease::release_again(w, session)?;
            return Ok(outcome);
        }
        Ok(None) => {}
    }
    lease::check(w, &mut session)?;
    if let Some(expected) = append.expected_seq
        && expected != session.head.last_seq
    {
        return Err(seq_conflict(expected, session.head.last_seq));
    }
    if row.status != TurnStatus::Open {
        return Err(turn_closed(&row));
    }
    if stream.is_some() {
        draft::own(w, &session, &row, stream)?;
    }
    check_finals(&append.batch, row.finals.map(|seq| seq != 0))?;
    let left = match stream {
        Some(_) => None,
        None => draft::left(w, &session, &row)?,
    };
    let is_left = left.is_some();
    let shown = Batch::seal(left.unwrap_or_default(), w.ctx.entropy)?;
    check_count(row.items + shown.count(), &append.batch)?;
    let (session, row, put) = put_in_turn(w, session, row, &[&shown, &append.batch])?;
    if is_left {
        w.tx.delete_draft(session.pk, row.place())?;
    }
    if let Some(progress) = &append.progress {
        draft::advance(w, &session, &row, progress)?;
    }
    let last_seq = session.head.last_seq;
    Ok(Outcome::Appended {
        first_seq: last_seq + 1 - append.batch.count(),
        last_seq,
        replayed: false,
        put,
    })
}

/// The earlier answer, when the batch is known: all its keys are, they stand together in this turn, and
/// every item is what it was. Known in part is a conflict.
fn replay<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    turn: &TurnRow,
    append: &Append,
) -> Result<Option<Outcome>, Failure> {
    let mut known = Vec::new();
    let mut unknown = 0_u64;
    for (item, offset) in append.batch.items().zip(0_u64..) {
        let Some(id) = &item.item_id else { continue };
        match w.tx.item_seq(session.pk, id)? {
            None => unknown += 1,
            Some(seq) => known.push((id, offset, seq)),
        }
    }
    if known.is_empty() {
        return Ok(None);
    }
    if unknown > 0 {
        return Err(Failure::new(
            ErrorCode::PartialReplay,
            format!(
                "{} of the batch's item ids are known and {unknown} are not",
                known.len()
            ),
        )
        .with_hint("send a batch again exactly as it was first sent"));
    }
    let mut first_seq = turn.first_seq;
    for (at, (id, offset, seq)) in known.iter().enumerate() {
        let start = seq.checked_sub(*offset).filter(|s| *s >= turn.first_seq);
        match start {
            Some(start) if at == 0 || start == first_seq => first_seq = start,
            _ => return Err(mismatch(id.as_str(), *seq)),
        }
    }
    let sight = w.sight();
    let last_seq = first_seq + append.batch.count() - 1;
    let mut stored = Vec::new().into_iter();
    for (item, seq) in append.batch.items().zip(first_seq..) {
        let id = item.item_id.as_ref().map_or("", |id| id.as_str());
        if seq > session.head.last_seq {
            return Err(mismatch(id, seq));
        }
        if stored.len() == 0 {
            stored = sight.items_of(session, seq - 1, REPLAY_PAGE)?.0.into_iter();
        }
        let Some(stored) = stored.next() else {
            return Err(mismatch(id, seq));
        };
        if stored.turn_id != Some(turn.turn_id) || !is_repeated(item, &stored) {
            return Err(mismatch(id, seq));
        }
    }
    Ok(Some(Outcome::Appended {
        first_seq,
        last_seq,
        replayed: true,
        put: None,
    }))
}

/// Items compared at once.
const REPLAY_PAGE: usize = 512;

fn mismatch(id: &str, seq: u64) -> Failure {
    Failure::new(
        ErrorCode::IdempotencyMismatch,
        format!("item_id {id:?} was used with another body (seq {seq})"),
    )
    .with_hint("send a batch again exactly as it was first sent, or take new item ids")
}

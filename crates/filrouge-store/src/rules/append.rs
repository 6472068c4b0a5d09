//! Appends items to an open turn (DESIGN §4.2), and late items to an interrupted or closed one.

use filrouge_types::{ErrorCode, Failure, Result, TurnStatus};

use super::refusal::check_expected_seq;
use super::writing::{
    ActiveWrite, append_to_turn, check_count, check_finals, check_not_empty, check_unique_ids,
    turn_closed,
};
use super::{draft, lease};

use crate::command::{Append, Outcome};
use crate::read::VerifiedSession;
use crate::record::{Batch, is_repeated};
use crate::rows::{TurnRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, append: &Append) -> Result<Outcome> {
    let (mut session, mut row) = w.turn(&append.session_id, &append.turn_id)?;
    check_not_empty(&append.batch)?;
    check_unique_ids(&append.batch)?;
    let stream = append.progress.as_ref().map(|p| p.stream);
    match replay(w, &session, &row, append) {
        // The write comes from a recording. If another write has ended the turn in the meantime, that write recorded
        // the draft's text under the same keys. This is no conflict: `find` then fails with the turn's status.
        Err(conflict) if stream.is_some() => {
            draft::find(w, &session, &row, stream)?;
            return Err(conflict);
        }
        Err(conflict) => return Err(conflict),
        Ok(Some(outcome)) => {
            lease::release_if_requested(w, session)?;
            return Ok(outcome);
        }
        Ok(None) => {}
    }
    lease::check_and_release(w, &mut session)?;
    check_expected_seq(append.expected_seq, session.head.last_seq)?;
    if row.status != TurnStatus::Open {
        if !takes_late(&row, &append.batch) {
            return Err(turn_closed(&row));
        }
        // An interrupted turn may be reopened, so its items stay in one range.
        if row.status.is_closed() {
            row.late_seq = session.head.last_seq + 1;
        }
    }
    if stream.is_some() {
        draft::find(w, &session, &row, stream)?;
    }
    check_finals(&append.batch, row.finals.map(|seq| seq != 0))?;
    let leftover = match stream {
        Some(_) => None,
        None => draft::leftover_entries(w, &session, &row)?,
    };
    let has_leftover = leftover.is_some();
    let leftover_batch = Batch::pack(leftover.unwrap_or_default(), w.ctx.entropy)?;
    check_count(row.items + leftover_batch.count(), &append.batch)?;
    let (session, row, written) =
        append_to_turn(w, session, row, &[&leftover_batch, &append.batch])?;
    if has_leftover {
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
        written,
    })
}

/// Whether a turn that is not open takes these items: errors and notes that become known only after its end or its
/// interruption. They change neither its status nor its answer.
fn takes_late(row: &TurnRow, batch: &Batch) -> bool {
    row.redacted_by == 0 && batch.items().all(|item| item.channel.may_be_late())
}

/// The outcome of a replay, or `None` for a new batch. The batch is a replay if all its item ids are stored, their
/// items are contiguous in this turn, and every item is unchanged. If only some of the ids are stored, this is a
/// conflict.
fn replay<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    turn: &TurnRow,
    append: &Append,
) -> Result<Option<Outcome>> {
    let mut stored_ids = Vec::new();
    let mut new_ids = 0_u64;
    for (item, offset) in append.batch.items().zip(0_u64..) {
        let Some(id) = &item.item_id else { continue };
        match w.tx.item_seq(session.pk, id)? {
            None => new_ids += 1,
            Some(seq) => stored_ids.push((id, offset, seq)),
        }
    }
    if stored_ids.is_empty() {
        return Ok(None);
    }
    if new_ids > 0 {
        return Err(ErrorCode::PartialReplay
            .failure(format!(
                "{} of the batch's item ids are known and {new_ids} are not",
                stored_ids.len()
            ))
            .with_hint("send a batch again exactly as it was first sent"));
    }
    let mut first_seq = turn.first_seq;
    for (index, (id, offset, seq)) in stored_ids.iter().enumerate() {
        let start = seq.checked_sub(*offset).filter(|s| *s >= turn.first_seq);
        match start {
            Some(start) if index == 0 || start == first_seq => first_seq = start,
            _ => return Err(body_differs(id.as_str(), *seq)),
        }
    }
    let snapshot = w.snapshot();
    let last_seq = first_seq + append.batch.count() - 1;
    let mut stored = Vec::new().into_iter();
    for (item, seq) in append.batch.items().zip(first_seq..) {
        let id = item.item_id.as_ref().map_or("", |id| id.as_str());
        if seq > session.head.last_seq {
            return Err(body_differs(id, seq));
        }
        if stored.len() == 0 {
            stored = snapshot
                .items_of(session, seq - 1, REPLAY_PAGE)?
                .0
                .into_iter();
        }
        let Some(stored) = stored.next() else {
            return Err(body_differs(id, seq));
        };
        if stored.turn_id != Some(turn.turn_id) || !is_repeated(item, &stored) {
            return Err(body_differs(id, seq));
        }
    }
    Ok(Some(Outcome::Appended {
        first_seq,
        last_seq,
        replayed: true,
        written: None,
    }))
}

/// The number of stored items per read.
const REPLAY_PAGE: usize = 512;

fn body_differs(id: &str, seq: u64) -> Failure {
    Failure::new(
        ErrorCode::IdempotencyMismatch,
        format!("item_id {id:?} was used with another body (seq {seq})"),
    )
    .with_hint("send a batch again exactly as it was first sent, or use new item ids")
}

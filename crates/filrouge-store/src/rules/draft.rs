//! Drafts: the text that an open turn's stream has produced, kept until it becomes items (DESIGN §4). One recording at
//! a time writes the draft of a turn. If another write ends the turn, the draft's text becomes items.

use filrouge_types::{Channel, ErrorCode, Failure, TurnStatus};

use super::lease;
use super::writing::{ActiveWrite, RuleContext, append_to_turn, check_count, turn_closed};

use crate::command::{Close, DraftProgress, Ending, Interrupt, Outcome, PutDraft, Scope};
use crate::draft::{DraftPiece, StreamId, answer_so_far, partial_entries};
use crate::read::VerifiedSession;
use crate::record::{Batch, Entry};
use crate::rows::{Change, DraftChunk, DraftRow, TurnRow, Tx};

pub(super) fn put<T: Tx>(w: &mut ActiveWrite<'_, T>, put: &PutDraft) -> Result<Outcome, Failure> {
    let (mut session, mut row) = w.turn(&put.session_id, &put.turn_id)?;
    // A draft is never the last write of a turn, so it never releases the lease.
    lease::check_lease(&session, w.scope, w.ctx.lease_now)?;
    let mut draft = match find(w, &session, &row, Some(put.stream)) {
        Ok(Some(draft)) => draft,
        _ if put.starts_recording && row.status != TurnStatus::Open => {
            return Err(turn_closed(&row));
        }
        Err(failure) if put.starts_recording && failure.code == ErrorCode::StreamLost => {
            match w.snapshot().draft_row(&session, &row)? {
                Some(leftover) if is_leftover(&session, w.scope, &leftover) => {
                    (session, row) = record_leftover(w, session, row)?;
                    new_draft(w.ctx, &row, put)
                }
                Some(_) => return Err(stream_open_failure(&row)),
                None => new_draft(w.ctx, &row, put),
            }
        }
        Err(failure) => return Err(failure),
        Ok(None) => new_draft(w.ctx, &row, put),
    };
    if put.number > draft.last_chunk + 1 {
        let detail = format!("chunk {} of the draft is missing", draft.last_chunk + 1);
        return Err(Failure::new(ErrorCode::Invalid, detail));
    }
    let session = lease::extend_if_due(w, session)?;
    draft.beat_at = w.ctx.now;
    let adds_deltas = !put.deltas.is_empty() && put.number > draft.last_chunk;
    if adds_deltas {
        draft.last_chunk = put.number;
    }
    let draft = draft.sealed(w.ctx.keyring, session.pk);
    if adds_deltas {
        let chunk =
            DraftChunk::sealed(put.number, &put.deltas, w.ctx.keyring, (session.pk, &draft));
        w.tx.insert_draft_chunk(session.pk, draft.place, &chunk)?;
    }
    w.tx.put_draft(session.pk, &draft)?;
    let mac = session.head.mac;
    let newest_chunk = (draft.place, draft.last_chunk);
    w.add_log_entry(session.pk, newest_chunk, &mac, Change::Draft);
    Ok(Outcome::Drafted)
}

fn new_draft(ctx: &RuleContext<'_>, row: &TurnRow, put: &PutDraft) -> DraftRow {
    let writer = put.writer.clone();
    DraftRow::new(row.place(), row.turn_id, put.stream, writer, ctx.now)
}

/// Whether the session's previous holder left this draft: the writer is now the holder, and its fence was granted after
/// the recording's last heartbeat. The caller has checked that the writer's lease is valid.
pub(super) fn is_leftover(session: &VerifiedSession, scope: &Scope, draft: &DraftRow) -> bool {
    let lease = &session.head.lease;
    let is_holder = scope.fence.is_some_and(|token| token.fence == lease.fence);
    is_holder && draft.beat_at < lease.since
}

/// The entries of a draft that the previous holder left; `None` if there is no such draft. The caller writes the
/// entries and deletes the draft.
pub(super) fn leftover_entries<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Result<Option<Vec<Entry>>, Failure> {
    match w.snapshot().draft_row(session, row)? {
        Some(draft) if is_leftover(session, w.scope, &draft) => {
            let entries = draft_entries(w, session, row)?;
            without_used_item_ids(w, session, entries).map(Some)
        }
        _ => Ok(None),
    }
}

/// Writes the entries of a draft that the previous holder left, and deletes the draft.
fn record_leftover<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: VerifiedSession,
    row: TurnRow,
) -> Result<(VerifiedSession, TurnRow), Failure> {
    let entries = draft_entries(w, &session, &row)?;
    let entries = without_used_item_ids(w, &session, entries)?;
    w.tx.delete_draft(session.pk, row.place())?;
    if entries.is_empty() {
        return Ok((session, row));
    }
    let batch = Batch::pack(entries, w.ctx.entropy)?;
    check_count(row.items, &batch)?;
    let (session, row, _) = append_to_turn(w, session, row, &[&batch])?;
    Ok((session, row))
}

/// The turn's draft. If `stream` is given, the draft must exist and belong to this recording.
///
/// # Errors
/// If `stream` is given and the turn has no draft of it: `stream_lost` if the turn is open, otherwise the failure for a
/// turn that has ended.
pub(super) fn find<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    stream: Option<StreamId>,
) -> Result<Option<DraftRow>, Failure> {
    let draft = w.snapshot().draft_row(session, row)?;
    let Some(stream) = stream else {
        return Ok(draft);
    };
    match draft {
        Some(draft) if draft.stream == stream => Ok(Some(draft)),
        _ if row.status != TurnStatus::Open => Err(turn_closed(row)),
        _ => Err(Failure::new(
            ErrorCode::StreamLost,
            format!("turn {} is no longer recorded by this stream", row.turn_id),
        )
        .with_hint("the text that it had shown was kept; send the rest to another turn")),
    }
}

fn stream_open_failure(row: &TurnRow) -> Failure {
    Failure::new(
        ErrorCode::StreamOpen,
        format!("turn {} is being recorded by a stream", row.turn_id),
    )
    .with_hint("wait until the stream has ended, or cancel the turn")
}

/// Reduces a draft to its remainder after the rest of it has become items.
pub(super) fn advance<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    progress: &DraftProgress,
) -> Result<(), Failure> {
    let (pk, place) = (session.pk, row.place());
    if progress.has_ended {
        return w.tx.delete_draft(pk, place);
    }
    let Some(mut draft) = w.snapshot().draft_row(session, row)? else {
        return Ok(());
    };
    w.tx.clear_draft_chunks(pk, place)?;
    let remainder = &progress.remainder;
    draft.beat_at = w.ctx.now;
    // If nothing remains, the next chunk will be the first one.
    draft.first_chunk = progress.number + u64::from(remainder.is_empty());
    draft.last_chunk = progress.number;
    let draft = draft.sealed(w.ctx.keyring, pk);
    if !remainder.is_empty() {
        let chunk = DraftChunk::sealed(progress.number, remainder, w.ctx.keyring, (pk, &draft));
        w.tx.insert_draft_chunk(pk, place, &chunk)?;
    }
    w.tx.put_draft(pk, &draft)
}

/// The entries that a turn's draft becomes when the turn ends; `None` if the turn has no draft.
///
/// - If the turn's own recording fails, cancels or interrupts the turn: all entries, as the recording gave them.
/// - If another caller fails or cancels the turn: the draft's entries, then the caller's.
/// - If the turn's own recording finalizes the turn: no entries, because the recording's entries replace the draft.
/// - If the session's holder finalizes a turn whose draft the previous holder left: the draft's entries, which precede
///   the answer.
///
/// # Errors
/// `stream_open` for any other finalize of a turn that has a draft; the errors of [`find`].
pub(super) fn entries_at_close<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    close: &Close,
) -> Result<Option<Vec<Entry>>, Failure> {
    let draft = find(w, session, row, close.stream)?;
    match (&close.ending, draft) {
        (_, None) => Ok(None),
        (Ending::Fail(given) | Ending::Cancel(given) | Ending::Interrupt(given), Some(_)) => {
            if close.stream.is_some() {
                return Ok(Some(given.clone()));
            }
            let (stream, pieces) = pieces(w, session, row)?;
            Ok(Some(with_caller_entries(stream, &pieces, given)))
        }
        _ if close.stream.is_some() => Ok(Some(Vec::new())),
        (Ending::Finalize { .. }, Some(leftover)) if is_leftover(session, w.scope, &leftover) => {
            draft_entries(w, session, row).map(Some)
        }
        (Ending::Finalize { .. } | Ending::Recorded(_), Some(_)) => Err(stream_open_failure(row)),
    }
}

/// The draft's entries, then the caller's. If the caller's partial text begins with the draft's answer so far, the
/// caller has seen more of the answer than the draft contains. Then the caller's text replaces that of the draft's
/// answer, under the answer's key.
fn with_caller_entries(stream: StreamId, pieces: &[DraftPiece], given: &[Entry]) -> Vec<Entry> {
    let mut entries = partial_entries(stream, pieces);
    let mut given = given.to_vec();
    let is_partial = |e: &Entry| e.item.channel == Channel::Partial;
    if let Some((number, answer)) = answer_so_far(pieces)
        && let Some(index) = given.iter().position(is_partial)
        && given[index]
            .item
            .text()
            .is_some_and(|t| t.to_plain().starts_with(&answer))
        && let id = stream.item_id(number)
        && let Some(entry) = entries.iter_mut().find(|e| e.item.item_id == id)
    {
        entry.item.parts = given.remove(index).item.parts;
    }
    entries.extend(given);
    entries
}

/// The turn's draft as entries; none for a draft that fails verification, so that the turn can end.
pub(super) fn draft_entries<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Result<Vec<Entry>, Failure> {
    let (stream, pieces) = pieces(w, session, row)?;
    Ok(partial_entries(stream, &pieces))
}

/// The pieces of the turn's draft; none if the draft fails verification.
fn pieces<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
) -> Result<(StreamId, Vec<DraftPiece>), Failure> {
    let no_pieces = || (StreamId([0; 8]), Vec::new());
    let snapshot = w.snapshot();
    let read = || {
        let Some(draft) = snapshot.draft_row(session, row)? else {
            return Ok(no_pieces());
        };
        let pieces = snapshot.draft_pieces(session, &draft)?;
        Ok((draft.stream, pieces))
    };
    match read() {
        Err(Failure {
            code: ErrorCode::IntegrityError,
            detail,
            ..
        }) => {
            tracing::error!(session_id = %session.name(), turn_id = %row.turn_id, detail, "a draft is left out");
            Ok(no_pieces())
        }
        result => result,
    }
}

/// Whether an open turn is abandoned, by the conditions of [`Interrupt`].
pub(super) fn is_abandoned<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    interrupt: &Interrupt,
) -> Result<bool, Failure> {
    let draft = match w.snapshot().draft_row(session, row) {
        // A draft that fails verification does not count as a heartbeat.
        Err(failure) if failure.code == ErrorCode::IntegrityError => None,
        draft => draft?,
    };
    Ok(match (draft, interrupt.stream) {
        (Some(draft), Some(stream)) => draft.stream == stream && draft.beat_at < interrupt.before,
        (None, Some(_)) => false,
        (Some(draft), None) => {
            draft.beat_at < interrupt.before && row.last_write_at < interrupt.before
        }
        (None, None) => row.last_write_at < interrupt.before,
    })
}

/// Removes the item ids that stored items already use from the entries, so that a turn can always end.
pub(super) fn without_used_item_ids<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, Failure> {
    for entry in &mut entries {
        if let Some(id) = &entry.item.item_id
            && w.tx.item_seq(session.pk, id)?.is_some()
        {
            entry.item.item_id = None;
        }
    }
    Ok(entries)
}

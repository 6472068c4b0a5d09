//! Drafts: what an open turn's stream has shown is kept until it becomes items (DESIGN §4). One recording at a time
//! draws up the draft of a turn; whoever ends the turn otherwise keeps what the draft shows.

use filrouge_types::{Channel, ErrorCode, Failure, TurnStatus};

use super::lease;
use super::writing::{Context, Writing, check_count, put_in_turn, turn_closed};

use crate::command::{Close, Ending, Interrupt, Outcome, Progress, PutDraft, Scope};
use crate::draft::{Piece, StreamId, answer_so_far, partial_entries};
use crate::read::Loaded;
use crate::record::{Batch, Entry};
use crate::rows::{Change, DraftChunk, DraftRow, TurnRow, Tx};

pub(super) fn put<T: Tx>(w: &mut Writing<'_, T>, put: &PutDraft) -> Result<Outcome, Failure> {
    let (mut session, mut row) = w.turn(&put.session_id, &put.turn_id)?;
    // A draft is never the last of a turn: it gives nothing free.
    lease::check_hold(&session, w.scope, w.ctx.now)?;
    let mut draft = match own(w, &session, &row, Some(put.stream)) {
        Ok(Some(draft)) => draft,
        _ if put.begins && row.status != TurnStatus::Open => return Err(turn_closed(&row)),
        Err(failure) if put.begins && failure.code == ErrorCode::StreamLost => {
            match w.sight().draft_row(&session, &row)? {
                Some(left) if is_left(&session, w.scope, &left) => {
                    (session, row) = keep_left(w, session, row)?;
                    begun(w.ctx, &row, put)
                }
                Some(_) => return Err(stream_open(&row)),
                None => begun(w.ctx, &row, put),
            }
        }
        Err(failure) => return Err(failure),
        Ok(None) => begun(w.ctx, &row, put),
    };
    if put.number > draft.last_chunk + 1 {
        let what = format!("chunk {} of the draft is missing", draft.last_chunk + 1);
        return Err(Failure::new(ErrorCode::Invalid, what));
    }
    draft.beat_at = w.ctx.now;
    let adds = !put.deltas.is_empty() && put.number > draft.last_chunk;
    if adds {
        draft.last_chunk = put.number;
    }
    let draft = draft.sealed(w.ctx.keyring, session.pk);
    if adds {
        let chunk =
            DraftChunk::sealed(put.number, &put.deltas, w.ctx.keyring, (session.pk, &draft));
        w.tx.insert_draft_chunk(session.pk, draft.place, &chunk)?;
    }
    w.tx.put_draft(session.pk, &draft)?;
    let mac = session.head.mac;
    w.log(session.pk, (0, 0), &mac, Change::Draft);
    Ok(Outcome::Drafted)
}

fn begun(ctx: &Context<'_>, row: &TurnRow, put: &PutDraft) -> DraftRow {
    let writer = put.writer.clone();
    DraftRow::new(row.place(), row.turn_id, put.stream, writer, ctx.now)
}

/// Whether a draft was left behind by who held the session before: who writes holds it now, under a fence that was given
/// out since the recording gave its last sign of life. That the fence is the newest one has been checked.
pub(super) fn is_left(session: &Loaded, scope: &Scope, draft: &DraftRow) -> bool {
    let lease = &session.head.lease;
    let holds = scope.hold.is_some_and(|hold| hold.fence == lease.fence);
    holds && draft.beat_at < lease.since
}

/// What the turn's draft shows, when it was left behind; then it is for the caller to put, and the draft to delete.
pub(super) fn left<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
) -> Result<Option<Vec<Entry>>, Failure> {
    match w.sight().draft_row(session, row)? {
        Some(draft) if is_left(session, w.scope, &draft) => {
            let entries = shown(w, session, row)?;
            without_known_keys(w, session, entries).map(Some)
        }
        _ => Ok(None),
    }
}

/// Puts what a draft shows that was left behind, and takes it away.
fn keep_left<T: Tx>(
    w: &mut Writing<'_, T>,
    session: Loaded,
    row: TurnRow,
) -> Result<(Loaded, TurnRow), Failure> {
    let entries = shown(w, &session, &row)?;
    let entries = without_known_keys(w, &session, entries)?;
    w.tx.delete_draft(session.pk, row.place())?;
    if entries.is_empty() {
        return Ok((session, row));
    }
    let batch = Batch::seal(entries, w.ctx.entropy)?;
    check_count(row.items, &batch)?;
    let (session, row, _) = put_in_turn(w, session, row, &[&batch])?;
    Ok((session, row))
}

/// The turn's draft, which must be the recording's own; without a recording, whichever there is.
pub(super) fn own<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
    stream: Option<StreamId>,
) -> Result<Option<DraftRow>, Failure> {
    let draft = w.sight().draft_row(session, row)?;
    let Some(stream) = stream else {
        return Ok(draft);
    };
    match draft {
        Some(draft) if draft.stream == stream => Ok(Some(draft)),
        _ if row.status != TurnStatus::Open => Err(turn_closed(row)),
        _ => Err(Failure::new(
            ErrorCode::StreamLost,
            format!(
                "turn {} is not recorded by this stream any more",
                row.turn_id
            ),
        )
        .with_hint("what it had shown was kept; send the rest to another turn")),
    }
}

fn stream_open(row: &TurnRow) -> Failure {
    Failure::new(
        ErrorCode::StreamOpen,
        format!("turn {} is being recorded by a stream", row.turn_id),
    )
    .with_hint("wait until the stream has ended, or cancel the turn")
}

/// What is left of a draft once some of it has become items.
pub(super) fn advance<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
    progress: &Progress,
) -> Result<(), Failure> {
    let (pk, place) = (session.pk, row.place());
    if progress.over {
        return w.tx.delete_draft(pk, place);
    }
    let Some(mut draft) = w.sight().draft_row(session, row)? else {
        return Ok(());
    };
    w.tx.clear_draft_chunks(pk, place)?;
    let rest = &progress.rest;
    draft.beat_at = w.ctx.now;
    // With nothing left, the next chunk is the first.
    draft.first_chunk = progress.number + u64::from(rest.is_empty());
    draft.last_chunk = progress.number;
    let draft = draft.sealed(w.ctx.keyring, pk);
    if !rest.is_empty() {
        let chunk = DraftChunk::sealed(progress.number, rest, w.ctx.keyring, (pk, &draft));
        w.tx.insert_draft_chunk(pk, place, &chunk)?;
    }
    w.tx.put_draft(pk, &draft)
}

/// What a turn that fails or is cancelled ends with: what its draft shows and what the caller gives, of its recording
/// what that gives; `None` when there is no draft. A turn that is recorded is not finalized by somebody else, but by who
/// holds the session since the recording was left behind.
pub(super) fn ending<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
    close: &Close,
) -> Result<Option<Vec<Entry>>, Failure> {
    let draft = own(w, session, row, close.stream)?;
    match (&close.ending, draft) {
        (_, None) => Ok(None),
        (Ending::Fail(given) | Ending::Cancel(given), Some(_)) => {
            if close.stream.is_some() {
                return Ok(Some(given.clone()));
            }
            let (stream, pieces) = pieces(w, session, row)?;
            Ok(Some(with_given(stream, &pieces, given)))
        }
        _ if close.stream.is_some() => Ok(Some(Vec::new())),
        (Ending::Finalize { .. }, Some(left)) if is_left(session, w.scope, &left) => {
            shown(w, session, row).map(Some)
        }
        (Ending::Finalize { .. } | Ending::Recorded(_), Some(_)) => Err(stream_open(row)),
    }
}

/// What a draft shows, then what the caller gives. A longer text of the caller's that begins with the answer as far
/// as the draft shows it takes its place, under its key: the caller has seen more than the draft has.
fn with_given(stream: StreamId, pieces: &[Piece], given: &[Entry]) -> Vec<Entry> {
    let mut entries = partial_entries(stream, pieces);
    let mut given = given.to_vec();
    let partial = |e: &Entry| e.item.channel == Channel::Partial;
    if let Some((number, shown)) = answer_so_far(pieces)
        && let Some(at) = given.iter().position(partial)
        && given[at]
            .item
            .text()
            .is_some_and(|t| t.to_plain().starts_with(&shown))
        && let id = stream.item_id(number)
        && let Some(entry) = entries.iter_mut().find(|e| e.item.item_id == id)
    {
        entry.item.parts = given.remove(at).item.parts;
    }
    entries.extend(given);
    entries
}

/// What the turn's draft shows, as items. One that is not what was written is left out, so that the turn can end.
pub(super) fn shown<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
) -> Result<Vec<Entry>, Failure> {
    let (stream, pieces) = pieces(w, session, row)?;
    Ok(partial_entries(stream, &pieces))
}

/// The pieces of the turn's draft; none of one that is not what was written.
fn pieces<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
) -> Result<(StreamId, Vec<Piece>), Failure> {
    let none = || (StreamId([0; 8]), Vec::new());
    let sight = w.sight();
    let read = || {
        let Some(draft) = sight.draft_row(session, row)? else {
            return Ok(none());
        };
        let pieces = sight.draft_pieces(session, &draft)?;
        Ok((draft.stream, pieces))
    };
    match read() {
        Err(Failure {
            code: ErrorCode::IntegrityError,
            detail,
            ..
        }) => {
            tracing::error!(session_id = %session.name(), turn_id = %row.turn_id, detail, "a draft is left out");
            Ok(none())
        }
        result => result,
    }
}

/// Whether nobody works at an open turn any more.
pub(super) fn is_over<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
    row: &TurnRow,
    interrupt: &Interrupt,
) -> Result<bool, Failure> {
    let draft = match w.sight().draft_row(session, row) {
        // Who changed it has not recorded it.
        Err(failure) if failure.code == ErrorCode::IntegrityError => None,
        draft => draft?,
    };
    Ok(match (draft, interrupt.stream) {
        (Some(draft), Some(stream)) => draft.stream == stream && draft.beat_at < interrupt.before,
        (None, Some(_)) => false,
        (Some(draft), None) => {
            draft.beat_at < interrupt.before && row.touched_at < interrupt.before
        }
        (None, None) => row.touched_at < interrupt.before,
    })
}

/// Items whose keys were taken by others lose them: a turn can end whatever keys there are.
pub(super) fn without_known_keys<T: Tx>(
    w: &Writing<'_, T>,
    session: &Loaded,
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

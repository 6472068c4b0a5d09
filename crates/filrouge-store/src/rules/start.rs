//! Starts a turn. The same command records a complete turn, replaces a turn, and reopens an interrupted one (DESIGN
//! §4.1, §4.6).

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, RawJson, Role, SessionStatus, Turn, TurnStatus,
};

use super::lease;
use super::writing::{
    ActiveWrite, check_count, check_finals, check_not_empty, check_tail, check_unique_ids, fresh,
    insert_session, note_items, put_batch, put_head, put_in_turn,
};
use crate::command::{ConcurrentTurns, Outcome, Start, WrittenRange};
use crate::read::session_conflict;
use crate::read::{ALL_PLACES, VerifiedSession};
use crate::record::{Batch, Entry, Event};
use crate::rows::{ORDINAL_MAX, TurnRow, Tx, VERSION_MAX};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, start: &Start) -> Result<Outcome, Failure> {
    let id = &start.session.session_id;
    let turn_id = w
        .ctx
        .keyring
        .turn_id(&w.scope.tenant, id, &start.event.request_id);
    // A replacement never creates a session, so another owner's session looks absent. Without a replacement, its id is
    // refused with `session_conflict`.
    let mut found = match start.event.replaces {
        Some(_) => Some(w.snapshot().get(w.scope, id)?),
        None => w.snapshot().find_any(w.scope, id)?,
    };
    if let Some(session) = &found {
        if !w.scope.sees(&session.row) {
            return Err(session_conflict());
        }
        let snapshot = w.snapshot();
        let request = &start.event.request_id;
        if let Some(row) = snapshot.turn_of_request(session, request)? {
            return replay(w, start, row);
        }
    }
    match &mut found {
        Some(session) => lease::check(w, session)?,
        None => lease::check_no_fence(w.scope)?,
    }
    if let Some(session) = found.as_ref().filter(|_| start.event.replaces.is_none()) {
        check_active(session)?;
    }
    check_not_empty(&start.batch)?;
    check_unique_ids(&start.batch)?;
    check_finals(&start.batch, [false; 2])?;
    check_count(0, &start.batch)?;
    let (ordinal, version) = match &found {
        Some(session) => ordinal_and_version(w, session, start)?,
        None => (1, 1),
    };
    if let Some(session) = &found {
        check_newest_turn(w, session)?;
        check_new_ids(w, session, &start.batch)?;
        check_tail(w, session, start.batch.count())?;
    }
    let created = found.is_none();
    let mut session = match found {
        Some(session) => session,
        None => insert_session(w, &start.session)?,
    };
    let (first, last) = put_batch(w, &mut session, Some(turn_id), &start.batch)?;
    let mut row = TurnRow::new(turn_id, ordinal, version, first, w.ctx.now);
    note_items(&mut row, &start.batch, first, w.ctx);
    row.status = start.status;
    if row.status == TurnStatus::Open {
        session.head.open_turns += 1;
    }
    let row = row.sealed(w.ctx.keyring, session.pk);
    w.tx.insert_turn(session.pk, &row)?;
    session.head.turn_count = session.head.turn_count.max(ordinal);
    session.head.turn_rows += 1;
    session.head.updated_at = w.ctx.now;
    let session = put_head(w, session, (first, last + 1 - first), created)?;
    let fresh = fresh(w.ctx, &start.batch, turn_id, first);
    let turn = w.snapshot().project_fresh(&session, &row, fresh)?;
    let roles = start.batch.items().map(|item| item.role);
    let put = WrittenRange::new(&session, first, last + 1 - first, roles);
    Ok(Outcome::Turn(Box::new(turn), put))
}

/// Refuses new turns in a closed session; its open turns may still end.
fn check_active(session: &VerifiedSession) -> Result<(), Failure> {
    if session.row.status != SessionStatus::Closed {
        return Ok(());
    }
    let what = format!("session {:?} is closed", session.name());
    Err(Failure::new(ErrorCode::SessionClosed, what)
        .with_hint("begin another session, or patch this one's status to active"))
}

/// Determines the ordinal and the version of a new turn: the session's next ordinal and version 1. A replacement gets
/// the ordinal of the turn that it replaces, and the next version.
fn ordinal_and_version<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    start: &Start,
) -> Result<(u64, u64), Failure> {
    let Some(old) = &start.event.replaces else {
        check_open_turns(start, session)?;
        let ordinal = session.head.turn_count + 1;
        if ordinal > ORDINAL_MAX {
            return Err(Failure::new(
                ErrorCode::LimitExceeded,
                format!("a session has at most {ORDINAL_MAX} turns"),
            ));
        }
        return Ok((ordinal, 1));
    };
    let snapshot = w.snapshot();
    let row = snapshot
        .find_turn(session, w.scope, old)?
        .ok_or_else(|| snapshot.no_turn(session, old))?;
    if row.status == TurnStatus::Open {
        return Err(
            Failure::new(ErrorCode::TurnOpen, format!("turn {old} is open"))
                .with_hint("finalize, fail or cancel it before it is replaced"),
        );
    }
    if row.redacted_by != 0 && !start.reopen {
        let what = format!("turn {old} was redacted; its history is not imported again");
        return Err(Failure::new(ErrorCode::TurnRedacted, what));
    }
    if let Some(newer) = snapshot.next_version(session, &row)? {
        return Err(Failure::new(
            ErrorCode::TurnReplaced,
            format!("turn {old} was replaced by {} already", newer.turn_id),
        )
        .with_hint("replace the newer one"));
    }
    if row.record_version == VERSION_MAX {
        return Err(Failure::new(
            ErrorCode::LimitExceeded,
            format!("a turn has at most {VERSION_MAX} versions"),
        ));
    }
    Ok((row.ordinal, row.record_version + 1))
}

/// Checks that the newest turn is stored, before a turn is added after it.
fn check_newest_turn<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
) -> Result<(), Failure> {
    let newest =
        w.tx.turns(session.pk, ALL_PLACES.0, ALL_PLACES.1, true, 1)?;
    if newest.first().map_or(0, |row| row.ordinal) == session.head.turn_count {
        return Ok(());
    }
    Err(session.broken(None, "turns are missing or were added"))
}

/// Refuses a second open turn, unless the request allows concurrent turns (DESIGN §4.6).
fn check_open_turns(start: &Start, session: &VerifiedSession) -> Result<(), Failure> {
    if start.concurrent_turns == ConcurrentTurns::Reject && session.head.open_turns > 0 {
        let what = "another turn of this session is open";
        return Err(Failure::new(ErrorCode::TurnOpen, what)
            .with_hint("wait until it is closed, or allow concurrent turns"));
    }
    Ok(())
}

/// Refuses an item id that an item of the session has already.
fn check_new_ids<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    batch: &Batch,
) -> Result<(), Failure> {
    for id in batch.items().filter_map(|i| i.item_id.as_ref()) {
        if let Some(seq) = w.tx.item_seq(session.pk, id)? {
            return Err(Failure::new(
                ErrorCode::IdempotencyMismatch,
                format!(
                    "item_id {:?} is used by the item at seq {seq} of this session",
                    id.as_str()
                ),
            ));
        }
    }
    Ok(())
}

/// Handles a request whose id has started the turn `row` before: returns this turn, even if the body differs, and
/// reopens it if it was interrupted (P2, DESIGN §4). A replacement with a different body is refused.
fn replay<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    start: &Start,
    row: TurnRow,
) -> Result<Outcome, Failure> {
    let mut session = w.snapshot().get(w.scope, &start.session.session_id)?;
    let first = w.snapshot().start_of(&session, &row)?;
    let (stored, current) = (&first.fingerprint, &start.event.fingerprint);
    let same = w
        .snapshot()
        .same_request(&session, (&row, row.first_seq), stored, current)?;
    let differs = !same;
    if differs && start.event.replaces.is_some() {
        return Err(Failure::new(
            ErrorCode::IdempotencyMismatch,
            format!(
                "request_id {:?} was used with another body",
                start.event.request_id.as_str()
            ),
        ));
    }
    let (turn, put) = if should_reopen(w, &session, &row, start)? {
        lease::check(w, &mut session)?;
        check_open_turns(start, &session)?;
        reopen(w, session, row)?
    } else {
        let turn = w.snapshot().project(&session, &row)?;
        lease::release_separately(w, session)?;
        (turn, None)
    };
    let turn = Turn {
        replayed: true,
        differs,
        ..turn
    };
    Ok(Outcome::Turn(Box::new(turn), put))
}

/// Whether to reopen a turn: it is interrupted, was neither redacted nor replaced, and the caller wants it reopened.
fn should_reopen<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    row: &TurnRow,
    start: &Start,
) -> Result<bool, Failure> {
    if row.status != TurnStatus::Interrupted || row.redacted_by != 0 || !start.reopen {
        return Ok(false);
    }
    Ok(w.snapshot().next_version(session, row)?.is_none())
}

/// Opens an interrupted turn again, with an item that records it.
fn reopen<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
    mut row: TurnRow,
) -> Result<(Turn, Option<WrittenRange>), Failure> {
    let note = ItemBody::new(
        Role::System,
        Channel::SystemNote,
        RawJson::from_checked(r#"[{"type":"turn_status","status":"open"}]"#),
    );
    let batch = Batch::seal(
        vec![Entry {
            item: note,
            events: vec![Event::Reopen {}],
        }],
        w.ctx.entropy,
    )?;
    row.status = TurnStatus::Open;
    session.head.open_turns += 1;
    let (session, row, put) = put_in_turn(w, session, row, &[&batch])?;
    let turn = w.snapshot().project(&session, &row)?;
    Ok((turn, put))
}

//! Starts a turn. The same command records a complete turn, replaces a turn, and reopens an interrupted one (DESIGN
//! §4.1, §4.6).

use std::sync::Arc;

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, RawJson, Result, Role, Turn, TurnStatus,
};

use super::lease;
use super::refusal::check_expected_seq;
use super::session::set_title;
use super::writing::{
    ActiveWrite, append_batch, append_to_turn, check_count, check_finals, check_not_empty,
    check_tail, check_unique_ids, count_items_in_turn, insert_session, new_batch, put_head,
};
use crate::command::{ConcurrentTurns, Outcome, Start, WrittenRange};
use crate::read::{ALL_PLACES, VerifiedSession, session_conflict};
use crate::record::{Batch, Entry, Event};
use crate::rows::{ORDINAL_MAX, StartedTurn, TurnRow, Tx, VERSION_MAX};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, start: &Arc<Start>) -> Result<Outcome> {
    let id = &start.session.session_id;
    let turn_id = w
        .ctx
        .keyring
        .turn_id(&w.scope.tenant, id, &start.event.request_id);
    // A replacement never creates a session, so another owner's session looks absent. Any other start is refused with
    // `session_conflict` if another owner has this session id.
    let mut existing = match start.event.replaces {
        Some(_) => Some(w.snapshot().get(w.scope, id)?),
        None => w.snapshot().find_any(w.scope, id)?,
    };
    if let Some(session) = &existing {
        if !w.scope.can_see(&session.row) {
            return Err(session_conflict());
        }
        let snapshot = w.snapshot();
        let request = &start.event.request_id;
        if let Some(row) = snapshot.turn_of_request(session, request)? {
            return replay(w, start, row);
        }
    }
    match &mut existing {
        Some(session) => lease::check_and_release(w, session)?,
        None => lease::check_no_fence(w.scope)?,
    }
    let last_seq = existing.as_ref().map_or(0, |session| session.head.last_seq);
    check_expected_seq(start.expected_seq, last_seq)?;
    if let Some(session) = existing.as_ref().filter(|_| start.event.replaces.is_none()) {
        lease::check_can_continue(session, &start.terminal)?;
    }
    check_not_empty(&start.batch)?;
    check_unique_ids(&start.batch)?;
    check_finals(&start.batch, [false; 2])?;
    check_count(0, &start.batch)?;
    let (ordinal, version) = match &existing {
        Some(session) => ordinal_and_version(w, session, start)?,
        None => (1, 1),
    };
    if let Some(session) = &existing {
        check_newest_turn(w, session)?;
        for id in start.batch.items().filter_map(|i| i.item_id.as_ref()) {
            if let Some(seq) = w.tx.item_seq(session.pk, id)? {
                let id = id.as_str();
                let detail =
                    format!("item_id {id:?} is used by the item at seq {seq} of this session");
                return Err(Failure::new(ErrorCode::IdempotencyMismatch, detail));
            }
        }
        check_tail(w, session, start.batch.count())?;
    }
    let is_created = existing.is_none();
    let mut session = match existing {
        Some(session) => session,
        None => insert_session(w, &start.session)?,
    };
    if session.head.turn_count == 0 && session.row.title.is_none() && start.session.title.is_some()
    {
        set_title(w, &mut session, start.session.title.clone())?;
    }
    let (first, last) = append_batch(w, &mut session, Some(turn_id), &start.batch)?;
    let mut row = TurnRow::new(turn_id, ordinal, version, first, w.ctx.now);
    count_items_in_turn(&mut row, &start.batch, first, w.ctx);
    row.status = start.status;
    if row.status == TurnStatus::Open {
        session.head.open_turns += 1;
    }
    let row = row.sealed(w.ctx.keyring, session.pk);
    w.tx.insert_turn(session.pk, &row)?;
    if row.status == TurnStatus::Open {
        let turn = StartedTurn {
            start: start.clone(),
            turn_id,
            first_seq: first,
            created_at: w.ctx.now,
        };
        w.tx.keep_started_turn(session.pk, turn);
    }
    session.head.turn_count = session.head.turn_count.max(ordinal);
    session.head.turn_rows += 1;
    // A turn with a past elsewhere leaves the session's times as they are there.
    if start.session.times.is_none() {
        session.head.updated_at = w.ctx.now;
    }
    let session = put_head(w, session, (first, last + 1 - first), is_created)?;
    let new_batch = new_batch(w.ctx, &start.batch, turn_id, first);
    let turn = w
        .snapshot()
        .project_with_new_batch(&session, &row, new_batch)?;
    let roles = start.batch.items().map(|item| item.role);
    let written = WrittenRange::new(&session, first, last + 1 - first, roles);
    Ok(Outcome::Turn(Box::new(turn), written))
}

/// Determines the ordinal and the version of a new turn: the session's next ordinal and version 1. A replacement gets
/// the ordinal of the turn that it replaces, and the next version.
fn ordinal_and_version<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    start: &Start,
) -> Result<(u64, u64)> {
    let Some(replaced) = &start.event.replaces else {
        check_open_turns(start, session)?;
        let ordinal = session.head.turn_count + 1;
        if ordinal > ORDINAL_MAX {
            return Err(ErrorCode::LimitExceeded
                .failure(format!("a session has at most {ORDINAL_MAX} turns")));
        }
        return Ok((ordinal, 1));
    };
    let snapshot = w.snapshot();
    let row = snapshot
        .find_turn(session, w.scope, replaced)?
        .ok_or_else(|| snapshot.absent_turn_failure(session, replaced))?;
    if row.status == TurnStatus::Open {
        return Err(
            Failure::new(ErrorCode::TurnOpen, format!("turn {replaced} is open"))
                .with_hint("finalize, fail or cancel it before it is replaced"),
        );
    }
    if row.redacted_by != 0 && !start.reopen {
        let detail = format!("turn {replaced} was redacted; its history is not imported again");
        return Err(Failure::new(ErrorCode::TurnRedacted, detail));
    }
    if let Some(newer) = snapshot.next_version(session, &row)? {
        return Err(Failure::new(
            ErrorCode::TurnReplaced,
            format!("turn {replaced} was replaced by {} already", newer.turn_id),
        )
        .with_hint("replace the newer one"));
    }
    if row.record_version == VERSION_MAX {
        return Err(
            ErrorCode::LimitExceeded.failure(format!("a turn has at most {VERSION_MAX} versions"))
        );
    }
    Ok((row.ordinal, row.record_version + 1))
}

/// Checks that the newest turn is stored, before a turn is added after it.
fn check_newest_turn<T: Tx>(w: &ActiveWrite<'_, T>, session: &VerifiedSession) -> Result<()> {
    let newest =
        w.tx.turns(session.pk, ALL_PLACES.0, ALL_PLACES.1, true, 1)?;
    if newest.first().map_or(0, |row| row.ordinal) == session.head.turn_count {
        return Ok(());
    }
    Err(session.integrity_failure(None, "turns are missing or were added"))
}

/// Refuses a second open turn, unless the request allows concurrent turns (DESIGN §4.6).
fn check_open_turns(start: &Start, session: &VerifiedSession) -> Result<()> {
    if start.concurrent_turns == ConcurrentTurns::Reject && session.head.open_turns > 0 {
        let detail = "another turn of this session is open";
        return Err(Failure::new(ErrorCode::TurnOpen, detail)
            .with_hint("wait until it is closed, or allow concurrent turns"));
    }
    Ok(())
}

/// Handles a request whose id has already started the turn `row`. Returns this turn, even if the body differs, and
/// reopens it if it was interrupted (P2, DESIGN §4). Refuses a replacement with a different body.
fn replay<T: Tx>(w: &mut ActiveWrite<'_, T>, start: &Start, row: TurnRow) -> Result<Outcome> {
    let mut session = w.snapshot().get(w.scope, &start.session.session_id)?;
    let first_start = w.snapshot().start_of(&session, &row)?;
    let (stored, current) = (&first_start.fingerprint, &start.event.fingerprint);
    let is_same = w
        .snapshot()
        .is_same_request(&session, (&row, row.first_seq), stored, current)?;
    let differs = !is_same;
    if differs && start.event.replaces.is_some() {
        return Err(ErrorCode::IdempotencyMismatch.failure(format!(
            "request_id {:?} was used with another body",
            start.event.request_id.as_str()
        )));
    }
    let may_reopen = row.status == TurnStatus::Interrupted && row.redacted_by == 0 && start.reopen;
    let (turn, written) = if may_reopen && w.snapshot().next_version(&session, &row)?.is_none() {
        lease::check_and_release(w, &mut session)?;
        check_open_turns(start, &session)?;
        reopen(w, session, row)?
    } else {
        let turn = w.snapshot().project(&session, &row)?;
        lease::release_if_requested(w, session)?;
        (turn, None)
    };
    let turn = Turn {
        replayed: true,
        differs,
        ..turn
    };
    Ok(Outcome::Turn(Box::new(turn), written))
}

/// Opens an interrupted turn again, and adds an item that records this.
fn reopen<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
    mut row: TurnRow,
) -> Result<(Turn, Option<WrittenRange>)> {
    let item = ItemBody::new(
        Role::System,
        Channel::SystemNote,
        RawJson::from_checked(r#"[{"type":"turn_status","status":"open"}]"#),
    );
    let batch = Batch::pack(
        vec![Entry {
            item,
            events: vec![Event::Reopen {}],
        }],
        w.ctx.entropy,
    )?;
    row.status = TurnStatus::Open;
    session.head.open_turns += 1;
    let (session, row, written) = append_to_turn(w, session, row, &[&batch])?;
    let turn = w.snapshot().project(&session, &row)?;
    Ok((turn, written))
}

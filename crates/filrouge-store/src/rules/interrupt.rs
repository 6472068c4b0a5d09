//! Marking turns whose owner is gone (DESIGN §4.5).

use filrouge_types::{Channel, Failure, ItemBody, RawJson, Role, TurnStatus};

use super::draft;
use super::writing::{Writing, check_tail, note_items, put_batch, put_head};

use crate::command::{Interrupt, Outcome, Put, SINCE_EVER};
use crate::record::{Batch, Entry, Event};
use crate::rows::Tx;

pub(super) fn apply<T: Tx>(
    w: &mut Writing<'_, T>,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let sight = w.sight();
    let mut session = sight.get(w.scope, &interrupt.session_id)?;
    let id = &interrupt.turn_id;
    let mut row = sight
        .find_turn(&session, w.scope, id)?
        .ok_or_else(|| sight.no_turn(&session, id))?;
    if row.status != TurnStatus::Open || !draft::is_over(w, &session, &row, interrupt)? {
        return Ok(Outcome::Interrupted(None));
    }
    // Whoever holds the session may be silent, and knows whether it works at the turn. Of a recording it is known that it is
    // over; but who has written to its turn since works at it without one.
    let lease = &session.head.lease;
    let holds = w.scope.hold.is_some_and(|hold| hold.fence == lease.fence);
    let says_so = holds && interrupt.stream.is_none() && interrupt.before == SINCE_EVER;
    let works = !says_so && (interrupt.stream.is_none() || row.touched_at >= lease.since);
    if lease.is_live(w.ctx.now) && works {
        return Ok(Outcome::Interrupted(None));
    }
    let item = ItemBody::new(
        Role::System,
        Channel::Interrupted,
        RawJson::from_checked(r#"[{"type":"turn_status","status":"interrupted"}]"#),
    );
    let entries = draft::shown(w, &session, &row)?;
    let mut entries = draft::without_known_keys(w, &session, entries)?;
    entries.push(Entry {
        item,
        events: vec![Event::Interrupt {}],
    });
    let batch = Batch::seal(entries, w.ctx.entropy)?;
    check_tail(w, &session, batch.count())?;
    let (first, last) = put_batch(w, &mut session, Some(row.turn_id), &batch)?;
    note_items(&mut row, &batch, first, w.ctx);
    row.status = TurnStatus::Interrupted;
    let row = row.sealed(w.ctx.keyring, session.pk);
    w.tx.update_turn(session.pk, &row)?;
    w.tx.delete_draft(session.pk, row.place())?;
    session.head.open_turns = session.head.open_turns.saturating_sub(1);
    session.head.updated_at = w.ctx.now;
    let session = put_head(w, session, (first, last + 1 - first), false)?;
    let put = Put::new(&session, first, last + 1 - first);
    Ok(Outcome::Interrupted(put))
}

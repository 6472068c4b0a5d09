//! Marking turns whose owner is gone (DESIGN §4.5).

use filrouge_types::{Channel, Failure, ItemBody, RawJson, Role, TurnStatus};

use super::draft;
use super::writing::{Writing, put_in_turn};

use crate::command::{Interrupt, Outcome, SINCE_EVER};
use crate::record::{Batch, Entry, Event};
use crate::rows::Tx;

pub(super) fn apply<T: Tx>(
    w: &mut Writing<'_, T>,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let (mut session, mut row) = w.turn(&interrupt.session_id, &interrupt.turn_id)?;
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
    row.status = TurnStatus::Interrupted;
    session.head.open_turns = session.head.open_turns.saturating_sub(1);
    session.head.updated_at = w.ctx.now;
    let (session, row, put) = put_in_turn(w, session, row, &[&batch])?;
    w.tx.delete_draft(session.pk, row.place())?;
    Ok(Outcome::Interrupted(put))
}

//! Interrupts abandoned turns (DESIGN §4.5).

use filrouge_types::{Channel, ItemBody, RawJson, Result, Role, TurnStatus};

use super::draft;
use super::writing::{ActiveWrite, append_to_turn};

use crate::command::{AFTER_ANY_HEARTBEAT, Interrupt, Outcome};
use crate::record::{Batch, Entry, Event};
use crate::rows::Tx;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, interrupt: &Interrupt) -> Result<Outcome> {
    let (mut session, mut row) = w.turn(&interrupt.session_id, &interrupt.turn_id)?;
    if row.status != TurnStatus::Open || !draft::is_abandoned(w, &session, &row, interrupt)? {
        return Ok(Outcome::Interrupted(None));
    }
    // While a lease is live, its holder may be working on the turn without writing. Then the turn is interrupted in two
    // cases only: the holder itself declares the turn abandoned, or the write names a recording that has ended and the
    // turn has no write under this lease.
    let lease = &session.head.lease;
    let is_holder = w
        .scope
        .fence
        .is_some_and(|token| token.fence == lease.fence);
    let is_declared =
        is_holder && interrupt.stream.is_none() && interrupt.before == AFTER_ANY_HEARTBEAT;
    let may_be_working =
        !is_declared && (interrupt.stream.is_none() || row.last_write_at >= lease.since);
    if lease.is_live(w.ctx.lease_now) && may_be_working {
        return Ok(Outcome::Interrupted(None));
    }
    let item = ItemBody::new(
        Role::System,
        Channel::Interrupted,
        RawJson::from_checked(r#"[{"type":"turn_status","status":"interrupted"}]"#),
    );
    let entries = draft::draft_entries(w, &session, &row)?;
    let mut entries = draft::without_used_item_ids(w, &session, entries)?;
    entries.push(Entry {
        item,
        events: vec![Event::Interrupt {}],
    });
    let batch = Batch::pack(entries, w.ctx.entropy)?;
    row.status = TurnStatus::Interrupted;
    session.head.open_turns = session.head.open_turns.saturating_sub(1);
    session.head.updated_at = w.ctx.now;
    let (session, row, written) = append_to_turn(w, session, row, &[&batch])?;
    w.tx.delete_draft(session.pk, row.place())?;
    Ok(Outcome::Interrupted(written))
}

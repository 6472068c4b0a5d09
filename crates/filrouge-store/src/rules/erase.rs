//! Erases a session: deletes its rows and leaves a tombstone, so that late writes fail (DESIGN §9).

use filrouge_types::Failure;

use super::writing::{ActiveWrite, put_changed_head};
use crate::command::{Erase, Erased, Outcome};
use crate::read::{SessionOrTombstone, session_not_found};
use crate::rows::{Change, HeadRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, erase: &Erase) -> Result<Outcome, Failure> {
    let mut session = match w.snapshot().find_or_tombstone(w.scope, &erase.session_id)? {
        Some(SessionOrTombstone::Live(session)) => *session,
        // A repeated erasure returns the first receipt.
        Some(SessionOrTombstone::Erased(erased)) => return Ok(Outcome::Erased(erased)),
        None => return Err(session_not_found(&erase.session_id)),
    };
    let erased = Erased {
        at: w.ctx.now,
        owner: w
            .ctx
            .keyring
            .owner(session.row.identity_id.as_ref(), session.row.token),
        items: session.head.last_seq,
        turns: session.head.turn_count,
    };
    w.tx.erase(session.pk)?;
    let row = session.row.tombstone(erased);
    w.tx.update_session(session.pk, &row)?;
    let previous_mac = session.head.mac;
    session.head = HeadRow::empty(row.fingerprint(), w.ctx.now);
    // `put_changed_head` subtracts the old head's MAC from the store's digest.
    session.head.mac = previous_mac;
    session.row = row;
    put_changed_head(w, session, (0, 0), Change::Erased)?;
    Ok(Outcome::Erased(erased))
}

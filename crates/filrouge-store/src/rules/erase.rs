//! Erasure: nothing of a session stays but its name, which late writes find gone (DESIGN §9).

use filrouge_types::Failure;

use super::writing::{Writing, put_changed};
use crate::command::{Erase, Erased, Outcome};
use crate::read::{Gone, session_not_found};
use crate::rows::Change;
use crate::rows::{HeadRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut Writing<'_, T>, erase: &Erase) -> Result<Outcome, Failure> {
    let mut session = match w.sight().find_or_gone(w.scope, &erase.session_id)? {
        Some(Gone::Not(session)) => *session,
        // Erasing it again gives the first receipt.
        Some(Gone::Erased(erased)) => return Ok(Outcome::Erased(erased)),
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
    let before = session.head.mac;
    session.head = HeadRow::empty(row.fingerprint(), w.ctx.now);
    // The digest of all heads is rid of the one that stood in the store.
    session.head.mac = before;
    session.row = row;
    put_changed(w, session, (0, 0), Change::Erased)?;
    Ok(Outcome::Erased(erased))
}

//! Events of a session, written once per key (DESIGN §6).

use filrouge_types::{ErrorCode, Failure, SessionEvent};

use super::lease;
use super::writing::ActiveWrite;
use crate::command::{NewEvent, Outcome};
use crate::read::VerifiedSession;
use crate::rows::{Change, EventRow, Tx};

/// The maximum number of events of a session.
const EVENTS_MAX: u64 = 10_000;
/// The number of a session's events from which filrouge adds none of its own: the last tenth is reserved for the
/// application.
const INTERNAL_EVENTS_MAX: u64 = EVENTS_MAX - EVENTS_MAX / 10;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, new: &NewEvent) -> Result<Outcome, Failure> {
    let snapshot = w.snapshot();
    let session = snapshot.get(w.scope, &new.session_id)?;
    if let Some(row) = w.tx.event(session.pk, &new.key)? {
        let event = snapshot.verified_event(&session, row)?;
        if event.key != new.key {
            return Err(session.integrity_failure(None, "an event's key leads to another event"));
        }
        let is_same = event.kind == new.kind
            && event.detail == new.detail
            && new.at.is_none_or(|at| at == event.at);
        if !is_same {
            let detail = format!(
                "event {:?} was recorded with another body",
                new.key.as_str()
            );
            return Err(Failure::new(ErrorCode::IdempotencyMismatch, detail)
                .with_hint("give every event a separate key"));
        }
        lease::release_if_requested(w, session)?;
        return Ok(Outcome::Event {
            event: Box::new(event),
            created: false,
        });
    }
    // Recording an event needs no lease; only a given fence is checked.
    if w.scope.fence.is_some() {
        lease::check_lease(&session, w.scope, w.ctx.lease_now)?;
    }
    let event = SessionEvent {
        key: new.key.clone(),
        kind: new.kind.clone(),
        at: new.at.unwrap_or(w.ctx.now),
        detail: new.detail.clone(),
        created_at: w.ctx.now,
    };
    insert(w, &session, event.clone())?;
    lease::release_if_requested(w, session)?;
    Ok(Outcome::Event {
        event: Box::new(event),
        created: true,
    })
}

/// Adds an event after the session's newest one.
///
/// # Errors
/// `limit_exceeded` when the session has the maximum number of events.
fn insert<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &VerifiedSession,
    event: SessionEvent,
) -> Result<(), Failure> {
    let number = w.tx.newest_event(session.pk)? + 1;
    let limit = match event.key.is_internal() {
        true => INTERNAL_EVENTS_MAX,
        false => EVENTS_MAX,
    };
    if number > limit {
        return Err(
            ErrorCode::LimitExceeded.failure(format!("a session has at most {limit} events"))
        );
    }
    let row = EventRow::sealed(number, event, w.ctx.keyring, session.pk);
    w.tx.insert_event(session.pk, &row)?;
    w.add_log_entry(session.pk, (number, 0), &session.head.mac, Change::Event);
    Ok(())
}

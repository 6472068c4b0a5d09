//! Leases: one holder at a time, with an ever-growing fence (DESIGN §6). The session's head stores the newest lease, so
//! that every write checks it, and a write can release it in its own commit.

use filrouge_types::{ErrorCode, EventKey, Failure, SessionStatus, Timestamp};

use super::event;
use super::lease_check::{LeaseCheck, expiry};
use super::writing::{ActiveWrite, RuleContext, insert_session, put_changed};
use crate::command::{Acquire, LeaseRequest, NewEvent, Outcome, Scope, TakeLease};
use crate::read::session_conflict;
use crate::read::{VerifiedSession, session_not_found};
use crate::rows::Change;
use crate::rows::{HeadLease, Tx};

/// The kind of the event that records that a caller resumed the session from the store.
const RESUMED: &str = "resume_from_pg";

/// The maximum length of a holder's name in bytes, as for any id.
const HOLDER_MAX: usize = 256;

/// The upper bound of a session's first fence. A double represents it exactly.
const FIRST_FENCE_MAX: u64 = (1 << 53) - 1;

pub(super) fn take<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    take: &TakeLease,
) -> Result<Outcome, Failure> {
    match &take.ask {
        LeaseRequest::Acquire(acquire) => acquire_lease(w, take, acquire),
        LeaseRequest::Renew { fence, ttl } => {
            let mut session = w.snapshot().get(w.scope, &take.session_id)?;
            if was_granted_in_queue(w, &session, &take.holder, *fence) {
                let until = not_shorter(&session.head.lease, w.ctx.now, *ttl);
                session.head.lease.holder = take.holder.clone();
                session.head.lease.expires_at = until;
            } else {
                session.head.lease = lease_check(&session, w.ctx.now).after_request(take)?;
            }
            put(w, session)
        }
        LeaseRequest::Release { fence } => {
            let mut session = w.snapshot().get(w.scope, &take.session_id)?;
            let lease_check = lease_check(&session, w.ctx.now);
            let after = match was_granted_in_queue(w, &session, &take.holder, *fence) {
                true => lease_check.released(),
                false => lease_check.after_request(take)?,
            };
            if after == session.head.lease {
                return Ok(not_acquired(&session, w.ctx));
            }
            session.head.lease = after;
            put(w, session)
        }
    }
}

fn acquire_lease<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    take: &TakeLease,
    acquire: &Acquire,
) -> Result<Outcome, Failure> {
    // The holder's name is limited because the head contains it, and every write rewrites the head.
    if take.holder.is_empty() || take.holder.len() > HOLDER_MAX {
        let what = format!("a holder's name has 1 to {HOLDER_MAX} bytes");
        return Err(Failure::new(ErrorCode::Invalid, what));
    }
    if let Some(own) = w.scope.fence.filter(|own| own.queued) {
        return apply_queued_lease(w, take, (own.fence, acquire.ttl));
    }
    // Only a caller that creates the session learns that its id is in use.
    let found = match acquire.create {
        Some(_) => w.snapshot().find_any(w.scope, &take.session_id)?,
        None => Some(w.snapshot().get(w.scope, &take.session_id)?),
    };
    let created = found.is_none();
    let mut session = match (found, &acquire.create) {
        (Some(session), _) if w.scope.sees(&session.row) => session,
        (Some(_), _) => return Err(session_conflict()),
        (None, Some(new)) => insert_session(w, new)?,
        (None, None) => return Err(session_not_found(&take.session_id)),
    };
    check_continues(&session, w.ctx, acquire)?;
    let before = session.head.lease.fence;
    session.head.lease = lease_check(&session, w.ctx.now).after_request(take)?;
    if before == 0 {
        session.head.lease.fence = first_fence(w, w.ctx.now);
    }
    let acquired = session.head.lease.fence != before;
    let resumed = match &acquire.resumes {
        Some(caller_seq) if !created => record_resume(w, &session, *caller_seq)?,
        _ => false,
    };
    let change = match &acquire.create {
        Some(new) if created => {
            Change::Created(session.row.tenant_id.clone(), new.session_id.clone())
        }
        _ => Change::Lease,
    };
    let session = put_changed(w, session, (0, 0), change)?;
    Ok(Outcome::Lease {
        lease: session.head.lease.shown(w.ctx.now),
        acquired,
        created,
        resumed,
    })
}

/// The first fence of a session. In a store whose sessions expire, an earlier session may have had this id, and its
/// fences must not recur; there the first fence is the current time in microseconds.
fn first_fence<T: Tx>(w: &ActiveWrite<'_, T>, now: Timestamp) -> u64 {
    if !w.tx.forgets() {
        return 1;
    }
    u64::try_from(now.as_micros())
        .unwrap_or(0)
        .clamp(1, FIRST_FENCE_MAX)
}

/// Applies a lease that was granted under this fence while the store was down. It is valid if no other lease was
/// granted since (DESIGN §6, "Ledger down").
fn apply_queued_lease<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    take: &TakeLease,
    (fence, ttl): (u64, std::time::Duration),
) -> Result<Outcome, Failure> {
    let mut session = w.snapshot().get(w.scope, &take.session_id)?;
    let lease = &session.head.lease;
    let is_renewal = lease.fence == fence && lease.holder == take.holder;
    let next = lease.fence.checked_add(1) == Some(fence);
    if fence == 0 || !(is_renewal || next) {
        return Err(lease_check(&session, w.ctx.now).stale(fence));
    }
    let until = if is_renewal {
        not_shorter(lease, w.ctx.now, ttl)
    } else {
        expiry(w.ctx.now, ttl)
    };
    session.head.lease = lease_check(&session, w.ctx.now).granted(take, fence, ttl);
    session.head.lease.expires_at = until;
    put(w, session)
}

/// The expiry of a lease that was renewed while the store was down: a live lease is never shortened.
fn not_shorter(lease: &HeadLease, now: Timestamp, ttl: std::time::Duration) -> Timestamp {
    lease.expires_at.max(expiry(now, ttl))
}

fn check_continues(
    session: &VerifiedSession,
    ctx: &RuleContext<'_>,
    acquire: &Acquire,
) -> Result<(), Failure> {
    let state = session.row.state.as_deref();
    lease_check(session, ctx.now).check_state(state, &acquire.terminal)?;
    if session.row.status == SessionStatus::Closed {
        let what = format!("session {:?} is closed", session.name());
        return Err(Failure::new(ErrorCode::SessionClosed, what)
            .with_hint("begin another session, or patch this one's status to active"));
    }
    Ok(())
}

/// Records, once per fence, that the caller resumed the session from the store; returns whether an event records it. No
/// event is recorded if there was nothing to resume or if the caller already had the session's newest seq.
fn record_resume<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &VerifiedSession,
    caller_seq: Option<u64>,
) -> Result<bool, Failure> {
    let head = &session.head;
    let nothing = head.last_seq == 0 && head.checkpoints.count == 0;
    if nothing || caller_seq == Some(head.last_seq) {
        return Ok(false);
    }
    let key = EventKey::own(RESUMED, head.lease.fence)
        .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
    if w.tx.event(session.pk, &key)?.is_some() {
        return Ok(true);
    }
    let new = NewEvent {
        session_id: session.row.session_id.clone(),
        key,
        kind: RESUMED.into(),
        at: None,
        detail: None,
    };
    // The rule for events reads the stored session, which does not have the new lease yet, so it runs without a fencing
    // token.
    let scope = w.scope.clone().with_fence(None);
    let unheld = &mut ActiveWrite {
        tx: w.tx,
        group: w.group,
        ctx: w.ctx,
        scope: &scope,
    };
    match event::apply(unheld, &new) {
        // A session with the maximum number of events still resumes.
        Err(failure) if failure.code == ErrorCode::LimitExceeded => Ok(false),
        recorded => recorded.map(|_| true),
    }
}

/// Checks the writer's lease (DESIGN §6) and applies a requested release to the head.
pub(super) fn check<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
) -> Result<(), Failure> {
    check_hold(session, w.scope, w.ctx.now)?;
    release_lease(w, session);
    Ok(())
}

/// Like [`check`], for writes that need no lease: a fence that is given must be the current one.
pub(super) fn check_if_given<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
) -> Result<(), Failure> {
    match w.scope.fence {
        Some(_) => check(w, session),
        None => Ok(()),
    }
}

/// Checks whether a write with this scope may continue the session now: its fence must be the current one or, without a
/// fencing token, no lease may be live.
///
/// # Errors
/// `lease_held`, `stale_fence`, `lease_expired`.
pub fn check_hold(session: &VerifiedSession, scope: &Scope, now: Timestamp) -> Result<(), Failure> {
    let Some(own) = scope.fence else {
        return if session.head.lease.is_live(now) {
            Err(lease_check(session, now).refused(ErrorCode::LeaseHeld))
        } else {
            Ok(())
        };
    };
    lease_check(session, now).check_fence(own.fence, own.queued)
}

/// Releases the lease in the head if the write comes from the lease's holder and requests it; returns whether it did.
pub(super) fn release_lease<T: Tx>(w: &ActiveWrite<'_, T>, session: &mut VerifiedSession) -> bool {
    let lease = &session.head.lease;
    let requested = w
        .scope
        .fence
        .is_some_and(|own| own.release && own.fence == lease.fence);
    let releases = requested && lease.is_live(w.ctx.now);
    if releases {
        session.head.lease = lease_check(session, w.ctx.now).released();
    }
    releases
}

/// Refuses a fence for a session that does not exist.
pub(super) fn check_no_fence(scope: &Scope) -> Result<(), Failure> {
    match scope.fence {
        None => Ok(()),
        Some(own) => {
            let what = format!("fence {} was never granted", own.fence);
            Err(Failure::new(ErrorCode::StaleFence, what)
                .with_hint("take a lease of the session, or resume it with create: true"))
        }
    }
}

/// Releases the lease if the write requests it, and writes the head. For a write that otherwise does not change the
/// head, such as a replay.
pub(super) fn release_separately<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
) -> Result<VerifiedSession, Failure> {
    match release_lease(w, &mut session) {
        true => put_changed(w, session, (0, 0), Change::Lease),
        false => Ok(session),
    }
}

/// Writes the head with the changed lease.
fn put<T: Tx>(w: &mut ActiveWrite<'_, T>, session: VerifiedSession) -> Result<Outcome, Failure> {
    let session = put_changed(w, session, (0, 0), Change::Lease)?;
    Ok(not_acquired(&session, w.ctx))
}

/// The outcome of a request that granted no new fence.
fn not_acquired(session: &VerifiedSession, ctx: &RuleContext<'_>) -> Outcome {
    Outcome::Lease {
        lease: session.head.lease.shown(ctx.now),
        acquired: false,
        created: false,
        resumed: false,
    }
}

/// Whether the lease was granted under this fence while the store was down, and no other holder has acquired it since.
/// If so, the queued request is valid (DESIGN §6, "Ledger down").
fn was_granted_in_queue<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    holder: &str,
    fence: u64,
) -> bool {
    let lease = &session.head.lease;
    let queued = w.scope.fence.is_some_and(|h| h.queued && h.fence == fence);
    let free = !lease.is_live(w.ctx.now) || *lease.holder == *holder;
    queued && fence != 0 && fence == lease.fence && free
}

fn lease_check<'a>(session: &'a VerifiedSession, now: Timestamp) -> LeaseCheck<'a> {
    LeaseCheck {
        session: &session.row.session_id,
        lease: &session.head.lease,
        now,
    }
}

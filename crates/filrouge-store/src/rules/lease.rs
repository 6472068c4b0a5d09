//! Leases: one holder at a time, with an ever-growing fence (DESIGN §6). The session's head stores the newest lease, so
//! that every write checks it, and a write can release it in its own commit.

use filrouge_types::{ErrorCode, EventKey, Failure, Result, SessionStatus, Timestamp};

use super::event;
use super::lease_check::{LeaseCheck, expiry};
use super::writing::{ActiveWrite, RuleContext, insert_session, put_changed_head};
use crate::command::{Acquire, LeaseCommand, LeaseRequest, NewEvent, Outcome, Scope};
use crate::read::{VerifiedSession, session_conflict, session_not_found};
use crate::rows::{Change, HeadCheckpoints, HeadLease, HeadRow, Tx};

/// The kind of the event that records that a caller resumed the session from the store (a published name).
const RESUME_EVENT_KIND: &str = "resume_from_pg";

/// The maximum length of a holder's name in bytes, as for any id.
const HOLDER_MAX: usize = 256;

/// The upper bound of a session's first fence. A double represents it exactly.
const FIRST_FENCE_MAX: u64 = (1 << 53) - 1;

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, command: &LeaseCommand) -> Result<Outcome> {
    match &command.request {
        LeaseRequest::Acquire(acquire) => acquire_lease(w, command, acquire),
        LeaseRequest::Renew { fence, ttl } => {
            let mut session = w.snapshot().get(w.scope, &command.session_id)?;
            if was_granted_while_down(w, &session, &command.holder, *fence) {
                let until = expiry_after_queued_renewal(&session.head.lease, w.ctx.lease_now, *ttl);
                session.head.lease.holder = command.holder.clone();
                session.head.lease.expires_at = until;
            } else {
                session.head.lease = lease_check(&session, w.ctx).after_request(command)?;
            }
            put_lease(w, session)
        }
        LeaseRequest::Release { fence } => {
            let mut session = w.snapshot().get(w.scope, &command.session_id)?;
            let lease_check = lease_check(&session, w.ctx);
            let after = match was_granted_while_down(w, &session, &command.holder, *fence) {
                true => lease_check.released(),
                false => lease_check.after_request(command)?,
            };
            if after == session.head.lease {
                return Ok(outcome_without_new_fence(&session, w.ctx));
            }
            session.head.lease = after;
            put_lease(w, session)
        }
    }
}

fn acquire_lease<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    command: &LeaseCommand,
    acquire: &Acquire,
) -> Result<Outcome> {
    // The holder's name is limited because the head contains it, and every write rewrites the head.
    if command.holder.is_empty() || command.holder.len() > HOLDER_MAX {
        let detail = format!("a holder's name has 1 to {HOLDER_MAX} bytes");
        return Err(Failure::new(ErrorCode::Invalid, detail));
    }
    if let Some(token) = w.scope.fence.filter(|token| token.queued) {
        return apply_queued_lease(w, command, acquire, token.fence);
    }
    let (mut session, is_created) = find_or_create(w, command, acquire)?;
    check_can_continue(&session, &acquire.terminal)?;
    let previous_fence = session.head.lease.fence;
    session.head.lease = lease_check(&session, w.ctx).after_request(command)?;
    if previous_fence == 0 {
        session.head.lease.fence = first_fence(w, w.ctx.now);
    }
    let acquired = session.head.lease.fence != previous_fence;
    let resumed = match &acquire.resumes {
        Some(caller_seq) if !is_created => record_resume(w, &session, *caller_seq)?,
        _ => false,
    };
    let session = put_acquired(w, session, is_created)?;
    Ok(Outcome::Lease {
        lease: session.head.lease.to_lease(w.ctx.lease_now),
        acquired,
        created: is_created,
        resumed,
    })
}

/// The session to acquire, and whether it was created.
fn find_or_create<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    command: &LeaseCommand,
    acquire: &Acquire,
) -> Result<(VerifiedSession, bool)> {
    // Only a request that may create the session reveals that its id is in use.
    let existing = match acquire.create {
        Some(_) => w.snapshot().find_any(w.scope, &command.session_id)?,
        None => Some(w.snapshot().get(w.scope, &command.session_id)?),
    };
    match (existing, &acquire.create) {
        (Some(session), _) if w.scope.can_see(&session.row) => Ok((session, false)),
        (Some(_), _) => Err(session_conflict()),
        (None, Some(new)) => Ok((insert_session(w, new)?, true)),
        (None, None) => Err(session_not_found(&command.session_id)),
    }
}

/// Writes the head of an acquired session.
fn put_acquired<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: VerifiedSession,
    is_created: bool,
) -> Result<VerifiedSession> {
    let change = match is_created {
        true => Change::created(&session.row, w.ctx.keyring),
        false => Change::Lease,
    };
    put_changed_head(w, session, (0, 0), change)
}

/// The first fence of a session: 1, or in a store whose sessions expire, the current time in microseconds. An expired
/// session may have had the same id, and its fences must not recur.
fn first_fence<T: Tx>(w: &ActiveWrite<'_, T>, now: Timestamp) -> u64 {
    if !w.tx.can_expire() {
        return 1;
    }
    u64::try_from(now.as_micros())
        .unwrap_or(0)
        .clamp(1, FIRST_FENCE_MAX)
}

/// Applies a lease that the spool granted under this fence while the store was down. The lease is valid if no other
/// lease was granted since (DESIGN §6, "Ledger down"). A session that began in the spool is created, unless another
/// caller has begun one with the same id: the first fence of each is random, so the two are never taken for one.
fn apply_queued_lease<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    command: &LeaseCommand,
    acquire: &Acquire,
    fence: u64,
) -> Result<Outcome> {
    let (mut session, is_created) = find_or_create(w, command, acquire)?;
    let (lease, ttl) = (&session.head.lease, acquire.ttl);
    let is_renewal = lease.fence == fence && lease.holder == command.holder;
    let is_next = lease.fence.checked_add(1) == Some(fence);
    // The caller's first attempt may have created the session in the ledger, although its answer was lost.
    let is_free = !lease.is_live(w.ctx.lease_now) || lease.holder == command.holder;
    let begins = acquire.create.is_some() && is_unused(&session.head) && is_free;
    let is_first = begins && fence > lease.fence;
    if fence == 0 || !(is_renewal || is_next || is_first) {
        return Err(lease_check(&session, w.ctx).stale_fence_failure(fence));
    }
    let until = if is_renewal {
        expiry_after_queued_renewal(lease, w.ctx.lease_now, ttl)
    } else {
        expiry(w.ctx.lease_now, ttl)
    };
    session.head.lease = lease_check(&session, w.ctx).granted(command, fence, ttl);
    session.head.lease.expires_at = until;
    let session = put_acquired(w, session, is_created)?;
    Ok(outcome_without_new_fence(&session, w.ctx))
}

/// Whether nothing was written to a session, except leases.
fn is_unused(head: &HeadRow) -> bool {
    head.last_seq == 0 && head.turn_rows == 0 && head.checkpoints == HeadCheckpoints::default()
}

/// The expiry of a lease that was renewed while the store was down. A renewal never shortens a lease.
fn expiry_after_queued_renewal(
    lease: &HeadLease,
    now: Timestamp,
    ttl: std::time::Duration,
) -> Timestamp {
    lease.expires_at.max(expiry(now, ttl))
}

/// Refuses a lease of, or a new turn in, a session that is closed or in one of the states in `terminal`.
pub(super) fn check_can_continue(session: &VerifiedSession, terminal: &[Box<str>]) -> Result<()> {
    let state = session.row.state.as_deref();
    if let Some(state) = state.filter(|state| terminal.iter().any(|t| **t == **state)) {
        let detail = format!("session {:?} is in state {state}", session.name());
        return Err(Failure::new(ErrorCode::SessionTerminated, detail)
            .with_hint("begin another session: this one cannot continue"));
    }
    if session.row.status == SessionStatus::Closed {
        let detail = format!("session {:?} is closed", session.name());
        return Err(Failure::new(ErrorCode::SessionClosed, detail)
            .with_hint("begin another session, or patch this one's status to active"));
    }
    Ok(())
}

/// Records, once per fence, that the caller resumed the session from the store. Returns whether an event records it. No
/// event is recorded if the session is empty, or if the caller already had the session's newest seq.
fn record_resume<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &VerifiedSession,
    caller_seq: Option<u64>,
) -> Result<bool> {
    let head = &session.head;
    let is_empty = head.last_seq == 0 && head.checkpoints.count == 0;
    if is_empty || caller_seq == Some(head.last_seq) {
        return Ok(false);
    }
    let key = EventKey::internal(RESUME_EVENT_KIND, head.lease.fence)
        .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
    if w.tx.event(session.pk, &key)?.is_some() {
        return Ok(true);
    }
    let new_event = NewEvent {
        session_id: session.row.session_id.clone(),
        key,
        kind: RESUME_EVENT_KIND.into(),
        at: None,
        detail: None,
    };
    // The rule for events reads the stored session, which does not have the new lease yet, so it runs without a fencing
    // token.
    let scope = w.scope.clone().with_fence(None);
    let write_without_fence = &mut ActiveWrite {
        tx: w.tx,
        group: w.group,
        ctx: w.ctx,
        scope: &scope,
    };
    match event::apply(write_without_fence, &new_event) {
        // A session with the maximum number of events still resumes.
        Err(failure) if failure.code == ErrorCode::LimitExceeded => Ok(false),
        result => result.map(|_| true),
    }
}

/// Checks the writer's lease (DESIGN §6), and extends it in the head or, if the write requests it, releases it.
pub(super) fn check_and_release<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
) -> Result<()> {
    check_lease(session, w.scope, w.ctx.lease_now)?;
    if !release_in_head(w, session) && w.scope.fence.is_some() {
        extend_in_head(w.ctx, session);
    }
    Ok(())
}

/// Extends a live lease in the head, because its holder has just written: it lasts at least its time to live from now.
fn extend_in_head(ctx: &RuleContext<'_>, session: &mut VerifiedSession) {
    let lease = &mut session.head.lease;
    if lease.is_live(ctx.lease_now) {
        lease.expires_at = lease.expires_at.max(expiry(ctx.lease_now, lease.ttl));
        lease.server = (ctx.server)().into();
    }
}

/// Extends the lease of the writer of a draft, in an entry of its own, when half of its time to live has passed: most
/// drafts leave the head unchanged.
pub(super) fn extend_if_due<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
) -> Result<VerifiedSession> {
    let lease = &session.head.lease;
    let is_due = lease.expires_at < expiry(w.ctx.lease_now, lease.ttl / 2);
    if w.scope.fence.is_none() || !lease.is_live(w.ctx.lease_now) || !is_due {
        return Ok(session);
    }
    extend_in_head(w.ctx, &mut session);
    put_changed_head(w, session, (0, 0), Change::Lease)
}

/// Like [`check_and_release`], for writes that need no lease: only a given fence is checked.
pub(super) fn check_and_release_if_fenced<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
) -> Result<()> {
    match w.scope.fence {
        Some(_) => check_and_release(w, session),
        None => Ok(()),
    }
}

/// Checks whether a write with this scope may continue the session now: its fence must be the current one or, without a
/// fencing token, no lease may be live. `now` is the time by which leases end.
///
/// # Errors
/// `lease_held`, `stale_fence`, `lease_expired`.
pub fn check_lease(session: &VerifiedSession, scope: &Scope, now: Timestamp) -> Result<()> {
    let Some(token) = scope.fence else {
        return if session.head.lease.is_live(now) {
            Err(lease_check_at(session, now).held_failure(ErrorCode::LeaseHeld))
        } else {
            Ok(())
        };
    };
    lease_check_at(session, now).check_fence(token.fence, token.queued)
}

/// Releases the lease in the head if the write requests it and comes from the lease's holder. Returns whether it was
/// released.
fn release_in_head<T: Tx>(w: &ActiveWrite<'_, T>, session: &mut VerifiedSession) -> bool {
    let lease = &session.head.lease;
    let is_requested = w
        .scope
        .fence
        .is_some_and(|token| token.release && token.fence == lease.fence);
    let is_released = is_requested && lease.is_live(w.ctx.lease_now);
    if is_released {
        session.head.lease = lease_check(session, w.ctx).released();
    }
    is_released
}

/// Refuses a fence for a session that does not exist.
pub(super) fn check_no_fence(scope: &Scope) -> Result<()> {
    match scope.fence {
        None => Ok(()),
        Some(token) => Err(ErrorCode::StaleFence
            .failure(format!("fence {} was never granted", token.fence))
            .with_hint("take a lease of the session, or resume it with create: true")),
    }
}

/// Releases the lease and writes the head, if the write requests a release. Writes that do not change the head
/// otherwise, such as replays, call it.
pub(super) fn release_if_requested<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
) -> Result<VerifiedSession> {
    match release_in_head(w, &mut session) {
        true => put_changed_head(w, session, (0, 0), Change::Lease),
        false => Ok(session),
    }
}

/// Writes the head with the changed lease.
fn put_lease<T: Tx>(w: &mut ActiveWrite<'_, T>, session: VerifiedSession) -> Result<Outcome> {
    let session = put_changed_head(w, session, (0, 0), Change::Lease)?;
    Ok(outcome_without_new_fence(&session, w.ctx))
}

/// The outcome of a request that grants no new fence.
fn outcome_without_new_fence(session: &VerifiedSession, ctx: &RuleContext<'_>) -> Outcome {
    Outcome::Lease {
        lease: session.head.lease.to_lease(ctx.lease_now),
        acquired: false,
        created: false,
        resumed: false,
    }
}

/// Whether the spool granted the lease under this fence while the store was down, and no other holder has acquired it
/// since. If so, the queued request is valid (DESIGN §6, "Ledger down").
fn was_granted_while_down<T: Tx>(
    w: &ActiveWrite<'_, T>,
    session: &VerifiedSession,
    holder: &str,
    fence: u64,
) -> bool {
    let lease = &session.head.lease;
    let is_queued = w
        .scope
        .fence
        .is_some_and(|token| token.queued && token.fence == fence);
    let is_free = !lease.is_live(w.ctx.lease_now) || *lease.holder == *holder;
    is_queued && fence != 0 && fence == lease.fence && is_free
}

fn lease_check<'a>(session: &'a VerifiedSession, ctx: &'a RuleContext<'_>) -> LeaseCheck<'a> {
    LeaseCheck {
        written_at: ctx.now,
        server: ctx.server,
        ..lease_check_at(session, ctx.lease_now)
    }
}

fn lease_check_at(session: &VerifiedSession, now: Timestamp) -> LeaseCheck<'_> {
    LeaseCheck {
        session: &session.row.session_id,
        lease: &session.head.lease,
        now,
        written_at: now,
        server: &String::new,
    }
}

//! Leases: one holder at a time, under a fence that only grows (DESIGN §6). The newest lease lies in the session's head, so
//! that whoever writes has looked at it, and whoever gives the session free does so in the commit of the write.

use filrouge_types::{ErrorCode, EventKey, Failure, SessionStatus, Timestamp};

use super::event;
use super::tenure::{Tenure, end_of};
use super::writing::{Context, Writing, insert_session, put_changed};
use crate::command::{Acquire, LeaseAsk, NewEvent, Outcome, Scope, TakeLease};
use crate::read::session_conflict;
use crate::read::{Loaded, session_not_found};
use crate::rows::Change;
use crate::rows::{HeadLease, Tx};

/// The kind of the event that tells of a session that was gone on with from what the store has.
const RESUMED: &str = "resume_from_pg";

/// Most bytes of a holder's name, as of any id.
const HOLDER_MAX: usize = 256;

/// Most that a session's first fence is, so that it is a whole number also for those who count in doubles.
const FIRST_FENCE_MAX: u64 = (1 << 53) - 1;

pub(super) fn take<T: Tx>(w: &mut Writing<'_, T>, take: &TakeLease) -> Result<Outcome, Failure> {
    match &take.ask {
        LeaseAsk::Acquire(acquire) => acquired(w, take, acquire),
        LeaseAsk::Renew { fence, ttl } => {
            let mut session = w.sight().get(w.scope, &take.session_id)?;
            if took_over_here(w, &session, &take.holder, *fence) {
                let until = not_shorter(&session.head.lease, w.ctx.now, *ttl);
                session.head.lease.holder = take.holder.clone();
                session.head.lease.expires_at = until;
            } else {
                session.head.lease = tenure(&session, w.ctx.now).asked(take)?;
            }
            put(w, session)
        }
        LeaseAsk::Release { fence } => {
            let mut session = w.sight().get(w.scope, &take.session_id)?;
            let tenure = tenure(&session, w.ctx.now);
            let after = match took_over_here(w, &session, &take.holder, *fence) {
                true => tenure.free(),
                false => tenure.asked(take)?,
            };
            if after == session.head.lease {
                return Ok(unchanged(&session, w.ctx));
            }
            session.head.lease = after;
            put(w, session)
        }
    }
}

fn acquired<T: Tx>(
    w: &mut Writing<'_, T>,
    take: &TakeLease,
    acquire: &Acquire,
) -> Result<Outcome, Failure> {
    // It lies in the head, which every write puts.
    if take.holder.is_empty() || take.holder.len() > HOLDER_MAX {
        let what = format!("a holder's name has 1 to {HOLDER_MAX} bytes");
        return Err(Failure::new(ErrorCode::Invalid, what));
    }
    if let Some(hold) = w.scope.hold.filter(|hold| hold.queued) {
        return given_meanwhile(w, take, (hold.fence, acquire.ttl));
    }
    // Only who makes a session where there is none is told that its id is taken.
    let found = match acquire.create {
        Some(_) => w.sight().find_any(w.scope, &take.session_id)?,
        None => Some(w.sight().get(w.scope, &take.session_id)?),
    };
    let created = found.is_none();
    let mut session = match (found, &acquire.create) {
        (Some(session), _) if w.scope.sees(&session.row) => session,
        (Some(_), _) => return Err(session_conflict()),
        (None, Some(new)) => insert_session(w, new)?,
        (None, None) => return Err(session_not_found(&take.session_id)),
    };
    check_goes_on(&session, w.ctx, acquire)?;
    let before = session.head.lease.fence;
    session.head.lease = tenure(&session, w.ctx.now).asked(take)?;
    if before == 0 {
        session.head.lease.fence = first_fence(w, w.ctx.now);
    }
    let taken = session.head.lease.fence != before;
    let resumed = match &acquire.resumes {
        Some(known) if !created => resumes(w, &session, *known)?,
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
        taken,
        created,
        resumed,
    })
}

/// The first fence of a session. A store that forgets may have had this session before, and the fences of that one must
/// not come again.
fn first_fence<T: Tx>(w: &Writing<'_, T>, now: Timestamp) -> u64 {
    if !w.tx.forgets() {
        return 1;
    }
    u64::try_from(now.as_micros())
        .unwrap_or(0)
        .clamp(1, FIRST_FENCE_MAX)
}

/// A lease that was given under this fence while the store did not answer: it stands if nobody else was given one since
/// (DESIGN §6, "Ledger down").
fn given_meanwhile<T: Tx>(
    w: &mut Writing<'_, T>,
    take: &TakeLease,
    (fence, ttl): (u64, std::time::Duration),
) -> Result<Outcome, Failure> {
    let mut session = w.sight().get(w.scope, &take.session_id)?;
    let lease = &session.head.lease;
    let again = lease.fence == fence && lease.holder == take.holder;
    let next = lease.fence.checked_add(1) == Some(fence);
    if fence == 0 || !(again || next) {
        return Err(tenure(&session, w.ctx.now).stale(fence));
    }
    let until = if again {
        not_shorter(lease, w.ctx.now, ttl)
    } else {
        end_of(w.ctx.now, ttl)
    };
    session.head.lease = tenure(&session, w.ctx.now).given(take, fence, ttl);
    session.head.lease.expires_at = until;
    put(w, session)
}

/// Until when a lease stands that was prolonged while the store did not answer: one that is live is never cut short.
fn not_shorter(lease: &HeadLease, now: Timestamp, ttl: std::time::Duration) -> Timestamp {
    lease.expires_at.max(end_of(now, ttl))
}

fn check_goes_on(session: &Loaded, ctx: &Context<'_>, acquire: &Acquire) -> Result<(), Failure> {
    let state = session.row.state.as_deref();
    tenure(session, ctx.now).check_state(state, &acquire.terminal)?;
    if session.row.status == SessionStatus::Closed {
        let what = format!("session {:?} is closed", session.name());
        return Err(Failure::new(ErrorCode::SessionClosed, what)
            .with_hint("begin another session, or patch this one's status to active"));
    }
    Ok(())
}

/// Tells of a caller who goes on from what the store has; once for each fence.
fn resumes<T: Tx>(
    w: &mut Writing<'_, T>,
    session: &Loaded,
    known: Option<u64>,
) -> Result<bool, Failure> {
    let head = &session.head;
    let nothing = head.last_seq == 0 && head.checkpoints.count == 0;
    if nothing || known == Some(head.last_seq) {
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
    // The session that was found stands in the store as it was: nothing is given free here.
    let scope = w.scope.clone().with_hold(None);
    let unheld = &mut Writing {
        tx: w.tx,
        group: w.group,
        ctx: w.ctx,
        scope: &scope,
    };
    match event::apply(unheld, &new) {
        // A session that has all the events it may have goes on nevertheless.
        Err(failure) if failure.code == ErrorCode::LimitExceeded => Ok(false),
        recorded => recorded.map(|_| true),
    }
}

/// Whether who writes may (DESIGN §6); one who gives the session free with the write has done so in the head that is put.
pub(super) fn check<T: Tx>(w: &Writing<'_, T>, session: &mut Loaded) -> Result<(), Failure> {
    check_hold(session, w.scope, w.ctx.now)?;
    release_lease(w, session);
    Ok(())
}

/// As [`check`], for what needs no lease: a fence that is named all the same must be the one that holds the session.
pub(super) fn check_named<T: Tx>(w: &Writing<'_, T>, session: &mut Loaded) -> Result<(), Failure> {
    match w.scope.hold {
        Some(_) => check(w, session),
        None => Ok(()),
    }
}

/// As a write is checked that goes on with a session, at this time.
///
/// # Errors
/// `lease_held`, `stale_fence`, `lease_expired`.
pub fn check_hold(session: &Loaded, scope: &Scope, now: Timestamp) -> Result<(), Failure> {
    let Some(hold) = scope.hold else {
        return if session.head.lease.is_live(now) {
            Err(tenure(session, now).refused(ErrorCode::LeaseHeld))
        } else {
            Ok(())
        };
    };
    tenure(session, now).check_fence(hold.fence, hold.queued)
}

/// Whoever holds the session and asks for it gives it free, in the head that is put then; tells whether that is so.
pub(super) fn release_lease<T: Tx>(w: &Writing<'_, T>, session: &mut Loaded) -> bool {
    let lease = &session.head.lease;
    let asked = w
        .scope
        .hold
        .is_some_and(|hold| hold.release && hold.fence == lease.fence);
    let gives = asked && lease.is_live(w.ctx.now);
    if gives {
        session.head.lease = tenure(session, w.ctx.now).free();
    }
    gives
}

/// A session that is not there was never held.
pub(super) fn check_none(scope: &Scope) -> Result<(), Failure> {
    match scope.hold {
        None => Ok(()),
        Some(hold) => {
            let what = format!("fence {} was never given out", hold.fence);
            Err(Failure::new(ErrorCode::StaleFence, what)
                .with_hint("take a lease of the session, or resume it with create: true"))
        }
    }
}

/// A write that puts no head, as one that was done before, gives the session free by itself.
pub(super) fn release_again<T: Tx>(
    w: &mut Writing<'_, T>,
    mut session: Loaded,
) -> Result<Loaded, Failure> {
    match release_lease(w, &mut session) {
        true => put_changed(w, session, (0, 0), Change::Lease),
        false => Ok(session),
    }
}

fn put<T: Tx>(w: &mut Writing<'_, T>, session: Loaded) -> Result<Outcome, Failure> {
    let session = put_changed(w, session, (0, 0), Change::Lease)?;
    Ok(unchanged(&session, w.ctx))
}

fn unchanged(session: &Loaded, ctx: &Context<'_>) -> Outcome {
    Outcome::Lease {
        lease: session.head.lease.shown(ctx.now),
        taken: false,
        created: false,
        resumed: false,
    }
}

/// Whether the lease went from hand to hand under this fence while the store did not answer, and nobody else has taken it
/// since: then it is what whoever kept it meanwhile says (DESIGN §6, "Ledger down").
fn took_over_here<T: Tx>(w: &Writing<'_, T>, session: &Loaded, holder: &str, fence: u64) -> bool {
    let lease = &session.head.lease;
    let queued = w.scope.hold.is_some_and(|h| h.queued && h.fence == fence);
    let free = !lease.is_live(w.ctx.now) || *lease.holder == *holder;
    queued && fence != 0 && fence == lease.fence && free
}

fn tenure<'a>(session: &'a Loaded, now: Timestamp) -> Tenure<'a> {
    Tenure {
        session: &session.row.session_id,
        lease: &session.head.lease,
        now,
    }
}

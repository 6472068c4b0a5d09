//! Shorthands for leases and checkpoints.

use std::time::Duration;

use filrouge_types::{Checkpoint, Clock, Failure, Lease};

use super::fixture::{Fixture, sid};
use super::session_writes::json;
use crate::command::{
    Acquire, FencingToken, LeaseCommand, LeaseRequest, NewSession, Outcome, PutCheckpoint, Scope,
    Write,
};
use crate::read::NewestCheckpoint;

/// A second in microseconds.
pub const SECOND: i64 = 1_000_000;

/// The default time to live of leases in tests, in seconds.
pub const TTL: i64 = 60;

fn lease(session: &str, holder: &str, request: LeaseRequest) -> Write {
    Write::Lease(Box::new(LeaseCommand {
        session_id: sid(session),
        holder: holder.into(),
        request,
    }))
}

pub fn acquire_with(session: &str, holder: &str, change: impl FnOnce(&mut Acquire)) -> Write {
    let mut acquire = Acquire {
        ttl: seconds(TTL),
        exited: None,
        create: None,
        terminal: Vec::new(),
        resumes: None,
    };
    change(&mut acquire);
    lease(session, holder, LeaseRequest::Acquire(Box::new(acquire)))
}

pub fn acquire(session: &str, holder: &str) -> Write {
    acquire_with(session, holder, |_| {})
}

/// Acquires a session, creating it if needed.
pub fn acquire_new(session: &str, holder: &str) -> Write {
    acquire_with(session, holder, |a| {
        a.create = Some(NewSession::with_id(sid(session)));
    })
}

pub fn renew(session: &str, holder: &str, fence: u64, ttl: i64) -> Write {
    let ttl = seconds(ttl);
    lease(session, holder, LeaseRequest::Renew { fence, ttl })
}

pub fn release(session: &str, holder: &str, fence: u64) -> Write {
    lease(session, holder, LeaseRequest::Release { fence })
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}

/// A checkpoint in a session that keeps three.
pub fn checkpoint(session: &str, seq: Option<u64>, label: Option<&str>, state: &str) -> Write {
    keeping(3, session, seq, label, state)
}

pub fn keeping(
    keep: u64,
    session: &str,
    seq: Option<u64>,
    label: Option<&str>,
    state: &str,
) -> Write {
    Write::PutCheckpoint(Box::new(PutCheckpoint {
        session_id: sid(session),
        seq,
        label: label.map(Into::into),
        state: json(state),
        keep,
    }))
}

/// The scope `who`, for writes under a fence.
pub fn under(who: &Scope, fence: u64) -> Scope {
    who.clone().with_fence(Some(FencingToken::new(fence)))
}

/// The scope `who`, for a write under a fence that also releases the session.
pub fn releasing(who: &Scope, fence: u64) -> Scope {
    who.clone().with_fence(Some(FencingToken {
        release: true,
        ..FencingToken::new(fence)
    }))
}

/// The scope `who`, for a write under a fence that has waited in the spool.
pub fn queued(who: &Scope, fence: u64) -> Scope {
    who.clone().with_fence(Some(FencingToken {
        queued: true,
        ..FencingToken::new(fence)
    }))
}

/// The outcome of acquiring a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquiredLease {
    pub lease: Lease,
    pub newly_acquired: bool,
    pub created: bool,
    pub resumed: bool,
}

impl Fixture {
    /// Executes a write whose outcome is a lease.
    pub async fn write_lease(&self, who: &Scope, write: Write) -> Result<AcquiredLease, Failure> {
        match self.write(who, write).await? {
            Outcome::Lease {
                lease,
                created,
                resumed,
                acquired,
            } => Ok(AcquiredLease {
                lease,
                newly_acquired: acquired,
                created,
                resumed,
            }),
            other => panic!("expected a lease, got {other:?}"),
        }
    }

    /// Acquires a session for [`TTL`]; returns the fence.
    pub async fn acquire_lease(&self, who: &Scope, session: &str, holder: &str) -> u64 {
        let acquired = self
            .write_lease(who, acquire(session, holder))
            .await
            .unwrap();
        assert_eq!(acquired.lease.holder.as_deref(), Some(holder));
        acquired.lease.fence
    }

    /// The current lease.
    pub async fn lease(&self, who: &Scope, session: &str) -> Result<Lease, Failure> {
        let (id, now) = (sid(session), self.clock.now());
        let lease = self
            .ledger
            .query_session(who, &id, move |snapshot, scope, id| {
                snapshot.lease(scope, id, now)
            });
        lease.await
    }

    /// Executes a write whose outcome is a checkpoint; returns the checkpoint and whether it is new.
    pub async fn write_checkpoint(
        &self,
        who: &Scope,
        write: Write,
    ) -> Result<(Checkpoint, bool), Failure> {
        match self.write(who, write).await? {
            Outcome::Checkpoint {
                checkpoint,
                created,
                last_seq,
            } => {
                assert!(checkpoint.seq <= last_seq);
                Ok((*checkpoint, created))
            }
            other => panic!("expected a checkpoint, got {other:?}"),
        }
    }

    /// All checkpoints, newest first; an unreadable one is represented by its seq.
    pub async fn checkpoints(
        &self,
        who: &Scope,
        session: &str,
    ) -> Result<Vec<Result<Checkpoint, u64>>, Failure> {
        let id = sid(session);
        let all = self.ledger.query_session(who, &id, |snapshot, scope, id| {
            snapshot.checkpoints(scope, id)
        });
        all.await
    }

    /// The seqs of the checkpoints, newest first; all must be readable.
    pub async fn checkpoint_seqs(&self, who: &Scope, session: &str) -> Vec<u64> {
        let all = self.checkpoints(who, session).await.unwrap();
        all.into_iter().map(|c| c.unwrap().seq).collect()
    }

    /// The newest readable checkpoint.
    pub async fn newest_checkpoint(&self, who: &Scope, session: &str) -> NewestCheckpoint {
        let id = sid(session);
        let found = self.ledger.query_session(who, &id, |snapshot, scope, id| {
            snapshot.newest_checkpoint(&snapshot.get(scope, id)?)
        });
        found.await.unwrap()
    }
}

//! Short ways to take leases and to put checkpoints.

use std::time::Duration;

use filrouge_types::{Checkpoint, Clock, Failure, Lease};

use super::asks::json;
use super::fixture::{Fixture, sid};
use crate::command::{
    Acquire, Hold, LeaseAsk, NewSession, Outcome, PutCheckpoint, Scope, TakeLease, Write,
};
use crate::read::NewestCheckpoint;

/// A second, in the microseconds of the clock.
pub const SECOND: i64 = 1_000_000;

/// How long leases of tests live when nothing else is said, in seconds.
pub const TTL: i64 = 60;

fn lease(session: &str, holder: &str, ask: LeaseAsk) -> Write {
    Write::Lease(Box::new(TakeLease {
        session_id: sid(session),
        holder: holder.into(),
        ask,
    }))
}

pub fn acquire_with(session: &str, holder: &str, change: impl FnOnce(&mut Acquire)) -> Write {
    let mut acquire = Acquire {
        ttl: seconds(TTL),
        create: None,
        terminal: Vec::new(),
        resumes: None,
    };
    change(&mut acquire);
    lease(session, holder, LeaseAsk::Acquire(Box::new(acquire)))
}

pub fn acquire(session: &str, holder: &str) -> Write {
    acquire_with(session, holder, |_| {})
}

/// Takes a session, which is made when there is none.
pub fn acquire_new(session: &str, holder: &str) -> Write {
    acquire_with(session, holder, |a| {
        a.create = Some(NewSession::bare(sid(session)));
    })
}

pub fn renew(session: &str, holder: &str, fence: u64, ttl: i64) -> Write {
    let ttl = seconds(ttl);
    lease(session, holder, LeaseAsk::Renew { fence, ttl })
}

pub fn release(session: &str, holder: &str, fence: u64) -> Write {
    lease(session, holder, LeaseAsk::Release { fence })
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}

/// A checkpoint; a session keeps three.
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

/// `who`, writing under a fence.
pub fn under(who: &Scope, fence: u64) -> Scope {
    who.clone().with_hold(Some(Hold::by(fence)))
}

/// `who`, writing under a fence and giving the session free with it.
pub fn releasing(who: &Scope, fence: u64) -> Scope {
    who.clone().with_hold(Some(Hold {
        release: true,
        ..Hold::by(fence)
    }))
}

/// `who`, whose write under a fence has waited for the ledger.
pub fn queued(who: &Scope, fence: u64) -> Scope {
    who.clone().with_hold(Some(Hold {
        queued: true,
        ..Hold::by(fence)
    }))
}

/// What taking a session has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub lease: Lease,
    pub anew: bool,
    pub created: bool,
    pub resumed: bool,
}

impl Fixture {
    /// A write that answers with a lease.
    pub async fn taken(&self, who: &Scope, write: Write) -> Result<Taken, Failure> {
        match self.write(who, write).await? {
            Outcome::Lease {
                lease,
                created,
                resumed,
                taken,
            } => Ok(Taken {
                lease,
                anew: taken,
                created,
                resumed,
            }),
            other => panic!("expected a lease, got {other:?}"),
        }
    }

    /// Takes a session for [`TTL`]; gives the fence.
    pub async fn held(&self, who: &Scope, session: &str, holder: &str) -> u64 {
        let taken = self.taken(who, acquire(session, holder)).await.unwrap();
        assert_eq!(taken.lease.holder.as_deref(), Some(holder));
        taken.lease.fence
    }

    /// The lease as it is read now.
    pub async fn lease(&self, who: &Scope, session: &str) -> Result<Lease, Failure> {
        let (viewer, id, now) = (who.clone(), sid(session), self.clock.now());
        let ask = move |sight: &crate::read::Sight<'_, dyn crate::View + '_>| {
            sight.lease(&viewer, &id, now)
        };
        self.ledger.ask_in(who, &sid(session), ask).await
    }

    /// A write that answers with a checkpoint, and whether it is new.
    pub async fn checkpointed(
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

    /// All checkpoints, newest first; of one that cannot be read its seq alone.
    pub async fn checkpoints(
        &self,
        who: &Scope,
        session: &str,
    ) -> Result<Vec<Result<Checkpoint, u64>>, Failure> {
        let (viewer, id) = (who.clone(), sid(session));
        let ask = move |sight: &crate::read::Sight<'_, dyn crate::View + '_>| {
            sight.checkpoints(&viewer, &id)
        };
        self.ledger.ask_in(who, &sid(session), ask).await
    }

    /// The seqs of the checkpoints, newest first; all can be read.
    pub async fn checkpoint_seqs(&self, who: &Scope, session: &str) -> Vec<u64> {
        let all = self.checkpoints(who, session).await.unwrap();
        all.into_iter().map(|c| c.unwrap().seq).collect()
    }

    /// The newest checkpoint that can be read.
    pub async fn newest_checkpoint(&self, who: &Scope, session: &str) -> NewestCheckpoint {
        let (viewer, id) = (who.clone(), sid(session));
        let ask = move |sight: &crate::read::Sight<'_, dyn crate::View + '_>| {
            let session = sight.get(&viewer, &id)?;
            sight.newest_checkpoint(&session)
        };
        let found = self.ledger.ask_in(who, &sid(session), ask).await;
        found.unwrap()
    }
}

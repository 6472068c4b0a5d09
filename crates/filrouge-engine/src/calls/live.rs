//! The live calls of a tenant at this moment.

use filrouge_store::read::Findings;
use filrouge_store::verify::Finding;
use filrouge_types::{Result, Session, Timestamp};

use crate::caller::{Caller, Permission};
use crate::engine::Calls;

/// The maximum number of active sessions that are examined.
const EXAMINED_MAX: usize = 2000;

/// A session that has a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCall {
    /// The session; its `state` is the label of its newest checkpoint.
    pub session: Session,
    /// The holder.
    pub holder: Box<str>,
    /// The fence of the lease.
    pub fence: u64,
    /// When the fence was granted.
    pub held_since: Timestamp,
    /// When the lease expires.
    pub expires_at: Timestamp,
}

/// The live calls of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCalls {
    /// The calls, the last active first.
    pub calls: Vec<LiveCall>,
    /// The time by which leases end.
    pub as_of: Timestamp,
    /// Whether further active sessions were not examined, because there are too many.
    pub truncated: bool,
    /// Damaged sessions, which are left out.
    pub findings: Vec<Finding>,
}

impl Calls {
    /// The sessions of the caller's tenant that have a holder now, among the 2,000 active ones with the latest activity.
    /// Sessions that are only in the hot store are not listed, nor leases that only the spool has granted.
    ///
    /// # Errors
    /// `forbidden`, and the ledger's errors.
    pub async fn live(&self, caller: &Caller) -> Result<LiveCalls> {
        let scope = caller.scope(Permission::ReadTenant)?;
        let (viewer, as_of) = (scope.clone(), self.clock.lease_now());
        self.ledger
            .query_listed(&scope, move |snapshot| {
                let mut findings = Findings::default();
                let (held, truncated) =
                    snapshot.held_sessions(&viewer, as_of, EXAMINED_MAX, &mut findings)?;
                let calls = held.into_iter().map(|(session, lease)| LiveCall {
                    session,
                    holder: lease.holder,
                    fence: lease.fence,
                    held_since: lease.since,
                    expires_at: lease.expires_at,
                });
                Ok(LiveCalls {
                    calls: calls.collect(),
                    as_of,
                    truncated,
                    findings: findings.into_vec(),
                })
            })
            .await
    }
}

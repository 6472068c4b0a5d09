//! The lease of an open session (DESIGN §6, §11): renewed in the background, and released when the session is closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_engine::{AcquireLease, Caller, Engine, RenewLease};
use filrouge_store::command::FencingToken;
use filrouge_types::{ErrorCode, Failure, Lease, SessionId, lock};
use tokio::task::JoinSet;

/// The number of the next session that this process opens: it makes holder names distinct.
static NEXT_OPENING: AtomicU64 = AtomicU64::new(1);
/// The maximum number of bytes of a holder's label, the part of the name that people see. The other part identifies the
/// process.
const LABEL_BYTES_MAX: usize = 200;
/// Separates the label from the id of the process in a holder's name.
const WRITER_SEPARATOR: &str = " #";

/// The lease of one open session.
pub(super) struct SessionLease {
    engine: Arc<Engine>,
    caller: Caller,
    session: SessionId,
    holder: Box<str>,
    ttl: Duration,
    state: Mutex<LeaseState>,
}

/// The lease as this process knows it.
struct LeaseState {
    fence: u64,
    /// The reason why the lease is lost or was released; `None` while this process has it.
    lost: Option<Failure>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Builds the holder's name for a session that is being opened: a label for people, and the id of the process, with
/// which others check whether the holder has exited.
fn holder_name(label: &str, writer: &str) -> Box<str> {
    let label: String = label.chars().filter(|c| !c.is_control()).collect();
    let end = label.floor_char_boundary(LABEL_BYTES_MAX);
    let label = label.get(..end).unwrap_or_default();
    let opening = NEXT_OPENING.fetch_add(1, Ordering::Relaxed);
    format!("{label}{WRITER_SEPARATOR}{writer}.{opening}").into()
}

/// The process in a holder's name; `None` if the name has another form.
fn holder_process(holder: &str) -> Option<&str> {
    let (_, process) = holder.rsplit_once(WRITER_SEPARATOR)?;
    let (writer, _) = process.rsplit_once('.')?;
    Some(writer).filter(|writer| !writer.is_empty())
}

/// The label part of a holder's name, for people.
pub fn holder_label(holder: &str) -> &str {
    holder
        .rsplit_once(WRITER_SEPARATOR)
        .map_or(holder, |(label, _)| label)
}

/// Whether the process of a lease's holder has exited; `false` if it is unknown.
pub(crate) async fn has_holder_exited(engine: &Engine, lease: &Lease) -> bool {
    match lease.holder.as_deref().and_then(holder_process) {
        Some(writer) => engine.upkeep.has_exited(writer).await,
        None => false,
    }
}

impl SessionLease {
    /// Acquires the lease of a session.
    ///
    /// # Errors
    /// `lease_timeout` with its holder and the lease's end; the ledger's errors.
    pub(super) async fn acquire(
        engine: &Arc<Engine>,
        caller: &Caller,
        session: &SessionId,
        (label, ttl, wait): (&str, Duration, Duration),
    ) -> Result<Self, Failure> {
        let holder = holder_name(label, &engine.upkeep.writer());
        let request = AcquireLease {
            holder: holder.clone(),
            ttl_ms: Some(millis(ttl)),
            wait_ms: Some(millis(wait)),
        };
        let lease = engine.calls.acquire(caller, session, request).await?;

        Ok(Self {
            engine: engine.clone(),
            caller: caller.clone().with_fence(None),
            session: session.clone(),
            holder,
            ttl,
            state: Mutex::new(LeaseState {
                fence: lease.fence,
                lost: None,
            }),
        })
    }

    pub(super) fn fence(&self) -> u64 {
        lock(&self.state).fence
    }

    /// The caller for writes under the lease.
    ///
    /// # Errors
    /// The reason why the lease is lost.
    pub(super) fn caller(&self) -> Result<Caller, Failure> {
        let state = lock(&self.state);
        match &state.lost {
            Some(lost) => Err(lost.clone()),
            None => Ok(self
                .caller
                .clone()
                .with_fence(Some(FencingToken::new(state.fence)))),
        }
    }

    /// Marks the lease as lost, and returns the failure.
    fn mark_lost(&self, failure: Failure) -> Failure {
        tracing::warn!(session_id = %self.session, code = failure.code.as_str(), "the session's lease is lost");
        lock(&self.state).lost = Some(failure.clone());
        failure
    }

    /// Checks in the ledger that this process still has the lease; then returns the same as [`Self::caller`]. Acquires
    /// an expired lease again if no other caller has had it since, so that a session continues after its machine was
    /// suspended.
    ///
    /// # Errors
    /// `stale_fence` if someone else has taken the session over, and the ledger's errors.
    pub(super) async fn caller_after_check(&self) -> Result<Caller, Failure> {
        let caller = self.caller()?;
        let lease = self.engine.calls.lease(&self.caller, &self.session).await?;
        let fence = self.fence();
        if lease.fence == fence && lease.holder.is_some() {
            return Ok(caller);
        }
        if lease.fence != fence {
            return Err(self.mark_lost(self.lease_taken_failure(&lease)));
        }
        self.reacquire(fence).await?;
        self.caller()
    }

    /// The failure for a session whose lease another caller has acquired.
    fn lease_taken_failure(&self, lease: &Lease) -> Failure {
        let new_holder = lease.holder.as_deref();
        let new_holder = new_holder.map_or("another holder", holder_label);
        let session = self.session.as_str();
        let detail = format!("session {session:?} was taken over by {new_holder}");
        let mut failure = Failure::new(ErrorCode::StaleFence, detail)
            .with_hint("resume the session: the conversation up to then is kept");
        failure.held = Some(Box::new(lease.clone()));
        failure
    }

    /// Acquires the expired lease again. Releases it again, and fails, if another caller has had the lease since this
    /// process got `fence`.
    async fn reacquire(&self, fence: u64) -> Result<(), Failure> {
        let request = AcquireLease {
            holder: self.holder.clone(),
            ttl_ms: Some(millis(self.ttl)),
            wait_ms: Some(0),
        };
        let (caller, session) = (&self.caller, &self.session);
        let lease = match self.engine.calls.acquire(caller, session, request).await {
            Ok(lease) => lease.into_value(),
            Err(failure) if failure.code == ErrorCode::LeaseTimeout => {
                let lease = failure.held.as_deref().cloned();
                return Err(
                    self.mark_lost(lease.map_or(failure, |lease| self.lease_taken_failure(&lease)))
                );
            }
            Err(failure) => return Err(failure),
        };
        // Acquiring an expired lease raises its fence by 1, so a greater fence shows that another caller had the lease.
        if lease.fence <= fence + 1 {
            lock(&self.state).fence = lease.fence;
            return Ok(());
        }
        self.engine
            .calls
            .release(caller, session, &self.holder, Some(lease.fence))
            .await?;
        let released = Lease {
            holder: None,
            ..lease
        };
        Err(self.mark_lost(self.lease_taken_failure(&released)))
    }

    /// Renews the lease; acquires an expired lease again if possible.
    async fn renew(&self) -> Result<(), Failure> {
        let request = RenewLease {
            holder: self.holder.clone(),
            fence: Some(self.caller().map(|_| self.fence())?),
            ttl_ms: Some(millis(self.ttl)),
        };
        let calls = &self.engine.calls;
        match calls.renew(&self.caller, &self.session, request).await {
            Ok(_) => Ok(()),
            Err(failure)
                if matches!(
                    failure.code,
                    ErrorCode::LeaseExpired | ErrorCode::StaleFence | ErrorCode::LeaseHeld
                ) =>
            {
                self.caller_after_check().await.map(drop)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Renews the lease after each third of its duration, until it is lost. Dropping the returned task stops it.
    pub(super) fn heartbeat(self: &Arc<Self>) -> JoinSet<()> {
        let lease = self.clone();
        JoinSet::from_iter([async move {
            loop {
                tokio::time::sleep(lease.ttl / 3).await;
                if let Err(failure) = lease.renew().await {
                    tracing::warn!(session_id = %lease.session, code = failure.code.as_str(), "the lease was not renewed");
                }
                if lease.caller().is_err() {
                    return;
                }
            }
        }])
    }

    /// Releases the lease, unless it is lost; nothing is written after this.
    ///
    /// # Errors
    /// The ledger's; the lease then expires.
    pub(super) async fn release(&self) -> Result<(), Failure> {
        let fence = {
            let mut state = lock(&self.state);
            if state.lost.is_some() {
                return Ok(());
            }
            state.lost = Some(ErrorCode::LeaseExpired.failure("the session was closed here"));
            state.fence
        };
        self.engine
            .calls
            .release(&self.caller, &self.session, &self.holder, Some(fence))
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_name_has_a_label_and_a_process() {
        let (one, two) = (holder_name("ann@desk", "0a"), holder_name("ann@desk", "0a"));
        assert_ne!(one, two, "two openings of one process");
        assert_eq!(holder_label(&one), "ann@desk");
        assert_eq!(holder_process(&one), Some("0a"));
        for malformed in ["", "ann", "ann #", "ann #.1", "ann #x"] {
            assert_eq!(holder_process(malformed), None, "{malformed}");
        }
        let long = holder_name(&"é\n".repeat(300), &"f".repeat(16));
        assert!(long.len() <= 256 && !long.contains('\n'), "{long}");
        assert_eq!(holder_process(&long), Some("f".repeat(16).as_str()));
    }
}

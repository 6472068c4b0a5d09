//! Going on with a session where it stopped (P3, DESIGN §6).

use std::time::Duration;

use filrouge_store::command::{NewSession, Scope};
use filrouge_store::read::NewestCheckpoint;
use filrouge_types::{
    Checkpoint, ErrorCode, Failure, Item, RawJson, SessionId, Timestamp, UNPLACED,
};
use serde::Serialize;
use tokio::time::Instant;

use super::lease::{Taken, Taking};
use super::requests::ResumeSession;
use super::settings::Journal;
use super::unclaimed::Unclaimed;
use super::words::{word, word_of};
use crate::caller::{Caller, Permission};
use crate::engine::Calls;
use crate::spool::Waiting;
use crate::written::Written;

/// How often is looked whether what waits was drained.
const LOOK: Duration = Duration::from_millis(10);

filrouge_types::words!(
    /// Why a session is gone on with from something else than its newest checkpoint.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum Fallback: "fallback" {
        /// The newest one cannot be read: an older one, and the items after it.
        OlderCheckpoint => "older_checkpoint",
        /// None can be read: all items.
        Replay => "replay",
        /// The oldest items of an ephemeral session were let go, or more wait in the spool than are given at once: what is
        /// given begins later than it should.
        Trimmed => "trimmed",
    }
);

/// All that is needed to go on with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resumed {
    /// The fence of the lease that was taken.
    pub fence: u64,
    /// Who holds the session now.
    pub holder: Box<str>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// The newest checkpoint that can be read.
    pub checkpoint: Option<Checkpoint>,
    /// The items behind it, oldest first.
    pub tail: Vec<Item>,
    /// When there are more than were given: the `after` to read the next ones by.
    pub tail_cursor: Option<u64>,
    /// The newest seq.
    pub last_seq: u64,
    /// Whether the caller's copy up to `known_seq`, last written under `known_fence`, is not what the session is now;
    /// absent when it named neither.
    pub stale: Option<bool>,
    /// Where it comes from: `pg`, `sqlite`, `memory`, `hot`; `spool` while the ledger does not answer; `shadow` when the
    /// journal is written and not read.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "pg"))]
    pub source: &'static str,
    /// Whether the session was made.
    pub created: bool,
    /// The session's state: the label of its newest checkpoint, or what was patched since.
    pub state: Option<Box<str>>,
    /// Why it is not the newest checkpoint, when it is not.
    pub fallback: Option<Fallback>,
}

/// What a session was found to be under the lease that was taken.
struct Found {
    newest: NewestCheckpoint,
    tail: Vec<Item>,
    tail_cursor: Option<u64>,
    last_seq: u64,
    state: Option<Box<str>>,
}

impl Calls {
    /// Takes the lease of a session and gives what it takes to go on: the newest checkpoint, the items behind it, and the
    /// newest seq, of one moment in which the lease was held. An unreadable checkpoint falls back to the one before, then
    /// to all items, and says so.
    ///
    /// # Errors
    /// `session_terminated`, and those of [`Self::acquire`].
    pub async fn resume(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: ResumeSession,
    ) -> Result<Written<Resumed>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let waited = !self.lease_wait(request.wait_ms)?.is_zero();
        match self.resume_unclaimed(scope, session, &request).await {
            Ok((resumed, unclaimed)) => {
                unclaimed.claim();
                Ok(resumed)
            }
            Err(failure) => {
                let refused = (&*request.holder, waited, &failure);
                self.tell_refused(scope, session, refused).await;
                Err(failure)
            }
        }
    }

    /// As [`Self::resume`], with a lease that is given free unless it is claimed; nobody is told of one that was not to be
    /// had.
    pub(super) async fn resume_unclaimed(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &ResumeSession,
    ) -> Result<(Written<Resumed>, Unclaimed), Failure> {
        let resumed = self.resumed(scope, session, request).await;
        match &resumed {
            Ok((resumed, _)) => {
                let fallback = resumed.fallback.map_or("none", Fallback::as_str);
                self.counters.resumes.add((resumed.source, fallback), 1);
                tell(scope, session, resumed);
            }
            Err(failure) if failure.code.status() >= 500 => {
                let err = failure.code;
                let pg_down = err == ErrorCode::StoreUnavailable;
                let what = if pg_down { "pg_down" } else { "store" };
                tracing::warn!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), reason = what, "[CALL_RESUME_WARN] pg_down/err={err}");
            }
            Err(_) => {}
        }
        resumed
    }

    async fn resumed(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &ResumeSession,
    ) -> Result<(Written<Resumed>, Unclaimed), Failure> {
        let reads = self.settings.calls.journal == Journal::On;
        let create = request.create.then(|| NewSession::bare(session.clone()));
        let taking = Taking {
            holder: &request.holder,
            wait: self.lease_wait(request.wait_ms)?,
            acquire: self.acquisition(
                request.ttl_ms,
                create,
                reads.then_some(request.known_seq),
            )?,
        };
        let wait = taking.wait;
        let taken = self.take_lease(scope, session, taking).await?;
        if let Some(waiting) = self.waiting(scope, session, wait).await? {
            let resumed = spooled(request, &taken, waiting, reads);
            return Ok((taken.written(resumed), taken.unclaimed));
        }
        let found = self.found(scope, session, taken.lease.fence).await?;
        let source = match self.settings.calls.journal {
            Journal::Shadow => "shadow",
            _ if self.in_hot(scope, session).await? => "hot",
            _ => self.ledger.backend().kind,
        };
        let resumed = given(request, &taken, found, source, reads);
        if reads && resumed.0 {
            self.tell_reconstructed(scope, session, &resumed.1).await;
        }
        let resumed = resumed.1;
        let (checkpoint, state) = (resumed.checkpoint.as_ref(), resumed.state.as_deref());
        if let Some(spool) = &self.spool {
            spool.resumed(scope, session, checkpoint, resumed.last_seq, state);
        }
        Ok((taken.written(resumed), taken.unclaimed))
    }

    /// The session as it is known here, when the ledger does not answer. Once that is back, what waits is drained first:
    /// whoever goes on sees it.
    async fn waiting(
        &self,
        scope: &Scope,
        session: &SessionId,
        wait: Duration,
    ) -> Result<Option<Waiting>, Failure> {
        let Some(spool) = &self.spool else {
            return Ok(None);
        };
        let until = Instant::now() + wait;
        loop {
            match spool.waiting(scope, session) {
                None => return Ok(None),
                Some(waiting) if waiting.down => {
                    let most = self.settings.calls.tail_items;
                    let tail = spool.waiting_tail(scope, session, most);
                    let Some(waiting) = tail.filter(|w| w.down) else {
                        // It has come back in between.
                        continue;
                    };
                    let err = ErrorCode::StoreUnavailable;
                    tracing::warn!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), reason = "pg_down", "[CALL_RESUME_WARN] pg_down/err={err}");
                    return Ok(Some(waiting));
                }
                Some(_) if Instant::now() >= until => {
                    let what = "writes of the session are still on their way to the ledger";
                    return Err(Failure::new(ErrorCode::StoreUnavailable, what)
                        .with_hint("resume again, or with a longer wait_ms"));
                }
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Reads what is needed in one look, in which the lease must still be the one that was taken.
    async fn found(
        &self,
        scope: &Scope,
        session: &SessionId,
        fence: u64,
    ) -> Result<Found, Failure> {
        let (viewer, id) = (scope.clone(), session.clone());
        let limit = self.settings.calls.tail_items;
        self.ledger
            .ask_in(scope, session, move |sight| {
                let session = sight.get(&viewer, &id)?;
                if session.head.lease.fence != fence {
                    let what = "the lease was taken over before the session was read";
                    return Err(Failure::new(ErrorCode::StaleFence, what)
                        .with_hint("resume again, with a longer ttl_ms"));
                }
                let newest = sight.newest_checkpoint(&session)?;
                let after = newest.checkpoint.as_ref().map_or(0, |c| c.seq);
                let (tail, cursor) = sight.items_of(&session, after, limit)?;
                let last_seq = session.head.last_seq;
                let last = tail.last().map(|item| item.seq);
                Ok(Found {
                    newest,
                    tail_cursor: last.filter(|_| cursor.is_some()),
                    tail,
                    last_seq,
                    state: session.row.state,
                })
            })
            .await
    }

    /// Tells by an event that the application has to make its state anew from items.
    async fn tell_reconstructed(&self, scope: &Scope, session: &SessionId, resumed: &Resumed) {
        let from = resumed.fallback.unwrap_or(Fallback::Replay).as_str();
        let detail = RawJson::from_checked(format!(r#"{{"from":"{from}"}}"#));
        let (kind, of) = ("session_reconstruct_used", resumed.fence.to_string());
        let recorded = self
            .record_own_event(scope, session, kind, &of, Some(detail))
            .await;
        if let Err(failure) = recorded {
            let err = failure.code;
            self.counters.event_dropped(err);
            tracing::warn!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), "[CALL_RESUME_WARN] err={err}");
        }
    }
}

/// The answer, and whether the state is to be made anew from items: the newest checkpoint cannot be read, or there is none.
fn given(
    request: &ResumeSession,
    taken: &Taken,
    found: Found,
    source: &'static str,
    reads: bool,
) -> (bool, Resumed) {
    let after = found.newest.checkpoint.as_ref().map_or(0, |c| c.seq);
    let fallback = match (found.newest.unreadable, &found.newest.checkpoint) {
        _ if is_trimmed(after, &found.tail, found.last_seq) => Some(Fallback::Trimmed),
        (0, _) => None,
        (_, Some(_)) => Some(Fallback::OlderCheckpoint),
        (_, None) => Some(Fallback::Replay),
    };
    let none = found.newest.checkpoint.is_none() && found.last_seq > 0;
    let reconstructs = taken.resumed && (fallback.is_some() || none);
    let resumed = Resumed {
        fence: taken.lease.fence,
        holder: request.holder.clone(),
        expires_at: taken.lease.expires_at,
        checkpoint: found.newest.checkpoint.filter(|_| reads),
        tail: if reads { found.tail } else { Vec::new() },
        tail_cursor: found.tail_cursor.filter(|_| reads),
        last_seq: found.last_seq,
        stale: is_stale(request, taken, found.last_seq).filter(|_| reads),
        source,
        created: taken.created,
        state: found.state.filter(|_| reads),
        fallback: fallback.filter(|_| reads),
    };
    (reconstructs, resumed)
}

/// Whether items behind `after` that should be given were let go.
pub(super) fn is_trimmed(after: u64, tail: &[Item], last_seq: u64) -> bool {
    match tail.first() {
        Some(first) => first.seq > after + 1,
        None => last_seq > after,
    }
}

/// Whether the caller's copy is not what the session is now: it ends elsewhere, or somebody has held the session since.
fn is_stale(request: &ResumeSession, taken: &Taken, last_seq: u64) -> Option<bool> {
    let before = taken.lease.fence - u64::from(taken.new);
    let elsewhere = request.known_seq.map(|known| known != last_seq);
    let held_since = request.known_fence.map(|known| before > known);
    match (elsewhere, held_since) {
        (None, None) => None,
        (elsewhere, held_since) => Some(elsewhere == Some(true) || held_since == Some(true)),
    }
}

/// The answer from what is known here.
fn spooled(request: &ResumeSession, taken: &Taken, waiting: Waiting, reads: bool) -> Resumed {
    // What waits has no seq that a copy could be compared by.
    let unplaced = |c: &Checkpoint| c.seq == UNPLACED;
    let waits = !waiting.items.is_empty() || waiting.checkpoint.as_ref().is_some_and(unplaced);
    let stale = is_stale(request, taken, waiting.last_seq).map(|stale| stale || waits);
    Resumed {
        fence: taken.lease.fence,
        holder: request.holder.clone(),
        expires_at: taken.lease.expires_at,
        checkpoint: waiting.checkpoint.filter(|_| reads),
        tail: if reads { waiting.items } else { Vec::new() },
        tail_cursor: None,
        last_seq: waiting.last_seq,
        stale: stale.filter(|_| reads),
        source: "spool",
        created: false,
        state: waiting.state.filter(|_| reads),
        fallback: (reads && waiting.trimmed).then_some(Fallback::Trimmed),
    }
}

fn tell(scope: &Scope, session: &SessionId, resumed: &Resumed) {
    let checkpoint = resumed.checkpoint.as_ref();
    tracing::info!(
        source = %resumed.source,
        tenant_id = %word(scope.tenant.as_str()),
        call_id = %word(session.as_str()),
        state = %word_of(resumed.state.as_deref()),
        ck_seq = checkpoint.map_or(0, |c| c.seq),
        last_seq = resumed.last_seq,
        "[CALL_RESUME]"
    );
    if let Some(fallback) = resumed.fallback {
        let err = match fallback {
            Fallback::Trimmed => "items_trimmed",
            Fallback::OlderCheckpoint | Fallback::Replay => "checkpoint_unreadable",
        };
        tracing::warn!(tenant_id = %word(scope.tenant.as_str()), call_id = %word(session.as_str()), fallback = %fallback.as_str(), "[CALL_RESUME_WARN] err={err}");
    }
}

//! Resumes a session where it stopped (P3, DESIGN §6).

use std::time::Duration;

use filrouge_store::command::{NewSession, Scope};
use filrouge_store::read::NewestCheckpoint;
use filrouge_types::{
    Checkpoint, ErrorCode, Failure, Item, RawJson, Result, SessionId, Timestamp, UNASSIGNED,
};
use serde::Serialize;
use tokio::time::Instant;

use super::lease::AcquiredLease;
use super::requests::ResumeSession;
use super::settings::Journal;
use super::unclaimed::UnclaimedLease;
use super::words::{log_seq, log_word, optional_log_word};
use crate::caller::{Caller, Permission};
use crate::engine::Calls;
use crate::spool::SpooledSession;
use crate::written::Written;

/// The interval at which a resume checks whether the queued writes were drained.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

filrouge_types::words!(
    /// The reason why a session is not resumed from its newest checkpoint.
    #[derive(Serialize, utoipa::ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Fallback: "fallback" {
        /// The newest checkpoint is unreadable: the session is resumed from an older one and the items after it.
        OlderCheckpoint => "older_checkpoint",
        /// No checkpoint is readable: the session is resumed from all items.
        Replay => "replay",
        /// The oldest items of an ephemeral session were trimmed, or more are queued in the spool than one answer holds: the
        /// returned items start too late.
        Trimmed => "trimmed",
    }
);

/// All that is needed to resume a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Resumed {
    /// The fence of the acquired lease.
    pub fence: u64,
    /// The present holder.
    pub holder: Box<str>,
    /// When the lease expires.
    pub expires_at: Option<Timestamp>,
    /// The newest readable checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// The items after it, oldest first.
    pub tail: Vec<Item>,
    /// The `after` that reads the next items, if there are more than returned.
    pub tail_cursor: Option<u64>,
    /// The newest seq.
    pub last_seq: u64,
    /// Whether the caller's copy up to `known_seq`, last written under `known_fence`, differs from the session now; absent if
    /// the request named neither.
    pub stale: Option<bool>,
    /// The source of the answer: `pg`, `sqlite`, `memory`, `hot`; `spool` while the ledger does not answer; `shadow` if the
    /// journal is written but not read.
    #[schema(value_type = String, example = "pg")]
    pub source: &'static str,
    /// Whether the session was created.
    pub created: bool,
    /// The session's state: the label of its newest checkpoint, or a later patch.
    pub state: Option<Box<str>>,
    /// The reason, if the session is not resumed from its newest checkpoint.
    pub fallback: Option<Fallback>,
}

/// The session as read under the acquired lease.
struct LoadedSession {
    newest: NewestCheckpoint,
    tail: Vec<Item>,
    tail_cursor: Option<u64>,
    last_seq: u64,
    state: Option<Box<str>>,
}

impl Calls {
    /// Acquires the lease of a session and returns all that is needed to resume: the newest checkpoint, the items after
    /// it, and the newest seq. All are read from one snapshot in which the acquired lease is in force. If the newest
    /// checkpoint is unreadable, the resume uses an older one, or else all items; [`Resumed::fallback`] then gives the
    /// reason.
    ///
    /// # Errors
    /// `session_terminated`, and those of [`Self::acquire`].
    pub async fn resume(
        &self,
        caller: &Caller,
        session: &SessionId,
        request: ResumeSession,
    ) -> Result<Written<Resumed>> {
        let scope = &caller.scope(Permission::Write)?;
        let waited = !self.lease_wait(request.wait_ms)?.is_zero();
        match self.resume_unclaimed(scope, session, &request).await {
            Ok((resumed, unclaimed)) => {
                unclaimed.claim();
                Ok(resumed)
            }
            Err(failure) => {
                let refused = (&*request.holder, waited, &failure);
                self.report_refused(scope, session, refused).await;
                Err(failure)
            }
        }
    }

    /// Like [`Self::resume`], but the lease is released unless the caller claims it, and a refused lease is not
    /// reported.
    pub(super) async fn resume_unclaimed(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &ResumeSession,
    ) -> Result<(Written<Resumed>, UnclaimedLease)> {
        let resumed = self.try_resume(scope, session, request).await;
        match &resumed {
            Ok((resumed, _)) => {
                let fallback = resumed.fallback.map_or("none", Fallback::as_str);
                self.counters.resumes.add((resumed.source, fallback), 1);
                log_resumed(scope, session, resumed);
            }
            Err(failure) if failure.code.status() >= 500 => {
                self.log_failed_resume(scope, session, failure.code);
            }
            Err(_) => {}
        }
        resumed
    }

    async fn try_resume(
        &self,
        scope: &Scope,
        session: &SessionId,
        request: &ResumeSession,
    ) -> Result<(Written<Resumed>, UnclaimedLease)> {
        let reads_journal = self.settings.calls.journal == Journal::On;
        let create = request.create.then(|| NewSession::with_id(session.clone()));
        let wait = self.lease_wait(request.wait_ms)?;
        let resumes = reads_journal.then_some(request.known_seq);
        let acquire = self.acquire_options(request.ttl_ms, create, resumes)?;
        let acquired = self
            .acquire_lease(scope, session, &request.holder, wait, acquire)
            .await?;
        if let Some(spooled) = self.wait_for_spool(scope, session, wait).await? {
            let resumed = resumed_from_spool(request, &acquired, spooled, reads_journal);
            return Ok((acquired.to_written(resumed), acquired.unclaimed));
        }
        let loaded = self.load(scope, session, acquired.lease.fence).await?;
        let source = match self.settings.calls.journal {
            Journal::Shadow => "shadow",
            _ if self.in_hot(scope, session).await? => "hot",
            _ => self.ledger.backend().kind,
        };
        let (reconstructs, resumed) =
            build_resumed(request, &acquired, loaded, source, reads_journal);
        if reads_journal && reconstructs {
            self.report_reconstructed(scope, session, &resumed).await;
        }
        let (checkpoint, state) = (resumed.checkpoint.as_ref(), resumed.state.as_deref());
        if let Some(spool) = &self.spool {
            spool.record_resume(scope, session, checkpoint, resumed.last_seq, state);
        }
        Ok((acquired.to_written(resumed), acquired.unclaimed))
    }

    /// Returns the session's state in the spool while the ledger does not answer; otherwise `None`. If the ledger
    /// answers again but writes of the session are still queued, waits at most `wait` until they are drained, so that
    /// the resume includes them.
    async fn wait_for_spool(
        &self,
        scope: &Scope,
        session: &SessionId,
        wait: Duration,
    ) -> Result<Option<SpooledSession>> {
        let Some(spool) = &self.spool else {
            return Ok(None);
        };
        let deadline = Instant::now() + wait;
        loop {
            match spool.spooled_session(scope, session) {
                None => return Ok(None),
                Some(spooled) if spooled.down => {
                    let limit = self.settings.calls.tail_items;
                    let tail = spool.spooled_tail(scope, session, limit);
                    let Some(spooled) = tail.filter(|w| w.down) else {
                        // The ledger has answered again since the last check.
                        continue;
                    };
                    self.log_failed_resume(scope, session, ErrorCode::StoreUnavailable);
                    return Ok(Some(spooled));
                }
                Some(_) if Instant::now() >= deadline => {
                    let detail = "writes of the session are still on their way to the ledger";
                    return Err(Failure::new(ErrorCode::StoreUnavailable, detail)
                        .with_hint("resume again, or with a longer wait_ms"));
                }
                Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Logs that the ledger failed. The line names the kind of store if the store does not answer.
    fn log_failed_resume(&self, scope: &Scope, session: &SessionId, err: ErrorCode) {
        let is_down = err == ErrorCode::StoreUnavailable;
        let down = is_down.then(|| format!("{}_down", self.ledger.backend().kind));
        let cause = down
            .as_ref()
            .map_or_else(|| format!("err={err}"), |down| format!("{down}/err={err}"));
        let reason = down.as_deref().unwrap_or("store");
        tracing::warn!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), reason, "[CALL_RESUME_WARN] {cause}");
    }

    /// Reads the session from one snapshot; fails if the session's lease is no longer the acquired one.
    async fn load(&self, scope: &Scope, session: &SessionId, fence: u64) -> Result<LoadedSession> {
        let limit = self.settings.calls.tail_items;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let session = snapshot.get(scope, id)?;
                if session.head.lease.fence != fence {
                    let detail = "the lease was taken over before the session was read";
                    return Err(Failure::new(ErrorCode::StaleFence, detail)
                        .with_hint("resume again, with a longer ttl_ms"));
                }
                let newest = snapshot.newest_checkpoint(&session)?;
                let after = newest.checkpoint.as_ref().map_or(0, |c| c.seq);
                let (tail, cursor) = snapshot.items_of(&session, after, limit)?;
                let last_seq = session.head.last_seq;
                let last = tail.last().map(|item| item.seq);
                Ok(LoadedSession {
                    newest,
                    tail_cursor: last.filter(|_| cursor.is_some()),
                    tail,
                    last_seq,
                    state: session.row.state,
                })
            })
            .await
    }

    /// Records the event `session_reconstruct_used`: the application has to rebuild its state from items.
    async fn report_reconstructed(&self, scope: &Scope, session: &SessionId, resumed: &Resumed) {
        let from = resumed.fallback.unwrap_or(Fallback::Replay).as_str();
        let detail = RawJson::from_checked(format!(r#"{{"from":"{from}"}}"#));
        let (kind, instance) = ("session_reconstruct_used", resumed.fence.to_string());
        let recorded = self
            .record_engine_event(scope, session, kind, &instance, Some(detail))
            .await;
        if let Err(failure) = recorded {
            let err = failure.code;
            self.counters.count_dropped_event(err);
            tracing::warn!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), "[CALL_RESUME_WARN] err={err}");
        }
    }
}

/// Returns whether the application has to rebuild its state from items, because the newest checkpoint is unreadable or
/// does not exist; and the response. Without `reads_journal`, the response has no recorded contents.
fn build_resumed(
    request: &ResumeSession,
    acquired: &AcquiredLease,
    loaded: LoadedSession,
    source: &'static str,
    reads_journal: bool,
) -> (bool, Resumed) {
    let after = loaded.newest.checkpoint.as_ref().map_or(0, |c| c.seq);
    let fallback = match (loaded.newest.unreadable, &loaded.newest.checkpoint) {
        _ if is_trimmed(after, &loaded.tail, loaded.last_seq) => Some(Fallback::Trimmed),
        (0, _) => None,
        (_, Some(_)) => Some(Fallback::OlderCheckpoint),
        (_, None) => Some(Fallback::Replay),
    };
    let no_checkpoint = loaded.newest.checkpoint.is_none() && loaded.last_seq > 0;
    let reconstructs = acquired.resumed && (fallback.is_some() || no_checkpoint);
    let tail = Some(loaded.tail).filter(|_| reads_journal);
    let resumed = Resumed {
        fence: acquired.lease.fence,
        holder: request.holder.clone(),
        expires_at: acquired.lease.expires_at,
        checkpoint: loaded.newest.checkpoint.filter(|_| reads_journal),
        tail: tail.unwrap_or_default(),
        tail_cursor: loaded.tail_cursor.filter(|_| reads_journal),
        last_seq: loaded.last_seq,
        stale: is_stale(request, acquired, loaded.last_seq).filter(|_| reads_journal),
        source,
        created: acquired.created,
        state: loaded.state.filter(|_| reads_journal),
        fallback: fallback.filter(|_| reads_journal),
    };
    (reconstructs, resumed)
}

/// Whether items are missing between `after` and the beginning of the tail, because they were trimmed.
pub(super) fn is_trimmed(after: u64, tail: &[Item], last_seq: u64) -> bool {
    tail.first().map_or(last_seq + 1, |first| first.seq) > after + 1
}

/// Whether the caller's copy differs from the session now: the copy's newest seq is another one, or another holder has
/// had the lease since the caller's last write. `None` if the request names neither `known_seq` nor `known_fence`.
fn is_stale(request: &ResumeSession, acquired: &AcquiredLease, last_seq: u64) -> Option<bool> {
    let previous_fence = acquired.lease.fence - u64::from(acquired.is_new);
    let seq_differs = request.known_seq.map(|known| known != last_seq);
    let was_held_since = request.known_fence.map(|known| previous_fence > known);
    let differences = seq_differs.into_iter().chain(was_held_since);
    differences.reduce(|a, b| a || b)
}

/// The response while the ledger does not answer, from the session's state in the spool.
fn resumed_from_spool(
    request: &ResumeSession,
    acquired: &AcquiredLease,
    spooled: SpooledSession,
    reads_journal: bool,
) -> Resumed {
    // Queued items and checkpoints have no seq to compare. So the caller's copy is stale if the session has any.
    let unassigned = |c: &Checkpoint| c.seq == UNASSIGNED;
    let has_unassigned =
        !spooled.items.is_empty() || spooled.checkpoint.as_ref().is_some_and(unassigned);
    let stale = is_stale(request, acquired, spooled.last_seq).map(|stale| stale || has_unassigned);
    let tail = Some(spooled.items).filter(|_| reads_journal);
    Resumed {
        fence: acquired.lease.fence,
        holder: request.holder.clone(),
        expires_at: acquired.lease.expires_at,
        checkpoint: spooled.checkpoint.filter(|_| reads_journal),
        tail: tail.unwrap_or_default(),
        tail_cursor: None,
        last_seq: spooled.last_seq,
        stale: stale.filter(|_| reads_journal),
        source: "spool",
        created: acquired.created,
        state: spooled.state.filter(|_| reads_journal),
        fallback: (reads_journal && spooled.trimmed).then_some(Fallback::Trimmed),
    }
}

fn log_resumed(scope: &Scope, session: &SessionId, resumed: &Resumed) {
    let checkpoint = resumed.checkpoint.as_ref();
    let ck_seq = log_seq(checkpoint.map_or(0, |c| c.seq));
    tracing::info!(
        source = %resumed.source,
        tenant_id = %log_word(scope.tenant.as_str()),
        call_id = %log_word(session.as_str()),
        state = %optional_log_word(resumed.state.as_deref()),
        ck_seq = &*ck_seq,
        last_seq = resumed.last_seq,
        "[CALL_RESUME]"
    );
    if let Some(fallback) = resumed.fallback {
        let err = match fallback {
            Fallback::Trimmed => "items_trimmed",
            Fallback::OlderCheckpoint | Fallback::Replay => "checkpoint_unreadable",
        };
        tracing::warn!(tenant_id = %log_word(scope.tenant.as_str()), call_id = %log_word(session.as_str()), fallback = %fallback.as_str(), "[CALL_RESUME_WARN] err={err}");
    }
}

//! Calls of a target, which only a process with a claim makes, and which end before its claim does.

use filrouge_engine::{Engine, Extent, is_of_session};
use filrouge_types::{Clock, Failure, Timestamp};

use crate::projection::{Counts, Projection};
use crate::reading::read_session;
use crate::target::{Cleaned, Refused, SessionKey, TargetError, Update};

/// Why a step did not end.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A call of the target failed, in this generation if it concerns one.
    Target(TargetError, Option<u64>),
    /// The claim ends too soon for another call.
    ClaimEnds,
    /// The ledger failed.
    Ledger(Failure),
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Ledger(failure)
    }
}

impl From<TargetError> for StepError {
    fn from(error: TargetError) -> Self {
        Self::Target(error, None)
    }
}

/// Calls of a projection's target.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) projection: &'a Projection,
    pub(crate) clock: &'a dyn Clock,
    /// The end of this process's claim; `None` for calls that need none.
    pub(crate) claimed_until: Option<Timestamp>,
}

impl Calls<'_> {
    /// Waits for a call of the target.
    pub(crate) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, TargetError>>,
    ) -> Result<T, StepError> {
        let end = self.clock.now().after(self.projection.timeout);
        if self.claimed_until.is_some_and(|until| until < end) {
            return Err(StepError::ClaimEnds);
        }
        Ok(self.projection.within_timeout(call).await?)
    }

    /// Writes updates to a generation; returns those that were refused.
    pub(crate) async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, StepError> {
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        let row_count = |update: &Update| match update {
            Update::Rows { rows, .. } => rows.len(),
            Update::Removed { .. } => 0,
        };
        let rows: usize = updates.iter().map(row_count).sum();
        let written = self
            .call(self.projection.target.write(generation, updates))
            .await;
        let refused = written.map_err(|error| match error {
            StepError::Target(error, _) => StepError::Target(error, Some(generation)),
            other => other,
        })?;
        Counts::add(&self.projection.counts.rows, rows);
        Counts::add(&self.projection.counts.refused, refused.len());
        Ok(refused)
    }

    /// Deletes rows with a version up to `version`.
    pub(crate) async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, StepError> {
        self.call(self.projection.target.clean(key, version)).await
    }

    /// The newest commit of the session's lane that this process knows.
    pub(crate) fn newest_commit(&self, key: &SessionKey) -> u64 {
        let lanes = self.engine.ledger().lanes();
        let lane = lanes.of_session(&key.tenant, &key.session);
        self.engine.index_feed.position().lane(lane).commit_no
    }

    /// Brings the session's rows in these generations to the state of the ledger, and deletes all older rows of it.
    /// `commit` is a commit after which the ledger is read. Any process may do this at any time: a row with a smaller
    /// version replaces none, and rows that another process reads later have at least the version of those that are
    /// written here. If another process erases the session meanwhile, rows of it are written back: the caller must then
    /// do this again, and that process waits for it (`cleaner`).
    pub(crate) async fn refresh(
        &self,
        key: &SessionKey,
        generations: &[u64],
        commit: u64,
    ) -> Result<Refreshed, StepError> {
        let (engine, projection) = (self.engine, self.projection);
        let commit = commit.max(self.newest_commit(key));
        let read = match projection.copies(&key.tenant) {
            true => read_session(engine, &projection.selection, key, Extent::Entire).await,
            false => Ok(None),
        };
        let update = match read {
            Ok(Some(update)) => update,
            Ok(None) => {
                return Ok(Refreshed {
                    cleaned: self.clean(key, commit).await?,
                    has_rows: false,
                    refusal: None,
                });
            }
            Err(failure) if is_of_session(&failure) => {
                return Ok(Refreshed {
                    cleaned: self.clean(key, commit).await?,
                    has_rows: false,
                    refusal: Some(failure.code.to_string()),
                });
            }
            Err(failure) => return Err(failure.into()),
        };
        let rows = projection.target.rows(&update);
        let mut refusal = None;
        for generation in generations {
            let rows = Update::Rows {
                key: key.clone(),
                version: update.version,
                is_entire: true,
                rows: rows.clone(),
            };
            let refused = self.write(*generation, vec![rows]).await?;
            refusal = refused.into_iter().next().map(|r| r.reason).or(refusal);
        }
        let cleaned = self.clean(key, update.version.saturating_sub(1)).await?;
        Ok(Refreshed {
            cleaned,
            has_rows: true,
            refusal,
        })
    }
}

/// The result of [`Calls::refresh`].
pub(crate) struct Refreshed {
    pub(crate) cleaned: Cleaned,
    /// Whether rows were written. Without them, no version keeps out what another process has read before and writes
    /// later.
    pub(crate) has_rows: bool,
    /// Why the session has no current rows.
    pub(crate) refusal: Option<String>,
}

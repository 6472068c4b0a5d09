//! A small step of indexing: list the sessions, compare their fingerprints, read the sessions whose fingerprints
//! differ, and update their documents.

use std::time::{Duration, Instant};

use filrouge_sources::ReadError;
use filrouge_store::text_index::{Coverage, IndexUpdate, SessionEntry, SessionUpdate, Shard};
use filrouge_types::{ErrorCode, Failure, Result};

use super::compare::{Comparison, INCOMPLETE, SessionToRead};
use super::documents;
use super::source_index::SourceIndex;

/// The time after which a step reads no further session.
const MAX_STEP_TIME: Duration = Duration::from_millis(50);
/// The number of bytes of text after which a step reads no further session.
const MAX_STEP_BYTES: usize = 4 << 20;

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// Some sessions were read, or removed from the index. This many are left to read.
    Done(usize),
    /// No session had changed.
    Idle,
    /// Another process feeds this index.
    Locked,
}

impl SourceIndex {
    /// Removes the sessions that no longer exist from the index, and indexes changed ones until a limit of time or text
    /// is reached or `stopped` returns true. Failures are counted; the first with each error code is logged.
    ///
    /// # Errors
    /// Those of the index, and of a source that cannot be listed or does not answer.
    pub fn step(&self, stopped: &dyn Fn() -> bool) -> Result<StepOutcome> {
        self.try_step(stopped)
            .inspect_err(|why| self.log_failure(why))
    }

    fn try_step(&self, stopped: &dyn Fn() -> bool) -> Result<StepOutcome> {
        let Some(_lock) = self.try_lock()? else {
            return Ok(StepOutcome::Locked);
        };
        let comparison = self.comparison(&self.list_source()?)?;
        let mut batch = removals(&comparison);
        let began = Instant::now();
        let (mut bytes, mut processed) = (0, 0);
        for session in &comparison.to_read {
            if stopped() || bytes >= MAX_STEP_BYTES || began.elapsed() >= MAX_STEP_TIME {
                break;
            }
            processed += 1;
            if let Some(update) = self.read_session(session)? {
                bytes += text_bytes(&update);
                batch.push(IndexUpdate::Session(update));
            }
        }
        let unread = comparison.to_read.len() - processed;
        if batch.is_empty() {
            return Ok(match unread {
                0 => StepOutcome::Idle,
                unread => StepOutcome::Done(unread),
            });
        }
        let applied = self.index.change(None, &batch, None);
        self.drop_comparison();
        applied?;
        Ok(StepOutcome::Done(unread))
    }

    /// Reads a session, and returns the update that makes the index current for it; `None` if the session no longer
    /// exists.
    pub(super) fn read_session(&self, session: &SessionToRead) -> Result<Option<SessionUpdate>> {
        let header = &session.header;
        let (documents, is_complete) = match self.source.read(&header.id) {
            Ok(conversation) => documents::documents_of(header, &conversation),
            Err(ReadError::Gone) => return Ok(None),
            // Not even the record that identifies the session can be read.
            Err(ReadError::Skipped(_)) => (Vec::new(), false),
            Err(ReadError::Unavailable(why)) => {
                return Err(Failure::new(ErrorCode::StoreUnavailable, why));
            }
        };
        let entry = SessionEntry {
            key: header.id.clone(),
            stamp: session.stamp,
            updated: if is_complete {
                header.updated
            } else {
                INCOMPLETE
            },
            project: header.project_id.clone(),
        };
        Ok(Some(SessionUpdate {
            shard: Shard::default(),
            entry,
            coverage: Coverage::All,
            documents,
        }))
    }
}

/// The number of bytes of an update's folded texts.
pub(super) fn text_bytes(update: &SessionUpdate) -> usize {
    update.documents.iter().map(|one| one.folded.len()).sum()
}

/// Returns the updates that remove the sessions that no longer exist.
pub(super) fn removals(comparison: &Comparison) -> Vec<IndexUpdate> {
    let removed = comparison.removed.iter().cloned();
    let removals = removed.map(|key| IndexUpdate::Removed((Shard::default().realm, key)));
    removals.collect()
}

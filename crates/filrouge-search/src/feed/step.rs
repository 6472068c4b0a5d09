//! A small step of indexing: sessions are listed, their fingerprints compared, those that differ read, and their documents
//! updated.

use std::time::{Duration, Instant};

use filrouge_sources::ReadError;
use filrouge_store::text_index::{Coverage, IndexUpdate, SessionEntry, SessionUpdate};
use filrouge_types::{ErrorCode, Failure};

use super::compare::{Compared, NOT_WHOLE, Todo};
use super::source_index::SourceIndex;
use super::{documents, shard};

/// A step takes no further session after this time.
const STEP: Duration = Duration::from_millis(50);
/// Nor when it has so many bytes of text.
const STEP_BYTES: usize = 4 << 20;

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Some work was done; so many sessions are left.
    Done(usize),
    /// There was nothing to do.
    Idle,
    /// Another process feeds this index.
    Elsewhere,
}

impl SourceIndex {
    /// Indexes some of what has changed: a few sessions, or one large one. What the index cannot take is logged once and
    /// counted.
    ///
    /// # Errors
    /// Of the index, and of a source that cannot be listed or does not answer.
    pub fn step(&self, stopped: &dyn Fn() -> bool) -> Result<Step, Failure> {
        self.try_step(stopped).inspect_err(|why| self.note(why))
    }

    fn try_step(&self, stopped: &dyn Fn() -> bool) -> Result<Step, Failure> {
        let Some(_feeding) = self.feeding()? else {
            return Ok(Step::Elsewhere);
        };
        let compared = self.compared(&self.listed()?)?;
        let mut batch = gone(&compared);
        let began = Instant::now();
        let (mut bytes, mut taken) = (0, 0);
        for todo in &compared.todo {
            if stopped() || bytes >= STEP_BYTES || began.elapsed() >= STEP {
                break;
            }
            taken += 1;
            if let Some(update) = self.read(todo)? {
                bytes += text_bytes(&update);
                batch.push(IndexUpdate::Session(update));
            }
        }
        let left = compared.todo.len() - taken;
        if batch.is_empty() {
            return Ok(match left {
                0 => Step::Idle,
                left => Step::Done(left),
            });
        }
        let applied = self.index.change(None, &batch, None);
        self.changed();
        applied?;
        Ok(Step::Done(left))
    }

    /// Reads a session: what has to be done so that the index holds it as it is; `None` when it has gone.
    pub(super) fn read(&self, todo: &Todo) -> Result<Option<SessionUpdate>, Failure> {
        let header = &todo.header;
        let (documents, whole) = match self.source.read(&header.id) {
            Ok(conversation) => documents::of(header, &conversation),
            Err(ReadError::Gone) => return Ok(None),
            // Its own record cannot be used.
            Err(ReadError::Skipped(_)) => (Vec::new(), false),
            Err(ReadError::Unavailable(why)) => {
                return Err(Failure::new(ErrorCode::StoreUnavailable, why));
            }
        };
        let entry = SessionEntry {
            key: header.id.clone(),
            stamp: todo.stamp,
            updated: if whole { header.updated } else { NOT_WHOLE },
            project: header.project_id.clone(),
        };
        Ok(Some(SessionUpdate {
            shard: shard(),
            entry,
            coverage: Coverage::Whole,
            documents,
        }))
    }
}

/// The bytes of the texts that come.
pub(super) fn text_bytes(update: &SessionUpdate) -> usize {
    update.documents.iter().map(|one| one.folded.len()).sum()
}

/// The sessions that are no longer there.
pub(super) fn gone(compared: &Compared) -> Vec<IndexUpdate> {
    let gone = compared.gone.iter().cloned();
    gone.map(|key| IndexUpdate::Gone((shard().realm, key)))
        .collect()
}

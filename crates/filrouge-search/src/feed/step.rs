//! A small step of bringing sessions in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_sources::{Conversation, Header, ReadError, Stamp};
use filrouge_store::text_index::{
    Gone, IndexUpdate, IndexedSession, SessionEntry, SessionNo, SessionUpdate,
};
use filrouge_types::{ErrorCode, Failure};

use super::source_index::{SourceIndex, locked};
use super::validate::{Checked, NOT_WHOLE};
use super::{digest, documents, shard};

/// A step takes no further session after this time.
const STEP: Duration = Duration::from_millis(50);
/// Nor when it has so many bytes of text.
const STEP_BYTES: usize = 4 << 20;
/// A step goes by what was found out so lately.
const CHECKED: Duration = Duration::from_secs(1);

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

/// A session that was read.
pub(super) struct ReadSession {
    pub(super) header: Arc<Header>,
    pub(super) no: Option<SessionNo>,
    /// Asked for before it was read.
    pub(super) mark: Stamp,
    /// `None`: it cannot be read.
    pub(super) conversation: Option<Conversation>,
}

impl SourceIndex {
    /// Brings some of what has changed in: a few sessions, or one large one. What the index cannot take is told once and
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
        let checked = self.checked(CHECKED)?;
        let mut batch = beside(&checked);
        let began = Instant::now();
        let (mut bytes, mut taken) = (0, 0);
        for (header, no) in &checked.todo {
            if stopped() || bytes >= STEP_BYTES || began.elapsed() >= STEP {
                break;
            }
            taken += 1;
            if let Some(read) = self.read(header, *no)? {
                let update = self.update_of(&read)?;
                bytes += text_bytes(&update);
                batch.push(IndexUpdate::Session(update));
            }
        }
        let left = checked.todo.len() - taken;
        // Only when everything there is, is known, the mark of the whole stands for it.
        let whole = checked.whole.filter(|_| checked.todo.is_empty());
        if batch.is_empty() && whole.is_none() {
            if taken > 0 {
                self.changed();
            }
            return Ok(match left {
                0 => Step::Idle,
                left => Step::Done(left),
            });
        }
        let position = whole.map(digest::position);
        let applied = self.index.apply(&batch, position.as_ref().map(|p| &p[..]));
        self.changed();
        applied?;
        Ok(Step::Done(left))
    }

    /// Reads a session; `None` when it has gone, or has no mark that could be kept.
    pub(super) fn read(
        &self,
        header: &Arc<Header>,
        no: Option<SessionNo>,
    ) -> Result<Option<ReadSession>, Failure> {
        let unavailable = |why: String| Failure::new(ErrorCode::StoreUnavailable, why);
        let mark = match self.source.lasting(&header.id) {
            Ok(Some(mark)) => mark,
            Err(ReadError::Gone) => return Ok(None),
            Err(ReadError::Unavailable(why)) => return Err(unavailable(why)),
            Ok(None) | Err(ReadError::Skipped(_)) => {
                let id = header.id.clone();
                locked(&self.unmarked).insert(id, Instant::now());
                return Ok(None);
            }
        };
        let conversation = match self.source.conversation(&header.id) {
            Ok(conversation) => Some(conversation),
            Err(ReadError::Gone) => return Ok(None),
            Err(ReadError::Unavailable(why)) => return Err(unavailable(why)),
            Err(ReadError::Skipped(_)) => None,
        };
        let header = header.clone();
        Ok(Some(ReadSession {
            header,
            no,
            mark,
            conversation,
        }))
    }

    /// What has to be done so that the index holds a session as it was read.
    pub(super) fn update_of(&self, read: &ReadSession) -> Result<SessionUpdate, Failure> {
        let header = &read.header;
        let mut entry = SessionEntry {
            key: header.id.clone(),
            stamp: digest::seal(read.mark, header),
            updated: header.updated,
            project: header.project_id.clone(),
        };
        let (gone, documents) = match &read.conversation {
            None => {
                entry.updated = NOT_WHOLE;
                (Gone::All, Vec::new())
            }
            Some(conversation) => {
                let there = match read.no {
                    Some(no) => self.index.documents(no)?,
                    None => Vec::new(),
                };
                let difference = documents::difference(header, conversation, &there);
                if !difference.whole {
                    entry.updated = NOT_WHOLE;
                }
                (difference.gone, difference.documents)
            }
        };
        Ok(SessionUpdate {
            shard: shard(),
            entry,
            gone,
            documents,
        })
    }
}

/// The bytes of the texts that come.
pub(super) fn text_bytes(update: &SessionUpdate) -> usize {
    update.documents.iter().map(|one| one.folded.len()).sum()
}

/// What is to be done beside reading sessions.
pub(super) fn beside(checked: &Checked) -> Vec<IndexUpdate> {
    let gone = checked.gone.iter().cloned();
    let gone = gone.map(|key| IndexUpdate::Gone(shard().realm, key));
    let renewed = |(session, stamp): &(IndexedSession, [u64; 2])| {
        IndexUpdate::Session(SessionUpdate {
            shard: session.shard.clone(),
            entry: SessionEntry {
                stamp: *stamp,
                ..session.entry.clone()
            },
            gone: Gone::Keys(Vec::new()),
            documents: Vec::new(),
        })
    };
    gone.chain(checked.renewed.iter().map(renewed)).collect()
}

//! A small step of bringing sessions in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filrouge_sources::{Header, ReadError, ReadMessages, Stamp};
use filrouge_store::text_index::{
    Gone, IndexUpdate, IndexedSession, KnownDocument, SessionEntry, SessionUpdate,
};
use filrouge_types::{ErrorCode, Failure};

use super::look::Due;
use super::source_index::{SourceIndex, locked};
use super::validate::{Checked, NOT_WHOLE, Todo};
use super::{digest, documents, shard};

/// A step takes no further session after this time.
pub(super) const STEP: Duration = Duration::from_millis(50);
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
    /// What the index has of it.
    pub(super) there: Vec<KnownDocument>,
    /// Of before it was read.
    pub(super) mark: Stamp,
    pub(super) read: ReadMessages,
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

    pub(super) fn try_step(&self, stopped: &dyn Fn() -> bool) -> Result<Step, Failure> {
        let Some(_feeding) = self.feeding()? else {
            return Ok(Step::Elsewhere);
        };
        let is_enough = |checked: &Checked| {
            checked.is_now || (checked.gone.is_empty() && checked.whole.is_none())
        };
        let mut checked = match self.last_within(CHECKED).filter(|last| is_enough(last)) {
            Some(checked) => checked,
            None => self.look_again(Due::Answer)?,
        };
        if checked.is_whole_to_note() && !checked.is_all_known() {
            checked = self.look_again(Due::All)?;
        }
        let mut batch = beside(&checked);
        let began = Instant::now();
        let (mut bytes, mut taken) = (0, 0);
        for todo in &checked.todo {
            if stopped() || bytes >= STEP_BYTES || began.elapsed() >= STEP {
                break;
            }
            taken += 1;
            if let Some(read) = self.read(todo)? {
                let update = update_of(&read);
                bytes += text_bytes(&update);
                batch.push(IndexUpdate::Session(update));
            }
        }
        let left = checked.todo.len() - taken;
        let position = self.position(&checked);
        if batch.is_empty() && position.is_none() {
            if taken > 0 {
                self.brought_in(&checked, taken);
                self.changed();
            }
            return Ok(match left {
                0 => Step::Idle,
                left => Step::Done(left),
            });
        }
        let applied = self.index.apply(&batch, position.as_deref());
        self.changed();
        applied?;
        self.write_notes(self.source.notes());
        self.brought_in(&checked, taken);
        Ok(Step::Done(left))
    }

    /// Reads of a session what the index does not have; `None` when it has gone, or has no mark that could be kept.
    pub(super) fn read(&self, todo: &Todo) -> Result<Option<ReadSession>, Failure> {
        let there = match todo.no {
            Some(no) => self.index.documents(no)?,
            None => Vec::new(),
        };
        let states = there.iter().filter(|one| one.unit != 0);
        let known: HashMap<&str, u64> = match todo.is_whole {
            true => states
                .map(|one| (&*one.key, digest::unit(one.unit)))
                .collect(),
            false => HashMap::new(),
        };
        let id = &todo.header.id;
        let read = match self.source.read_since(id, &known) {
            Ok(read) => read,
            Err(ReadError::Gone) => return Ok(None),
            Err(ReadError::Unavailable(why)) => {
                return Err(Failure::new(ErrorCode::StoreUnavailable, why));
            }
            Err(ReadError::Skipped(_)) => ReadMessages::default(),
        };
        let Some(mark) = read.mark else {
            locked(&self.unmarked).insert(id.clone(), Instant::now());
            return Ok(None);
        };
        let header = todo.header.clone();
        Ok(Some(ReadSession {
            header,
            there,
            mark,
            read,
        }))
    }
}

/// What has to be done so that the index holds a session as it was read.
pub(super) fn update_of(session: &ReadSession) -> SessionUpdate {
    let header = &session.header;
    let mut entry = SessionEntry {
        key: header.id.clone(),
        stamp: digest::seal(session.mark, header),
        updated: header.updated,
        project: header.project_id.clone(),
    };
    let (gone, documents) = match documents::difference(header, &session.read, &session.there) {
        Some(difference) => {
            if !difference.whole {
                entry.updated = NOT_WHOLE;
            }
            (difference.gone, difference.documents)
        }
        None => {
            entry.updated = NOT_WHOLE;
            (Gone::All, Vec::new())
        }
    };
    SessionUpdate {
        shard: shard(),
        entry,
        gone,
        documents,
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

//! The state of an index: one document, which is only replaced by a writer that has read its newest version.

use std::sync::atomic::Ordering;

use filrouge_store::text_index::{DocumentNo, IndexVersion, SessionNo};
use filrouge_types::{Clock, Failure, SystemClock};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OpenSearchIndex;
use super::requests::{busy, malformed, unavailable};
use super::write::{Patience, Step};
use super::{mapping, rows};
use crate::client::Body;

/// The version of the format of the rows and of the state. An index of another one is emptied.
pub(super) const FORMAT: u32 = 1;

/// The state of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u32,
    /// The number of the index that has the rows.
    pub(super) generation: u64,
    /// As in [`IndexVersion`]; hexadecimal.
    pub(super) position: Option<String>,
    /// As in [`IndexVersion`].
    pub(super) forgotten: u64,
    /// The number of changes that were begun. It is the external version of the rows that a change writes, so that
    /// OpenSearch refuses rows of a change whose lock was taken over.
    pub(super) changes: u64,
    pub(super) last_session: SessionNo,
    pub(super) last_document: DocumentNo,
    /// Whether rows were deleted for good that a merge has to leave out of the files.
    pub(super) needs_merge: bool,
    pub(super) lock: Option<Lock>,
}

/// Who changes the index, and what of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lock {
    pub(super) holder: String,
    /// Makes each renewal another state.
    pub(super) renewals: u64,
    pub(super) work: Work,
}

/// What the holder of the lock does. If it does not finish, this is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Work {
    /// It creates the generation of the state.
    Create,
    /// It writes rows.
    Rows {
        /// The sessions whose rows it writes or deletes.
        sessions: Vec<SessionNo>,
        /// The numbers of new documents: after the first number, up to the second one.
        documents: (DocumentNo, DocumentNo),
        /// The ids of rows of vectors.
        vectors: Vec<String>,
    },
}

/// Identifies a version of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    seq_no: u64,
    term: u64,
}

/// The state as stored.
#[derive(Debug, Clone)]
pub(super) struct StoredMeta {
    pub(super) meta: Meta,
    pub(super) place: Place,
}

impl Meta {
    /// The state of an index that is not created yet. All numbers begin with one that depends on the time: if somebody
    /// deletes the state, no number is used again.
    fn new(format: u32) -> Self {
        let millis = u64::try_from(SystemClock.now().as_micros() / 1000).unwrap_or(1);
        // Less than 2^53 for a long time, so that OpenSearch computes with it exactly.
        let number = millis << 10;
        Self {
            format,
            generation: millis,
            position: None,
            forgotten: millis,
            changes: number,
            last_session: number,
            last_document: number,
            needs_merge: false,
            lock: None,
        }
    }

    pub(super) fn version(&self) -> IndexVersion {
        let position = self.position.as_ref().and_then(|hex| hex::decode(hex).ok());
        IndexVersion {
            position: position.map(Into::into),
            forgotten: self.forgotten,
        }
    }

    pub(super) fn set_position(&mut self, position: Option<&[u8]>) {
        self.position = position.map(hex::encode);
    }
}

impl OpenSearchIndex {
    /// Creates what is missing, and empties an index of another format, unless this was done before.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        if self.is_ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        let stored = self.find_meta()?;
        let lock = stored.as_ref().and_then(|s| s.meta.lock.as_ref());
        let is_being_created = lock.is_some_and(|lock| lock.work == Work::Create);
        match &stored {
            None => self.create_meta()?,
            Some(_) if is_being_created => self.wait_until_created()?,
            Some(stored) if stored.meta.format == FORMAT && self.has_alias(&stored.meta)? => {}
            Some(_) => {
                tracing::warn!("the search index is missing or has another format: it is rebuilt");
                self.empty()?;
            }
        }
        self.is_ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn meta_index(&self) -> String {
        format!("{}-meta", self.prefix)
    }

    /// Whether queries read the generation of the state.
    pub(super) fn has_alias(&self, meta: &Meta) -> Result<bool, Failure> {
        let path = format!("_alias/{}", self.alias());
        let answer = self.send(Method::GET, &path, Body::None)?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        if !answer.status.is_success() {
            return Err(self.unexpected(&answer));
        }
        let named = answer.body.as_object().map(|named| named.keys());
        Ok(named.is_some_and(|named| named.eq([&self.index(meta.generation)])))
    }

    /// Reads the state.
    pub(super) fn read_meta(&self) -> Result<StoredMeta, Failure> {
        let stored = self.find_meta()?;
        stored.ok_or_else(|| self.lost("index_not_found_exception"))
    }

    fn find_meta(&self) -> Result<Option<StoredMeta>, Failure> {
        let path = format!("{}/_doc/state", self.meta_index());
        let answer = self.send(Method::GET, &path, Body::None)?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(self.unexpected(&answer));
        }
        // A state in a form that this version cannot read counts as another format.
        let meta = serde_json::from_value(answer.body["_source"].clone());
        Ok(Some(StoredMeta {
            meta: meta.unwrap_or_else(|_| Meta::new(0)),
            place: read_place(&answer.body)?,
        }))
    }

    /// Replaces the version `place` of the state; `None` if there is another version.
    pub(super) fn replace_meta(&self, place: Place, meta: &Meta) -> Result<Option<Place>, Failure> {
        let (seq_no, term) = (place.seq_no, place.term);
        let condition = format!("if_seq_no={seq_no}&if_primary_term={term}");
        let path = format!("{}/_doc/state?{condition}", self.meta_index());
        self.put_meta(&path, meta)
    }

    fn put_meta(&self, path: &str, meta: &Meta) -> Result<Option<Place>, Failure> {
        let body = serde_json::to_value(meta).map_err(|error| unavailable(&error.to_string()))?;
        let answer = self.send(Method::PUT, path, Body::Json(body))?;
        match answer.status {
            StatusCode::CONFLICT => Ok(None),
            status if status.is_success() => read_place(&answer.body).map(Some),
            _ => Err(self.unexpected(&answer)),
        }
    }

    /// Creates the state with a lock of this value, and thereby, or by taking over that lock, the index. Another process
    /// may do the same at the same time; it then waits.
    fn create_meta(&self) -> Result<(), Failure> {
        let body = Body::Json(mapping::meta());
        let created = self.send(Method::PUT, &self.meta_index(), body)?;
        let exists = created.body["error"]["type"] == "resource_already_exists_exception";
        if !created.status.is_success() && !exists {
            return Err(self.unexpected(&created));
        }
        let meta = Meta {
            lock: Some(self.new_lock(Work::Create)),
            ..Meta::new(FORMAT)
        };
        let changing = filrouge_types::lock(&self.changing);
        let path = format!("{}/_create/state", self.meta_index());
        match self.put_meta(&path, &meta)? {
            Some(place) => self.recover(StoredMeta { meta, place }),
            None => {
                drop(changing);
                self.wait_until_created()
            }
        }
    }

    /// Waits until another process has created the index, or takes over from it.
    fn wait_until_created(&self) -> Result<(), Failure> {
        let created = self.locked(Patience::Short, &mut |_| Ok(Step::Nothing(())))?;
        created.ok_or_else(busy)
    }

    pub(super) fn new_lock(&self, work: Work) -> Lock {
        Lock {
            holder: self.holder.clone(),
            renewals: 0,
            work,
        }
    }
}

fn read_place(answer: &Value) -> Result<Place, Failure> {
    let number = |name: &str| answer[name].as_u64().ok_or_else(malformed);
    Ok(Place {
        seq_no: number("_seq_no")?,
        term: number("_primary_term")?,
    })
}

/// The ids of the rows with these numbers of new documents.
pub(super) fn document_ids(
    (after, last): (DocumentNo, DocumentNo),
) -> impl Iterator<Item = String> {
    (after..last).map(|no| rows::document_id(no + 1))
}

//! Creates, reads and replaces the state of an index.

use std::sync::atomic::Ordering;

use filrouge_types::Failure;
use reqwest::{Method, StatusCode};

use super::OpenSearchIndex;
use super::errors::{busy, unavailable};
use super::mapping;
use super::meta::{FORMAT, Lock, Meta, Place, StoredMeta, Work, read_place};
use super::write::{Patience, Step};
use crate::client::Body;

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
            Some(stored) if !self.is_unusable(&stored.meta)? => {}
            Some(_) => {
                tracing::warn!("the search index is missing or has another format: it is rebuilt");
                self.empty(|meta| self.is_unusable(meta))?;
            }
        }
        self.is_ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the index is missing or has another format.
    fn is_unusable(&self, meta: &Meta) -> Result<bool, Failure> {
        Ok(meta.format != FORMAT || !self.has_alias(meta)?)
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
        let created = self.locked(Patience::Creation, &mut |_| Ok(Step::Nothing(())))?;
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

//! Detects items that were copied into a session from another one.
//!
//! Some programs whose history is imported copy the messages of a session when it is forked:
//!
//! - Some keep the messages' ids, so that items of one source have the same id in two sessions.
//! - Others assign new ids and keep the times, as OpenCode 1.x does, so that the copied messages are older than the
//!   session that contains them.
//!
//! Items that were recorded here have ids that are unique only in their session, so equal ids do not show a copy,
//! unless the writer names an `origin` in the items' metadata.

use std::collections::HashMap;

use filrouge_store::chain::fingerprint;
use filrouge_store::rows::SessionPk;
use filrouge_types::{Item, RawJson, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// Where an imported session came from: the member `origin` of its metadata, which `filrouge import` writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Origin {
    source: Option<Box<str>>,
    /// The version of the program that recorded the session.
    pub version: Option<Box<str>>,
    /// When the session was created in its source.
    pub created: Option<Timestamp>,
    /// When the session last changed in its source.
    pub updated: Option<Timestamp>,
    /// When the session was archived in its source.
    pub archived: Option<Timestamp>,
    /// The folder in which the session ran.
    pub directory: Option<Box<str>>,
    /// The name of the session's project.
    pub project_name: Option<Box<str>>,
    /// The main folder of the session's project.
    pub worktree: Option<Box<str>>,
    /// The agent of the session's first message.
    pub agent: Option<Box<str>>,
}

impl Origin {
    /// Reads the origin from a session's metadata. All fields are `None` for a session that began in the ledger, or if
    /// the member `origin` has another form.
    pub fn of(metadata: &RawJson) -> Self {
        let origin = member(metadata.as_str(), "origin");
        let origin = origin.and_then(|origin| serde_json::from_value(origin).ok());
        origin.unwrap_or_default()
    }

    /// A key that an item shares with its copies in other sessions; `None` if copies of it cannot be recognized by a
    /// key.
    fn key(&self, item: &Item) -> Option<[u8; 16]> {
        let id = item.body.item_id.as_ref().map_or("", |id| id.as_str());
        let item_origin = item
            .body
            .metadata
            .as_ref()
            .and_then(|m| member(m.as_str(), "origin"));
        if let Some(origin) = item_origin {
            let origin = origin.to_string();
            return Some(fingerprint(&[
                b"item origin",
                origin.as_bytes(),
                id.as_bytes(),
            ]));
        }
        let source = self.source.as_ref().filter(|_| !id.is_empty())?;
        // If a message changed after its import, its new version was imported under the same id with a suffix after
        // `~`.
        let id = id.rsplit_once('~').map_or(id, |(id, _)| id);
        Some(fingerprint(&[
            b"item of a source",
            source.as_bytes(),
            id.as_bytes(),
        ]))
    }
}

/// The member `name` of a JSON object. The object is parsed only if the name occurs in its text.
fn member(object: &str, name: &str) -> Option<Value> {
    memchr::memmem::find(object.as_bytes(), name.as_bytes())?;
    let object: Value = serde_json::from_str(object).ok()?;
    object.get(name).cloned()
}

/// The items that were counted so far in a session and its descendants: for each key, the session in which it was
/// counted first. `None` if there is only one session, which has no copies.
pub(super) struct CountedItems(Option<HashMap<[u8; 16], SessionPk>>);

impl CountedItems {
    /// Starts with no items. Without descendants, no copies are searched for.
    pub(super) fn new(has_descendants: bool) -> Self {
        Self(has_descendants.then(HashMap::new))
    }

    /// Whether an item is a copy, because it is older than its session or was counted in another session before.
    /// Remembers the item.
    pub(super) fn is_copy(&mut self, session: SessionPk, item: &Item, origin: &Origin) -> bool {
        let times = origin.created.zip(item.body.occurred_at);
        if times.is_some_and(|(created, occurred)| occurred < created) {
            return true;
        }
        let Some(by_key) = &mut self.0 else {
            return false;
        };
        let Some(key) = origin.key(item) else {
            return false;
        };
        *by_key.entry(key).or_insert(session) != session
    }
}

//! Detects items that were copied into a session from another one.
//!
//! Programs whose history is imported fork a session by copying messages. Where they keep the ids, two sessions hold items of one
//! source under one key. Where they assign new ids and keep the times, as OpenCode 1.x does, the copied messages are older than
//! the session that holds them. Ids of items that were recorded here are unique only in their session, so they identify no copy,
//! unless the writer names an `origin` in the item's metadata.

use std::collections::HashMap;

use filrouge_store::chain::fingerprint;
use filrouge_store::rows::SessionPk;
use filrouge_types::{Item, RawJson, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// The origin of an imported session, which `filrouge import` stores in its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Origin {
    source: Option<Box<str>>,
    /// The version of the program that recorded it.
    pub version: Option<Box<str>>,
    /// When it was created in its source.
    pub created: Option<Timestamp>,
    /// When it last changed in its source.
    pub updated: Option<Timestamp>,
    /// When it was archived in its source.
    pub archived: Option<Timestamp>,
    /// The folder it ran in.
    pub directory: Option<Box<str>>,
    /// Its project's name.
    pub project_name: Option<Box<str>>,
    /// Its project's main folder.
    pub worktree: Option<Box<str>>,
    /// The agent of its first message.
    pub agent: Option<Box<str>>,
}

impl Origin {
    /// Reads the origin from a session's metadata; empty for a session that began in the ledger, or when the member has another
    /// form.
    #[must_use]
    pub fn of(metadata: &RawJson) -> Self {
        let origin = member(metadata.as_str(), "origin");
        let origin = origin.and_then(|origin| serde_json::from_value(origin).ok());
        origin.unwrap_or_default()
    }

    /// A key that an item shares with its copies.
    fn key(&self, item: &Item) -> Option<[u8; 16]> {
        let id = item.body.item_id.as_ref().map_or("", |id| id.as_str());
        let own = item
            .body
            .metadata
            .as_ref()
            .and_then(|m| member(m.as_str(), "origin"));
        if let Some(origin) = own {
            let origin = origin.to_string();
            return Some(fingerprint(&[
                b"item origin",
                origin.as_bytes(),
                id.as_bytes(),
            ]));
        }
        let source = self.source.as_ref().filter(|_| !id.is_empty())?;
        // A version imported later has the same id with a suffix.
        let id = id.rsplit_once('~').map_or(id, |(id, _)| id);
        Some(fingerprint(&[
            b"item of a source",
            source.as_bytes(),
            id.as_bytes(),
        ]))
    }
}

/// A member of an object; skips parsing when the name does not occur.
fn member(object: &str, name: &str) -> Option<Value> {
    memchr::memmem::find(object.as_bytes(), name.as_bytes())?;
    let object: Value = serde_json::from_str(object).ok()?;
    object.get(name).cloned()
}

/// The items seen in the sessions of one family.
pub(super) struct Seen {
    /// The session in which a key was first seen; `None` when there is only one session.
    by_key: Option<HashMap<[u8; 16], SessionPk>>,
}

impl Seen {
    /// The state before the first item of a family of one session, or of several.
    pub(super) fn new(several: bool) -> Self {
        Self {
            by_key: several.then(HashMap::new),
        }
    }

    /// Whether an item is a copy: older than its session, or seen in another session before.
    pub(super) fn is_copy(&mut self, session: SessionPk, item: &Item, origin: &Origin) -> bool {
        let older = origin.created.zip(item.body.occurred_at);
        if older.is_some_and(|(created, occurred)| occurred < created) {
            return true;
        }
        let Some(by_key) = &mut self.by_key else {
            return false;
        };
        let Some(key) = origin.key(item) else {
            return false;
        };
        *by_key.entry(key).or_insert(session) != session
    }
}

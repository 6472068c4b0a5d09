//! Finds and deletes documents that are obsolete.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::{Value, json};

use super::OpenSearch;
use super::bulk::{self, Action};
use crate::content::session_digest;
use crate::http::Body;
use crate::{SessionKey, TargetError, Update};

/// The maximum number of sessions of a query: OpenSearch accepts 1,024 alternatives.
const SESSIONS: usize = 500;
/// The maximum number of documents that a query returns.
const PAGE: usize = 5_000;

/// The documents of a session that are obsolete: those with versions up to a limit.
pub(super) struct Obsolete<'a> {
    key: &'a SessionKey,
    up_to: u64,
    /// The version of their deletion.
    version: u64,
}

impl<'a> Obsolete<'a> {
    /// What an update makes obsolete.
    pub(super) fn of(update: &'a Update) -> Option<Self> {
        match update {
            Update::Removed { key, version } => Some(Self::up_to(key, *version)),
            Update::Rows {
                key,
                version,
                is_entire: true,
                ..
            } => Some(Self {
                key,
                up_to: version.checked_sub(1)?,
                version: *version,
            }),
            Update::Rows { .. } => None,
        }
    }

    /// All documents with versions up to `version`.
    pub(super) const fn up_to(key: &'a SessionKey, version: u64) -> Self {
        Self {
            key,
            up_to: version,
            version,
        }
    }
}

impl OpenSearch {
    /// Deletes the documents, each with the version of its deletion, so that an older write does not bring it back.
    pub(super) async fn delete_obsolete(
        &self,
        index: &str,
        write_alias: &str,
        obsolete: &[Obsolete<'_>],
    ) -> Result<(), TargetError> {
        for sessions in obsolete.chunks(SESSIONS) {
            self.delete_chunk(index, write_alias, sessions).await?;
        }
        Ok(())
    }

    async fn delete_chunk(
        &self,
        index: &str,
        write_alias: &str,
        obsolete: &[Obsolete<'_>],
    ) -> Result<(), TargetError> {
        let mut by_digest: HashMap<String, &Obsolete<'_>> = HashMap::new();
        for obsolete in obsolete {
            let widest = by_digest
                .entry(session_digest(obsolete.key))
                .or_insert(obsolete);
            if widest.up_to < obsolete.up_to {
                *widest = obsolete;
            }
        }
        let alternatives = by_digest.iter().map(|(digest, obsolete)| {
            json!({ "bool": { "filter": [
                { "term": { "session_digest": digest } },
                { "range": { "version": { "lte": obsolete.up_to } } },
            ] } })
        });
        let alternatives: Vec<Value> = alternatives.collect();
        loop {
            // A document is found only after a refresh, and a deleted one is found until the next refresh.
            self.refresh(index).await?;
            let body = Body::Json(json!({
                "size": PAGE,
                "_source": false,
                "docvalue_fields": ["session_digest"],
                "query": { "bool": { "filter": { "bool": { "should": &alternatives } } } },
            }));
            let path = format!("{index}/_search");
            let found = self.request(Method::POST, &path, body).await?;
            let hits = found["hits"]["hits"].as_array();
            let actions: Vec<Action<'_>> = hits
                .into_iter()
                .flatten()
                .filter_map(|hit| {
                    let digest = hit["fields"]["session_digest"][0].as_str()?;
                    let obsolete = by_digest.get(digest)?;
                    let (key, id) = (obsolete.key, hit["_id"].as_str()?);
                    Some(Action::delete(key, digest, obsolete.version, id))
                })
                .collect();
            let outcome = bulk::run(&self.client, write_alias, &actions).await?;
            // A document to which somebody else gave a greater external version would be found forever.
            if outcome.changed == 0 {
                return Ok(());
            }
        }
    }
}

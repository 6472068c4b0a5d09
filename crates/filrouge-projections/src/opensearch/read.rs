//! Reads an index back.

use reqwest::Method;
use serde_json::{Value, json};

use super::{OpenSearch, rows, unexpected};
use crate::content::session_digest;
use crate::http::{Body, ClientError, MAX_RESPONSE_BYTES};
use crate::{Row, SessionKey, TargetError};

/// The maximum number of sessions of a response.
const MAX_SESSIONS: usize = 5_000;
/// The maximum number of documents of a response.
const PAGE: usize = 100;
/// The maximum number of bytes of a response with several documents. One document may have more.
const PAGE_BYTES: usize = 16 << 20;

impl OpenSearch {
    /// The sessions of which an index has documents, in the order of their keys.
    pub(super) async fn read_sessions(
        &self,
        index: &str,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        self.refresh(index).await?;
        let mut keys = json!({
            "size": limit.clamp(1, MAX_SESSIONS),
            "sources": [
                { "tenant": { "terms": { "field": "tenant_id" } } },
                { "session": { "terms": { "field": "session_id" } } },
            ],
        });
        if let Some(after) = after {
            keys["after"] = json!({ "tenant": after.tenant, "session": after.session });
        }
        let body = Body::Json(json!({
            "size": 0,
            "track_total_hits": false,
            "aggs": { "keys": { "composite": keys } },
        }));
        let path = format!("{index}/_search");
        let found = self.request(Method::POST, &path, body).await?;
        let buckets = found["aggregations"]["keys"]["buckets"].as_array();
        let key = |bucket: &Value| {
            Some(SessionKey {
                tenant: bucket["key"]["tenant"].as_str()?.parse().ok()?,
                session: bucket["key"]["session"].as_str()?.parse().ok()?,
            })
        };
        let keys = buckets.into_iter().flatten().filter_map(key);
        Ok(keys.take(limit).collect())
    }

    /// The documents of a session, items in the order of their ranks.
    pub(super) async fn read_rows(
        &self,
        index: &str,
        key: &SessionKey,
    ) -> Result<Vec<Row>, TargetError> {
        self.refresh(index).await?;
        let digest = session_digest(key);
        let path = format!("{index}/_search?routing={digest}");
        let (mut stored, mut size) = (Vec::new(), PAGE);
        let mut after = Value::Null;
        loop {
            let mut query = json!({
                "size": size,
                "track_total_hits": false,
                "query": { "bool": { "filter": { "term": { "session_digest": digest } } } },
                // Several turns may have the same rank: those of a history without items.
                "sort": ["doc_type", "rank", "exchange_id"],
            });
            if !after.is_null() {
                query["search_after"] = after.clone();
            }
            let max_bytes = match size {
                1 => MAX_RESPONSE_BYTES,
                _ => PAGE_BYTES,
            };
            let (body, client) = (Body::Json(query), &self.client);
            let answer = client.send_within(Method::POST, &path, body, max_bytes);
            let answer = match answer.await {
                Err(ClientError::TooLarge(_)) if size > 1 => {
                    size /= 2;
                    continue;
                }
                answer => answer?,
            };
            if !answer.status.is_success() {
                return Err(unexpected(&answer));
            }
            let hits = answer.body["hits"]["hits"].as_array();
            let Some(hits) = hits.filter(|hits| !hits.is_empty()) else {
                return Ok(stored);
            };
            stored.extend(hits.iter().filter_map(row));
            after = hits.last().map_or(Value::Null, |hit| hit["sort"].clone());
        }
    }
}

/// The row of a document, without the members that a write adds.
fn row(hit: &Value) -> Option<Row> {
    let mut content = hit["_source"].as_object()?.clone();
    let table = content.remove("doc_type")?;
    let tables = [rows::SESSION, rows::TURN, rows::ITEM];
    let table = tables.into_iter().find(|name| table == **name)?;
    for name in ["session_digest", "version", "vector"] {
        content.remove(name);
    }
    let id = hit["_id"]
        .as_str()?
        .strip_prefix(table)?
        .strip_prefix('-')?;
    let id = id.to_owned();
    Some(Row { table, id, content })
}

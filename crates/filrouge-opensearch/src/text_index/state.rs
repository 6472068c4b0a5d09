//! Reads sessions and the size of the index.

use filrouge_store::text_index::{IndexStatus, IndexedSession, SessionSelection};
use filrouge_types::Failure;
use reqwest::Method;
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::errors::malformed;
use super::meta::FORMAT;
use super::rows::{self, DOCUMENT, SESSION};
use crate::client::Body;

/// The number of sessions that a query returns at once.
const SESSIONS_PER_PAGE: usize = 5_000;
/// The number of names or numbers of a query.
const NAMES_PER_QUERY: usize = 10_000;
/// The maximum number of embedders that the status counts.
const EMBEDDERS: usize = 100;

impl OpenSearchIndex {
    pub(super) fn read_sessions(
        &self,
        selection: SessionSelection<'_>,
    ) -> Result<Vec<IndexedSession>, Failure> {
        match selection {
            SessionSelection::Within(scope) => self.sessions_where(rows::within(scope)),
            SessionSelection::Numbers(scope, numbers) => {
                let numbers = valid_numbers(numbers);
                let chunks = numbers.chunks(NAMES_PER_QUERY).map(|numbers| {
                    let named = json!({ "terms": { "no": numbers } });
                    json!({ "bool": { "filter": [rows::within(scope), named] } })
                });
                self.sessions_where_any(chunks)
            }
            SessionSelection::Named(keys) => {
                let name = |(realm, key): &(Box<[u8]>, Box<str>)| rows::session_word(realm, key);
                let names: Vec<String> = keys.iter().map(name).collect();
                let chunks = names.chunks(NAMES_PER_QUERY);
                self.sessions_where_any(chunks.map(|names| json!({ "terms": { "name": names } })))
            }
            SessionSelection::Unread(limit) => {
                let stamps =
                    json!([{ "term": { "stamp_0": "0" } }, { "term": { "stamp_1": "0" } }]);
                self.some_sessions_where(json!({ "bool": { "filter": stamps } }), limit)
            }
            SessionSelection::Stamped(second) => {
                self.sessions_where(json!({ "term": { "stamp_1": second.to_string() } }))
            }
        }
    }

    fn sessions_where_any(
        &self,
        conditions: impl Iterator<Item = Value>,
    ) -> Result<Vec<IndexedSession>, Failure> {
        let mut sessions = Vec::new();
        for condition in conditions {
            sessions.extend(self.sessions_where(condition)?);
        }
        Ok(sessions)
    }

    /// The sessions that meet a condition, ordered by number.
    pub(super) fn sessions_where(&self, condition: Value) -> Result<Vec<IndexedSession>, Failure> {
        self.some_sessions_where(condition, usize::MAX)
    }

    fn some_sessions_where(
        &self,
        condition: Value,
        limit: usize,
    ) -> Result<Vec<IndexedSession>, Failure> {
        let search = json!({
            "query": { "bool": { "filter": [{ "term": { "row": SESSION } }, condition] } },
            "sort": [{ "no": "asc" }],
        });
        let mut sessions = Vec::new();
        self.hits(search, (SESSIONS_PER_PAGE, limit), &mut |hit| {
            sessions.push(rows::read_session(hit)?);
            Ok(())
        })?;
        Ok(sessions)
    }

    pub(super) fn read_status(&self) -> Result<IndexStatus, Failure> {
        let by_embedder =
            json!({ "field": "embedder", "size": EMBEDDERS, "order": { "_key": "asc" } });
        let found = self.search(&json!({
            "size": 0,
            "aggs": {
                "rows": { "terms": { "field": "row" } },
                "bytes": { "sum": { "field": "bytes" } },
                "embedders": { "terms": by_embedder },
            },
        }))?;
        let counted = &found["aggregations"];
        let path = format!(
            "{}/_stats/store?filter_path=_all.primaries.store.size_in_bytes",
            self.alias()
        );
        let stored = self.request(Method::GET, &path, Body::None)?;
        let rows = read_buckets(&counted["rows"])?;
        let count = |name: &str| {
            let row = rows.iter().find(|(row, _)| **row == *name);
            row.map_or(0, |(_, count)| *count)
        };
        Ok(IndexStatus {
            format: FORMAT,
            sessions: count(SESSION),
            documents: count(DOCUMENT),
            // A sum is a number with a fraction.
            text_bytes: counted["bytes"]["value"].as_f64().ok_or_else(malformed)? as u64,
            bytes: rows::number(&stored["_all"]["primaries"]["store"]["size_in_bytes"])?,
            pending: 0,
            vectors: read_buckets(&counted["embedders"])?,
        })
    }
}

/// The numbers that a row can have: those of the port have one more bit than those of OpenSearch.
pub(super) fn valid_numbers(numbers: &[u64]) -> Vec<u64> {
    let is_valid = |no: &u64| i64::try_from(*no).is_ok();
    numbers.iter().copied().filter(is_valid).collect()
}

fn read_buckets(counted: &Value) -> Result<Vec<(Box<str>, u64)>, Failure> {
    let buckets = counted["buckets"].as_array().ok_or_else(malformed)?;
    let read = buckets.iter().map(|bucket| {
        let name = bucket["key"].as_str().ok_or_else(malformed)?;
        Ok((name.into(), rows::number(&bucket["doc_count"])?))
    });
    read.collect()
}

//! Requests to OpenSearch.

use std::sync::atomic::Ordering;

use filrouge_types::Failure;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::errors::{malformed, missing, unavailable};
use crate::client::{Answer, Body};

/// The members of a response to a query that are sent.
const SHOWN: &str = "error.type,hits.total.value,hits.hits._id,hits.hits.sort,hits.hits.fields,hits.hits._source,hits.hits.matched_queries,aggregations";
/// The time for which OpenSearch keeps a state of the index for the next page.
const KEEP_STATE: &str = "1m";

impl OpenSearchIndex {
    /// The alias that queries use.
    pub(super) fn alias(&self) -> String {
        format!("{}-documents", self.prefix)
    }

    /// The index of a generation.
    pub(super) fn index(&self, generation: u64) -> String {
        format!("{}{generation}", self.index_prefix())
    }

    /// The beginning of the names of the generations' indices.
    pub(super) fn index_prefix(&self) -> String {
        format!("{}-", self.alias())
    }

    /// The alias for writes to a generation. Writes require an alias, because OpenSearch would create a missing index.
    pub(super) fn write_alias(&self, generation: u64) -> String {
        format!("{}-write", self.index(generation))
    }

    /// Sends a request that may fail.
    pub(super) fn send(&self, method: Method, path: &str, body: Body) -> Result<Answer, Failure> {
        let answer = self.handle.block_on(self.client.send(method, path, body));
        answer.map_err(|error| unavailable(&error.to_string()))
    }

    /// Sends a request that should succeed.
    pub(super) fn request(&self, method: Method, path: &str, body: Body) -> Result<Value, Failure> {
        let answer = self.send(method, path, body)?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(self.unexpected(&answer)),
        }
    }

    /// The failure for a response. Its text names the kind of error and quotes nothing, because errors repeat what was
    /// sent.
    pub(super) fn unexpected(&self, answer: &Answer) -> Failure {
        let kind = answer.body["error"]["type"].as_str();
        let kind = kind.unwrap_or("unknown error");
        if answer.status == StatusCode::NOT_FOUND {
            return self.lost(kind);
        }
        unavailable(&format!("status {}: {kind}", answer.status.as_u16()))
    }

    /// The failure for an error that OpenSearch names `kind`. If an index is missing, the next call creates it.
    pub(super) fn lost(&self, kind: &str) -> Failure {
        if kind == "index_not_found_exception" {
            self.is_ready.store(false, Ordering::Relaxed);
            return missing();
        }
        unavailable(kind)
    }

    /// Makes all writes so far visible to queries, at one moment.
    pub(super) fn refresh(&self) -> Result<(), Failure> {
        let path = format!("{}/_refresh", self.alias());
        let answer = self.request(Method::POST, &path, Body::None)?;
        match answer["_shards"]["failed"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(unavailable("a copy of the search index did not answer")),
        }
    }

    /// Runs a query. Without the answer of every shard it fails.
    pub(super) fn search(&self, body: &Value) -> Result<Value, Failure> {
        self.search_at(&format!("{}/_search", self.alias()), body)
    }

    fn search_at(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let path = format!("{path}?allow_partial_search_results=false&filter_path={SHOWN}");
        self.request(Method::POST, &path, Body::Json(body.clone()))
    }

    /// Calls `visit` with the first hits of a query, in its order, which must be total: at most `limit`, read in pages
    /// of at most `page`. All of them belong to one state of the index.
    pub(super) fn hits(
        &self,
        mut search: Value,
        (page, limit): (usize, usize),
        visit: &mut dyn FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if limit == 0 {
            return Ok(());
        }
        search["size"] = page.min(limit).into();
        search["track_total_hits"] = false.into();
        let found = self.search(&search)?;
        let hits = hits_of(&found);
        if limit <= page || hits.len() < page {
            return hits.iter().try_for_each(visit);
        }
        let path = format!(
            "{}/_search/point_in_time?keep_alive={KEEP_STATE}",
            self.alias()
        );
        let opened = self.request(Method::POST, &path, Body::None)?;
        let state = opened["pit_id"].as_str().ok_or_else(malformed)?;
        search["pit"] = json!({ "id": state, "keep_alive": KEEP_STATE });
        let result = self.pages(search, (page, limit), visit);
        let body = Body::Json(json!({ "pit_id": [state] }));
        // If this fails, OpenSearch drops the state a minute later.
        if let Err(why) = self.request(Method::DELETE, "_search/point_in_time", body) {
            tracing::debug!(%why, "a state of the search index was not released");
        }
        result
    }

    fn pages(
        &self,
        mut search: Value,
        (page, limit): (usize, usize),
        visit: &mut dyn FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left = limit;
        loop {
            search["size"] = page.min(left).into();
            let found = self.search_at("_search", &search)?;
            let hits = hits_of(&found);
            hits.iter().try_for_each(&mut *visit)?;
            left = left.saturating_sub(hits.len());
            match hits.last() {
                Some(last) if hits.len() == page && left > 0 => {
                    search["search_after"] = last["sort"].clone();
                }
                _ => return Ok(()),
            }
        }
    }
}

/// The hits of a response.
pub(super) fn hits_of(found: &Value) -> &[Value] {
    found["hits"]["hits"].as_array().map_or(&[], Vec::as_slice)
}

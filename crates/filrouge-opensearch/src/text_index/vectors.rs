//! Stores the vectors of documents, and finds documents by the similarity of vectors. The products are computed here,
//! over all vectors in the scope of a query.

use std::cmp::Reverse;
use std::collections::HashSet;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo, product};
use filrouge_types::Failure;
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::errors::malformed;
use super::find::{candidates_where, filters, of_kinds};
use super::meta::{Meta, Work};
use super::rows::{self, DOCUMENT, VECTOR};
use super::state::valid_numbers;
use super::write::Plan;

/// The number of vectors that a query fetches at once.
const VECTORS_PER_PAGE: usize = 5_000;
/// The maximum number of documents among which those without a vector are looked for one by one.
const DOCUMENTS_COMPARED: u64 = 1_000;
/// The maximum number of documents that a query for documents names.
const DOCUMENTS_PER_QUERY: usize = 1_000;

/// Numbers of documents: from the first, up to the last one.
type Range = (DocumentNo, DocumentNo);

impl OpenSearchIndex {
    /// Plans the storage of vectors of `embedder`. Vectors for documents that do not exist are left out.
    pub(super) fn plan_vectors(
        &self,
        meta: &Meta,
        embedder: &str,
        new: &[(DocumentNo, Vec<i8>)],
    ) -> Result<Plan, Failure> {
        let mut plan = Plan::new(meta);
        let mut ids = Vec::new();
        let fields = ["no", "session", "realm", "shard", "kind", "created"];
        for new in new.chunks(DOCUMENTS_PER_QUERY) {
            let numbers: Vec<DocumentNo> = new.iter().map(|(no, _)| *no).collect();
            self.documents_with(&valid_numbers(&numbers), &fields, &mut |no, hit| {
                // Of two vectors of one document, the last one counts.
                let vector = new.iter().rev().find(|(of, _)| *of == no);
                let (_, vector) = vector.ok_or_else(malformed)?;
                let action = rows::write_vector(no, &hit["_source"], embedder, vector);
                plan.actions.push(action);
                ids.push(rows::vector_id(embedder, no));
                Ok(())
            })?;
        }
        plan.work = Work::Rows {
            sessions: Vec::new(),
            documents: (meta.last_document, meta.last_document),
            vectors: ids,
        };
        Ok(plan)
    }

    /// Finds the `limit` documents whose vectors have the greatest products with `vector`.
    pub(super) fn nearest(
        &self,
        query: &CandidateQuery<'_>,
        (embedder, vector): (&str, &[i8]),
        limit: usize,
    ) -> Result<Vec<Candidate>, Failure> {
        let mut filters = filters(query);
        filters.extend(of_embedder(embedder));
        filters.push(rows::within(query.reach));
        let mut search = candidates_where(filters);
        search["_source"] = json!(["vector"]);
        if let Some(members) = search.as_object_mut() {
            members.remove("stored_fields");
        }
        let mut best: Vec<Candidate> = Vec::new();
        self.hits(search, (VECTORS_PER_PAGE, usize::MAX), &mut |hit| {
            let stored = rows::bytes(&hit["_source"]["vector"])?;
            let stored: Vec<i8> = stored.into_iter().map(u8::cast_signed).collect();
            if let Some(near) = product(vector, &stored) {
                let candidate = rows::read_candidate(hit)?;
                best.push(Candidate { near, ..candidate });
            }
            if best.len() >= limit.saturating_add(VECTORS_PER_PAGE) {
                keep_best(&mut best, limit);
            }
            Ok(())
        })?;
        keep_best(&mut best, limit);
        Ok(best)
    }

    /// Finds up to `limit` documents, newest first, of the kinds in the bit set `kinds`, that have no vector of
    /// `embedder`. Compares the numbers of documents and of vectors in ranges that it divides, so that it does not list
    /// the documents that have one.
    pub(super) fn without_vector(
        &self,
        embedder: &str,
        kinds: u32,
        limit: usize,
    ) -> Result<Vec<Candidate>, Failure> {
        let documents = vec![json!({ "term": { "row": DOCUMENT } }), of_kinds(kinds)];
        let mut vectors = of_embedder(embedder);
        vectors.push(of_kinds(kinds));
        let mut ranges: Vec<Range> = self.range(&documents)?.into_iter().collect();
        let mut found = Vec::new();
        while let Some(range) = ranges.pop()
            && found.len() < limit
        {
            let count = self.count(&documents, range)?;
            if count == self.count(&vectors, range)? {
                continue;
            }
            let (first, last) = range;
            if count > DOCUMENTS_COMPARED {
                let middle = first + (last - first) / 2;
                ranges.extend([(first, middle), (middle + 1, last)]);
                continue;
            }
            let with_vector = self.candidates_in(&vectors, range)?;
            let with_vector: HashSet<DocumentNo> = with_vector.iter().map(|c| c.document).collect();
            let mut without = self.candidates_in(&documents, range)?;
            without.retain(|candidate| !with_vector.contains(&candidate.document));
            found.extend(without);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The range of the numbers of rows; `None` without rows.
    fn range(&self, filters: &[Value]) -> Result<Option<Range>, Failure> {
        let search = json!({
            "size": 0,
            "query": { "bool": { "filter": filters } },
            "aggs": { "first": { "min": { "field": "no" } }, "last": { "max": { "field": "no" } } },
        });
        let found = self.search(&search)?;
        let number = |name: &str| found["aggregations"][name]["value"].as_f64();
        // Numbers are less than 2^53, so they are exact.
        let range = number("first").zip(number("last"));
        Ok(range.map(|(first, last)| (first as DocumentNo, last as DocumentNo)))
    }

    fn count(&self, filters: &[Value], range: Range) -> Result<u64, Failure> {
        let found = self.search(&json!({
            "size": 0,
            "track_total_hits": true,
            "query": { "bool": { "filter": in_range(filters, range) } },
        }))?;
        rows::number(&found["hits"]["total"]["value"])
    }

    fn candidates_in(&self, filters: &[Value], range: Range) -> Result<Vec<Candidate>, Failure> {
        let mut found = Vec::new();
        let search = candidates_where(in_range(filters, range));
        self.hits(search, (VECTORS_PER_PAGE, usize::MAX), &mut |hit| {
            found.push(rows::read_candidate(hit)?);
            Ok(())
        })?;
        Ok(found)
    }
}

fn of_embedder(embedder: &str) -> Vec<Value> {
    vec![
        json!({ "term": { "row": VECTOR } }),
        json!({ "term": { "embedder": embedder } }),
    ]
}

fn in_range(filters: &[Value], (first, last): Range) -> Vec<Value> {
    let range = json!({ "range": { "no": { "gte": first, "lte": last } } });
    filters.iter().cloned().chain([range]).collect()
}

/// Keeps the best candidates, best first. Among equals, the newest one is better.
fn keep_best(candidates: &mut Vec<Candidate>, limit: usize) {
    candidates.sort_by_key(|candidate| (Reverse(candidate.near), Reverse(candidate.document)));
    candidates.truncate(limit);
}

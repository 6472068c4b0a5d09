//! Finds candidates for a query, and reads documents by their numbers.

use std::collections::HashMap;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo, IndexedDocument, TITLE};
use filrouge_types::Failure;
use serde_json::{Value, json};

use super::OpenSearchIndex;
use super::rows::{self, CANDIDATE_FIELDS, DOCUMENT};
use super::state::valid_numbers;
use super::terms;

/// The number of candidates that a query returns at once; OpenSearch returns at most 10,000.
const CANDIDATES_PER_PAGE: usize = 10_000;
/// The maximum number of documents that a query for documents names.
const DOCUMENTS_PER_QUERY: usize = 1_000;
/// The number of bodies that the first query fetches, and the maximum for later queries. The first is small because the
/// caller may need only a few.
const BODIES_PER_QUERY: (usize, usize) = (16, 256);

/// The conditions of a query on a row, except those of its scope and terms.
pub(super) fn filters(query: &CandidateQuery<'_>) -> Vec<Value> {
    let mut filters = Vec::new();
    if query.kinds != u32::MAX {
        filters.push(of_kinds(query.kinds));
    }
    let mut at_time = |range: Value| {
        filters.push(json!({ "bool": { "should": [
            { "term": { "kind": TITLE } },
            { "range": { "created": range } },
        ], "minimum_should_match": 1 } }));
    };
    if let Some(since) = query.since {
        at_time(json!({ "gte": since }));
    }
    if let Some(until) = query.until {
        at_time(json!({ "lt": until }));
    }
    if let Some(sessions) = query.sessions {
        filters.push(json!({ "terms": { "session": valid_numbers(sessions) } }));
    }
    filters
}

/// The condition that a row has one of these kinds.
pub(super) fn of_kinds(kinds: u32) -> Value {
    let kinds: Vec<u32> = (0..32).filter(|kind| kinds >> kind & 1 == 1).collect();
    json!({ "terms": { "kind": kinds } })
}

/// A query for candidates with these conditions. It reads nothing that is stored, which would be slower.
pub(super) fn candidates_where(filters: Vec<Value>) -> Value {
    json!({
        "query": { "bool": { "filter": filters } },
        "sort": [{ "no": "desc" }],
        "_source": false,
        "stored_fields": "_none_",
        "docvalue_fields": CANDIDATE_FIELDS,
    })
}

/// The conditions of a query on a row of a document, except its terms.
fn document_filters(query: &CandidateQuery<'_>) -> Vec<Value> {
    let mut all = filters(query);
    all.push(json!({ "term": { "row": DOCUMENT } }));
    all.push(rows::within(query.reach));
    all
}

impl OpenSearchIndex {
    /// The documents that may meet all terms, newest first.
    pub(super) fn matching_all(
        &self,
        query: &CandidateQuery<'_>,
        terms: &[Vec<String>],
    ) -> Result<Vec<Candidate>, Failure> {
        let mut filters = document_filters(query);
        filters.extend(terms::conditions(terms).into_iter().flatten());
        let met = (0..terms.len()).fold(0, |met, n| met | term_bit(n));
        self.read_candidates(candidates_where(filters), |_| met)
    }

    /// The documents that may meet at least one term: those that may meet the most terms come first, then the newest.
    pub(super) fn matching_any(
        &self,
        query: &CandidateQuery<'_>,
        terms: &[Vec<String>],
    ) -> Result<Vec<Candidate>, Failure> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        // The score of a document is the number of terms that it meets.
        let conditions = terms::conditions(terms).into_iter().enumerate();
        let conditions = conditions.map(|(n, condition)| {
            let filter = condition.unwrap_or_else(|| json!({ "match_all": {} }));
            json!({ "constant_score": { "filter": filter, "boost": 1, "_name": n.to_string() } })
        });
        let mut search = candidates_where(document_filters(query));
        search["query"]["bool"]["should"] = conditions.collect();
        search["query"]["bool"]["minimum_should_match"] = 1.into();
        search["sort"] = json!([{ "_score": "desc" }, { "no": "desc" }]);
        self.read_candidates(search, |hit| {
            let names = hit["matched_queries"].as_array().into_iter().flatten();
            let numbers = names.filter_map(|name| name.as_str()?.parse().ok());
            numbers.fold(0, |met, n| met | term_bit(n))
        })
    }

    /// Reads all candidates of a query. `met` returns [`Candidate::met`].
    fn read_candidates(
        &self,
        search: Value,
        met: impl Fn(&Value) -> u64,
    ) -> Result<Vec<Candidate>, Failure> {
        let mut candidates = Vec::new();
        self.hits(search, (CANDIDATES_PER_PAGE, usize::MAX), &mut |hit| {
            let met = met(hit);
            candidates.push(Candidate {
                met,
                ..rows::read_candidate(hit)?
            });
            Ok(())
        })?;
        Ok(candidates)
    }

    pub(super) fn named_documents(
        &self,
        numbers: &[DocumentNo],
    ) -> Result<Vec<IndexedDocument>, Failure> {
        let fields = ["no", "realm", "session_key", "key", "unit", "digest"];
        let mut documents: HashMap<DocumentNo, IndexedDocument> = HashMap::new();
        for numbers in valid_numbers(numbers).chunks(DOCUMENTS_PER_QUERY) {
            self.documents_with(numbers, &fields, &mut |no, hit| {
                documents.insert(no, rows::read_document(hit)?);
                Ok(())
            })?;
        }
        let named = numbers.iter().filter_map(|no| documents.get(no));
        Ok(named.cloned().collect())
    }

    /// Calls `visit` with the body of each document, in the given order, until it returns false. Documents that do not
    /// exist are left out.
    pub(super) fn read_bodies(
        &self,
        documents: &[DocumentNo],
        visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
    ) -> Result<(), Failure> {
        let (mut remaining, mut page_max) = (documents, BODIES_PER_QUERY.0);
        while !remaining.is_empty() {
            let (page, following) = remaining.split_at(page_max.min(remaining.len()));
            let mut bodies: HashMap<DocumentNo, Vec<u8>> = HashMap::new();
            let fields = ["no", "body"];
            self.documents_with(&valid_numbers(page), &fields, &mut |no, hit| {
                let body = &hit["_source"]["body"];
                let body = if body.is_null() {
                    Vec::new()
                } else {
                    rows::bytes(body)?
                };
                bodies.insert(no, body);
                Ok(())
            })?;
            for no in page {
                if let Some(body) = bodies.get(no)
                    && !visit(*no, body)
                {
                    return Ok(());
                }
            }
            (remaining, page_max) = (following, (page_max * 4).min(BODIES_PER_QUERY.1));
        }
        Ok(())
    }

    /// Calls `visit` with the number and these stored fields of each of the documents, in any order.
    pub(super) fn documents_with(
        &self,
        numbers: &[DocumentNo],
        fields: &[&str],
        visit: &mut dyn FnMut(DocumentNo, &Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let search = json!({
            "query": { "bool": { "filter": [
                { "term": { "row": DOCUMENT } },
                { "terms": { "no": numbers } },
            ] } },
            "sort": [{ "no": "desc" }],
            "_source": fields,
        });
        let all = numbers.len();
        self.hits(search, (all, all), &mut |hit| {
            visit(rows::number(&hit["_source"]["no"])?, hit)
        })
    }
}

/// The bit of the term with number `n`, counted from 0. Terms after the first 64 have no bit.
fn term_bit(n: usize) -> u64 {
    let n = u32::try_from(n).ok();
    n.and_then(|n| 1_u64.checked_shl(n)).unwrap_or(0)
}

//! Stores the vectors of documents, and finds documents by the similarity of vectors.

use std::cmp::Reverse;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo, product};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::find::read_candidate;
use super::statement::StatementBuilder;
use crate::rows::{bytes, read_u64, sql_int};
use crate::session::Sql;

/// The maximum number of vectors that one query fetches.
const VECTORS_PER_QUERY: usize = 8192;

/// Finds up to `limit` documents, newest first, of the kinds in the bit set `kinds`, that have no vector of `embedder`.
pub(super) fn without_vector(
    tx: &Transaction<'_>,
    embedder: &str,
    kinds: u32,
    limit: usize,
) -> Result<Vec<Candidate>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT d.no, d.session, d.kind, d.created FROM filrouge.search_document d WHERE ($2 >> d.kind) & 1 = 1 AND NOT EXISTS
             (SELECT FROM filrouge.search_vector v WHERE v.embedder = $1 AND v.document = d.no)
         ORDER BY d.no DESC LIMIT $3",
        &[Type::BYTEA, Type::INT8, Type::INT8],
    );
    let (embedder, kinds, limit) = (embedder.as_bytes(), i64::from(kinds), sql_int(limit as u64));
    let found = tx.query_all(&SQL, &[&embedder, &kinds, &limit])?;
    found.iter().map(|row| read_candidate(row, 0)).collect()
}

/// Stores vectors of `embedder`. Vectors for documents that no longer exist are ignored.
pub(super) fn put(
    tx: &Transaction<'_>,
    embedder: &str,
    vectors: &[(DocumentNo, Vec<i8>)],
) -> Result<(), Failure> {
    static SQL: Sql = Sql::new(
        "INSERT INTO filrouge.search_vector (embedder, document, data)
         SELECT DISTINCT ON (d.no) $1, d.no, q.data FROM unnest($2, $3) WITH ORDINALITY AS q (no, data, place)
         JOIN filrouge.search_document d ON d.no = q.no ORDER BY d.no, q.place DESC
         ON CONFLICT (embedder, document) DO UPDATE SET data = EXCLUDED.data",
        &[Type::BYTEA, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
    );
    let numbers: Vec<i64> = vectors.iter().map(|(no, _)| sql_int(*no)).collect();
    let encode = |v: &[i8]| v.iter().map(|n| n.cast_unsigned()).collect();
    let data: Vec<Vec<u8>> = vectors.iter().map(|(_, v)| encode(v)).collect();
    tx.query_all(&SQL, &[&embedder.as_bytes(), &numbers, &data])
        .map(drop)
}

/// Finds the `limit` documents whose vectors are the most similar to `vector`. Scans all vectors in the scope of the
/// query, page by page.
pub(super) fn nearest(
    tx: &Transaction<'_>,
    (embedder, vector): (&str, &[i8]),
    query: &CandidateQuery<'_>,
    limit: usize,
) -> Result<Vec<Candidate>, Failure> {
    let mut best: Vec<Candidate> = Vec::new();
    let mut before = i64::MAX;
    loop {
        let mut statement = StatementBuilder::default();
        let filter = statement.filter(query, false);
        let embedder = statement.bind(Type::BYTEA, embedder.as_bytes());
        let upper_bound = statement.bind(Type::INT8, before);
        let text = format!(
            "SELECT d.no, d.session, d.kind, d.created, v.data FROM filrouge.search_document d
             JOIN filrouge.search_vector v ON v.embedder = {embedder} AND v.document = d.no
             WHERE {filter} AND d.no < {upper_bound} ORDER BY d.no DESC LIMIT {VECTORS_PER_QUERY}"
        );
        let found = tx.query_text(&text, statement.types(), &statement.params())?;
        for row in &found {
            best.extend(score_candidate(row, vector)?);
        }
        // The sort is stable: equal scores keep the order in which they were read, newest first.
        best.sort_by_key(|candidate| Reverse(candidate.near));
        best.truncate(limit);
        match found.last() {
            Some(row) if found.len() == VECTORS_PER_QUERY => before = sql_int(read_u64(row, 0)?),
            _ => return Ok(best),
        }
    }
}

/// Decodes a candidate, with the similarity of its vector to `vector`; `None` if the two vectors have different
/// lengths.
fn score_candidate(row: &Row, vector: &[i8]) -> Result<Option<Candidate>, Failure> {
    let stored: Vec<i8> = bytes(row, 4)?.iter().map(|n| n.cast_signed()).collect();
    let Some(near) = product(vector, &stored) else {
        return Ok(None);
    };
    let candidate = read_candidate(row, 0)?;
    Ok(Some(Candidate { near, ..candidate }))
}

//! Stores the vectors of documents, and finds the documents nearest to a query's vector and those without a vector.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo, product};
use filrouge_types::{Result, lock};
use rusqlite::{Connection, params};

use super::candidates::CandidateConditions;
use super::document_cache::{ResolvedScope, read_candidate};
use super::files::IndexFile;
use super::rows::{execute, query_all, query_number, query_optional};
use crate::error::failure;

/// Reads the number of an embedder, which is a model that computes vectors; `None` before its first vectors are stored.
fn embedder_no(conn: &Connection, name: &str) -> Result<Option<i64>> {
    let sql = "SELECT id FROM embedder WHERE name = ?1";
    query_optional(conn, sql, [name], |row| row.get(0))
}

/// Reads the numbers of all embedders.
pub(super) fn embedders(conn: &Connection) -> Result<Vec<i64>> {
    query_all(conn, "SELECT id FROM embedder", [], |row| row.get(0))
}

/// Documents without a vector of the embedder `name`, of these `kinds` (one bit per kind), newest first, at most
/// `limit`. Ranges of document numbers that are known to have vectors are not read.
pub(super) fn without_vector(
    file: &IndexFile,
    conn: &Connection,
    name: &str,
    kinds: u32,
    limit: usize,
) -> Result<Vec<Candidate>> {
    let embedder = embedder_no(conn, name)?.unwrap_or(-1);
    let sql = "SELECT coalesce(max(id), 0) FROM document";
    let newest = query_number(conn, sql, [])?.cast_unsigned();
    let ranges = lock(&file.document_cache).vector_ranges(embedder, kinds);
    let sql = "SELECT d.id, d.session, d.kind, d.created FROM document d WHERE d.id BETWEEN ?3 AND ?4 AND (?2 >> d.kind) & 1
        AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.embedder = ?1 AND v.shard = d.shard AND v.document = d.id)
        ORDER BY d.id DESC LIMIT ?5";
    let mut found: Vec<Candidate> = Vec::new();
    for gap in ranges.gaps(newest) {
        let remaining = i64::try_from(limit - found.len()).unwrap_or(i64::MAX);
        let [first, last] = [*gap.start(), *gap.end()].map(u64::cast_signed);
        let row = params![embedder, kinds, first, last, remaining];
        found.extend(query_all(conn, sql, row, read_candidate)?);
        if found.len() >= limit {
            break;
        }
    }
    if limit > 0 && embedder >= 0 {
        let from = found.first().map_or(0, |newest| newest.document + 1);
        lock(&file.document_cache).add_vector_range(embedder, kinds, from..=newest);
    }
    Ok(found)
}

/// Stores vectors of the embedder `name`, and replaces existing ones. Skips documents that are no longer in the index.
pub(super) fn put(conn: &Connection, name: &str, vectors: &[(DocumentNo, Vec<i8>)]) -> Result<()> {
    let embedder = match embedder_no(conn, name)? {
        Some(id) => id,
        None => query_number(
            conn,
            "INSERT INTO embedder (name) VALUES (?1) RETURNING id",
            [name],
        )?,
    };
    let mut added = 0_i64;
    for (document, vector) in vectors {
        let Ok(document) = i64::try_from(*document) else {
            continue;
        };
        let sql = "SELECT shard FROM document WHERE id = ?1";
        let Some(shard) = query_optional(conn, sql, [document], |row| row.get::<_, i64>(0))? else {
            continue;
        };
        let sql = "DELETE FROM vector WHERE embedder = ?1 AND shard = ?2 AND document = ?3";
        let before = execute(conn, sql, [embedder, shard, document])?;
        let data: Vec<u8> = vector
            .iter()
            .map(|element| element.cast_unsigned())
            .collect();
        let sql = "INSERT INTO vector (embedder, shard, document, data) VALUES (?1, ?2, ?3, ?4)";
        execute(conn, sql, params![embedder, shard, document, data])?;
        added += i64::from(before == 0);
    }
    let sql = "UPDATE embedder SET documents = documents + ?2 WHERE id = ?1";
    execute(conn, sql, [embedder, added]).map(|_| ())
}

/// The documents that pass the query's filter and whose vectors of the embedder `name` have the greatest products with
/// `vector`: at most `limit`, greatest first.
pub(super) fn nearest(
    (file, conn): (&IndexFile, &Connection),
    (name, vector): (&str, &[i8]),
    query: &CandidateQuery<'_>,
    limit: usize,
) -> Result<Vec<Candidate>> {
    let Some(embedder) = embedder_no(conn, name)? else {
        return Ok(Vec::new());
    };
    let scope = ResolvedScope::resolve(conn, query.reach)?;
    let documents = scope.documents(file, conn, query.reach)?;
    let conditions = CandidateConditions::new(query);
    let mut best: BinaryHeap<Reverse<(i32, DocumentNo)>> = BinaryHeap::new();
    let document_of = |no| {
        let index = documents.binary_search_by_key(&no, |d| d.document);
        index.ok().and_then(|index| documents.get(index))
    };
    for shard in &scope.shards {
        let sql = "SELECT document, data FROM vector WHERE embedder = ?1 AND shard = ?2";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query([embedder, *shard]).map_err(failure)?;
        let mut elements = Vec::new();
        while let Some(row) = rows.next().map_err(failure)? {
            let no: i64 = row.get(0).map_err(failure)?;
            let no = no.cast_unsigned();
            let data = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            elements.clear();
            elements.extend(data.map_err(failure)?.iter().map(|byte| byte.cast_signed()));
            let Some(product) = product(vector, &elements) else {
                continue;
            };
            let is_worse = best.len() >= limit
                && best
                    .peek()
                    .is_none_or(|Reverse(least)| (product, no) <= *least);
            if is_worse || !document_of(no).is_some_and(|candidate| conditions.accepts(candidate)) {
                continue;
            }
            best.push(Reverse((product, no)));
            if best.len() > limit {
                best.pop();
            }
        }
    }
    let sorted = best.into_sorted_vec().into_iter();
    let with_product = |Reverse((near, no))| {
        Some(Candidate {
            near,
            ..*document_of(no)?
        })
    };
    Ok(sorted.filter_map(with_product).collect())
}

//! Finds candidates for a query, and reads documents by their numbers.

use std::cmp::Reverse;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo, IndexedDocument};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::state::decode_text;
use super::statement::StatementBuilder;
use crate::error::malformed;
use crate::rows::{bytes, column, read_u64, sql_int};
use crate::session::Sql;

/// The number of bodies that the first query fetches, and the maximum for later queries. The first is small because the
/// caller may need only a few.
const BODIES_PER_QUERY: (usize, usize) = (16, 256);

/// Decodes a candidate from the columns 0 to 3 of a row. `met` has one bit set for each term that the document
/// contains.
pub(super) fn read_candidate(row: &Row, met: u64) -> Result<Candidate, Failure> {
    let kind: i16 = column(row, 2)?;
    Ok(Candidate {
        document: read_u64(row, 0)?,
        session: read_u64(row, 1)?,
        kind: u8::try_from(kind).map_err(|_| malformed("kind"))?,
        created: column(row, 3)?,
        met,
        whole_words: false,
        near: 0,
    })
}

/// Returns the bit of the term with number `n`, counted from 0. Terms after the first 64 have no bit.
fn term_bit(n: usize) -> u64 {
    let n = u32::try_from(n).ok();
    n.and_then(|n| 1_u64.checked_shl(n)).unwrap_or(0)
}

/// Finds the documents that meet all terms, newest first. `index_has_shards`: whether the index `search_words` also
/// contains the numbers of shards and realms.
pub(super) fn matching_all(
    tx: &Transaction<'_>,
    query: &CandidateQuery<'_>,
    terms: &[Vec<String>],
    index_has_shards: bool,
) -> Result<Vec<Candidate>, Failure> {
    let mut statement = StatementBuilder::default();
    let mut text = statement.filter(query, index_has_shards && !terms.is_empty());
    for term in terms {
        text += " AND ";
        text += &statement.meets(term);
    }
    let text = format!(
        "SELECT d.no, d.session, d.kind, d.created FROM filrouge.search_document d WHERE {text}"
    );
    let met = (0..terms.len().min(64)).fold(0, |met, n| met | term_bit(n));
    let found = tx.query_text(&text, statement.types(), &statement.params())?;
    let read = found.iter().map(|row| read_candidate(row, met));
    let mut found = read.collect::<Result<Vec<_>, Failure>>()?;
    // The result is sorted here and not in SQL: with ORDER BY, PostgreSQL would read the documents of all owners in
    // order, instead of finding those that match and sorting them.
    found.sort_unstable_by_key(|candidate| Reverse(candidate.document));
    Ok(found)
}

/// Finds the documents that meet at least one term; those that meet the most terms come first, then the newest. Each
/// term has its own subquery, so that a document is compared only with the terms for which the index names it.
pub(super) fn matching_any(
    tx: &Transaction<'_>,
    query: &CandidateQuery<'_>,
    terms: &[Vec<String>],
    index_has_shards: bool,
) -> Result<Vec<Candidate>, Failure> {
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = StatementBuilder::default();
    let filter = statement.filter(query, index_has_shards);
    let subqueries = terms.iter().enumerate().map(|(n, term)| {
        let (condition, bit) = (statement.meets(term), term_bit(n).cast_signed());
        format!(
            "SELECT d.no + 0 AS no, d.session, d.kind, d.created, ({bit})::bigint AS met FROM filrouge.search_document d
             WHERE {filter} AND {condition}"
        )
    });
    let subqueries: Vec<String> = subqueries.collect();
    let text = format!(
        "SELECT no, session, kind, created, bit_or(met) FROM ({}) d GROUP BY no, session, kind, created
         ORDER BY count(*) DESC, no DESC",
        subqueries.join(" UNION ALL ")
    );
    let found = tx.query_text(&text, statement.types(), &statement.params())?;
    let met = |row: &Row| Ok(column::<i64>(row, 4)?.cast_unsigned());
    found
        .iter()
        .map(|row| read_candidate(row, met(row)?))
        .collect()
}

/// The documents with these numbers, in this order; those that do not exist are left out.
pub(super) fn named_documents(
    tx: &Transaction<'_>,
    numbers: &[DocumentNo],
) -> Result<Vec<IndexedDocument>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT d.no, s.realm, s.key, d.key, d.unit, d.digest FROM unnest($1) WITH ORDINALITY AS q (no, place)
         JOIN filrouge.search_document d ON d.no = q.no JOIN filrouge.search_session s ON s.no = d.session
         ORDER BY q.place",
        &[Type::INT8_ARRAY],
    );
    let numbers: Vec<i64> = numbers.iter().map(|no| sql_int(*no)).collect();
    let rows = tx.query_all(&SQL, &[&numbers])?;
    rows.iter().map(read_document).collect()
}

fn read_document(row: &Row) -> Result<IndexedDocument, Failure> {
    let number = |index| Ok::<_, Failure>(column::<i64>(row, index)?.cast_unsigned());
    Ok(IndexedDocument {
        no: read_u64(row, 0)?,
        session: (bytes(row, 1)?.into(), decode_text(bytes(row, 2)?)?),
        key: decode_text(bytes(row, 3)?)?,
        unit: number(4)?,
        digest: number(5)?,
    })
}

/// Calls `visit` with the body of each document, in the given order, until it returns false. Documents that no longer
/// exist are left out.
pub(super) fn read_bodies(
    tx: &Transaction<'_>,
    documents: &[DocumentNo],
    visit: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
) -> Result<(), Failure> {
    static SQL: Sql = Sql::new(
        "SELECT d.no, d.body FROM unnest($1) WITH ORDINALITY AS q (no, place)
         JOIN filrouge.search_document d ON d.no = q.no ORDER BY q.place",
        &[Type::INT8_ARRAY],
    );
    let (mut remaining, mut page_max) = (documents, BODIES_PER_QUERY.0);
    while !remaining.is_empty() {
        let (page, following) = remaining.split_at(page_max.min(remaining.len()));
        let page: Vec<i64> = page.iter().map(|no| sql_int(*no)).collect();
        for row in tx.query_all(&SQL, &[&page])? {
            if !visit(read_u64(&row, 0)?, bytes(&row, 1)?) {
                return Ok(());
            }
        }
        (remaining, page_max) = (following, (page_max * 4).min(BODIES_PER_QUERY.1));
    }
    Ok(())
}

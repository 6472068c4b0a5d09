//! Candidates, and their bodies.

use std::cmp::Reverse;

use filrouge_store::text_index::{Candidate, CandidateQuery, DocumentNo};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::question::Question;
use crate::error::malformed;
use crate::rows::{bytes, column, int, uint};
use crate::session::Sql;

/// How many bodies are fetched first, and at most at once: who asks may have seen enough soon.
const BODIES: (usize, usize) = (16, 256);

/// Columns 0 to 3 of a row, of a document that meets `met`.
pub(super) fn read(row: &Row, met: u64) -> Result<Candidate, Failure> {
    let kind: i16 = column(row, 2)?;
    Ok(Candidate {
        document: uint(row, 0)?,
        session: uint(row, 1)?,
        kind: u8::try_from(kind).map_err(|_| malformed("kind"))?,
        created: column(row, 3)?,
        met,
        whole: false,
        near: 0,
    })
}

/// The bit of the term at `place`; the first 64 have one.
fn bit(place: usize) -> u64 {
    let place = u32::try_from(place).ok();
    place
        .and_then(|place| 1_u64.checked_shl(place))
        .unwrap_or(0)
}

/// What meets all terms; `words`: whether `search_words` is of shards, too.
pub(super) fn all(
    of: &Transaction<'_>,
    query: &CandidateQuery<'_>,
    terms: &[Vec<String>],
    words: bool,
) -> Result<Vec<Candidate>, Failure> {
    let mut asked = Question::default();
    let mut text = asked.passing(query, words && !terms.is_empty());
    for term in terms {
        text += " AND ";
        text += &asked.meets(term);
    }
    let text = format!(
        "SELECT d.no, d.session, d.kind, d.created FROM filrouge.search_document d WHERE {text}"
    );
    let met = (0..terms.len().min(64)).fold(0, |met, place| met | bit(place));
    let found = of.made(&text, asked.types(), &asked.params())?;
    let read = found.iter().map(|row| read(row, met));
    let mut found = read.collect::<Result<Vec<_>, Failure>>()?;
    // Not by the statement: PostgreSQL would read the documents of all in their order, rather than sort those found.
    found.sort_unstable_by_key(|candidate| Reverse(candidate.document));
    Ok(found)
}

/// What meets a term. Each is looked for by itself, so that a document is looked into for those alone that it may meet.
pub(super) fn any(
    of: &Transaction<'_>,
    query: &CandidateQuery<'_>,
    terms: &[Vec<String>],
    words: bool,
) -> Result<Vec<Candidate>, Failure> {
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let mut asked = Question::default();
    let passing = asked.passing(query, words);
    let each = terms.iter().enumerate().map(|(place, term)| {
        let (meets, bit) = (asked.meets(term), bit(place).cast_signed());
        format!(
            "SELECT d.no + 0 AS no, d.session, d.kind, d.created, ({bit})::bigint AS met FROM filrouge.search_document d
             WHERE {passing} AND {meets}"
        )
    });
    let each: Vec<String> = each.collect();
    let text = format!(
        "SELECT no, session, kind, created, bit_or(met) FROM ({}) d GROUP BY no, session, kind, created
         ORDER BY count(*) DESC, no DESC",
        each.join(" UNION ALL ")
    );
    let found = of.made(&text, asked.types(), &asked.params())?;
    let met = |row: &Row| Ok(column::<i64>(row, 4)?.cast_unsigned());
    found.iter().map(|row| read(row, met(row)?)).collect()
}

pub(super) fn bodies(
    of: &Transaction<'_>,
    documents: &[DocumentNo],
    each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
) -> Result<(), Failure> {
    static SQL: Sql = Sql::new(
        "SELECT d.no, d.body FROM unnest($1) WITH ORDINALITY AS q (no, place)
         JOIN filrouge.search_document d ON d.no = q.no ORDER BY q.place",
        &[Type::INT8_ARRAY],
    );
    let (mut left, mut most) = (documents, BODIES.0);
    while !left.is_empty() {
        let (page, rest) = left.split_at(most.min(left.len()));
        let page: Vec<i64> = page.iter().map(|no| int(*no)).collect();
        for row in of.many(&SQL, &[&page])? {
            if !each(uint(&row, 0)?, bytes(&row, 1)?) {
                return Ok(());
            }
        }
        (left, most) = (rest, (most * 4).min(BODIES.1));
    }
    Ok(())
}

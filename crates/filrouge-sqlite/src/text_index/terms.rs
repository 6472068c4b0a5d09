//! Finds the documents of a shard that may match a query, in the postings and in the word lists of pending documents.
//!
//! Every statement of this module selects by shard first, and so reads no row of another shard.

use filrouge_store::text_index::{CandidateQuery, DocumentNo};
use filrouge_types::Result;
use rusqlite::Connection;

use super::files::IndexFile;
use super::literal::{Literal, Postings};
use super::postings;
use super::segments::Segment;
use super::spellings;
use crate::error::failure;

/// A document that may match a query's terms. It becomes a [`Candidate`](filrouge_store::text_index::Candidate) if it
/// also passes the query's filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) document: DocumentNo,
    /// One bit for each of the first 64 terms, set if the term matches.
    pub(super) met: u64,
    /// The number of matching terms, of all terms.
    pub(super) count: u32,
    /// [`Candidate::whole_words`](filrouge_store::text_index::Candidate::whole_words).
    pub(super) whole_words: bool,
}

/// A query's terms.
pub(super) struct Terms {
    /// The literals of each term. A document matches a term if it contains at least one of them.
    terms: Vec<Vec<Literal>>,
    /// Whether one matching term suffices; otherwise all terms must match.
    any_suffices: bool,
}

impl Terms {
    pub(super) fn new(query: &CandidateQuery<'_>) -> Self {
        let term = |term: &Vec<String>| term.iter().map(|literal| Literal::new(literal)).collect();
        Self {
            terms: query.wanted.terms().iter().map(term).collect(),
            any_suffices: query.wanted.is_any(),
        }
    }

    /// Whether the query has no terms, so that all documents that pass the filter are candidates.
    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty() && !self.any_suffices
    }

    /// The matching documents of a shard, in ascending order.
    pub(super) fn hits(&self, file: &IndexFile, conn: &Connection, shard: i64) -> Result<Vec<Hit>> {
        let mut hits = self.hits_in_postings(file, conn, shard)?;
        let sql = "SELECT document, words FROM pending WHERE shard = ?1 ORDER BY document";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query([shard]).map_err(failure)?;
        let mut is_sorted = true;
        while let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let words = words.map_err(failure)?;
            let document: i64 = row.get(0).map_err(failure)?;
            if let Some(hit) = self.match_words(document.cast_unsigned(), words) {
                is_sorted &= hits.last().is_none_or(|last| last.document < hit.document);
                hits.push(hit);
            }
        }
        if !is_sorted {
            hits.sort_unstable_by_key(|hit| hit.document);
        }
        Ok(hits)
    }

    /// The hit of a document with these words; `None` if too few terms match.
    fn match_words(&self, document: DocumentNo, words: &[u8]) -> Option<Hit> {
        let mut hit = Hit {
            document,
            met: 0,
            count: 0,
            whole_words: false,
        };
        let matches = |literal: &Literal| {
            let mut patterns = literal.patterns.iter();
            patterns.all(|pattern| spellings::contains(words, pattern))
        };
        for (index, term) in self.terms.iter().enumerate() {
            if term.iter().any(matches) {
                hit.met |= bit(index);
                hit.count += 1;
            } else if !self.any_suffices {
                return None;
            }
        }
        (hit.count > 0).then_some(hit)
    }

    fn hits_in_postings(
        &self,
        file: &IndexFile,
        conn: &Connection,
        shard: i64,
    ) -> Result<Vec<Hit>> {
        let segments = Segment::all(conn, shard)?;
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        let postings = Postings {
            file,
            conn,
            shard,
            segments,
        };
        match self.any_suffices {
            true => self.hits_of_any(&postings),
            false => self.hits_of_all(&postings),
        }
    }

    fn hits_of_all(&self, postings: &Postings<'_>) -> Result<Vec<Hit>> {
        let mut remaining: Option<Vec<DocumentNo>> = None;
        for term in &self.terms {
            // A term without parts, or with parts that occur in too many words, does not narrow the result.
            let Some(found) = postings.documents_of_term(term)? else {
                continue;
            };
            match &mut remaining {
                Some(remaining) => postings::intersect(remaining, &found),
                none => *none = Some(found),
            }
            if remaining.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        let remaining = match remaining {
            Some(remaining) => remaining,
            None => postings.documents()?,
        };
        let met = (0..self.terms.len()).fold(0, |met, index| met | bit(index));
        let count = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
        let whole_words = self.whole_words(postings)?;
        let hit = |document| Hit {
            document,
            met,
            count,
            whole_words: whole_words.binary_search(&document).is_ok(),
        };
        Ok(remaining.into_iter().map(hit).collect())
    }

    /// The documents that certainly contain all words of all terms as whole words. Empty unless each term has exactly
    /// one literal.
    fn whole_words(&self, postings: &Postings<'_>) -> Result<Vec<DocumentNo>> {
        let mut words = Vec::new();
        for term in &self.terms {
            match term.as_slice() {
                [literal] if !literal.words.is_empty() => words.extend(&literal.words),
                _ => return Ok(Vec::new()),
            }
        }
        postings.documents_with_all(&words)
    }

    fn hits_of_any(&self, postings: &Postings<'_>) -> Result<Vec<Hit>> {
        let mut hits: Vec<Hit> = Vec::new();
        for (index, term) in self.terms.iter().enumerate() {
            let found = match postings.documents_of_term(term)? {
                Some(found) => found,
                None => postings.documents()?,
            };
            hits = merge(&hits, &found, bit(index));
        }
        Ok(hits)
    }
}

/// Merges the hits of earlier terms with the documents `found` for a further term, which has this `bit`.
fn merge(hits: &[Hit], found: &[DocumentNo], bit: u64) -> Vec<Hit> {
    let mut merged = Vec::with_capacity(hits.len() + found.len());
    let mut earlier_hits = hits.iter().peekable();
    for document in found {
        while let Some(hit) = earlier_hits.next_if(|hit| hit.document < *document) {
            merged.push(*hit);
        }
        let earlier = earlier_hits.next_if(|hit| hit.document == *document);
        merged.push(Hit {
            document: *document,
            met: earlier.map_or(0, |hit| hit.met) | bit,
            count: earlier.map_or(0, |hit| hit.count) + 1,
            whole_words: false,
        });
    }
    merged.extend(earlier_hits);
    merged
}

/// The bit of [`Hit::met`] for the term with this index; 0 after the first 64 terms.
fn bit(index: usize) -> u64 {
    let shift = u32::try_from(index).unwrap_or(u32::MAX);
    1_u64.checked_shl(shift).unwrap_or(0)
}

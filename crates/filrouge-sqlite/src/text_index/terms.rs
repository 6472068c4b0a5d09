//! Finds the documents of a shard that may match a query, in the postings and in the word lists of pending documents.
//!
//! Every statement of this module selects by shard first, and so reads no row of another shard.

use filrouge_store::text_index::{CandidateQuery, DocumentNo};
use filrouge_types::Failure;
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
    any: bool,
}

impl Terms {
    pub(super) fn of(query: &CandidateQuery<'_>) -> Self {
        let term = |term: &Vec<String>| term.iter().map(|literal| Literal::of(literal)).collect();
        Self {
            terms: query.wanted.terms().iter().map(term).collect(),
            any: query.wanted.is_any(),
        }
    }

    /// Whether the query has no terms, so that all documents that pass the filter are candidates.
    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty() && !self.any
    }

    /// The matching documents of a shard, in ascending order.
    pub(super) fn hits(
        &self,
        files: &IndexFile,
        conn: &Connection,
        shard: i64,
    ) -> Result<Vec<Hit>, Failure> {
        let mut hits = self.hits_in_postings(files, conn, shard)?;
        let sql = "SELECT document, words FROM pending WHERE shard = ?1 ORDER BY document";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query([shard]).map_err(failure)?;
        let mut sorted = true;
        while let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let words = words.map_err(failure)?;
            let document: i64 = row.get(0).map_err(failure)?;
            if let Some(hit) = self.match_words(document.cast_unsigned(), words) {
                sorted &= hits.last().is_none_or(|last| last.document < hit.document);
                hits.push(hit);
            }
        }
        if !sorted {
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
        let holds = |literal: &Literal| {
            let mut listed = literal.listed.iter();
            listed.all(|listed| spellings::has(words, listed))
        };
        for (at, term) in self.terms.iter().enumerate() {
            if term.iter().any(holds) {
                hit.met |= bit(at);
                hit.count += 1;
            } else if !self.any {
                return None;
            }
        }
        (hit.count > 0).then_some(hit)
    }

    fn hits_in_postings(
        &self,
        files: &IndexFile,
        conn: &Connection,
        shard: i64,
    ) -> Result<Vec<Hit>, Failure> {
        let segments = Segment::all(conn, shard)?;
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        let postings = Postings {
            files,
            conn,
            shard,
            segments,
        };
        match self.any {
            true => self.any_term(&postings),
            false => self.all_terms(&postings),
        }
    }

    fn all_terms(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut kept: Option<Vec<DocumentNo>> = None;
        for term in &self.terms {
            // A term without parts, or with parts that occur in too many words, does not narrow the result.
            let Some(found) = postings.term(term)? else {
                continue;
            };
            match &mut kept {
                Some(kept) => postings::intersect(kept, &found),
                none => *none = Some(found),
            }
            if kept.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        let kept = match kept {
            Some(kept) => kept,
            None => postings.documents()?,
        };
        let met = (0..self.terms.len()).fold(0, |met, at| met | bit(at));
        let count = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
        let whole_words = self.whole_words(postings)?;
        let hit = |document| Hit {
            document,
            met,
            count,
            whole_words: whole_words.binary_search(&document).is_ok(),
        };
        Ok(kept.into_iter().map(hit).collect())
    }

    /// The documents that certainly contain all words of all terms as whole words. Empty unless each term has exactly
    /// one literal.
    fn whole_words(&self, postings: &Postings<'_>) -> Result<Vec<DocumentNo>, Failure> {
        let mut words = Vec::new();
        for term in &self.terms {
            match term.as_slice() {
                [literal] if !literal.words.is_empty() => words.extend(&literal.words),
                _ => return Ok(Vec::new()),
            }
        }
        postings.all_of(&words)
    }

    fn any_term(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut hits: Vec<Hit> = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let found = match postings.term(term)? {
                Some(found) => found,
                None => postings.documents()?,
            };
            hits = merge(&hits, &found, bit(at));
        }
        Ok(hits)
    }
}

/// Merges the hits of earlier terms with the documents `found` for a further term, which has this `bit`.
fn merge(hits: &[Hit], found: &[DocumentNo], bit: u64) -> Vec<Hit> {
    let mut both = Vec::with_capacity(hits.len() + found.len());
    let mut before = hits.iter().peekable();
    for document in found {
        while let Some(hit) = before.next_if(|hit| hit.document < *document) {
            both.push(*hit);
        }
        let earlier = before.next_if(|hit| hit.document == *document);
        both.push(Hit {
            document: *document,
            met: earlier.map_or(0, |hit| hit.met) | bit,
            count: earlier.map_or(0, |hit| hit.count) + 1,
            whole_words: false,
        });
    }
    both.extend(before);
    both
}

/// The bit of [`Hit::met`] for the term with index `at`; 0 after the first 64 terms.
fn bit(at: usize) -> u64 {
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    1_u64.checked_shl(at).unwrap_or(0)
}

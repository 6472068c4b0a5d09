//! Which documents of a shard may meet what is asked: by postings, and by the words of those that wait.
//!
//! Every statement here names the shard first, and so reads nothing of another.

use filrouge_store::text_index::{CandidateQuery, DocumentNo};
use filrouge_types::Failure;
use rusqlite::Connection;

use super::files::Files;
use super::literal::{Literal, Postings};
use super::postings;
use super::segments::Segment;
use super::spellings;
use crate::error::failure;

/// A document that may meet terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) document: DocumentNo,
    /// A bit for each of the first 64 terms.
    pub(super) met: u64,
    /// How many terms.
    pub(super) count: u32,
    /// [`Candidate::whole`](filrouge_store::text_index::Candidate::whole).
    pub(super) whole: bool,
}

/// What is asked, with the parts of words of its literals.
pub(super) struct Asked {
    terms: Vec<Vec<Literal>>,
    any: bool,
}

impl Asked {
    pub(super) fn of(query: &CandidateQuery<'_>) -> Self {
        let term = |term: &Vec<String>| term.iter().map(|literal| Literal::of(literal)).collect();
        Self {
            terms: query.wanted.terms().iter().map(term).collect(),
            any: query.wanted.is_any(),
        }
    }

    /// Whether everything that passes the rest is a candidate.
    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty() && !self.any
    }

    /// The documents of a shard, in their order.
    pub(super) fn hits(
        &self,
        files: &Files,
        conn: &Connection,
        shard: i64,
    ) -> Result<Vec<Hit>, Failure> {
        let mut hits = self.posted(files, conn, shard)?;
        let sql = "SELECT document, words FROM pending WHERE shard = ?1 ORDER BY document";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query([shard]).map_err(failure)?;
        let mut sorted = true;
        while let Some(row) = rows.next().map_err(failure)? {
            let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let words = words.map_err(failure)?;
            let document: i64 = row.get(0).map_err(failure)?;
            if let Some(hit) = self.weigh(document.cast_unsigned(), words) {
                sorted &= hits.last().is_none_or(|last| last.document < hit.document);
                hits.push(hit);
            }
        }
        if !sorted {
            hits.sort_unstable_by_key(|hit| hit.document);
        }
        Ok(hits)
    }

    /// What a document with these words may meet, if that is enough.
    fn weigh(&self, document: DocumentNo, words: &[u8]) -> Option<Hit> {
        let mut hit = Hit {
            document,
            met: 0,
            count: 0,
            whole: false,
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

    fn posted(&self, files: &Files, conn: &Connection, shard: i64) -> Result<Vec<Hit>, Failure> {
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
            true => self.some_met(&postings),
            false => self.all_met(&postings),
        }
    }

    fn all_met(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut kept: Option<Vec<DocumentNo>> = None;
        for term in &self.terms {
            // What is in no word, or in too many, narrows nothing.
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
        let whole = self.whole(postings)?;
        let hit = |document| Hit {
            document,
            met,
            count,
            whole: whole.binary_search(&document).is_ok(),
        };
        Ok(kept.into_iter().map(hit).collect())
    }

    /// The documents that have all literals of all terms as whole words, where each term has but one.
    fn whole(&self, postings: &Postings<'_>) -> Result<Vec<DocumentNo>, Failure> {
        let mut words = Vec::new();
        for term in &self.terms {
            match term.as_slice() {
                [literal] if !literal.whole.is_empty() => words.extend(&literal.whole),
                _ => return Ok(Vec::new()),
            }
        }
        postings.all_of(&words)
    }

    fn some_met(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut hits: Vec<Hit> = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let found = match postings.term(term)? {
                Some(found) => found,
                None => postings.documents()?,
            };
            hits = joined(&hits, &found, bit(at));
        }
        Ok(hits)
    }
}

/// What has met other terms before, and what meets this one.
fn joined(hits: &[Hit], found: &[DocumentNo], bit: u64) -> Vec<Hit> {
    let mut both = Vec::with_capacity(hits.len() + found.len());
    let mut before = hits.iter().peekable();
    for document in found {
        while let Some(hit) = before.next_if(|hit| hit.document < *document) {
            both.push(*hit);
        }
        let known = before.next_if(|hit| hit.document == *document);
        both.push(Hit {
            document: *document,
            met: known.map_or(0, |hit| hit.met) | bit,
            count: known.map_or(0, |hit| hit.count) + 1,
            whole: false,
        });
    }
    both.extend(before);
    both
}

fn bit(at: usize) -> u64 {
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    1_u64.checked_shl(at).unwrap_or(0)
}
